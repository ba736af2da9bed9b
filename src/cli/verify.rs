//! Options of `verify`.

use clap::{Args, Subcommand};
use sim_frontend::diagnostic::Diagnostic;

use super::program::ProgramArgs;
use crate::request::Request;

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
    /// What runs. With --max-instructions a run that stops there leaves the verdict `unknown`.
    #[command(flatten)]
    pub program: ProgramArgs,
    /// Chip: a name or a file. The verdict is for independent threads from compute capability 7.0 on, and for warps in
    /// lockstep below 7.0; the other one is reported too. Default: the smallest shipped chip that can run the newest
    /// program of the workload (or the --variant, or the target of the .ptx file).
    #[arg(long)]
    pub chip: Option<String>,
    /// Prints JSON.
    #[arg(long)]
    pub json: bool,
}

impl SyncArgs {
    /// The run that is recorded.
    ///
    /// # Errors
    /// Options that are no values, or not for this program.
    pub fn request(&self) -> Result<Request, Vec<Diagnostic>> {
        Ok(Request { chip: self.chip.clone(), functional: true, ..self.program.request()? })
    }
}
