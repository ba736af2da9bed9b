//! Lines `KEY=VALUE` in front of a litmus test that say what it expects of a model.

use crate::models::MODELS;

/// Values that a key takes; none of these: a number.
pub(crate) const KEYS: [(&str, &[&str]); 4] = [
    ("Verdict", &["allowed", "forbidden", "unknown"]),
    ("Race", &["yes", "no"]),
    ("Terminates", &["yes", "no"]),
    ("Consistent", &[]),
];

/// The reason why a line is not an expectation, if its key is one of these.
pub fn refused(key: &str, value: &str) -> Option<String> {
    let (root, model) = key.split_once('.').map_or((key, None), |(root, model)| (root, Some(model)));
    let Some((_, values)) = KEYS.iter().find(|(name, _)| *name == root) else {
        // Other tools have keys of their own; a misspelt one of ours would never be checked.
        let near = KEYS.iter().find(|(name, _)| strsim::osa_distance(name, root) <= 2)?;
        return Some(format!("`{key}` is not an expectation; did you mean `{}`?", near.0));
    };
    if let Some(model) = model.filter(|model| model.starts_with("ptx-"))
        && !MODELS.iter().any(|(name, _)| *name == model)
    {
        let names: Vec<&str> =
            MODELS.iter().map(|(name, _)| *name).filter(|name| name.starts_with("ptx-")).collect();
        return Some(format!("`{key}` names no model; the models of PTX are {}", names.join(", ")));
    }
    match values {
        [] if value.parse::<u64>().is_err() => {
            Some(format!("`{key}` is a number of executions, not `{value}`"))
        }
        [] => None,
        values if values.contains(&value) => None,
        values => Some(format!("`{key}` must be one of {}, not `{value}`", values.join(", "))),
    }
}
