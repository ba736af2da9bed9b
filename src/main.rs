//! warpsim: a GPU architecture simulator. Real PTX in, a cycle-level answer out.

mod cli;
mod configs;
mod host;
mod reference;
mod run;
mod simulate;
mod study;
mod summary;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
