//! `study silicon`: whole kernels of CUDA programs beside what was measured on hardware. What was measured is data.

mod classes;
mod measurements;
mod vary;

use std::path::{Path, PathBuf};

use regex::Regex;
use serde::Serialize;
use sim_frontend::diagnostic::{Diagnostic, Source};

use self::classes::{Classes, Executed};
use self::measurements::{
    Counts, DATA, File, Kernel, Machine, Measured, MeasuredLaunch, MeasuredRun, read, wrong,
};
use super::agreement::Agreement;
use super::{Progress, jobs, told};
use crate::cli::run::request_of;
use crate::cli::study::SiliconArgs;
use crate::console::{complain, status, table};
use crate::cuda::command::CudaCommand;
use crate::cuda::{CudaRun, Outputs, totals};
use crate::device::program::LaunchLine;
use crate::files;
use crate::interrupt::on_interrupt;
use crate::known::Known;
use crate::request::{Program, Request, Setting};
use crate::run::measure;

/// Bytes of a sector, as profilers count them.
const SECTOR: f64 = 32.0;

/// A kernel on a machine, beside what the simulator says: averages over its timed launches.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    program: String,
    kernel: String,
    machine: String,
    chip: String,
    /// Of a workload, the number of the launch among all of its run.
    #[serde(skip_serializing_if = "Option::is_none")]
    launch: Option<usize>,
    silicon: Counts,
    /// Timed launches.
    launches: usize,
    cycles: f64,
    /// Cycles of the simulator over those of the machine.
    ratio: f64,
    warp_instructions: f64,
    machine_instructions: f64,
    /// Machine operations by class, of workloads.
    #[serde(skip_serializing_if = "Option::is_none")]
    classes: Option<Classes>,
    /// Per cent of the accesses of L1 that hit; those that wait for a line under way do not.
    l1_hits: Option<f64>,
    /// Sectors that DRAM reads and writes; of workloads they are not told by launch.
    dram_sectors: Option<f64>,
    /// What bounds it, as the model says.
    bound: Option<&'static str>,
    source: String,
}

/// What tells rows apart: program, kernel, machine and launch.
type Key<'r> = (&'r str, &'r str, &'r str, Option<usize>);

impl Row {
    fn key(&self) -> Key<'_> {
        (&self.program, &self.kernel, &self.machine, self.launch)
    }

    fn executed(&self) -> Executed {
        Executed {
            operations: self.machine_instructions,
            classes: self.classes,
            instructions: self.silicon.warp_instructions,
            pipes: self.silicon.pipes,
        }
    }
}

/// A run of a program on a machine.
struct Job<'f> {
    measured: &'f Measured,
    file: PathBuf,
    name: &'f str,
    machine: &'f Machine,
}

/// Prints the comparison; gives the exit status.
pub fn run(args: &SiliconArgs) -> u8 {
    on_interrupt();
    let all = match vary::check(args).and_then(|()| study(args, &|_, _| {})) {
        Ok((rows, failures)) if args.ablation || args.sensitivity => vary::run(args, &rows, &failures),
        Ok((rows, failures)) => Ok(show(args, &rows, &failures)),
        Err(errors) => Err(errors),
    };
    match all {
        Ok(status) => status,
        Err(errors) => {
            complain(&errors);
            status::BAD_INPUT
        }
    }
}

/// How many kernels and launches were measured on the machines that a chip stands for.
///
/// # Errors
/// What is wrong with the measurements.
#[cfg(test)]
pub(crate) fn measured(chip: &str) -> Result<usize, Vec<Diagnostic>> {
    let file = read(&Source::new("data/silicon.yaml", DATA))?;
    let here = |name: &&String| file.machines[*name].chip == chip;
    let programs = file.programs.iter().flat_map(|program| &program.kernels).flat_map(|k| k.measured.keys());
    let workloads = file.workloads.iter().flat_map(|run| &run.kernels).flat_map(|k| k.measured.keys());
    Ok(programs.chain(workloads).filter(here).count())
}

