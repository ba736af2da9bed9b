//! The memory environment from register to DRAM and back: SMs and partitions pass messages, and
//! what comes back is what a flat array of bytes says.

#![allow(missing_docs, reason = "tests")]

use proptest::prelude::*;
use sim_memory::address_space::LOCAL_PHYSICAL;
use sim_memory::cache::CacheStats;
use sim_memory::coalescing::Coalescing;
use sim_memory::partition::Partition;
use sim_memory::programs::Protocol;
use sim_memory::sm_memory::Asked;
use sim_memory::spec::UnifiedSpec;
use sim_memory::tlb::{TlbLevel, TlbSpec};
use sim_memory::vocabulary::{CacheHint, CacheOp, Cycle, Scope, Semantics, StateSpace};

mod common;

use common::{BASE, Machine, What};

fn lane_addresses(base: u32, stride: u32) -> [u64; 32] {
    std::array::from_fn(|lane| BASE + u64::from((base + stride * lane as u32) % 1024) * 4)
}

fn operations() -> impl Strategy<Value = Vec<(u8, u32, u32, u32, u32)>> {
    // kind, base word, stride in words, lanes, value.
    let one =
        (0u8..4, 0u32..1024, prop::sample::select(vec![0u32, 1, 2, 7, 33]), any::<u32>(), 0u32..1 << 20);
    prop::collection::vec(one, 1..60)
}

const PROTOCOLS: [Protocol; 4] = [Protocol::Thesis, Protocol::Fermi, Protocol::Volta, Protocol::Tesla];
const COALESCING: [Coalescing; 4] =
    [Coalescing::HalfWarpInOrder, Coalescing::HalfWarpSegments, Coalescing::Lines, Coalescing::Sectors];
const LOADS: [CacheOp; 5] = [CacheOp::Ca, CacheOp::Cg, CacheOp::Cs, CacheOp::Lu, CacheOp::Cv];
const STORES: [CacheOp; 4] = [CacheOp::Wb, CacheOp::Cg, CacheOp::Cs, CacheOp::Wt];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Without races (one access after another) loads return what a flat array holds, whatever
    /// was evicted, merged or written back on the way; racing accesses still come to an end.
    #[test]
    fn loads_return_what_was_stored(
        ops in operations(),
        protocol in prop::sample::select(PROTOCOLS.to_vec()),
        space in prop::sample::select(vec![StateSpace::Global, StateSpace::Local]),
        wait in any::<bool>(),
        sector in prop::sample::select(vec![32u32, 128]),
        coalescing in prop::sample::select(COALESCING.to_vec()),
        tlb in any::<bool>(),
    ) {
        let mut spec = common::spec(protocol, sector, coalescing);
        let level = |entries, miss_latency| TlbLevel { page_bytes: 256, entries, miss_latency };
        spec.tlb = tlb.then(|| TlbSpec { first: level(2, 30), second: Some(level(3, 70)) });
        let mut machine = Machine::of(spec, 1);
        machine.space = space;
        let mut flat = vec![0u32; 1024];
        // After its last use, as the program says, a word of local memory may be anything.
        let mut lost = vec![false; 1024];
        let mut expected = Vec::new();
        for (kind, base, stride, lanes, value) in ops {
            let addresses = lane_addresses(base, stride);
            // Lanes that write one word race; only the first may.
            let mut lanes = lanes;
            if kind != 0 {
                for lane in 1..32 {
                    if (0..lane).any(|l| lanes >> l & 1 == 1 && addresses[l] == addresses[lane]) {
                        lanes &= !(1 << lane);
                    }
                }
            }
            if lanes == 0 {
                continue;
            }
            let word = |lane: usize| ((addresses[lane] - BASE) / 4) as usize;
            let active = || (0..32usize).filter(|l| lanes >> l & 1 == 1);
            match kind {
                0 | 3 => {
                    let op = LOADS[value as usize % LOADS.len()];
                    let id = machine.start(0, What::Load, op, lanes, addresses, 0);
                    let known = active().filter(|l| !lost[word(*l)]);
                    expected.push((id, lanes, known.map(|l| (l, flat[word(l)])).collect::<Vec<_>>()));
                    if space == StateSpace::Local && matches!(op, CacheOp::Cs | CacheOp::Lu) {
                        active().for_each(|l| lost[word(l)] = true);
                    }
                }
                1 => {
                    machine.start(0, What::Store, STORES[value as usize % STORES.len()], lanes, addresses, value);
                    active().for_each(|l| (flat[word(l)], lost[word(l)]) = (value + l as u32, false));
                }
                // Local memory has no atomics.
                _ if space == StateSpace::Local => {}
                _ => {
                    let id = machine.start(0, What::Add, CacheOp::Wb, lanes, addresses, value);
                    expected.push((id, lanes, active().map(|l| (l, flat[word(l)])).collect()));
                    active().for_each(|l| flat[word(l)] = flat[word(l)].wrapping_add(value + l as u32));
                }
            }
            if wait {
                machine.drain();
            }
        }
        machine.drain();
        if wait {
            for (id, _, words) in expected {
                for (lane, value) in words {
                    prop_assert_eq!(machine.word(0, id, lane), value, "access {}, lane {}", id, lane);
                }
            }
        }
        machine.partitions.iter_mut().for_each(Partition::flush_to_memory);
        // Dirty bytes of local memory may still be in L1, where only their thread reads them.
        if wait && space == StateSpace::Global {
            for (i, value) in flat.iter().enumerate() {
                let mut bytes = [0; 4];
                machine.memory.read(BASE + 4 * i as u64, &mut bytes);
                prop_assert_eq!(u32::from_le_bytes(bytes), *value, "word {}", i);
            }
        }
    }
}

