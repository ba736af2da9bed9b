//! Workers held up at random give the same report and the same bytes, and a fault stops them all.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sim_core::device::{Delay, Options};
use sim_core::error::SimError;

use crate::machine::{Run, chip, device_with, module};

/// Every warp adds to one counter, keeps what it found, and stores what a neighbour's line holds.
const BODY: &str = "
    atom.global.add.u32 %a, [%out], 3;
    and.b32 %b, %a, 5;
    setp.eq.u32 %p, %b, 1;
    @%p bra odd;
    add.u32 %r, %i, 1;
    bra.uni meet;
odd:
    mul.lo.u32 %r, %i, 3;
meet:
    bar.sync 0;";

fn held_up(seed: u64) -> Delay {
    let state = Arc::new(AtomicU64::new(seed));
    Delay(Arc::new(move |worker| {
        let mut x = state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed) ^ worker as u64;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        match (x >> 27) % 16 {
            0 => std::thread::sleep(Duration::from_micros(x % 200)),
            1..=4 => std::thread::yield_now(),
            _ => {}
        }
    }))
}

fn run(threads: usize, delay: Option<Delay>) -> (Vec<u32>, String) {
    let text = module("", BODY);
    let change = |options: Options| Options { threads, delay, ..options };
    let device = device_with(chip(|_| {}), "crs_stack", change);
    let mut run = Run::new(device, &text, false, 60 * 64);
    run.launch(60, 64, false).expect("launches");
    run.wait().expect("runs");
    (run.words(), format!("{:?}", run.report()))
}

#[test]
fn grid_exec_workers_held_up_at_random_change_nothing() {
    let expected = run(1, None);
    for (seed, threads) in [(1, 2), (2, 3), (3, 4), (4, 2), (5, 7)] {
        let got = run(threads, Some(held_up(seed)));
        assert!(got == expected, "seed {seed}, {threads} threads");
    }
}

/// A worker that has no core is waited for once; then the leader does its share for a while.
#[test]
fn grid_exec_a_leader_that_works_alone_changes_nothing() {
    let (calls, alone) = (AtomicU64::new(0), Arc::new(AtomicU64::new(0)));
    let leader = std::thread::current().id();
    let counted = Arc::clone(&alone);
    let delay = Delay(Arc::new(move |worker| {
        if worker == 0 {
            return;
        }
        if std::thread::current().id() == leader {
            counted.fetch_add(1, Ordering::Relaxed);
        } else if calls.fetch_add(1, Ordering::Relaxed) % 8 == 7 {
            std::thread::sleep(Duration::from_millis(30));
        }
    }));
    assert!(run(3, Some(delay)) == run(1, None));
    assert!(alone.load(Ordering::Relaxed) > 0);
}

#[test]
fn grid_exec_the_first_fault_stops_all_workers() {
    // Blocks from 20 on fault; the least cycle and SM win, whoever runs first.
    let body = "mov.u32 %a, %ctaid.x;\nsetp.lt.u32 %p, %a, 20;\n@%p bra good;\n\
                mov.u64 %x, 64;\nld.global.u32 %r, [%x];\ngood:";
    let fault = |threads, delay| {
        let change = |options: Options| Options { threads, delay, ..options };
        let device = device_with(chip(|_| {}), "crs_stack", change);
        let mut run = Run::new(device, &module("", body), false, 60 * 64);
        run.launch(60, 64, false).expect("launches");
        match run.wait() {
            Err(SimError::Stopped(fault)) => format!("{fault}"),
            other => panic!("no fault: {other:?}"),
        }
    };
    let expected = fault(1, None);
    for (seed, threads) in [(1, 2), (2, 4)] {
        assert_eq!(fault(threads, Some(held_up(seed))), expected);
    }
}