/// The rows of the programs that are there, or of the workloads, the worst first, and what could not be compared.
///
/// # Errors
/// What is wrong with the measurements, or that nothing of them is there.
pub fn study(args: &SiliconArgs, progress: Progress<'_>) -> Result<(Vec<Row>, Vec<String>), Vec<Diagnostic>> {
    let source = match &args.data {
        Some(path) => crate::configs::read(path).map_err(|error| vec![error])?,
        None => Source::new("data/silicon.yaml", DATA),
    };
    let mut file = read(&source)?;
    if let Some(only) = &args.only {
        let only = Regex::new(only).map_err(|error| wrong(format!("--only: {error}")))?;
        file.programs.retain(|measured| only.is_match(&measured.program));
        file.workloads.retain(|run| only.is_match(&run.run));
    }
    if args.workloads {
        return compare_workloads(&file, args, progress);
    }
    let mut jobs_to_do = Vec::new();
    let mut missing = Vec::new();
    for measured in &file.programs {
        let Some(program) = find(&args.programs, &measured.program).map_err(wrong)? else {
            missing.push(format!("{}: no such program in {}", measured.program, args.programs.display()));
            continue;
        };
        for (name, machine) in &file.machines {
            let chosen = args.chip.is_empty() || args.chip.contains(&machine.chip);
            if chosen && measured.kernels.iter().any(|kernel| kernel.measured.contains_key(name)) {
                jobs_to_do.push(Job { measured, file: program.clone(), name, machine });
            }
        }
    }
    if let (Some(only), true) = (&args.only, file.programs.is_empty()) {
        return Err(wrong(format!("no program that matches `{only}` was measured")));
    }
    if jobs_to_do.is_empty() {
        let message = format!("{} has none of the programs that were measured", args.programs.display());
        let names: Vec<&str> = file.programs.iter().map(|measured| measured.program.as_str()).collect();
        let help = format!("build some of these, for compute capability 7.5 or older: {}", names.join(", "));
        return Err(vec![Diagnostic::error("silicon", message).help(help)]);
    }
    let done = told(&jobs_to_do, jobs(args.jobs), progress, |job| one(job, args));
    let named = |job: &Job<'_>| format!("{} on {}", job.measured.program, job.name);
    gathered(jobs_to_do.iter().map(named).zip(done), missing)
}

/// Rows, the worst first, and what went wrong with the others of these named results.
///
/// # Errors
/// Those of the first, where there is no row.
fn gathered(
    results: impl Iterator<Item = (String, Result<Vec<Row>, Vec<Diagnostic>>)>,
    mut failures: Vec<String>,
) -> Result<(Vec<Row>, Vec<String>), Vec<Diagnostic>> {
    let (mut rows, mut first) = (Vec::new(), None);
    for (name, result) in results {
        match result {
            Ok(mut own) => rows.append(&mut own),
            Err(mut errors) => {
                let what = errors.first().map_or_else(String::new, ToString::to_string);
                failures.push(format!("{name}: {what}"));
                if let Some(error) = errors.first_mut() {
                    error.message = format!("{name}: {}", error.message);
                }
                first.get_or_insert(errors);
            }
        }
    }
    if let (true, Some(errors)) = (rows.is_empty(), first) {
        return Err(errors);
    }
    rows.sort_by(|a, b| (b.ratio - 1.0).abs().total_cmp(&(a.ratio - 1.0).abs()));
    Ok((rows, failures))
}

/// The rows of the workloads, and what went wrong.
fn compare_workloads(
    file: &File,
    args: &SiliconArgs,
    progress: Progress<'_>,
) -> Result<(Vec<Row>, Vec<String>), Vec<Diagnostic>> {
    let mut launches = Vec::new();
    for run in &file.workloads {
        for (kernel, (name, counts)) in
            run.kernels.iter().flat_map(|k| k.measured.iter().map(move |m| (k, m)))
        {
            let machine = &file.machines[name];
            if args.chip.is_empty() || args.chip.contains(&machine.chip) {
                launches.push((run, kernel, (name.as_str(), machine), *counts));
            }
        }
    }
    if launches.is_empty() {
        let matching = args.only.as_ref().map_or(String::new(), |only| format!(" that matches `{only}`"));
        return Err(wrong(format!("no workload{matching} was measured on these chips")));
    }
    let done = told(&launches, jobs(args.jobs), progress, |(run, kernel, machine, counts)| {
        launch(run, kernel, *machine, *counts, &args.set).map(|row| vec![row])
    });
    let names = launches
        .iter()
        .map(|(run, kernel, (name, _), _)| format!("{} of {} on {name}", kernel.kernel, run.run));
    gathered(names.zip(done), Vec::new())
}

