//! Where a function needs more registers than a thread may have, instructions move down towards the first use of
//! their results, as an assembler schedules them: compilers write all loads of a step before its products, and leave the
//! order to it. An instruction moves within its block, and only where that makes fewer words live: what it writes is
//! wider than what it would keep alive longer.

use super::ir::{Func, Inst, Operand, PredOperand, Reg};
use super::liveness::Live;
use super::work::count;
use crate::program::{Extra, OpClass};
use sim_memory::vocabulary::{Semantics, StateSpace};

/// Places in a block: that of the instruction numbered `i` is `i * STEP`; one that moves in front of it has one of
/// those before, the earlier the later it is placed.
const STEP: i64 = 1 << 32;

/// Nowhere in the block.
const NEVER: i64 = i64::MAX;

/// Behind the block.
const LATER: i64 = i64::MAX - 1;

/// What is known of a register from some place of a block on.
#[derive(Clone, Copy)]
struct Ahead {
    /// The first place that reads or writes it.
    touched: i64,
    /// The first place that writes it.
    written: i64,
    /// The last place that reads the value that it has; -1 if none does.
    read: i64,
}

const UNKNOWN: Ahead = Ahead { touched: NEVER, written: NEVER, read: -1 };

/// Moves instructions to `ahead` instructions before the first use of what they compute.
pub fn sink(func: &mut Func, ahead: i64) {
    if func.injected_by_hand {
        // Its control flow leads where the graph does not say.
        return;
    }
    let live = Live::new(func);
    let mut known = vec![UNKNOWN; func.regs.len()];
    for b in 0..func.blocks.len() {
        live.for_behind(b, |reg| known[reg as usize].read = LATER);
        let places = places(func, b, ahead, &mut known);
        let mut forget = |reg: Reg| known[reg as usize] = UNKNOWN;
        live.for_behind(b, &mut forget);
        for inst in func.blocks[b].all() {
            inst.for_reads(&mut forget);
            inst.for_writes(&mut forget);
        }
        let mut insts: Vec<_> = places.into_iter().zip(func.blocks[b].insts.drain(..)).collect();
        insts.sort_by_key(|(place, _)| *place);
        func.blocks[b].insts = insts.into_iter().map(|(_, inst)| inst).collect();
    }
}

/// The place of each instruction of a block, the last one first.
fn places(func: &Func, b: usize, ahead: i64, known: &mut [Ahead]) -> Vec<i64> {
    let block = &func.blocks[b];
    let len = block.insts.len() as i64;
    let mut places = vec![0; block.insts.len()];
    let mut front = vec![0u32; block.insts.len() + 1];
    // Past the first, no load of shared memory moves; past the second, nothing.
    let (mut fence, mut wall) = (len * STEP, len * STEP);
    if let Some(last) = block.last() {
        note(last, len * STEP, known);
    }
    for (i, inst) in block.insts.iter().enumerate().rev() {
        count(1);
        let mut place = i as i64 * STEP;
        let loads = is_plain_load(inst);
        let pure = matches!(inst.class, OpClass::Data | OpClass::LoadParam);
        if (pure || loads) && inst.guard == PredOperand::Const(true) {
            let mut until = if loads { fence.min(wall) } else { wall };
            inst.for_writes(|reg| until = until.min(known[reg as usize].touched));
            inst.for_reads(|reg| until = until.min(known[reg as usize].written));
            // The instruction before which it stands then.
            let before = ((until + STEP - 1) / STEP - ahead).max(0) as usize;
            let new = before as i64 * STEP - i64::from(front[before]) - 1;
            if before > i && gain(func, inst, new, known) > 0 {
                front[before] += 1;
                place = new;
            }
        }
        if !(pure || loads || inst.class == OpClass::Mma) {
            fence = place;
        }
        if !may_be_passed(inst) {
            wall = place;
        }
        note(inst, place, known);
        places[i] = place;
    }
    places
}

/// Loads of shared memory that nothing orders but barriers, fences and stores.
fn is_plain_load(inst: &Inst) -> bool {
    match &inst.extra {
        Extra::Memory(memory) => {
            inst.class == OpClass::Load
                && memory.space == StateSpace::Shared
                && memory.semantics == Semantics::Weak
                && !memory.cluster
        }
        Extra::Tiles { .. } => inst.class == OpClass::LoadMatrix,
        _ => false,
    }
}

/// Instructions that others may pass: those that follow no other registers than they name, and belong to no neighbour.
fn may_be_passed(inst: &Inst) -> bool {
    use OpClass as C;
    matches!(
        inst.class,
        C::Data
            | C::LoadParam
            | C::Load
            | C::Store
            | C::Atomic
            | C::Membar
            | C::Hint
            | C::Copy
            | C::Barrier
            | C::Vote
            | C::Shuffle
            | C::Match
            | C::Redux
            | C::Mma
    )
}

/// Notes what an instruction at a place reads and writes.
fn note(inst: &Inst, place: i64, known: &mut [Ahead]) {
    inst.for_writes(|reg| {
        let known = &mut known[reg as usize];
        *known = Ahead { touched: known.touched.min(place), written: known.written.min(place), read: -1 };
    });
    inst.for_reads(|reg| {
        let known = &mut known[reg as usize];
        (known.touched, known.read) = (known.touched.min(place), known.read.max(place));
    });
}

/// How many words fewer are live on the way down to a place.
fn gain(func: &Func, inst: &Inst, place: i64, known: &[Ahead]) -> i64 {
    let own = |reg: Reg| i64::from(func.words(reg));
    let mut gain = 0;
    inst.for_writes(|reg| gain += own(reg));
    let mut seen: [Option<Reg>; 5] = [None; 5];
    for (slot, operand) in inst.src.iter().enumerate() {
        let Operand::Reg(reg) = *operand else { continue };
        if !seen.contains(&Some(reg)) && known[reg as usize].read < place {
            gain -= own(reg);
        }
        seen[slot] = Some(reg);
    }
    gain
}

#[cfg(test)]
mod tests;