/// Where lanes of a whole warp store to one word, the value of the highest one stays.
#[test]
fn the_highest_lane_that_stores_to_a_word_is_the_last() {
    for protocol in PROTOCOLS {
        let mut machine = Machine::new(protocol, 1, 32);
        // Lanes go around eleven words, not in order.
        let word = |lane: usize| lane * 7 % 11;
        let addresses = std::array::from_fn(|lane| BASE + 4 * word(lane) as u64);
        machine.start(0, What::Store, CacheOp::Wb, u32::MAX, addresses, 100);
        machine.drain();
        machine.partitions.iter_mut().for_each(Partition::flush_to_memory);
        for i in 0..11 {
            let last = (0..32).filter(|lane| word(*lane) == i).max().expect("a lane");
            let mut bytes = [0; 4];
            machine.memory.read(BASE + 4 * i as u64, &mut bytes);
            assert_eq!(u32::from_le_bytes(bytes), 100 + last as u32, "word {i}");
        }
    }
}

/// What SM 0 reads of a word it has in L1 and SM 1 has overwritten with 9, by `op`.
fn read_after_another_sms_store(protocol: Protocol, op: CacheOp, semantics: Semantics, scope: Scope) -> u32 {
    let (mut machine, at) = with_stale_line(protocol);
    (machine.semantics, machine.scope) = (semantics, scope);
    load(&mut machine, op, at)
}

/// SM 0 has the word in L1 as 0; it is 9 at L2.
fn with_stale_line(protocol: Protocol) -> (Machine, [u64; 32]) {
    let mut machine = Machine::new(protocol, 2, 32);
    let at = [BASE; 32];
    assert_eq!(load(&mut machine, CacheOp::Ca, at), 0);
    machine.start(1, What::Store, CacheOp::Wb, 1, at, 9);
    machine.drain();
    (machine, at)
}

fn load(machine: &mut Machine, op: CacheOp, at: [u64; 32]) -> u32 {
    let id = machine.start(0, What::Load, op, 1, at, 0);
    machine.drain();
    machine.word(0, id, 0)
}

