//! Work on a thread of its own, without the lock of the interpreter, while the calling thread answers signals and tells
//! how far the work is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use pyo3::prelude::*;
use warpsim::{interrupt, memory};

use crate::errors::Wrong;

/// Time between two looks at signals.
const LOOK: Duration = Duration::from_millis(50);

/// How far something is: a count, what has been done, and of how much.
#[derive(Default)]
pub struct Far([AtomicU64; 3]);

impl Far {
    /// Notes how far it is.
    pub fn is(&self, count: u64, done: u64, all: u64) {
        self.0.iter().zip([count, done, all]).for_each(|(own, now)| own.store(now, Ordering::Relaxed));
    }

    fn now(&self) -> (u64, u64, u64) {
        let [count, done, all] = &self.0;
        (count.load(Ordering::Relaxed), done.load(Ordering::Relaxed), all.load(Ordering::Relaxed))
    }
}

/// Does the work. Where a signal's handler raises, as that of Ctrl-C does, `stop` is called, and the exception is raised when
/// the work has stopped.
///
/// # Errors
/// What a signal or `progress` raised, or that the simulator panicked.
pub fn watched<R: Send>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    far: &Far,
    stop: &(dyn Fn() + Sync),
    work: impl FnOnce() -> R + Send,
) -> PyResult<R> {
    let mut raised = None;
    let done = py.detach(|| {
        let (tell, ended) = channel::<()>();
        std::thread::scope(|scope| {
            let worker = scope.spawn(move || {
                let _tell = tell;
                work()
            });
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(LOOK) {
                if memory::exceeded().is_some() {
                    stop();
                }
                let told = Python::attach(|py| {
                    py.check_signals()?;
                    progress.map_or(Ok(()), |progress| progress.call1(py, far.now()).map(drop))
                });
                if let Err(error) = told {
                    stop();
                    raised.get_or_insert(error);
                }
            }
            worker.join()
        })
    });
    // What was stopped has ended: others may go on.
    if memory::exceeded().is_some() {
        interrupt::resume();
        memory::forget_exceeded();
    }
    match (raised, done) {
        (Some(error), _) => Err(error),
        (None, Ok(done)) => Ok(done),
        (None, Err(_)) => {
            let words = "the simulator panicked; this is an error of warpsim, please report it with the message above";
            Err(Wrong::from(words.to_string()).raised(py))
        }
    }
}
