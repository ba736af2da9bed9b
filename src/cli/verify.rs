//! Options of `verify`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use sim_frontend::diagnostic::Diagnostic;

use super::run::program_of;
use crate::memory;
use crate::ptx_file::PtxLaunch;
use crate::request::{Request, Setting};

/// Commands of `verify`.
#[derive(Subcommand)]
pub enum VerifyCommand {
    /// Decides for all interleavings of the threads of each block: deadlock freedom, safe recycling of named barriers,
    /// race freedom in shared memory. Thread programs come from one functional run. Exit status 3 with a finding, 4 if
    /// the verdict is `unknown`, 2 on bad input.
    Sync(Box<SyncArgs>),
}

/// Options of `verify sync`.
#[derive(Args, Clone, Debug)]
pub struct SyncArgs {
    /// Name, folder or workload.yaml of a workload; or a .ptx file, with --entry if it has several kernels.
    pub workload: String,
    /// Program of the workload. Default: the newest that the chip can run.
    #[arg(long)]
    pub variant: Option<String>,
    /// Chip: a name or a file. The verdict is for independent threads from compute capability 7.0 on, and for warps in
    /// lockstep below 7.0; the other one is reported too. Default: the smallest shipped chip that can run the newest
    /// program of the workload (or the --variant, or the target of the .ptx file).
    #[arg(long)]
    pub chip: Option<String>,
    /// Overrides a parameter of the workload, or a key of the chip by its path (sm.branch_latency=2).
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Seed of random buffer contents.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Stops the run after N warp instructions; the verdict is then `unknown`.
    #[arg(long, value_name = "N")]
    pub max_instructions: Option<u64>,
    /// Limit of host memory: bytes, a number with suffix K, M, G or T (powers of 1024), or `unlimited`. Default:
    /// three quarters of the host's memory.
    #[arg(long, value_name = "SIZE", value_parser = memory::size)]
    pub max_memory: Option<u64>,
    /// Allows instructions above the chip's compute capability.
    #[arg(long)]
    pub allow_newer_isa: bool,
    /// Prints JSON.
    #[arg(long)]
    pub json: bool,
    /// Kernel of a .ptx file.
    #[arg(long)]
    pub entry: Option<String>,
    /// Grid size for a .ptx file, in blocks: X[,Y[,Z]].
    #[arg(long)]
    pub grid: Option<String>,
    /// Block size for a .ptx file, in threads: X[,Y[,Z]].
    #[arg(long)]
    pub block: Option<String>,
    /// Kernel argument for a .ptx file, once per parameter, as for `warpsim run --arg`.
    #[arg(long = "arg", value_name = "ARG")]
    pub args: Vec<String>,
    /// Dynamic shared memory for a .ptx file, in bytes.
    #[arg(long, default_value_t = 0)]
    pub dynamic_shared: u32,
}

impl SyncArgs {
    /// The run that is recorded. A limit of the host's memory is the whole process's, and holds from here on.
    ///
    /// # Errors
    /// Options that are no values, or not for this program.
    pub fn request(&self) -> Result<Request, Vec<Diagnostic>> {
        if let Some(limit) = self.max_memory {
            memory::limit(limit);
        }
        let launch = PtxLaunch {
            file: PathBuf::from(&self.workload),
            entry: self.entry.clone(),
            grid: self.grid.clone(),
            block: self.block.clone(),
            args: self.args.clone(),
            dynamic_shared: self.dynamic_shared,
        };
        let set: Result<_, _> = self.set.iter().map(|text| Setting::parse(text)).collect();
        Ok(Request {
            variant: self.variant.clone(),
            chip: self.chip.clone(),
            set: set.map_err(|error| vec![error])?,
            seed: self.seed,
            functional: true,
            max_instructions: self.max_instructions,
            allow_newer_isa: self.allow_newer_isa,
            ..Request::new(program_of(&self.workload, launch)?)
        })
    }
}
