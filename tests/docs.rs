//! The pages are true: every command of the tutorial runs and prints what stands below it, figures beside
//! other simulators are ours of today, links lead somewhere.

mod common;

use std::path::{Path, PathBuf};

use common::{Folder, command, json, text, warpsim};

/// A command with the lines that must follow.
struct Step {
    line: usize,
    words: Vec<String>,
    expected: Vec<String>,
}

fn steps(page: &str) -> Vec<Step> {
    let mut out: Vec<Step> = Vec::new();
    let mut inside = false;
    for (i, line) in page.lines().enumerate() {
        if let Some(kind) = line.strip_prefix("```") {
            inside = kind == "console";
        } else if inside && let Some(words) = line.strip_prefix("$ ") {
            let words = words.split(' ').map(str::to_string).collect();
            out.push(Step { line: i + 1, words, expected: Vec::new() });
        } else if inside {
            let step = out.last_mut().unwrap_or_else(|| panic!("line {}: output of no command", i + 1));
            step.expected.push(line.to_string());
        }
    }
    out
}

/// The lines are there one after the other, with anything at each `…`.
fn check(step: &Step, printed: &str) {
    let lines: Vec<&str> = printed.lines().map(str::trim_end).collect();
    let mut at = 0;
    let mut anywhere = false;
    for wanted in &step.expected {
        if wanted == "…" {
            anywhere = true;
            continue;
        }
        let found = match anywhere {
            true => lines[at..].iter().position(|line| line == wanted).map(|skipped| at + skipped),
            false => (lines.get(at) == Some(&wanted.as_str())).then_some(at),
        };
        let found = found.unwrap_or_else(|| {
            panic!("line {}: {:?} does not print\n{wanted}\nthere, but\n{printed}", step.line, step.words)
        });
        (at, anywhere) = (found + 1, false);
    }
    assert!(anywhere || at == lines.len(), "line {}: more is printed: {:?}", step.line, &lines[at..]);
}

#[test]
fn every_command_prints_what_stands_below_it() {
    let folder = Folder::new("tutorial");
    let page = include_str!("../docs/tutorial.md");
    let out = folder.join("out");
    let steps = steps(page);
    assert!(steps.len() >= 12, "{} commands", steps.len());
    for step in &steps {
        assert_eq!(step.words[0], "warpsim", "line {}", step.line);
        let place = |word: &String| match word.strip_prefix("out/") {
            Some(rest) => format!("{out}/{rest}"),
            None => word.clone(),
        };
        let words: Vec<String> = step.words[1..].iter().map(place).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        std::fs::create_dir_all(&out).expect("a folder");
        let done = command(&words).output().expect("the command starts");
        // A pipe sets them apart; a terminal shows both.
        let printed = text(&done.stdout) + &text(&done.stderr);
        check(step, &printed.replace(&out, "out"));
        // The one that is wrong says so.
        let wrong = step.expected.iter().any(|line| line.contains("help: "));
        assert_eq!(done.status.code(), Some(if wrong { 2 } else { 0 }), "line {}", step.line);
    }
}

#[test]
fn what_the_page_shows_of_files_is_in_them() {
    let page = include_str!("../docs/tutorial.md");
    let block = |kind: &str, n: usize| {
        let text = page.split(&format!("```{kind}\n")).nth(n).and_then(|rest| rest.split("```").next());
        text.unwrap_or_else(|| panic!("{kind} {n}"))
    };
    let root = env!("CARGO_MANIFEST_DIR");
    let read = |file: &str| std::fs::read_to_string(format!("{root}/docs/tutorial/{file}")).expect("a file");
    assert!(read("collatz/collatz.cu").ends_with(block("cuda", 1)));
    assert!(read("generations.yaml").ends_with(block("yaml", 2)));
    // The list of values is longer in the file.
    let shown = block("yaml", 1);
    let start =
        shown.split(", 9], ").next().expect("values").replace("expect:\n", "expect:\n# OEIS A006577\n");
    assert!(read("collatz/workload.yaml").contains(&start));
}

#[test]
fn cycles_beside_other_simulators_are_those_of_today() {
    let page = include_str!("../docs/comparison.md");
    // With the launch latency that the other simulator has for the chip.
    for (chip, row, launch) in [
        ("gtx480", "| GTX 480, core cycles, warpsim |", "dispatch.launch_latency=0"),
        ("qv100", "| QV100, core cycles, warpsim |", "dispatch.launch_latency=5000"),
    ] {
        let line = page.lines().find_map(|line| line.strip_prefix(row)).expect("the row");
        let shown: Vec<u64> = line
            .trim_end_matches('|')
            .split('|')
            .map(|n| n.replace(',', "").trim().parse().expect("a number"))
            .collect();
        let now = ["vecadd", "fmaloop", "sgemm", "reduce"].map(|workload| {
            let as_written = ["--set", "assembler.clean_up=false", "--set", launch];
            let words = ["run", workload, "--chip", chip, "--variant", "sm_20", "--json"];
            let out = warpsim(&[&words[..], &as_written].concat());
            let report = json(&out);
            report["cycles"].as_u64().expect("cycles") + report["launch_cycles"].as_u64().expect("cycles")
        });
        assert_eq!(shown, now, "{chip}");
    }
}

fn pages(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            pages(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            out.push(path);
        }
    }
}

#[test]
fn links_lead_somewhere_and_the_summary_names_every_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut list = Vec::new();
    pages(root, &mut list);
    let summary = std::fs::read_to_string(root.join("docs/SUMMARY.md")).expect("the summary");
    let mut links = 0;
    for path in list {
        let page = std::fs::read_to_string(&path).expect("a page");
        let targets = page.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        for target in targets.filter(|target| !target.is_empty() && !target.starts_with("http")) {
            links += 1;
            let place = path.parent().expect("a folder").join(target);
            assert!(place.exists(), "{}: {target}", path.display());
        }
        if let Ok(name) = path.strip_prefix(root.join("docs"))
            && name != Path::new("SUMMARY.md")
        {
            assert!(
                summary.contains(&format!("]({})", name.display())),
                "docs/SUMMARY.md: {}",
                name.display()
            );
        }
    }
    assert!(links > 30, "{links}");
}