/// The row of a launch of a workload, which runs functionally up to it.
fn launch(
    run: &MeasuredRun,
    kernel: &MeasuredLaunch,
    (name, machine): (&str, &Machine),
    silicon: Counts,
    set: &[String],
) -> Result<Row, Vec<Diagnostic>> {
    let words: Vec<String> = run.run.split_whitespace().map(str::to_string).collect();
    let mut request = request_of(&words)?;
    request.chip = Some(machine.chip.clone());
    request.skip_launches = kernel.launch as u64;
    request.time_launches = Some(1);
    request.profile = true;
    for text in machine.set.iter().chain(set) {
        request.set.push(Setting::parse(text).map_err(|error| vec![error])?);
    }
    let (outcome, _) = measure(request)?;
    let own = outcome.report.kernels.get(kernel.launch).filter(|own| own.name == kernel.kernel);
    let own = own.ok_or_else(|| {
        wrong(format!("launch {} of `{}` is not `{}`", kernel.launch, run.run, kernel.kernel))
    })?;
    let cycles = own.cycles as f64 + machine.launch_cycles;
    Ok(Row {
        program: run.run.clone(),
        kernel: kernel.kernel.clone(),
        machine: name.to_string(),
        chip: machine.chip.clone(),
        launch: Some(kernel.launch),
        silicon,
        launches: 1,
        cycles,
        ratio: cycles / silicon.cycles,
        warp_instructions: own.warp_instructions as f64,
        machine_instructions: own.machine_instructions as f64,
        classes: Some(Classes::of_lines(&outcome.report.lines, &kernel.kernel)),
        l1_hits: None,
        dram_sectors: None,
        bound: None,
        source: machine.source.clone(),
    })
}

/// The file of a program in a folder: of its name, or of one that ends in it.
fn find(folder: &Path, program: &str) -> Result<Option<PathBuf>, String> {
    let exact = folder.join(program);
    if exact.is_file() {
        return Ok(Some(exact));
    }
    let entries = std::fs::read_dir(folder).map_err(|error| files::unreadable(folder, &error))?;
    let end = format!("-{program}");
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| {
            path.is_file() && path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(&end))
        })
        .collect();
    // Which one it is does not depend on the order of the folder: names of a suite that comes last in the alphabet are
    // the oldest of these programs (`hecbench-hotspot`, `rodinia-hotspot`).
    found.sort();
    Ok(found.pop())
}

/// Runs a program; gives its rows.
fn one(job: &Job<'_>, args: &SiliconArgs) -> Result<Vec<Row>, Vec<Diagnostic>> {
    let temporary = tempfile::Builder::new().prefix("warpsim-silicon-").tempdir();
    let temporary = temporary.map_err(|error| wrong(format!("no temporary folder: {error}")))?;
    let unwritable = |path: &Path, error: &std::io::Error| wrong(files::unwritable(path, error));
    let folder = temporary.path().join(&job.measured.folder);
    std::fs::create_dir_all(&folder).map_err(|error| unwritable(&folder, &error))?;
    for input in &job.measured.files {
        let path = temporary.path().join(&input.path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|error| unwritable(parent, &error))?;
        }
        std::fs::write(&path, input.text()).map_err(|error| unwritable(&path, &error))?;
    }
    let kernels: Vec<(&Kernel, &Counts)> = job
        .measured
        .kernels
        .iter()
        .filter_map(|kernel| kernel.measured.get(job.name).map(|counts| (kernel, counts)))
        .collect();
    let file = job.file.canonicalize().map_err(|error| wrong(files::unreadable(&job.file, &error)))?;
    let mut command = match job.measured.arguments.trim() {
        "" => CudaCommand::default(),
        arguments => CudaCommand::parse(arguments).map_err(|error| vec![error])?,
    };
    command.words.insert(0, file.into_os_string());
    command.folder = Some(folder);
    command.time = kernels.iter().map(|(kernel, _)| kernel.rule()).collect();
    let set: Result<Vec<Setting>, Diagnostic> =
        job.machine.set.iter().chain(&args.set).map(|text| Setting::parse(text)).collect();
    let request = Request {
        chip: Some(job.machine.chip.clone()),
        set: set.map_err(|error| vec![error])?,
        // nvcc 13 compiles for 7.5 at the least.
        allow_newer_isa: true,
        ..Request::new(Program::Cuda(Box::new(command.clone())))
    };
    let run = CudaRun::new(&request, &command, &Known::default())?;
    let ended = run.run(&Outputs::default())?;
    eprintln!("{} on {}: {:.1} s", job.measured.program, job.name, ended.time.as_secs_f64());
    if let (result @ ("fault" | "fail" | "stopped"), message) = run.verdict(&ended) {
        return Err(wrong(format!("{result}: {message}")));
    }
    let row = |(kernel, silicon): &(&Kernel, &Counts)| {
        let name = Regex::new(&kernel.kernel).map_err(|error| wrong(error.to_string()))?;
        let launches =
            ended.launches.iter().filter(|launch| !launch.functional && name.is_match(&launch.kernel));
        let launches: Vec<&LaunchLine> = launches.collect();
        let count = launches.len().max(1) as f64;
        let total = totals::sum(launches.iter().copied());
        let mean = |value: Option<f64>| value.unwrap_or(0.0) / count;
        let cycles = launches.iter().map(|launch| launch.cycles as f64).sum::<f64>() / count;
        if cycles == 0.0 {
            return Err(wrong(format!("no launch of `{}` was timed", kernel.kernel)));
        }
        let cycles = cycles + job.machine.launch_cycles;
        Ok(Row {
            program: job.measured.program.clone(),
            kernel: kernel.kernel.clone(),
            machine: job.name.to_string(),
            chip: job.machine.chip.clone(),
            launch: None,
            silicon: **silicon,
            launches: launches.len(),
            cycles,
            ratio: cycles / silicon.cycles,
            warp_instructions: mean(total.warp_instructions),
            machine_instructions: mean(total.machine_instructions),
            classes: None,
            l1_hits: total.memory.l1.hit_rate(),
            dram_sectors: Some(mean(total.memory.dram.bytes) / SECTOR),
            bound: Some(totals::bound(&total, run.configured())),
            source: job.machine.source.clone(),
        })
    };
    kernels.iter().map(row).collect()
}

