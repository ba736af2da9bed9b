//! CUDA programs on a simulated device: what a request asks of one, how it runs, and the report of its launches.

pub mod checkpoint;
pub mod command;
mod library;
mod needed;
mod stub;
pub mod summary;
pub mod totals;

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use regex::Regex;
use sim_frontend::diagnostic::Diagnostic;

use crate::device::program::{ENVIRONMENT, LaunchLine, ProgramRequest};
use crate::device::selection::Selection;
use crate::device::{CHIP, Configured, DeviceRequest};
use crate::digest::hash;
use crate::files;
use crate::interrupt::interrupted;
use crate::known::Known;
use crate::request::{Request, Setting};
use crate::run::{Identity, simulator};
use checkpoint::Checkpoint;
use command::CudaCommand;

/// The most bytes of a program, or of a file that its command names, that its identity holds.
const LONGEST: u64 = 1 << 32;

/// What is written beside the table.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    /// Launches have the whole report of their run.
    pub sections: bool,
    /// Where chosen launches are written down as workloads.
    pub record: Option<PathBuf>,
    /// The checkpoint that it goes on from, or writes.
    pub checkpoint: Option<Checkpoint>,
    /// The program's output is its user's; it is kept where nothing is said.
    pub passed: bool,
}

/// A program that is ready to run: what its request names has been found and read.
pub struct CudaRun {
    configured: Configured,
    device: DeviceRequest,
    command: CudaCommand,
    expect: Option<Regex>,
    library: PathBuf,
    /// The digest of the library.
    loaded: &'static str,
}

/// A program that has ended.
pub struct Ended {
    /// How.
    pub status: ExitStatus,
    /// Its launches, in their order.
    pub launches: Vec<LaunchLine>,
    /// What it wrote, where that was kept: standard output and standard error.
    pub output: (Vec<u8>, Vec<u8>),
    /// How long it ran, its host code too.
    pub time: Duration,
}

impl Ended {
    /// It was killed from outside: by SIGKILL, as whoever runs out of memory is, or told to end by SIGTERM.
    pub fn killed(&self) -> bool {
        matches!(self.status.signal(), Some(9 | 15))
    }
}

fn wrong(what: &'static str, message: String) -> Vec<Diagnostic> {
    vec![Diagnostic::error(what, message)]
}

impl CudaRun {
    /// Finds what a request for a command names.
    ///
    /// # Errors
    /// What is not there, what a program has no use for, or a library of machine code that it is linked with.
    pub fn new(request: &Request, command: &CudaCommand, known: &Known) -> Result<Self, Vec<Diagnostic>> {
        let (words, chip_settings) = settings(request, command)?;
        for (given, option) in [
            (request.variant.is_some(), "variant"),
            (request.seed != 0, "seed"),
            (request.skip_launches != 0, "skip-launches"),
            (request.time_launches.is_some(), "time-launches"),
            (!request.keep.is_empty(), "dump"),
            (request.export.is_some(), "export"),
        ] {
            if given {
                let message = format!("`{}` is a CUDA program: --{option} is for workloads", command.name());
                return Err(wrong("usage", message));
            }
        }
        let chip = request.chip.clone().unwrap_or_else(|| CHIP.to_string());
        let configured = Configured::of_request(request, None, &chip, &chip_settings, known)?;
        // The program may run in another folder.
        let chip = match Path::new(&chip).canonicalize() {
            Ok(path) if path.is_file() && chip.contains('/') => path.display().to_string(),
            _ => chip,
        };
        let device = DeviceRequest {
            chip,
            policy: Some(configured.options.policy.canonical()),
            scheduler: Some(configured.scheduler.clone()),
            set: chip_settings.iter().map(|(key, value)| format!("{key}={value}")).collect(),
            check: configured.options.check_name(),
            threads: request.threads,
            functional: request.functional,
            max_cycles: request.max_cycles,
            max_instructions: request.max_instructions,
            allow_newer_isa: request.allow_newer_isa,
            profile: request.profile,
            sample_every: request.sample_every,
            sampling: request.sampling,
        };
        Selection::parse(&command.time).map_err(|error| vec![error])?;
        let expect = command.expect.as_deref().map(Regex::new).transpose();
        let expect = expect.map_err(|error| wrong("expect", error.to_string()))?;
        let (library, loaded) = library::find()?;
        // Words with what is set.
        let command = CudaCommand { words, ..command.clone() };
        let run = Self { configured, device, command, expect, library, loaded };
        if let Some((library, name)) = needed::closed(&run.file()) {
            let message = format!("{} needs {library}", run.command.words[0].to_string_lossy());
            let help = format!(
                "{name} is machine code without PTX: build the program with kernels in source in its place"
            );
            return Err(vec![Diagnostic::error("library", message).help(help)]);
        }
        Ok(run)
    }

