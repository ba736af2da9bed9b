//! Registers of the programs that an instruction of PTX stands for. Machine code has no division, no square root and no product of
//! 64-bit integers: what NVIDIA's assembler writes for them, in line or as a function that is called where operands are out of the
//! ordinary, holds values of its own beside the operands.

use super::ir::{Func, Inst, Reg};
use super::liveness::{Live, RegSet};
use super::work::count;
use crate::form::{Accuracy, Half};
use crate::isa::Root;
use sim_memory::vocabulary::ScalarType;

/// How machine code multiplies integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Products {
    /// 16 bits by 16 at a time, to a word (compute capability 5.0 to 6.2).
    Parts,
    /// A word by a word, to a pair (7.0).
    Words,
}

/// 32-bit registers that are in use within an instruction besides those of its operands and of what outlives it, in code of ptxas for
/// sm_52, and for sm_75, sm_80 and sm_90: how many more are live at a place of a kernel that does nothing else than in one that
/// adds instead (`nvdisasm -plr`).
pub fn scratch_words(inst: &Inst, products: Products) -> u32 {
    use ScalarType::{F32, F64, S32, S64, U32, U64};
    let mods = &inst.form.mods;
    let near = matches!(mods.accuracy, Some(Accuracy::Approx | Accuracy::Full));
    // As the second, or the first where products are made of parts.
    let or = |parts: u32, words: u32| if products == Products::Parts { parts } else { words };
    match (inst.form.root, inst.form.ty) {
        (Root::Div, F32) if near => 1,
        (Root::Div, F32) => 8,
        (Root::Div, F64) => 12,
        (Root::Div | Root::Rem, U32) => or(5, 3),
        (Root::Div | Root::Rem, S32) => or(7, 5),
        (Root::Div | Root::Rem, U64) => or(13, 11),
        (Root::Div | Root::Rem, S64) => or(15, 14),
        (Root::Rcp, F32 | F64) if !near => 7,
        (Root::Sqrt, F32) if !near => or(4, 5),
        (Root::Sqrt, F64) => 10,
        (Root::Rsqrt, F64) => or(9, 7),
        (Root::Mul | Root::Mad, U64 | S64) => match mods.half {
            Some(Half::Hi) => or(11, 4),
            Some(Half::Lo) => or(8, 2),
            _ => 0,
        },
        (Root::Mul | Root::Mad, U32 | S32) => match mods.half {
            Some(Half::Hi) => or(3, 0),
            Some(Half::Lo) => or(1, 0),
            _ => 0,
        },
        _ => 0,
    }
}

/// Words that are live within such a program, the most of all in a function.
pub fn most_words(func: &Func, products: Products) -> u32 {
    let words = |inst: &Inst| scratch_words(inst, products);
    // The frame's registers lie in rows of their own.
    let fixed = func.fixed();
    let words_of = |reg: Reg| if fixed.contains(&Some(reg)) { 0 } else { func.words(reg) };
    let live = Live::new(func);
    let mut set = RegSet::new(func.regs.len());
    let mut most = 0;
    for (b, block) in func.blocks.iter().enumerate() {
        if !block.all().any(|inst| words(inst) > 0) {
            continue;
        }
        live.behind(b, &mut set);
        let mut now: u32 = 0;
        live.for_behind(b, |reg| now += words_of(reg));
        let list: Vec<&Inst> = block.all().collect();
        for inst in list.into_iter().rev() {
            count(1);
            let mut change = |reg: Reg, there: bool| {
                let was = set.contains(reg);
                if there {
                    set.insert(reg);
                } else {
                    set.remove(reg);
                }
                match (was, there) {
                    (false, true) => now += words_of(reg),
                    (true, false) => now -= words_of(reg),
                    _ => {}
                }
                now
            };
            // With what it writes, and with what it reads.
            let mut own = 0;
            inst.for_writes(|reg| own = own.max(change(reg, true)));
            inst.for_writes(|reg| {
                change(reg, false);
            });
            inst.for_reads(|reg| own = own.max(change(reg, true)));
            if words(inst) > 0 {
                most = most.max(own + words(inst));
            }
        }
    }
    most
}

#[cfg(test)]
mod tests;
