//! Programs that ptxas rejects (its verdict stands on top of each), and some odd ones it accepts:
//! the same verdict here, with the words of `NAME.txt`. `UPDATE_BAD=1` writes those anew.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use sim_frontend::diagnostic::{Diagnostic, Source};
use sim_frontend::load::Module;
use sim_frontend::program::ControlFlow;

/// Everything that is wrong with a file, whichever of its kernels is launched.
fn complaints(source: &Source) -> Vec<Diagnostic> {
    let module = match Module::build(source, false) {
        Ok(module) => module,
        Err(errors) => return errors,
    };
    let entries: Vec<String> = module.entries().map(str::to_string).collect();
    let programs = entries
        .iter()
        .filter_map(|entry| module.program(entry, &|_| Some(256), ControlFlow::Injected, 1024).err());
    programs.flatten().collect()
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad");
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|path| path.extension().is_some_and(|ext| ext == "ptx"));
    files.sort();
    files
}

#[test]
fn bad_programs_are_rejected_with_the_words_of_their_files() {
    let update = std::env::var_os("UPDATE_BAD").is_some();
    let (mut rejected, mut accepted, mut wrong) = (0, 0, Vec::new());
    for path in files() {
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let errors = complaints(&Source::new(name, &text));
        let verdict = text.lines().next().unwrap_or_default();
        let rejects = verdict.starts_with("// ptxas ") && verdict.contains(" rejects");
        if rejects {
            rejected += 1
        } else {
            accepted += 1
        }
        if rejects == errors.is_empty() {
            let what = errors.first().map_or("accepted here".to_string(), Diagnostic::to_string);
            wrong.push(format!("{name}: {}: {what}", text.lines().next().unwrap_or_default()));
            continue;
        }
        if !rejects {
            continue;
        }
        let mut said = String::new();
        for error in &errors {
            let _ = writeln!(said, "{}\n", error.render());
        }
        let beside = path.with_extension("txt");
        if update {
            std::fs::write(&beside, &said).expect("a writable folder");
        }
        let expected = std::fs::read_to_string(&beside).unwrap_or_default();
        if said != expected {
            wrong.push(format!("{name} says\n{said}instead of\n{expected}"));
        }
        // One cause, one error: only the files named so have several.
        if errors.len() > 1 && !name.starts_with("several") {
            wrong.push(format!("{name}: {} errors for one cause\n{said}", errors.len()));
        }
        let placed = errors.iter().all(|e| e.place().is_some() && !e.message.is_empty());
        if !placed {
            wrong.push(format!("{name}: an error without a place: {said}"));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(rejected >= 100 && accepted >= 6, "{rejected} rejected, {accepted} accepted");
}
