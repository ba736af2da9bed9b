//! Loads of one line side by side, and what keeps a slice of L2.

#![allow(missing_docs, reason = "tests")]

use sim_memory::coalescing::Coalescing;
use sim_memory::hundredths::Hundredths;
use sim_memory::programs::Protocol;
use sim_memory::spec::{HalvesSpec, SliceReads, SliceWrites};
use sim_memory::vocabulary::{CacheOp, ScalarType};

mod common;

use common::{BASE, Machine, What};

/// Loads of sectors of one line that nobody fetches yet do not wait for those under way, in L1 or L2; what changes the line does,
/// and what reads no more than is under way.
#[test]
fn loads_of_other_sectors_of_a_line_go_side_by_side() {
    let spec = || {
        let mut spec = common::spec(Protocol::Volta, 32, Coalescing::Sectors);
        spec.partitions = 1;
        spec
    };
    // Lanes read one word each from there on: the next 32 words, or a part of them.
    let words = |from: u64| std::array::from_fn(|lane| BASE + from + 4 * lane as u64);
    let time = |starts: &[(usize, u64, u32)]| {
        let mut machine = Machine::of(spec(), 2);
        for (sm, from, lanes) in starts {
            machine.start(*sm, What::Load, CacheOp::Ca, *lanes, words(*from), 0);
        }
        machine.drain();
        (machine.now, machine.partitions[0].stats().l2.misses)
    };
    let (one, _) = time(&[(0, 0, 0xff)]);
    for (sm, from, lanes, misses) in [(0, 32, 0xff, 2), (1, 32, 0xff, 2), (0, 16, 0xff, 2), (1, 16, 0xff, 2)]
    {
        let (both, found) = time(&[(0, 0, 0xff), (sm, from, lanes)]);
        assert!(both < one + 30, "{both} beside {one}: SM {sm} from {from}");
        assert_eq!(found, misses, "SM {sm} from {from}");
    }
    // All of it is under way.
    assert_eq!(time(&[(0, 0, 0xffff), (0, 0, 0xff)]).1, 1);
    // A store waits for both, and a load of what it writes for the store: each reads what its thread's order says.
    for store in [BASE, BASE + 32] {
        let mut machine = Machine::of(spec(), 1);
        let old = [0, 32].map(|from| machine.start(0, What::Load, CacheOp::Ca, 0xff, words(from), 0));
        machine.start(0, What::Store, CacheOp::Wb, 1, [store; 32], 7);
        let new = [0, 32].map(|from| machine.start(0, What::Load, CacheOp::Ca, 0xff, words(from), 0));
        machine.drain();
        assert_eq!(old.map(|id| machine.word(0, id, 0)), [0, 0]);
        let written = |at: u64| if at == store { 7 } else { 0 };
        assert_eq!(new.map(|id| machine.word(0, id, 0)), [written(BASE), written(BASE + 32)]);
    }
}

/// A sector that is read keeps a slice, and again where it comes from DRAM; what crosses from the other half does so twice, but for
/// atomics on the line that was asked for last.
#[test]
fn what_reads_keeps_a_slice_and_so_does_what_crosses() {
    let cycles = |cycles: f64| Hundredths::try_from(cycles).expect("cycles");
    let time = |count: u64, sm: usize, what: What, halves: bool, stride: u64| {
        let mut spec = common::spec(Protocol::Volta, 32, Coalescing::Sectors);
        (spec.partitions, spec.slice_banks, spec.store_tokens) = (1, 1, 64);
        (spec.l1.mshrs, spec.l2.mshrs, spec.l2.mshr_merges) = (64, 64, 64);
        spec.slice_reads = SliceReads { sector: cycles(30.0), fill: cycles(0.0) };
        spec.slice_writes =
            SliceWrites { sector: cycles(40.0), atomic_sector: cycles(50.0), ..SliceWrites::default() };
        spec.l2_halves = halves.then_some(HalvesSpec { latency: 100, copy_ways: 2, sms: 1 });
        spec.interconnect.request_bytes_per_cycle = 1024;
        let mut machine = Machine::of(spec, 2);
        // The lines are in L2.
        for i in 0..count {
            machine.start(0, What::Load, CacheOp::Cg, 1, [BASE + stride * i; 32], 0);
            machine.drain();
        }
        let begin = machine.now;
        for i in 0..count {
            machine.start(sm, what, CacheOp::Cg, 1, [BASE + stride * i; 32], 0);
        }
        machine.drain();
        machine.now - begin
    };
    let more = |sm, what, halves, stride| {
        (time(6, sm, what, halves, stride) - time(4, sm, what, halves, stride)) / 2
    };
    for (what, own) in [(What::Load, 30), (What::Store, 40), (What::Add, 50)] {
        assert_eq!(more(0, what, true, 128), own, "{what:?} in its half");
        assert_eq!(more(1, what, false, 128), own, "{what:?} without halves");
        assert_eq!(more(1, what, true, 128), 2 * own, "{what:?} from the other half");
    }
    assert_eq!(more(1, What::Add, true, 0), 50, "one line");
    assert_eq!(time(1, 1, What::Load, true, 128) - time(1, 1, What::Load, false, 128), 100);
}

