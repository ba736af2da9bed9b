//! Several PTX texts become one module, as `nvcc -rdc=true` and the driver's linker join them: declarations meet the
//! definitions of other texts, names that are local to a text stay apart, and of several weak definitions of a name one
//! is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::diagnostic::{Diagnostic, Source, Span};
use crate::ptx::lexer::{Kind, Token, lex};

/// How a name is seen outside of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Linkage {
    /// Not at all.
    Local,
    /// Defined here for all.
    Visible,
    /// Defined here, unless another text does.
    Weak,
    /// Defined elsewhere.
    Extern,
}

/// A function or variable at module scope.
#[derive(Debug)]
struct Item<'a> {
    name: &'a str,
    linkage: Linkage,
    /// A kernel, which the host knows by its name.
    entry: bool,
    /// It is no mere declaration.
    defines: bool,
    span: Span,
}

/// What is at module scope of a text.
#[derive(Debug, Default)]
struct Unit<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    version: (u32, u32),
    target: &'a str,
    items: Vec<Item<'a>>,
    /// Directives that the whole module has once.
    header: Vec<Span>,
    /// Greatest number of `.file`.
    files: u64,
}

impl<'a> Unit<'a> {
    fn word(&self, token: &Token) -> &'a str {
        self.text.get(token.span.start as usize..token.span.end as usize).unwrap_or("")
    }

    fn of(text: &'a str) -> Self {
        let mut unit = Unit { text, tokens: lex(text), ..Unit::default() };
        let mut at = 0;
        while let Some(token) = unit.tokens.get(at).copied() {
            at = match (token.kind, unit.word(&token)) {
                (Kind::Dotted, word @ (".version" | ".target" | ".address_size")) => unit.header(at, word),
                (Kind::Dotted, ".file") => {
                    if let Some(Kind::Int(number)) = unit.tokens.get(at + 1).map(|token| token.kind) {
                        unit.files = unit.files.max(number);
                    }
                    at + 1
                }
                (Kind::Dotted, ".section") => unit.end_of(at, true),
                (
                    Kind::Dotted,
                    ".extern" | ".visible" | ".weak" | ".common" | ".func" | ".entry" | ".global" | ".const"
                    | ".shared" | ".local" | ".tex" | ".surf" | ".texref" | ".samplerref" | ".surfref",
                ) => unit.item(at),
                _ => at + 1,
            };
        }
        unit
    }

    fn header(&mut self, first: usize, word: &str) -> usize {
        let mut last = first + 1;
        let value = self.tokens.get(last).map_or("", |token| self.word(token));
        match word {
            ".version" => {
                let parts = value.split_once('.').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
                self.version = parts.unwrap_or_default();
            }
            ".target" => {
                self.target = value;
                while self.tokens.get(last + 1).is_some_and(|token| token.kind == Kind::Punct(b',')) {
                    last += 2;
                }
            }
            _ => {}
        }
        if let (Some(first), Some(last)) = (self.tokens.get(first), self.tokens.get(last)) {
            self.header.push(Span { start: first.span.start, end: last.span.end });
        }
        last + 1
    }

    /// Behind the item that begins at a token: behind its `;`, or behind its body where it has one.
    fn end_of(&self, first: usize, body: bool) -> usize {
        let mut depth = 0u32;
        for (i, token) in self.tokens.iter().enumerate().skip(first) {
            match token.kind {
                Kind::Punct(b'{' | b'(' | b'[') => depth += 1,
                Kind::Punct(close @ (b'}' | b')' | b']')) => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 && body && close == b'}' {
                        return i + 1;
                    }
                }
                Kind::Punct(b';') if depth == 0 => return i + 1,
                _ => {}
            }
        }
        self.tokens.len()
    }

    fn item(&mut self, first: usize) -> usize {
        let mut linkage = Linkage::Local;
        let (mut at, mut function, mut entry) = (first, false, false);
        while let Some(token) = self.tokens.get(at) {
            match (token.kind, self.word(token)) {
                (Kind::Dotted, ".extern") => linkage = Linkage::Extern,
                (Kind::Dotted, ".visible") => linkage = Linkage::Visible,
                (Kind::Dotted, ".weak" | ".common") => linkage = Linkage::Weak,
                (Kind::Dotted, word @ (".func" | ".entry")) => (function, entry) = (true, word == ".entry"),
                (Kind::Dotted | Kind::Int(_), _) => {}
                // What a function returns.
                (Kind::Punct(b'('), _) if function => {
                    while self.tokens.get(at).is_some_and(|token| token.kind != Kind::Punct(b')')) {
                        at += 1;
                    }
                }
                _ => break,
            }
            at += 1;
        }
        let end = self.end_of(first, function);
        let (Some(name), Some(begin), Some(last)) = (
            self.tokens.get(at),
            self.tokens.get(first),
            end.checked_sub(1).and_then(|last| self.tokens.get(last)),
        ) else {
            return end.max(first + 1);
        };
        if name.kind == Kind::Name {
            let has_body = last.kind == Kind::Punct(b'}');
            let span = Span { start: begin.span.start, end: last.span.end };
            let defines = linkage != Linkage::Extern && (has_body || !function);
            self.items.push(Item { name: self.word(name), linkage, entry, defines, span });
        }
        end.max(first + 1)
    }
}

