//! The version with the commit it was built from, where there is one: results say what made them. What ships with the
//! command, so that it needs no folder beside it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders that ship with the command, and the extensions of their files.
const SHIPPED: [(&str, &[&str]); 4] = [
    ("workloads", &["cu", "cuh", "ptx", "yaml", "litmus", "c11", "map"]),
    ("configs/sweeps", &["yaml"]),
    ("configs/chips", &["yaml"]),
    ("docs", &["md"]),
];

fn main() -> std::io::Result<()> {
    for path in [".git/HEAD", ".git/refs", ".git/index"] {
        println!("cargo:rerun-if-changed={path}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    let describe = Command::new("git").args(["describe", "--tags", "--always", "--dirty=-modified"]).output();
    let commit = describe.ok().filter(|output| output.status.success());
    let commit = commit.and_then(|output| String::from_utf8(output.stdout).ok());
    let version = match commit.as_deref().map(str::trim) {
        Some(commit) if !commit.is_empty() => format!("{} ({commit})", env!("CARGO_PKG_VERSION")),
        _ => env!("CARGO_PKG_VERSION").to_string(),
    };
    println!("cargo:rustc-env=WARPSIM_VERSION={version}");
    let of = |name: &str| std::env::var(name).unwrap_or_default();
    let optimised = match of("OPT_LEVEL").as_str() {
        "0" => "none".to_string(),
        level => format!("level {level}"),
    };
    println!("cargo:rustc-env=WARPSIM_TARGET={}", of("TARGET"));
    println!("cargo:rustc-env=WARPSIM_OPTIMISED={optimised}");
    shipped(Path::new(&of("CARGO_MANIFEST_DIR")), Path::new(&of("OUT_DIR")))
}

/// Writes the table of the files that ship, by their paths.
fn shipped(root: &Path, out: &Path) -> std::io::Result<()> {
    let mut files = Vec::new();
    for (folder, extensions) in SHIPPED {
        collect(&root.join(folder), extensions, &mut files);
    }
    // By their names, which are searched: paths have another order.
    let name = |file: &PathBuf| file.strip_prefix(root).unwrap_or(file).display().to_string();
    files.sort_by_key(name);
    let mut text = "&[\n".to_string();
    for file in &files {
        let _ = writeln!(text, "({:?}, include_bytes!({:?})),", name(file), file.display().to_string());
    }
    text.push_str("]\n");
    std::fs::write(out.join("shipped.rs"), text)
}

fn collect(folder: &Path, extensions: &[&str], out: &mut Vec<PathBuf>) {
    println!("cargo:rerun-if-changed={}", folder.display());
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let wanted = |path: &Path| path.extension().is_some_and(|own| extensions.iter().any(|e| own == *e));
        if path.is_dir() {
            collect(&path, extensions, out);
        } else if wanted(&path) {
            out.push(path);
        }
    }
}
