//! `warpsim compare`: what tells two reports apart, and where the cycles went.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cli::baseline::CompareArgs;
use crate::console::{status, table};
use crate::contents::{differing, digests};
use crate::files;
use crate::kernels::paired;
use crate::metrics::{self, METRICS, shown};
use crate::report_file::is_report;
use crate::sweep::store::Store;

/// A figure that is not what it was.
#[derive(Clone, Debug, PartialEq)]
pub struct Moved {
    /// Name of the metric.
    pub metric: String,
    /// Before, and now; none where there was or is none.
    pub was: Option<f64>,
    /// Value in the second report.
    pub is: Option<f64>,
}

impl Moved {
    /// By how much, in per cent; none where one of them is not there, or it was zero.
    pub fn percent(&self) -> Option<f64> {
        let (was, is) = (self.was?, self.is?);
        (was != 0.0).then(|| (is / was - 1.0) * 100.0)
    }

    /// Its unit.
    pub fn unit(&self) -> &'static str {
        METRICS.iter().find(|metric| metric.name == self.metric).map_or("", |metric| metric.unit)
    }

    /// A row of a table.
    pub fn row(&self) -> [String; 5] {
        let text = |how: fn(f64) -> String| [self.was, self.is].map(|v| v.map_or("–".to_string(), how));
        // Values that look the same rounded are told in full.
        let [was, is] = match text(shown) {
            [was, is] if was == is => text(|value| value.to_string()),
            rounded => rounded,
        };
        let by = self.percent().map_or(String::new(), |percent| format!("{percent:+.2} %"));
        [self.metric.clone(), was, is, by, self.unit().to_string()]
    }
}

impl fmt::Display for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [metric, was, is, by, _] = self.row();
        write!(f, "{metric} was {was}, and is {is}")?;
        if by.is_empty() { Ok(()) } else { write!(f, ", {by}") }
    }
}

/// The figures that differ, in the order of [`METRICS`].
pub fn moved(was: &BTreeMap<String, f64>, is: &BTreeMap<String, f64>) -> Vec<Moved> {
    METRICS
        .iter()
        .map(|metric| Moved {
            metric: metric.name.to_string(),
            was: was.get(metric.name).copied(),
            is: is.get(metric.name).copied(),
        })
        .filter(|moved| moved.was != moved.is)
        .collect()
}

/// The metrics of two reports that differ.
pub fn of_reports(was: &Value, is: &Value) -> Vec<Moved> {
    moved(&figures(was), &figures(is))
}

fn load(path: &Path) -> Result<Value, String> {
    let report: Value = files::read_json(path)?;
    is_report(path, &report).map(|()| report)
}

fn figures(report: &Value) -> BTreeMap<String, f64> {
    metrics::of(report).map(|(metric, value)| (metric.name.to_string(), value)).collect()
}

/// Says what of the two cannot be read, once where both are one; gives the exit status.
fn unreadable(errors: [Option<String>; 2]) -> u8 {
    let mut said: Vec<String> = errors.into_iter().flatten().collect();
    said.dedup();
    said.iter().for_each(|message| eprintln!("error: {message}"));
    status::BAD_INPUT
}

