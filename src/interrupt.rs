//! What stops runs early from outside: Ctrl-C, and the limit of the host's memory.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::console::status;

/// Runs are to stop: Ctrl-C was pressed, or the limit of memory is reached.
pub static STOP: AtomicBool = AtomicBool::new(false);

/// Whether runs are to stop.
pub fn interrupted() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// Ctrl-C stops what is simulated; a second one ends the process at once.
pub fn on_interrupt() {
    let _ = ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(status::INTERRUPTED));
        }
    });
}
