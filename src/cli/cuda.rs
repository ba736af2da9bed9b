//! `cuda`: runs a program with the simulated device in the place of CUDA's runtime, and shows what its kernels came to.

mod needed;
mod stub;
mod summary;

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use clap::Args;
use sim_frontend::diagnostic::Diagnostic;

use crate::console::{complain, status};
use crate::device::DeviceRequest;
use crate::device::program::{ENVIRONMENT, ProgramRequest};
use crate::device::selection::Selection;
use crate::files;
use crate::interrupt::on_interrupt;

/// Options of `cuda`.
#[derive(Args, Clone, Debug)]
pub struct CudaArgs {
    /// Chip: a name or a file.
    #[arg(long, default_value = "rtx2080ti")]
    chip: String,
    /// Reconvergence policy: NAME[:KEY=VALUE,…]; `warpsim policies` lists them. Default: the chip's.
    #[arg(long)]
    policy: Option<String>,
    /// Warp scheduler: lrr, gto or two_level[:N]. Default: the chip's.
    #[arg(long)]
    scheduler: Option<String>,
    /// Overrides a key of the chip by its path (sm.branch_latency=2).
    #[arg(long = "set", value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Number of host threads that simulate. Results do not depend on it.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    threads: u16,
    /// Run-time checks, as for `run`.
    #[arg(long, value_name = "KINDS", default_value = "safety")]
    check: String,
    /// Functional mode: no timing.
    #[arg(long)]
    functional: bool,
    /// Stops after N core cycles, summed over all timed launches and including their launch latency.
    #[arg(long, value_name = "N", conflicts_with = "functional")]
    max_cycles: Option<u64>,
    /// Stops after N warp instructions, summed over all launches.
    #[arg(long, value_name = "N")]
    max_instructions: Option<u64>,
    /// Allows PTX and instructions above the chip's compute capability.
    #[arg(long)]
    allow_newer_isa: bool,
    /// Writes report.json to a folder, with a section for each launch in the format of report.json of `run`.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Collects counters for each PTX line, for --out.
    #[arg(long, requires = "out", conflicts_with = "functional")]
    profile: bool,
    /// Times only these launches: a regular expression over the kernels' PTX names, and optionally launch numbers and
    /// ranges, counted from 0 for each kernel, such as `stencil:0,5-7`. The others run in functional mode. Repeatable.
    #[arg(long, value_name = "KERNELS[:LAUNCHES]", conflicts_with = "functional")]
    time: Vec<String>,
    /// Warms L2 before a timed launch with the lines that the last N functional launches accessed.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "time")]
    warm: usize,
    /// Writes the launches that --time chooses, or all, as workloads for `warpsim run`.
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// The program and its arguments, after `--`.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// The variable that names the library.
const LIBRARY: &str = "WARPSIM_CUDA_LIB";
/// Its file name.
const LIBRARY_NAME: &str = "libwarpsim_cuda.so";

/// Runs; gives the exit status of the program.
pub fn run(args: &CudaArgs) -> u8 {
    match execute(args) {
        Ok(code) => code,
        Err(errors) => {
            complain(&errors);
            status::BAD_INPUT
        }
    }
}

fn execute(args: &CudaArgs) -> Result<u8, Vec<Diagnostic>> {
    let wrong = |what: &'static str, message: String| vec![Diagnostic::error(what, message)];
    let device = DeviceRequest {
        chip: args.chip.clone(),
        policy: args.policy.clone(),
        scheduler: args.scheduler.clone(),
        set: args.set.clone(),
        check: args.check.clone(),
        threads: args.threads.into(),
        functional: args.functional,
        max_cycles: args.max_cycles,
        max_instructions: args.max_instructions,
        allow_newer_isa: args.allow_newer_isa,
        profile: args.profile,
        sample: None,
    };
    let configured = device.configured()?;
    Selection::parse(&args.time).map_err(|error| vec![error])?;
    let library = library()?;
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder)
            .map_err(|error| wrong("output", files::unwritable(folder, &error)))?;
        files::probe(&folder.join("report.json")).map_err(|error| wrong("output", error))?;
    }
    let temporary = tempfile::Builder::new().prefix("warpsim-cuda-").tempdir();
    let temporary = temporary.map_err(|error| wrong("output", format!("no temporary folder: {error}")))?;
    let folder = temporary.path();
    stub::write_all(folder, &library).map_err(|error| wrong("output", files::unwritable(folder, &error)))?;
    let record = args.record.as_ref().map(|folder| {
        let made = std::fs::create_dir_all(folder).and_then(|()| folder.canonicalize());
        made.map_err(|error| wrong("output", files::unwritable(folder, &error)))
    });
    let record = record.transpose()?;
    let program = args.command[0].clone();
    if let Some((library, name)) = needed::closed(&found(&program)) {
        let message = format!("{} needs {library}", program.to_string_lossy());
        let help = format!(
            "{name} is machine code without PTX: build the program with kernels in source in its place"
        );
        return Err(vec![Diagnostic::error("library", message).help(help)]);
    }
    let name = Path::new(&program).file_name().unwrap_or(&program).to_string_lossy().into_owned();
    let request = ProgramRequest {
        device,
        program: name.clone(),
        folder: Some(folder.to_path_buf()),
        sections: args.out.is_some(),
        time: args.time.clone(),
        warm: args.warm,
        record,
    };
    let request = serde_json::to_string(&request).map_err(|error| wrong("cuda", error.to_string()))?;
    let prepended = |variable: &str, first: &Path| {
        let mut value = first.as_os_str().to_os_string();
        if let Some(rest) = std::env::var_os(variable).filter(|rest| !rest.is_empty()) {
            value.push(":");
            value.push(rest);
        }
        value
    };
    on_interrupt();
    let mut command = Command::new(&program);
    command.args(&args.command[1..]);
    command.env("LD_LIBRARY_PATH", prepended("LD_LIBRARY_PATH", folder));
    // The runtime that a program's RPATH leads to comes after what is preloaded.
    let mut preloaded = library.clone().into_os_string();
    for name in stub::LINKERS {
        preloaded.push(":");
        preloaded.push(folder.join(name));
    }
    command.env("LD_PRELOAD", prepended("LD_PRELOAD", Path::new(&preloaded)));
    command.env(ENVIRONMENT, request);
    let ended = command
        .status()
        .map_err(|error| wrong("program", format!("{} cannot be run: {error}", program.to_string_lossy())))?;
    let found = summary::read(folder).map_err(|error| wrong("cuda", error))?;
    eprint!("{}", summary::render(&name, &configured, &found));
    if let Some(folder) = &args.out {
        let words: Vec<String> =
            args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let report = summary::report(&words, code(ended), &configured, &found);
        let path = folder.join("report.json");
        let text = serde_json::to_string_pretty(&report).unwrap_or_default() + "\n";
        files::write(&path, text.as_bytes())
            .map_err(|error| wrong("output", files::unwritable(&path, &error)))?;
    }
    Ok(code(ended))
}

