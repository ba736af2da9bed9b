//! Decoded code: a program with what this host and this chip add to it, an operation in a cache line.

use std::sync::Arc;

use sim_frontend::form::BarrierKind;
use sim_frontend::isa_cost::IsaCosts;
use sim_frontend::program::{Extra, MAX_SLOTS, MbarrierOp, Op, OpClass, Pred, Program, Row};
use sim_memory::vocabulary::{Scope, Semantics, StateSpace, WARP_LANES};

use crate::instruction_set::InstructionSet;
use crate::lanes::{self, LaneFn, resolve};
use crate::reconvergence::plan::Plan;
use crate::registers::LaneRow;

/// What an operation waits for besides its registers [thr-membar].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drain {
    /// Nothing.
    None,
    /// Until its lanes' accesses are performed for their block.
    Block,
    /// Until they are performed for the device, and so are the writes its block has begun.
    Device,
    /// Until those of its lanes' accesses that are volatile are performed for the device, and
    /// those that acquire are over.
    Volatile,
    /// Until those of its lanes' accesses that acquire are over.
    Acquires,
    /// Until the copies of all but this many newest groups of its lanes have arrived, or all copies.
    Copies(Option<u8>),
}

/// What the issue stage needs of an operation, dense.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct DecodedOp {
    /// Lane function of a data operation.
    pub lane: Option<LaneFn>,
    /// What the pipeline does.
    pub class: OpClass,
    /// Functional unit class, as a number.
    pub unit: u8,
    /// Made by transformation 6.
    pub injected: bool,
    /// Counts as a control instruction: injected, or written by hand in the papers' dialect.
    pub bookkeeping: bool,
    /// May change control flow.
    pub control: bool,
    /// Its guard is the negation of the source's: threads execute it where it is false.
    pub inverted: bool,
    /// What it waits for.
    pub drain: Drain,
    /// Guard predicate.
    pub guard: Pred,
    /// Cycles until the result can be read.
    pub latency: u16,
    /// Cycles until the unit takes the next operation.
    pub initiation: u16,
    /// Machine operations it stands for.
    pub machine_operations: u16,
    /// Valid entries of `slots`.
    pub slots_used: u8,
    /// Of these, from the front, written ones.
    pub slots_written: u8,
    /// Scoreboard slots: written ones first.
    pub slots: [u16; MAX_SLOTS],
    /// Valid entries of `blocking`.
    pub blocking_used: u8,
    /// Slots a memory operation blocks until `releaseRegs`: destinations of loads and atomics,
    /// data of stores.
    pub blocking: [u16; 4],
    /// Address before transformation 6, as the shadow pcs count.
    pub base_pc: u32,
}

const _: () = assert!(size_of::<DecodedOp>() == 64, "one cache line of the host");

impl DecodedOp {
    /// It can be issued in one cycle with another instruction of its warp.
    pub fn pairs(&self) -> bool {
        let access = matches!(self.class, OpClass::Load | OpClass::Store | OpClass::LoadParam);
        self.lane.is_some() || access && matches!(self.drain, Drain::None)
    }

    /// Slots read or written.
    #[inline]
    pub fn slots(&self) -> &[u16] {
        &self.slots[..usize::from(self.slots_used)]
    }

    /// Slots written.
    #[inline]
    pub fn written(&self) -> &[u16] {
        &self.slots[..usize::from(self.slots_written)]
    }

    /// Slots a memory operation blocks.
    #[inline]
    pub fn blocking(&self) -> &[u16] {
        &self.blocking[..usize::from(self.blocking_used)]
    }
}