/// Joins texts to a module of a name; one alone stays as it is.
///
/// # Errors
/// A name that two texts define for all.
pub fn link(name: &str, texts: &[Source]) -> Result<Source, Vec<Diagnostic>> {
    if let [text] = texts {
        return Ok(text.clone());
    }
    let units: Vec<Unit<'_>> = texts.iter().map(|source| Unit::of(&source.text)).collect();
    // Who defines a name for all: the first that does, and a weak one only where there is no other.
    let mut owner: BTreeMap<&str, (usize, Linkage)> = BTreeMap::new();
    let mut errors = Vec::new();
    for (number, unit) in units.iter().enumerate() {
        for item in unit.items.iter().filter(|item| item.defines) {
            let shared = item.linkage != Linkage::Local || item.entry;
            match owner.get(item.name) {
                _ if !shared => {}
                Some((first, Linkage::Visible | Linkage::Local)) if item.linkage != Linkage::Weak => {
                    let message = format!(
                        "`{}` is defined in {} and in {}",
                        item.name, texts[*first].name, texts[number].name
                    );
                    let at = Span { start: item.span.start, end: item.span.start };
                    errors.push(Diagnostic::error("link", message).at(at, "").in_source(&texts[number]));
                }
                Some((_, Linkage::Weak)) if item.linkage == Linkage::Weak => {}
                Some((_, Linkage::Visible | Linkage::Local)) => {}
                _ => {
                    owner.insert(item.name, (number, item.linkage));
                }
            }
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    // Names that mean something in more than one text.
    let mut known: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for (number, unit) in units.iter().enumerate() {
        for item in &unit.items {
            known.entry(item.name).or_default().insert(number);
        }
    }
    let version = units.iter().map(|unit| unit.version).max().unwrap_or_default();
    let number = |target: &str| {
        target.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0u32)
    };
    let target = units.iter().map(|unit| unit.target).max_by_key(|target| number(target)).unwrap_or_default();
    let bits = if texts.iter().any(|text| text.text.contains(".address_size 32")) { 32 } else { 64 };
    let mut out = format!(".version {}.{}\n.target {target}\n.address_size {bits}\n", version.0, version.1);
    let mut files = 0;
    for (number, unit) in units.iter().enumerate() {
        let is_local = |item: &&Item<'_>| {
            let elsewhere = known.get(item.name).is_some_and(|texts| texts.len() > 1);
            item.linkage == Linkage::Local && !item.entry && elsewhere && item.defines
        };
        let local: BTreeSet<&str> = unit.items.iter().filter(is_local).map(|item| item.name).collect();
        let dropped = |item: &&Item<'_>| {
            item.defines
                && item.linkage == Linkage::Weak
                && owner.get(item.name).is_some_and(|(owner, _)| *owner != number)
        };
        let mut cuts: Vec<Span> = unit.items.iter().filter(dropped).map(|item| item.span).collect();
        cuts.extend(&unit.header);
        cuts.sort_by_key(|span| span.start);
        let _ = writeln!(out, "// {}", texts[number].name);
        unit.write(&mut out, &cuts, &local, number, files);
        out.push('\n');
        files += unit.files;
    }
    Ok(Source::new(name, &out))
}

