//! warpsim: a GPU architecture simulator. Real PTX in, a cycle-level answer out.

mod baseline;
mod chip_for;
mod cli;
mod compare;
mod configs;
mod contents;
mod files;
mod findings;
mod host;
mod listing;
mod machine;
mod memory;
mod metrics;
mod npy;
mod ptx_file;
mod reference;
mod report;
mod run;
mod schema;
mod simulate;
mod study;
mod summary;
mod sweep;
mod trace;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: memory::Counted<mimalloc::MiMalloc> = memory::Counted(mimalloc::MiMalloc);

/// The version, with the commit where it is known.
const VERSION: &str = env!("WARPSIM_VERSION");

fn main() -> ExitCode {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // `print!` panics where it cannot write.
        let message = info.payload().downcast_ref::<String>();
        match message.and_then(|text| text.strip_prefix("failed printing to stdout: ")) {
            Some(reason) => std::process::exit(cli::unprinted(reason).into()),
            None => hook(info),
        }
    }));
    memory::limit_by_host();
    cli::main()
}
