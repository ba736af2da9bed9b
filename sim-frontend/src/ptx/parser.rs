//! Recursive-descent parser of PTX. Instructions parse generically, so every valid file parses
//! whole; what they mean is the table's business. Errors are collected, up to a bound, with
//! recovery at the next `;` or `}`.

mod body;
mod constant;
pub mod papers;

use sim_memory::vocabulary::{ScalarType, StateSpace};

use super::ast::{
    Function, Init, Instruction, Module, NO_UNROLL, Opaque, Operand, OperandKind, Storage, Variable,
};
use super::lexer::{Kind, Token, lex};
use crate::diagnostic::{Diagnostic, Source, Span, nearest};

/// Most errors reported for one file.
const MAX_ERRORS: usize = 100;
/// Deepest nesting of blocks, lists and expressions.
const MAX_DEPTH: u32 = 200;
/// Longest text in bytes. A module takes some sixty times the memory of its text, and spans have 32
/// bits.
pub const MAX_BYTES: usize = 64 << 20;

pub(crate) struct Parser<'a> {
    pub(crate) source: &'a Source,
    pub(crate) text: &'a str,
    pub(crate) tokens: Vec<Token>,
    pub(crate) at: usize,
    pub(crate) errors: Vec<Diagnostic>,
    pub(crate) papers: bool,
    pub(crate) depth: u32,
}

/// What a parser function gives up with; the diagnostic is already recorded.
pub(crate) struct Skip;
pub(crate) type Parsed<T> = Result<T, Skip>;

/// The diagnostic of a text that is longer than [`MAX_BYTES`].
pub fn too_large(name: &str, bytes: u64) -> Diagnostic {
    let message = format!(
        "{name} has {} MiB; texts of up to {} MiB are read, so that memory stays bounded",
        bytes.div_ceil(1 << 20),
        MAX_BYTES >> 20
    );
    Diagnostic::error("size", message).help("split the module, or keep the kernels that are launched")
}

/// Parses a module. `papers` accepts the papers' dialect; a first line `// dialect: papers`
/// does too.
///
/// # Errors
/// Every error of the file, up to a hundred.
pub fn parse(source: &Source, papers: bool) -> Result<Module<'_>, Vec<Diagnostic>> {
    let text: &str = &source.text;
    if text.len() > MAX_BYTES {
        return Err(vec![too_large(&source.name, text.len() as u64)]);
    }
    let declared = text.lines().next().is_some_and(|line| line.trim() == "// dialect: papers");
    let mut parser = Parser {
        source,
        text,
        tokens: lex(text),
        at: 0,
        errors: Vec::new(),
        papers: papers || declared,
        depth: 0,
    };
    let module = parser.module();
    if parser.errors.is_empty() { Ok(module) } else { Err(parser.errors) }
}

/// Parses one instruction, which ends with a `;`.
pub(crate) fn parse_instruction(source: &Source, papers: bool) -> Option<Instruction<'_>> {
    let tokens = lex(&source.text);
    let mut parser =
        Parser { source, text: &source.text, tokens, at: 0, errors: Vec::new(), papers, depth: 0 };
    parser.instruction().ok()
}

impl<'a> Parser<'a> {
    #[inline]
    pub(crate) fn span(&self) -> Span {
        self.tokens.get(self.at).map_or_else(|| self.end(), |t| t.span)
    }

    /// Where the text ends, without the blanks behind it: a line that a reader sees.
    #[cold]
    fn end(&self) -> Span {
        let end = self.text.trim_end().len() as u32;
        Span { start: end, end }
    }

    #[inline]
    pub(crate) fn last_span(&self) -> Span {
        self.at.checked_sub(1).and_then(|i| self.tokens.get(i)).map_or(self.span(), |t| t.span)
    }

    #[inline]
    pub(crate) fn kind(&self) -> Option<Kind> {
        self.tokens.get(self.at).map(|t| t.kind)
    }

    #[inline]
    pub(crate) fn kind_at(&self, ahead: usize) -> Option<Kind> {
        self.tokens.get(self.at + ahead).map(|t| t.kind)
    }

