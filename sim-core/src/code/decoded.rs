//! The decoded form of an operation, one cache line each: what the issue stage needs of it.

use sim_frontend::program::{MAX_SLOTS, Op, OpClass, Pred, Program, Row};
use sim_memory::vocabulary::{Cycle, LaneMask};

use crate::lanes::LaneFn;
use crate::scoreboard::{Readiness, Scoreboard};

/// What an operation must wait for besides its registers [thr-membar].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drain {
    /// Registers only.
    None,
    /// Until the lanes' accesses are performed at block level.
    Block,
    /// Until the lanes' accesses, and the writes that the block has begun, are performed at device level.
    Device,
    /// Until the lanes' volatile accesses are performed at device level and their acquires are complete.
    Volatile,
    /// Until the lanes' acquires are complete.
    Acquires,
    /// Until registers are written that do not fit among the slots.
    Fragments,
    /// Until the asynchronous copies of the lanes have arrived, except those of this many newest groups;
    /// `None`: all copies.
    Copies(Option<u8>),
    /// Until the bulk copies of the lanes to global memory are over, except those of this many newest groups; true: until
    /// they have read.
    Puts(u8, bool),
}

/// The decoded form of an operation, as the issue stage needs it.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct DecodedOp {
    /// Lane function, for a data operation.
    pub lane: Option<LaneFn>,
    /// The class that selects the pipeline's action.
    pub class: OpClass,
    /// Functional unit class ([`UnitClass`](sim_frontend::isa::UnitClass) as a number).
    pub unit: u8,
    /// Where a split waits for its issue.
    pub queue: Queue,
    /// What else is true of it.
    pub(super) traits: Traits,
    /// The low bits of the number of its line of code, of the machine instruction it begins with; 0 where the chip has no instruction
    /// cache.
    pub line: u16,
    /// What the operation waits for besides its registers.
    pub drain: Drain,
    /// The guard predicate; lanes for which it is false do not execute the operation.
    pub guard: Pred,
    /// Result latency in core cycles.
    pub latency: u16,
    /// Initiation interval in core cycles: the time for which the unit is busy.
    pub initiation: u16,
    /// Number of machine operations that the PTX operation stands for.
    pub machine_operations: u16,
    /// Number of valid entries of `slots`.
    pub slots_used: u8,
    /// Number of written slots, which come first in `slots`.
    pub slots_written: u8,
    /// Scoreboard slots (registers and predicates) written, then those read.
    pub slots: [u16; MAX_SLOTS],
    /// Number of valid entries of `blocking`.
    pub blocking_used: u8,
    /// Slots that a memory operation blocks until `releaseRegs`: the destinations of loads and atomics, the
    /// data of stores. Of one with [`Drain::Fragments`]: where its other slots begin in
    /// [`Program::more_slots`], in two parts, and how many they are.
    pub blocking: [u16; 4],
    /// Address before transformation 6, as used by the shadow pcs.
    pub base_pc: u32,
}

/// Where a split waits for the issue of an operation: the class of its unit, and whether a run can begin with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Queue(u8);

impl Queue {
    const LEADS: u8 = 128;

    pub(super) fn new(unit: u8, leads: bool) -> Self {
        Self(unit | if leads { Self::LEADS } else { 0 })
    }

    /// The class of the unit.
    #[inline(always)]
    pub fn unit(self) -> usize {
        usize::from(self.0 & !Self::LEADS)
    }

    /// The operation and the next one are quick, and the next one does not wait for its results.
    #[inline(always)]
    pub fn leads(self) -> bool {
        self.0 & Self::LEADS != 0
    }
}

/// What is true of an operation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traits(u8);

impl Traits {
    /// It is injected by transformation 6.
    pub(super) const INJECTED: Self = Self(1);
    /// It is counted as a control instruction: injected, or written in the papers' dialect.
    pub(super) const BOOKKEEPING: Self = Self(2);
    /// It is a load or store of one word a lane in shared memory.
    pub(super) const WORDS: Self = Self(4);
    /// Its guard is the negation of the source instruction's: the source branch is taken by the threads for which it is false.
    pub(super) const INVERTED: Self = Self(8);
    /// It is a quick one.
    pub(super) const QUICK: Self = Self(16);

