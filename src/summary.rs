//! A summary fit for one screen, with one line that says what bounds the run and why.

use std::fmt::Write;

use sim_core::report::{DeviceReport, SampledReport, TensorReport};
use sim_core::sanitizer::SanitizerReport;
use sim_frontend::chip::ChipSpec;
use sim_memory::cache::CacheStats;
use sim_memory::sm_memory::latency::Level;

use crate::console::table;
use crate::host::HostReport;
use crate::machine::Machine;
use crate::metrics::shown;
use crate::report_file::Report;
use crate::{findings, validation};

/// Lines of the PTX at which warps waited longest, at most this many.
const LINES: usize = 10;

/// The table of `--profile`.
fn lines(report: &DeviceReport) -> Option<String> {
    let mut list: Vec<_> = report.lines.iter().collect();
    let all: u64 = list.iter().map(|line| line.waited).sum();
    list.sort_by_key(|line| (std::cmp::Reverse(line.waited), line.line));
    let mut out = table(&[
        "PTX line",
        "instruction",
        "issues",
        "lanes of 32",
        "stall cycles",
        "share",
        "on loads at lines",
    ]);
    for line in list.iter().take(LINES) {
        let lanes = line.active_lanes as f64 / line.issues.max(1) as f64;
        out.add_row([
            line.line.to_string(),
            line.text.clone(),
            line.issues.to_string(),
            format!("{lanes:.1}"),
            line.waited.to_string(),
            format!("{:.1} %", percent(line.waited, all)),
            line.waits_for.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
        ]);
    }
    (!list.is_empty()).then(|| format!("{out}\nwarp stall cycles by line, {} in total\n", all))
}

