//! CS chapter 4, transcribed literally: lists of cache lines, programs as statements, no timing.
//! A cache line of the thesis is a sector here; with whole sectors, one operation after another,
//! the machine gives every load the value the transcription gives it, and its caches hit and miss
//! in the same places. Where the thesis leaves a choice open (what to evict, when to write back),
//! both take the least recently used.

#![allow(missing_docs, reason = "tests")]

mod common;

use std::collections::BTreeMap;

use common::{Machine, What};
use proptest::prelude::*;
use sim_memory::access::AccessKind;
use sim_memory::programs::{BExp, OpExp, Operation, Protocol, Stm, TEXTS, parse};
use sim_memory::vocabulary::{AtomicOp, CacheOp, ScalarType, Scope, Semantics, StateSpace};

type Line = [u32; 32];

/// `CacheLine` of CS §4.2.1.
#[derive(Clone, Debug)]
struct CacheLine {
    address: u64,
    /// None while it is reserved.
    value: Option<Line>,
    dirty: bool,
    pins: u32,
    first: bool,
}

/// One set: the lines in the order of their use, the least recent first.
#[derive(Clone, Debug, Default)]
struct Set(Vec<CacheLine>);

#[derive(Debug)]
struct Cache {
    sets: Vec<Set>,
    ways: usize,
    hits: u64,
    misses: u64,
}

/// What a function of §4.2.2 comes to.
#[derive(Debug, PartialEq)]
enum Done {
    Now,
    Deferred,
}

impl Cache {
    fn new(sets: usize, ways: usize) -> Self {
        Self { sets: vec![Set::default(); sets], ways, hits: 0, misses: 0 }
    }

    /// `eligible`.
    fn set(&mut self, address: u64) -> &mut Set {
        let sets = self.sets.len() as u64;
        &mut self.sets[(address / 128 % sets) as usize]
    }

    fn is_cached(&mut self, address: u64) -> bool {
        let cached = self.set(address).0.iter().any(|line| line.address == address);
        if cached {
            self.hits += 1
        } else {
            self.misses += 1
        }
        cached
    }

    /// The line, as the most recently used one.
    fn used(&mut self, address: u64) -> &mut CacheLine {
        let set = self.set(address);
        let at = set.0.iter().position(|line| line.address == address).expect("the line is there");
        let line = set.0.remove(at);
        set.0.push(line);
        set.0.last_mut().expect("just pushed")
    }

    /// Takes a place for a line: a free one, else that of a line that can be evicted.
    fn place(&mut self, address: u64) -> Done {
        let ways = self.ways;
        let set = self.set(address);
        if set.0.len() == ways {
            let can_evict = |line: &CacheLine| !line.dirty && line.pins == 0;
            let first = set.0.iter().position(|line| can_evict(line) && line.first);
            let Some(victim) = first.or_else(|| set.0.iter().position(can_evict)) else {
                return Done::Deferred;
            };
            set.0.remove(victim);
        }
        set.0.push(CacheLine { address, value: None, dirty: false, pins: 0, first: false });
        Done::Now
    }

    fn reserve(&mut self, address: u64) -> Done {
        assert!(self.set(address).0.iter().all(|line| line.address != address), "⊥: it is cached");
        let done = self.place(address);
        if done == Done::Now {
            self.used(address).pins += 1;
        }
        done
    }

    /// Unpins what `reserve` pinned.
    fn read(&mut self, address: u64, pinned: bool) -> Line {
        let line = self.used(address);
        line.pins -= u32::from(pinned);
        line.value.expect("nothing is on its way between operations")
    }

    fn write(&mut self, address: u64, value: &Line) -> Done {
        if self.set(address).0.iter().all(|line| line.address != address) {
            let done = self.place(address);
            if done == Done::Deferred {
                return done;
            }
        }
        let line = self.used(address);
        // writeEq: what stands there already leaves the line as dirty as it was.
        if line.value.as_ref() != Some(value) {
            line.value = Some(*value);
            line.dirty = true;
        }
        Done::Now
    }

    fn update(&mut self, address: u64, value: &Line) {
        let mut lines = self.set(address).0.iter_mut();
        let line = lines.find(|line| line.address == address).expect("⊥: it was reserved");
        line.value.get_or_insert(*value);
    }

    fn write_through(&mut self, address: u64, value: &Line) {
        if let Some(line) = self.set(address).0.iter_mut().find(|line| line.address == address) {
            line.value = Some(*value);
        }
    }

    /// The line is taken where there is none and a place is free or can be made so without a write-back.
    fn write_allocate(&mut self, address: u64, value: &Line) {
        let absent = self.set(address).0.iter().all(|line| line.address != address);
        if absent && self.place(address) == Done::Deferred {
            return;
        }
        self.used(address).value = Some(*value);
    }

    fn evict(&mut self, address: u64) {
        self.set(address).0.retain(|line| {
            assert!(line.address != address || !line.dirty && line.pins == 0, "never deferred here");
            line.address != address
        });
    }

