//! What of the model of a chip was held to measurements on hardware, and what of it is assumed: the line of reports that says
//! so. The figures are those of data/validation.tsv, which a test makes again from the measurements and the chip files.

use serde_json::Value;

const DATA: &str = include_str!("../data/validation.tsv");

/// A chip that ships.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Chip<'t> {
    /// Parts of the model with a figure that a test holds within a tolerance of one measured on hardware.
    held: Vec<&'t str>,
    /// Parts compared with hardware, but not held to it.
    compared: Vec<&'t str>,
    /// Kernels and launches whose cycles were measured on it (data/silicon.yaml).
    kernels: usize,
    /// Keys of the chip file whose comment says that they are assumed.
    assumed: Vec<&'t str>,
    /// Number of all its keys.
    keys: usize,
}

impl<'t> Chip<'t> {
    /// The one of a name; none of a chip that does not ship.
    fn named(text: &'t str, name: &str) -> Option<Self> {
        let mut fields = text
            .lines()
            .map(|line| line.split('\t'))
            .find_map(|mut fields| (fields.next() == Some(name)).then_some(fields))?;
        let mut list = || -> Option<Vec<&str>> {
            Some(fields.next()?.split(", ").filter(|part| !part.is_empty()).collect())
        };
        let (held, compared, assumed) = (list()?, list()?, list()?);
        let mut number = || fields.next()?.parse().ok();
        Some(Self { held, compared, kernels: number()?, assumed, keys: number()? })
    }
}

/// The line for the report of a run with time; none where no time was simulated.
pub fn line(report: &Value) -> Option<String> {
    let name = report.get("chip")?.as_str()?;
    if report.get("cycles")?.as_u64()? == 0 {
        return None;
    }
    // Keys of chips have a section before them, parameters of workloads have none.
    let set = report.get("set").and_then(Value::as_object);
    let changed: Vec<&str> =
        set.into_iter().flatten().map(|(key, _)| key.as_str()).filter(|key| key.contains('.')).collect();
    // A file may have the name of a chip that ships, or inherit it.
    let file = report.get("chip_file").and_then(Value::as_str);
    let (None, Some(chip)) = (file, Chip::named(DATA, name)) else {
        let chip = file.map_or_else(|| name.to_string(), |file| format!("{name} of {file}"));
        return Some(format!("model of {chip}: not among the chips that were compared with hardware"));
    };
    let mut parts = Vec::new();
    let mut tell = |words: &str, list: &[&str]| {
        if !list.is_empty() {
            parts.push(format!("{words} {}", list.join(", ")));
        }
    };
    tell("held to measurements on hardware:", &chip.held);
    tell("compared with them:", &chip.compared);
    if chip.kernels > 0 {
        parts.push(format!("{} whole kernels compared", chip.kernels));
    }
    if parts.is_empty() {
        parts.push("nothing of it was compared with hardware".to_string());
    }
    parts.push(format!("assumed: {} of {} keys{}", chip.assumed.len(), chip.keys, sections(&chip.assumed)));
    if !changed.is_empty() {
        parts.push(format!("changed in this run: {}", changed.join(", ")));
    }
    Some(format!("model of {name}: {}", parts.join("; ")))
}

