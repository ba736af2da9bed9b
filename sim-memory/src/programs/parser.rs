//! The parser of memory programs.

use super::ast::{BExp, LineColumn, OpExp, Stm};

/// A syntax error in a memory program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {reason}")]
pub struct ParseError {
    /// Line of the text, from 1.
    pub line: u32,
    /// Column of the text, from 1.
    pub column: u32,
    /// The reason, as text for the user.
    pub reason: String,
}

/// Maximum nesting of blocks and expressions.
const MAX_DEPTH: u32 = 64;

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
}

/// Parses a program text to its statements.
///
/// # Errors
/// The first position that does not match the grammar of CS §4.4.4.
pub fn parse(text: &str) -> Result<Vec<Stm>, ParseError> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    let program = parser.statements()?;
    match parser.peek() {
        None => Ok(program),
        Some(found) => Err(parser.error(format!("`{found}` does not belong here"))),
    }
}

impl<'a> Parser<'a> {
    fn error(&self, reason: impl Into<String>) -> ParseError {
        let (line, column) = self.place();
        ParseError { line, column, reason: reason.into() }
    }

    fn place(&self) -> LineColumn {
        let before = &self.text[..self.at.min(self.text.len())];
        let line = before.matches('\n').count() as u32 + 1;
        (line, before.rsplit('\n').next().map_or(0, |l| l.chars().count()) as u32 + 1)
    }

    fn skip(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if !trimmed.starts_with("//") {
                return;
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    /// The next token, which is a word or a single character, without consuming it.
    fn peek(&mut self) -> Option<&'a str> {
        self.skip();
        let rest = &self.text[self.at..];
        let word = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let end = if word > 0 { word } else { rest.chars().next()?.len_utf8() };
        Some(&rest[..end])
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.peek() == Some(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn expect(&mut self, token: &str) -> Result<(), ParseError> {
        if self.take(token) {
            return Ok(());
        }
        let found = self.peek().unwrap_or("the end").to_string();
        Err(self.error(format!("expected `{token}`, found `{found}`")))
    }

    fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, ParseError>) -> Result<T, ParseError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error("nested too deeply"));
        }
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn statements(&mut self) -> Result<Vec<Stm>, ParseError> {
        let mut list = Vec::new();
        while let Some(token) = self.peek() {
            if token == "}" {
                break;
            }
            let statement = self.deeper(Self::statement)?;
            list.push(statement);
        }
        Ok(list)
    }

    fn statement(&mut self) -> Result<Stm, ParseError> {
        if self.take(";") {
            return Ok(Stm::Nop);
        }
        let Some(word) = self.peek() else { return Err(self.error("expected a statement")) };
        let place = self.place();
        if word == "if" {
            self.at += 2;
            self.expect("(")?;
            let condition = self.deeper(Self::or)?;
            self.expect(")")?;
            let then = self.block()?;
            let otherwise = if self.take("else") { self.block()? } else { Vec::new() };
            return Ok(Stm::If(condition, then, otherwise, place));
        }
        let statement = match word {
            "yield" => Stm::Yield,
            "end" => Stm::End,
            _ => match OpExp::ALL.iter().find(|(name, _)| *name == word) {
                Some((_, op)) => Stm::Op(*op, place),
                None => return Err(self.error(format!("there is no operation `{word}`"))),
            },
        };
        self.at += word.len();
        self.expect(";")?;
        Ok(statement)
    }

    fn block(&mut self) -> Result<Vec<Stm>, ParseError> {
        self.expect("{")?;
        let inner = self.statements()?;
        self.expect("}")?;
        Ok(inner)
    }

    fn or(&mut self) -> Result<BExp, ParseError> {
        let mut left = self.and()?;
        while self.take("or") {
            left = BExp::Or(Box::new(left), Box::new(self.and()?));
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<BExp, ParseError> {
        let mut left = self.atom()?;
        while self.take("and") {
            left = BExp::And(Box::new(left), Box::new(self.atom()?));
        }
        Ok(left)
    }

    fn atom(&mut self) -> Result<BExp, ParseError> {
        if self.take("!") {
            return Ok(BExp::Not(Box::new(self.deeper(Self::atom)?)));
        }
        if self.take("(") {
            let inner = self.deeper(Self::or)?;
            self.expect(")")?;
            return Ok(inner);
        }
        for (name, value) in [
            ("true", BExp::True),
            ("false", BExp::False),
            ("isCachedL1", BExp::IsCachedL1),
            ("isCachedL2", BExp::IsCachedL2),
        ] {
            if self.take(name) {
                return Ok(value);
            }
        }
        let found = self.peek().unwrap_or("the end").to_string();
        Err(self.error(format!("expected a Boolean expression, found `{found}`")))
    }
}
