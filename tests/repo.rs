//! What the repository promises about itself.

#![allow(missing_docs, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn files(folder: &Path, wanted: &dyn Fn(&Path) -> bool, out: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.filter_map(|e| e.ok().map(|e| e.path())).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                files(&path, wanted, out);
            }
        } else if wanted(&path) {
            out.push(path);
        }
    }
}

fn texts(extensions: &[&str]) -> Vec<(PathBuf, String)> {
    let mut list = Vec::new();
    let wanted = |p: &Path| p.extension().is_some_and(|e| extensions.iter().any(|x| e == *x));
    files(Path::new(ROOT), &wanted, &mut list);
    list.into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            (path, text)
        })
        .collect()
}

/// Ids of docs/rules.md with whether they are kept.
fn listed() -> BTreeMap<String, bool> {
    let text = std::fs::read_to_string(Path::new(ROOT).join("docs/rules.md")).expect("docs/rules.md");
    let mut ids = BTreeMap::new();
    for line in text.lines().filter(|l| l.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let kept = match cells[3] {
            "kept" => true,
            "open" => false,
            other => panic!("`{other}` is neither kept nor open: {line}"),
        };
        for id in cells[1].split_whitespace() {
            let id = id.trim_matches('`').to_string();
            assert!(ids.insert(id.clone(), kept).is_none(), "{id} is listed twice");
        }
    }
    ids
}

/// Words in square brackets that look like a rule's id, of a family the list knows.
fn bracketed<'t>(text: &'t str, families: &BTreeSet<String>) -> Vec<&'t str> {
    text.split('[')
        .skip(1)
        .filter_map(|rest| rest.split_once(']').map(|(id, _)| id))
        .filter(|id| {
            id.split_once('-').map_or(*id == "live", |(family, word)| {
                families.contains(family)
                    && !word.is_empty()
                    && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            })
        })
        .collect()
}

#[test]
fn every_rule_has_one_room_and_a_test() {
    let ids = listed();
    assert!(ids.len() > 150, "{} ids", ids.len());
    let families: BTreeSet<String> =
        ids.keys().filter_map(|id| id.split_once('-').map(|(family, _)| family.to_string())).collect();
    let mut rooms: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut tests = BTreeSet::new();
    for (path, text) in texts(&["rs", "cat", "map", "litmus"]) {
        for id in bracketed(&text, &families) {
            rooms.entry(id.to_string()).or_default().push(path.display().to_string());
        }
        let mut test = false;
        for line in text.lines().map(str::trim_start) {
            if line == "#[test]" {
                test = true;
            } else if test && let Some(name) = line.strip_prefix("fn ") {
                tests.insert(name.split('(').next().unwrap_or_default().to_string());
                test = false;
            }
        }
    }
    let mut wrong = Vec::new();
    for (id, kept) in &ids {
        let places = rooms.get(id).map_or(0, Vec::len);
        let name = id.to_lowercase().replace('-', "_");
        // Whole words: `tf_1` is not in `tf_10`.
        let tested = tests.iter().any(|t| format!("_{t}_").contains(&format!("_{name}_")));
        match kept {
            true if places != 1 => {
                wrong.push(format!("[{id}] stands in {places} places: {:?}", rooms.get(id)))
            }
            true if !tested => wrong.push(format!("no test is named after {id}")),
            false if places != 0 => wrong.push(format!("{id} is open but [{id}] stands in the code")),
            _ => {}
        }
    }
    wrong.extend(
        rooms.keys().filter(|id| !ids.contains_key(*id)).map(|id| format!("[{id}] is not in docs/rules.md")),
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn sources_are_tidy() {
    let mut wrong = Vec::new();
    for (path, text) in texts(&["rs", "md", "yaml", "toml", "mem", "cu", "cuh", "py"]) {
        let name = path.strip_prefix(ROOT).unwrap_or(&path).display().to_string();
        if name == "tests/repo.rs" {
            continue;
        }
        for (i, line) in text.lines().enumerate() {
            let place = format!("{name}:{}", i + 1);
            if line.ends_with(' ') || line.contains('\t') && !name.ends_with(".toml") {
                wrong.push(format!("{place}: blanks at the end, or a tab"));
            }
            for word in ["TODO", "FIXME", "dbg!(", "todo!(", "unimplemented!("] {
                if line.contains(word) {
                    wrong.push(format!("{place}: {word}"));
                }
            }
            for path in ["/home/", "/work/", "/tmp/", "/root/"] {
                if line.contains(path) {
                    wrong.push(format!("{place}: a path of some machine"));
                }
            }
        }
        if !text.ends_with('\n') {
            wrong.push(format!("{name}: no newline at its end"));
        }
        // Files that grow past this hold two things.
        if name.ends_with(".rs") && text.lines().count() > 900 {
            wrong.push(format!("{name}: {} lines", text.lines().count()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
