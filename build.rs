//! The version with the commit it was built from, where there is one: results say what made them.

use std::process::Command;

fn main() {
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
}