/// L1s are not kept coherent: a line cached before another SM's store is read as it was by `.ca`,
/// `.cs` and strong loads of block scope; loads that go past L1 read what is at L2.
#[test]
fn an_l1_line_is_stale_after_another_sms_store() {
    use {CacheOp as C, Semantics as S};
    let rows = [
        (C::Ca, S::Weak, Scope::Gpu, 0),
        (C::Cs, S::Weak, Scope::Gpu, 0),
        (C::Cg, S::Weak, Scope::Gpu, 9),
        (C::Cv, S::Weak, Scope::Gpu, 9),
        (C::Ca, S::Volatile, Scope::Sys, 9),
        (C::Ca, S::Relaxed, Scope::Cta, 0),
        (C::Ca, S::Relaxed, Scope::Gpu, 9),
        (C::Ca, S::Acquire, Scope::Cta, 0),
        (C::Ca, S::Acquire, Scope::Sys, 9),
    ];
    for protocol in PROTOCOLS {
        for (op, semantics, scope, expected) in rows {
            // Without an L1 there is nothing stale.
            let expected = if protocol == Protocol::Tesla { 9 } else { expected };
            let got = read_after_another_sms_store(protocol, op, semantics, scope);
            assert_eq!(got, expected, "{protocol:?} {op:?} {semantics:?} {scope:?}");
        }
    }
}

/// Fences of device scope make L1 forget where the protocol says so, those of a block never.
#[test]
fn a_stale_line_is_forgotten_at_fences_where_the_protocol_says_so() {
    for (protocol, scope, expected) in [
        (Protocol::Thesis, Scope::Gpu, 0),
        (Protocol::Fermi, Scope::Gpu, 0),
        (Protocol::Volta, Scope::Cta, 0),
        (Protocol::Volta, Scope::Gpu, 9),
        (Protocol::Volta, Scope::Sys, 9),
    ] {
        let (mut machine, at) = with_stale_line(protocol);
        machine.sms[0].fence(scope);
        assert_eq!(load(&mut machine, CacheOp::Ca, at), expected, "{protocol:?} {scope:?}");
    }
    // The flush at the start of a dependent grid is for all of them.
    let (mut machine, at) = with_stale_line(Protocol::Fermi);
    machine.sms[0].flush_l1();
    assert_eq!(load(&mut machine, CacheOp::Ca, at), 9);
}

/// What accesses ask for is counted where somebody asks, by the sectors they move; hints are not accesses.
#[test]
fn what_accesses_ask_for_is_counted_by_sectors() {
    let mut machine = Machine::new(Protocol::Fermi, 1, 32);
    machine.sms[0].asked = Some(Asked::default());
    // Words 32 bytes apart: four a line, a sector each.
    let apart = std::array::from_fn(|lane| BASE + 32 * lane as u64);
    machine.start(0, What::Load, CacheOp::Cg, u32::MAX, apart, 0);
    let asked = machine.sms[0].asked.replace(Asked::default());
    let expected = Asked { accesses: 1, transactions: 8, bytes_useful: 128, bytes_sectors: 1024 };
    assert_eq!(asked, Some(expected));
    // A word alone moves its sector.
    machine.start(0, What::Store, CacheOp::Wb, 1, [BASE; 32], 0);
    let expected = Asked { accesses: 1, transactions: 1, bytes_useful: 4, bytes_sectors: 32 };
    assert_eq!(machine.sms[0].asked, Some(expected));
    machine.drain();
}

/// Local memory is its thread's own: no fence or flush makes L1 forget it.
#[test]
fn lines_of_local_memory_stay_in_l1() {
    for protocol in [Protocol::Thesis, Protocol::Fermi, Protocol::Volta] {
        let mut machine = Machine::new(protocol, 1, 32);
        machine.space = StateSpace::Local;
        for at in 0..2 {
            load(&mut machine, CacheOp::Ca, [LOCAL_PHYSICAL; 32]);
            assert_eq!(machine.sms[0].stats().requests, 1, "{protocol:?}, load {at}");
            machine.sms[0].fence(Scope::Gpu);
            machine.sms[0].flush_l1();
        }
    }
}