/// Prints the comparison; gives the exit status.
pub fn compare(args: &CompareArgs) -> u8 {
    // The folder of one run is its report.
    let one = |path: &Path| match path.join("report.json") {
        report if report.is_file() => report,
        _ => path.to_path_buf(),
    };
    let (a, b) = (one(&args.a), one(&args.b));
    match (a.is_dir(), b.is_dir()) {
        (true, true) => return folders(&a, &b),
        (false, false) => {}
        (a_is_folder, _) => {
            let (folder, file) = if a_is_folder { (&a, &b) } else { (&b, &a) };
            eprintln!(
                "error: {} is a folder of results and {} is one report; compare two folders or two reports",
                folder.display(),
                file.display()
            );
            return status::BAD_INPUT;
        }
    }
    let (a, b) = match (load(&a), load(&b)) {
        (Ok(a), Ok(b)) => (a, b),
        (a, b) => {
            return unreadable([a.err(), b.err()]);
        }
    };
    let text =
        |report: &Value, key: &str| report.get(key).map_or(String::new(), |v| v.to_string().replace('"', ""));
    for key in [
        "workload",
        "variant",
        "command",
        "exit_status",
        "chip",
        "policy",
        "scheduler",
        "params",
        "args",
        "seed",
        "set",
        "result",
    ] {
        let (a, b) = (text(&a, key), text(&b, key));
        if a != b {
            println!("{key}: {a} → {b}");
        }
    }
    let contents = differing(&digests(&a), &digests(&b));
    if !contents.is_empty() {
        println!("contents differ: {}", contents.join(", "));
    }
    let differ = moved(&figures(&a), &figures(&b));
    if differ.is_empty() {
        println!("no metric differs");
        return status::DONE;
    }
    let mut out = table(&["metric", "A", "B", "change", "unit"]);
    differ.iter().for_each(|moved| {
        out.add_row(moved.row());
    });
    println!("{out}\n");
    slots(&a, &b);
    kernels(&a, &b);
    lines(&a, &b);
    status::DONE
}

/// Results of a folder by name: the points of a sweep by the arguments of their runs, or the folders of
/// runs in it.
fn results(folder: &Path) -> Result<BTreeMap<String, (String, Option<Value>)>, String> {
    let unreadable = |error: std::io::Error| files::unreadable(folder, &error);
    let list = |folder: &Path| -> Result<Vec<PathBuf>, String> {
        std::fs::read_dir(folder)
            .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect())
            .map_err(unreadable)
    };
    let mut out = BTreeMap::new();
    let points = folder.join("points");
    if points.is_dir() {
        let store = Store::read_only(folder);
        for id in store.ids().map_err(unreadable)? {
            let stored = store.read(&id)?;
            if out.insert(stored.run.join(" "), (stored.result, stored.report)).is_some() {
                return Err(format!(
                    "{} has several results of `{}`: they are of several versions; keep one version in a folder",
                    folder.display(),
                    stored.run.join(" ")
                ));
            }
        }
    } else {
        for path in list(folder)?.iter().filter(|path| path.join("report.json").is_file()) {
            let report = load(&path.join("report.json"))?;
            let result = report["result"].as_str().unwrap_or_default().to_string();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            out.insert(name.unwrap_or_default(), (result, Some(report)));
        }
    }
    match out.is_empty() {
        true => Err(format!(
            "{} holds neither results of a sweep nor folders with a report.json",
            folder.display()
        )),
        false => Ok(out),
    }
}

/// Compares two folders of results, pair by pair; gives the exit status.
fn folders(a: &Path, b: &Path) -> u8 {
    let (was, is) = match (results(a), results(b)) {
        (Ok(was), Ok(is)) => (was, is),
        (was, is) => {
            return unreadable([was.err(), is.err()]);
        }
    };
    let mut out = table(&["run", "result", "cycles, A", "B", "change", "other metrics that differ"]);
    let (mut pairs, mut differ, mut alone) = (0, 0, Vec::new());
    for (name, (result, report)) in &was {
        let Some((other, now)) = is.get(name) else {
            alone.push(format!("only in A: {name}"));
            continue;
        };
        pairs += 1;
        let of = |report: &Option<Value>| report.as_ref().map(figures).unwrap_or_default();
        let moved = moved(&of(report), &of(now));
        let of = |report: &Option<Value>| report.as_ref().map(digests).unwrap_or_default();
        let contents = differing(&of(report), &of(now));
        if moved.is_empty() && contents.is_empty() && result == other {
            continue;
        }
        differ += 1;
        let mut results = if result == other { result.clone() } else { format!("{result} → {other}") };
        if !contents.is_empty() {
            let _ = write!(results, "; contents differ: {}", contents.join(", "));
        }
        let cycles = moved.iter().find(|moved| moved.metric == "cycles");
        let [_, was, is, by, _] = cycles.map(Moved::row).unwrap_or_default();
        let others: Vec<&str> =
            moved.iter().map(|moved| moved.metric.as_str()).filter(|name| *name != "cycles").collect();
        let others = match others.as_slice() {
            [a, b, c, rest @ ..] if !rest.is_empty() => format!("{a}, {b}, {c} and {} more", rest.len()),
            few => few.join(", "),
        };
        out.add_row([name.clone(), results, was, is, by, others]);
    }
    alone.extend(is.keys().filter(|name| !was.contains_key(*name)).map(|name| format!("only in B: {name}")));
    if differ > 0 {
        println!("{out}");
    }
    alone.iter().for_each(|line| println!("{line}"));
    println!("{pairs} pairs, {differ} differ; {} in one folder only", alone.len());
    if differ == 0 && alone.is_empty() { status::DONE } else { status::DIFFERS }
}