    /// These and, if `also`, others.
    pub(super) fn and(self, others: Self, also: bool) -> Self {
        if also { Self(self.0 | others.0) } else { self }
    }

    /// True if all of these are.
    #[inline(always)]
    fn are(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }
}

const _: () = assert!(size_of::<DecodedOp>() == 64, "one cache line of the host");

impl DecodedOp {
    /// True if the operation can be dual-issued with another instruction of its warp.
    pub fn pairs(&self) -> bool {
        let access = matches!(self.class, OpClass::Load | OpClass::Store | OpClass::LoadParam);
        self.lane.is_some() || access && matches!(self.drain, Drain::None)
    }

    /// True if injected by transformation 6.
    #[inline(always)]
    pub fn injected(&self) -> bool {
        self.traits.are(Traits::INJECTED)
    }

    /// True if counted as a control instruction.
    #[inline(always)]
    pub fn bookkeeping(&self) -> bool {
        self.traits.are(Traits::BOOKKEEPING)
    }

    /// True if the operation is a load or store of one word a lane in shared memory.
    #[inline(always)]
    pub fn words(&self) -> bool {
        self.traits.are(Traits::WORDS)
    }

    /// True if the source branch is taken by the threads for which its guard is false.
    #[inline(always)]
    pub fn inverted(&self) -> bool {
        self.traits.are(Traits::INVERTED)
    }

    /// True if it is a data operation of one cycle, and the next one is of its line of code and waits for its slots only.
    #[inline(always)]
    pub fn quick(&self) -> bool {
        self.traits.are(Traits::QUICK)
    }

    /// When it can issue for `lanes` as far as its slots are concerned, not before `earliest`.
    #[inline(always)]
    pub fn readiness(&self, board: &Scoreboard, lanes: LaneMask, earliest: Cycle) -> Readiness {
        board.readiness_of(&self.slots, self.slots_used, lanes, earliest)
    }

    /// Its results are ready at `ready`.
    #[inline(always)]
    pub fn write(&self, board: &mut Scoreboard, lanes: LaneMask, now: Cycle, ready: Cycle) {
        match self.slots_written {
            1 => board.write_one(self.slots[0], lanes, now, ready),
            _ => board.write(self.written(), lanes, now, ready),
        }
    }

    /// True if the operation may change control flow.
    #[inline]
    pub fn control(&self) -> bool {
        self.class.effects().control
    }

    /// All slots written or read.
    #[inline]
    pub fn slots(&self) -> &[u16] {
        &self.slots[..usize::from(self.slots_used)]
    }

    /// The slots written.
    #[inline]
    pub fn written(&self) -> &[u16] {
        &self.slots[..usize::from(self.slots_written)]
    }

    /// The slots that a memory operation blocks.
    #[inline]
    pub fn blocking(&self) -> &[u16] {
        &self.blocking[..usize::from(self.blocking_used)]
    }
}

/// The slots of `op`, behind them the one that is never pending.
pub(super) fn padded(op: &Op, program: &Program) -> [u16; MAX_SLOTS] {
    let mut slots = op.slots;
    if let Some(rest) = slots.get_mut(usize::from(op.slots_used)..) {
        rest.fill(program.registers + program.predicates);
    }
    slots
}

/// The slots that `op` blocks while its access is in flight.
pub(super) fn blocking_of(op: &Op) -> ([u16; 4], u8) {
    let mut slots = [0; 4];
    let mut used = 0;
    let mut push = |slot: u16| {
        if let Some(free) = slots.get_mut(used) {
            *free = slot;
            used += 1;
        }
    };
    match op.class {
        OpClass::Load | OpClass::Atomic | OpClass::Texture => {
            op.slots[..usize::from(op.slots_written)].iter().for_each(|&slot| push(slot));
        }
        OpClass::Store => op.src[1..]
            .iter()
            .filter(|row| row.is_some() && row.0 < Row::CONST)
            .map(|row| row.0)
            .filter(|slot| op.slots[..usize::from(op.slots_used)].contains(slot))
            .for_each(push),
        _ => {}
    }
    (slots, used as u8)
}
