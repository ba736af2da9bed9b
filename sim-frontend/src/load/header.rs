//! What a module says of itself and of its names, before any body is read: version, target, and
//! that nothing is declared twice.

use rustc_hash::FxHashMap;
use sim_memory::address_space::{LOCAL_BYTES, WINDOW_BYTES};
use sim_memory::vocabulary::StateSpace;

use crate::diagnostic::{Diagnostic, Source, Span, nearest};
use crate::lower::tf3_stack::layout;
use crate::ptx::ast::{Function, MAX_VARIABLE, Module, Statement, Storage, Variable};

/// Newest PTX ISA whose additions the table knows.
const NEWEST_VERSION: (u32, u32) = (9, 5);

/// Architectures that `.target` may name (PTX ISA "PTX Module Directives: .target").
const TARGETS: [&str; 41] = [
    "sm_10", "sm_11", "sm_12", "sm_13", "sm_20", "sm_21", "sm_30", "sm_32", "sm_35", "sm_37", "sm_50",
    "sm_52", "sm_53", "sm_60", "sm_61", "sm_62", "sm_70", "sm_72", "sm_75", "sm_80", "sm_86", "sm_87",
    "sm_88", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_101", "sm_101a", "sm_101f",
    "sm_103", "sm_103a", "sm_103f", "sm_110", "sm_110a", "sm_110f", "sm_120", "sm_120a", "sm_120f",
];

/// Newer ones, and words that are no architecture.
const OTHER_TARGETS: [&str; 9] = [
    "sm_121",
    "sm_121a",
    "sm_121f",
    "texmode_unified",
    "texmode_independent",
    "texmode_raw",
    "debug",
    "map_f64_to_f32",
    "compute_",
];

/// The architecture that a text's `.target` names, and where: found without parsing the rest. Blanks, ends of
/// lines and comments may stand anywhere between the words, or not at all.
pub fn target_of(source: &Source) -> Option<(&str, Span)> {
    let mut words = Words(&source.text);
    loop {
        match words.next()? {
            ".version" | ".address_size" => words.next()?,
            ".target" => break,
            _ => return None,
        };
    }
    loop {
        let word = words.next()?;
        if word.starts_with("sm_") {
            return Some((word, source.span_of(word)));
        }
        words.next().filter(|word| *word == ",")?;
    }
}

/// The words of directives, and the commas between them.
struct Words<'s>(&'s str);

impl<'s> Iterator for Words<'s> {
    type Item = &'s str;

    fn next(&mut self) -> Option<&'s str> {
        loop {
            self.0 = self.0.trim_start();
            if let Some(comment) = self.0.strip_prefix("//") {
                self.0 = comment.split_once('\n')?.1;
            } else if let Some(comment) = self.0.strip_prefix("/*") {
                self.0 = comment.split_once("*/")?.1;
            } else {
                break;
            }
        }
        let ends = |c: char| c.is_whitespace() || matches!(c, ',' | '/');
        // A word of one character stands by itself, whatever it is.
        let length = match self.0.find(ends) {
            Some(0) => 1,
            Some(length) => length,
            None => self.0.len(),
        };
        let (word, rest) = self.0.split_at(length);
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }
}

/// Everything that is wrong with the module's directives and names.
pub(super) fn check(source: &Source, module: &Module<'_>) -> Vec<Diagnostic> {
    let mut errors = Vec::new();
    if !module.papers {
        version_and_target(source, module, &mut errors);
    }
    names(source, module, &mut errors);
    sizes(source, module, &mut errors);
    for variable in &module.variables {
        if variable.storage == Storage::Space(StateSpace::Shared)
            && let Some(_) = &variable.init
        {
            let message = format!(
                "`{}`: a .shared variable cannot have an initializer; store the value in the kernel",
                variable.name
            );
            errors.push(Diagnostic::error("init", message).at(variable.span, "").in_source(source));
        }
    }
    errors
}

fn version_and_target(source: &Source, module: &Module<'_>, errors: &mut Vec<Diagnostic>) {
    // `.version` comes first.
    let line = source.text.lines().find(|line| line.trim_start().starts_with(".version"));
    let start = line.map_or(Span::default(), |line| source.span_of(line.trim()));
    let mut wrong = |span: Span, code, message: String, help: Option<String>| {
        let mut error = Diagnostic::error(code, message).at(span, "").in_source(source);
        error.help = help;
        errors.push(error);
    };
    if let Some((major, minor)) = module.version
        && (major, minor) > NEWEST_VERSION
    {
        let (a, b) = NEWEST_VERSION;
        let message =
            format!("PTX ISA {major}.{minor} is not supported; {a}.{b} is the newest supported version");
        wrong(start, "version", message, None);
    }
    if module.target.is_empty() {
        let help = "write `.target sm_52` or another architecture after `.version`".to_string();
        wrong(start, "target", "the module has no `.target` directive".to_string(), Some(help));
    }
    for word in &module.target {
        let known = || TARGETS.iter().chain(&OTHER_TARGETS);
        if !known().any(|target| target == word) {
            let help = nearest(word, known().copied()).map(|near| format!("did you mean `{near}`?"));
            wrong(source.span_of(word), "target", format!("unknown target `{word}`"), help);
        }
    }
}

/// A declaration, and where the name was declared before.
fn twice(source: &Source, name: &str, span: Span, first: Span) -> Diagnostic {
    Diagnostic::error("name", format!("`{name}` is declared twice"))
        .at(span, "")
        .at(first, "the first declaration")
        .in_source(source)
}