impl Unit<'_> {
    /// Writes the text without `cuts`, its `local` names and the numbers of its files changed.
    fn write(&self, out: &mut String, cuts: &[Span], local: &BTreeSet<&str>, number: usize, files: u64) {
        let mut written = 0;
        let mut cuts = cuts.iter().peekable();
        let copy = |out: &mut String, from: u32, to: u32| {
            out.push_str(self.text.get(from as usize..to as usize).unwrap_or(""));
        };
        for (i, token) in self.tokens.iter().enumerate() {
            while let Some(cut) = cuts.next_if(|cut| cut.start <= token.span.start) {
                copy(out, written, cut.start.max(written));
                written = cut.end.max(written);
            }
            if token.span.start < written {
                continue;
            }
            let before =
                i.checked_sub(1).and_then(|i| self.tokens.get(i)).map_or("", |token| self.word(token));
            match token.kind {
                Kind::Name if local.contains(self.word(token)) => {
                    copy(out, written, token.span.end);
                    let _ = write!(out, "$unit{number}");
                    written = token.span.end;
                }
                Kind::Int(file) if files > 0 && matches!(before, ".file" | ".loc" | "inlined_at") => {
                    copy(out, written, token.span.start);
                    let _ = write!(out, "{}", file + files);
                    written = token.span.end;
                }
                _ => {}
            }
        }
        copy(out, written, self.text.len() as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Module;

    const HEAD: &str = ".version 8.0\n.target sm_70\n.address_size 64\n";
    const FIRST: &str = ".extern .func (.param .b32 r) twice(.param .b32 x);\n\
        .extern .global .align 4 .b8 table[16];\n.global .align 1 .b8 $str[3] = {1, 2, 3};\n\
        .weak .func same() { ret; }\n.file 1 \"a.cu\"\n\
        .visible .entry k(.param .u64 p) {\n.reg .b32 %r<3>;\n.reg .b64 %a, %b;\n.loc 1 7 3\n\
        ld.param.u64 %a, [p];\nmov.u64 %b, table;\nld.global.u32 %r1, [%b];\nmov.u64 %b, $str;\n\
        { .param .b32 in; .param .b32 back; st.param.b32 [in], %r1; call.uni (back), twice, (in);\n\
        ld.param.b32 %r2, [back]; }\ncall.uni same;\nst.global.u32 [%a], %r2;\nret;\n}\n";
    const SECOND: &str = ".visible .global .align 4 .b8 table[16] = {1, 0, 0, 0, 2};\n\
        .global .align 1 .b8 $str[2] = {9, 9};\n.weak .func same() { ret; }\n.file 1 \"b.cu\"\n\
        .visible .func (.param .b32 r) twice(.param .b32 x) {\n.reg .b32 %r<3>;\n.loc 1 2 1, function_name $L, inlined_at 1 5 2\n\
        ld.param.u32 %r1, [x];\nshl.b32 %r2, %r1, 1;\nst.param.b32 [r], %r2;\nret;\n}\n";

    fn sources(texts: &[&str]) -> Vec<Source> {
        let source = |(i, text): (usize, &&str)| Source::new(&format!("{i}.ptx"), &format!("{HEAD}{text}"));
        texts.iter().enumerate().map(source).collect()
    }

    #[test]
    fn declarations_meet_definitions_and_local_names_stay_apart() {
        let linked =
            link("all.ptx", &sources(&[FIRST, SECOND])).unwrap_or_else(|e| panic!("{}", e[0].render()));
        let module =
            Module::build(&linked, false).unwrap_or_else(|e| panic!("{}\n{}", e[0].render(), linked.text));
        assert_eq!(module.entries().collect::<Vec<_>>(), ["k"]);
        let names: Vec<&str> = module.globals().iter().map(|global| global.name.as_str()).collect();
        assert_eq!(names, ["$str$unit0", "table", "$str$unit1"]);
        assert_eq!(linked.text.matches(".weak .func same").count(), 1);
        for wanted in [".file 1 \"a.cu\"", ".file 2 \"b.cu\"", ".loc 1 7 3", ".loc 2 2 1", "inlined_at 2 5 2"]
        {
            assert!(linked.text.contains(wanted), "{wanted}\n{}", linked.text);
        }
        assert_eq!(linked.text.matches(".version").count(), 1);
    }

    #[test]
    fn one_text_alone_stays_as_it_is_and_two_definitions_are_an_error() {
        let one = sources(&[FIRST]);
        assert_eq!(link("all.ptx", &one).map(|linked| linked.text), Ok(one[0].text.clone()));
        let errors = link("all.ptx", &sources(&[SECOND, SECOND])).expect_err("twice");
        let text: String = errors.iter().map(ToString::to_string).collect();
        assert!(
            text.contains("`table` is defined in 0.ptx and in 1.ptx") && text.contains("`twice`"),
            "{text}"
        );
        // A definition for all goes before a weak one, wherever it stands.
        let strong = ".visible .func same() { .reg .b32 %x; ret; }\n";
        let linked = link("all.ptx", &sources(&[FIRST, SECOND, strong])).expect("links");
        assert!(!linked.text.contains(".weak .func same") && linked.text.contains(".visible .func same"));
    }

    #[test]
    fn texts_that_are_no_ptx_are_joined_without_harm() {
        for broken in
            ["", ".func", ".visible .func (", ".global .u32 x = {1, {2};", ".extern", "}{;", ".section x {"]
        {
            let texts = [Source::new("a.ptx", broken), Source::new("b.ptx", broken)];
            let _ = link("c.ptx", &texts);
        }
    }
}
