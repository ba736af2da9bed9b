//! YAML files as typed data: unknown keys, wrong types and duplicate keys are diagnostics with
//! line and caret; an unknown key comes with the nearest known one.

mod depth;
mod node;
mod overlay;
mod survey;
pub mod tree;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

pub use depth::check_depth;
use node::span;
pub(crate) use node::span_of;
pub use overlay::Overlaid;

use node::Node;

use crate::diagnostic::{Diagnostic, Source, Span, nearest};

/// Reads a YAML file.
///
/// # Errors
/// The first thing that does not fit the type.
pub fn read<T: DeserializeOwned>(source: &Source) -> Result<T, Diagnostic> {
    check_depth(source)?;
    // `n` and `y` are names here, not YAML 1.1 Booleans.
    let options = serde_yaml::options! {
        strict_booleans: true,
        non_finite_float_policy: serde_yaml::options::NonFiniteFloatPolicy::PassThrough,
    };
    serde_yaml::from_str_with_options::<T>(&source.text, options).map_err(|error| {
        let location = error.location();
        let text = error.to_string();
        let message = text.lines().next().unwrap_or("this is not YAML").trim();
        let message = message.strip_prefix("error: ").unwrap_or(message);
        // "line 3 column 5: …" in front of the reason is said by the place.
        let message = match (message.starts_with("line "), message.split_once(": ")) {
            (true, Some((_, reason))) => reason,
            _ => message,
        };
        let mut diagnostic = Diagnostic::error("yaml", in_our_words(message));
        if let Some(location) = location {
            let span = span_at(source, location.line() as u32, location.column() as u32);
            diagnostic = diagnostic.at(span, "");
        }
        if let Some(near) = unknown_key(message) {
            diagnostic = diagnostic.help(near);
        }
        diagnostic.in_source(source)
    })
}

/// Reads a YAML file, and says all at once which keys are missing, unknown, of a wrong kind or out of their
/// bounds.
///
/// # Errors
/// Everything that does not fit the type.
pub fn read_checked<T: DeserializeOwned + JsonSchema>(source: &Source) -> Result<T, Vec<Diagnostic>> {
    match survey(source) {
        (Some(read), found) if found.is_empty() => Ok(read),
        (_, found) => Err(found),
    }
}

/// What can be read of a YAML file, with everything that does not fit the type.
pub fn survey<T: DeserializeOwned + JsonSchema>(source: &Source) -> (Option<T>, Vec<Diagnostic>) {
    let typed = read::<T>(source);
    let root = match (&typed, read::<Node>(source)) {
        (_, Ok(root)) => root,
        // What is not even YAML was said just now.
        (Err(error), Err(_)) => return (None, vec![error.clone()]),
        (Ok(_), Err(error)) => return (None, vec![error]),
    };
    let found = survey::survey::<T>(source, &root, typed.is_err());
    let (read, error) = match typed {
        Ok(read) => (Some(read), None),
        Err(error) => (None, Some(error)),
    };
    // What typed reading stopped at, unless it is among what was found.
    let said = |error: &Diagnostic| {
        let missing = error.message.ends_with(" is missing") && !found.is_empty();
        let at = error.labels.first().map_or(0, |(at, _)| at.start);
        let holds = |extent: &Span| extent.start <= at && at <= extent.end;
        missing || found.iter().filter_map(|finding| finding.extent.as_ref()).any(holds)
    };
    let error = error.filter(|error| !said(error));
    let mut errors: Vec<Diagnostic> = found.into_iter().map(|finding| finding.error).chain(error).collect();
    errors.sort_by_key(|error| error.labels.first().map_or(0, |(at, _)| at.start));
    (read, errors)
}

#[cfg(test)]
pub(crate) fn survey_of<T: JsonSchema>(source: &Source, value: &serde_json::Value) -> Vec<Diagnostic> {
    let found = survey::survey::<T>(source, &Node::from(value), true);
    found.into_iter().map(|finding| finding.error).collect()
}

