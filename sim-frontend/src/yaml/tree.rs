//! A file that was read once, and is wanted with other values many times: a sweep of ten thousand chips changes a few
//! values of one file.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::node::{Kind, Node};
use super::survey::survey;
use super::{entries, read, read_checked};
use crate::diagnostic::{Source, Span};

/// A file as a tree of values that can be changed.
pub struct Tree {
    source: Source,
    root: Node,
    /// The keys that have places in the text, without which `with_value` finds none.
    placed: HashSet<String>,
}

impl Tree {
    /// The tree of a file that is a `T`; none where the file is no `T`, or where the tree would not give the same `T`
    /// as the text does, as with a number that JSON does not have.
    pub fn of<T: DeserializeOwned + JsonSchema + PartialEq>(source: &Source) -> Option<Self> {
        let typed: T = read_checked(source).ok()?;
        let placed = entries(source).into_iter().map(|(path, ..)| path.join(".")).collect();
        let tree = Self { source: source.clone(), root: read(source).ok()?, placed };
        let again: T = serde_json::from_value(Value::from(&tree.root)).ok()?;
        (typed == again).then_some(tree)
    }

    /// What [`with_value`](super::with_value) and [`read_checked`] make of the file with these values; none where they
    /// would refuse it, or where a value is more than a plain word or number.
    pub fn with<T: DeserializeOwned + JsonSchema>(&self, set: &[(&str, &str)]) -> Option<T> {
        let mut root = self.root.clone();
        for (path, value) in set {
            self.placed.contains(*path).then_some(())?;
            let node = path.split('.').try_fold(&mut root, |node, key| match &mut node.kind {
                Kind::Map(entries) => {
                    entries.iter_mut().find(|(name, ..)| name == key).map(|(.., node)| node)
                }
                _ => None,
            })?;
            let Kind::Scalar(old) = &node.kind else { return None };
            let quoted = old.is_string() && self.begins_with_a_quote(node.at);
            node.kind = Kind::Scalar(scalar(value, quoted)?);
        }
        if !survey::<T>(&self.source, &root, false).is_empty() {
            return None;
        }
        serde_json::from_value(Value::from(&root)).ok()
    }

    fn begins_with_a_quote(&self, at: Span) -> bool {
        self.source.text.get(at.start as usize..).is_some_and(|text| text.starts_with('"'))
    }
}

/// The value of a plain scalar.
fn scalar(text: &str, quoted: bool) -> Option<Value> {
    // Other forms of numbers, as 0x10 or 1e3, are not numbers for every type.
    let plain = match text.starts_with(|c: char| c.is_ascii_digit()) {
        true => text.chars().all(|c| c.is_ascii_digit() || c == '.'),
        false => {
            text.starts_with(|c: char| c.is_ascii_alphabetic())
                && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
        }
    };
    if !plain {
        return None;
    }
    if quoted {
        return Some(text.into());
    }
    match read::<Node>(&Source::new("", text)).ok()?.kind {
        Kind::Scalar(value) => Some(value),
        Kind::List(_) | Kind::Map(_) => None,
    }
}

impl From<&Node> for Value {
    fn from(node: &Node) -> Self {
        match &node.kind {
            Kind::Scalar(value) => value.clone(),
            Kind::List(items) => items.iter().map(Self::from).collect(),
            Kind::Map(entries) => {
                let entries = entries.iter().map(|(key, _, value)| (key.clone(), Self::from(value)));
                Self::Object(entries.collect::<Map<String, Self>>())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::yaml::with_value;

    #[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        #[schemars(range(min = 1, max = 99))]
        count: u32,
        #[serde(default)]
        rate: Option<f64>,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        version: String,
        on: bool,
        inner: Inner,
        #[serde(default)]
        list: Vec<u32>,
    }

    const TEXT: &str = "version: \"7.0\"\non: true\ninner: {count: 5, rate: 1.5}\nlist: [1, 2]\n";

    /// What the text gives with the values, written into it.
    fn by_text(set: &[(&str, &str)]) -> Option<Outer> {
        let source = Source::new("t.yaml", TEXT);
        let changed = set.iter().try_fold(source, |source, (path, value)| with_value(&source, path, value));
        read_checked(&changed.ok()?).ok()
    }

    #[test]
    fn values_are_those_that_the_text_would_have() {
        let tree = Tree::of::<Outer>(&Source::new("t.yaml", TEXT)).expect("an outer");
        assert_eq!(tree.with::<Outer>(&[]), by_text(&[]));
        let values = [
            "1", "99", "100", "0", "007", "-1", "1.5", "1e1", "0x10", "true", "yes", "null", "8.0", "nan",
            "a-b", "5,",
        ];
        for path in ["version", "on", "inner.count", "inner.rate", "list", "inner", "inner.no", "no.no"] {
            for value in values.into_iter().chain([
                "",
                "~",
                ".inf",
                "7 # x",
                "[3]",
                "{count: 1}",
                "1, rate: 2",
                "\"9\"",
                "é",
            ]) {
                let text = by_text(&[(path, value)]);
                match tree.with::<Outer>(&[(path, value)]) {
                    Some(changed) => assert_eq!(Some(changed), text, "{path}={value}"),
                    // What is left to the text may fit or not; plain numbers are not left to it.
                    None => assert!(
                        text.is_none() || !["1", "99", "8.0"].contains(&value),
                        "{path}={value}: {text:?}"
                    ),
                }
            }
        }
        let both = [("inner.count", "7"), ("version", "9.0")];
        let changed = tree.with::<Outer>(&both).expect("fits");
        assert_eq!((changed.inner.count, changed.version.as_str()), (7, "9.0"));
        assert_eq!(Some(changed), by_text(&both));
    }

    #[test]
    fn a_file_whose_tree_differs_has_none() {
        let of = |text: &str| Tree::of::<Outer>(&Source::new("t.yaml", text)).is_some();
        assert!(of(TEXT));
        assert!(!of(&TEXT.replace("1.5", ".inf")), "JSON has no such number");
        assert!(!of(&TEXT.replace("on: true", "on: 5")));
    }
}