fn show(args: &SiliconArgs, rows: &[Row], failures: &[String]) -> u8 {
    let ratios: Vec<(f64, f64)> = rows.iter().map(|row| (row.cycles, row.silicon.cycles)).collect();
    let executed: Vec<Executed> = rows.iter().map(Row::executed).collect();
    let (agreement, by_class) = (Agreement::of(&ratios), classes::agreement(&executed));
    for failure in failures {
        eprintln!("not compared: {failure}");
    }
    if args.json {
        let value = serde_json::json!({
            "rows": rows, "agreement": agreement, "instructions": by_class, "not_compared": failures
        });
        println!("{}", serde_json::to_string_pretty(&value).unwrap_or_default());
        return status::DONE;
    }
    let mut out = table(&[
        "program",
        "kernel",
        "machine",
        "silicon cycles",
        "warpsim",
        "error",
        "warp instructions",
        "L1 hits, silicon / warpsim",
        "DRAM k sectors, silicon / warpsim",
        "bound",
    ]);
    let or_none = |value: Option<f64>| value.map_or("-".to_string(), |value| format!("{value:.0}"));
    for row in rows {
        out.add_row([
            row.program.clone(),
            row.kernel.clone(),
            row.machine.clone(),
            format!("{:.0}", row.silicon.cycles),
            format!("{:.0}", row.cycles),
            format!("{:+.1} %", 100.0 * (row.ratio - 1.0)),
            format!("{:.0}", row.warp_instructions),
            format!("{} / {} %", or_none(row.silicon.l1_hits()), or_none(row.l1_hits)),
            format!(
                "{} / {}",
                or_none(row.silicon.dram_sectors().map(|n| n / 1000.0)),
                or_none(row.dram_sectors.map(|n| n / 1000.0))
            ),
            row.bound.unwrap_or("-").to_string(),
        ]);
    }
    println!("{out}\n{agreement}");
    if !by_class.is_empty() {
        println!("machine operations beside executed instructions:");
        by_class.iter().for_each(|class| println!("  {class}"));
    }
    status::DONE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_their_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let put = |name: &str| std::fs::write(folder.path().join(name), "x").expect("a file");
        assert_eq!(find(folder.path(), "hotspot"), Ok(None));
        ["rodinia-hotspot", "hecbench-hotspot", "rodinia-hotspot.log"].iter().for_each(|name| put(name));
        let found = |program: &str| {
            find(folder.path(), program)
                .expect("a folder")
                .map(|path| path.file_name().expect("one").to_owned())
        };
        assert_eq!(found("hotspot"), Some("rodinia-hotspot".into()));
        put("hotspot");
        assert_eq!(found("hotspot"), Some("hotspot".into()));
        assert!(find(&folder.path().join("none"), "hotspot").is_err());
    }
}
