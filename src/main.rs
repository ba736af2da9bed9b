//! warpsim: a GPU architecture simulator. Real PTX in, a cycle-level answer out.

mod cli;
mod configs;
mod host;
mod metrics;
mod reference;
mod run;
mod schema;
mod simulate;
mod study;
mod summary;
mod sweep;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The version, with the commit where it is known.
const VERSION: &str = env!("WARPSIM_VERSION");

fn main() -> ExitCode {
    cli::main()
}