    fn discard(&mut self, address: u64) {
        self.set(address).0.retain(|line| line.address != address);
    }

    fn classify(&mut self, address: u64, first: bool) {
        if let Some(line) = self.set(address).0.iter_mut().find(|line| line.address == address) {
            line.first = first;
        }
    }

    /// The least recently used dirty line, clean from now on.
    fn write_back(&mut self, address: u64) -> (u64, Line) {
        let mut lines = self.set(address).0.iter_mut();
        let line = lines.find(|line| line.dirty && line.pins == 0).expect("one is dirty");
        line.dirty = false;
        (line.address, line.value.expect("dirty lines have values"))
    }
}

/// The memory environment.
struct Environment {
    l1: Vec<Cache>,
    l2: Cache,
    memory: BTreeMap<u64, Line>,
}

/// A program in execution: `Σ` of §4.4.1.
struct Instance {
    sm: usize,
    address: u64,
    /// What is stored, or what is added.
    data: Line,
    /// What the last read operation gave.
    value: Line,
    pinned: [bool; 2],
    to_registers: Option<Line>,
    ended: bool,
}

impl Environment {
    fn write_l2(&mut self, address: u64, value: &Line) {
        while self.l2.write(address, value) == Done::Deferred {
            self.write_back_l2(address);
        }
    }

    fn write_back_l2(&mut self, address: u64) {
        let (address, value) = self.l2.write_back(address);
        self.memory.insert(address, value);
    }

    fn holds(&mut self, condition: &BExp, i: &Instance) -> bool {
        match condition {
            BExp::True => true,
            BExp::False => false,
            BExp::Not(inner) => !self.holds(inner, i),
            BExp::And(a, b) => self.holds(a, i) && self.holds(b, i),
            BExp::Or(a, b) => self.holds(a, i) || self.holds(b, i),
            BExp::IsCachedL1 => self.l1[i.sm].is_cached(i.address),
            BExp::IsCachedL2 => self.l2.is_cached(i.address),
        }
    }

    fn run(&mut self, statements: &[Stm], i: &mut Instance) {
        for statement in statements {
            if i.ended {
                return;
            }
            match statement {
                Stm::Nop | Stm::Yield => {}
                Stm::End => i.ended = true,
                Stm::Op(operation, _) => self.operate(*operation, i),
                Stm::If(condition, then, otherwise, _) => {
                    let branch = if self.holds(condition, i) { then } else { otherwise };
                    self.run(branch, i);
                }
            }
        }
    }

    fn operate(&mut self, operation: OpExp, i: &mut Instance) {
        let at = i.address;
        match operation {
            OpExp::ReadMem => i.value = self.memory.get(&at).copied().unwrap_or([0; 32]),
            OpExp::WriteMem => {
                self.memory.insert(at, i.data);
            }
            OpExp::ReadL1 => {
                i.value = self.l1[i.sm].read(at, i.pinned[0]);
                i.pinned[0] = false;
            }
            OpExp::ReadL2 => {
                i.value = self.l2.read(at, i.pinned[1]);
                i.pinned[1] = false;
            }
            OpExp::WriteL1 => {
                while self.l1[i.sm].write(at, &i.data) == Done::Deferred {
                    let (address, value) = self.l1[i.sm].write_back(at);
                    self.write_l2(address, &value);
                }
            }
            OpExp::WriteL2 => self.write_l2(at, &i.data),
            OpExp::ReserveL1 => {
                while self.l1[i.sm].reserve(at) == Done::Deferred {
                    let (address, value) = self.l1[i.sm].write_back(at);
                    self.write_l2(address, &value);
                }
                i.pinned[0] = true;
            }
            OpExp::ReserveL2 => {
                while self.l2.reserve(at) == Done::Deferred {
                    self.write_back_l2(at);
                }
                i.pinned[1] = true;
            }
            OpExp::UpdateL1 => self.l1[i.sm].update(at, &i.value),
            OpExp::UpdateL2 => self.l2.update(at, &i.value),
            OpExp::WriteThroughL1 => self.l1[i.sm].write_through(at, &i.data),
            OpExp::WriteAllocateL1 => self.l1[i.sm].write_allocate(at, &i.data),
            OpExp::EvictL1 => self.l1[i.sm].evict(at),
            OpExp::EvictL2 => self.l2.evict(at),
            OpExp::DiscardL1 => self.l1[i.sm].discard(at),
            OpExp::DiscardL2 => self.l2.discard(at),
            OpExp::ClassifyFirstL1 => self.l1[i.sm].classify(at, true),
            OpExp::ClassifyFirstL2 => self.l2.classify(at, true),
            OpExp::ClassifyNormalL1 => self.l1[i.sm].classify(at, false),
            OpExp::ClassifyNormalL2 => self.l2.classify(at, false),
            OpExp::AtomOp => {
                // Each lane finds the old value and leaves the sum.
                let old = i.value;
                i.data = std::array::from_fn(|lane| old[lane].wrapping_add(i.data[lane]));
            }
            OpExp::WriteToRegs => i.to_registers = Some(i.value),
            OpExp::FlushL1 => {
                // Global lines; dirty ones would keep it from happening, and are none.
                for set in &mut self.l1[i.sm].sets {
                    set.0.retain(|line| line.dirty);
                }
            }
            OpExp::ReleaseRegs => {}
            OpExp::Lock | OpExp::Unlock => panic!("off shared memory"),
        }
    }
}

