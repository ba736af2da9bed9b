//! Options that say what runs, the same for every command that runs one program: a workload or a .ptx file, its inputs
//! and the limits of the run.

use std::path::PathBuf;

use clap::Args;
use sim_frontend::diagnostic::Diagnostic;

use crate::memory;
use crate::ptx_file::PtxLaunch;
use crate::request::{Program, Request, Setting, is_ptx};

/// A program, its inputs and the limits of its run.
#[derive(Args, Clone, Debug)]
pub struct ProgramArgs {
    /// Name, folder or workload.yaml of a workload; or a .ptx file, with --entry if it has several kernels.
    pub workload: String,
    /// Variant of the workload: one of its programs, named by its target, such as sm_52. Default: the one with the highest
    /// target that the chip can run.
    #[arg(long)]
    pub variant: Option<String>,
    /// Overrides a parameter of the workload, or a key of the chip by its path (sm.branch_latency=2).
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Seed of random buffer contents.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Stops after N warp instructions, summed over all launches. The count is checked periodically, so a few
    /// thousand more may execute.
    #[arg(long, value_name = "N")]
    pub max_instructions: Option<u64>,
    /// Limit of host memory: bytes, a number with suffix K, M, G or T (powers of 1024), or `unlimited`. Default:
    /// three quarters of the host's memory.
    #[arg(long, value_name = "SIZE", value_parser = memory::size)]
    pub max_memory: Option<u64>,
    /// Allows instructions above the chip's compute capability.
    #[arg(long)]
    pub allow_newer_isa: bool,
    /// Kernel of a .ptx file.
    #[arg(long)]
    pub entry: Option<String>,
    /// Grid size for a .ptx file, in blocks: X[,Y[,Z]].
    #[arg(long)]
    pub grid: Option<String>,
    /// Block size for a .ptx file, in threads: X[,Y[,Z]].
    #[arg(long)]
    pub block: Option<String>,
    /// Kernel argument for a .ptx file, once per parameter: TYPE:VALUE, bytes:DIGITS, argN[+ELEMENTS] (the buffer
    /// of argument N), or buffer:TYPE:LENGTH[:zeros|iota|random[:MIN:MAX]|@FILE] (FILE: .npy or raw bytes). Bit
    /// patterns of f32 and f64 are written as in PTX, f32:0f3F800000. `random` without bounds gives 0 to 1 for
    /// floating-point types and all values of integer types. A struct with pointers needs a workload file.
    #[arg(long = "arg", value_name = "ARG")]
    pub args: Vec<String>,
    /// Dynamic shared memory for a .ptx file, in bytes.
    #[arg(long, default_value_t = 0)]
    pub dynamic_shared: u32,
}

impl ProgramArgs {
    /// A request for it, all else as by default. A limit of the host's memory is the whole process's, and holds from
    /// here on.
    ///
    /// # Errors
    /// Options that are no values, or not for this program.
    pub fn request(&self) -> Result<Request, Vec<Diagnostic>> {
        if let Some(limit) = self.max_memory {
            memory::limit(limit);
        }
        let set: Result<_, _> = self.set.iter().map(|text| Setting::parse(text)).collect();
        Ok(Request {
            variant: self.variant.clone(),
            set: set.map_err(|error| vec![error])?,
            seed: self.seed,
            max_instructions: self.max_instructions,
            allow_newer_isa: self.allow_newer_isa,
            ..Request::new(self.program()?)
        })
    }

    /// A workload by its name, or a .ptx file with the launch of its kernel.
    fn program(&self) -> Result<Program, Vec<Diagnostic>> {
        let launch = PtxLaunch {
            file: PathBuf::from(&self.workload),
            entry: self.entry.clone(),
            grid: self.grid.clone(),
            block: self.block.clone(),
            args: self.args.clone(),
            dynamic_shared: self.dynamic_shared,
        };
        if is_ptx(&self.workload) {
            return launch.program();
        }
        let of_ptx = [
            ("--entry", launch.entry.is_some()),
            ("--grid", launch.grid.is_some()),
            ("--block", launch.block.is_some()),
            ("--arg", !launch.args.is_empty()),
            ("--dynamic-shared", launch.dynamic_shared != 0),
        ];
        match of_ptx.iter().find(|(_, given)| *given) {
            None => Ok(Program::Workload(self.workload.clone())),
            Some((option, _)) => {
                let message = format!(
                    "{option} applies only to .ptx files; the workload file of `{}` defines its launches",
                    self.workload
                );
                let help = "--set KEY=VALUE changes the parameters of a workload";
                Err(vec![Diagnostic::error("usage", message).help(help)])
            }
        }
    }
}
