//! The command `warpsim`.

use std::process::ExitCode;

use warpsim::cli;
use warpsim::memory::Counted;

#[global_allocator]
static ALLOCATOR: Counted<mimalloc::MiMalloc> = Counted(mimalloc::MiMalloc);

fn main() -> ExitCode {
    cli::main()
}
