//! What the gate and the mailboxes are made of; the model checker puts its own in their place.

pub use parking_lot::{Condvar, Mutex, MutexGuard};
pub use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Spins at first, then lets others have the core: one that waits may hold up the one it waits for.
pub use crossbeam_utils::Backoff;

pub fn wait<'g>(condition: &Condvar, mut guard: MutexGuard<'g, ()>) -> MutexGuard<'g, ()> {
    condition.wait(&mut guard);
    guard
}
