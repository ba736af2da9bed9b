//! The tutorial is true: every command of its `console` blocks runs and prints what stands below it.

mod common;

use common::{Folder, command, text};

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
    let start = shown.split(", 9], ").next().expect("values").replace("expect:\n", "expect:\n# OEIS A006577\n");
    assert!(read("collatz/workload.yaml").contains(&start));
}
