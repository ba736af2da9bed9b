//! What the listings of CS leave out: a header round the statements, and labels, for which they
//! name lines of the listing (`ssy 10`).

use super::{Kind, Parsed, Parser};
use crate::ptx::ast::{Function, OperandKind, Statement};

/// The entry that statements without one belong to.
pub const LISTING: &str = "listing";

impl<'a> Parser<'a> {
    /// True where a statement begins, not a directive: a listing of statements only.
    pub(crate) fn is_bare_listing(&self) -> bool {
        self.papers && matches!(self.kind(), Some(Kind::Name | Kind::Punct(b'@')))
    }

    /// Statements to the end of the text, as the body of the entry [`LISTING`].
    pub(crate) fn bare_listing(&mut self) -> Parsed<Function<'a>> {
        let span = self.span();
        let body = self.statements()?;
        let body = self.number_lines(body);
        Ok(Function {
            entry: true,
            name: LISTING,
            returns: Vec::new(),
            params: Vec::new(),
            body: Some(body),
            bounds: Vec::new(),
            span,
        })
    }

    /// Puts a label before each line that a token instruction names; the label is the number. A
    /// first line that only names the dialect does not count.
    pub(crate) fn number_lines(&mut self, body: Vec<Statement<'a>>) -> Vec<Statement<'a>> {
        let unnumbered =
            u32::from(self.text.lines().next().is_some_and(|l| l.trim().starts_with("// dialect")));
        let mut wanted: Vec<(u32, &'a str, crate::diagnostic::Span)> = Vec::new();
        for statement in &body {
            if let Statement::Instruction(inst) = statement
                && let [operand] = inst.operands.as_slice()
                && let OperandKind::Int(line) = operand.kind
                && let Ok(line) = u32::try_from(line.value())
                && let Some(name) = self.text.get(operand.span.start as usize..operand.span.end as usize)
                && !wanted.iter().any(|(other, ..)| *other == line)
            {
                wanted.push((line, name, operand.span));
            }
        }
        wanted.sort_by_key(|(line, ..)| *line);
        let mut wanted = wanted.into_iter().peekable();
        let mut out = Vec::with_capacity(body.len());
        for statement in body {
            let at = match &statement {
                Statement::Instruction(inst) => Some(self.source.line(inst.span.start) - unnumbered),
                Statement::Label(_, span) => Some(self.source.line(span.start) - unnumbered),
                _ => None,
            };
            while let Some((_, name, span)) = wanted.next_if(|(line, ..)| at.is_some_and(|at| at >= *line)) {
                out.push(Statement::Label(name, span));
            }
            out.push(statement);
        }
        out
    }
}
