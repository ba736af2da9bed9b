//! Running the command, and folders of a test run.

#![allow(dead_code, reason = "each test file uses some of it")]

pub mod cuda;
pub mod page;

use std::path::PathBuf;
use std::process::{Command, Output};

/// The command, in the project's folder.
pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpsim"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(args);
    command
}

/// What it says.
pub fn warpsim(args: &[&str]) -> Output {
    command(args).output().expect("the command starts")
}

/// Bytes as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Bytes as JSON.
pub fn parse(bytes: &[u8]) -> serde_json::Value {
    serde_json::from_slice(bytes).unwrap_or_else(|e| panic!("{e}: {}", text(bytes)))
}

/// The files of the results in a folder of results, in order.
pub fn results_in(folder: &std::path::Path) -> Vec<PathBuf> {
    let list = |folder: PathBuf| {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        entries.map(|entry| entry.expect("an entry").path())
    };
    let hidden =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    let parts = list(folder.join("points")).filter(|path| path.is_dir());
    let mut all: Vec<PathBuf> = parts.flat_map(list).collect();
    all.retain(|path| path.extension().is_some_and(|e| e == "json") && !hidden(path));
    all.sort();
    all
}

/// The JSON it printed.
pub fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&output.stderr)))
}

/// A folder of this test run that is gone afterwards.
pub struct Folder(pub PathBuf);

impl Folder {
    /// A new one.
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("warpsim-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    /// The path of a file in it.
    pub fn join(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Writes a file in it; gives its path.
    pub fn write(&self, name: &str, text: &str) -> String {
        let path = self.join(name);
        std::fs::write(&path, text).expect("written");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