/// An acquiring load or atomic takes the other lines of L1 along, a relaxed one does not.
#[test]
fn an_acquire_makes_other_lines_of_l1_fresh() {
    for (what, semantics, scope, expected) in [
        (What::Load, Semantics::Relaxed, Scope::Gpu, 0),
        (What::Load, Semantics::Acquire, Scope::Gpu, 9),
        (What::Add, Semantics::Relaxed, Scope::Gpu, 0),
        (What::Add, Semantics::AcqRel, Scope::Cta, 0),
        (What::Add, Semantics::AcqRel, Scope::Gpu, 9),
    ] {
        let (mut machine, at) = with_stale_line(Protocol::Volta);
        (machine.semantics, machine.scope) = (semantics, scope);
        machine.start(0, what, CacheOp::Ca, 1, [BASE + 512; 32], 1);
        machine.drain();
        machine.semantics = Semantics::Weak;
        assert_eq!(load(&mut machine, CacheOp::Ca, at), expected, "{what:?} {semantics:?} {scope:?}");
    }
}

/// A load is a hit, a merge or a miss, and one of them only: three of each SM find the line on its way or not there.
#[test]
fn a_load_that_waits_for_a_miss_is_no_hit() {
    let mut spec = common::spec(Protocol::Volta, 32, Coalescing::Sectors);
    spec.partitions = 1;
    let mut machine = Machine::of(spec, 2);
    let of = |stats: &CacheStats| [stats.hits, stats.merges, stats.misses];
    let of_both = |machine: &Machine| {
        [&machine.sms[0].stats().l1, &machine.sms[1].stats().l1, &machine.partitions[0].stats().l2].map(of)
    };
    for sm in [0, 0, 0, 1, 1, 1] {
        machine.start(sm, What::Load, CacheOp::Ca, 1, [BASE; 32], 0);
    }
    machine.drain();
    assert_eq!(of_both(&machine), [[0, 2, 1], [0, 2, 1], [0, 1, 1]]);
    machine.start(0, What::Load, CacheOp::Ca, 1, [BASE; 32], 0);
    // One that waits for another sector of its line is a miss.
    for at in [BASE + 128, BASE + 128 + 64] {
        machine.start(1, What::Load, CacheOp::Ca, 1, [at; 32], 0);
    }
    machine.drain();
    assert_eq!(of_both(&machine)[..2], [[1, 2, 1], [0, 2, 3]]);
}

/// A load that waits for a miss passes L1 meanwhile: it is served with the fill, one a cycle, but not before the latency of
/// a hit is over.
#[test]
fn loads_that_wait_are_served_with_the_fill() {
    let ends = |starts: &[Cycle]| {
        let mut spec = common::spec(Protocol::Volta, 32, Coalescing::Sectors);
        (spec.partitions, spec.l1.hit_latency, spec.l1.mshr_merges) = (1, 28, 8);
        let mut machine = Machine::of(spec, 1);
        let (mut ends, mut started) = (vec![None; starts.len()], 0);
        while ends.contains(&None) {
            let next =
                machine.sms[0].next_event().into_iter().chain(machine.partitions[0].next_event()).min();
            match starts.get(started) {
                Some(at) if next.is_none_or(|next| *at <= next) => {
                    machine.now = *at;
                    machine.start(0, What::Load, CacheOp::Ca, 1, [BASE; 32], 0);
                    started += 1;
                }
                _ => assert!(machine.step(), "all come to an end"),
            }
            for (end, access) in ends.iter_mut().zip(&machine.regs[0].0) {
                if end.is_none() && access.pending == 0 {
                    *end = Some(machine.now);
                }
            }
        }
        ends.into_iter().flatten().collect::<Vec<Cycle>>()
    };
    let fill = ends(&[0])[0];
    assert!(fill > 40, "{fill}");
    assert_eq!(ends(&[0, 0, 1, 2]), [fill, fill + 1, fill + 2, fill + 3]);
    let late = fill - 10;
    assert_eq!(ends(&[0, 0, late]), [fill, fill + 1, late + 28], "its own latency is longer");
    let soon = [0, 0, 0, 0, 0, fill - 26];
    assert_eq!(ends(&soon), [0, 1, 2, 3, 4, 5].map(|turn| fill + turn), "others are served at that time");
    assert_eq!(ends(&[0, fill + 5]), [fill, fill + 5 + 28], "a hit");
}