    /// The device as it is configured.
    pub fn configured(&self) -> &Configured {
        &self.configured
    }

    /// The name of the program.
    pub fn name(&self) -> String {
        let program = Path::new(&self.command.words[0]);
        program.file_name().unwrap_or(&self.command.words[0]).to_string_lossy().into_owned()
    }

    /// The program and its arguments.
    pub fn words(&self) -> Vec<String> {
        self.command.words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    /// What tells the simulator from others: the command, and the library that is loaded into programs.
    fn simulator(&self) -> String {
        format!("{}, library {}", simulator(), self.loaded)
    }

    /// The file of the program, as the shell finds it in the folder where it runs.
    fn file(&self) -> PathBuf {
        let path = PathBuf::from(&self.command.words[0]);
        if path.components().count() > 1 {
            return self.command.folder.as_ref().map_or(path.clone(), |folder| folder.join(&path));
        }
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let mut places = std::env::split_paths(&folders).map(|folder| folder.join(&path));
        places.find(|place| place.is_file()).unwrap_or(path)
    }

    /// The chip with its values and costs.
    fn chip(&self) -> Vec<u8> {
        serde_json::to_vec(&(&*self.configured.chip, &*self.configured.costs)).unwrap_or_default()
    }

    /// The chip's values as JSON.
    pub fn values(&self) -> String {
        serde_json::to_string_pretty(&*self.configured.chip).unwrap_or_default() + "\n"
    }

    /// What identifies the run: the device, the command with the contents of the program and of the files that its
    /// arguments name, and the simulator.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn identity(&self) -> Result<Identity, Vec<Diagnostic>> {
        let bytes = |value: serde_json::Result<Vec<u8>>| value.unwrap_or_default();
        let chip = self.chip();
        let device = bytes(serde_json::to_vec(&DeviceRequest { threads: 1, ..self.device.clone() }));
        let command = bytes(serde_json::to_vec(&self.command));
        let words = &self.command.words;
        let folder = self.command.folder.clone().unwrap_or_default();
        let files = words[1..].iter().map(|word| folder.join(word)).filter(|path| path.is_file());
        let read = |path: PathBuf| {
            files::read(&path, LONGEST).map_err(|error| wrong("program", files::unreadable(&path, &error)))
        };
        let files = std::iter::once(self.file()).chain(files).map(read).collect::<Result<Vec<_>, _>>()?;
        let words = words.iter().map(|word| word.as_encoded_bytes().to_vec());
        let texts: Vec<Vec<u8>> = words.chain(files).collect();
        let mut parts: Vec<&[u8]> =
            vec![simulator().as_bytes(), self.loaded.as_bytes(), &chip, &device, &command];
        parts.extend(texts.iter().map(Vec::as_slice));
        Ok(Identity { id: hash(&parts), config: self.configured.config().to_string() })
    }

