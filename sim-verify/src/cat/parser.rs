//! The parser of models.

use sim_frontend::diagnostic::{Diagnostic, Source, Span};

use super::ast::{Ast, Expr, ExprKind, Item, ItemKind, Named, Operator, Postfix, Property};
use crate::cursor::Cursor;

const KEYWORDS: [&str; 10] =
    ["let", "rec", "and", "with", "from", "acyclic", "irreflexive", "empty", "flag", "as"];

/// What herd's language has beyond the subset.
const BEYOND: [&str; 14] = [
    "include",
    "show",
    "unshow",
    "procedure",
    "call",
    "fun",
    "match",
    "in",
    "if",
    "then",
    "else",
    "forall",
    "assert",
    "instructions",
];

/// Expressions nested deeper are refused.
const DEPTH: usize = 200;

/// Parses a model.
pub fn parse(source: &Source) -> Result<Ast, Diagnostic> {
    let mut parser = Parser { cursor: Cursor::new(source), depth: 0 };
    parser.model()
}

struct Parser<'s> {
    cursor: Cursor<'s>,
    depth: usize,
}

fn begins_name(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

impl<'s> Parser<'s> {
    fn model(&mut self) -> Result<Ast, Diagnostic> {
        self.cursor.skip_blanks()?;
        let title = self.title()?;
        let mut statements = Vec::new();
        loop {
            self.cursor.skip_blanks()?;
            if self.cursor.peek().is_none() {
                return Ok(Ast { title, statements });
            }
            statements.push(self.statement()?);
        }
    }

    /// A word or string at the start that is no keyword.
    fn title(&mut self) -> Result<String, Diagnostic> {
        let start = self.cursor.offset();
        if self.cursor.take("\"") {
            let text = self.cursor.take_while(|c| c != '"' && c != '\n').to_string();
            if !self.cursor.take("\"") {
                let span = self.cursor.span_from(start);
                return Err(self.cursor.error("string", "unterminated title", span).help("end it with `\"`"));
            }
            return Ok(text);
        }
        let mut ahead = self.cursor.clone();
        let word = ahead.take_while(is_name);
        if word.is_empty() || KEYWORDS.contains(&word) || BEYOND.contains(&word) {
            return Ok(String::new());
        }
        self.cursor = ahead;
        Ok(word.to_string())
    }

    /// The next word, and its place.
    fn word(&mut self) -> Result<(&'s str, Span), Diagnostic> {
        self.cursor.skip_blanks()?;
        let start = self.cursor.offset();
        let word = match self.cursor.peek() {
            Some(c) if begins_name(c) => self.cursor.take_while(is_name),
            _ => "",
        };
        Ok((word, self.cursor.span_from(start)))
    }

    fn keyword(&mut self, wanted: &str, why: &str) -> Result<(), Diagnostic> {
        let (word, span) = self.word()?;
        if word == wanted {
            return Ok(());
        }
        let found = self.found(span);
        Err(self.cursor.error("syntax", format!("expected `{wanted}` {why}, found {found}"), span))
    }

    /// What stands at a place, for messages.
    fn found(&self, span: Span) -> String {
        if span.end > span.start {
            return format!("`{}`", self.cursor.text(span));
        }
        self.cursor.peek().map_or("the end of the file".to_string(), |c| format!("`{c}`"))
    }

    fn symbol(&mut self, symbol: &str, why: &str) -> Result<(), Diagnostic> {
        self.cursor.skip_blanks()?;
        if self.cursor.take(symbol) {
            return Ok(());
        }
        let start = self.cursor.offset();
        let span = self.cursor.span_from(start);
        let found = self.found(span);
        Err(self.cursor.error("syntax", format!("expected `{symbol}` {why}, found {found}"), span))
    }

    fn name(&mut self) -> Result<Named, Diagnostic> {
        let (word, span) = self.word()?;
        let word = word.to_string();
        if word.is_empty() || word == "_" || KEYWORDS.contains(&word.as_str()) {
            return Err(self.cursor.error("syntax", "expected a name", span));
        }
        Ok((word, span))
    }

    fn statement(&mut self) -> Result<Item, Diagnostic> {
        let start = self.cursor.offset();
        let (word, span) = self.word()?;
        let kind = match word {
            "let" => self.definition()?,
            "with" => self.order()?,
            "acyclic" => self.check(Property::Acyclic)?,
            "irreflexive" => self.check(Property::Irreflexive)?,
            "empty" => self.check(Property::Empty)?,
            "flag" => {
                self.symbol("~", "after `flag`")?;
                self.keyword("empty", "after `flag ~`")?;
                self.check(Property::FlagNotEmpty)?
            }
            "" => {
                let found = self.found(span);
                return Err(self.cursor.error(
                    "syntax",
                    format!("expected a statement, found {found}"),
                    span,
                ));
            }
            other => {
                let message = if BEYOND.contains(&other) {
                    format!("`{other}` is not in the subset of `cat` that models are written in")
                } else {
                    format!("`{other}` does not begin a statement")
                };
                let help =
                    "statements are let, let rec, with … from, acyclic, irreflexive, empty, flag ~empty";
                return Err(self.cursor.error("syntax", message, span).help(help));
            }
        };
        Ok(Item { kind, span: self.cursor.span_from(start) })
    }

    fn definition(&mut self) -> Result<ItemKind, Diagnostic> {
        let mut ahead = self.cursor.clone();
        ahead.skip_blanks()?;
        if ahead.take_while(is_name) != "rec" {
            let name = self.name()?;
            self.symbol("=", "after the name")?;
            return Ok(ItemKind::Let(name, self.expr()?));
        }
        self.cursor = ahead;
        let mut list = Vec::new();
        loop {
            let name = self.name()?;
            self.symbol("=", "after the name")?;
            list.push((name, self.expr()?));
            let mut ahead = self.cursor.clone();
            ahead.skip_blanks()?;
            if ahead.take_while(is_name) != "and" {
                return Ok(ItemKind::Rec(list));
            }
            self.cursor = ahead;
        }
    }

    fn order(&mut self) -> Result<ItemKind, Diagnostic> {
        let name = self.name()?;
        self.keyword("from", "after the name")?;
        let (function, span) = self.word()?;
        if function != "partial-orders" {
            let message = "`with` takes `partial-orders(pairs, base)`";
            return Err(self.cursor.error("syntax", message, span));
        }
        self.symbol("(", "after `partial-orders`")?;
        let pairs = self.expr()?;
        self.symbol(",", "between the pairs and the base")?;
        let base = self.expr()?;
        self.symbol(")", "after the base")?;
        Ok(ItemKind::With { name, pairs, base })
    }

    fn check(&mut self, property: Property) -> Result<ItemKind, Diagnostic> {
        let expr = self.expr()?;
        self.keyword("as", "and a name for the check")?;
        let (name, _) = self.name()?;
        Ok(ItemKind::Check { property, expr, name })
    }

    fn expr(&mut self) -> Result<Expr, Diagnostic> {
        self.binary(0)
    }

    /// Operators from the loosest to the tightest; all are left-associative.
    const LEVELS: [(&'static str, Operator); 5] = [
        ("|", Operator::Union),
        (";", Operator::Sequence),
        ("\\", Operator::Difference),
        ("&", Operator::Intersection),
        ("*", Operator::Product),
    ];

    fn binary(&mut self, level: usize) -> Result<Expr, Diagnostic> {
        let Some(&(symbol, operator)) = Self::LEVELS.get(level) else {
            return self.unary();
        };
        let mut left = self.binary(level + 1)?;
        loop {
            self.cursor.skip_blanks()?;
            if !self.cursor.take(symbol) {
                return Ok(left);
            }
            let right = self.binary(level + 1)?;
            let span = left.span.to(right.span);
            left = Expr { kind: ExprKind::Binary(operator, Box::new(left), Box::new(right)), span };
        }
    }

    fn unary(&mut self) -> Result<Expr, Diagnostic> {
        self.cursor.skip_blanks()?;
        let start = self.cursor.offset();
        self.depth += 1;
        if self.depth > DEPTH {
            let span = self.cursor.span_from(start);
            return Err(self.cursor.error(
                "depth",
                format!("expressions are nested deeper than {DEPTH}"),
                span,
            ));
        }
        let out = if self.cursor.take("~") {
            let inner = self.unary()?;
            Ok(Expr { span: self.cursor.span_from(start), kind: ExprKind::Not(Box::new(inner)) })
        } else {
            self.postfix()
        };
        self.depth -= 1;
        out
    }

    fn postfix(&mut self) -> Result<Expr, Diagnostic> {
        let mut expr = self.primary()?;
        loop {
            let mut ahead = self.cursor.clone();
            ahead.skip_blanks()?;
            let operator = if ahead.take("^-1") {
                Postfix::Inverse
            } else if ahead.take("+") {
                Postfix::Plus
            } else if ahead.take("?") {
                Postfix::Optional
            } else if ahead.take("*") && !begins_operand(&ahead)? {
                Postfix::Star
            } else {
                return Ok(expr);
            };
            let span = Span { start: expr.span.start, end: ahead.offset() };
            self.cursor = ahead;
            expr = Expr { kind: ExprKind::Postfix(operator, Box::new(expr)), span };
        }
    }

    fn primary(&mut self) -> Result<Expr, Diagnostic> {
        self.cursor.skip_blanks()?;
        let start = self.cursor.offset();
        let kind = match self.cursor.peek() {
            Some('(') => {
                self.cursor.skip(1);
                let inner = self.expr()?;
                self.symbol(")", "after the expression")?;
                return Ok(inner);
            }
            Some('[') => {
                self.cursor.skip(1);
                let inner = self.expr()?;
                self.symbol("]", "after the set")?;
                ExprKind::On(Box::new(inner))
            }
            Some('0') => {
                self.cursor.skip(1);
                ExprKind::Nothing
            }
            Some(c) if begins_name(c) => {
                let (word, span) = self.word()?;
                if KEYWORDS.contains(&word) {
                    let message = format!("expected an expression, found the keyword `{word}`");
                    return Err(self.cursor.error("syntax", message, span));
                }
                if word == "_" { ExprKind::Everything } else { ExprKind::Name(word.to_string()) }
            }
            _ => {
                let span = self.cursor.span_from(start);
                let found = self.found(span);
                return Err(self.cursor.error(
                    "syntax",
                    format!("expected an expression, found {found}"),
                    span,
                ));
            }
        };
        Ok(Expr { kind, span: self.cursor.span_from(start) })
    }
}

/// `*` in front of an operand is the product, else the closure.
fn begins_operand(cursor: &Cursor<'_>) -> Result<bool, Diagnostic> {
    let mut ahead = cursor.clone();
    ahead.skip_blanks()?;
    Ok(match ahead.peek() {
        Some('(' | '[' | '~' | '0') => true,
        Some(c) if begins_name(c) => !KEYWORDS.contains(&ahead.take_while(is_name)),
        _ => false,
    })
}