    #[inline]
    pub(crate) fn word_at(&self, ahead: usize) -> &'a str {
        self.tokens.get(self.at + ahead).map_or("", |t| self.slice(t.span))
    }

    #[inline]
    pub(crate) fn slice(&self, span: Span) -> &'a str {
        self.text.get(span.start as usize..span.end as usize).unwrap_or("")
    }

    #[inline]
    pub(crate) fn word(&self) -> &'a str {
        self.word_at(0)
    }

    #[cold]
    pub(crate) fn error<T>(&mut self, span: Span, message: impl Into<String>, label: &str) -> Parsed<T> {
        if self.errors.len() < MAX_ERRORS {
            let diagnostic = Diagnostic::error("syntax", message).at(span, label).in_source(self.source);
            self.errors.push(diagnostic);
        }
        Err(Skip)
    }

    #[cold]
    pub(crate) fn expected<T>(&mut self, what: &str) -> Parsed<T> {
        let span = self.span();
        let unended = |token: &Token| token.kind == Kind::Unended;
        if self.kind().is_none() && self.tokens.last().is_some_and(unended) && !self.errors.is_empty() {
            // The end of the file is where it is for that reason.
            return Err(Skip);
        }
        let found = match self.kind() {
            None => "the end of the file".to_string(),
            Some(Kind::Unended) if self.word().starts_with('"') => "an unterminated string".to_string(),
            Some(Kind::Unended) => "an unterminated comment".to_string(),
            Some(Kind::TooLarge) => "an integer of more than 64 bits".to_string(),
            _ => format!("`{}`", self.word()),
        };
        let word = self.word();
        let digits = match word.get(..2) {
            Some("0f" | "0F") => Some("8"),
            Some("0d" | "0D") => Some("16"),
            _ => None,
        };
        let result = self.error(span, format!("expected {what}, found {found}"), "");
        if let (Some(digits), Some(last)) = (digits, self.errors.last_mut()) {
            last.help = Some(format!("`{}` is followed by {digits} hexadecimal digits", &word[..2]));
        }
        result
    }

    #[inline]
    pub(crate) fn eat(&mut self, punct: u8) -> bool {
        let found = self.kind() == Some(Kind::Punct(punct));
        self.at += usize::from(found);
        found
    }

    #[inline]
    pub(crate) fn expect(&mut self, punct: u8) -> Parsed<()> {
        if self.eat(punct) { Ok(()) } else { self.expected_punct(punct) }
    }

    #[cold]
    fn expected_punct(&mut self, punct: u8) -> Parsed<()> {
        self.expected(&format!("`{}`", char::from(punct)))
    }

    pub(crate) fn eat_dotted(&mut self, name: &str) -> bool {
        let found = self.kind() == Some(Kind::Dotted) && &self.word()[1..] == name;
        self.at += usize::from(found);
        found
    }

    #[inline]
    pub(crate) fn name(&mut self, what: &str) -> Parsed<&'a str> {
        if self.kind() == Some(Kind::Name) {
            let word = self.word();
            self.at += 1;
            Ok(word)
        } else {
            self.expected(what)
        }
    }

    #[inline]
    pub(crate) fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MAX_DEPTH {
            let span = self.span();
            return self.error(span, "nested too deeply", "");
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// Skips to just after the next `;`, or to a `}` or the end.
    pub(crate) fn recover(&mut self) {
        while let Some(kind) = self.kind() {
            match kind {
                Kind::Punct(b';') => {
                    self.at += 1;
                    return;
                }
                Kind::Punct(b'}') => return,
                _ => self.at += 1,
            }
        }
    }

    /// `.pragma`: true for `"nounroll"`, others are for other assemblers.
    pub(crate) fn pragma(&mut self) -> bool {
        let mut found = false;
        while matches!(self.kind(), Some(Kind::Text | Kind::Dotted | Kind::Punct(b','))) {
            found |= self.word().trim_matches('"') == NO_UNROLL;
            self.at += 1;
        }
        self.recover();
        found
    }

    fn module(&mut self) -> Module<'a> {
        let mut module = Module { papers: self.papers, ..Module::default() };
        while self.kind().is_some() {
            let before = self.at;
            if self.item(&mut module).is_err() {
                self.recover();
                self.eat(b'}');
            }
            if self.at == before {
                self.at += 1;
            }
        }
        if !self.papers && module.version.is_none() && self.errors.is_empty() {
            let span = Span::default();
            let _: Parsed<()> = self.error(span, "the module does not begin with `.version`", "");
        }
        module
    }

    fn item(&mut self, module: &mut Module<'a>) -> Parsed<()> {
        let start = self.span();
        if self.kind() != Some(Kind::Dotted) {
            // `@@DWARF` lines of old compilers are data for debuggers.
            if self.kind() == Some(Kind::Punct(b'@')) && self.kind_at(1) == Some(Kind::Punct(b'@')) {
                let line = self.source.line(start.start);
                while self.kind().is_some() && self.source.line(self.span().start) == line {
                    self.at += 1;
                }
                return Ok(());
            }
            if self.is_bare_listing() {
                let function = self.bare_listing()?;
                module.functions.push(function);
                return Ok(());
            }
            return self.expected("a directive");
        }
        match &self.word()[1..] {
            "version" => {
                self.at += 1;
                let text = self.word();
                let parts = match self.kind() {
                    Some(Kind::Float(_) | Kind::Int(_)) => text.split_once('.'),
                    _ => None,
                };
                let version = parts.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
                let Some(version) = version else { return self.expected("a version such as 8.0") };
                self.at += 1;
                module.version = Some(version);
            }
            "target" => {
                self.at += 1;
                loop {
                    let word = self.name("a target such as sm_52")?;
                    module.target.push(word);
                    if !self.eat(b',') {
                        break;
                    }
                }
            }
            "address_size" => {
                self.at += 1;
                match self.kind() {
                    Some(Kind::Int(size @ (32 | 64))) => module.address_size = Some(size as u32),
                    _ => return self.expected("32 or 64"),
                }
                self.at += 1;
            }
            "file" | "loc" => {
                let line = self.source.line(start.start);
                if let Some(Kind::Int(number)) = self.tokens.get(self.at + 1).map(|token| token.kind)
                    && let Some(name) = self.tokens.get(self.at + 2).filter(|token| token.kind == Kind::Text)
                {
                    let name = self.text[name.span.start as usize..name.span.end as usize].trim_matches('"');
                    module.files.push((number as u32, name));
                }
                while self.kind().is_some() && self.source.line(self.span().start) == line {
                    self.at += 1;
                }
            }
            "section" => {
                while !matches!(self.kind(), None | Some(Kind::Punct(b'{'))) {
                    self.at += 1;
                }
                let mut depth = 0u32;
                loop {
                    match self.kind() {
                        None => return self.expected("`}`"),
                        Some(Kind::Punct(b'{')) => depth += 1,
                        Some(Kind::Punct(b'}')) => depth -= 1,
                        _ => {}
                    }
                    self.at += 1;
                    if depth == 0 {
                        break;
                    }
                }
            }
            "pragma" => module.keeps_loops |= self.pragma(),
            "alias" => self.recover(),
            _ => self.declaration(module)?,
        }
        Ok(())
    }

    /// Linkage, then a variable or a function.
    fn declaration(&mut self, module: &mut Module<'a>) -> Parsed<()> {
        let mut external = false;
        loop {
            if self.eat_dotted("extern") {
                external = true;
            } else if !(self.eat_dotted("visible") || self.eat_dotted("weak") || self.eat_dotted("common")) {
                break;
            }
        }
        if self.eat_dotted("entry") || self.eat_dotted("func") {
            let entry =
                self.text.get(self.last_span().start as usize..).is_some_and(|t| t.starts_with(".entry"));
            let function = self.function(entry)?;
            module.functions.push(function);
            return Ok(());
        }
        let list = self.variables(external, b';')?;
        if self.papers && self.kind() != Some(Kind::Punct(b';')) {
            module.variables.extend(list);
            return Ok(());
        }
        self.expect(b';')?;
        module.variables.extend(list);
        Ok(())
    }

    fn function(&mut self, entry: bool) -> Parsed<Function<'a>> {
        let returns =
            if !entry && self.kind() == Some(Kind::Punct(b'(')) { self.parameters()? } else { Vec::new() };
        let span = self.span();
        let name = self.name("the name of the function")?;
        let params = if self.kind() == Some(Kind::Punct(b'(')) { self.parameters()? } else { Vec::new() };
        let mut bounds = Vec::new();
        while self.kind() == Some(Kind::Dotted) {
            let word = &self.word()[1..];
            self.at += 1;
            match word {
                "maxntid" | "reqntid" | "minnctapersm" | "maxnctapersm" | "maxnreg" | "maxclusterrank"
                | "reqnctapercluster" => {
                    let mut values = Vec::new();
                    while let Some(Kind::Int(value)) = self.kind() {
                        values.push(value);
                        self.at += 1;
                        self.eat(b',');
                    }
                    bounds.push((word, values));
                }
                "explicitcluster" => bounds.push((word, Vec::new())),
                "noreturn" | "unique" => {}
                "pragma" => {
                    if self.pragma() {
                        bounds.push((NO_UNROLL, Vec::new()));
                    }
                }
                "attribute" => {
                    while !matches!(self.kind(), None | Some(Kind::Punct(b')'))) {
                        self.at += 1;
                    }
                    self.expect(b')')?;
                }
                // Compilers for sm_20 end declarations without a `;`: the next item begins.
                "visible" | "extern" | "weak" | "common" | "func" | "entry" | "global" | "const"
                | "shared" | "file" | "section"
                    if !entry =>
                {
                    self.at -= 1;
                    return Ok(Function { entry, name, returns, params, body: None, bounds, span });
                }
                _ => {
                    self.at -= 1;
                    return self.expected("a performance directive, `{` or `;`");
                }
            }
        }
        if self.eat(b';') || !entry && self.kind().is_none() {
            return Ok(Function { entry, name, returns, params, body: None, bounds, span });
        }
        self.expect(b'{')?;
        let mut body = self.statements()?;
        self.expect(b'}')?;
        if self.papers {
            body = self.number_lines(body);
        }
        Ok(Function { entry, name, returns, params, body: Some(body), bounds, span })
    }

    fn parameters(&mut self) -> Parsed<Vec<Variable<'a>>> {
        self.expect(b'(')?;
        let mut list = Vec::new();
        while !self.eat(b')') {
            if !list.is_empty() {
                self.expect(b',')?;
            }
            list.extend(self.variables(false, b')')?);
        }
        Ok(list)
    }

    /// `.space [.align n] [.v4] .type name[, name…]`; the list ends before `end`.
    pub(crate) fn variables(&mut self, external: bool, end: u8) -> Parsed<Vec<Variable<'a>>> {
        let start = self.span();
        let mut storage = None;
        let (mut align, mut ty, mut vector, mut opaque) = (None, None, 1, None);
        while self.kind() == Some(Kind::Dotted) {
            let word = &self.word()[1..];
            self.at += 1;
            match word {
                "reg" => storage = Some(Storage::Register),
                "global" => storage = Some(Storage::Space(StateSpace::Global)),
                "const" => storage = Some(Storage::Space(StateSpace::Const)),
                "local" => storage = Some(Storage::Space(StateSpace::Local)),
                "shared" => storage = Some(Storage::Space(StateSpace::Shared)),
                "param" => storage = Some(Storage::Space(StateSpace::Param)),
                "sreg" | "tex" => storage = Some(Storage::Space(StateSpace::Global)),
                "align" => match self.kind() {
                    Some(Kind::Int(value)) if value.is_power_of_two() && value <= 1 << 20 => {
                        align = Some(value as u32);
                        self.at += 1;
                    }
                    _ => return self.expected("a power of two"),
                },
                // `.ptr .global .align n` of a kernel parameter says where it points.
                "ptr" => {
                    for space in ["global", "const", "local", "shared", "generic"] {
                        self.eat_dotted(space);
                    }
                    if self.eat_dotted("align") {
                        self.at += 1;
                    }
                }
                "v2" => vector = 2,
                "v4" => vector = 4,
                "texref" | "samplerref" | "surfref" => {
                    ty = Some(ScalarType::B64);
                    opaque = Some(match word {
                        "texref" => Opaque::Texture,
                        "samplerref" => Opaque::Sampler,
                        _ => Opaque::Surface,
                    });
                }
                "attribute" => {
                    while !matches!(self.kind(), None | Some(Kind::Punct(b')'))) {
                        self.at += 1;
                    }
                    self.expect(b')')?;
                }
                other => match ScalarType::named(other) {
                    Some(found) => ty = Some(found),
                    None => {
                        self.at -= 1;
                        let span = self.span();
                        let known = ["reg", "global", "const", "local", "shared", "param", "align"];
                        let types = [
                            "u32", "s32", "b32", "f32", "u64", "s64", "b64", "f64", "pred", "u16", "b16",
                            "u8", "b8",
                        ];
                        let near = nearest(other, known.into_iter().chain(types));
                        let result = self.error(
                            span,
                            format!("`.{other}` is neither a type nor a directive of a declaration"),
                            "",
                        );
                        if let (Some(near), Some(last)) = (near, self.errors.last_mut()) {
                            last.help = Some(format!("did you mean `.{near}`?"));
                        }
                        return result;
                    }
                },
            }
        }
        let Some(storage) = storage else { return self.expected("a state space such as `.reg`") };
        let ty = match ty {
            Some(ty) => ty,
            None if self.papers => ScalarType::B32,
            None => return self.expected("a type such as `.u32`"),
        };
        let mut list = Vec::new();
        loop {
            let name = self.name("a name")?;
            let mut variable = Variable {
                storage,
                ty,
                opaque,
                vector,
                align,
                name,
                count: None,
                dims: Vec::new(),
                init: None,
                external,
                span: start.to(self.last_span()),
            };
            // Not in lists of parameters.
            if end == b';' && self.eat(b'<') {
                match self.kind() {
                    Some(Kind::Int(n)) if n <= 1 << 20 => variable.count = Some(n as u32),
                    _ => return self.expected("a register count less than 1000000"),
                }
                self.at += 1;
                self.expect(b'>')?;
            }
            while variable.count.is_none() && self.eat(b'[') {
                if self.eat(b']') {
                    variable.dims.push(None);
                    continue;
                }
                let value = self.constant()?;
                match u64::try_from(value) {
                    Ok(size) if size <= 1 << 40 => variable.dims.push(Some(size)),
                    _ => {
                        let span = self.last_span();
                        return self.error(span, "the length of an array must be between 0 and 2^40", "");
                    }
                }
                self.expect(b']')?;
            }
            if self.eat(b'=') {
                variable.init = Some(self.deeper(Self::initialiser)?);
            }
            list.push(variable);
            // In parameter lists a comma begins the next parameter.
            if end != b';' || !self.eat(b',') {
                return Ok(list);
            }
        }
    }

    fn initialiser(&mut self) -> Parsed<Init<'a>> {
        if !self.eat(b'{') {
            let start = self.span();
            let kind = self.initial_value()?;
            return Ok(Init::Value(Operand { kind, span: start.to(self.last_span()) }));
        }
        let mut list = Vec::new();
        while !self.eat(b'}') {
            if !list.is_empty() {
                self.expect(b',')?;
            }
            list.push(self.deeper(Self::initialiser)?);
        }
        Ok(Init::List(list))
    }

    /// A constant, or an address: `sym`, `sym + 4`, `generic(sym) + 4`.
    fn initial_value(&mut self) -> Parsed<OperandKind<'a>> {
        if self.kind() == Some(Kind::Name) && self.word() != "WARP_SZ" {
            let word = self.name("a name")?;
            let generic = word == "generic" && self.eat(b'(');
            let name = if generic { self.name("a symbol")? } else { word };
            if generic {
                self.expect(b')')?;
            }
            let offset = self.signed_offset()?;
            return Ok(OperandKind::Offset { name, offset, generic });
        }
        self.constant_operand()
    }
}

#[cfg(test)]
mod tests;
