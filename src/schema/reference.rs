//! The schemas as pages for people: a table of keys for each part of a file.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::{Map, Value};

use super::{Kind, whole};

/// The page of a kind of file, in Markdown.
pub fn page(kind: Kind) -> String {
    let schema = whole(kind);
    let (title, about) = match kind {
        Kind::Chip => (
            "Chip files",
            "A file in `configs/chips`, or any file given by `--chip FILE`. A file with `extends:` needs only the \
             keys that it changes.",
        ),
        Kind::Workload => ("Workload files", "`workload.yaml` in a folder with its PTX and data."),
        Kind::Sweep => ("Sweep files", "The input of `warpsim sweep`; see [Sweeps](../sweeps.md)."),
    };
    let page = Page { schema: &schema, open: Vec::new(), seen: BTreeSet::new(), out: String::new() };
    page.whole(title, about, kind)
}

struct Page<'s> {
    schema: &'s Value,
    /// Definitions that are named and have no section yet.
    open: Vec<String>,
    seen: BTreeSet<String>,
    out: String,
}

impl Page<'_> {
    fn whole(mut self, title: &str, about: &str, kind: Kind) -> String {
        let name = format!("{kind:?}").to_lowercase();
        let _ = write!(
            self.out,
            "<!-- Made by `warpsim schema {name} --markdown`. -->\n\n# {title}\n\n{about}\n\n\
             `schemas/{name}.json` is the JSON Schema of it: an editor with a YAML language server completes \
             and checks a file that begins with `# yaml-language-server: $schema=…/schemas/{name}.json`.\n\n"
        );
        let root = self.schema;
        self.keys(root);
        while !self.open.is_empty() {
            let name = self.open.remove(0);
            let definition = &root["$defs"][name.as_str()];
            let _ = write!(self.out, "\n## {name}\n\n{}\n\n", words(definition));
            self.definition(definition);
        }
        self.out.truncate(self.out.trim_end().len());
        self.out + "\n"
    }

    /// What a definition says: its keys, or its choices.
    fn definition(&mut self, definition: &Value) {
        if definition["properties"].is_object() {
            self.keys(definition);
        } else if let Some(list) = choices(definition) {
            for choice in list {
                let form = self.form(choice);
                let _ = writeln!(self.out, "- {form}: {}", words(choice));
            }
        } else {
            let form = self.form(definition);
            let _ = writeln!(self.out, "{form}.");
        }
    }

    /// A table of keys, those that must be there first named as such.
    fn keys(&mut self, object: &Value) {
        let Some(properties) = object["properties"].as_object() else { return };
        let required: Vec<&str> =
            object["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        self.out.push_str("| key | value | default | meaning |\n|---|---|---|---|\n");
        for (key, property) in properties {
            let form = self.form(property).replace('|', "\\|");
            let default = match property.get("default") {
                Some(Value::Null) => "–".to_string(),
                Some(value) => format!("`{value}`"),
                None if required.contains(&key.as_str()) => "required".to_string(),
                None => "–".to_string(),
            };
            let meaning = words(property).replace('|', "\\|");
            let _ = writeln!(self.out, "| `{key}` | {form} | {default} | {meaning} |");
        }
    }

    /// What may stand there, in words.
    fn form(&mut self, schema: &Value) -> String {
        if let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
            if self.seen.insert(name.to_string()) {
                self.open.push(name.to_string());
            }
            return format!("[{name}](#{})", name.to_lowercase());
        }
        if let Some(word) = schema.get("const").and_then(Value::as_str) {
            return format!("`{word}`");
        }
        if let Some(list) = schema["enum"].as_array() {
            let words: Vec<String> =
                list.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect();
            return words.join(", ");
        }
        if let Some(list) = choices(schema) {
            let forms: Vec<String> = list
                .iter()
                .filter(|choice| choice["type"] != "null")
                .map(|choice| self.form(choice))
                .collect();
            return forms.join(" or ");
        }
        let types: Vec<&str> = match &schema["type"] {
            Value::Array(list) => list.iter().filter_map(Value::as_str).filter(|ty| *ty != "null").collect(),
            other => other.as_str().into_iter().collect(),
        };
        match types.first() {
            Some(&"array") => {
                let of = self.form(&schema["items"]);
                match (schema["minItems"].as_u64(), schema["maxItems"].as_u64()) {
                    (Some(least), Some(most)) if least == most => format!("list of {least}: {of}"),
                    _ => format!("list of: {of}"),
                }
            }
            Some(&"object") => self.object(schema),
            Some(&"integer") => format!("whole number{}", bounds(schema)),
            Some(&"number") => format!("number{}", bounds(schema)),
            Some(&"string") => "text".to_string(),
            Some(&"boolean") => "`true` or `false`".to_string(),
            _ => "anything".to_string(),
        }
    }

    fn object(&mut self, schema: &Value) -> String {
        if let Some(properties) = schema["properties"].as_object() {
            let parts: Vec<String> = properties.iter().map(|(key, value)| self.pair(key, value)).collect();
            return format!("`{{{}}}`", parts.join(", "));
        }
        match &schema["additionalProperties"] {
            Value::Object(_) => format!("by name: {}", self.form(&schema["additionalProperties"])),
            _ => "keys and values".to_string(),
        }
    }

    /// A key within braces, with the keys of its value.
    fn pair(&mut self, key: &str, value: &Value) -> String {
        if let Some(name) = value["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
            let inner = &self.schema["$defs"][name];
            if inner["properties"].is_object() {
                return self.pair(key, inner);
            }
        }
        match value["properties"].as_object() {
            Some(inner) => {
                let keys: Vec<&str> = inner.keys().map(String::as_str).collect();
                format!("{key}: {{{}}}", keys.join(", "))
            }
            None => format!("{key}: …"),
        }
    }
}

