//! The words of litmus tests, and what the parser knows of a test so far.

use sim_frontend::diagnostic::{Diagnostic, Span};

use super::program::{Location, Thread, word};
use crate::cursor::Cursor;

/// Conditions nested deeper are refused.
const DEPTH: usize = 100;

pub(super) struct Parser<'s> {
    pub(super) cursor: Cursor<'s>,
    pub(super) locations: Vec<Location>,
    pub(super) threads: Vec<Thread>,
    /// Initial values of registers, by the number of the thread, which is declared later.
    pub(super) registers: Vec<(String, Span, String, i64)>,
    pub(super) depth: usize,
    /// The place of the last word or number.
    pub(super) last: Span,
}

pub(super) fn begins_word(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

pub(super) fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

impl Parser<'_> {
    pub(super) fn error(&self, code: &'static str, message: impl Into<String>, span: Span) -> Diagnostic {
        self.cursor.error(code, message, span)
    }

    /// An error that names what stands here.
    pub(super) fn expected(&self, what: &str) -> Diagnostic {
        let mut ahead = self.cursor.clone();
        let start = ahead.offset();
        let found = match ahead.peek() {
            Some(c) if is_word(c) => format!("`{}`", ahead.take_while(is_word)),
            Some(c) => {
                ahead.skip(c.len_utf8());
                format!("`{c}`")
            }
            None => "the end of the file".to_string(),
        };
        self.error("syntax", format!("expected {what}, found {found}"), ahead.span_from(start))
    }

    pub(super) fn deeper(&mut self) -> Result<(), Diagnostic> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(self.error("depth", format!("conditions are nested deeper than {DEPTH}"), self.last));
        }
        Ok(())
    }

    pub(super) fn take_symbol(&mut self, symbol: &str) -> Result<bool, Diagnostic> {
        self.cursor.skip_blanks()?;
        Ok(self.cursor.take(symbol))
    }

    pub(super) fn symbol(&mut self, symbol: &str, why: &str) -> Result<(), Diagnostic> {
        match self.take_symbol(symbol)? {
            true => Ok(()),
            false => Err(self.expected(&format!("`{symbol}` {why}"))),
        }
    }

    /// Takes a keyword, if it comes next as a whole word.
    pub(super) fn take_word(&mut self, word: &str) -> Result<bool, Diagnostic> {
        self.cursor.skip_blanks()?;
        let mut ahead = self.cursor.clone();
        let found = ahead.take_while(is_word) == word;
        if found {
            self.cursor = ahead;
        }
        Ok(found)
    }

    pub(super) fn word(&mut self, what: &str) -> Result<(String, Span), Diagnostic> {
        self.cursor.skip_blanks()?;
        if !self.cursor.peek().is_some_and(begins_word) {
            return Err(self.expected(what));
        }
        let start = self.cursor.offset();
        let word = self.cursor.take_while(is_word).to_string();
        self.last = self.cursor.span_from(start);
        Ok((word, self.last))
    }

    /// A register, without its `%`.
    pub(super) fn register_word(&mut self) -> Result<(String, Span), Diagnostic> {
        self.cursor.skip_blanks()?;
        let start = self.cursor.offset();
        self.cursor.take("%");
        let (word, _) = self.word("a register, such as `r0`")?;
        Ok((word, self.cursor.span_from(start)))
    }

    pub(super) fn take_number(&mut self) -> Result<Option<i64>, Diagnostic> {
        self.cursor.skip_blanks()?;
        let mut ahead = self.cursor.clone();
        let start = ahead.offset();
        let negative = ahead.take("-");
        if !ahead.peek().is_some_and(|c| c.is_ascii_digit()) {
            return Ok(None);
        }
        let text = ahead.take_while(is_word);
        self.last = ahead.span_from(start);
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
        let value = match digits {
            Some(hex) => i64::from_str_radix(hex, 16),
            None => text.parse(),
        };
        // Numbers above stand for addresses of locations.
        match value.ok().filter(|v| *v < 1 << 32) {
            Some(value) => {
                self.cursor = ahead;
                Ok(Some(word(if negative { -value } else { value })))
            }
            None => Err(self.error("number", format!("`{text}` is not a 32-bit number"), self.last)),
        }
    }

    pub(super) fn location(&self, word: &str, span: Span) -> Result<usize, Diagnostic> {
        self.locations.iter().position(|l| l.name == word).ok_or_else(|| {
            let error = self.error("location", format!("the location `{word}` is not declared"), span);
            let near = error.clone().did_you_mean(word, self.locations.iter().map(|l| l.name.as_str()));
            if near.help.is_some() { near } else { error.help(format!("declare it: `{{ {word}=0; }}`")) }
        })
    }

    /// The register of a thread by its name; a new one holds 0.
    pub(super) fn register(&mut self, thread: usize, name: &str) -> usize {
        let thread = &mut self.threads[thread];
        thread.registers.iter().position(|r| r == name).unwrap_or_else(|| {
            thread.registers.push(name.to_string());
            thread.init.push(0);
            thread.registers.len() - 1
        })
    }
}