/// How many of the keys each section has, the most first.
fn sections(keys: &[&str]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for key in keys {
        let section = key.split('.').next().unwrap_or(key);
        match counts.iter_mut().find(|(known, _)| *known == section) {
            Some((_, count)) => *count += 1,
            None => counts.push((section, 1)),
        }
    }
    counts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let told: Vec<String> = counts.iter().map(|(section, count)| format!("{section} {count}")).collect();
    if told.is_empty() { String::new() } else { format!(" ({})", told.join(", ")) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Write;

    use sim_frontend::diagnostic::Source;
    use sim_frontend::yaml::entries;

    use super::*;
    use crate::configs::CHIPS;
    use crate::study::{microbenchmarks, silicon};

    /// For each key of a chip file, whether the comment of its line, or one that stands alone above it, says that it is
    /// assumed; on top of those of the chip that it extends.
    fn keys(name: &str) -> BTreeMap<String, bool> {
        let (_, text) = CHIPS.iter().find(|(chip, _)| *chip == name).expect("a chip that ships");
        let lines: Vec<(&str, &str)> =
            text.lines().map(|line| line.split_once('#').unwrap_or((line, ""))).collect();
        let comment = |(code, comment): &&(&str, &str)| code.trim().is_empty() && !comment.is_empty();
        let assumed = |line: usize| {
            let above = lines[..line].iter().rev();
            let mut above = above.take_while(|line| comment(line) || line.0.trim_end().ends_with(':'));
            lines[line].1.contains("assumed") || above.any(|line| line.1.contains("(assumed"))
        };
        let mut all = BTreeMap::new();
        let source = Source::new(name, text);
        for (path, key, value) in entries(&source) {
            let value = &text[value.start as usize..value.end as usize];
            match (path.join(".").as_str(), value) {
                ("extends", base) => all.extend(keys(base)),
                ("schema" | "name" | "description", _) => {}
                // A mapping, whose keys follow.
                (_, mapping) if mapping.is_empty() || mapping.starts_with('{') => {}
                (path, _) => {
                    let line = text[..key.start as usize].matches('\n').count();
                    all.insert(path.to_string(), assumed(line));
                }
            }
        }
        all
    }

    fn table() -> String {
        let mut out =
            "# What was measured of the chips that ship, and what of them is assumed (src/validation.rs).\n\
                       # chip\theld\tcompared\tassumed keys\tkernels measured\tkeys\n"
                .to_string();
        for (name, _) in CHIPS {
            let keys = keys(name);
            let assumed: Vec<&str> =
                keys.iter().filter(|(_, assumed)| **assumed).map(|(key, _)| key.as_str()).collect();
            let (held, compared) = microbenchmarks::parts(name).expect("the measurements are right");
            let kernels = silicon::measured(name).expect("the measurements are right");
            let _ = writeln!(
                out,
                "{name}\t{}\t{}\t{}\t{kernels}\t{}",
                held.join(", "),
                compared.join(", "),
                assumed.join(", "),
                keys.len()
            );
        }
        out
    }

    #[test]
    fn the_table_is_that_of_the_measurements_and_chip_files() {
        if std::env::var_os("UPDATE_VALIDATION").is_some() {
            // Tests run in the folder of their package.
            std::fs::write("data/validation.tsv", table()).expect("the table");
            return;
        }
        assert!(DATA == table(), "UPDATE_VALIDATION=1 cargo test --lib validation makes it again");
    }

    /// What comments say is found where they say it.
    #[test]
    fn comments_of_chip_files_are_understood() {
        let keys = keys("h100");
        let at = |key: &str| keys.get(key).copied();
        assert_eq!(at("dispatch.latency"), Some(true));
        assert_eq!(at("sm.branch_latency"), Some(false), "measured");
        assert_eq!(at("sm.barrier_latency"), Some(false), "measured");
        assert_eq!(at("memory.dram.write_queue.high"), Some(true), "by the comment above");
        assert_eq!(at("memory.dram.timing.RCD"), Some(true), "by the comment above");
        assert_eq!(at("cluster.latency"), Some(false));
        assert_eq!(at("compute_capability"), Some(false), "the head of the file explains the word");
        assert_eq!(at("clocks.core_mhz"), Some(false));
        assert_eq!(at("extends"), None);
    }

    #[test]
    fn lines_say_what_is_known() {
        let line = |json: &str| line(&serde_json::from_str(json).expect("JSON"));
        let h100 = line(r#"{"chip": "h100", "cycles": 1, "set": {"n": "1"}}"#).expect("a line");
        assert!(h100.starts_with("model of h100: held to measurements on hardware: L1 latency,"), "{h100}");
        assert!(h100.contains(" whole kernels compared; assumed: ") && !h100.contains("changed"), "{h100}");
        let set =
            line(r#"{"chip": "gtx480", "cycles": 1, "set": {"sm.branch_latency": "1"}}"#).expect("a line");
        assert!(
            set.contains(": nothing of it was compared") && set.ends_with("in this run: sm.branch_latency"),
            "{set}"
        );
        let kernels = line(r#"{"chip": "qv100", "cycles": 1}"#).expect("a line");
        assert!(kernels.starts_with("model of qv100: 11 whole kernels compared; assumed: "), "{kernels}");
        let other = line(r#"{"chip": "x", "cycles": 1}"#).expect("a line");
        assert_eq!(other, "model of x: not among the chips that were compared with hardware");
        let file = line(r#"{"chip": "h100", "chip_file": "mine.yaml", "cycles": 1}"#).expect("a line");
        assert_eq!(file, "model of h100 of mine.yaml: not among the chips that were compared with hardware");
        assert_eq!(line(r#"{"chip": "h100", "cycles": 0}"#), None);
    }
}
