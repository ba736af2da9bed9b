//! The memory environment from register to DRAM and back: SMs and partitions pass messages, and
//! what comes back is what a flat array of bytes says.

#![allow(missing_docs, reason = "tests")]

use std::sync::Arc;

use proptest::prelude::*;
use sim_memory::access::{AccessKind, WarpAccess};
use sim_memory::cache::Cache;
use sim_memory::coalescing::Coalescing;
use sim_memory::device_memory::DeviceMemory;
use sim_memory::dram::DramTimings;
use sim_memory::partition::Partition;
use sim_memory::port::{AccessId, RegisterPort};
use sim_memory::programs::{Choice, ProgramSet, Protocol};
use sim_memory::sm_memory::SmMemory;
use sim_memory::spec::{
    CacheSpec, Clocks, ConstantSpec, DramSpec, IndexFunction, InterconnectSpec, MemorySpec, SharedSpec,
    WriteQueueSpec,
};
use sim_memory::vocabulary::{AtomicOp, CacheOp, Cycle, LaneMask, ScalarType, Scope, Semantics, StateSpace};

const BASE: u64 = 0x1000_0000;

/// Small caches and few MSHRs, so that a few lines make everything happen.
fn spec(protocol: Protocol, sector_bytes: u32, coalescing: Coalescing) -> MemorySpec {
    let cache = |sets: u32| CacheSpec {
        size_bytes: 128 * 2 * sets,
        ways: 2,
        sector_bytes,
        mshrs: 4,
        mshr_merges: 2,
        hit_latency: 5,
        index: IndexFunction::Linear,
    };
    MemorySpec {
        protocol,
        programs: Default::default(),
        coalescing,
        l1: cache(2),
        unified: None,
        l2: cache(4),
        copies_fill_l2: false,
        partitions: 3,
        interleave_bytes: 256,
        partition_interval: 2,
        slice_banks: 2,
        store_tokens: 4,
        lsu_queue: 4,
        miss_queue: 2,
        interconnect: InterconnectSpec {
            latency: 7,
            request_bytes_per_cycle: 16,
            reply_bytes_per_cycle: 32,
            header_bytes: 8,
        },
        shared: SharedSpec { latency: 5, atomic_latency: 10, banks: Default::default() },
        constant: ConstantSpec { hit_latency: 5 },
        dram: DramSpec {
            banks: 4,
            bank_groups: 2,
            row_bytes: 512,
            burst_bytes: 32,
            burst_cycles: 2,
            group_interleave_bytes: 256,
            latency: 20,
            queue: 4,
            write_queue: WriteQueueSpec { entries: 2, high: 2, low: 1 },
            overtaking_limit: 8,
            standard: Choice::from("gddr5".to_string()),
            timing: [
                ("CCD", 2),
                ("CCDL", 3),
                ("RRD", 6),
                ("FAW", 24),
                ("RCD", 12),
                ("RAS", 28),
                ("RP", 12),
                ("RC", 40),
                ("CL", 12),
                ("WL", 4),
                ("CDLR", 5),
                ("WR", 12),
                ("RTPL", 2),
                ("TURN", 2),
                ("REFI", 900),
                ("RFC", 61),
            ]
            .map(|(name, cycles)| (name.to_string(), cycles))
            .into(),
        },
    }
}

/// One access in flight, as the device would keep it.
#[derive(Clone)]
struct Pending {
    addresses: [u64; 32],
    bytes: usize,
    blocked: LaneMask,
    pending: LaneMask,
    got: [[u8; 16]; 32],
}

#[derive(Default)]
struct Registers(Vec<Pending>);

impl RegisterPort for Registers {
    fn write_to_regs(&mut self, access: AccessId, lanes: LaneMask, line: u64, data: &[u8; 128], _: Cycle) {
        let entry = &mut self.0[access as usize];
        for lane in (0..32).filter(|l| lanes >> l & 1 == 1) {
            let at = (entry.addresses[lane] - line) as usize;
            entry.got[lane][..entry.bytes].copy_from_slice(&data[at..at + entry.bytes]);
        }
    }

    fn write_atomic_results(&mut self, access: AccessId, lanes: LaneMask, old: &[u64; 32], _: Cycle) {
        for lane in (0..32).filter(|l| lanes >> l & 1 == 1) {
            self.0[access as usize].got[lane][..8].copy_from_slice(&old[lane].to_le_bytes());
        }
    }

    fn release_regs(&mut self, access: AccessId, lanes: LaneMask, _: Cycle) {
        assert_eq!(self.0[access as usize].blocked & lanes, lanes, "registers are released once");
        self.0[access as usize].blocked &= !lanes;
    }

    fn performed(&mut self, access: AccessId, lanes: LaneMask, _: Cycle) {
        assert_eq!(self.0[access as usize].pending & lanes, lanes, "an access is performed once");
        self.0[access as usize].pending &= !lanes;
    }
}

/// SMs, partitions and the wires between them.
struct Machine {
    sms: Vec<SmMemory>,
    regs: Vec<Registers>,
    partitions: Vec<Partition>,
    memory: Arc<DeviceMemory>,
    now: Cycle,
    space: StateSpace,
    semantics: Semantics,
    scope: Scope,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Load,
    Store,
    Add,
}

impl Machine {
    fn new(protocol: Protocol, sms: usize, sector_bytes: u32) -> Self {
        Self::with(protocol, sms, sector_bytes, Coalescing::Lines)
    }

