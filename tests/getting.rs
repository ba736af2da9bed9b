//! The command in an empty folder, with nothing of the source tree: what ships is in it. Completions, manual pages,
//! documentation, colours, the version.

#![allow(missing_docs, reason = "tests")]

mod common;

use std::path::Path;
use std::process::{Command, Output};

use common::{Folder, text};

/// The command in a folder of its own, with an empty environment.
fn alone(folder: &Folder, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpsim"));
    command.env_clear().current_dir(&folder.0).args(args);
    command
}

fn done(folder: &Folder, args: &[&str]) -> String {
    let out: Output = alone(folder, args).output().expect("the command starts");
    assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
    text(&out.stdout)
}

#[test]
fn all_that_ships_is_found_in_an_empty_folder() {
    let folder = Folder::new("alone");
    assert!(done(&folder, &["run", "vecadd", "--chip", "h100"]).contains("result: pass"));
    // One of a group, and one with a file beside its PTX.
    assert!(done(&folder, &["run", "nested_if", "--profile"]).contains("result: pass"));
    let list = done(&folder, &["workloads", "--json"]);
    let list: Vec<serde_json::Value> = serde_json::from_str(&list).expect("a list");
    let here =
        std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/workloads")).expect("a folder").flatten();
    let here = here.filter(|entry| entry.path().join("workload.yaml").is_file()).count();
    assert!(list.len() > here, "{}", list.len());
    assert!(list.iter().any(|w| w["folder"] == "<warpsim>/workloads/vecadd"), "{list:?}");
    let shipped = done(&folder, &["run", "<warpsim>/workloads/vecadd", "--chip", "v100", "--json"]);
    assert_eq!(shipped, done(&folder, &["run", "vecadd", "--chip", "v100", "--json"]));
    assert!(done(&folder, &["sweep", "plan", "l1-latency.yaml"]).contains("l1"));
    assert!(done(&folder, &["inspect", "<warpsim>/workloads/vecadd/vecadd.sm_90.ptx"]).contains("vecadd"));
    // Nothing was written.
    assert_eq!(std::fs::read_dir(&folder.0).expect("there").count(), 0);
    // A workload of the folder comes first, and what is wrong is told with its name.
    std::fs::create_dir_all(folder.0.join("workloads/vecadd")).expect("a folder");
    std::fs::write(folder.0.join("workloads/vecadd/workload.yaml"), "schema: 1\n").expect("written");
    let out = alone(&folder, &["run", "vecadd"]).output().expect("the command starts");
    assert!(!out.status.success() && text(&out.stderr).contains("workloads/vecadd/workload.yaml"));
}

#[test]
fn what_ships_is_what_the_tree_has() {
    let folder = Folder::new("copy");
    let to = folder.join("copied");
    assert!(done(&folder, &["workloads", "--copy", &to]).contains("files in"));
    for file in [
        "workloads/vecadd/vecadd.cu",
        "configs/sweeps/generations.yaml",
        "configs/chips/h100.yaml",
        "docs/model.md",
    ] {
        let own = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).expect("there");
        assert_eq!(std::fs::read(Path::new(&to).join(file)).expect("copied"), own, "{file}");
    }
    let again = alone(&folder, &["workloads", "--copy", &to]).output().expect("the command starts");
    assert!(text(&again.stderr).contains("it exists; name a new or empty folder"));
    // Same bytes, same result, wherever they come from.
    let copied = Command::new(env!("CARGO_BIN_EXE_warpsim"))
        .current_dir(&to)
        .args(["run", "vecadd", "--json"])
        .output()
        .expect("the command starts");
    assert_eq!(text(&copied.stdout), done(&folder, &["run", "vecadd", "--json"]));
}

#[test]
fn completions_manuals_and_pages_are_printed() {
    let folder = Folder::new("getting");
    for (shell, word) in
        [("bash", "complete -F"), ("zsh", "#compdef warpsim"), ("fish", "complete -c warpsim")]
    {
        let script = done(&folder, &["completions", shell]);
        assert!(script.contains(word) && script.contains("workloads"), "{shell}");
    }
    let page = done(&folder, &["man"]);
    assert!(page.contains(".TH warpsim 1") && page.contains("sweep"));
    done(&folder, &["man", "--out", &folder.join("man")]);
    let pages = std::fs::read_dir(folder.0.join("man")).expect("a folder").flatten();
    let names: Vec<String> = pages.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    assert!(names.len() > 20 && names.iter().any(|name| name == "warpsim-run.1"), "{names:?}");
    assert!(done(&folder, &["docs"]).lines().any(|page| page == "reference/chip"));
    let page = done(&folder, &["docs", "docs/reference/chip.md"]);
    assert_eq!(page, include_str!("../docs/reference/chip.md"));
    let out = alone(&folder, &["docs", "none"]).output().expect("the command starts");
    assert!(!out.status.success() && text(&out.stderr).contains("there is no page `none`; pages: "));
    let version = done(&folder, &["--version"]);
    assert!(
        version.starts_with("warpsim 0.")
            && version.contains("target: ")
            && version.contains("optimisation: ")
    );
    assert_eq!(done(&folder, &["-V"]).lines().count(), 1);
}

#[test]
fn colours_are_those_that_are_asked_for() {
    let folder = Folder::new("colours");
    let said = |args: &[&str], no_colour: bool| {
        let mut command = alone(&folder, args);
        if no_colour {
            command.env("NO_COLOR", "1");
        }
        text(&command.output().expect("the command starts").stderr)
    };
    let wrong = ["run", "vecad"];
    assert!(!said(&wrong, false).contains('\u{1b}'), "a pipe is no terminal");
    assert!(said(&["run", "vecad", "--color", "always"], true).contains('\u{1b}'));
    assert!(said(&["--color=always", "run", "--none"], false).contains('\u{1b}'), "what clap says too");
    assert!(!said(&["--color=never", "run", "--none"], false).contains('\u{1b}'));
    assert!(said(&["--color", "some", "chips"], false).contains("always"));
}

#[test]
fn no_path_of_the_tree_is_in_the_library() {
    // What a path is made of where it is needed: the folder of the crate is not written into the command by itself.
    let name = ["CARGO", "MANIFEST", "DIR"].join("_");
    let mut files = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(&path).expect("a folder").flatten().map(|entry| entry.path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source");
            assert!(!text.contains(&name), "{}", path.display());
        }
    }
}
