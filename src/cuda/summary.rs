//! What the launches of a program came to: the table, and `report.json`.

use std::fmt::Write;
use std::path::Path;

use serde_json::{Value, json};
use sim_core::report::UndefinedReport;

use super::totals;
use crate::console::table;
use crate::device::Configured;
use crate::device::program::{LaunchLine, Sanitized, Told};
use crate::figures::Figures;
use crate::metrics::shown;
use crate::report_file::SCHEMA;
use crate::summary::FINDINGS;

/// The launches that the processes of a program wrote down, by process in the order of their numbers.
///
/// # Errors
/// A line is wrong; the last one of a file may be cut off.
pub fn read(folder: &Path) -> Result<Vec<LaunchLine>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let number = |path: &Path| {
        let name = path.file_name()?.to_str()?;
        name.strip_prefix("launches-")?.strip_suffix(".jsonl")?.parse::<u32>().ok()
    };
    let mut files: Vec<_> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter_map(|path| Some((number(&path)?, path)))
        .collect();
    files.sort();
    let mut out = Vec::new();
    for (_, path) in files {
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            out.push(serde_json::from_str(line).map_err(|error| format!("{}: {error}", path.display()))?);
        }
    }
    Ok(out)
}

/// Launches of a kernel.
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// How many there were.
    pub launches: u64,
    /// Core cycles of the timed ones.
    pub cycles: u64,
    /// Their time.
    pub micros: f64,
    /// Warp instructions of all of them.
    pub instructions: u64,
    /// Instructions that read values which PTX leaves undefined, in the order of their addresses.
    pub undefined: Vec<UndefinedReport>,
    /// Counters of the runs of the device that its launches were part of.
    figures: Figures,
    /// The last of these runs.
    run: Option<u64>,
}

/// The kernels, in the order of their first launches.
pub fn by_kernel(launches: &[LaunchLine]) -> Vec<Kernel> {
    let mut out: Vec<Kernel> = Vec::new();
    let mut of_run: Option<&LaunchLine> = None;
    for launch in launches {
        if launch.launch == launch.run {
            of_run = Some(launch);
        }
        let at = out.iter().position(|kernel| kernel.name == launch.kernel).unwrap_or_else(|| {
            out.push(Kernel {
                name: launch.kernel.clone(),
                launches: 0,
                cycles: 0,
                micros: 0.0,
                instructions: 0,
                undefined: Vec::new(),
                figures: Figures::none(),
                run: None,
            });
            out.len() - 1
        });
        let kernel = &mut out[at];
        kernel.launches += 1;
        kernel.cycles += launch.cycles;
        kernel.micros += launch.time_us;
        kernel.instructions += launch.warp_instructions;
        for values in &launch.undefined_values {
            match kernel.undefined.binary_search_by_key(&values.pc, |other| other.pc) {
                Ok(at) => kernel.undefined[at].lanes += values.lanes,
                Err(at) => kernel.undefined.insert(at, values.clone()),
            }
        }
        if kernel.run.replace(launch.run) != Some(launch.run)
            && let Some(figures) = of_run.and_then(|first| first.figures.as_deref())
        {
            kernel.figures.add(figures);
        }
    }
    out
}

/// The table.
pub fn render(program: &str, configured: &Configured, launches: &[LaunchLine]) -> String {
    if launches.is_empty() {
        return format!(
            "{program}: no kernel ran on the simulated device. Where its calls fail, messages above say why; a program that is linked statically as a whole (`-static`) does not reach the device.\n"
        );
    }
    let mut out = String::new();
    let options = &configured.options;
    let _ = writeln!(
        out,
        "{program} on {}, policy {}, scheduler {}{}{}",
        configured.chip.name,
        options.policy.canonical(),
        configured.scheduler,
        if configured.functional { ", functional" } else { "" },
        if options.sampling.is_some() { ", sampled: cycles are estimates" } else { "" }
    );
    let mut rows = table(&["kernel", "launches", "cycles", "µs", "warp instructions", "IPC", "limiter"]);
    let kernels = by_kernel(launches);
    for kernel in &kernels {
        let timed = kernel.cycles > 0;
        let or_none = |text: String| if timed { text } else { "-".to_string() };
        rows.add_row([
            kernel.name.clone(),
            kernel.launches.to_string(),
            or_none(kernel.cycles.to_string()),
            or_none(shown(kernel.micros)),
            kernel.instructions.to_string(),
            or_none(format!("{:.2}", kernel.instructions as f64 / kernel.cycles.max(1) as f64)),
            or_none(totals::bound(&kernel.figures, configured).to_string()),
        ]);
    }
    let _ = writeln!(out, "{rows}");
    for (kernel, values) in
        kernels.iter().flat_map(|kernel| kernel.undefined.iter().map(move |values| (kernel, values)))
    {
        let _ = writeln!(
            out,
            "warning: {}: `{}` (PTX line {}) read {} values from lanes that did not participate; PTX leaves them \
             undefined, and they were 0; `--check full` makes this a fault",
            kernel.name, values.text, values.line, values.lanes
        );
    }
    if let Some(found) = sanitized(launches) {
        out.push_str(&sanitizers(&found));
    }
    if let Some(stopped) = launches.iter().find_map(|launch| launch.stopped.as_ref()) {
        let _ = writeln!(out, "stopped: {stopped}");
    }
    out
}