/// Where the issue slots went: what each kind of slot has more or less of, in slots and in cycles.
fn slots(a: &Value, b: &Value) {
    let number = |report: &Value, path: [&str; 2]| -> f64 {
        let value = if path[1].is_empty() {
            report.get(path[0])
        } else {
            report.get(path[0]).and_then(|v| v.get(path[1]))
        };
        value.and_then(Value::as_f64).unwrap_or(0.0)
    };
    let lanes = |report: &Value| number(report, ["sms", ""]) * number(report, ["schedulers", ""]);
    if lanes(a) != lanes(b) || lanes(a) == 0.0 {
        println!("the chips have different numbers of schedulers: issue slots cannot be compared");
        return;
    }
    let kinds: Vec<String> = match a.get("stalls").and_then(Value::as_object) {
        Some(stalls) => stalls.keys().cloned().collect(),
        None => Vec::new(),
    };
    let mut rows = vec![("issued".to_string(), number(a, ["issued", ""]), number(b, ["issued", ""]))];
    rows.extend(
        kinds.iter().map(|kind| (kind.clone(), number(a, ["stalls", kind]), number(b, ["stalls", kind]))),
    );
    rows.retain(|(_, a, b)| a != b);
    rows.sort_by(|x, y| (y.2 - y.1).abs().total_cmp(&(x.2 - x.1).abs()));
    if rows.is_empty() {
        return;
    }
    let mut out = table(&["issue slots", "A", "B", "difference", "in core cycles"]);
    for (kind, was, is) in &rows {
        let cycles = (is - was) / lanes(a);
        out.add_row([
            kind.clone(),
            was.to_string(),
            is.to_string(),
            format!("{:+}", is - was),
            format!("{cycles:+.1}"),
        ]);
    }
    let all: f64 = rows.iter().map(|(_, a, b)| b - a).sum();
    println!("{out}\ntotal difference: {:+.1} core cycles\n", all / lanes(a));
}

/// Cycles of the kernels, launch by launch, those that differ: launches are paired by kernel and number.
fn kernels(a: &Value, b: &Value) {
    let list = |report: &Value| {
        let launches = report.get("kernels").and_then(Value::as_array).cloned().unwrap_or_default();
        let launches = launches.into_iter().map(|kernel| {
            let name = kernel.get("name").and_then(Value::as_str).unwrap_or("?").to_string();
            (name, kernel.get("cycles").and_then(Value::as_f64).unwrap_or(0.0))
        });
        launches.collect::<Vec<_>>()
    };
    let (a, b) = (list(a), list(b));
    if a.len() != b.len() {
        println!("A has {} launches; B has {}", a.len(), b.len());
    }
    let mut out = table(&["kernel", "launch", "A, core cycles", "B", "change"]);
    let mut rows = 0;
    for ((kernel, number), was, is) in paired(a, b).into_iter().filter(|(_, was, is)| was != is) {
        let text = |cycles: Option<f64>| cycles.map_or("–".to_string(), |cycles| cycles.to_string());
        let by = was.zip(is).filter(|(was, _)| *was != 0.0);
        let by = by.map_or(String::new(), |(was, is)| format!("{:+.2} %", (is / was - 1.0) * 100.0));
        rows += 1;
        if rows <= LAUNCHES {
            out.add_row([kernel.clone(), number.to_string(), text(was), text(is), by]);
        }
    }
    if rows > 0 {
        println!("{out}");
    }
    if rows > LAUNCHES {
        println!("{} more launches differ", rows - LAUNCHES);
    }
}

