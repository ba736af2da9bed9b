//! The gate and the mailboxes under a model checker, which explores interleavings of their atomic steps,
//! including sleep and wake-up.
#![allow(clippy::duplicate_mod, reason = "the same files on the model checker's primitives")]

/// The model checker's replacements of the synchronisation primitives.
mod primitives {
    pub use crossbeam_utils::CachePadded;
    pub use shuttle::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
    pub use shuttle::sync::{Condvar, MutexGuard};

    #[derive(Debug)]
    pub struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("no worker panics")
        }
    }

    #[derive(Default)]
    pub struct Backoff;

    impl Backoff {
        pub fn new() -> Self {
            Self
        }

        pub fn snooze(&self) {
            shuttle::thread::yield_now();
        }
    }

    pub fn wait<'g>(condition: &Condvar, guard: MutexGuard<'g, ()>) -> MutexGuard<'g, ()> {
        condition.wait(guard).expect("no worker panics")
    }
}

#[path = "exchange.rs"]
mod exchange;
#[path = "gate.rs"]
mod gate;

use std::sync::Arc;

use exchange::Exchange;
use gate::Gate;

const ROUNDS: u64 = 5;
/// A round in which the leader works alone.
const ALONE: u64 = 3;

/// A worker's part of a round; checks that it receives what all workers sent in the previous round.
fn share(me: usize, workers: usize, round: u64, exchange: &Exchange<Vec<(u64, usize)>>) {
    let mut from = 0;
    exchange.receive(round, me, |mail| {
        let expected = if round == 1 { vec![] } else { vec![(round - 1, from)] };
        assert_eq!(*mail, expected, "worker {me} in round {round}");
        mail.clear();
        from += 1;
    });
    for to in 0..workers {
        let mut own = vec![(round, me)];
        exchange.send(round, me, to, &mut own);
        assert!(own.is_empty(), "worker {me} got a full box in round {round}");
    }
}

fn team(workers: usize, spins: u32) {
    let gate = Arc::new(Gate::new(workers - 1, spins));
    let exchange = Arc::new(Exchange::new(workers));
    let followers: Vec<_> = (1..workers)
        .map(|me| {
            let (gate, exchange) = (Arc::clone(&gate), Arc::clone(&exchange));
            shuttle::thread::spawn(move || {
                let (mut last, mut rounds) = (0, 0);
                while let Some(round) = gate.enter(last) {
                    share(me, workers, round, &exchange);
                    gate.arrive();
                    last = round;
                    rounds += 1;
                }
                rounds
            })
        })
        .collect();
    for round in 1..=ROUNDS {
        if round == ALONE {
            // The leader does all shares.
            (0..workers).for_each(|me| share(me, workers, round, &exchange));
            continue;
        }
        gate.open(round, false);
        share(0, workers, round, &exchange);
        gate.all_arrived();
    }
    gate.open(u64::MAX, true);
    for follower in followers {
        assert_eq!(follower.join().expect("ends"), ROUNDS - 1);
    }
}

#[test]
fn gate_and_mailboxes_under_random_interleavings() {
    for (workers, spins) in [(2, 0), (3, 0), (3, 2), (4, 1)] {
        shuttle::check_random(move || team(workers, spins), 500);
    }
}

#[test]
fn gate_and_mailboxes_under_few_preemptions() {
    for (workers, spins) in [(2, 0), (3, 1)] {
        shuttle::check_pct(move || team(workers, spins), 500, 3);
    }
}
