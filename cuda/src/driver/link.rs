//! Links PTX texts into one: declarations without a definition of their own get that of another text, names that are
//! local to a text are kept apart. (PTX ISA, "Linking Directives".)

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Texts that are to be linked, and the result.
#[derive(Debug, Default)]
pub struct Link {
    /// Name and text of each.
    pub texts: Vec<(String, String)>,
    /// The result, zero-terminated; it lives as long as the link.
    pub image: Vec<u8>,
}

/// Who sees a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Linkage {
    Local,
    Extern,
    Visible,
    Weak,
    Common,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Function,
    Variable,
    /// `.alias` and the like, which come last.
    Other,
}

/// A statement outside of functions.
#[derive(Clone, Debug)]
struct Item {
    text: String,
    name: String,
    linkage: Linkage,
    kind: Kind,
    /// A function with a body, or a variable that is not `.extern`.
    is_definition: bool,
}

/// A text in pieces.
#[derive(Debug, Default)]
struct Pieces {
    version: (u32, u32),
    target: String,
    address_size: String,
    /// Number and rest of `.file` lines.
    files: Vec<(u32, String)>,
    items: Vec<Item>,
}

fn is_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_' || c == b'$' || c == b'%'
}

/// The end of a comment or string that begins at an offset; the offset itself where none does.
fn skipped(text: &[u8], at: usize) -> usize {
    let find = |from: usize, what: &[u8]| {
        let rest = text.get(from..).unwrap_or_default();
        rest.windows(what.len()).position(|part| part == what).map_or(text.len(), |n| from + n + what.len())
    };
    match text[at..] {
        [b'/', b'/', ..] => find(at, b"\n"),
        [b'/', b'*', ..] => find(at + 2, b"*/"),
        [b'"', ..] => find(at + 1, b"\""),
        _ => at,
    }
}

/// Replaces words of a text, but not in comments and strings.
fn renamed(text: &str, name: &dyn Fn(&str) -> Option<String>) -> String {
    let (bytes, mut out, mut at) = (text.as_bytes(), String::with_capacity(text.len()), 0);
    while at < bytes.len() {
        let end = skipped(bytes, at);
        if end > at {
            out.push_str(&text[at..end]);
            at = end;
        } else if is_word(bytes[at]) {
            let n = bytes[at..].iter().take_while(|c| is_word(**c)).count();
            let word = &text[at..at + n];
            // A directive (`.global`) is no name.
            let directive = at > 0 && bytes[at - 1] == b'.';
            match name(word).filter(|_| !directive) {
                Some(other) => out.push_str(&other),
                None => out.push_str(word),
            }
            at += n;
        } else {
            let n = text[at..].chars().next().map_or(1, char::len_utf8);
            out.push_str(&text[at..at + n]);
            at += n;
        }
    }
    out
}

/// The words of a statement's head: directives with their point, names, groups in parentheses as `(`.
fn words(head: &str) -> Vec<String> {
    let (bytes, mut out, mut at) = (head.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let end = skipped(bytes, at);
        if end > at {
            at = end;
        } else if bytes[at] == b'(' {
            let mut depth = 0;
            let n = bytes[at..].iter().take_while(|c| {
                depth += i32::from(**c == b'(') - i32::from(**c == b')');
                depth > 0
            });
            at += n.count() + 1;
            out.push("(".to_string());
        } else if is_word(bytes[at]) || bytes[at] == b'.' {
            let n = 1 + bytes[at + 1..].iter().take_while(|c| is_word(**c)).count();
            out.push(head[at..at + n].to_string());
            at += n;
        } else if matches!(bytes[at], b'[' | b'=' | b'{') {
            break;
        } else {
            at += 1;
        }
    }
    out
}

