//! YAML files as typed data: unknown keys, wrong types and duplicate keys are diagnostics with
//! line and caret; an unknown key comes with the nearest known one.

use serde::de::DeserializeOwned;

use crate::diagnostic::{Diagnostic, Source, Span, nearest};

/// Reads a YAML file.
///
/// # Errors
/// The first thing that does not fit the type.
pub fn read<T: DeserializeOwned>(source: &Source) -> Result<T, Diagnostic> {
    // `n` and `y` are names here, not YAML 1.1 Booleans.
    let options = serde_yaml::options! { strict_booleans: true };
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
        let mut diagnostic = Diagnostic::error("yaml", message.to_string());
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

/// The place of a key in a file, for values that parse and cannot be: the first line whose key
/// is the last part of the path and that lies below the others.
pub fn key_span(source: &Source, path: &[&str]) -> Option<Span> {
    let mut from = 0;
    let mut found = None;
    for key in path {
        let rest = source.text.get(from..)?;
        let mut offset = from;
        found = None;
        for line in rest.split_inclusive('\n') {
            let trimmed = line.trim_start();
            let indent = line.len() - trimmed.len();
            let flow = trimmed.find(&format!("{key}:"));
            if trimmed.strip_prefix(key).is_some_and(|r| r.trim_start().starts_with(':')) {
                let at = (offset + indent) as u32;
                found = Some(Span { start: at, end: at + key.len() as u32 });
                from = offset + indent + key.len();
                break;
            }
            if let Some(at) = flow.filter(|at| trimmed[..*at].ends_with(['{', ' ', ','])) {
                let at = offset + indent + at;
                found = Some(Span { start: at as u32, end: (at + key.len()) as u32 });
                from = at + key.len();
                break;
            }
            offset += line.len();
        }
        found?;
    }
    found
}
