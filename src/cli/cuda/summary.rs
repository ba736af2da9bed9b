//! What the launches of a program came to: the table, and `report.json`.

use std::fmt::Write;
use std::path::Path;

use serde_json::{Value, json};

use crate::console::table;
use crate::device::Configured;
use crate::device::program::LaunchLine;
use crate::metrics::shown;

/// Version of the format of a program's `report.json`.
const SCHEMA: u32 = 1;

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
#[derive(Default)]
struct Kernel {
    name: String,
    launches: u64,
    cycles: u64,
    micros: f64,
    instructions: u64,
    /// Cycles by what bounds them.
    bounds: Vec<(String, u64)>,
}

fn by_kernel(launches: &[LaunchLine]) -> Vec<Kernel> {
    let mut out: Vec<Kernel> = Vec::new();
    for launch in launches {
        let at = out.iter().position(|kernel| kernel.name == launch.kernel).unwrap_or_else(|| {
            out.push(Kernel { name: launch.kernel.clone(), ..Kernel::default() });
            out.len() - 1
        });
        let kernel = &mut out[at];
        kernel.launches += 1;
        kernel.cycles += launch.cycles;
        kernel.micros += launch.time_us;
        kernel.instructions += launch.warp_instructions;
        match kernel.bounds.iter_mut().find(|(bound, _)| *bound == launch.bound) {
            Some((_, cycles)) => *cycles += launch.cycles,
            None => kernel.bounds.push((launch.bound.clone(), launch.cycles)),
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
        "{program} on {}, policy {}, scheduler {}{}",
        configured.chip.name,
        options.policy.canonical(),
        configured.scheduler,
        if configured.functional { ", functional" } else { "" }
    );
    let mut rows = table(&["kernel", "launches", "cycles", "µs", "warp instructions", "IPC", "limiter"]);
    for kernel in by_kernel(launches) {
        let timed = kernel.cycles > 0;
        let or_none = |text: String| if timed { text } else { "-".to_string() };
        let most = kernel.bounds.iter().rev().max_by_key(|(_, cycles)| *cycles);
        rows.add_row([
            kernel.name.clone(),
            kernel.launches.to_string(),
            or_none(kernel.cycles.to_string()),
            or_none(shown(kernel.micros)),
            kernel.instructions.to_string(),
            or_none(format!("{:.2}", kernel.instructions as f64 / kernel.cycles.max(1) as f64)),
            or_none(most.map_or(String::new(), |(bound, _)| bound.clone())),
        ]);
    }
    let _ = writeln!(out, "{rows}");
    if let Some(stopped) = launches.iter().find_map(|launch| launch.stopped.as_ref()) {
        let _ = writeln!(out, "stopped: {stopped}");
    }
    out
}

/// `report.json`.
pub fn report(command: &[String], code: u8, configured: &Configured, launches: &[LaunchLine]) -> Value {
    json!({
        "schema": SCHEMA,
        "command": command,
        "exit_status": code,
        "chip": configured.chip.name,
        "policy": configured.options.policy.canonical(),
        "scheduler": configured.scheduler,
        "check": configured.options.check_name(),
        "set": configured.set,
        "functional": configured.functional,
        "launches": launches,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceRequest;

    fn line(launch: u64, kernel: &str, cycles: u64, bound: &str) -> LaunchLine {
        LaunchLine {
            launch,
            kernel: kernel.into(),
            grid: [1; 3],
            block: [32, 1, 1],
            stream: 0,
            functional: cycles == 0,
            cycles,
            time_us: cycles as f64 / 1000.0,
            launched_us: 0.0,
            warp_instructions: 500,
            thread_instructions: 16000,
            bound: bound.into(),
            stopped: None,
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