fn item(text: &str) -> Item {
    let words = words(text);
    let has = |directive: &str| words.iter().any(|word| word == directive);
    let function = has(".func") || has(".entry");
    let kinds = [".global", ".const", ".shared", ".tex"];
    let kind = match function {
        true => Kind::Function,
        false if kinds.iter().any(|kind| has(kind)) => Kind::Variable,
        false => Kind::Other,
    };
    let linkages = [
        (".extern", Linkage::Extern),
        (".visible", Linkage::Visible),
        (".weak", Linkage::Weak),
        (".common", Linkage::Common),
    ];
    let linkage = linkages.iter().find(|(word, _)| has(word)).map_or(Linkage::Local, |(_, linkage)| *linkage);
    let is_name =
        |word: &&String| !word.starts_with(['.', '(']) && !word.starts_with(|c: char| c.is_ascii_digit());
    let name = words.iter().find(is_name).cloned().unwrap_or_default();
    let is_definition = if function { text.contains('{') } else { linkage != Linkage::Extern };
    Item { text: text.trim().to_string(), name, linkage, kind, is_definition }
}

/// The end of the statement that begins at an offset.
fn statement(text: &[u8], begin: usize) -> usize {
    let head = &text[begin..];
    let brace = head.iter().position(|c| matches!(c, b'{' | b';' | b'=')).unwrap_or(head.len());
    // A body ends the statement; the braces of a value do not.
    let has_body = head.get(brace) == Some(&b'{');
    let (mut at, mut depth) = (begin, 0);
    while at < text.len() {
        let end = skipped(text, at);
        if end > at {
            at = end;
            continue;
        }
        at += 1;
        match text[at - 1] {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => {
                depth -= 1;
                if depth == 0 && has_body && text[at - 1] == b'}' {
                    return at;
                }
            }
            b';' if depth == 0 => return at,
            _ => {}
        }
    }
    at
}

fn pieces(text: &str) -> Pieces {
    let (bytes, mut out, mut at) = (text.as_bytes(), Pieces::default(), 0);
    while at < bytes.len() {
        let end = skipped(bytes, at);
        if end > at || bytes[at].is_ascii_whitespace() || bytes[at] == 0 {
            at = end.max(at + 1);
            continue;
        }
        let line = text[at..].split('\n').next().unwrap_or_default();
        let bare = line.split("//").next().unwrap_or_default().trim();
        let (word, rest) = bare.split_once(char::is_whitespace).unwrap_or((bare, ""));
        let rest = rest.trim();
        match word {
            ".version" => {
                let (major, minor) = rest.split_once('.').unwrap_or((rest, "0"));
                out.version = (major.parse().unwrap_or(0), minor.parse().unwrap_or(0));
            }
            ".target" => out.target = rest.to_string(),
            ".address_size" => out.address_size = rest.to_string(),
            ".file" => {
                let (number, name) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                out.files.push((number.parse().unwrap_or(0), name.to_string()));
            }
            _ => {
                let end = statement(bytes, at);
                // Sections of debugging information name offsets of their own text.
                if word != ".section" && word != "@@DWARF" {
                    out.items.push(item(&text[at..end]));
                }
                at = end;
                continue;
            }
        }
        at += line.len();
    }
    out
}

/// Renumbers the files of `.loc`, and gives local names that others have too names of their own.
fn apart(pieces: &mut Pieces, index: usize, taken: &BTreeSet<String>) {
    let local = pieces.items.iter().filter(|item| item.linkage == Linkage::Local && item.is_definition);
    let names: BTreeMap<String, String> = local
        .filter(|item| taken.contains(&item.name))
        .map(|item| (item.name.clone(), format!("{}__linked_{index}", item.name)))
        .collect();
    let offset = index as u32 * 1000;
    for item in &mut pieces.items {
        if !names.is_empty() {
            item.text = renamed(&item.text, &|word| names.get(word).cloned());
            item.name = names.get(&item.name).unwrap_or(&item.name).clone();
        }
        if offset > 0 && item.text.contains(".loc") {
            item.text = located(&item.text, offset);
        }
    }
    pieces.files.iter_mut().for_each(|(number, _)| *number += offset);
}

/// Adds an offset to the file numbers of `.loc` directives.
fn located(text: &str, offset: u32) -> String {
    let moved = |line: &str| -> String {
        let Some((before, rest)) = line.split_once(".loc") else { return line.to_string() };
        let number = |text: &str| {
            let text = text.trim_start();
            let digits = text.bytes().take_while(u8::is_ascii_digit).count();
            let number: Option<u32> = text[..digits].parse().ok();
            (
                number.map_or_else(String::new, |number| (number + offset).to_string()),
                text[digits..].to_string(),
            )
        };
        let (file, rest) = number(rest);
        let rest = match rest.split_once("inlined_at") {
            Some((middle, inlined)) => {
                let (file, rest) = number(inlined);
                format!("{middle}inlined_at {file}{rest}")
            }
            None => rest,
        };
        format!("{before}.loc {file}{rest}")
    };
    text.lines().map(moved).collect::<Vec<_>>().join("\n")
}