    fn with(protocol: Protocol, sms: usize, sector_bytes: u32, coalescing: Coalescing) -> Self {
        let spec = Arc::new(spec(protocol, sector_bytes, coalescing));
        let programs = Arc::new(ProgramSet::for_protocol(protocol).expect("shipped"));
        let timings = Arc::new(DramTimings::of(&spec.dram).expect("parameters fit"));
        let memory = Arc::new(DeviceMemory::new());
        let clocks = Clocks { core_khz: 700, dram_khz: 924 };
        Self {
            sms: (0..sms).map(|_| SmMemory::new(Arc::clone(&spec), Arc::clone(&programs))).collect(),
            regs: (0..sms).map(|_| Registers::default()).collect(),
            partitions: (0..3)
                .map(|_| {
                    Partition::new(
                        Arc::clone(&spec),
                        clocks,
                        Arc::clone(&programs),
                        Arc::clone(&timings),
                        Arc::clone(&memory),
                        Cache::new(&spec.l2),
                    )
                })
                .collect(),
            memory,
            now: 0,
            space: StateSpace::Global,
            semantics: Semantics::Weak,
            scope: Scope::Gpu,
        }
    }

    fn start(
        &mut self,
        sm: usize,
        what: What,
        op: CacheOp,
        lanes: LaneMask,
        addresses: [u64; 32],
        data: u32,
    ) -> usize {
        while !self.sms[sm].accepting() {
            assert!(self.step(), "a full queue drains");
        }
        let id = self.regs[sm].0.len();
        self.regs[sm].0.push(Pending {
            addresses,
            bytes: 4,
            blocked: lanes,
            pending: lanes,
            got: [[0; 16]; 32],
        });
        let kind = match what {
            What::Load => AccessKind::Load,
            What::Store => AccessKind::Store,
            What::Add => AccessKind::Atomic { op: AtomicOp::Add, ty: ScalarType::U32, returns: true },
        };
        let mut bytes = [[0; 16]; 32];
        for (lane, b) in bytes.iter_mut().enumerate() {
            b[..4].copy_from_slice(&(data + lane as u32).to_le_bytes());
        }
        let operands = std::array::from_fn(|lane| [u64::from(data) + lane as u64, 0]);
        let access = WarpAccess {
            id: id as AccessId,
            kind,
            space: self.space,
            cache_op: op,
            semantics: self.semantics,
            scope: self.scope,
            element_bytes: 4,
            lanes,
            addresses: &addresses,
            data: &bytes,
            operands: Some(&operands),
        };
        let now = self.now;
        self.sms[sm].access(now, &access, &mut self.regs[sm]).expect("no fault");
        let partitions = &mut self.partitions;
        self.sms[sm].take_requests(|at, to, request| partitions[to as usize].deliver(at, sm as u32, request));
        id
    }

    /// Goes to the next cycle on which something happens; false if nothing does.
    fn step(&mut self) -> bool {
        let events = self
            .sms
            .iter()
            .map(SmMemory::next_event)
            .chain(self.partitions.iter().map(Partition::next_event));
        let Some(now) = events.flatten().min() else { return false };
        self.now = self.now.max(now);
        let until = self.now + 1;
        for (i, sm) in self.sms.iter_mut().enumerate() {
            sm.advance(until, &mut self.regs[i]).expect("no fault");
            let partitions = &mut self.partitions;
            sm.take_requests(|at, to, request| partitions[to as usize].deliver(at, i as u32, request));
        }
        for (i, partition) in self.partitions.iter_mut().enumerate() {
            partition.advance(until).expect("no fault");
            let sms = &mut self.sms;
            partition.take_replies(|at, to, reply| sms[to as usize].deliver(reply, i as u32, at));
        }
        true
    }

    fn drain(&mut self) {
        let mut steps = 0;
        while self.step() {
            steps += 1;
            assert!(steps < 1_000_000, "it comes to an end");
        }
        for (i, sm) in self.sms.iter().enumerate() {
            sm.check_idle().unwrap_or_else(|e| panic!("SM {i}: {e}"));
        }
        for partition in &self.partitions {
            partition.check_idle().expect("nothing is left");
        }
        for entry in self.regs.iter().flat_map(|r| &r.0) {
            assert_eq!((entry.blocked, entry.pending), (0, 0), "every access ended");
        }
    }

    fn word(&self, sm: usize, id: usize, lane: usize) -> u32 {
        let [a, b, c, d, ..] = self.regs[sm].0[id].got[lane];
        u32::from_le_bytes([a, b, c, d])
    }
}

fn lane_addresses(base: u32, stride: u32) -> [u64; 32] {
    std::array::from_fn(|lane| BASE + u64::from((base + stride * lane as u32) % 1024) * 4)
}

fn operations() -> impl Strategy<Value = Vec<(u8, u32, u32, u32, u32)>> {
    // kind, base word, stride in words, lanes, value.
    let one =
        (0u8..4, 0u32..1024, prop::sample::select(vec![0u32, 1, 2, 7, 33]), any::<u32>(), 0u32..1 << 20);
    prop::collection::vec(one, 1..60)
}

const PROTOCOLS: [Protocol; 3] = [Protocol::Thesis, Protocol::Fermi, Protocol::Volta];
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
    ) {
        let mut machine = Machine::with(protocol, 1, sector, coalescing);
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
        let now = machine.now;
        machine.sms[0].fence(scope, now);
        assert_eq!(load(&mut machine, CacheOp::Ca, at), expected, "{protocol:?} {scope:?}");
    }
    // The flush at the start of a dependent grid is for all of them.
    let (mut machine, at) = with_stale_line(Protocol::Fermi);
    let now = machine.now;
    machine.sms[0].flush_l1(now);
    assert_eq!(load(&mut machine, CacheOp::Ca, at), 9);
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
        assert!(written > 200, "{protocol:?} {space:?}: {written} lines went to memory");
        for (i, at) in lines.iter().enumerate() {
            assert_eq!(load(&mut machine, CacheOp::Ca, *at), i as u32, "{protocol:?} {space:?}");
        }
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