/// What sanitizers have found in all launches, where any were asked for.
pub fn sanitized(launches: &[LaunchLine]) -> Option<Sanitized> {
    let mut all: Option<Sanitized> = None;
    for launch in launches {
        let Some(run) = launch.sanitizers.as_deref() else { continue };
        let all = all.get_or_insert_default();
        // Another process begins.
        if launch.launch == 0 {
            all.end();
        }
        all.add(run);
    }
    all.iter_mut().for_each(Sanitized::end);
    all
}

fn sanitizers(found: &Sanitized) -> String {
    let count = found.findings.len();
    let mut out = format!(
        "sanitizers: {count} finding{}; {} accesses checked\n",
        if count == 1 { "" } else { "s" },
        found.accesses
    );
    if found.forgotten > 0 {
        let _ = writeln!(
            out,
            "  {} accesses had to be forgotten: races with them may have been missed",
            found.forgotten
        );
    }
    for Told { count, text, .. } in found.findings.iter().take(FINDINGS) {
        let (first, rest) =
            text.split_once('\n').map_or((text.as_str(), ""), |(first, _)| (first, &text[first.len()..]));
        let times = if *count > 1 { format!(" ({count} times)") } else { String::new() };
        let _ = writeln!(out, "{first}{times}{rest}");
    }
    let more = count.saturating_sub(FINDINGS) as u64 + found.more;
    if more > 0 {
        let _ = writeln!(out, "{more} more findings; --out DIR writes those of each launch to report.json");
    }
    out
}

/// What a program is, and what came of it, for its report.
pub struct Program<'p> {
    /// Its name.
    pub name: &'p str,
    /// It and its arguments.
    pub words: &'p [String],
    /// Its exit status.
    pub code: u8,
    /// pass, fail, unchecked, fault or stopped.
    pub result: &'static str,
    /// What was wrong.
    pub message: &'p str,
}

/// `report.json`: that of a run, with the counters of all timed launches, and an entry for each launch.
pub fn report(program: &Program<'_>, configured: &Configured, launches: &[LaunchLine]) -> Value {
    let mut report = json!({
        "schema": SCHEMA,
        "workload": program.name,
        "variant": "cuda",
        "command": program.words,
        "exit_status": program.code,
        "chip": configured.chip.name,
        "policy": configured.options.policy.canonical(),
        "scheduler": configured.scheduler,
        "check": configured.options.check_name(),
        "params": {},
        "set": configured.set,
        "allow_newer_isa": configured.options.allow_newer_isa,
        "functional": configured.functional,
        "result": program.result,
        "difference": Some(program.message).filter(|message| !message.is_empty()),
        "kernels": launches.iter().map(kernel).collect::<Vec<_>>(),
    });
    if let Some(map) = report.as_object_mut() {
        map.extend(totals::values(&totals::sum(launches.iter()), configured));
    }
    report
}

/// A launch as `kernels` of a report has it.
fn kernel(launch: &LaunchLine) -> Value {
    let mut section = json!({
        "name": launch.kernel,
        "grid_id": launch.launch,
        "stream": launch.stream,
        "grid": launch.grid,
        "block": launch.block,
        "functional": launch.functional,
        "cycles": launch.cycles,
        "time_us": launch.time_us,
        "warp_instructions": launch.warp_instructions,
        "thread_instructions": launch.thread_instructions,
    });
    if let Some(sampled) = &launch.sampled {
        section["sampled"] = json!(sampled);
    }
    if !launch.undefined_values.is_empty() {
        section["undefined_values"] = json!(launch.undefined_values);
    }
    section
}

