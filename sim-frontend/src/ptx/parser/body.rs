//! Function bodies: statements, instructions, operands.

use super::{Kind, Operand, OperandKind, Parsed, Parser, Skip, Token};
use crate::diagnostic::Span;
use crate::ptx::ast::{Guard, Instruction, Statement};

impl<'a> Parser<'a> {
    /// Statements up to a `}` or the end; errors are recovered from one by one.
    pub(crate) fn statements(&mut self) -> Parsed<Vec<Statement<'a>>> {
        let mut list = Vec::with_capacity(if self.depth == 0 { self.count_ahead() } else { 0 });
        while !matches!(self.kind(), None | Some(Kind::Punct(b'}'))) {
            let before = self.at;
            match self.statement(&mut list) {
                Ok(()) => {}
                Err(Skip) => {
                    self.recover();
                    if self.at == before {
                        return Err(Skip);
                    }
                }
            }
        }
        Ok(list)
    }

    /// Semicolons and colons up to the `}` of this block: as many as statements, or a few more.
    fn count_ahead(&self) -> usize {
        let mut depth = 0;
        let inside = self.tokens[self.at..].iter().take_while(|token| {
            match token.kind {
                Kind::Punct(b'{') => depth += 1,
                Kind::Punct(b'}') => depth -= 1,
                _ => {}
            }
            depth >= 0
        });
        inside.filter(|token| matches!(token.kind, Kind::Punct(b';' | b':'))).count()
    }

    /// The statements that stand here: a declaration may declare several variables.
    fn statement(&mut self, list: &mut Vec<Statement<'a>>) -> Parsed<()> {
        let found = match self.kind() {
            Some(Kind::Punct(b';')) => {
                self.at += 1;
                return Ok(());
            }
            Some(Kind::Punct(b'{')) => {
                self.at += 1;
                let inner = self.deeper(|p| p.statements())?;
                self.expect(b'}')?;
                Statement::Block(inner)
            }
            Some(Kind::Dotted) => return self.directive(list),
            Some(Kind::Name) if self.kind_at(1) == Some(Kind::Punct(b':')) => self.label()?,
            Some(Kind::Name | Kind::Punct(b'@')) => {
                // Labels of the papers hold a hyphen (`PATH-1`).
                if self.papers
                    && let Some(length) = self.hyphenated()
                    && self.kind_at(length) == Some(Kind::Punct(b':'))
                {
                    let (name, span) = self.hyphenated_name(length);
                    self.at += 1;
                    list.push(Statement::Label(name, span));
                    return Ok(());
                }
                Statement::Instruction(self.instruction()?)
            }
            _ => return self.expected("a statement"),
        };
        list.push(found);
        Ok(())
    }

    fn directive(&mut self, list: &mut Vec<Statement<'a>>) -> Parsed<()> {
        match &self.word()[1..] {
            "loc" => {
                let line = self.source.line(self.span().start);
                self.at += 1;
                let mut numbers = Vec::new();
                while self.kind().is_some() && self.source.line(self.span().start) == line {
                    if let Some(Kind::Int(value)) = self.kind() {
                        numbers.push(value as u32);
                    }
                    self.at += 1;
                }
                if let [file, line, ..] = numbers[..] {
                    list.push(Statement::Loc(file, line));
                }
            }
            "pragma" => {
                if self.pragma() {
                    list.push(Statement::KeepLoop);
                }
            }
            "file" => {
                let line = self.source.line(self.span().start);
                while self.kind().is_some() && self.source.line(self.span().start) == line {
                    self.at += 1;
                }
            }
            _ => {
                let variables = self.variables(false, b';')?;
                self.expect(b';')?;
                list.extend(variables.into_iter().map(Statement::Declaration));
            }
        }
        Ok(())
    }

    fn label(&mut self) -> Parsed<Statement<'a>> {
        let span = self.span();
        let name = self.name("a label")?;
        self.at += 1;
        if self.kind() != Some(Kind::Dotted) {
            return Ok(Statement::Label(name, span));
        }
        match &self.word()[1..] {
            "branchtargets" => {
                self.at += 1;
                let mut targets = Vec::new();
                loop {
                    let span = self.span();
                    targets.push((self.name("a label")?, span));
                    if !self.eat(b',') {
                        break;
                    }
                }
                self.expect(b';')?;
                Ok(Statement::BranchTargets(name, targets))
            }
            "callprototype" | "calltargets" => {
                self.recover();
                Ok(Statement::Prototype(name))
            }
            _ => Ok(Statement::Label(name, span)),
        }
    }

    /// Tokens of a name with hyphens such as `PATH-1`; `None` if there is no hyphen.
    fn hyphenated(&self) -> Option<usize> {
        let mut length = 1;
        while self.kind_at(length) == Some(Kind::Punct(b'-'))
            && matches!(self.kind_at(length + 1), Some(Kind::Int(_) | Kind::Name))
        {
            length += 2;
        }
        (length > 1).then_some(length)
    }

    fn hyphenated_name(&mut self, length: usize) -> (&'a str, Span) {
        let start = self.span();
        self.at += length;
        let span = start.to(self.last_span());
        (self.slice(span), span)
    }

    pub(super) fn instruction(&mut self) -> Parsed<Instruction<'a>> {
        let start = self.span();
        let guard = if self.eat(b'@') {
            let negated = self.eat(b'!');
            let span = self.span();
            let name = self.name("a predicate")?;
            Some(Guard { negated, name, span })
        } else {
            None
        };
        let opcode_start = self.span();
        let root = self.name("an instruction")?;
        let mut spaced = false;
        let mut end = self.last_span();
        let root_end = end.end;
        while self.kind() == Some(Kind::Dotted) {
            spaced |= self.span().start != end.end;
            end = self.span();
            self.at += 1;
        }
        let opcode = opcode_start.to(end);
        let dotted = self.slice(Span { start: root_end, end: end.end });
        let mut operands = Vec::new();
        while !matches!(self.kind(), None | Some(Kind::Punct(b';' | b'}'))) {
            if !operands.is_empty() {
                let line = |span: Span| self.source.line(span.start);
                if self.kind() != Some(Kind::Punct(b',')) && line(self.span()) > line(self.last_span()) {
                    let end = self.last_span().end;
                    self.error::<()>(Span { start: end, end }, "a `;` is missing here", "").ok();
                    // What follows is the next statement.
                    let span = start.to(self.last_span());
                    return Ok(Instruction { guard, root, dotted, operands, span, opcode, spaced });
                }
                self.expect(b',')?;
            } else if self.papers {
                // The papers write `call function , (var)` and blanks before commas.
                self.eat(b',');
            }
            let operand = match self.lone_name() {
                Some(operand) => operand,
                None => self.deeper(|p| p.operand())?,
            };
            operands.push(operand);
        }
        let span = start.to(self.last_span());
        self.expect(b';')?;
        Ok(Instruction { guard, root, dotted, operands, span, opcode, spaced })
    }

    /// Most operands: a register, symbol or label by itself.
    fn lone_name(&mut self) -> Option<Operand<'a>> {
        let [Token { kind: Kind::Name, span }, Token { kind: Kind::Punct(b',' | b';'), .. }, ..] =
            self.tokens.get(self.at..)?
        else {
            return None;
        };
        let (name, span) = (self.slice(*span), *span);
        if matches!(name, "_" | "WARP_SZ") {
            return None;
        }
        self.at += 1;
        Some(Operand { kind: OperandKind::Name(name), span })
    }

    fn operand(&mut self) -> Parsed<Operand<'a>> {
        let start = self.span();
        let first = self.operand_kind()?;
        let first = Operand { kind: first, span: start.to(self.last_span()) };
        if !self.eat(b'|') {
            return Ok(first);
        }
        let at = self.span();
        let second = self.operand_kind()?;
        let second = Operand { kind: second, span: at.to(self.last_span()) };
        let span = start.to(self.last_span());
        Ok(Operand { kind: OperandKind::Pair(Box::new(first), Box::new(second)), span })
    }

    fn list(&mut self, end: u8) -> Parsed<Vec<Operand<'a>>> {
        let mut list = Vec::new();
        while !self.eat(end) {
            if !list.is_empty() {
                self.expect(b',')?;
            }
            list.push(self.deeper(|p| p.operand())?);
        }
        Ok(list)
    }

    fn operand_kind(&mut self) -> Parsed<OperandKind<'a>> {
        match self.kind() {
            Some(Kind::Punct(b'{')) => {
                self.at += 1;
                Ok(OperandKind::Vector(self.list(b'}')?))
            }
            Some(Kind::Punct(b'(')) if self.is_list() => {
                self.at += 1;
                Ok(OperandKind::List(self.list(b')')?))
            }
            Some(Kind::Punct(b'[')) => {
                self.at += 1;
                let kind = self.address()?;
                self.expect(b']')?;
                Ok(kind)
            }
            Some(Kind::Punct(b'!')) if self.kind_at(1) == Some(Kind::Name) => {
                self.at += 1;
                Ok(OperandKind::Not(self.name("a predicate")?))
            }
            Some(Kind::Punct(b'-'))
                if self.kind_at(1) == Some(Kind::Name) && self.word_at(1) != "WARP_SZ" =>
            {
                self.at += 1;
                let name = self.name("a register")?;
                let part = (self.kind() == Some(Kind::Dotted)).then(|| &self.word()[1..]);
                self.at += usize::from(part.is_some());
                Ok(OperandKind::Negated(name, part))
            }
            Some(Kind::Name) if self.word() == "WARP_SZ" => self.constant_operand(),
            Some(Kind::Name) => {
                if self.papers
                    && let Some(length) = self.hyphenated()
                {
                    return Ok(OperandKind::Name(self.hyphenated_name(length).0));
                }
                let name = self.name("an operand")?;
                if name == "_" {
                    return Ok(OperandKind::Sink);
                }
                if self.kind() == Some(Kind::Dotted) && self.span().start == self.last_span().end {
                    let component = &self.word()[1..];
                    self.at += 1;
                    return Ok(OperandKind::Component(name, component));
                }
                let offset = self.signed_offset()?;
                Ok(match offset {
                    0 => OperandKind::Name(name),
                    offset => OperandKind::Offset { name, offset, generic: false },
                })
            }
            _ => self.constant_operand(),
        }
    }

    /// A parenthesis opens the list of a call unless a constant expression stands in it, or the type of a cast.
    fn is_list(&self) -> bool {
        if self.kind_at(1) == Some(Kind::Dotted) {
            return false;
        }
        matches!(
            self.kind_at(1),
            Some(Kind::Name | Kind::Punct(b')' | b'[' | b'{') | Kind::Bits32(_) | Kind::Bits64(_))
        ) || matches!(self.kind_at(2), Some(Kind::Punct(b',' | b')')))
    }

    fn address(&mut self) -> Parsed<OperandKind<'a>> {
        if self.kind() == Some(Kind::Name) && self.word() != "WARP_SZ" {
            let at = self.span();
            let name = self.name("an address")?;
            let base = Some(name);
            if self.eat(b',') {
                let mut list = vec![Operand { kind: OperandKind::Name(name), span: at }];
                loop {
                    list.push(self.deeper(|p| p.operand())?);
                    if !self.eat(b',') {
                        return Ok(OperandKind::Texture(list));
                    }
                }
            }
            let offset = self.signed_offset()?;
            return Ok(OperandKind::Address { base, offset });
        }
        let value = self.constant()?;
        Ok(OperandKind::Address { base: None, offset: value as i64 })
    }
}
