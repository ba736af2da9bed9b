//! The synchronisation primitives of the gate and the mailboxes; the model checker replaces them.

pub use parking_lot::{Condvar, Mutex, MutexGuard};
pub use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// A cache line of its own: writes to its neighbours do not take it from the worker that polls it.
pub use crossbeam_utils::CachePadded;

/// Spins first, then yields the core, because the waiting thread may be holding up the one it waits for.
pub use crossbeam_utils::Backoff;

pub fn wait<'g>(condition: &Condvar, mut guard: MutexGuard<'g, ()>) -> MutexGuard<'g, ()> {
    condition.wait(&mut guard);
    guard
}