/// What the YAML library says, without its own names.
fn in_our_words(message: &str) -> String {
    let quoted = |text: &str| text.split(['`', '"', '\'']).nth(1).map(str::to_string);
    if message.contains("DuplicateKeyPolicy") || message.starts_with("duplicate mapping key") {
        return match quoted(message) {
            Some(key) => format!("the key `{key}` is given twice in one mapping"),
            None => "a key is given twice in one mapping".to_string(),
        };
    }
    if message.starts_with("non-finite float") {
        return "expected a finite number".to_string();
    }
    if message.contains("budget") {
        return "the file has more nodes, aliases or nested values than any such file needs".to_string();
    }
    for (bits, words) in [("u8", 8), ("u16", 16), ("u32", 32), ("u64", 64)] {
        if message.starts_with(&format!("invalid {bits}")) {
            return format!("expected an integer from 0 to {}", u64::MAX >> (64 - words));
        }
    }
    if message.starts_with("invalid f64") || message.starts_with("invalid floating") {
        return "expected a number".to_string();
    }
    if message.starts_with("invalid bool") {
        return "expected `true` or `false`".to_string();
    }
    if let Some((found, expected)) = message
        .strip_prefix("invalid type: ")
        .or_else(|| message.strip_prefix("invalid value: "))
        .and_then(|rest| rest.split_once(", expected "))
    {
        let found = match found.split(' ').next().unwrap_or_default() {
            "sequence" => "a list".to_string(),
            "map" | "struct" => "a mapping".to_string(),
            "unit" | "Option" => "nothing".to_string(),
            // `string "n"`, `integer `5``.
            _ => found.split_once(' ').map_or(found, |(_, value)| value).to_string(),
        };
        return format!("expected {expected}, found {found}");
    }
    if let Some((found, expected)) =
        message.strip_prefix("unknown variant ").and_then(|rest| rest.split_once(", expected "))
    {
        return format!("{found} is not valid here; expected {expected}");
    }
    if let Some(key) = message.strip_prefix("missing field ") {
        return format!("the key {key} is missing");
    }
    if message.starts_with("data did not match any variant") {
        return "the value has none of the accepted forms (docs/reference lists them)".to_string();
    }
    if message.contains("simple key expected") {
        return "expected `:` after the key".to_string();
    }
    message.to_string()
}

/// For "unknown field `x`, expected one of `a`, `b`": the nearest.
fn unknown_key(message: &str) -> Option<String> {
    let rest = message.split("unknown field ").nth(1).or_else(|| message.split("unknown variant ").nth(1))?;
    let wrong = rest.split('`').nth(1)?;
    let known = rest.split("expected").nth(1)?.trim_start_matches(" one of ");
    let words = known.split(',').map(|word| word.trim().trim_matches('`'));
    let near = nearest(wrong, words)?;
    Some(format!("did you mean `{near}`?"))
}

fn span_at(source: &Source, line: u32, column: u32) -> Span {
    let start: usize =
        source.text.split_inclusive('\n').take(line.saturating_sub(1) as usize).map(str::len).sum();
    let rest = source.text.get(start..).unwrap_or("");
    let skip: usize = rest.chars().take(column.saturating_sub(1) as usize).map(char::len_utf8).sum();
    let word = rest
        .get(skip..)
        .unwrap_or("")
        .chars()
        .take_while(|c| !c.is_whitespace() && *c != ':')
        .map(char::len_utf8)
        .sum::<usize>();
    let at = (start + skip) as u32;
    Span { start: at, end: at + word.max(1) as u32 }
}

/// The paths of the keys of a file, where each stands and where its value does: block mappings by indentation, flow mappings on
/// one line. That is how chip and workload files are written; a file in another style has no places.
pub fn entries(source: &Source) -> Vec<(Vec<&str>, Span, Span)> {
    let mut out = Vec::new();
    let mut open: Vec<(usize, &str)> = Vec::new();
    let mut offset = 0;
    for line in source.text.split_inclusive('\n') {
        let body = line.trim_start();
        let indent = line.len() - body.len();
        let start = offset + indent;
        offset += line.len();
        let Some((key, rest)) = split_key(body) else { continue };
        open.retain(|(outer, _)| *outer < indent);
        open.push((indent, key));
        let path: Vec<&str> = open.iter().map(|(_, key)| *key).collect();
        let value = uncommented(rest);
        let lead = value.len() - value.trim_start().len();
        let at = start + body.len() - rest.len() + lead;
        let value = value.trim();
        let key_at = span(start, key.len());
        out.push((path.clone(), key_at, span(at, value.len())));
        flow_entries(&path, value, at, &mut out);
    }
    out
}

/// `key:` at the front of a line, and what follows.
fn split_key(text: &str) -> Option<(&str, &str)> {
    let length = text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '.')?;
    let rest = text[length..].strip_prefix(':')?;
    (length > 0 && (rest.is_empty() || rest.starts_with(char::is_whitespace)))
        .then_some((&text[..length], rest))
}

/// What stands before a comment.
fn uncommented(text: &str) -> &str {
    let mut quote = None;
    for (i, c) in text.char_indices() {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            (None, '#') => return &text[..i],
            _ => {}
        }
    }
    text
}

/// The entries of `{key: value, …}`.
fn flow_entries<'s>(path: &[&'s str], text: &'s str, at: usize, out: &mut Vec<(Vec<&'s str>, Span, Span)>) {
    let Some(inner) = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) else { return };
    let mut depth = 0;
    let mut start = 0;
    let ends = inner.char_indices().chain([(inner.len(), ',')]);
    for (i, c) in ends {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            ',' if depth == 0 => {
                let part = &inner[start..i];
                let lead = part.len() - part.trim_start().len();
                let key_at = at + 1 + start + lead;
                start = i + 1;
                let Some((key, rest)) = split_key(part.trim()) else { continue };
                let value = rest.trim();
                let value_at = key_at + key.len() + 1 + (rest.len() - rest.trim_start().len());
                let deeper: Vec<&str> = path.iter().copied().chain([key]).collect();
                out.push((deeper.clone(), span(key_at, key.len()), span(value_at, value.len())));
                flow_entries(&deeper, value, value_at, out);
            }
            _ => {}
        }
    }
}

