//! SMs and partitions with the wires between them, without a device.

#![allow(missing_docs, dead_code, reason = "tests, each of which uses a part")]

use std::sync::Arc;

use sim_memory::access::{AccessKind, WarpAccess};
use sim_memory::cache::Cache;
use sim_memory::coalescing::Coalescing;
use sim_memory::device_memory::DeviceMemory;
use sim_memory::dram::DramTimings;
use sim_memory::hundredths::Hundredths;
use sim_memory::partition::Partition;
use sim_memory::port::{AccessId, RegisterPort};
use sim_memory::programs::{Choice, ProgramSet, Protocol};
use sim_memory::sm_memory::SmMemory;
use sim_memory::spec::{
    CacheSpec, Clocks, ConstantSpec, DramSpec, IndexFunction, InterconnectSpec, MemorySpec, SharedSpec,
    SliceReads, SliceWrites, WriteQueueSpec,
};
use sim_memory::vocabulary::{
    AtomicOp, CacheHint, CacheOp, Cycle, LaneMask, ScalarType, Scope, Semantics, StateSpace,
};

/// Where buffers begin.
pub const BASE: u64 = 0x1000_0000;

/// Small caches and few MSHRs, so that a few lines make everything happen.
pub fn spec(protocol: Protocol, sector_bytes: u32, coalescing: Coalescing) -> MemorySpec {
    let cache = |sets: u32| CacheSpec {
        set_aside_ways: None,
        size_bytes: 128 * 2 * sets,
        ways: 2,
        sector_bytes,
        mshrs: 4,
        mshr_merges: 2,
        dirty_ways: None,
        equal_stores_stay_clean: true,
        write_allocate: true,
        bytes_per_cycle: 128,
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
        l2_fetch_bytes: None,
        slice_banks: 2,
        slice_reads: SliceReads::default(),
        l2_halves: None,
        slice_writes: SliceWrites::default(),
        store_tokens: 4,
        lsu_queue: 4,
        miss_queue: 2,
        tlb: None,
        interconnect: InterconnectSpec {
            latency: 7,
            accepted_bytes_per_cycle: None,
            spread: 0,
            request_bytes_per_cycle: 16,
            reply_bytes_per_cycle: 32,
            header_bytes: 8,
            atomic_sector_bytes: 0,
        },
        shared: SharedSpec {
            latency: 5,
            conflict_latency: 1,
            turn_interval: 1,
            atomic_latency: 10,
            atomic_interval: None,
            banks: Default::default(),
        },
        constant: ConstantSpec {
            hit_latency: 5,
            address_interval: Hundredths::CYCLE,
            indexed_latency: None,
            cache: None,
        },
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
pub struct Pending {
    pub addresses: [u64; 32],
    pub bytes: usize,
    pub blocked: LaneMask,
    pub pending: LaneMask,
    pub got: [[u8; 16]; 32],
}

#[derive(Default)]
pub struct Registers(pub Vec<Pending>);

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

    fn write_wide_results(&mut self, access: AccessId, lanes: LaneMask, halves: [&[u64; 32]; 2], _: Cycle) {
        for lane in (0..32).filter(|l| lanes >> l & 1 == 1) {
            for (half, to) in halves.iter().zip(self.0[access as usize].got[lane].chunks_exact_mut(8)) {
                to.copy_from_slice(&half[lane].to_le_bytes());
            }
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
pub struct Machine {
    pub sms: Vec<SmMemory>,
    pub regs: Vec<Registers>,
    pub partitions: Vec<Partition>,
    pub memory: Arc<DeviceMemory>,
    pub now: Cycle,
    pub space: StateSpace,
    pub semantics: Semantics,
    pub scope: Scope,
    /// Atomics are those of lanes that were combined.
    pub combined: bool,
    /// The type of atomics, and whether they return the old values.
    pub atomics: (ScalarType, bool),
}

#[derive(Clone, Copy, Debug)]
pub enum What {
    Load,
    Store,
    Add,
    Fence,
    Hint(CacheHint),
}

impl Machine {
    pub fn new(protocol: Protocol, sms: usize, sector_bytes: u32) -> Self {
        Self::with(protocol, sms, sector_bytes, Coalescing::Lines)
    }

    pub fn with(protocol: Protocol, sms: usize, sector_bytes: u32, coalescing: Coalescing) -> Self {
        Self::of(spec(protocol, sector_bytes, coalescing), sms)
    }

    /// Whole lines, and one slice of L2.
    pub fn one_partition(protocol: Protocol, sms: usize) -> Self {
        Self::of(MemorySpec { partitions: 1, ..spec(protocol, 128, Coalescing::Lines) }, sms)
    }

    pub fn of(spec: MemorySpec, sms: usize) -> Self {
        let spec = Arc::new(spec);
        let programs = Arc::new(ProgramSet::for_protocol(spec.protocol).expect("shipped"));
        let timings = Arc::new(DramTimings::of(&spec.dram).expect("parameters fit"));
        let memory = Arc::new(DeviceMemory::new());
        let clocks = Clocks::new(700, 924);
        Self {
            sms: (0..sms)
                .map(|sm| SmMemory::new(Arc::clone(&spec), Arc::clone(&programs), sm as u32))
                .collect(),
            regs: (0..sms).map(|_| Registers::default()).collect(),
            partitions: (0..spec.partitions)
                .map(|index| {
                    Partition::new(
                        index,
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
            combined: false,
            atomics: (ScalarType::U32, true),
        }
    }

    pub fn start(
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
            What::Hint(hint) => AccessKind::Hint(hint),
            What::Add | What::Fence => {
                let (ty, returns) = self.atomics;
                AccessKind::Atomic { op: AtomicOp::Add, ty, returns }
            }
        };
        let mut bytes = [[0; 16]; 32];
        for (lane, b) in bytes.iter_mut().enumerate() {
            b[..4].copy_from_slice(&(data + lane as u32).to_le_bytes());
        }
        let operands = std::array::from_fn(|lane| [u64::from(data) + lane as u64, 0]);
        let access = WarpAccess {
            policy: sim_memory::priority::Policy::None,
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
            combined: self.combined,
        };
        let now = self.now;
        self.sms[sm].access(now, &access, &mut self.regs[sm]).expect("no fault");
        let partitions = &mut self.partitions;
        self.sms[sm].take_requests(|at, to, request| partitions[to as usize].deliver(at, sm as u32, request));
        id
    }

    /// A fence of an SM's thread, after its accesses.
    pub fn fence(&mut self, sm: usize, scope: Scope) {
        self.drain();
        self.sms[sm].fence(scope);
    }

    /// Goes to the next cycle on which something happens; false if nothing does.
    pub fn step(&mut self) -> bool {
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

    pub fn drain(&mut self) {
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

    pub fn word(&self, sm: usize, id: usize, lane: usize) -> u32 {
        let [a, b, c, d, ..] = self.regs[sm].0[id].got[lane];
        u32::from_le_bytes([a, b, c, d])
    }
}