fn cache(name: &str, bytes: u32, stats: &CacheStats) -> String {
    match bytes {
        0 => format!("no {name}"),
        _ => format!("{name} hits {:.1} %", percent(stats.hits, stats.hits + stats.merges + stats.misses)),
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

/// Findings that are shown at most.
pub const FINDINGS: usize = 20;

/// What sanitizers have found.
fn sanitizers(report: &SanitizerReport) -> String {
    let plural = |n: usize| if n == 1 { "1 finding".to_string() } else { format!("{n} findings") };
    let mut out = format!("sanitizers: {}", plural(report.findings.len()));
    if report.suppressed > 0 {
        let _ = write!(out, ", {} suppressed", report.suppressed);
    }
    let _ = writeln!(
        out,
        "; {} accesses checked, threads of a warp {}",
        report.accesses,
        match report.threads_of_a_warp {
            "lockstep" => "in lockstep",
            _ => "independent",
        }
    );
    if report.forgotten > 0 {
        let _ = writeln!(
            out,
            "  {} accesses had to be forgotten: races with them may have been missed",
            report.forgotten
        );
    }
    if let Some(reason) = &report.intended_races {
        let _ = writeln!(out, "  races are intended: {reason}");
    }
    for place in &report.unused_suppressions {
        let _ = writeln!(out, "  the suppression {place} suppresses nothing");
    }
    for finding in report.findings.iter().take(FINDINGS) {
        let _ = writeln!(out, "{finding}");
    }
    let more = report.findings.len().saturating_sub(FINDINGS) as u64 + report.more;
    if more > 0 {
        let _ = writeln!(out, "{more} more findings; report.json lists the first 1000");
    }
    out
}

/// The summary.
pub fn render(report: &Report, host: &HostReport, chip: &ChipSpec) -> String {
    let mut out = facts(report, chip);
    let _ = writeln!(out, "digest of report.json: {}", host.report_digest);
    let _ = writeln!(
        out,
        "host: {:.2} s, {:.2} M warp instructions per second, {} MiB, {} thread{}",
        host.seconds,
        host.warp_instructions_per_second / 1e6,
        host.peak_memory_bytes >> 20,
        host.threads,
        if host.threads == 1 { "" } else { "s" }
    );
    out
}

/// What tensor cores did in so many seconds.
fn tensor_cores(tensor: &TensorReport, chip: &ChipSpec, seconds: f64) -> String {
    let machine = Machine::of(chip);
    let rate = |(ty, count): (&&str, &u64)| {
        let peak = machine.tensor_multiply_adds_per_second.get(ty).copied().unwrap_or(0) as f64;
        let tera = *count as f64 / seconds / 1e12;
        format!("{ty} {tera:.3} of {:.1} tera multiply-adds/s", peak / 1e12)
    };
    let rates: Vec<String> = tensor.by_type.iter().map(rate).collect();
    let busy = percent(tensor.busy_cycles, tensor.active_cycles);
    format!("tensor cores: {}; busy {busy:.1} % of the time", rates.join(", "))
}

/// What of a kernel was timed.
fn of_a_sample(sampled: &SampledReport) -> String {
    format!(
        "; sampled: {} to {} cycles with 95 % confidence, {} blocks timed",
        sampled.cycles_low, sampled.cycles_high, sampled.timed_blocks
    )
}

/// What was counted cycle by cycle and access by access.
fn timing(d: &DeviceReport, chip: &ChipSpec) -> String {
    let mut out = String::new();
    let slots = d.issued + d.stalls.values().sum::<u64>();
    let mut stalls: Vec<(&String, &u64)> = d.stalls.iter().filter(|(_, n)| **n > 0).collect();
    stalls.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
    let list: Vec<String> =
        stalls.iter().map(|(name, n)| format!("{name} {:.1} %", percent(**n, slots))).collect();
    let _ = writeln!(out, "issue slots: issued {:.1} %, {}", percent(d.issued, slots), list.join(", "));
    let m = &d.memory;
    let seconds = d.cycles as f64 / chip.clocks().core_khz as f64 / 1e3;
    let _ = writeln!(
        out,
        "memory: {} accesses, {} line transactions; {}, {}; DRAM {} KiB, {:.1} GB/s of {:.0}, row hits {:.1} %",
        m.accesses,
        m.transactions,
        cache("L1", chip.memory.l1.size_bytes, &m.l1),
        cache("L2", chip.memory.l2.size_bytes, &m.l2),
        m.dram.bytes / 1024,
        m.dram.bytes as f64 / seconds / 1e9,
        chip.dram_bandwidth() / 1e9,
        percent(m.dram.row_hits, m.dram.row_hits + m.dram.row_misses + m.dram.row_conflicts)
    );
    if let Some(tensor) = &d.tensor {
        let _ = writeln!(out, "{}", tensor_cores(tensor, chip, seconds));
    }
    if let Some(tma) = &m.tma {
        let _ = writeln!(
            out,
            "bulk copies: {} copies, {} KiB loaded, {} KiB stored, {} KiB between blocks; the units were busy {:.1} % of the time",
            tma.copies,
            tma.loaded_bytes / 1024,
            tma.stored_bytes / 1024,
            tma.between_bytes / 1024,
            percent(tma.busy_cycles, tma.active_cycles)
        );
    }
    if let Some(remote) = &m.remote {
        let _ = writeln!(
            out,
            "clusters: {} accesses to other blocks, {} packets",
            remote.accesses, remote.packets
        );
    }
    let latencies: Vec<String> = Level::ALL
        .iter()
        .filter_map(|(name, _)| {
            let figures = m.load_latency.get(name)?;
            Some(format!("{} {} (p99 {})", name.to_uppercase(), figures.p50, figures.p99))
        })
        .collect();
    if !latencies.is_empty() {
        let _ = writeln!(out, "load latency in cycles, median: {}", latencies.join(", "));
    }
    out
}

/// What it says of the simulated machine.
pub fn facts(report: &Report, chip: &ChipSpec) -> String {
    let mut out = String::new();
    let d = &report.device;
    // What a program prints comes first, as it would where it runs.
    out.push_str(&d.printed);
    if !d.printed.is_empty() && !d.printed.ends_with('\n') {
        out.push('\n');
    }
    if d.printfs_lost > 0 {
        let _ = writeln!(
            out,
            "({} printf calls were dropped: the buffer of the device was full)",
            d.printfs_lost
        );
    }
    let _ = writeln!(
        out,
        "{} ({}) on {}{}, policy {}, scheduler {}",
        report.workload,
        report.variant,
        report.chip,
        report.chosen.as_ref().map_or(String::new(), |why| format!(" ({why})")),
        report.policy,
        report.scheduler
    );
    let _ = writeln!(
        out,
        "result: {}{}",
        report.result,
        report.difference.as_ref().map_or(String::new(), |t| format!(" — {t}"))
    );
    let instructions: u64 = d.kernels.iter().map(|k| k.warp_instructions).sum();
    if d.kernels.iter().all(|kernel| kernel.functional) {
        let _ = writeln!(out, "functional: {instructions} warp instructions");
    } else if d.cycles == 0 {
        let _ = writeln!(
            out,
            "stopped during the launch latency of the first kernel: {instructions} warp instructions"
        );
    } else {
        let ipc = d.warp_instructions as f64 / d.cycles as f64;
        let _ = writeln!(
            out,
            "cycles: {} core cycles ({} µs), {:.2} warp instructions per cycle; launch latency {} cycles ({} µs)",
            d.cycles,
            shown(d.time_us.micros()),
            ipc,
            d.launch_cycles,
            shown(d.launch_us.micros())
        );
        let _ = writeln!(
            out,
            "instructions: {} warp, {} thread, {} injected control; active lanes {:.1} %",
            d.warp_instructions,
            d.thread_instructions,
            d.control_instructions,
            d.lane_utilisation_ppm as f64 / 1e4
        );
        if !d.is_sampled() {
            out.push_str(&timing(d, chip));
        }
        let value = serde_json::to_value(report).unwrap_or_default();
        let _ = writeln!(out, "bound: {}", findings::answer(&value).words);
        if let Some(model) = validation::line(&value) {
            let _ = writeln!(out, "{model}");
        }
    }
    if let Some(checked) = &d.memory_model {
        let _ = writeln!(
            out,
            "memory model: {} reads and {} writes of global memory checked; {} reads returned an overwritten store, {} a store no longer recorded",
            checked.reads, checked.writes, checked.stale, checked.unknown
        );
    }
    if let Some(found) = &d.sanitizers {
        out.push_str(&sanitizers(found));
    }
    for kernel in d.kernels.iter().take(6) {
        // A run that stopped came to the end of none of its blocks.
        if !kernel.functional && kernel.cycles == 0 {
            let _ = writeln!(
                out,
                "  {} {}: did not complete, {} warp instructions",
                kernel.grid_id, kernel.name, kernel.warp_instructions
            );
            continue;
        }
        if kernel.functional {
            let _ = writeln!(
                out,
                "  {} {}: functional, {} warp instructions, {} registers, {} blocks per SM (limit: {})",
                kernel.grid_id,
                kernel.name,
                kernel.warp_instructions,
                kernel.registers_per_thread,
                kernel.resident_blocks,
                kernel.occupancy_limit
            );
            continue;
        }
        let _ = writeln!(
            out,
            "  {} {}: {} cycles ({} µs{}), {} warp instructions, {} registers, {} blocks per SM (limit: {})",
            kernel.grid_id,
            kernel.name,
            kernel.cycles,
            shown(kernel.time_us.micros()),
            kernel.sampled.as_ref().map_or(String::new(), of_a_sample),
            kernel.warp_instructions,
            kernel.registers_per_thread,
            kernel.resident_blocks,
            kernel.occupancy_limit
        );
    }
    if d.kernels.len() > 6 {
        let _ = writeln!(out, "  … and {} more launches", d.kernels.len() - 6);
    }
    out.push_str(&lines(d).unwrap_or_default());
    out
}