/// Most bytes of a variable of a space, and who says so.
fn most_bytes(space: StateSpace) -> (u64, &'static str) {
    match space {
        StateSpace::Const => (64 << 10, "constant memory has 64 KiB"),
        StateSpace::Shared => (WINDOW_BYTES, "the window of shared memory has 16 MiB"),
        StateSpace::Local | StateSpace::Param => {
            (LOCAL_BYTES, "a thread has at most 512 KiB of local memory")
        }
        StateSpace::Global | StateSpace::Generic => (MAX_VARIABLE, "a variable has at most 2^40 bytes"),
    }
}

/// Variables whose size is not known, or larger than their space.
fn sizes(source: &Source, module: &Module<'_>, errors: &mut Vec<Diagnostic>) {
    let mut check = |variable: &Variable<'_>| {
        let Storage::Space(space) = variable.storage else { return };
        let mut wrong = |message: String| {
            errors.push(Diagnostic::error("size", message).at(variable.span, "").in_source(source))
        };
        if variable.count.is_some() && !matches!(space, StateSpace::Local | StateSpace::Param) {
            wrong(format!(
                "`{0}<…>`: parameterized names are not supported in this state space; declare `{0}0`, `{0}1`, ... separately",
                variable.name
            ));
        }
        let (most, reason) = most_bytes(space);
        match variable.bytes() {
            Some(bytes) if bytes <= most => {}
            Some(bytes) => wrong(format!("`{}` has {bytes} bytes; {reason}", variable.name)),
            None => wrong(format!("`{}` is too large: {reason}", variable.name)),
        }
        if variable.is_incomplete() && !variable.external && variable.init.is_none() && !module.papers {
            wrong(format!(
                "array `{}` has no size; the size can be omitted only for `.extern` or initialized arrays",
                variable.name
            ));
        }
    };
    module.variables.iter().for_each(&mut check);
    for function in &module.functions {
        // The last parameter of a function may be an array of any length.
        let complete = |variable: &&Variable<'_>| function.entry || !variable.is_incomplete();
        function.returns.iter().chain(&function.params).filter(complete).for_each(&mut check);
        declarations(function.body.as_deref().unwrap_or_default(), &mut check);
    }
    for function in module.functions.iter().filter(|function| function.entry && !module.papers) {
        let bytes = layout(function.params.iter()).1;
        let late = module.version >= Some((8, 1)) && module.target_sm() >= Some(70);
        let most = if late { 32764 } else { 4352 };
        if bytes > most {
            let message = format!(
                "the parameters of `{}` occupy {bytes} bytes; the limit is {most} bytes",
                function.name
            );
            let mut error = Diagnostic::error("size", message).at(function.span, "").in_source(source);
            if !late {
                error.help = Some("PTX ISA 8.1 or later with sm_70 or higher allows 32764 bytes".to_string());
            }
            errors.push(error);
        }
    }
}

fn declarations(body: &[Statement<'_>], check: &mut impl FnMut(&Variable<'_>)) {
    for statement in body {
        match statement {
            Statement::Declaration(variable) => check(variable),
            Statement::Block(inner) => declarations(inner, check),
            _ => {}
        }
    }
}

fn names(source: &Source, module: &Module<'_>, errors: &mut Vec<Diagnostic>) {
    let mut seen: FxHashMap<&str, Span> = FxHashMap::default();
    // A declaration before or after the definition is the same variable.
    let definitions = module.variables.iter().filter(|variable| !variable.external);
    for variable in definitions.filter(|variable| variable.name != "_") {
        if let Some(first) = seen.insert(variable.name, variable.span) {
            errors.push(twice(source, variable.name, variable.span, first));
        }
    }
    let bodies = || module.functions.iter().filter(|function| function.body.is_some());
    for function in bodies() {
        if let Some(first) = seen.insert(function.name, function.span) {
            errors.push(twice(source, function.name, function.span, first));
        }
    }
    for function in bodies() {
        parameters(source, function, errors);
        let says = |name| function.bounds.iter().any(|(own, _)| *own == name);
        if says("reqnctapercluster") && says("maxclusterrank") {
            let message = "`.reqnctapercluster` and `.maxclusterrank` are mutually exclusive".to_string();
            errors.push(Diagnostic::error("directive", message).at(function.span, "").in_source(source));
        }
    }
}

fn parameters(source: &Source, function: &Function<'_>, errors: &mut Vec<Diagnostic>) {
    let mut seen: FxHashMap<&str, &Variable<'_>> = FxHashMap::default();
    for param in function.returns.iter().chain(&function.params).filter(|param| param.name != "_") {
        if let Some(first) = seen.insert(param.name, param) {
            errors.push(twice(source, param.name, param.span, first.span));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_is_found_wherever_it_stands() {
        for (text, wanted, place) in [
            (".version 8.0\n.target sm_80\n", Some("sm_80"), (2, 9)),
            (".version 8.0 .target sm_80 .address_size 64", Some("sm_80"), (1, 22)),
            (
                "// a\n/* .target sm_10 */ .version 8.0 // b\n.target\n  debug, sm_90a\n",
                Some("sm_90a"),
                (4, 10),
            ),
            (".version/**/8.0/**/.target/**/sm_52,texmode_independent", Some("sm_52"), (1, 31)),
            (".version 8.0\n.address_size 64\n.target texmode_unified , sm_30\n", Some("sm_30"), (3, 27)),
            (".version 8.0\n.entry k() { ret; }\n.target sm_80\n", None, (0, 0)),
            (".version 8.0\n.target debug\n.target sm_80\n", None, (0, 0)),
            ("/* .target sm_80", None, (0, 0)),
            (".target", None, (0, 0)),
            ("", None, (0, 0)),
        ] {
            let source = Source::new("k.ptx", text);
            let found = target_of(&source);
            assert_eq!(found.map(|(word, _)| word), wanted, "{text}");
            if let Some((_, span)) = found {
                assert_eq!(source.position(span.start), place, "{text}");
            }
        }
    }
}
