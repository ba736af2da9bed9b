//! The parser of litmus tests: header, initial state, table of threads, question.

use std::collections::BTreeMap;

use sim_frontend::diagnostic::{Diagnostic, Source, Span};

use super::facts;
use super::instruction::Column;
use super::program::{Kind, Location, Place, Test, Thread, address_of};
use super::words::{Parser, is_word};
use crate::cursor::Cursor;

/// More threads, locations or rows than that are no litmus test.
const MOST: usize = 256;

/// Parses a test.
pub(super) fn parse(source: &Source) -> Result<Test, Diagnostic> {
    let mut parser = Parser {
        cursor: Cursor::new(source),
        locations: Vec::new(),
        threads: Vec::new(),
        registers: Vec::new(),
        depth: 0,
        last: Span::default(),
    };
    let (name, about, facts) = parser.header()?;
    parser.initial_state()?;
    parser.thread_row()?;
    let rows = parser.table()?;
    parser.resolve(rows, source)?;
    let (filter, quantifier, condition) = parser.question()?;
    let Parser { locations, threads, .. } = parser;
    Ok(Test { source: source.clone(), name, facts, about, locations, threads, filter, quantifier, condition })
}

type Header = (String, Vec<String>, BTreeMap<String, String>);
impl Parser<'_> {
    fn header(&mut self) -> Result<Header, Diagnostic> {
        let (language, span) = self.word("`PTX`")?;
        if !language.eq_ignore_ascii_case("ptx") {
            return Err(self.error(
                "language",
                format!("this is a litmus test for {language}, not for PTX"),
                span,
            ));
        }
        self.cursor.take_while(|c| c == ' ' || c == '\t');
        let name = self.cursor.take_while(|c| c != '\n' && c != '\r' && c != '{').trim().to_string();
        let (mut about, mut facts) = (Vec::new(), BTreeMap::new());
        loop {
            self.cursor.skip_blanks()?;
            if self.cursor.rest().starts_with('{') {
                return Ok((name, about, facts));
            }
            let start = self.cursor.offset();
            if self.cursor.take("\"") {
                let text = self.cursor.take_while(|c| c != '"').to_string();
                if !self.cursor.take("\"") {
                    let span = Span { start, end: start + 1 };
                    return Err(self.error("string", "unterminated string", span).help("end it with `\"`"));
                }
                about.push(text);
                continue;
            }
            let line = self.cursor.take_while(|c| c != '\n');
            let Some((key, value)) = line.split_once('=').filter(|(key, _)| !key.trim().is_empty()) else {
                let span = self.cursor.span_from(start);
                let message = "expected a string, a line `KEY=VALUE` or the initial state `{ … }`";
                return Err(self.error("header", message, span));
            };
            let (key, value) = (key.trim(), value.trim());
            if let Some(reason) = facts::refused(key, value) {
                return Err(self.error("expectation", reason, self.cursor.span_from(start)));
            }
            facts.insert(key.to_string(), value.to_string());
        }
    }

    fn initial_state(&mut self) -> Result<(), Diagnostic> {
        self.symbol("{", "before the initial state")?;
        loop {
            while self.take_symbol(";")? {}
            if self.take_symbol("}")? {
                self.take_symbol(";")?;
                return Ok(());
            }
            self.declaration()?;
            self.cursor.skip_blanks()?;
            if !self.cursor.rest().starts_with([';', '}']) {
                return Err(self.expected("`;` after a declaration"));
            }
        }
    }

    fn declaration(&mut self) -> Result<(), Diagnostic> {
        self.cursor.skip_blanks()?;
        let (thread, span) = match self.take_number()? {
            Some(number) => (format!("P{number}"), self.last),
            None => self.word("a location, or a register such as `P0:r0`")?,
        };
        if self.take_symbol(":")? {
            let (register, _) = self.register_word()?;
            self.symbol("=", "after the register")?;
            let value = self.initial_value()?;
            self.registers.push((thread, span, register, value));
            return Ok(());
        }
        if self.locations.iter().any(|l| l.name == thread) {
            return Err(self.error("location", format!("`{thread}` is declared twice"), span));
        }
        let index = self.locations.len();
        if index == MOST {
            return Err(self.error("size", format!("a test has at most {MOST} locations"), span));
        }
        if self.take_symbol("@")? {
            let (proxy, at) = self.word("a proxy")?;
            let generic = match proxy.as_str() {
                "generic" => true,
                "constant" | "texture" | "surface" => false,
                other => {
                    let error = self.error("proxy", format!("`{other}` is not a proxy"), at);
                    return Err(error.help("proxies are generic, constant, texture, surface"));
                }
            };
            if !self.take_word("aliases")? {
                return Err(self.expected("`aliases`"));
            }
            let (target, at) = self.word("a location")?;
            let target = self.location(&target, at)?;
            let of = self.locations[target].clone();
            let generic = if generic { index } else { of.generic };
            let location = Location { name: thread, physical: of.physical, generic, init: of.init };
            self.locations.push(location);
            return Ok(());
        }
        self.symbol("=", "and an initial value")?;
        let init = self.initial_value()?;
        self.locations.push(Location { name: thread, physical: index, generic: index, init });
        Ok(())
    }

    /// A number, or the address of a location: `&x`.
    fn initial_value(&mut self) -> Result<i64, Diagnostic> {
        if let Some(value) = self.take_number()? {
            return Ok(value);
        }
        self.take_symbol("&")?;
        let (word, span) = self.word("a number, or a location for its address")?;
        Ok(address_of(self.location(&word, span)?))
    }

    fn thread_row(&mut self) -> Result<(), Diagnostic> {
        loop {
            let (name, span) = self.word("a thread, such as `P0@cta 0,gpu 0`")?;
            let number =
                name.strip_prefix('P').filter(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
            if number.is_none() {
                return Err(self
                    .error("thread", format!("`{name}` is not a thread"), span)
                    .help("threads are P0, P1 …"));
            }
            if self.threads.iter().any(|t| t.name == name) {
                return Err(self.error("thread", format!("`{name}` is declared twice"), span));
            }
            let place = self.place(&name, span)?;
            if self.threads.len() == MOST {
                return Err(self.error("size", format!("a test has at most {MOST} threads"), span));
            }
            self.threads.push(Thread {
                name,
                place,
                registers: Vec::new(),
                init: Vec::new(),
                code: Vec::new(),
            });
            if self.take_symbol(";")? {
                break;
            }
            self.symbol("|", "between threads, or `;` after the last")?;
        }
        for (thread, span, register, value) in std::mem::take(&mut self.registers) {
            let Some(index) = self.threads.iter().position(|t| t.name == thread) else {
                let names: Vec<String> = self.threads.iter().map(|t| t.name.clone()).collect();
                let error = self.error("thread", format!("there is no thread `{thread}`"), span);
                return Err(error.did_you_mean(&thread, names.iter().map(String::as_str)));
            };
            let register = self.register(index, &register);
            self.threads[index].init[register] = value;
        }
        Ok(())
    }

    /// `@cta 0,gpu 0`, with `cluster 0` if the CTAs of a cluster are meant.
    fn place(&mut self, name: &str, span: Span) -> Result<Place, Diagnostic> {
        self.symbol("@", "and the place of the thread")?;
        let (mut cta, mut cluster, mut gpu) = (None, None, None);
        loop {
            let (level, at) = self.word("`cta`, `cluster` or `gpu`")?;
            let taken = match level.as_str() {
                "cta" => cta.is_some(),
                "cluster" => cluster.is_some(),
                "gpu" => gpu.is_some(),
                other => {
                    let error =
                        self.error("scope", format!("`{other}` is not a level of the scope tree"), at);
                    return Err(error.help("write `P0@cta 0,gpu 0` or `P0@cta 0,cluster 0,gpu 0`"));
                }
            };
            if taken {
                return Err(self.error("scope", format!("`{level}` of {name} is given twice"), at));
            }
            let number = self.take_number()?.and_then(|v| u32::try_from(v).ok());
            let Some(number) = number else {
                return Err(self.expected(&format!("the number of the {level}")));
            };
            match level.as_str() {
                "cta" => cta = Some(number),
                "cluster" => cluster = Some(number),
                _ => gpu = Some(number),
            }
            if !self.take_symbol(",")? {
                break;
            }
        }
        let Some(cta) = cta else {
            return Err(self
                .error("scope", format!("{name} has no CTA"), span)
                .help("write `P0@cta 0,gpu 0`"));
        };
        let place = Place { gpu: gpu.unwrap_or(0), cluster, cta };
        for other in &self.threads {
            if other.place.same_cta(place) && other.place.cluster != place.cluster {
                let message = format!("{name} and {} are in one CTA, but not in one cluster", other.name);
                return Err(self
                    .error("scope", message, span)
                    .help("give threads of a CTA the same cluster"));
            }
        }
        Ok(place)
    }

    /// Rows of instructions, up to the question.
    fn table(&mut self) -> Result<Vec<Column>, Diagnostic> {
        let mut columns: Vec<Column> = self.threads.iter().map(|_| Column::default()).collect();
        for rows in 0.. {
            self.cursor.skip_blanks()?;
            if self.at_question() {
                break;
            }
            if rows == MOST {
                return Err(self.error("size", format!("a test has at most {MOST} rows"), self.last));
            }
            let mut thread = 0;
            loop {
                self.cell(thread, &mut columns[thread])?;
                if self.take_symbol(";")? {
                    break;
                }
                if thread + 1 == self.threads.len() {
                    return Err(self.expected("`;` after the last thread of a row"));
                }
                self.symbol("|", "between threads, or `;` at the end of a row")?;
                thread += 1;
            }
        }
        Ok(columns)
    }

    fn at_question(&self) -> bool {
        let rest = self.cursor.rest();
        let word: &str = &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())];
        rest.is_empty()
            || rest.starts_with('~')
            || ["exists", "forall", "filter", "locations", "not"].contains(&word)
    }

    /// Puts indices of instructions in the place of labels.
    fn resolve(&mut self, columns: Vec<Column>, source: &Source) -> Result<(), Diagnostic> {
        for (thread, column) in columns.into_iter().enumerate() {
            for (i, (name, span, _)) in column.labels.iter().enumerate() {
                if column.labels[..i].iter().any(|(other, ..)| other == name) {
                    return Err(self.error(
                        "label",
                        format!("the label `{name}` is defined twice in this thread"),
                        *span,
                    ));
                }
            }
            for (mut instruction, pending) in column.cells {
                if let Some((name, span)) = pending {
                    let Some((_, _, at)) = column.labels.iter().find(|(label, ..)| *label == name) else {
                        let thread = &self.threads[thread].name;
                        let error = self.error("label", format!("{thread} has no label `{name}`"), span);
                        return Err(error.did_you_mean(&name, column.labels.iter().map(|l| l.0.as_str())));
                    };
                    match &mut instruction.kind {
                        Kind::Branch { target, .. } | Kind::Goto(target) => *target = *at,
                        _ => {}
                    }
                }
                instruction.line = source.line(instruction.span.start);
                self.threads[thread].code.push(instruction);
            }
        }
        Ok(())
    }
}
