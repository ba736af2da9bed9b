//! `cuda`: runs a program with the simulated device in the place of CUDA's runtime, and shows what its kernels came to.

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
    /// Worker threads of the engine.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    threads: u16,
    /// Run-time checks, as for `run`.
    #[arg(long, value_name = "KINDS", default_value = "safety")]
    check: String,
    /// Functional mode: no timing.
    #[arg(long)]
    functional: bool,
    /// Stops after N core cycles, summed over all launches and including their launch latency.
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
    let program = args.command[0].clone();
    let name = Path::new(&program).file_name().unwrap_or(&program).to_string_lossy().into_owned();
    let request = ProgramRequest {
        device,
        program: name.clone(),
        folder: Some(folder.to_path_buf()),
        sections: args.out.is_some(),
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
