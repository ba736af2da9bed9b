//! What is done behind a branch whichever way it goes is done in front of it, as NVIDIA's assembler does: where the ways of a
//! branch meet again behind one basic block each at most, which may repeat itself, instructions of the block where they meet that
//! need nothing of what lies between move up, but not past a reading of the clock. Loads do where threads of a warp may go
//! different ways, and where nothing between them stores (code of ptxas 12.9 for sm_52 to sm_90).

use super::ir::{BlockId, Func, Inst, PredOperand, Terminator};
use super::liveness::{Live, RegSet};
use super::uniform::uniform_branches;
use super::work::count;
use crate::isa::Root;
use crate::program::{Extra, OpClass};
use sim_memory::vocabulary::Semantics;

/// Moves instructions in front of branches; returns how many. `words`: those that may be live where a branch is; what arms need
/// besides is not looked at.
pub fn hoist(func: &mut Func, words: u32) -> u32 {
    if func.injected_by_hand {
        return 0;
    }
    let ways_in = func.ways_in();
    let meets: Vec<(BlockId, Vec<BlockId>, BlockId)> =
        (0..func.blocks.len()).filter_map(|b| meet(func, b, &ways_in)).collect();
    if meets.is_empty() {
        return 0;
    }
    let uniform = uniform_branches(func);
    let live = Live::new(func);
    let mut moved = 0;
    for (b, arms, meet) in meets {
        let mut room = i64::from(words);
        live.for_behind(b, |reg| room -= i64::from(func.words(reg)));
        let mut between = Between::new(func, b, &arms, !uniform[b]);
        let insts = std::mem::take(&mut func.blocks[meet].insts);
        let (mut up, mut stays) = (Vec::new(), Vec::new());
        for inst in insts {
            count(1);
            let mut needs = 0;
            inst.for_writes(|reg| needs += i64::from(func.words(reg)));
            if between.lets_pass(&inst) && needs <= room {
                room -= needs;
                up.push(inst);
            } else {
                between.stays(&inst);
                stays.push(inst);
            }
        }
        moved += up.len() as u32;
        func.blocks[meet].insts = stays;
        func.blocks[b].insts.append(&mut up);
    }
    moved
}

/// The instructions of a block behind a branch that need nothing of what lies between.
pub(super) fn passing<'f>(
    func: &'f Func,
    b: BlockId,
    arms: &[BlockId],
    meet: BlockId,
    loads: bool,
) -> impl Iterator<Item = &'f Inst> {
    let mut between = Between::new(func, b, arms, loads);
    func.blocks[meet].insts.iter().filter(move |inst| {
        let passes = between.lets_pass(inst);
        if !passes {
            between.stays(inst);
        }
        passes
    })
}

/// The blocks of the arms of a block's branch, and where they meet; nothing else leads there.
fn meet(func: &Func, b: BlockId, ways_in: &[u32]) -> Option<(BlockId, Vec<BlockId>, BlockId)> {
    let Terminator::Branch(_, taken, next) = &func.blocks[b].end else { return None };
    let (taken, next) = (*taken, *next);
    let (arms, meet) = match (arm(func, next, ways_in), arm(func, taken, ways_in)) {
        (Some((arm, meet)), _) if meet == taken => (arm, meet),
        (_, Some((arm, meet))) if meet == next => (arm, meet),
        (Some((mut arm, meet)), Some((other, same))) if meet == same => {
            arm.extend(other);
            (arm, meet)
        }
        _ => return None,
    };
    let apart = taken != next && meet != b && !arms.contains(&b) && !arms.contains(&meet);
    (apart && ways_in[meet] == 2).then_some((b, arms, meet))
}

/// An arm that begins with a block, and what is behind it: one block that does something, maybe again and again, and empty ones
/// around it.
fn arm(func: &Func, first: BlockId, ways_in: &[u32]) -> Option<(Vec<BlockId>, BlockId)> {
    let repeats =
        |at: BlockId| matches!(func.blocks[at].end, Terminator::Branch(_, to, on) if to == at || on == at);
    let has_one_way_in = |at: BlockId| ways_in[at] == 1 + u32::from(repeats(at));
    let is_empty = |at: BlockId| func.blocks[at].insts.is_empty() && !repeats(at);
    if !has_one_way_in(first) {
        return None;
    }
    let (mut blocks, mut at) = (vec![first], first);
    loop {
        count(1);
        let to = match func.blocks[at].end {
            Terminator::Jump(_, to) => to,
            Terminator::Branch(_, to, on) if to == at => on,
            Terminator::Branch(_, to, on) if on == at => to,
            _ => return None,
        };
        let goes_on = has_one_way_in(to) && (is_empty(to) || blocks.iter().all(|block| is_empty(*block)));
        if !goes_on || blocks.contains(&to) {
            return Some((blocks, to));
        }
        blocks.push(to);
        at = to;
    }
}

/// What lies between a place in front of a branch and one behind it.
struct Between {
    written: RegSet,
    read: RegSet,
    /// Loads may pass.
    loads: bool,
    /// Nothing passes any more: clocks, what orders or converts registers that it does not name, calls, ends of threads.
    closed: bool,
}

impl Between {
    /// The branch of a block, and its arms.
    fn new(func: &Func, b: BlockId, arms: &[BlockId], loads: bool) -> Self {
        let regs = func.regs.len();
        let mut between = Self { written: RegSet::new(regs), read: RegSet::new(regs), loads, closed: false };
        for fixed in func.fixed().into_iter().flatten() {
            between.written.insert(fixed);
        }
        if let Terminator::Branch(branch, ..) = &func.blocks[b].end {
            branch.for_reads(|reg| _ = between.read.insert(reg));
        }
        for inst in arms.iter().flat_map(|arm| func.blocks[*arm].all()) {
            between.names(inst);
            match inst.class {
                OpClass::Data | OpClass::LoadParam | OpClass::Branch => {}
                OpClass::Load if is_weak(inst) => {}
                OpClass::Load | OpClass::Store | OpClass::Atomic | OpClass::Barrier | OpClass::Membar => {
                    between.loads = false;
                }
                _ => between.closed = true,
            }
        }
        between
    }

    fn names(&mut self, inst: &Inst) {
        inst.for_writes(|reg| _ = self.written.insert(reg));
        inst.for_reads(|reg| _ = self.read.insert(reg));
    }

    /// An instruction stays behind the branch.
    fn stays(&mut self, inst: &Inst) {
        self.names(inst);
        match inst.class {
            OpClass::Data | OpClass::LoadParam => {}
            OpClass::Load if is_weak(inst) => {}
            OpClass::Store | OpClass::Load => self.loads = false,
            _ => self.closed = true,
        }
    }

    /// True if an instruction can be executed in front of it all.
    fn lets_pass(&self, inst: &Inst) -> bool {
        let plain = match inst.class {
            // Those are calls, or have branches in them.
            OpClass::Data => !matches!(inst.form.root, Root::Div | Root::Rem | Root::Sqrt | Root::Rcp),
            OpClass::LoadParam => true,
            OpClass::Load => self.loads && is_weak(inst),
            _ => false,
        };
        let mut free = plain && inst.guard == PredOperand::Const(true) && !inst.carries() && !self.closed;
        inst.for_reads(|reg| free &= !self.written.contains(reg));
        inst.for_writes(|reg| free &= !self.written.contains(reg) && !self.read.contains(reg));
        free
    }
}

fn is_weak(inst: &Inst) -> bool {
    matches!(&inst.extra, Extra::Memory(facts) if facts.semantics == Semantics::Weak && !facts.cluster)
}

#[cfg(test)]
mod tests;
