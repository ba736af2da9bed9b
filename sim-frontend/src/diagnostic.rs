//! Diagnostics: what is wrong, where, why, and the way out, for every kind of input.

use std::fmt;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::chip::needs::Needs;

/// A text with its name and the beginnings of its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// File name as the user gave it.
    pub name: Arc<str>,
    /// Contents of the file.
    pub text: Arc<str>,
    lines: Arc<[u32]>,
    /// Bytes that the user wrote; the device runtime follows them, where it is linked.
    own: u32,
}

impl Source {
    /// A source; texts above 4 GiB cannot be named by spans.
    pub fn new(name: &str, text: &str) -> Self {
        let starts = text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i as u32 + 1);
        let lines: Vec<u32> = std::iter::once(0).chain(starts).collect();
        Self { name: name.into(), text: text.into(), lines: lines.into(), own: text.len() as u32 }
    }

    /// The same with the text of the device runtime appended.
    pub fn with_library(&self, library: &str) -> Self {
        Self { own: self.own, ..Self::new(&self.name, &format!("{}\n{library}", self.text)) }
    }

    /// Nothing is linked to it.
    pub fn is_all_the_users(&self) -> bool {
        self.own as usize == self.text.len()
    }

    /// Line of a byte, from 1; 0 in the device runtime.
    pub fn user_line(&self, byte: u32) -> u32 {
        if byte >= self.own && !self.is_all_the_users() { 0 } else { self.line(byte) }
    }

    /// [`user_line`](Self::user_line) where the last line asked for was `hint`: texts are mostly read
    /// from front to back.
    pub fn user_line_near(&self, byte: u32, hint: u32) -> u32 {
        let starts = |line: u32| self.lines.get(line as usize).copied().unwrap_or(u32::MAX);
        let found = (hint.max(1)..hint.saturating_add(4)).find(|line| starts(*line) > byte);
        match found.filter(|line| byte < self.own && starts(line - 1) <= byte) {
            Some(line) => line,
            None => self.user_line(byte),
        }
    }

    /// The bytes of a part of the text; none where it is not one.
    pub fn span_of(&self, part: &str) -> Span {
        let start = (part.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
        if start + part.len() > self.text.len() || start > self.text.len() {
            return Span::default();
        }
        Span { start: start as u32, end: (start + part.len()) as u32 }
    }

    /// A line, counted from 1, without the blanks around it.
    pub fn span_of_line(&self, line: u32) -> Option<Span> {
        let start = *self.lines.get(line.checked_sub(1)? as usize)? as usize;
        let text = self.text.get(start..)?.lines().next()?;
        let indent = text.len() - text.trim_start().len();
        Some(Span { start: (start + indent) as u32, end: (start + text.trim_end().len()) as u32 })
    }

    /// Line of a byte, from 1.
    pub fn line(&self, byte: u32) -> u32 {
        self.lines.partition_point(|start| *start <= byte).max(1) as u32
    }

    /// Line and column of a byte, both from 1; columns count characters.
    pub fn position(&self, byte: u32) -> (u32, u32) {
        let line = self.line(byte) as usize;
        let start = self.lines.get(line - 1).copied().unwrap_or(0) as usize;
        let end = (byte as usize).min(self.text.len());
        let before = self.text.as_bytes().get(start..end).unwrap_or_default();
        (line as u32, String::from_utf8_lossy(before).chars().count() as u32 + 1)
    }
}

/// Bytes of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// One past the last.
    pub end: u32,
}

impl Span {
    /// From the start of one to the end of another.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start, end: other.end.max(self.end) }
    }
}

/// One thing that is wrong with an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// A short name of the kind of problem.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// Where, with words beside it.
    pub labels: Vec<(Span, String)>,
    /// How to correct it.
    pub help: Option<String>,
    /// The text it is about.
    pub source: Option<Source>,
    /// What a chip must have to accept what this one refuses.
    pub needs: Option<Box<Needs>>,
}