/// The launches as `report.json` has them: with what bounds each, or the launches it ran beside (empty in the functional
/// mode), and without the counters of which that follows.
pub fn sections(configured: &Configured, launches: Vec<LaunchLine>) -> Value {
    let mut bound = "";
    let entry = |mut launch: LaunchLine| {
        if launch.launch == launch.run {
            bound = launch.figures.take().map_or("", |figures| totals::bound(&figures, configured));
        }
        // The section has them, with all that is known of each.
        launch.sanitizers = None;
        let mut value = serde_json::to_value(launch).unwrap_or_default();
        value["bound"] = bound.into();
        value
    };
    launches.into_iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceRequest;

    fn line(launch: u64, kernel: &str, cycles: u64, bound: &str) -> LaunchLine {
        let mut figures = Figures::none();
        (figures.cycles, figures.warp_instructions) = (Some(cycles as f64), Some(500.0));
        figures.stalls.insert(bound.to_string(), cycles as f64);
        LaunchLine {
            launch,
            kernel: kernel.into(),
            grid: [1; 3],
            block: [32, 1, 1],
            stream: 0,
            functional: cycles == 0,
            cycles,
            sampled: None,
            time_us: cycles as f64 / 1000.0,
            launched_us: 0.0,
            warp_instructions: 500,
            thread_instructions: 16000,
            undefined_values: Vec::new(),
            sanitizers: None,
            stopped: None,
            limit: false,
            run: launch,
            figures: (cycles > 0).then(|| Box::new(figures)),
            section: None,
        }
    }

    #[test]
    fn kernels_are_summed_in_the_order_of_their_first_launch() {
        let lines =
            [line(0, "b", 100, "memory"), line(1, "a", 50, "barrier"), line(2, "b", 900, "dependency")];
        let configured = DeviceRequest::default().configured().unwrap_or_else(|e| panic!("{}", e[0]));
        let text = render("prog", &configured, &lines);
        let row = text.lines().find(|line| line.contains(" b ")).expect("a row");
        for word in [" 2 ", " 1000 ", " 1.00 ", "dependency"] {
            assert!(row.contains(word), "{row}");
        }
        assert!(text.find(" b ") < text.find(" a "), "{text}");
        assert!(render("prog", &configured, &[]).contains("no kernel ran"));
        let program = Program { name: "prog", words: &[], code: 0, result: "unchecked", message: "" };
        let report = report(&program, &configured, &lines);
        assert_eq!((&report["cycles"], &report["stalls"]["memory"]), (&json!(1050), &json!(100)));
        assert_eq!(report["kernels"][2]["cycles"], 900);
        crate::report_file::is_report(Path::new("report.json"), &report)
            .unwrap_or_else(|why| panic!("{why}"));
        let launches = sections(&configured, lines.to_vec());
        assert_eq!((&launches[1]["bound"], &launches[2]["bound"]), (&json!("barrier"), &json!("dependency")));
    }

    #[test]
    fn findings_of_all_launches_are_told_once() {
        let told =
            |what: &&str| Told { what: what.to_string(), count: 3, text: format!("{what} at 7\n  by a") };
        let run = |findings: &[&str], leaks: &[&str]| {
            let [findings, leaks] = [findings, leaks].map(|list| list.iter().map(told).collect());
            Some(Box::new(Sanitized { accesses: 10, findings, leaks, ..Sanitized::default() }))
        };
        let mut lines = [0, 1, 2, 0].map(|launch| line(launch, "a", 5, "x"));
        assert_eq!(sanitized(&lines), None);
        // What the first run has not freed, the third one frees; another process leaves something.
        lines[0].sanitizers = run(&["race A"], &["leak"]);
        lines[2].sanitizers = run(&["race B", "race A"], &[]);
        lines[3].sanitizers = run(&[], &["leak"]);
        assert!(sanitized(&lines).is_some_and(|found| found.is_wrong()));
        let configured = DeviceRequest::default().configured().unwrap_or_else(|e| panic!("{}", e[0]));
        let expected = "sanitizers: 3 findings; 30 accesses checked\nrace A at 7 (6 times)\n  by a\n\
                        race B at 7 (3 times)\n  by a\nleak at 7 (3 times)\n  by a\n";
        let text = render("prog", &configured, &lines);
        assert!(text.ends_with(expected), "{text}");
        lines[0].sanitizers = Some(Sanitized { more: 7, ..Sanitized::default() }.into());
        let text = render("prog", &configured, &lines[..1]);
        assert!(text.contains("sanitizers: 0 findings") && text.contains("7 more findings"), "{text}");
        lines[0].sanitizers = run(&[], &[]);
        assert!(!sanitized(&lines[..1]).is_some_and(|found| found.is_wrong()));
    }

    #[test]
    fn files_of_several_processes_are_read_in_order_without_a_line_that_is_cut_off() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = |lines: &[LaunchLine]| -> String {
            lines.iter().map(|line| serde_json::to_string(line).expect("JSON") + "\n").collect()
        };
        let first = text(&[line(0, "a", 1, "x"), line(1, "b", 1, "x")]);
        std::fs::write(folder.path().join("launches-9.jsonl"), &first).expect("a file");
        std::fs::write(folder.path().join("launches-10.jsonl"), &first[..first.len() - 5]).expect("a file");
        std::fs::write(folder.path().join("other"), "x").expect("a file");
        let found = read(folder.path()).expect("lines");
        assert_eq!(found.iter().map(|line| line.kernel.as_str()).collect::<Vec<_>>(), ["a", "b", "a"]);
        std::fs::write(folder.path().join("launches-11.jsonl"), "{}\n").expect("a file");
        assert!(read(folder.path()).is_err());
    }
}