/// The file of a program, as the shell finds it.
fn found(program: &OsString) -> PathBuf {
    let path = PathBuf::from(program);
    if path.components().count() > 1 {
        return path;
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&folders).map(|folder| folder.join(&path));
    places.find(|place| place.is_file()).unwrap_or(path)
}

/// The exit status as a shell gives it: of the program, or of the signal that ended it.
fn code(ended: ExitStatus) -> u8 {
    let code = ended.code().or_else(|| ended.signal().map(|signal| 128 + signal));
    u8::try_from(code.unwrap_or(255) & 0xff).unwrap_or(u8::MAX)
}

/// The library that is loaded into the program.
fn library() -> Result<PathBuf, Vec<Diagnostic>> {
    let wrong = |message: String| {
        let help = format!(
            "`cargo build --release` builds it beside the command; {LIBRARY} names it where it lies elsewhere"
        );
        vec![Diagnostic::error("cuda", message).help(help)]
    };
    let named = std::env::var_os(LIBRARY).map(PathBuf::from);
    let beside = || {
        let program = std::env::current_exe().ok()?;
        let folder = program.parent()?;
        // Tests are one folder below.
        let places = [folder.join(LIBRARY_NAME), folder.join("..").join("lib").join(LIBRARY_NAME)];
        places.into_iter().find(|path| path.is_file())
    };
    let path = match named {
        Some(path) => path,
        None => beside().ok_or_else(|| wrong(format!("{LIBRARY_NAME} is not beside the command")))?,
    };
    path.canonicalize().map_err(|error| wrong(format!("{}: {error}", path.display())))
}