/// The head of a function as a declaration.
fn declared(item: &Item, linkage: Linkage) -> String {
    let head = item.text.split('{').next().unwrap_or_default().trim_end().trim_end_matches(';');
    let directive = match linkage {
        Linkage::Visible => ".visible ",
        Linkage::Weak => ".weak ",
        Linkage::Extern => ".extern ",
        Linkage::Local | Linkage::Common => "",
    };
    let mut head = head.to_string();
    for other in [".extern", ".visible", ".weak"] {
        head = head.replace(other, "");
    }
    format!("{directive}{};", head.trim())
}

/// The text that others are linked to.
///
/// # Errors
/// A name is defined twice, or there is nothing to link.
pub fn link(texts: &[(String, String)]) -> Result<String, String> {
    let [(_, first), rest @ ..] = texts else { return Err("nothing is linked".to_string()) };
    if rest.is_empty() {
        return Ok(first.clone());
    }
    let mut all: Vec<Pieces> = texts.iter().map(|(_, text)| pieces(text)).collect();
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for pieces in &all {
        let names: BTreeSet<&String> = pieces.items.iter().map(|item| &item.name).collect();
        names.into_iter().for_each(|name| *count.entry(name.clone()).or_default() += 1);
    }
    let taken = count.into_iter().filter(|(_, n)| *n > 1).map(|(name, _)| name).collect();
    for (index, pieces) in all.iter_mut().enumerate() {
        apart(pieces, index, &taken);
    }
    // The definition of each name: a weak one only where there is no other.
    let mut definitions: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (i, pieces) in all.iter().enumerate() {
        for (j, item) in pieces.items.iter().enumerate().filter(|(_, item)| item.is_definition) {
            let replaceable = |item: &Item| matches!(item.linkage, Linkage::Weak | Linkage::Common);
            match definitions.get(item.name.as_str()) {
                Some((a, b)) if replaceable(&all[*a].items[*b]) && !replaceable(item) => {}
                Some(_) if replaceable(item) || item.kind == Kind::Other => continue,
                Some((a, _)) => {
                    return Err(format!("{} is defined by {} and by {}", item.name, texts[*a].0, texts[i].0));
                }
                None => {}
            }
            definitions.insert(&item.name, (i, j));
        }
    }
    Ok(written(&all, &definitions))
}