/// The place of a key in a file, for values that parse and cannot be.
pub fn key_span(source: &Source, path: &[&str]) -> Option<Span> {
    entries(source).into_iter().find(|(found, ..)| found == path).map(|(_, key, _)| key)
}

/// The text of a value and its place.
pub fn value_of<'s>(source: &'s Source, path: &[&str]) -> Option<(&'s str, Span)> {
    let (.., at) = entries(source).into_iter().find(|(found, ..)| found == path)?;
    source.text.get(at.start as usize..at.end as usize).map(|text| (text.trim_matches(['"', '\'']), at))
}

/// The file with another value at a path; its name says so, and everything that reads it checks
/// the new value like an old one.
///
/// # Errors
/// The file has no such key, or a whole mapping stands there.
pub fn with_value(source: &Source, path: &str, value: &str) -> Result<Source, Diagnostic> {
    let all = entries(source);
    let parts: Vec<&str> = path.split('.').collect();
    let Some((.., old)) = all.iter().find(|(found, ..)| *found == parts) else {
        let paths: Vec<String> = all.iter().map(|(found, ..)| found.join(".")).collect();
        let error = Diagnostic::error("set", format!("{} has no key `{path}`", source.name));
        return Err(error.did_you_mean(path, paths.iter().map(String::as_str)));
    };
    if old.start == old.end
        || all.iter().any(|(found, ..)| found.len() > parts.len() && found.starts_with(&parts))
    {
        return Err(Diagnostic::error("set", format!("`{path}` is a mapping: name one of its keys")));
    }
    let (before, after) = (&source.text[..old.start as usize], &source.text[old.end as usize..]);
    let quoted = |text: &str| if text.starts_with('"') { format!("\"{value}\"") } else { value.to_string() };
    let new = quoted(&source.text[old.start as usize..old.end as usize]);
    Ok(Source::new(&format!("{} with {path}={value}", source.name), &format!("{before}{new}{after}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "a: 1 # one: two\nb:\n  c: 2\n  d: {e: 3, f: {g: 4}}\n  v: \"2.0\"\nc: 5\n";

    #[test]
    fn keys_are_found_by_their_whole_path() {
        let source = Source::new("t.yaml", TEXT);
        let text = |path: &[&str]| key_span(&source, path).map(|s| (s.start, s.end));
        assert_eq!(text(&["c"]), Some((TEXT.len() as u32 - 5, TEXT.len() as u32 - 4)));
        assert_eq!(text(&["b", "c"]).map(|s| &TEXT[s.0 as usize..s.0 as usize + 4]), Some("c: 2"));
        assert_eq!(text(&["b", "d", "f", "g"]).map(|s| &TEXT[s.0 as usize..s.0 as usize + 4]), Some("g: 4"));
        assert_eq!(text(&["b", "a"]), None);
        assert_eq!(text(&["one"]), None);
    }

    #[test]
    fn the_librarys_words_become_ours() {
        for (theirs, ours) in [
            ("invalid type: string \"n\", expected a number", "expected a number, found \"n\""),
            ("invalid type: sequence, expected a string", "expected a string, found a list"),
            ("invalid type: map, expected a number", "expected a number, found a mapping"),
            ("invalid type: unit value, expected a string", "expected a string, found nothing"),
            ("invalid type: integer `5`, expected a string", "expected a string, found `5`"),
            ("missing field `axes`", "the key `axes` is missing"),
            ("unknown variant `x`, expected one of a, b", "`x` is not valid here; expected one of a, b"),
            ("simple key expected ':'", "expected `:` after the key"),
            (
                "data did not match any variant of untagged enum Values",
                "the value has none of the accepted forms (docs/reference lists them)",
            ),
            ("invalid u64: out of range", "expected an integer from 0 to 18446744073709551615"),
        ] {
            assert_eq!(in_our_words(theirs), ours);
        }
        let list = read_checked::<crate::chip::ChipSpec>(&Source::new("l.yaml", "- a\n- b\n"));
        let said: Vec<String> = list.expect_err("refused").iter().map(ToString::to_string).collect();
        assert_eq!(said, ["l.yaml:1:1: error: the file must be a mapping, `key: value` line by line"]);
    }

    #[test]
    fn values_are_replaced_where_they_stand() {
        let source = Source::new("t.yaml", TEXT);
        let with = |path, value| with_value(&source, path, value).map(|s| s.text.to_string());
        assert_eq!(with("b.d.f.g", "77").expect("found"), TEXT.replace("g: 4", "g: 77"));
        assert_eq!(with("a", "9").expect("found"), TEXT.replace("a: 1", "a: 9"));
        assert_eq!(with("b.v", "3.0").expect("found"), TEXT.replace("2.0", "3.0"));
        assert!(with("b.d", "1").expect_err("a mapping").message.contains("a mapping: name one of its keys"));
        assert!(with("b", "1").is_err());
        let error = with("b.cc", "1").expect_err("no such key");
        assert_eq!(error.help.as_deref(), Some("did you mean `b.c`?"));
    }
}
