//! JSON Schemas of the files that users write, so that editors complete and check them.

mod reference;

use serde_json::{Map, Value, json};
use sim_frontend::chip::ChipSpec;
use sim_frontend::workload::WorkloadSpec;

use crate::sweep::spec::SweepSpec;

pub use reference::page;

/// Kinds of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Chip files.
    Chip,
    /// Workload files.
    Workload,
    /// Sweep files.
    Sweep,
}

/// The schema of a kind of file.
pub fn schema(kind: Kind) -> Value {
    let mut schema = whole(kind);
    if kind == Kind::Chip {
        extensible(&mut schema);
    }
    schema
}

/// That of files that say everything.
fn whole(kind: Kind) -> Value {
    let schema = match kind {
        Kind::Chip => schemars::schema_for!(ChipSpec),
        Kind::Workload => schemars::schema_for!(WorkloadSpec),
        Kind::Sweep => schemars::schema_for!(SweepSpec),
    };
    let mut schema = schema.to_value();
    if kind == Kind::Chip
        && let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut)
    {
        let words = "The chip that this file extends: a name, or a path relative to this file. Its keys apply where this file has none.";
        properties.insert("extends".into(), json!({"description": words, "type": "string"}));
    }
    schema
}

/// A chip may extend another: then it needs nothing else, and its sections hold what they change.
fn extensible(schema: &mut Value) {
    let Some(root) = schema.as_object_mut() else { return };
    let required = root.remove("required").unwrap_or_else(|| json!([]));
    drop_required(root);
    root.insert("anyOf".into(), json!([{"required": ["extends"]}, {"required": required}]));
}

fn drop_required(object: &mut Map<String, Value>) {
    // A property may have that name; a list of names is the keyword.
    if object.get("required").is_some_and(Value::is_array) {
        object.remove("required");
    }
    for value in object.values_mut() {
        match value {
            Value::Object(inner) => drop_required(inner),
            Value::Array(list) => list.iter_mut().filter_map(Value::as_object_mut).for_each(drop_required),
            _ => {}
        }
    }
}

/// The schema's text, as it is shipped.
pub fn text(kind: Kind) -> String {
    serde_json::to_string_pretty(&schema(kind)).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    const KINDS: [(Kind, &str); 3] =
        [(Kind::Chip, "chip"), (Kind::Workload, "workload"), (Kind::Sweep, "sweep")];

    #[test]
    fn shipped_schemas_are_those_of_the_types() {
        for (kind, name) in KINDS {
            let shipped = std::fs::read_to_string(format!("schemas/{name}.json")).unwrap_or_default();
            assert!(shipped == text(kind), "run: warpsim schema {name} > schemas/{name}.json");
        }
    }

    fn files(folder: &Path, wanted: &dyn Fn(&Path) -> bool, out: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                files(&path, wanted, out);
            } else if wanted(&path) {
                out.push(path);
            }
        }
    }

    fn value(text: &str) -> Value {
        serde_yaml::from_str_with_options(text, serde_yaml::options! { strict_booleans: true }).expect("YAML")
    }

    #[test]
    fn shipped_files_fit_their_schemas_and_wrong_ones_do_not() {
        for (kind, folder, name) in [
            (Kind::Chip, "configs/chips", None),
            (Kind::Sweep, "configs/sweeps", None),
            (Kind::Workload, "workloads", Some("workload.yaml")),
        ] {
            let validator = jsonschema::validator_for(&schema(kind)).expect("a schema");
            let mut list = Vec::new();
            let wanted = |path: &Path| match name {
                Some(name) => path.ends_with(name),
                None => path.extension().is_some_and(|e| e == "yaml"),
            };
            files(Path::new(folder), &wanted, &mut list);
            assert!(!list.is_empty(), "{folder}");
            for path in list {
                let text = std::fs::read_to_string(&path).expect("readable");
                let found: Vec<String> =
                    validator.iter_errors(&value(&text)).map(|e| e.to_string()).collect();
                assert!(found.is_empty(), "{}: {found:?}", path.display());
                // A key that no such file has.
                let wrong = format!("{text}\nno_such_key: 1\n");
                assert!(!validator.is_valid(&value(&wrong)), "{}", path.display());
            }
        }
        let chip = jsonschema::validator_for(&schema(Kind::Chip)).expect("a schema");
        assert!(chip.is_valid(&value("extends: v100\nlimits: {NumProcessors: 8}\n")));
        assert!(!chip.is_valid(&value("limits: {NumProcessors: 8}\n")), "neither whole nor an extension");
        assert!(!chip.is_valid(&value("extends: v100\nlimits: {NumProcessors: many}\n")));
        assert!(!chip.is_valid(&value("extends: v100\nlimits: {NumProcesors: 8}\n")));
    }
}