/// Launches that are listed.
const LAUNCHES: usize = 40;

/// Lines that are listed.
const LISTED: usize = 12;

/// Cycles that warps waited at each line of the PTX, those that differ most, where both reports have them.
fn lines(a: &Value, b: &Value) {
    let list = |report: &Value| report.get("lines").and_then(Value::as_array).cloned().unwrap_or_default();
    let (a, b) = (list(a), list(b));
    if a.is_empty() || b.is_empty() {
        println!("to compare stall cycles by line, run both with --profile");
        return;
    }
    let key = |line: &Value| (line["kernel"].to_string(), line["line"].as_u64().unwrap_or(0));
    let number =
        |line: Option<&Value>, name: &str| line.map_or(0.0, |line| line[name].as_f64().unwrap_or(0.0));
    let mut keys: Vec<_> = a.iter().chain(&b).map(key).collect();
    keys.sort();
    keys.dedup();
    let mut rows = Vec::new();
    for wanted in keys {
        let find = |list: &[Value]| list.iter().find(|line| key(line) == wanted).cloned();
        let (a, b) = (find(&a), find(&b));
        let waited = [number(a.as_ref(), "waited"), number(b.as_ref(), "waited")];
        let issues = [number(a.as_ref(), "issues"), number(b.as_ref(), "issues")];
        if waited[0] != waited[1] || issues[0] != issues[1] {
            let text = a.or(b).map_or(String::new(), |line| line["text"].as_str().unwrap_or("").to_string());
            rows.push((wanted, text, waited, issues));
        }
    }
    rows.sort_by(|x, y| (y.2[1] - y.2[0]).abs().total_cmp(&(x.2[1] - x.2[0]).abs()));
    if rows.is_empty() {
        println!("warp stall cycles by line: none differ");
        return;
    }
    let mut out = table(&["PTX line", "instruction", "stall cycles, A", "B", "difference", "issues, A", "B"]);
    for ((_, line), text, waited, issues) in rows.iter().take(LISTED) {
        let difference = format!("{:+}", waited[1] - waited[0]);
        let numbers = [waited[0], waited[1]].map(|n| n.to_string());
        let [was, is] = numbers;
        out.add_row([
            line.to_string(),
            text.clone(),
            was,
            is,
            difference,
            issues[0].to_string(),
            issues[1].to_string(),
        ]);
    }
    println!("{out}\nwarp stall cycles by line; {} lines differ", rows.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_move_by_their_share() {
        let map = |list: &[(&str, f64)]| {
            list.iter().map(|(k, v)| ((*k).to_string(), *v)).collect::<BTreeMap<_, _>>()
        };
        let was =
            map(&[("cycles", 200.0), ("issued", 50.0), ("memory.atomics", 0.0), ("memory.dram.bytes", 8.0)]);
        let is = map(&[("cycles", 210.0), ("issued", 50.0), ("memory.atomics", 3.0)]);
        let found = moved(&was, &is);
        let words: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            words,
            [
                "cycles was 200, and is 210, +5.00 %",
                "memory.atomics was 0, and is 3",
                "memory.dram.bytes was 8, and is –"
            ]
        );
        assert_eq!(found[0].percent().map(|p| p.round()), Some(5.0));
        assert_eq!((found[1].percent(), found[2].percent()), (None, None));
        assert!(moved(&was, &was).is_empty());
    }
}