/// Cycles that `counts[1]` of the same atomics or stores take more than `counts[0]`, in a slice that they keep busy.
fn of_more(
    counts: [u32; 2],
    writes: SliceWrites,
    reply_bytes_per_cycle: u32,
    what: What,
    (ty, returns, combined): (ScalarType, bool, bool),
    addresses: [u64; 32],
) -> u64 {
    let time = |count| {
        let mut spec = common::spec(Protocol::Volta, 32, Coalescing::Sectors);
        (spec.partitions, spec.slice_banks, spec.slice_writes) = (1, 1, writes);
        (spec.store_tokens, spec.l2.mshr_merges) = (64, 64);
        spec.interconnect.request_bytes_per_cycle = 1024;
        spec.interconnect.reply_bytes_per_cycle = reply_bytes_per_cycle;
        let mut machine = Machine::of(spec, 1);
        (machine.combined, machine.atomics) = (combined, (ty, returns));
        (0..count).for_each(|_| {
            machine.start(0, what, CacheOp::Wb, u32::MAX, addresses, 1);
        });
        machine.drain();
        machine.now
    };
    time(counts[1]) - time(counts[0])
}

#[test]
fn what_writes_keeps_a_slice_for_its_sectors_and_for_the_lanes_of_an_address() {
    let cycles = |cycles: f64| Hundredths::try_from(cycles).expect("cycles");
    let writes = SliceWrites {
        sector: cycles(10.5),
        atomic_sector: cycles(20.25),
        atomic_address: cycles(2.5),
        atomic_float: cycles(7.0),
    };
    let words = std::array::from_fn(|lane| BASE + 4 * lane as u64);
    let pairs = std::array::from_fn(|lane| BASE + 4 * (lane as u64 / 2));
    let (u32s, f32s) = ((ScalarType::U32, true, false), (ScalarType::F32, true, false));
    for (what, atomics, addresses, expected) in [
        (What::Store, u32s, words, 2 * 4 * 1050),
        (What::Store, u32s, [BASE; 32], 2 * 1050),
        (What::Add, u32s, words, 2 * 4 * 2025),
        (What::Add, u32s, [BASE; 32], 2 * (2025 + 31 * 250)),
        (What::Add, f32s, [BASE; 32], 2 * (2025 + 31 * 700)),
        (What::Add, u32s, pairs, 2 * 2 * (2025 + 250)),
        (What::Add, (ScalarType::U32, true, true), [BASE; 32], 2 * 2025),
    ] {
        let took = of_more([8, 10], writes, 1024, what, atomics, addresses) * 100;
        assert!(took.abs_diff(expected) <= 100, "{what:?} {atomics:?}: {took} for {expected}");
    }
    // The second begins in the first whole cycle behind the first; hundredths add up.
    let steps =
        [[1, 2], [2, 3], [3, 4], [4, 5]].map(|c| of_more(c, writes, 1024, What::Store, u32s, [BASE; 32]));
    assert_eq!(steps, [11, 10, 11, 10]);
    // No less than any request.
    let none = SliceWrites { sector: cycles(0.0), atomic_sector: cycles(0.0), ..writes };
    assert_eq!(of_more([8, 10], none, 1024, What::Store, u32s, words), 4);
}

/// Old values are what a slice sends for an atomic: of each lane, once for lanes that were combined, and none for `red`.
#[test]
fn replies_of_atomics_carry_the_old_values_that_are_asked_for() {
    let words = std::array::from_fn(|lane| BASE + 4 * lane as u64);
    let none = SliceWrites::default();
    let time = |atomics, addresses| of_more([8, 10], none, 1, What::Add, atomics, addresses);
    let header = 8;
    assert_eq!(time((ScalarType::U32, true, false), words), 2 * (header + 128));
    assert_eq!(time((ScalarType::U32, true, true), [BASE; 32]), 2 * (header + 4));
    assert_eq!(time((ScalarType::U32, false, false), words), 2 * header);
    // 136 bytes at 40 a cycle are 3.4 cycles, of which hundredths add up.
    let steps =
        [[8, 9], [8, 13]].map(|c| of_more(c, none, 40, What::Add, (ScalarType::U32, true, false), words));
    assert!([3, 4].contains(&steps[0]) && steps[1] == 17, "{steps:?}");
}