/// A write-through L1 is brought up to date by its own SM's store and stays clean; the others'
/// forget the line.
#[test]
fn a_store_leaves_l1_as_its_protocol_says() {
    for (protocol, hits) in [(Protocol::Thesis, 0), (Protocol::Fermi, 0), (Protocol::Volta, 1)] {
        let mut machine = Machine::new(protocol, 1, 32);
        let at = [BASE; 32];
        assert_eq!(load(&mut machine, CacheOp::Ca, at), 0);
        machine.start(0, What::Store, CacheOp::Wb, 1, at, 7);
        machine.drain();
        let before = machine.sms[0].stats().l1.hits;
        assert_eq!(load(&mut machine, CacheOp::Ca, at), 7, "{protocol:?}");
        assert_eq!(machine.sms[0].stats().l1.hits - before, hits, "{protocol:?}");
        assert_eq!(machine.sms[0].stats().l1.write_backs, 0, "global lines of L1 are never dirty");
    }
}

/// Operations on one sector run in the order of their arrival: a store between two streams of loads
/// is neither overtaken by the younger ones nor starved by the older ones.
#[test]
fn a_store_is_not_overtaken_by_younger_loads_nor_starved_by_older_ones() {
    for protocol in PROTOCOLS {
        for space in [StateSpace::Global, StateSpace::Local] {
            let mut machine = Machine::new(protocol, 1, 32);
            machine.space = space;
            let at = [BASE; 32];
            let stream = |machine: &mut Machine| -> Vec<usize> {
                (0..20).map(|_| machine.start(0, What::Load, CacheOp::Ca, 1, at, 0)).collect()
            };
            let older = stream(&mut machine);
            machine.start(0, What::Store, CacheOp::Wb, 1, at, 9);
            let younger = stream(&mut machine);
            machine.drain();
            for (ids, value) in [(older, 0), (younger, 9)] {
                let got: Vec<u32> = ids.iter().map(|id| machine.word(0, *id, 0)).collect();
                assert_eq!(got, [value; 20], "{protocol:?} {space:?}");
            }
        }
    }
}

/// Where all ways of a set are dirty, a new line makes room by writing back: nothing waits for ever,
/// nothing is lost.
#[test]
fn all_ways_dirty_make_room_by_write_backs() {
    // Local stores dirty L1 under the first two protocols, global ones L2 under all.
    for (protocol, space) in PROTOCOLS
        .iter()
        .flat_map(|protocol| [(*protocol, StateSpace::Global), (*protocol, StateSpace::Local)])
    {
        let mut machine = Machine::new(protocol, 1, 128);
        machine.space = space;
        // Ten times what both caches hold, all of it dirty, and no pause between.
        let lines: Vec<[u64; 32]> = (0..300).map(|i| [BASE + 128 * i; 32]).collect();
        for (i, at) in lines.iter().enumerate() {
            machine.start(0, What::Store, CacheOp::Wb, 1, *at, i as u32);
        }
        machine.drain();
        let written: u64 = machine.partitions.iter().map(|p| p.stats().l2.write_backs).sum();
        assert!(
            written > 200 || protocol == Protocol::Tesla,
            "{protocol:?} {space:?}: {written} lines went to memory"
        );
        for (i, at) in lines.iter().enumerate() {
            assert_eq!(load(&mut machine, CacheOp::Ca, *at), i as u32, "{protocol:?} {space:?}");
        }
    }
}

/// What a load of a word finds after a hint: hits of L1 and L2, and the word, which is 9 where a store of it is
/// not lost.
#[test]
fn hints_do_what_their_programs_say() {
    for protocol in PROTOCOLS {
        let cached = u64::from(protocol != Protocol::Tesla);
        let found = |stores: bool, hint: CacheHint| {
            let mut machine = Machine::one_partition(protocol, 1);
            let at = [BASE; 32];
            if stores {
                machine.start(0, What::Store, CacheOp::Wb, 1, at, 9);
                machine.drain();
            }
            machine.start(0, What::Hint(hint), CacheOp::Cg, 1, at, 0);
            machine.drain();
            let hits =
                |machine: &Machine| [machine.sms[0].stats().l1.hits, machine.partitions[0].stats().l2.hits];
            let before = hits(&machine);
            let word = load(&mut machine, CacheOp::Ca, at);
            let after = hits(&machine);
            (word, [0, 1].map(|level| after[level] - before[level]))
        };
        assert_eq!(found(false, CacheHint::PrefetchL1), (0, [cached, 0]), "{protocol:?}");
        assert_eq!(found(false, CacheHint::PrefetchL2), (0, [0, cached]), "{protocol:?}");
        // L2 has the word of its line, and L1 where stores take lines there.
        let kept = u64::from(protocol == Protocol::Volta);
        assert_eq!(found(true, CacheHint::EvictNormal), (9, [kept, 0]), "{protocol:?}");
        // The caches' bytes are dropped: device memory has the older ones.
        let discarded = if protocol == Protocol::Tesla { 9 } else { 0 };
        assert_eq!(found(true, CacheHint::Discard), (discarded, [0, 0]), "{protocol:?}");
    }
}

