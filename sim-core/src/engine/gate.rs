//! The gate between epochs: workers arrive, the leader decides, the gate opens. Who waits
//! spins for a moment, then gives the core to others again and again, then sleeps.

use super::primitives::{AtomicBool, AtomicU64, AtomicUsize, Backoff, Condvar, Mutex, Ordering, wait};

/// A barrier of a leader and its followers, with a turn of the leader alone in each round.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Rounds the leader has opened.
    opened: AtomicU64,
    /// Followers that have arrived in this round.
    arrived: AtomicUsize,
    followers: usize,
    over: AtomicBool,
    spins: u32,
    sleepers: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Gate {
    /// A gate for a leader and `followers`; who waits looks `spins` times before it sleeps.
    pub(crate) fn new(followers: usize, spins: u32) -> Self {
        Self {
            opened: AtomicU64::new(0),
            arrived: AtomicUsize::new(0),
            followers,
            over: AtomicBool::new(false),
            spins,
            sleepers: AtomicUsize::new(0),
            lock: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    /// The leader opens round `round` (from 1), or ends the work.
    pub(crate) fn open(&self, round: u64, over: bool) {
        self.over.store(over, Ordering::Relaxed);
        self.arrived.store(0, Ordering::Relaxed);
        self.opened.store(round, Ordering::SeqCst);
        self.wake_sleepers();
    }

    /// A follower waits for a round after the `last` it was in, and gives it: the leader may have gone
    /// through some alone. None: the work is over.
    pub(crate) fn enter(&self, last: u64) -> Option<u64> {
        self.until(|| self.opened.load(Ordering::SeqCst) > last);
        // No further one is opened before this follower has arrived.
        (!self.over.load(Ordering::Relaxed)).then(|| self.opened.load(Ordering::SeqCst))
    }

    /// A follower has done its share of the round.
    pub(crate) fn arrive(&self) {
        if self.arrived.fetch_add(1, Ordering::SeqCst) + 1 == self.followers {
            self.wake_sleepers();
        }
    }

    /// The leader waits for all followers.
    pub(crate) fn all_arrived(&self) {
        self.until(|| self.arrived.load(Ordering::SeqCst) == self.followers);
    }

    fn until(&self, ready: impl Fn() -> bool) {
        let backoff = Backoff::new();
        for _ in 0..self.spins {
            if ready() {
                return;
            }
            backoff.snooze();
        }
        if ready() {
            return;
        }
        // A sleeper counts itself before it looks again; who makes it ready looks at the count
        // after: one of the two sees the other.
        let mut guard = self.lock.lock();
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while !ready() {
            guard = wait(&self.wake, guard);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    fn wake_sleepers(&self) {
        if self.sleepers.load(Ordering::SeqCst) != 0 {
            drop(self.lock.lock());
            self.wake.notify_all();
        }
    }
}
