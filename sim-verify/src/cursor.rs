//! Reading text byte by byte, with the places of what was read.

use sim_frontend::diagnostic::{Diagnostic, Source, Span};

/// A place in a source.
#[derive(Clone)]
pub struct Cursor<'s> {
    source: &'s Source,
    at: usize,
}

impl<'s> Cursor<'s> {
    /// A cursor at the start of the text.
    pub fn new(source: &'s Source) -> Self {
        Self { source, at: 0 }
    }

    /// The text that has not been read.
    pub fn rest(&self) -> &'s str {
        &self.source.text[self.at..]
    }

    /// The next character.
    pub fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Offset in bytes.
    pub fn offset(&self) -> u32 {
        self.at as u32
    }

    /// Moves over `bytes` bytes, which end between characters.
    pub fn skip(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// Moves over a word, if it comes next.
    pub fn take(&mut self, word: &str) -> bool {
        let found = self.rest().starts_with(word);
        if found {
            self.at += word.len();
        }
        found
    }

    /// Moves over characters while `belongs` holds, and gives them.
    pub fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> &'s str {
        let rest = self.rest();
        let end = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Moves over blanks, `(* … *)`, which nest, and `// …`.
    ///
    /// # Errors
    /// A comment does not end.
    pub fn skip_blanks(&mut self) -> Result<(), Diagnostic> {
        loop {
            self.take_while(char::is_whitespace);
            let start = self.offset();
            if self.rest().starts_with("//") {
                self.take_while(|c| c != '\n');
            } else if self.take("(*") {
                let mut depth = 1;
                while depth > 0 {
                    if self.take("(*") {
                        depth += 1;
                    } else if self.take("*)") {
                        depth -= 1;
                    } else if let Some(c) = self.peek() {
                        self.skip(c.len_utf8());
                    } else {
                        let span = Span { start, end: start + 2 };
                        return Err(self
                            .error("comment", "unterminated comment", span)
                            .help("end it with `*)`"));
                    }
                }
            } else {
                return Ok(());
            }
        }
    }

    /// The text of a place.
    pub fn text(&self, span: Span) -> &'s str {
        &self.source.text[span.start as usize..span.end as usize]
    }

    /// From an offset to here.
    pub fn span_from(&self, start: u32) -> Span {
        Span { start, end: self.at as u32 }
    }

    /// An error at a place.
    pub fn error(&self, code: &'static str, message: impl Into<String>, span: Span) -> Diagnostic {
        Diagnostic::error(code, message).at(span, "").in_source(self.source)
    }
}
