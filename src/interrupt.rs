//! What stops runs early from outside: Ctrl-C, SIGTERM, and the limit of the host's memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::console::status;

/// Runs are to stop: Ctrl-C was pressed, or the limit of memory is reached.
pub static STOP: AtomicBool = AtomicBool::new(false);

/// SIGTERM has come.
static TERMINATED: AtomicBool = AtomicBool::new(false);

/// Whether SIGTERM has come.
pub fn terminated() -> bool {
    TERMINATED.load(Ordering::Relaxed)
}

/// SIGTERM, which Slurm sends before it ends a task, stops what is simulated. What cannot be stopped, as the filling of
/// buffers and references of results, has the time `grace`; then `last` is called, and the process ends with what that gives.
pub fn on_termination(grace: Duration, last: impl Fn() -> u8 + Send + 'static) {
    let Ok(mut signals) = signal_hook::iterator::Signals::new([signal_hook::consts::SIGTERM]) else { return };
    // Without the thread the signal is not answered, and the task is killed some time later.
    let _ = std::thread::Builder::new().name("signals".into()).spawn(move || {
        if signals.forever().next().is_some() {
            TERMINATED.store(true, Ordering::Relaxed);
            STOP.store(true, Ordering::Relaxed);
            std::thread::sleep(grace);
            std::process::exit(i32::from(last()));
        }
    });
}

/// Tells what is simulated to stop, as Ctrl-C does.
pub fn interrupt() {
    STOP.store(true, Ordering::Relaxed);
}

/// Runs may go on: what was interrupted has ended.
pub fn resume() {
    STOP.store(false, Ordering::Relaxed);
}

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
