//! How the sources are put together: imports, length of functions and files, literals that have a name.

#![allow(missing_docs, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use regex::Regex;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const CRATES: [&str; 6] = ["sim-memory", "sim-frontend", "sim-core", "sim-verify", ".", "cuda"];

/// A module by its path in the crate.
type Module = Vec<String>;

/// Sources of a crate by module, without what only tests have.
fn modules(name: &str) -> BTreeMap<Module, String> {
    let source = Path::new(ROOT).join(name).join("src");
    let mut files = Vec::new();
    collect(&source, &mut files);
    let mut all = BTreeMap::new();
    let mut test_only = BTreeSet::new();
    let declared = Regex::new(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))? )?mod (\w+);")
        .expect("a pattern");
    for file in files {
        let inside = file.strip_prefix(&source).expect("below it").with_extension("");
        let mut module: Module = inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if module.last().is_some_and(|last| last == "mod" || last == "lib") {
            module.pop();
        }
        let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        for found in declared.captures_iter(&text) {
            let mut child = module.clone();
            child.push(found[1].to_string());
            test_only.insert(child);
        }
        all.insert(module, without_tests(&text));
    }
    all.retain(|module, _| !test_only.iter().any(|other| module.starts_with(other)));
    assert!(all.len() > 15, "{name}: {} modules", all.len());
    all
}

fn collect(folder: &Path, out: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for path in entries.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
        if path.is_dir() {
            collect(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            out.push(path);
        }
    }
}