impl Diagnostic {
    /// An error without a place.
    pub fn error(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), labels: Vec::new(), help: None, source: None, needs: None }
    }

    /// Adds a place; the first is the one `file:line:col` names.
    #[must_use]
    pub fn at(mut self, span: Span, words: impl Into<String>) -> Self {
        self.labels.push((span, words.into()));
        self
    }

    /// Adds a line of a source as its place, without the blanks around it.
    #[must_use]
    pub fn at_line(self, source: &Source, line: u32) -> Self {
        match source.span_of_line(line) {
            Some(span) => self.at(span, "").in_source(source),
            None => self,
        }
    }

    /// Adds the way out.
    #[must_use]
    pub fn help(mut self, words: impl Into<String>) -> Self {
        self.help = Some(words.into());
        self
    }

    /// Adds the candidate nearest to a word as the way out, if one is near.
    #[must_use]
    pub fn did_you_mean<'a>(self, word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Self {
        match nearest(word, candidates) {
            Some(near) => self.help(format!("did you mean `{near}`?")),
            None => self,
        }
    }

    /// Says what a chip must have to accept it.
    #[must_use]
    pub fn needs(mut self, needs: Needs) -> Self {
        self.needs = Some(Box::new(needs));
        self
    }

    /// Names the text.
    #[must_use]
    pub fn in_source(mut self, source: &Source) -> Self {
        self.source.get_or_insert_with(|| source.clone());
        self
    }

    /// `file:line:col`, where there is a place.
    pub fn place(&self) -> Option<String> {
        let source = self.source.as_ref()?;
        let (span, _) = self.labels.first()?;
        let (line, column) = source.position(span.start);
        Some(format!("{}:{line}:{column}", source.name))
    }

    /// The whole diagnostic: place, source line, caret, reason, way out.
    pub fn render(&self) -> String {
        self.rendered(&Renderer::plain())
    }

    /// The same with colours, as terminals show them.
    pub fn render_coloured(&self) -> String {
        self.rendered(&Renderer::styled())
    }

    fn rendered(&self, renderer: &Renderer) -> String {
        let place = self.place().map_or(String::new(), |place| format!("{place}: "));
        let title = Level::ERROR.primary_title(format!("{place}{}", self.message)).id(self.code);
        let mut group = match (&self.source, self.labels.is_empty()) {
            (Some(source), false) => {
                let length = source.text.len();
                let mut snippet = Snippet::source(source.text.as_ref()).path(source.name.as_ref()).fold(true);
                for (i, (span, words)) in self.labels.iter().enumerate() {
                    let kind = if i == 0 { AnnotationKind::Primary } else { AnnotationKind::Context };
                    let start = floor_boundary(&source.text, (span.start as usize).min(length));
                    let end = floor_boundary(&source.text, (span.end as usize).min(length)).max(start);
                    snippet = snippet.annotation(kind.span(start..end).label(words.as_str()));
                }
                Group::with_title(title).element(snippet)
            }
            _ => Group::with_title(title),
        };
        if let Some(help) = &self.help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        renderer.render(&[group])
    }
}

fn floor_boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place() {
            Some(place) => write!(f, "{place}: error: {}", self.message),
            None => write!(f, "error: {}", self.message),
        }
    }
}

impl std::error::Error for Diagnostic {}

/// The candidate nearest to `word` by edit distance, if it is near enough to be meant.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(1);
    // No name is longer; what is pasted by mistake may be.
    let word: String = word.chars().take(64).collect();
    candidates
        .into_iter()
        .map(|candidate| (strsim::levenshtein(&word, candidate), candidate))
        .filter(|(d, _)| *d <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_carets() {
        let source = Source::new("k.ptx", "ret;\n\tad.u32 é, x;\n");
        assert_eq!(source.position(6), (2, 2));
        assert_eq!(source.position(16), (2, 11));
        let text = Diagnostic::error("root", "unknown instruction `ad`")
            .at(Span { start: 6, end: 8 }, "unknown")
            .help("did you mean `add`?")
            .in_source(&source)
            .render();
        for part in ["k.ptx:2:2", "unknown instruction `ad`", "^^ unknown", "did you mean `add`?"] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    #[test]
    fn nearest_names() {
        assert_eq!(nearest("mull", ["mul", "mad", "fma"]), Some("mul"));
        assert_eq!(nearest("xyzzy", ["mul", "mad"]), None);
    }
}
