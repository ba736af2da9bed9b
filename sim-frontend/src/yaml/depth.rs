//! The nesting depth of a YAML text, measured in one pass before anything is parsed: parsers take
//! time by the square of it.

use crate::diagnostic::{Diagnostic, Source, Span};

/// Values within each other that a file may have.
const DEEPEST: usize = 64;

/// Refuses a file whose values lie too deep within each other.
///
/// # Errors
/// The first place that does.
pub fn check_depth(source: &Source) -> Result<(), Diagnostic> {
    let mut blocks: Vec<usize> = Vec::new();
    let mut flows = 0usize;
    let mut quote = None;
    let mut offset = 0;
    for line in source.text.split_inclusive('\n') {
        let body = line.trim_start_matches([' ', '-', '?']);
        let indent = line.len() - body.len();
        if flows == 0 && quote.is_none() && !body.trim().is_empty() && !body.starts_with('#') {
            // Each dash is a sequence of its own.
            let dashes = line[..indent].bytes().enumerate().filter(|(_, byte)| *byte == b'-');
            for at in dashes.map(|(at, _)| at).chain([indent]) {
                while blocks.last().is_some_and(|open| *open >= at) {
                    blocks.pop();
                }
                blocks.push(at);
            }
        }
        let mut before = b' ';
        for (i, byte) in line.bytes().enumerate().skip(indent) {
            let starts = matches!(before, b' ' | b'\t' | b'[' | b'{' | b',' | b':');
            match (quote, byte) {
                (None, b'"' | b'\'') if starts => quote = Some(byte),
                (Some(open), _) if open == byte && before != b'\\' => quote = None,
                (None, b'#') if before == b' ' => break,
                (None, b'[' | b'{') if flows > 0 || starts => flows += 1,
                (None, b']' | b'}') => flows = flows.saturating_sub(1),
                _ => {}
            }
            before = byte;
            if blocks.len() + flows > DEEPEST {
                let at = (offset + i) as u32;
                let message = format!("nesting is deeper than {DEEPEST} levels");
                let error = Diagnostic::error("yaml", message).at(Span { start: at, end: at + 1 }, "");
                return Err(error.help("the limit bounds memory").in_source(source));
            }
        }
        offset += line.len();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<(), String> {
        check_depth(&Source::new("d.yaml", text)).map_err(|error| error.to_string())
    }

    #[test]
    fn depth_is_bounded_in_every_style() {
        let nested = |n: usize| format!("{}1{}\n", "a: {".repeat(n), "}".repeat(n));
        let lists = |n: usize| format!("a: {}{}\n", "[".repeat(n), "]".repeat(n));
        let blocks = |n: usize| (0..n).map(|i| format!("{}a:\n", " ".repeat(i))).collect::<String>();
        let dashes = |n: usize| format!("{}1\n", "- ".repeat(n));
        for (style, text) in [
            ("flow mappings", &nested as &dyn Fn(usize) -> String),
            ("flow sequences", &lists),
            ("blocks", &blocks),
            ("dashes", &dashes),
        ] {
            assert_eq!(check(&text(40)), Ok(()), "{style}");
            for deep in [100, 100_000] {
                let text = text(deep.min(if style == "blocks" { 2_000 } else { deep }));
                let error = check(&text).expect_err(style);
                assert!(
                    error.starts_with("d.yaml:") && error.contains("nesting is deeper than 64 levels"),
                    "{style}: {error}"
                );
            }
        }
    }

    #[test]
    fn brackets_in_texts_and_comments_are_none() {
        let brackets = "[".repeat(80);
        for text in [
            format!("a: \"{brackets}\"\n"),
            format!("a: '{brackets}'\n"),
            format!("a: 1 # {brackets}\n# {brackets}\n"),
            format!("a: it's {}\n", "x[0] ".repeat(80)),
            "a: {b: [1, 2]}\n".repeat(80),
            "- 1\n".repeat(80),
        ] {
            assert_eq!(check(&text), Ok(()), "{text}");
        }
    }
}