/// The slots `op` blocks while its access is in flight.
fn blocking_of(op: &Op) -> ([u16; 4], u8) {
    let mut slots = [0; 4];
    let mut used = 0;
    let mut push = |slot: u16| {
        if let Some(free) = slots.get_mut(used) {
            *free = slot;
            used += 1;
        }
    };
    match op.class {
        OpClass::Load | OpClass::Atomic => {
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

/// A program with what this host and this chip add to it.
#[derive(Debug)]
pub struct Code {
    /// The program as assembled.
    pub program: Arc<Program>,
    /// Its operations as lane functions take them.
    pub ops: Vec<Op>,
    /// DecodedOp facts, one for each operation.
    pub decoded: Vec<DecodedOp>,
    /// The program's constant rows; those of a launch are its kernel's.
    pub consts: Vec<LaneRow>,
    /// Offsets of the words of parameters that are constant rows of a launch.
    parameters: Vec<u32>,
    /// What policies know of it.
    pub plan: Arc<Plan>,
    /// It has fences or releases of device scope, so that writes are counted by block.
    pub publishes: bool,
}

/// Costs of the operations of transformation 6: one issue slot on the control unit.
const INJECTED_LATENCY: u16 = 1;

impl Code {
    /// Resolves lane functions for `isa` and costs by `costs`; loads of parameters at a constant
    /// offset, which are moves of a launch's constant rows here, take `constant_latency`.
    pub fn new(program: Arc<Program>, costs: &IsaCosts, constant_latency: u32, isa: InstructionSet) -> Self {
        let cost_of: Vec<_> = program.forms.iter().map(|form| costs.cost(form)).collect();
        let acquires = program.ops.iter().any(|op| acquires(op.class, &op.extra));
        let lane_of: Vec<_> = program.forms.iter().map(|form| resolve(form, isa)).collect();
        let mut decoded: Vec<DecodedOp> = program
            .ops
            .iter()
            .zip(&program.info)
            .map(|(op, info)| {
                let form = usize::from(op.form);
                let cost = cost_of.get(form);
                let (blocking, blocking_used) = blocking_of(op);
                DecodedOp {
                    lane: lane_of.get(form).copied().flatten().filter(|_| op.class == OpClass::Data),
                    class: op.class,
                    unit: cost.map_or(0, |c| c.unit as u8),
                    injected: info.injected,
                    bookkeeping: info.injected || info.by_hand,
                    control: op.class.effects().control,
                    drain: drain_of(op.class, &op.extra, acquires),
                    inverted: info.inverted,
                    guard: op.guard,
                    latency: if info.injected || info.by_hand {
                        INJECTED_LATENCY
                    } else {
                        cost.map_or(1, |c| c.latency.clamp(1, u32::from(u16::MAX)) as u16)
                    },
                    initiation: if info.injected || info.by_hand {
                        1
                    } else {
                        cost.map_or(1, |c| c.initiation.clamp(1, u32::from(u16::MAX)) as u16)
                    },
                    machine_operations: cost
                        .map_or(1, |c| c.machine_operations.min(u32::from(u16::MAX)) as u16),
                    slots_used: op.slots_used,
                    slots_written: op.slots_written,
                    slots: op.slots,
                    blocking,
                    blocking_used,
                    base_pc: info.base_pc,
                }
            })
            .collect();
        let consts: Vec<LaneRow> = program.consts.iter().map(|row| LaneRow(*row)).collect();
        let mut ops = program.ops.clone();
        for op in &mut ops {
            let form = program.forms.get(usize::from(op.form));
            if let Some(imm) = form.filter(|_| op.class == OpClass::Data).and_then(lanes::immediate) {
                op.imm = imm;
            }
        }
        let mut parameters = Vec::new();
        if let Ok(latency) = u16::try_from(constant_latency) {
            for (op, decoded) in ops.iter_mut().zip(&mut decoded) {
                if let Some((offset, words)) = whole_parameter(op, program.param_bytes)
                    && let Some(row) = parameter_rows(&mut parameters, consts.len(), offset, words)
                {
                    op.src[0] = row;
                    (decoded.lane, decoded.latency) = (lanes::mov_words(words, isa), latency);
                }
            }
        }
        let plan = Arc::new(Plan::new(&program));
        let publishes = decoded.iter().any(|decoded| decoded.drain == Drain::Device);
        Self { program, ops, decoded, consts, parameters, plan, publishes }
    }

    /// The constant rows of a launch with these parameters: the program's, then the words of
    /// parameters.
    pub fn constant_rows(&self, params: &[u8]) -> Box<[LaneRow]> {
        let words = self.parameters.iter().map(|&offset| {
            let bytes = params.get(offset as usize..).and_then(|rest| rest.first_chunk());
            debug_assert!(bytes.is_some(), "a launch has the program's bytes of parameters");
            LaneRow([u32::from_le_bytes(bytes.copied().unwrap_or_default()); WARP_LANES])
        });
        self.consts.iter().copied().chain(words).collect()
    }
}

/// Offset and words of a load of one parameter, whole, by a constant offset, as compilers write it.
fn whole_parameter(op: &Op, param_bytes: u32) -> Option<(u32, u32)> {
    let Extra::Memory(facts) = &op.extra else { return None };
    let bytes = u32::from(facts.element_bytes);
    let whole = op.class == OpClass::LoadParam
        && !op.src[0].is_some()
        && facts.vector == 1
        && u32::from(facts.reg_bits) == 8 * bytes
        && matches!(bytes, 4 | 8);
    let offset = u32::try_from(op.imm).ok().filter(|_| whole)?;
    (offset.checked_add(bytes)? <= param_bytes).then_some((offset, bytes / 4))
}

/// The row of the first of `words` words of parameters at `offset`, behind `consts` others; `None`
/// where rows have no more numbers.
fn parameter_rows(rows: &mut Vec<u32>, consts: usize, offset: u32, words: u32) -> Option<Row> {
    let wanted = (0..words).map(|word| offset + 4 * word);
    let known =
        (0..rows.len()).find(|&at| rows[at..].iter().copied().take(words as usize).eq(wanted.clone()));
    let first = known.unwrap_or(rows.len());
    let row = u16::try_from(consts + first + words as usize).ok().filter(|end| *end < Row::CONST)?;
    if known.is_none() {
        rows.extend(wanted);
    }
    Some(Row(Row::CONST + (row - words as u16)))
}

/// It reads past the SM, and what follows it in program order must be performed after it (PTX ISA
/// "Release and acquire patterns"). Shared memory acts at issue, in order by itself.
pub fn acquires(class: OpClass, extra: &Extra) -> bool {
    match (class, extra) {
        (OpClass::Load | OpClass::Atomic, Extra::Memory(facts)) => {
            matches!(facts.semantics, Semantics::Acquire | Semantics::AcqRel | Semantics::Sc)
                && facts.space != StateSpace::Shared
        }
        _ => false,
    }
}

/// What an operation waits for; `acquires`: its program has accesses that acquire.
fn drain_of(class: OpClass, extra: &Extra, acquires: bool) -> Drain {
    let ordinary = if acquires { Drain::Acquires } else { Drain::None };
    match (class, extra) {
        (OpClass::Barrier, Extra::Barrier { kind, .. }) if *kind != BarrierKind::WarpSync => Drain::Block,
        (OpClass::WarpSync, _) | (OpClass::Membar, Extra::Membar(Scope::Cta)) => Drain::Block,
        (OpClass::Membar, _) => Drain::Device,
        (_, Extra::Mbarrier(MbarrierOp { releases: true, .. }))
        | (_, Extra::ClusterBarrier { releases: true, .. }) => Drain::Block,
        (_, Extra::CopyWait(newest)) => Drain::Copies(*newest),
        (OpClass::Store | OpClass::Atomic, Extra::Memory(facts))
            if matches!(facts.semantics, Semantics::Release | Semantics::AcqRel | Semantics::Sc) =>
        {
            // Only threads of the block meet at an object in shared memory.
            let block = facts.scope == Scope::Cta || facts.space == StateSpace::Shared;
            if block { Drain::Block } else { Drain::Device }
        }
        // Shared memory acts at issue, in order by itself.
        (OpClass::Load | OpClass::Store, Extra::Memory(facts))
            if facts.semantics == Semantics::Volatile && facts.space != StateSpace::Shared =>
        {
            Drain::Volatile
        }
        (OpClass::Load | OpClass::Store | OpClass::Atomic | OpClass::Copy | OpClass::Mbarrier, _) => ordinary,
        _ => Drain::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_parameters_share_rows() {
        let mut rows = Vec::new();
        let mut row =
            |offset, words| parameter_rows(&mut rows, 10, offset, words).map(|row| row.0 - Row::CONST);
        assert_eq!(row(8, 2), Some(10));
        assert_eq!(row(0, 1), Some(12));
        // A word of a pair, the pair again, and a pair whose words are not side by side.
        assert_eq!((row(12, 1), row(8, 2), row(4, 2)), (Some(11), Some(10), Some(13)));
        assert_eq!(rows, [8, 12, 0, 4, 8]);
        // Rows have numbers below the last.
        let last = usize::from(u16::MAX - Row::CONST);
        assert_eq!(parameter_rows(&mut Vec::new(), last - 1, 0, 1).map(|row| row.0), Some(u16::MAX - 1));
        assert_eq!(parameter_rows(&mut Vec::new(), last, 0, 1), None);
    }
}
