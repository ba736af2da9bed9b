//! Lines `KEY=VALUE` in front of a litmus test that say what it expects of a model.

/// Values that a key takes; none of these: a number.
pub(crate) const KEYS: [(&str, &[&str]); 4] = [
    ("Verdict", &["allowed", "forbidden", "unknown"]),
    ("Race", &["yes", "no"]),
    ("Terminates", &["yes", "no"]),
    ("Consistent", &[]),
];

/// The reason why a line is not an expectation, if its key is one of these.
pub fn refused(key: &str, value: &str) -> Option<String> {
    let root = key.split('.').next().unwrap_or(key);
    let (_, values) = KEYS.iter().find(|(name, _)| *name == root)?;
    match values {
        [] if value.parse::<u64>().is_err() => {
            Some(format!("`{key}` is a number of executions, not `{value}`"))
        }
        [] => None,
        values if values.contains(&value) => None,
        values => Some(format!("`{key}` is one of {}, not `{value}`", values.join(", "))),
    }
}
