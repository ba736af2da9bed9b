//! Conversions to TF32 of which nothing but products of matrices reads the result. These leave the low bits of A and B out (PTX ISA,
//! "Matrix multiply-accumulate operation using mma instruction", `.tf32`), so that NVIDIA's assembler does not clear them: ptxas
//! 12.9 writes a comparison and the addition that it guards, where it writes a bitwise operation besides for other readers.

use super::ir::{Func, Inst, Operand};
use super::work::count;
use crate::isa::Root;
use crate::matrix::Element;
use crate::program::{Extra, OpClass};
use sim_memory::vocabulary::ScalarType;

/// Marks the conversions; returns how many. Values stay what they were.
pub fn unmask(func: &mut Func) -> u32 {
    let converts = |inst: &Inst| {
        inst.class == OpClass::Data && inst.form.root == Root::Cvt && inst.form.dst == ScalarType::Tf32
    };
    if !func.blocks.iter().flat_map(|block| &block.insts).any(converts) {
        return 0;
    }
    // By register: something else reads it.
    let mut elsewhere = vec![false; func.regs.len()];
    for inst in func.blocks.iter().flat_map(|block| block.all()) {
        count(1);
        // What stands before C.
        let factors = match &inst.extra {
            Extra::Mma(product) if product.matrix.types[1] == Element::Tf32 => {
                let [_, a, b, ..] = product.registers();
                a + b
            }
            _ => 0,
        };
        let (mut products, mut reads) = (vec![], vec![]);
        for operand in &inst.fragments[..factors.min(inst.fragments.len())] {
            if let Operand::Reg(reg) = operand {
                products.push(*reg);
            }
        }
        inst.for_reads(|reg| reads.push(reg));
        for reg in reads {
            match products.iter().position(|product| *product == reg) {
                Some(place) => {
                    products.swap_remove(place);
                }
                None => elsewhere[reg as usize] = true,
            }
        }
    }
    let mut made = 0;
    for inst in func.blocks.iter_mut().flat_map(|block| &mut block.insts).filter(|inst| converts(inst)) {
        if let Operand::Reg(reg) = inst.dst[0]
            && !elsewhere[reg as usize]
        {
            (inst.form.mods.unmasked, inst.opcode) = (true, None);
            made += 1;
        }
    }
    made
}

#[cfg(test)]
mod tests;