/// Stores for other SMs and streaming ones take no line of L1, plain ones do where stores can; a line that is there is
/// brought up to date in any case.
#[test]
fn stores_take_lines_of_l1_as_their_operators_say() {
    let at = [BASE; 32];
    for protocol in PROTOCOLS {
        for op in [CacheOp::Wb, CacheOp::Cg, CacheOp::Cs, CacheOp::Wt] {
            let takes = protocol == Protocol::Volta && op == CacheOp::Wb;
            for there in [false, true] {
                let mut machine = Machine::one_partition(protocol, 1);
                if there {
                    load(&mut machine, CacheOp::Ca, at);
                }
                machine.start(0, What::Store, op, 1, at, 9);
                machine.drain();
                let before = machine.sms[0].stats().l1.hits;
                assert_eq!(load(&mut machine, CacheOp::Ca, at), 9, "{protocol:?} {op:?} {there}");
                let hits = machine.sms[0].stats().l1.hits - before;
                if !there {
                    assert_eq!(hits, u64::from(takes), "{protocol:?} {op:?}");
                }
                if there && protocol == Protocol::Volta {
                    assert_eq!(hits, 1, "{op:?}");
                }
            }
        }
    }
}

/// Where partitions are settled, memory may change beside them, and lines may come into L2, also such that requests in flight are
/// about: atomics lose nothing of it, nor it of them.
#[test]
fn memory_changes_beside_settled_partitions() {
    let mut unsettled = 0;
    for (protocol, dirty_ways) in PROTOCOLS.into_iter().flat_map(|p| [(p, Some(1)), (p, None)]) {
        // With one dirty line a set, or with all dirty, writes wait for room in the write queue of DRAM.
        let mut spec = common::spec(protocol, 128, Coalescing::Lines);
        (spec.partitions, spec.l2.dirty_ways) = (1, dirty_ways);
        let mut machine = Machine::of(spec, 3);
        let lines: Vec<u64> = (0..100).map(|i| BASE + 128 * i).collect();
        let mut beside = vec![0; lines.len()];
        let mut next = 0;
        let mut look = |machine: &mut Machine, at: usize| {
            if !machine.partitions.iter().all(Partition::settled) {
                unsettled += 1;
                return;
            }
            machine.partitions.iter().for_each(Partition::share_with_memory);
            for (line, beside) in lines.iter().zip(&mut beside) {
                next += 1;
                if next % 7 == 0 {
                    let mut bytes = [0; 4];
                    machine.memory.read(*line, &mut bytes);
                    machine.memory.write(*line, &(u32::from_le_bytes(bytes) + 1000).to_le_bytes());
                    *beside += 1000;
                }
            }
            let some = &lines[at.saturating_sub(12)..];
            let last: Vec<(u64, u128)> = match next / 100 % 4 {
                0 => some.iter().take(15).map(|line| (*line, 0xff << (*line / 128 % 3 * 8))).collect(),
                1 if at.is_multiple_of(2) => some.iter().map(|line| (*line, u128::MAX)).collect(),
                _ => Vec::new(),
            };
            machine.partitions.iter_mut().for_each(|partition| partition.renew(&last));
        };
        let mut loads = Vec::new();
        for (i, line) in lines.iter().enumerate() {
            for sm in 0..3 {
                machine.start(sm, What::Add, CacheOp::Wb, u32::MAX, [*line; 32], 1);
                // Of bytes that nobody writes.
                loads.push((
                    sm,
                    machine.start(sm, What::Load, CacheOp::Cg, 1, [lines[(i + 3) % 100] + 64; 32], 0),
                ));
                look(&mut machine, i);
                (0..i % 9).for_each(|_| _ = machine.step());
            }
        }
        for step in 0u32.. {
            if !machine.step() {
                break;
            }
            if step.is_multiple_of(3) {
                look(&mut machine, 88);
            }
        }
        assert!(loads.iter().all(|&(sm, id)| machine.word(sm, id, 0) == 0));
        machine.partitions.iter_mut().for_each(Partition::flush_to_memory);
        for (line, beside) in lines.iter().zip(beside) {
            let mut bytes = [0; 4];
            machine.memory.read(*line, &mut bytes);
            assert_eq!(u32::from_le_bytes(bytes), 3 * (32 + 31 * 16) + beside, "{protocol:?} {line:#x}");
        }
    }
    assert!(unsettled > 0, "no atomic waited to write");
}

