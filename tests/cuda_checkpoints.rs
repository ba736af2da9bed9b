//! Checkpoints of CUDA programs: what follows them is as in a run that was not interrupted, byte for byte.

#![allow(missing_docs, reason = "tests")]

mod common;

use std::path::Path;

use common::cuda::{built, ran, succeeded};
use common::{Folder, text};

/// The report and the output of a run of the program.
fn run(library: &Path, folder: &Folder, options: &[&str], program: &[&str]) -> (String, String) {
    let out = folder.join("out");
    let _ = std::fs::remove_dir_all(&out);
    let words = [&["cuda", "--out", &out][..], options, &["--"], program].concat();
    let said = succeeded(&ran(library, &words));
    (std::fs::read_to_string(format!("{out}/report.json")).expect("a report"), said)
}

#[test]
fn the_rest_of_a_program_is_as_in_a_run_that_was_not_interrupted() {
    let Some((program, library)) = built() else { return };
    let program = program.display().to_string();
    for (i, options) in [
        &[][..],
        &["--policy", "mimd", "--profile"],
        &["--time", "scale:1-2", "--time", "add:3", "--warm", "2"],
        &["--functional"],
    ]
    .into_iter()
    .enumerate()
    {
        let folder = Folder::new(&format!("checkpoint{i}"));
        let checkpoint = folder.join("c");
        let log = format!("{checkpoint}/runs.jsonl");
        let run =
            |more: &[&str], count| run(&library, &folder, &[options, more].concat(), &[&program, count]);
        let whole = run(&[], "4");
        assert_eq!(run(&["--checkpoint", &checkpoint], "4"), whole, "a checkpoint changes nothing");
        let complete = std::fs::read(&log).expect("a log");
        let lines: Vec<usize> = (0..complete.len()).filter(|at| complete[*at] == b'\n').collect();
        assert_eq!(lines.len(), 8);
        assert_eq!(run(&["--from", &checkpoint], "4"), whole);
        // Wherever it is cut off, its whole runs are used, and the others are simulated again.
        for cut in [0, lines[0] + 1, lines[2] + 1, lines[4] + 100] {
            std::fs::write(&log, &complete[..cut]).expect("cut off");
            assert_eq!(run(&["--from", &checkpoint], "4"), whole, "{options:?}, {cut} bytes");
        }
        assert_eq!(run(&["--from", &checkpoint, "--checkpoint", &checkpoint], "4"), whole);
        assert!(std::fs::read(&log).expect("a log") == complete, "the log is as if it had not been cut off");
        // A program that goes further than the checkpoint.
        assert_eq!(run(&["--from", &checkpoint], "6"), run(&[], "6"));
    }
}

#[test]
fn a_run_from_a_checkpoint_does_not_simulate_what_it_has() {
    let Some((program, library)) = built() else { return };
    let program = program.display().to_string();
    let folder = Folder::new("checkpoint-skips");
    let checkpoint = folder.join("c");
    // The limit stops the fourth launch.
    let words = ["cuda", "--max-cycles", "20000", "--checkpoint", &checkpoint, "--", &program, "3"];
    let output = ran(&library, &words);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let log = std::fs::read_to_string(format!("{checkpoint}/runs.jsonl")).expect("a log");
    assert_eq!(log.lines().count(), 3);
    // Cycles of the checkpoint count: with the same limit it stops there again, with a greater one it ends.
    let from = |limit: &str| {
        let words = ["cuda", "--max-cycles", limit, "--from", &checkpoint, "--", &program, "3"];
        ran(&library, &words)
    };
    assert_eq!(from("20000").status.code(), Some(3));
    assert!(succeeded(&from("1000000")).starts_with("PASS: 3 times"));
    // What the log says is taken as it is.
    std::fs::write(format!("{checkpoint}/runs.jsonl"), log.replace("\"cycles\":5", "\"cycles\":7"))
        .expect("written");
    let table = text(&from("1000000").stderr);
    let cycles = |name: &str| -> u64 {
        let row = table
            .lines()
            .find(|line| line.contains(&format!(" {name} ")))
            .unwrap_or_else(|| panic!("{table}"));
        row.split('|').nth(3).and_then(|cell| cell.trim().parse().ok()).unwrap_or_else(|| panic!("{row}"))
    };
    assert!(cycles("add") > cycles("scale"), "{table}");
}

#[test]
fn what_a_checkpoint_is_not_of_is_named() {
    let Some((program, library)) = built() else { return };
    let program = program.display().to_string();
    let folder = Folder::new("checkpoint-wrong");
    let checkpoint = folder.join("c");
    let run = |options: &[&str], arguments: &[&str]| {
        let output = ran(&library, &[&["cuda"][..], options, &["--", &program], arguments].concat());
        (output.status.code(), text(&output.stderr))
    };
    let (code, said) = run(&["--checkpoint", &checkpoint], &["2"]);
    assert_eq!(code, Some(0), "{said}");
    let from = ["--from", checkpoint.as_str()];
    // The last `add` has another argument; before the first one the host has written something else.
    for (mode, wanted) in [
        ("fault", "launch 2 of add differs from the checkpoint's: params is \"40000000"),
        ("other", "launch 0 of add: the host has written other data"),
    ] {
        let (code, said) = run(&from, &["2", mode]);
        assert!(code == Some(3) && said.contains(wanted), "{mode}: {said}");
    }
    for (options, wanted) in [
        (&["--policy", "mimd"][..], "another `policy`"),
        (&["--set", "memory.l1.hit_latency=99"], "another `config`"),
        (&["--out", &folder.join("out")], "without --out"),
        (&["--check", "races"], "does not hold what --check races has seen"),
        (&["--checkpoint", &folder.join("d")], "name two folders"),
    ] {
        let (code, said) = run(&[&from[..], options].concat(), &["2"]);
        assert!(code == Some(2) && said.contains(wanted), "{options:?}: {said}");
    }
    let (code, said) = run(&["--checkpoint", &checkpoint], &["2"]);
    assert!(code == Some(2) && said.contains("holds a checkpoint already"), "{said}");
    let (code, said) = run(&["--from", &folder.join("none")], &["2"]);
    assert!(code == Some(2) && said.contains("none"), "{said}");
    // A file that is not what its name says.
    let data = std::fs::read_dir(format!("{checkpoint}/data")).expect("a folder");
    for file in data {
        std::fs::write(file.expect("an entry").path(), b"nothing").expect("written");
    }
    let (code, said) = run(&from, &["2"]);
    assert!(code == Some(3) && said.contains("cannot go on from the checkpoint"), "{said}");
}
