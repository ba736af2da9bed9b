//! The command `warpsim`.

use std::process::ExitCode;

use warpsim::memory::{self, Counted};
use warpsim::{cli, console};

#[global_allocator]
static ALLOCATOR: Counted<mimalloc::MiMalloc> = Counted(mimalloc::MiMalloc);

fn main() -> ExitCode {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // `print!` panics where it cannot write.
        let message = info.payload().downcast_ref::<String>();
        match message.and_then(|text| text.strip_prefix("failed printing to stdout: ")) {
            Some(reason) => std::process::exit(console::unprinted(reason).into()),
            None => hook(info),
        }
    }));
    memory::limit_by_host();
    cli::main()
}