/// Lines that come into L2 from beside are dirty where stores stay there; where stores go past L2, a dirty line would overwrite them.
#[test]
fn stores_are_kept_whether_they_stay_in_l2_or_not() {
    for protocol in PROTOCOLS {
        let mut spec = common::spec(protocol, 128, Coalescing::Lines);
        spec.partitions = 1;
        let mut machine = Machine::of(spec, 1);
        machine.partitions[0].renew(&[(BASE, 0xff), (BASE + 128, 0xff)]);
        let dirty = machine.partitions[0].l2().used().1[0];
        assert_eq!(dirty, if protocol == Protocol::Tesla { 0 } else { 2 }, "{protocol:?}");
        machine.start(0, What::Store, CacheOp::Wb, 1, [BASE; 32], 9);
        machine.drain();
        machine.partitions.iter().for_each(Partition::share_with_memory);
        machine.partitions.iter_mut().for_each(Partition::flush_to_memory);
        let mut bytes = [0; 4];
        machine.memory.read(BASE, &mut bytes);
        assert_eq!(u32::from_le_bytes(bytes), 9, "{protocol:?}");
    }
}

/// Atomics of all SMs happen at L2, each once.
#[test]
fn atomics_of_several_sms_add_up() {
    for protocol in PROTOCOLS {
        let mut machine = Machine::new(protocol, 3, 128);
        let mut ids = Vec::new();
        for round in 0..5 {
            for sm in 0..3 {
                ids.push((
                    sm,
                    machine.start(sm, What::Add, CacheOp::Wb, u32::MAX, [BASE + 4 * round; 32], 1),
                ));
            }
        }
        machine.drain();
        machine.partitions.iter_mut().for_each(Partition::flush_to_memory);
        for round in 0..5 {
            let mut bytes = [0; 4];
            machine.memory.read(BASE + 4 * round, &mut bytes);
            // Each warp adds 1 + lane.
            assert_eq!(u32::from_le_bytes(bytes), 3 * (32 + 31 * 16));
        }
        let mut olds: Vec<u32> = ids[..3]
            .iter()
            .flat_map(|&(sm, id)| (0..32).map(move |l| (sm, id, l)))
            .map(|(sm, id, l)| machine.word(sm, id, l))
            .collect();
        olds.sort_unstable();
        olds.dedup();
        assert_eq!(olds.len(), 96, "no two lanes saw the same sum");
    }
}

/// An atomic fetches the sector of its word: a load of a neighbour in the sector finds it at L2, one of
/// another sector does not.
#[test]
fn an_atomic_fetches_the_whole_sector() {
    // Tesla has no L2.
    for protocol in [Protocol::Thesis, Protocol::Fermi, Protocol::Volta] {
        let mut machine = Machine::new(protocol, 1, 32);
        let reads = |machine: &Machine| -> u64 {
            machine.partitions.iter().map(|partition| partition.stats().dram.reads).sum()
        };
        machine.start(0, What::Add, CacheOp::Wb, 1, [BASE; 32], 5);
        machine.drain();
        assert_eq!(reads(&machine), 1, "{protocol:?}: the sector");
        assert_eq!(load(&mut machine, CacheOp::Cg, [BASE + 28; 32]), 0);
        assert_eq!(reads(&machine), 1, "{protocol:?}: its last word");
        assert_eq!(load(&mut machine, CacheOp::Cg, [BASE + 32; 32]), 0);
        assert_eq!(reads(&machine), 2, "{protocol:?}: the sector behind it");
    }
}

