//! A file on top of another: its keys replace those of the file it extends, or join them.

use serde_json::Value;

use super::node::span;
use super::{entries, read};
use crate::diagnostic::{Diagnostic, Source, Span};

/// A file that extends another, as one text.
#[derive(Clone, Debug)]
pub struct Overlaid {
    /// The file that extends.
    own: Source,
    /// Its keys on top of the other's.
    pub merged: Source,
}

impl Overlaid {
    /// The keys of `own`, but for `without`, on top of those of `base`. A key whose value is `null` takes
    /// away what the base has there.
    ///
    /// # Errors
    /// A key of `own` stands where the base has a value that cannot hold keys.
    pub fn new(base: &Source, own: &Source, without: &str) -> Result<Self, Diagnostic> {
        let all = entries(own);
        for (i, (path, key, _)) in all.iter().enumerate() {
            if let Some((_, first, _)) = all[..i].iter().find(|(other, ..)| other == path) {
                let message = format!("`{}` is given twice", path.join("."));
                let error = Diagnostic::error("extends", message).at(*key, "again").at(*first, "first");
                return Err(error.in_source(own));
            }
        }
        for (path, key, value) in &all {
            let text = own.text.get(value.start as usize..value.end as usize).unwrap_or_default();
            let count = |brackets: [char; 2]| text.matches(brackets).count();
            if !text.starts_with(['"', '\'']) && count(['{', '[']) != count(['}', ']']) {
                let message = format!("the value of `{}` spans more than one line", path.join("."));
                return Err(Diagnostic::error("extends", message).at(*key, "").in_source(own));
            }
        }
        // A key that is not found in the text would not count.
        if let Some(unseen) = unseen(&read::<Value>(own)?, &mut Vec::new(), &all) {
            let message =
                format!("`{}` is not written as one of `key: value` or `{{key: value}}` on one line", unseen);
            let error = Diagnostic::error("extends", message);
            // Its last step is in the text, in whatever form.
            let step = unseen.rsplit('.').next().unwrap_or_default();
            let place = own.text.find(step).map(|at| span(at, at + step.len()));
            let error = match place {
                Some(place) => error.at(place, "").in_source(own),
                None => error.in_source(own),
            };
            return Err(error.help("write `key: value`, with a space after the colon"));
        }
        let is_group = |path: &[&str]| all.iter().any(|(p, ..)| p.len() > path.len() && p.starts_with(path));
        let mut text = base.text.to_string();
        for (path, key, value) in all.iter().filter(|(path, ..)| *path != [without]) {
            if is_group(path) {
                continue;
            }
            let value = own.text.get(value.start as usize..value.end as usize).unwrap_or_default();
            if value.is_empty() {
                let message = format!("`{}` has no value", path.join("."));
                return Err(Diagnostic::error("extends", message).at(*key, "").in_source(own));
            }
            text = with(&Source::new(&base.name, &text), path, value).map_err(|reason| {
                let message = format!("`{}`: {reason} in {}", path.join("."), base.name);
                Diagnostic::error("extends", message).at(*key, "").in_source(own)
            })?;
        }
        let name = format!("{} (extends {})", own.name, base.name);
        Ok(Self { own: own.clone(), merged: Source::new(&name, &text) })
    }

    /// A diagnostic of the merged text, at the place of the key in the file that extends, if it is its.
    pub fn blame(&self, mut error: Diagnostic) -> Diagnostic {
        let Some((place, _)) = error.labels.first() else { return error };
        let holds = |span: &Span| span.start <= place.start && place.start <= span.end;
        let merged = entries(&self.merged);
        let own = entries(&self.own);
        let found = merged.iter().rfind(|(_, key, value)| holds(key) || holds(value));
        let Some((path, ..)) = found else { return error };
        // The key itself, or the nearest one above it that this file writes.
        for length in (1..=path.len()).rev() {
            if let Some((_, key, _)) = own.iter().find(|(p, ..)| *p == path[..length]) {
                error.labels = vec![(*key, String::new())];
                error.source = Some(self.own.clone());
                return error;
            }
        }
        error
    }
}

/// The first key of a value that is not among the entries of the text.
fn unseen<'v>(value: &'v Value, path: &mut Vec<&'v str>, all: &[(Vec<&str>, Span, Span)]) -> Option<String> {
    for (key, inner) in value.as_object()? {
        path.push(key);
        let found = all.iter().any(|(other, ..)| *other == **path);
        let inside = if found { unseen(inner, path, all) } else { Some(path.join(".")) };
        path.pop();
        if inside.is_some() {
            return inside;
        }
    }
    None
}

