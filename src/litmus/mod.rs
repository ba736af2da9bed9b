//! `litmus`: what memory models say about litmus tests.

pub mod hardware;
pub mod mapping;
pub mod run;

use std::path::{Path, PathBuf};

use sim_frontend::diagnostic::Diagnostic;
use sim_verify::cat::Model;
use sim_verify::models;

use crate::configs;

/// The model of `--model`: one that comes with warpsim, or a file.
fn model(name: &str) -> Result<Model, Diagnostic> {
    if let Some(found) = models::named(name) {
        return found;
    }
    let path = Path::new(name);
    match configs::read(path) {
        Ok(source) => Model::parse(name, &source.text),
        Err(_) if !path.exists() && path.extension().is_none_or(|e| e != "cat") => {
            let names = models::MODELS.iter().map(|(name, _)| *name);
            let list: Vec<String> = names.clone().map(|name| format!("`{name}`")).collect();
            let help = format!("models are {}, or name a .cat file", list.join(", "));
            let error = Diagnostic::error("model", format!("there is no model `{name}`"));
            let near = error.clone().did_you_mean(name, names);
            Err(if near.help.is_some() { near } else { error.help(help) })
        }
        Err(unreadable) => Err(unreadable),
    }
}

/// The files, and `.litmus` files of the directories in the order of their names.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Diagnostic> {
    let mut out = Vec::new();
    for path in paths {
        if !path.is_dir() {
            out.push(path.clone());
            continue;
        }
        let before = out.len();
        collect(path, &mut out)?;
        if out.len() == before {
            let message = format!("{}: there is no .litmus file in this directory", path.display());
            return Err(Diagnostic::error("litmus", message));
        }
    }
    Ok(out)
}

fn collect(folder: &Path, out: &mut Vec<PathBuf>) -> Result<(), Diagnostic> {
    let failed = |reason: std::io::Error| {
        Diagnostic::error("litmus", format!("{}: {}", folder.display(), crate::files::reason(&reason)))
    };
    let entries: Result<Vec<_>, _> = std::fs::read_dir(folder).map_err(failed)?.collect();
    let mut paths: Vec<PathBuf> = entries.map_err(failed)?.into_iter().map(|e| e.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect(&path, out)?;
        } else if path.extension().is_some_and(|extension| extension == "litmus") {
            out.push(path);
        }
    }
    Ok(())
}