#[test]
fn an_sm_accepts_so_many_bytes_a_cycle() {
    let time = |accepted_bytes_per_cycle, lines: u64| {
        let mut spec = common::spec(Protocol::Volta, 128, Coalescing::Lines);
        spec.interconnect.reply_bytes_per_cycle = 1024;
        spec.interconnect.accepted_bytes_per_cycle = accepted_bytes_per_cycle;
        (spec.l1.mshrs, spec.l2.size_bytes, spec.l2.ways) = (64, 128 * 64 * 4, 4);
        let mut machine = Machine::of(spec, 1);
        let mut cycles = 0;
        // The second time they are in L2.
        for _ in 0..2 {
            let begin = machine.now;
            for line in 0..lines {
                machine.start(0, What::Load, CacheOp::Cg, u32::MAX, [BASE + 128 * line; 32], 0);
            }
            machine.drain();
            cycles = machine.now - begin;
        }
        cycles
    };
    assert_eq!(time(Some(8), 1), time(None, 1), "what is first in L2 does not wait");
    assert_eq!(time(Some(8), 17) - time(Some(8), 1), 16 * 16, "128 bytes take 16 cycles");
    assert!(time(None, 17) - time(None, 1) < 16 * 4);
}

/// Loads and stores keep L1 for the sectors that they ask for.
#[test]
fn l1_moves_so_many_bytes_a_cycle() {
    let time = |what, bytes_per_cycle, lanes: u64, lines: u64| {
        let mut spec = common::spec(Protocol::Volta, 32, Coalescing::Sectors);
        spec.l1.bytes_per_cycle = bytes_per_cycle;
        spec.interconnect.request_bytes_per_cycle = 1024;
        (spec.store_tokens, spec.l2.mshr_merges) = (64, 64);
        let mut machine = Machine::of(spec, 1);
        let operator = if matches!(what, What::Load) { CacheOp::Ca } else { CacheOp::Wb };
        let mut cycles = 0;
        // The second time it is in L1.
        for _ in 0..2 {
            let begin = machine.now;
            let words = std::array::from_fn(|lane| BASE + 4 * (lane as u64 % lanes));
            (0..lines).for_each(|_| {
                machine.start(0, what, operator, u32::MAX, words, 0);
            });
            machine.drain();
            cycles = machine.now - begin;
        }
        cycles
    };
    for (bytes, lanes, each) in
        [(128, 32, 1), (64, 32, 2), (48, 32, 3), (16, 32, 8), (16, 9, 4), (16, 8, 2), (64, 8, 1)]
    {
        // A slice takes a store each two cycles.
        for (what, least) in [(What::Load, 1), (What::Store, 2)] {
            let more = time(what, bytes, lanes, 40) - time(what, bytes, lanes, 20);
            assert_eq!(more, 20 * each.max(least), "{what:?} {bytes} {lanes}");
        }
    }
}

#[test]
fn shared_memory_of_a_run_is_taken_from_l1() {
    let mut spec = common::spec(Protocol::Volta, 32, Coalescing::Sectors);
    let own = spec.l1.size_bytes;
    spec.split(40_000);
    assert_eq!(spec.l1.size_bytes, own, "arrays of their own");
    let shared_bytes = vec![0, 8192, 65_536, 98_304];
    spec.unified = Some(UnifiedSpec { size_bytes: 131_072, shared_bytes, carveout_bytes: None });
    for (shared, l1) in [(0, 131_072), (8193, 65_536), (98_304, 32_768)] {
        let mut run = spec.clone();
        run.split(shared);
        assert_eq!(run.l1.size_bytes, l1, "{shared} bytes of shared memory");
    }
}