    /// Runs the program.
    ///
    /// # Errors
    /// It cannot be started, or what its launches came to cannot be read.
    pub fn run(&self, outputs: &Outputs) -> Result<Ended, Vec<Diagnostic>> {
        let temporary = tempfile::Builder::new().prefix("warpsim-cuda-").tempdir();
        let temporary =
            temporary.map_err(|error| wrong("output", format!("no temporary folder: {error}")))?;
        let folder = temporary.path();
        stub::write_all(folder, &self.library)
            .map_err(|error| wrong("output", files::unwritable(folder, &error)))?;
        let request = ProgramRequest {
            device: self.device.clone(),
            program: self.name(),
            folder: Some(folder.to_path_buf()),
            sections: outputs.sections,
            time: self.command.time.clone(),
            warm: self.command.warm,
            record: outputs.record.clone(),
            checkpoint: outputs.checkpoint.as_ref().map(|checkpoint| checkpoint.folder.clone()),
            from: outputs.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.from),
            keep: outputs.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.keep),
        };
        let request = serde_json::to_string(&request).map_err(|error| wrong("cuda", error.to_string()))?;
        let program = &self.command.words[0];
        // A program with a path is meant relative to the folder where it runs.
        let file = if Path::new(program).components().count() > 1 { self.file() } else { program.into() };
        let mut command =
            Command::new(std::path::absolute(&file).ok().filter(|path| path.exists()).unwrap_or(file));
        command.args(&self.command.words[1..]).envs(&self.command.env);
        if let Some(folder) = &self.command.folder {
            command.current_dir(folder);
        }
        command.env("LD_LIBRARY_PATH", prepended("LD_LIBRARY_PATH", folder.as_os_str()));
        // The runtime that a program's RPATH leads to comes after what is preloaded.
        let mut preloaded = self.library.clone().into_os_string();
        for name in stub::LINKERS {
            preloaded.push(":");
            preloaded.push(folder.join(name));
        }
        command.env("LD_PRELOAD", prepended("LD_PRELOAD", &preloaded));
        command.env(ENVIRONMENT, request);
        let start = Instant::now();
        let unstarted = |error: std::io::Error| {
            wrong("program", format!("{} cannot be run: {error}", program.to_string_lossy()))
        };
        let (status, output) = if outputs.passed {
            (command.status().map_err(unstarted)?, (Vec::new(), Vec::new()))
        } else {
            unattended(command).map_err(unstarted)?
        };
        let time = start.elapsed();
        let launches = summary::read(folder).map_err(|error| wrong("cuda", error))?;
        Ok(Ended { status, launches, output, time })
    }

    /// What came of the program, in a word and a line: a device that was stopped, an exit status, output that is not
    /// what is expected.
    pub fn verdict(&self, ended: &Ended) -> (&'static str, String) {
        let matched =
            self.expect.as_ref().map(|expect| expect.is_match(&String::from_utf8_lossy(&ended.output.0)));
        if ended.status.success()
            && let Some(found) = summary::sanitized(&ended.launches).filter(|found| found.is_wrong())
        {
            let first = found.findings.first().and_then(|finding| finding.text.lines().next());
            return ("fault", first.unwrap_or("sanitizers have findings").to_string());
        }
        if ended.status.success() && matched == Some(true) {
            return ("pass", String::new());
        }
        if let Some(launch) = ended.launches.iter().find(|launch| launch.stopped.is_some()) {
            let why = launch.stopped.as_deref().unwrap_or_default().lines().next().unwrap_or_default();
            return (if launch.limit { "stopped" } else { "fault" }, why.to_string());
        }
        if !ended.status.success() {
            let said =
                [&ended.output.1, &ended.output.0].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            let last = said.iter().find_map(|text| text.lines().rev().find(|line| !line.trim().is_empty()));
            let how = match (ended.status.code(), ended.status.signal()) {
                (Some(code), _) => format!("exit status {code}"),
                (None, signal) => format!("ended by signal {}", signal.unwrap_or(0)),
            };
            return ("fail", last.map_or(how.clone(), |last| format!("{how}: {}", last.trim())));
        }
        match &self.expect {
            None => ("unchecked", String::new()),
            Some(expect) => ("fail", format!("the output has nothing that matches `{expect}`")),
        }
    }
}

/// Runs a program that nobody watches, until it ends or runs are to stop; gives what it wrote.
fn unattended(mut command: Command) -> std::io::Result<(ExitStatus, (Vec<u8>, Vec<u8>))> {
    fn gathered(from: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // What was read before a failure is kept.
            from.into_iter().for_each(|mut from| drop(from.read_to_end(&mut bytes)));
            bytes
        })
    }
    let start = Instant::now();
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn()?;
    let (written, said) = (gathered(child.stdout.take()), gathered(child.stderr.take()));
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if interrupted() {
            child.kill()?;
        }
        // It ends at most a fiftieth later than it could.
        std::thread::sleep((start.elapsed() / 50).clamp(Duration::from_millis(1), Duration::from_millis(50)));
    };
    Ok((status, (written.join().unwrap_or_default(), said.join().unwrap_or_default())))
}

/// A variable of the environment with something before what it has.
fn prepended(variable: &str, first: &OsStr) -> OsString {
    let mut value = first.to_os_string();
    if let Some(rest) = std::env::var_os(variable).filter(|rest| !rest.is_empty()) {
        value.push(":");
        value.push(rest);
    }
    value
}

/// The exit status as a shell gives it: of the program, or of the signal that ended it.
pub fn code(ended: ExitStatus) -> u8 {
    let code = ended.code().or_else(|| ended.signal().map(|signal| 128 + signal));
    u8::try_from(code.unwrap_or(255) & 0xff).unwrap_or(u8::MAX)
}

/// What is set: words of the command by the names that it has in braces, the chip by path.
fn settings<'r>(
    request: &'r Request,
    command: &CudaCommand,
) -> Result<(Vec<OsString>, Vec<(&'r str, &'r str)>), Vec<Diagnostic>> {
    let mut words = command.words.clone();
    let mut chip = Vec::new();
    for Setting { key, value } in &request.set {
        if key.contains('.') {
            chip.push((key.as_str(), value.as_str()));
            continue;
        }
        let place = format!("{{{key}}}");
        let mut found = false;
        for word in &mut words {
            if let Some(text) = word.to_str().filter(|text| text.contains(&place)) {
                *word = text.replace(&place, value).into();
                found = true;
            }
        }
        if !found {
            let message =
                format!("the command of `{}` has no {place} that `{key}` could stand for", command.name());
            let help = "keys of the chip are paths, such as sm.branch_latency (`warpsim docs reference/chip` lists them)";
            return Err(vec![Diagnostic::error("set", message).help(help)]);
        }
    }
    Ok((words, chip))
}
