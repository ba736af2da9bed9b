//! `run --export`: another device does the same, and its memory is the same.

mod common;

use std::process::Command;

use common::cuda::{built, ran, succeeded};
use common::{Folder, parse, text, warpsim};
use serde_json::json;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Exports a run; what `run.json` says.
fn exported(folder: &Folder, name: &str, words: &[&str]) -> serde_json::Value {
    let out = folder.join(name);
    let output = warpsim(&[&["run"], words, &["--functional", "--export", &out]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    parse(&std::fs::read(format!("{out}/run.json")).expect("run.json"))
}

#[test]
fn a_run_is_written_with_the_names_of_what_its_arguments_point_to() {
    let folder = Folder::new("export");
    let run = exported(&folder, "saxpy", &["saxpy", "--set", "n=1024"]);
    let steps = run["steps"].as_array().expect("steps");
    let launch = &steps[0]["launch"];
    assert_eq!((&launch["entry"], steps.len()), (&json!("saxpy"), 2));
    let named = launch["named"].as_array().expect("addresses");
    assert!(named.iter().all(|one| one["add"] == 0) && named.len() == 2, "{named:?}");
    // Contents before and after, those that are zeros or as before left out.
    let buffers = run["buffers"].as_object().expect("buffers");
    let files: Vec<&str> =
        buffers.values().flat_map(|b| [&b["initial"], &b["final"]]).filter_map(|f| f.as_str()).collect();
    assert!(!files.is_empty());
    for file in files {
        let bytes = std::fs::metadata(folder.join(&format!("saxpy/{file}"))).expect("a file").len();
        let own = &buffers[file.rsplit_once('.').expect("a suffix").0];
        assert_eq!(own["bytes"], bytes, "{file}");
    }
    // A tensor map is named once, not its words.
    let run = exported(&folder, "hgemm_tma", &["hgemm_tma", "--chip", "h100"]);
    let launch = run["steps"].as_array().expect("steps").last().expect("a step");
    let named = launch["launch"]["named"].as_array().expect("names");
    let maps: Vec<_> = named.iter().filter(|one| one.get("map").is_some()).map(|one| &one["at"]).collect();
    assert_eq!((maps, named.len()), (vec![&json!(0), &json!(128)], 3), "{named:?}");
    // A loop is unrolled, with what the host sets between launches.
    let run = exported(&folder, "bfs", &["bfs"]);
    let steps = run["steps"].as_array().expect("steps");
    let filled = steps.iter().filter(|step| step.get("fill").is_some()).count();
    assert!(filled > 2 && steps.len() == 2 * filled, "{filled} of {}", steps.len());
    assert!(
        steps.iter().all(|step| step["fill"]["buffer"].is_string() == step["launch"].is_null()),
        "{steps:?}"
    );
}

#[test]
fn what_has_textures_is_refused() {
    let folder = Folder::new("export-refused");
    let words = ["run", "texture_stencil", "--functional", "--export", &folder.join("out")];
    let output = warpsim(&words);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    assert!(
        text(&output.stderr).contains("textures and surfaces cannot be exported"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn another_device_has_the_same_memory_in_the_end() {
    let Some((_, library)) = built() else { return };
    if !Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: there is no python3");
        return;
    }
    let folder = Folder::new("export-again");
    let names = ["hgemm_tma", "linked_lists", "lud", "virtual_calls"];
    for name in names {
        exported(&folder, name, &[name, "--chip", "h100"]);
    }
    // What another device would find, if it did not do the same.
    exported(&folder, "wrong", &["saxpy", "--chip", "h100"]);
    let wrong = folder.join("wrong/program.ptx");
    let program = std::fs::read_to_string(&wrong).expect("PTX");
    assert!(program.contains("fma.rn.f32"), "{program}");
    std::fs::write(&wrong, program.replace("fma.rn.f32", "fma.rz.f32")).expect("PTX");
    let script = format!("{ROOT}/workloads/on-gpu.py");
    let folders: Vec<String> =
        names.iter().chain(&["nothing", "wrong"]).map(|name| folder.join(name)).collect();
    let mut words = vec!["cuda", "--chip", "h100", "--functional", "--", "python3", &script];
    words.extend(folders.iter().map(String::as_str));
    let shown = succeeded(&ran(&library, &words));
    for name in names {
        assert!(shown.contains(&format!("{name} the same")), "{name}: {shown}");
    }
    assert!(shown.contains("nothing failed:"), "{shown}");
    let differs = shown.lines().find(|line| line.starts_with("wrong ")).expect("a line");
    assert!(differs.contains("'differ': ") && differs.contains("'ulp': "), "{differs}");
}
