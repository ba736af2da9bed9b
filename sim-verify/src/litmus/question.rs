//! The question of a litmus test: filter, quantifier, condition.

use sim_frontend::diagnostic::Diagnostic;

use super::condition::{Atom, Condition, Quantifier};
use super::program::Comparison;
use super::words::Parser;

impl Parser<'_> {
    pub(super) fn question(&mut self) -> Result<(Option<Condition>, Quantifier, Condition), Diagnostic> {
        let mut filter = None;
        loop {
            if self.take_word("locations")? {
                self.symbol("[", "after `locations`")?;
                self.cursor.take_while(|c| c != ']' && c != '\n');
                self.symbol("]", "after the locations")?;
                self.take_symbol(";")?;
            } else if self.take_word("filter")? {
                filter = Some(self.condition()?);
                self.take_symbol(";")?;
            } else {
                break;
            }
        }
        let negated = self.take_symbol("~")? || self.take_word("not")?;
        let quantifier = match (self.take_word("exists")?, negated) {
            (true, false) => Quantifier::Exists,
            (true, true) => Quantifier::NotExists,
            (false, false) if self.take_word("forall")? => Quantifier::Forall,
            _ => return Err(self.expected("`exists`, `~exists` or `forall`")),
        };
        let condition = self.condition()?;
        self.take_symbol(";")?;
        self.cursor.skip_blanks()?;
        if self.cursor.peek().is_some() {
            return Err(self.expected("the end of the test"));
        }
        Ok((filter, quantifier, condition))
    }

    /// `or` of `and`s, as in C.
    pub(super) fn condition(&mut self) -> Result<Condition, Diagnostic> {
        self.deeper()?;
        let mut left = self.conjunction()?;
        while self.take_symbol("\\/")? || self.take_symbol("||")? {
            left = Condition::Or(Box::new(left), Box::new(self.conjunction()?));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn conjunction(&mut self) -> Result<Condition, Diagnostic> {
        let mut left = self.negation()?;
        while self.take_symbol("/\\")? || self.take_symbol("&&")? {
            left = Condition::And(Box::new(left), Box::new(self.negation()?));
        }
        Ok(left)
    }

    fn negation(&mut self) -> Result<Condition, Diagnostic> {
        if self.take_symbol("~")? || self.take_word("not")? {
            self.deeper()?;
            let inner = self.negation()?;
            self.depth -= 1;
            return Ok(Condition::Not(Box::new(inner)));
        }
        if self.take_symbol("(")? {
            let inner = self.condition()?;
            self.symbol(")", "after the condition")?;
            return Ok(inner);
        }
        let a = self.atom()?;
        let comparison = self.comparison()?;
        let b = self.atom()?;
        Ok(Condition::Compare(a, comparison, b))
    }

    fn comparison(&mut self) -> Result<Comparison, Diagnostic> {
        const SYMBOLS: [(&str, Comparison); 7] = [
            ("==", Comparison::Eq),
            ("!=", Comparison::Ne),
            ("<=", Comparison::Le),
            (">=", Comparison::Ge),
            ("=", Comparison::Eq),
            ("<", Comparison::Lt),
            (">", Comparison::Gt),
        ];
        for (symbol, comparison) in SYMBOLS {
            if self.take_symbol(symbol)? {
                return Ok(comparison);
            }
        }
        Err(self.expected("a comparison, such as `==`"))
    }

    fn atom(&mut self) -> Result<Atom, Diagnostic> {
        if let Some(value) = self.take_number()? {
            if !self.take_symbol(":")? {
                return Ok(Atom::Constant(value));
            }
            let (thread, span) = (format!("P{value}"), self.last);
            return self.register_of(&thread, span);
        }
        let bracket = self.take_symbol("[")?;
        let (word, span) = self.word("a register such as `P0:r0`, a location or a number")?;
        if !bracket && self.take_symbol(":")? {
            return self.register_of(&word, span);
        }
        if bracket {
            self.symbol("]", "after the location")?;
        }
        Ok(Atom::Location(self.location(&word, span)?))
    }

    fn register_of(
        &mut self,
        thread: &str,
        span: sim_frontend::diagnostic::Span,
    ) -> Result<Atom, Diagnostic> {
        let names: Vec<String> = self.threads.iter().map(|t| t.name.clone()).collect();
        let Some(index) = names.iter().position(|name| name == thread) else {
            return Err(self
                .error("thread", format!("there is no thread `{thread}`"), span)
                .did_you_mean(thread, names.iter().map(String::as_str)));
        };
        let (word, span) = self.register_word()?;
        let registers = &self.threads[index].registers;
        match registers.iter().position(|r| *r == word) {
            Some(register) => Ok(Atom::Register(index, register)),
            None => {
                let error = self.error("register", format!("{thread} has no register `{word}`"), span);
                Err(error.did_you_mean(&word, self.threads[index].registers.iter().map(String::as_str)))
            }
        }
    }
}