/// A source without its comments, its module of tests, and statements that only tests have.
fn without_tests(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let mut out = String::new();
    let mut skip = false;
    for line in text[..end].lines() {
        let line = line.split("//").next().unwrap_or("");
        if line.trim() == "#[cfg(test)]" {
            skip = true;
        } else if skip {
            skip = !line.trim_end().ends_with([';', '}']);
        } else {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// The paths of a `use` tree.
fn expanded(tree: &str) -> Vec<String> {
    let Some((before, rest)) = tree.split_once('{') else {
        return vec![tree.split(" as ").next().unwrap_or(tree).to_string()];
    };
    let inside = rest.rsplit_once('}').map_or(rest, |(inside, _)| inside);
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (i, c) in inside.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inside[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&inside[start..]);
    let parts = parts.into_iter().map(str::trim).filter(|part| !part.is_empty());
    parts.flat_map(expanded).map(|part| format!("{before}{part}")).collect()
}

/// The module that a path leads to, from `module` on; none outside the crate.
fn resolved(module: &Module, path: &str, all: &BTreeMap<Module, String>) -> Option<Module> {
    let mut words = path.split("::").map(str::trim).peekable();
    let mut at = match *words.peek()? {
        "crate" => {
            words.next();
            Module::new()
        }
        "self" => {
            words.next();
            module.clone()
        }
        "super" => module.clone(),
        first => {
            let mut child = module.clone();
            child.push(first.to_string());
            all.contains_key(&child).then(|| module.clone())?
        }
    };
    while words.next_if_eq(&"super").is_some() {
        at.pop();
    }
    for word in words {
        let mut child = at.clone();
        child.push(word.to_string());
        if !all.contains_key(&child) {
            break;
        }
        at = child;
    }
    all.contains_key(&at).then_some(at)
}

/// Whom each module of a crate names.
fn imports(all: &BTreeMap<Module, String>) -> BTreeMap<&Module, BTreeSet<Module>> {
    let uses = Regex::new(r"\buse ([^;]+);").expect("a pattern");
    let inline = Regex::new(r"\b((?:crate|super)(?:::\w+)+)").expect("a pattern");
    let of_child = Regex::new(r"(?:^|[^\w:])(\w+)::\w").expect("a pattern");
    let mut out = BTreeMap::new();
    for (module, text) in all {
        let body = uses.replace_all(text, "");
        let children = of_child.captures_iter(&body).map(|found| found[1].to_string());
        let children = children.filter(|word| !["crate", "self", "super"].contains(&word.as_str()));
        let paths = uses.captures_iter(text).flat_map(|found| expanded(&found[1].replace('\n', " ")));
        let paths =
            paths.chain(inline.captures_iter(&body).map(|found| found[1].to_string())).chain(children);
        let named: BTreeSet<Module> = paths.filter_map(|path| resolved(module, &path, all)).collect();
        out.insert(module, named.into_iter().filter(|other| other != module).collect());
    }
    out
}

/// Everything that can be reached.
fn reached(graph: &BTreeMap<&Module, BTreeSet<Module>>, from: &Module) -> BTreeSet<Module> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from.clone()];
    while let Some(module) = open.pop() {
        for next in graph.get(&module).into_iter().flatten() {
            if seen.insert(next.clone()) {
                open.push(next.clone());
            }
        }
    }
    seen
}

#[test]
fn no_more_than_two_files_import_each_other() {
    let mut wrong = BTreeSet::new();
    let mut edges = 0;
    for name in CRATES {
        let all = modules(name);
        let graph = imports(&all);
        edges += graph.values().map(BTreeSet::len).sum::<usize>();
        let reach: BTreeMap<&Module, BTreeSet<Module>> =
            all.keys().map(|module| (module, reached(&graph, module))).collect();
        for module in all.keys() {
            let cycle: Vec<String> = reach[module]
                .iter()
                .filter(|other| *other != module && reach[*other].contains(module))
                .map(|other| other.join("::"))
                .collect();
            if cycle.len() > 1 {
                wrong.insert(format!("{name}: {} and {}", module.join("::"), cycle.join(", ")));
            }
        }
    }
    // What finds no imports finds no cycles.
    assert!(edges > 800, "{edges} imports");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Functions that are one match over many words.
const MATCHES: [(&str, &str); 2] =
    [("sim-frontend/src/isa/resolve.rs", "apply"), ("sim-core/src/lanes/oracle/bits.rs", "expected")];

#[test]
fn functions_and_files_are_short() {
    let begin = Regex::new(r#"^( *)(?:pub(?:\([^)]*\))? )?(?:const )?(?:unsafe )?(?:extern "C" )?fn (\w+)"#)
        .expect("a pattern");
    let mut files = Vec::new();
    for folder in ["src", "tests", "benches", "sim-core", "sim-frontend", "sim-memory", "cuda", "python"] {
        collect(&Path::new(ROOT).join(folder), &mut files);
    }
    let (mut wrong, mut functions) = (Vec::new(), 0);
    for file in files {
        let name = file.strip_prefix(ROOT).expect("of the repository").display().to_string();
        let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{name}: {e}"));
        let lines: Vec<&str> = text.lines().collect();
        if lines.len() > 710 {
            wrong.push(format!("{name}: {} lines: it may hold two things", lines.len()));
        }
        for (at, line) in lines.iter().enumerate() {
            let Some(found) = begin.captures(line) else { continue };
            functions += 1;
            let end = format!("{}}}", &found[1]);
            let length = lines[at..].iter().position(|line| *line == end).unwrap_or(0) + 1;
            let known = MATCHES.iter().any(|(file, function)| *file == name && *function == &found[2]);
            if length > 170 && !known && !line.ends_with(';') {
                wrong.push(format!("{name}: `{}` has {length} lines", &found[2]));
            }
        }
    }
    assert!(functions > 3000, "{functions} functions");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn sizes_of_lines_and_warps_are_written_by_name() {
    let literal =
        Regex::new(r"; 32\]|; 128\]|\b0\.\.32\b|% 128\b|/ 128\b|!127\b|\* 128\b").expect("a pattern");
    let mut wrong = Vec::new();
    for name in ["sim-memory", "sim-frontend", "sim-core"] {
        for (module, text) in modules(name) {
            let found = text.lines().filter(|line| literal.is_match(line));
            wrong.extend(found.map(|line| format!("{name} {}: {}", module.join("::"), line.trim())));
        }
    }
    assert!(wrong.is_empty(), "LINE_BYTES, WARP_LANES: {wrong:#?}");
}

#[test]
fn cycles_and_literals_are_seen() {
    let module = |path: &str| path.split("::").map(str::to_string).collect::<Module>();
    let all: BTreeMap<Module, String> = [
        ("a", "use crate::{b::{self, X}, c};"),
        ("b", "use super::c::Y as Z;"),
        ("c", "fn f() { super::b::g(); d::h() }"),
        ("c::d", ""),
    ]
    .map(|(path, text)| (module(path), text.to_string()))
    .into();
    let graph = imports(&all);
    assert_eq!(reached(&graph, &module("a")), [module("b"), module("c"), module("c::d")].into());
    assert!(reached(&graph, &module("c")).contains(&module("c")));
    assert!(reached(&graph, &module("c::d")).is_empty());
    let text = "a // [u8; 32]\n#[cfg(test)]\nuse x::{\n  y,\n};\nb\n#[cfg(test)]\nmod tests {\nc";
    assert_eq!(without_tests(text), "a \nb\n");
}