#[derive(Clone, Debug)]
struct Step {
    sm: usize,
    what: u8,
    operator: usize,
    semantics: usize,
    line: u64,
    value: u32,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one = (0..3usize, 0u8..8, 0..5usize, 0..4usize, 0..12u64, 0..2u32).prop_map(
        |(sm, what, operator, semantics, line, value)| Step { sm, what, operator, semantics, line, value },
    );
    prop::collection::vec(one, 1..120)
}

const LOADS: [CacheOp; 5] = [CacheOp::Ca, CacheOp::Cg, CacheOp::Cs, CacheOp::Lu, CacheOp::Cv];
const STORES: [CacheOp; 5] = [CacheOp::Wb, CacheOp::Cg, CacheOp::Cs, CacheOp::Wt, CacheOp::Wb];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn mem_step_mem_end_mem_evictl1_mem_evictl2_the_machine_does_what_chapter_4_says(
        steps in steps(),
        protocol in prop::sample::select(vec![Protocol::Thesis, Protocol::Fermi, Protocol::Volta, Protocol::Tesla]),
        local in any::<bool>(),
    ) {
        // Threads of several SMs have no local memory in common.
        let sms = if local { 1 } else { 3 };
        let space = if local { StateSpace::Local } else { StateSpace::Global };
        let mut machine = Machine::one_partition(protocol, sms);
        machine.space = space;
        let mut literal = Environment {
            l1: (0..sms).map(|_| Cache::new(2, 2)).collect(),
            l2: Cache::new(4, 2),
            memory: BTreeMap::new(),
        };
        for step in steps {
            let sm = step.sm % sms;
            let what = match step.what {
                0..4 => What::Load,
                4..6 => What::Store,
                6 if !local => What::Add,
                7 if !local => What::Fence,
                _ => What::Store,
            };
            let operator = if matches!(what, What::Load) { LOADS[step.operator] } else { STORES[step.operator] };
            let semantics = [Semantics::Weak, Semantics::Volatile, Semantics::Relaxed, Semantics::Acquire][step.semantics];
            let semantics = match (what, semantics) {
                // Stores do not acquire; local memory has no semantics but volatile.
                (What::Store, Semantics::Acquire) => Semantics::Release,
                (_, other) => other,
            };
            let semantics = if local && semantics != Semantics::Volatile { Semantics::Weak } else { semantics };
            machine.semantics = semantics;
            machine.scope = Scope::Gpu;
            let kind = match what {
                What::Load => AccessKind::Load,
                What::Store => AccessKind::Store,
                _ => AccessKind::Atomic { op: AtomicOp::Add, ty: ScalarType::U32, returns: true },
            };
            let operation = match what {
                What::Fence => Operation::fence(Scope::Gpu),
                _ => Operation::of(kind, space, operator, semantics, Scope::Gpu),
            };
            let name = operation.program(protocol);
            let text = TEXTS.iter().find(|(shipped, _)| *shipped == name).map(|(_, text)| *text);
            let program = parse(text.expect("shipped")).expect("it parses");
            let address = common::BASE + step.line * 128;
            let mut instance = Instance {
                sm,
                address,
                data: std::array::from_fn(|lane| step.value + lane as u32),
                value: [0; 32],
                pinned: [false; 2],
                to_registers: None,
                ended: false,
            };
            literal.run(&program, &mut instance);
            prop_assert!(instance.ended, "{} has an end", name);
            let addresses = std::array::from_fn(|lane| address + 4 * lane as u64);
            if let What::Fence = what {
                machine.fence(sm, Scope::Gpu);
            } else {
                let id = machine.start(sm, what, operator, u32::MAX, addresses, step.value);
                machine.drain();
                if let Some(expected) = instance.to_registers {
                    let got: Line = std::array::from_fn(|lane| machine.word(sm, id, lane));
                    prop_assert_eq!(got, expected, "{:?} of line {} by {}", what, step.line, name);
                }
            }
            let l1 = machine.sms[sm].stats().l1;
            prop_assert_eq!((l1.hits, l1.misses), (literal.l1[sm].hits, literal.l1[sm].misses), "L1 after {}", name);
            let l2 = machine.partitions[0].stats().l2;
            prop_assert_eq!((l2.hits, l2.misses), (literal.l2.hits, literal.l2.misses), "L2 after {}", name);
        }
    }
}
