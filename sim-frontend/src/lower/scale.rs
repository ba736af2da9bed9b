//! Addresses of shared memory that the access itself multiplies: machine code of compute capability 7.0 to 8.9 has forms of
//! LDS, STS and ATOMS whose register counts elements of 4, 8 or 16 bytes (`[R6.X4+0x800]`). A shift to the left by a constant
//! goes where nothing but such accesses reads what it gives.

use super::ir::{Func, Inst, Operand, PredOperand, Reg};
use super::work::count;
use crate::isa::Root;
use crate::program::{Extra, OpClass};
use sim_memory::vocabulary::{ScalarType, StateSpace};

/// Where an instruction stands: its block and its place in it.
type Place = (usize, usize);

/// What is known of a register over the whole function.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// Instructions that write it, two for more.
    writes: u8,
    /// The first of them.
    at: Place,
    /// Something reads it besides addresses that can be multiplied.
    elsewhere: bool,
}

/// Lets accesses multiply their addresses; returns how many do. What nobody reads any more stays.
pub fn scale(func: &mut Func) -> u32 {
    let candidate = |inst: &Inst| address(inst).is_some();
    if func.injected_by_hand || !func.blocks.iter().flat_map(|block| &block.insts).any(candidate) {
        return 0;
    }
    let mut seen = vec![Seen::default(); func.regs.len()];
    for fixed in func.fixed().into_iter().flatten() {
        seen[fixed as usize] = Seen { writes: 2, at: (0, 0), elsewhere: true };
    }
    for (b, block) in func.blocks.iter().enumerate() {
        for (i, inst) in block.all().enumerate() {
            count(1);
            inst.for_writes(|reg| {
                let seen = &mut seen[reg as usize];
                if seen.writes == 0 {
                    seen.at = (b, i);
                }
                seen.writes = (seen.writes + 1).min(2);
            });
            let mut once = address(inst);
            inst.for_reads(|reg| {
                // Read as its address, and as nothing else.
                let as_address = once == Some(reg);
                once = if as_address { None } else { once };
                seen[reg as usize].elsewhere |= !as_address;
            });
        }
    }
    // What is written once, where all that follows comes by: in the first block, or in the block of the access.
    let before = |of: Seen, at: Place| of.writes == 1 && of.at < at && (of.at.0 == 0 || of.at.0 == at.0);
    // By register: what is shifted, and by how much.
    let mut shifts: Vec<Option<(Reg, u8)>> = vec![None; func.regs.len()];
    for (b, block) in func.blocks.iter().enumerate() {
        for (i, inst) in block.insts.iter().enumerate() {
            if let Some((to, from, by)) = shift(inst)
                && seen[to as usize].writes == 1
                && !seen[to as usize].elsewhere
                && before(seen[from as usize], (b, i))
            {
                shifts[to as usize] = Some((from, by));
            }
        }
    }
    // All accesses by a register, or none.
    for (b, block) in func.blocks.iter().enumerate() {
        for (i, inst) in block.insts.iter().enumerate() {
            if let Some(reg) = address(inst)
                && !before(seen[reg as usize], (b, i))
            {
                shifts[reg as usize] = None;
            }
        }
    }
    let mut scaled = 0;
    for inst in func.blocks.iter_mut().flat_map(|block| &mut block.insts) {
        if let Some(reg) = address(inst)
            && let Some((from, by)) = shifts[reg as usize]
            && let Extra::Memory(facts) = &mut inst.extra
        {
            facts.scale = by;
            inst.src[0] = Operand::Reg(from);
            scaled += 1;
        }
    }
    scaled
}

/// The register of an address that can be multiplied.
fn address(inst: &Inst) -> Option<Reg> {
    let Extra::Memory(facts) = &inst.extra else { return None };
    let access = matches!(inst.class, OpClass::Load | OpClass::Store | OpClass::Atomic);
    let fits = access
        && facts.space == StateSpace::Shared
        && !facts.address_64
        && !facts.cluster
        && facts.scale == 0;
    match inst.src[0] {
        Operand::Reg(reg) if fits => Some(reg),
        _ => None,
    }
}

/// A shift by 2, 3 or 4: the register that it writes, what it shifts, and by how much.
fn shift(inst: &Inst) -> Option<(Reg, Reg, u8)> {
    let plain = inst.class == OpClass::Data
        && (inst.form.root, inst.form.ty) == (Root::Shl, ScalarType::B32)
        && inst.guard == PredOperand::Const(true);
    match (inst.dst[0], inst.src[0], inst.src[1]) {
        (Operand::Reg(to), Operand::Reg(from), Operand::Const { bits: by @ 2..=4, .. })
            if plain && to != from =>
        {
            Some((to, from, by as u8))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