/// `base` with a value at a path, which may be new; or why it cannot be there.
fn with(base: &Source, path: &[&str], value: &str) -> Result<String, String> {
    let all = entries(base);
    let replace = |at: Span, new: &str| {
        format!("{}{new}{}", &base.text[..at.start as usize], &base.text[at.end as usize..])
    };
    let below =
        |path: &[&str]| all.iter().filter(|(p, ..)| p.len() > path.len() && p.starts_with(path)).count();
    if let Some((_, key, old)) = all.iter().find(|(p, ..)| p == path) {
        if below(path) == 0 || old.start < old.end {
            return Ok(replace(*old, value));
        }
        // A block of keys: its lines go.
        return Ok(replace(
            span(key.end as usize + 1, end_of(base, &all, path) - key.end as usize - 1),
            &format!(" {value}\n"),
        ));
    }
    // The keys that are missing: one, or one within another.
    let known =
        (0..path.len()).rev().find(|n| *n == 0 || all.iter().any(|(p, ..)| *p == path[..*n])).unwrap_or(0);
    let (outer, missing) = path.split_at(known);
    let (first, rest) = missing.split_first().ok_or("there is no key")?;
    let inner = rest.iter().rev().fold(value.to_string(), |inner, key| format!("{{{key}: {inner}}}"));
    if outer.is_empty() {
        let line = if base.text.ends_with('\n') { "" } else { "\n" };
        return Ok(format!("{}{line}{first}: {inner}\n", base.text));
    }
    let Some((.., old)) = all.iter().find(|(p, ..)| p == outer) else {
        return Err("there is no key".into());
    };
    let text = &base.text[old.start as usize..old.end as usize];
    if text == "null" || text == "{}" {
        return Ok(replace(*old, &format!("{{{first}: {inner}}}")));
    }
    if let Some(list) = text.strip_suffix('}') {
        return Ok(replace(*old, &format!("{list}, {first}: {inner}}}")));
    }
    if old.start < old.end || below(outer) == 0 {
        return Err("expected these keys, found a value".to_string());
    }
    // Behind the last line of the block, as deep as its first key.
    let deep = all.iter().find(|(p, ..)| p.len() == outer.len() + 1 && p.starts_with(outer));
    let indent = deep.map_or(0, |(_, key, _)| base.position(key.start).1 - 1) as usize;
    let end = end_of(base, &all, outer);
    Ok(format!("{}{:indent$}{first}: {inner}\n{}", &base.text[..end], "", &base.text[end..]))
}

/// The end of the last line of a block of keys, line feed included.
fn end_of(source: &Source, all: &[(Vec<&str>, Span, Span)], path: &[&str]) -> usize {
    let inside = all.iter().filter(|(p, ..)| p.starts_with(path));
    let last = inside.map(|(_, key, value)| key.end.max(value.end)).max().unwrap_or(0) as usize;
    source.text[last..].find('\n').map_or(source.text.len(), |i| last + i + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "a: 1 # one\nb:\n  c: 2\n  d: {e: 3, f: {g: 4}}\n  h:\n    i: 5\nj: 6\n";

    fn on(own: &str) -> String {
        let (base, own) = (Source::new("base.yaml", BASE), Source::new("own.yaml", own));
        Overlaid::new(&base, &own, "extends").map_or_else(|e| e.to_string(), |o| o.merged.text.to_string())
    }

    #[test]
    fn keys_replace_join_and_take_away() {
        assert_eq!(on("extends: base\na: 9 # nine\n"), BASE.replace("a: 1", "a: 9"));
        assert_eq!(on("b:\n  d: {e: 7}\n"), BASE.replace("e: 3", "e: 7"));
        assert_eq!(on("b:\n  d: {k: 7}\n"), BASE.replace("{g: 4}}", "{g: 4}, k: 7}"));
        assert_eq!(on("b:\n  k: 7\n"), BASE.replace("    i: 5\n", "    i: 5\n  k: 7\n"));
        assert_eq!(on("b:\n  h:\n    k: [7, 8]\n"), BASE.replace("    i: 5\n", "    i: 5\n    k: [7, 8]\n"));
        assert_eq!(on("k: 7\n"), format!("{BASE}k: 7\n"));
        assert_eq!(
            on("b:\n  k: {l: 7, m: 8}\n"),
            BASE.replace("    i: 5\n", "    i: 5\n  k: {l: 7, m: 8}\n")
        );
        assert_eq!(on("b:\n  h: null\n"), BASE.replace("  h:\n    i: 5\n", "  h: null\n"));
        assert_eq!(on("b: null\n"), "a: 1 # one\nb: null\nj: 6\n");
    }

    #[test]
    fn a_key_counts_once_and_only_where_it_is_seen() {
        assert_eq!(on("a: 2\na: 3\n"), "own.yaml:2:1: error: `a` is given twice");
        assert_eq!(on("b: {d: {e: 1, e: 2}}\n"), "own.yaml:1:15: error: `b.d.e` is given twice");
        assert_eq!(on("b:\n  c: 7\nb: {c: 8}\n"), "own.yaml:3:1: error: `b` is given twice");
        let said = on("b: {\n  c: 7}\n");
        assert_eq!(said, "own.yaml:1:1: error: the value of `b` spans more than one line");
        assert!(on("\"a\": 7\n").contains("`a` is not written as"));
    }

    #[test]
    fn wrong_keys_are_those_of_the_file_that_extends() {
        assert_eq!(
            on("a:\n  b: 1\n"),
            "own.yaml:2:3: error: `a.b`: expected these keys, found a value in base.yaml"
        );
        assert_eq!(on("a:\n"), "own.yaml:1:1: error: `a` has no value");
        let (base, own) = (Source::new("base.yaml", BASE), Source::new("own.yaml", "b:\n  d: {e: 7}\n"));
        let overlaid = Overlaid::new(&base, &own, "extends").expect("fits");
        let at = overlaid.merged.text.find("7").expect("there") as u32;
        let error = Diagnostic::error("chip", "too many")
            .at(Span { start: at, end: at + 1 }, "")
            .in_source(&overlaid.merged);
        assert_eq!(overlaid.blame(error).to_string(), "own.yaml:2:7: error: too many");
        // What the base says is the base's.
        let error = Diagnostic::error("chip", "too few")
            .at(Span { start: 0, end: 1 }, "")
            .in_source(&overlaid.merged);
        assert_eq!(overlaid.blame(error).to_string(), "own.yaml (extends base.yaml):1:1: error: too few");
    }
}
