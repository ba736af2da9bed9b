//! The barrier between epochs: workers arrive, the leader decides, and the barrier opens. A waiting thread
//! first spins, then yields the core repeatedly, then sleeps.

use super::primitives::{AtomicBool, AtomicU64, AtomicUsize, Backoff, CachePadded, Condvar, Mutex, Ordering, wait};

/// A barrier for a leader and its followers. In each round the leader has a phase of its own.
#[derive(Debug)]
pub(crate) struct Gate {
    /// What the leader writes and the followers poll.
    leader: CachePadded<Leader>,
    /// Number of followers that have arrived in this round; the leader polls it.
    arrived: CachePadded<AtomicUsize>,
    followers: usize,
    spins: u32,
    sleepers: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
}

#[derive(Debug)]
struct Leader {
    /// Number of rounds that it has opened.
    opened: AtomicU64,
    over: AtomicBool,
}

impl Gate {
    /// A gate for a leader and `followers` followers. A waiting thread polls `spins` times before it sleeps.
    pub(crate) fn new(followers: usize, spins: u32) -> Self {
        Self {
            leader: CachePadded::new(Leader { opened: AtomicU64::new(0), over: AtomicBool::new(false) }),
            arrived: CachePadded::new(AtomicUsize::new(0)),
            followers,
            spins,
            sleepers: AtomicUsize::new(0),
            lock: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    /// Opens round `round` (counted from 1), or ends the work; called by the leader.
    pub(crate) fn open(&self, round: u64, over: bool) {
        self.leader.over.store(over, Ordering::Relaxed);
        self.arrived.store(0, Ordering::Relaxed);
        self.leader.opened.store(round, Ordering::SeqCst);
        self.wake_sleepers();
    }

    /// Waits for a round after `last` and returns it; called by a follower. Rounds may be skipped if the
    /// leader worked through them alone. `None` means that the work is over.
    pub(crate) fn enter(&self, last: u64) -> Option<u64> {
        self.until(|| self.leader.opened.load(Ordering::SeqCst) > last);
        // No further one is opened before this follower has arrived.
        (!self.leader.over.load(Ordering::Relaxed)).then(|| self.leader.opened.load(Ordering::SeqCst))
    }

    /// Reports that a follower has done its part of the round.
    pub(crate) fn arrive(&self) {
        if self.arrived.fetch_add(1, Ordering::SeqCst) + 1 == self.followers {
            self.wake_sleepers();
        }
    }

    /// Waits for all followers; called by the leader.
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