/// What a number lies between, where both are said.
fn bounds(schema: &Value) -> String {
    match (&schema["minimum"], &schema["maximum"]) {
        (Value::Number(least), Value::Number(most)) if least == most => format!(": {least}"),
        (Value::Number(least), Value::Number(most)) => format!(" from {least} to {most}"),
        _ => String::new(),
    }
}

/// The choices that a schema gives.
fn choices(schema: &Value) -> Option<&Vec<Value>> {
    let object: &Map<String, Value> = schema.as_object()?;
    // A whole chip, or one that extends another, is no choice of values.
    object
        .get("oneOf")
        .or_else(|| object.get("anyOf").filter(|_| !object.contains_key("properties")))?
        .as_array()
}

/// What a schema says of itself, in one line.
fn words(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_pages_are_those_of_the_schemas() {
        for (kind, name) in [(Kind::Chip, "chip"), (Kind::Workload, "workload"), (Kind::Sweep, "sweep")] {
            let shipped = std::fs::read_to_string(format!("docs/reference/{name}.md")).unwrap_or_default();
            assert!(
                shipped == page(kind),
                "run: warpsim schema {name} --markdown > docs/reference/{name}.md"
            );
        }
    }

    #[test]
    fn every_key_and_choice_has_its_line() {
        fn keys<'s>(value: &'s Value, out: &mut BTreeSet<&'s str>) {
            match value {
                Value::Object(object) => {
                    if let Some(properties) = object.get("properties").and_then(Value::as_object) {
                        out.extend(properties.keys().map(String::as_str));
                    }
                    out.extend(object.get("const").and_then(Value::as_str));
                    object.values().for_each(|value| keys(value, out));
                }
                Value::Array(list) => list.iter().for_each(|value| keys(value, out)),
                _ => {}
            }
        }
        for kind in [Kind::Chip, Kind::Workload, Kind::Sweep] {
            let (schema, page) = (whole(kind), page(kind));
            let mut all = BTreeSet::new();
            keys(&schema, &mut all);
            assert!(all.len() > 20);
            for key in all {
                let named = page.contains(&format!("`{key}`")) || page.contains(key);
                assert!(named, "{kind:?}: {key}");
            }
            // Links lead to sections.
            for link in page.split("](#").skip(1).filter_map(|rest| rest.split(')').next()) {
                let found = page.lines().any(|line| line.to_lowercase() == format!("## {link}"));
                assert!(found, "{kind:?}: {link}");
            }
        }
    }

    #[test]
    fn every_type_a_user_writes_has_its_section() {
        for (kind, sections) in [
            (
                Kind::Workload,
                "AlongW Argument BufferSpec Expectation Expr Fill Im2colSpec ImageAddress ImageAddresses ImageFilter \
                 ImageRead ImageSpec ImageStorage Init LoopSpec ScalarType Schedule Step SwizzleAtom TensorFill \
                 TensorMapSpec Termination Tolerance UndefinedValues Until VariableSpec Variant",
            ),
            (
                Kind::Chip,
                "AssemblerSpec BankRule CacheSpec Choice ClockSpec ClusterSpec Coalescing CombineAtomics ConstantCacheSpec ConstantOperands ConstantSpec \
                 DispatchSpec DramSpec FenceSpec HalvesSpec IndexFunction InstructionCacheSpec InterconnectSpec Limits MemorySpec Protocol RegisterAllocation SharedSpec \
                 SliceReads SliceWrites SmSpec TensorArithmetic TensorGroups TensorSpec TlbLevel TlbSpec TmaSpec UnifiedSpec UnitClass UnitScope UnitSpec \
                 UnitTable WarpgroupSpec WriteQueueSpec",
            ),
            (Kind::Sweep, "Axes Common Scalar Values Wanted Workload Workloads"),
        ] {
            let page = page(kind);
            let found: BTreeSet<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
            let wanted: BTreeSet<&str> = sections.split_whitespace().collect();
            assert_eq!(found, wanted, "{kind:?}");
        }
    }
}