/// Declarations, variables, functions, in this order: what is used was declared.
fn written(all: &[Pieces], definitions: &BTreeMap<&str, (usize, usize)>) -> String {
    let (major, minor) = all.iter().map(|pieces| pieces.version).max().unwrap_or_default();
    let newest = |target: &&Pieces| {
        let digits: String = target.target.chars().skip(3).take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().unwrap_or(0)
    };
    let target = all.iter().max_by_key(newest).map_or("", |pieces| pieces.target.as_str());
    let mut out = format!(".version {major}.{minor}\n.target {target}\n");
    let _ = writeln!(
        out,
        ".address_size {}",
        all.iter().map(|all| all.address_size.as_str()).max().unwrap_or("64")
    );
    for (number, name) in all.iter().flat_map(|pieces| &pieces.files) {
        let _ = writeln!(out, ".file {number} {name}");
    }
    let mut declarations = BTreeSet::new();
    for item in all.iter().flat_map(|pieces| &pieces.items).filter(|item| item.kind == Kind::Function) {
        let definition = definitions.get(item.name.as_str()).map(|(i, j)| &all[*i].items[*j]);
        let is_entry = item.text.contains(".entry");
        if !is_entry && declarations.insert(item.name.as_str()) {
            let linkage = definition.map_or(item.linkage, |definition| definition.linkage);
            let _ = writeln!(out, "{}", declared(definition.unwrap_or(item), linkage));
        }
    }
    for kind in [Kind::Variable, Kind::Function, Kind::Other] {
        for (i, pieces) in all.iter().enumerate() {
            for (j, item) in pieces.items.iter().enumerate().filter(|(_, item)| item.kind == kind) {
                let is_its = definitions.get(item.name.as_str()).is_none_or(|at| *at == (i, j));
                let declared = kind == Kind::Variable && declarations.contains(item.name.as_str());
                if is_its && !declared && (item.is_definition || kind != Kind::Function) {
                    let _ = writeln!(out, "{}", item.text);
                    if !item.is_definition {
                        declarations.insert(&item.name);
                    }
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "// made by hand\n.version 7.0\n.target sm_70\n.address_size 64\n";

    fn linked(texts: &[&str]) -> Result<String, String> {
        let text = |(i, body): (usize, &&str)| (format!("text {i}"), format!("{HEAD}{body}"));
        link(&texts.iter().enumerate().map(text).collect::<Vec<_>>())
    }

    #[test]
    fn declarations_get_the_definitions_of_others_and_local_names_stay_apart() {
        let a = ".extern .func (.param .b32 r) twice (.param .b32 x);\n.extern .global .u32 shared_word;\n\
                 .global .u32 local = 1;\n.visible .entry k(.param .u64 at) { .reg .b64 %a; .loc 1 2 3\n\
                 ld.param.u64 %a, [at]; /* local */ mov.u64 %a, local; mov.u64 %a, shared_word; ret; }\n";
        let b = ".file 1 \"b.cu\"\n.global .u32 local = 2;\n.visible .global .align 4 .b8 shared_word[4] = {1, 2, 3, 4};\n\
                 .visible .func (.param .b32 r) twice (.param .b32 x) { .reg .b64 %a; .loc 1 5 6\n\
                 mov.u64 %a, local; ret; }\n.weak .func w() { ret; }\n";
        let text = linked(&[a, b]).expect("it links");
        assert!(text.contains(".visible .func (.param .b32 r) twice (.param .b32 x);"), "{text}");
        assert_eq!(
            (text.matches(".extern").count(), text.matches("shared_word[4]").count()),
            (0, 1),
            "{text}"
        );
        assert!(
            text.contains(".global .u32 local__linked_0 = 1;")
                && text.contains("mov.u64 %a, local__linked_0;")
        );
        assert!(text.contains("/* local */") && text.contains(".file 1001 \"b.cu\""), "{text}");
        assert!(text.contains(".loc 1001 5 6") && text.contains(".loc 1 2 3"), "{text}");
        assert_eq!(text.matches(".version").count(), 1);
    }

    #[test]
    fn a_name_is_defined_once_but_for_weak_ones() {
        let weak = ".weak .func w() { trap; }\n";
        let strong = ".visible .func w() { ret; }\n";
        let text = linked(&[weak, strong, weak]).expect("it links");
        assert_eq!((text.matches("trap").count(), text.matches("ret").count()), (0, 1), "{text}");
        assert_eq!(linked(&[weak, weak]).expect("it links").matches("trap").count(), 1);
        assert!(
            linked(&[strong, strong]).expect_err("twice").contains("w is defined by text 0 and by text 1")
        );
        assert!(link(&[]).is_err());
    }

    #[test]
    fn what_links_loads() {
        use warpsim::device::{Device, DeviceRequest};
        let caller = ".extern .func (.param .b32 r) twice (.param .b32 x);\n.visible .entry k(.param .u64 at) {\n\
                      .reg .b64 %a; .reg .b32 %x; ld.param.u64 %a, [at]; mov.u32 %x, 21;\n{ .param .b32 p; \
                      .param .b32 q; st.param.b32 [p], %x; call (q), twice, (p); ld.param.b32 %x, [q]; }\n\
                      st.global.u32 [%a], %x; ret; }\n";
        let callee = ".visible .func (.param .b32 r) twice (.param .b32 x) { .reg .b32 %x;\n\
                      ld.param.b32 %x, [x]; add.u32 %x, %x, %x; st.param.b32 [r], %x; ret; }\n";
        let text = linked(&[caller, callee]).expect("it links");
        let mut device = Device::new(&DeviceRequest::default()).unwrap_or_else(|e| panic!("{}", e[0]));
        let source = sim_frontend::diagnostic::Source::new("linked.ptx", &text);
        let module = device.load(&source).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert!(device.entry(module, "k").is_some());
    }
}
