//! warpsim: a GPU architecture simulator. Real PTX in, a cycle-level answer out.

mod baseline;
mod cli;
mod compare;
mod configs;
mod findings;
mod host;
mod listing;
mod machine;
mod metrics;
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
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The version, with the commit where it is known.
const VERSION: &str = env!("WARPSIM_VERSION");

fn main() -> ExitCode {
    // Whoever reads the output may stop reading, as `head` does: that is no fault of the program.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let message = info.payload().downcast_ref::<String>();
        if message
            .is_some_and(|text| text.contains("failed printing to stdout") && text.contains("Broken pipe"))
        {
            std::process::exit(i32::from(cli::status::DONE));
        }
        hook(info);
    }));
    cli::main()
}
