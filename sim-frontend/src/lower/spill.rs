//! Spilling: where a function needs more registers than a thread may have, values lie in its frame
//! and are loaded and stored where they are used, as a compiler does it.

use sim_memory::vocabulary::ScalarType;

use super::ir::{Func, Inst, Operand, PredOperand, Reg, Width};
use super::linear_scan::assign;
use super::liveness::{live_out, step_back};
use super::tf3_stack::frame_access;
use crate::program::OpClass;

/// 32-bit rows a register takes.
fn words(width: Width) -> u32 {
    match width {
        Width::Pred => 0,
        Width::Pair => 2,
        Width::Half | Width::Word => 1,
    }
}

/// What is stored of a register: a half takes a word.
fn stored(width: Width) -> ScalarType {
    if width == Width::Pair { ScalarType::B64 } else { ScalarType::B32 }
}

/// `func` as it needs at most `rows` rows, the first `first_row` of them not its own; values that find
/// none lie in the frame from `offset` on. With the bytes they take; `None` where it cannot be done.
pub fn spill(func: &Func, rows: u16, first_row: u16, offset: u32) -> Option<(Func, u32)> {
    let mut func = func.clone();
    let mut at = offset;
    let own = func.regs.len();
    let mut fixed: Vec<bool> = vec![false; own];
    for reg in [func.stack_base, func.taken, func.carry].into_iter().flatten() {
        fixed[reg as usize] = true;
    }
    for inst in func.blocks.iter().flat_map(|block| block.all()) {
        // The frame has moved where a call reads its target.
        let call = inst.class == OpClass::CallIndirect;
        // A store behind it would see the guard that it writes.
        let own_guard = matches!(inst.guard, PredOperand::Reg(p, _)
            if inst.pdst.iter().any(|d| matches!(d, PredOperand::Reg(q, _) if *q == p)));
        for operand in inst.src.iter().filter(|_| call).chain(inst.dst.iter().filter(|_| own_guard)) {
            if let Operand::Reg(reg) = operand {
                fixed[*reg as usize] = true;
            }
        }
    }
    loop {
        let needed = assign(&func, first_row, 0).ok()?.rows;
        if needed <= rows {
            return Some((func, at - offset));
        }
        fixed.resize(func.regs.len(), true);
        let chosen = choose(&func, &fixed, u32::from(needed - rows));
        if chosen.is_empty() {
            return None;
        }
        for reg in chosen {
            let ty = stored(func.regs[reg as usize]);
            at = at.next_multiple_of(ty.bytes());
            keep_in_frame(&mut func, reg, at, ty);
            at += ty.bytes();
            fixed[reg as usize] = true;
        }
    }
}

/// Registers that are live where most are, the least used ones, of `excess` words together.
fn choose(func: &Func, fixed: &[bool], excess: u32) -> Vec<Reg> {
    let mut uses = vec![0u32; func.regs.len()];
    for inst in func.blocks.iter().flat_map(|block| block.all()) {
        inst.for_reads(|reg| uses[reg as usize] += 1);
        inst.for_writes(|reg| uses[reg as usize] += 1);
    }
    let mut most: (u32, Vec<Reg>) = (0, Vec::new());
    for (block, out) in func.blocks.iter().zip(live_out(func)) {
        let mut live = out;
        let insts: Vec<&Inst> = block.all().collect();
        for inst in insts.into_iter().rev() {
            step_back(&mut live, inst);
            let pressure = live.iter().map(|reg| words(func.regs[reg as usize])).sum();
            if pressure > most.0 {
                most = (pressure, live.iter().collect());
            }
        }
    }
    let mut candidates: Vec<Reg> = most
        .1
        .into_iter()
        .filter(|reg| !fixed[*reg as usize] && words(func.regs[*reg as usize]) > 0)
        .collect();
    candidates.sort_by_key(|reg| (uses[*reg as usize], *reg));
    let mut left = excess as i64;
    candidates
        .into_iter()
        .take_while(|reg| {
            let more = left > 0;
            left -= i64::from(words(func.regs[*reg as usize]));
            more
        })
        .collect()
}

/// Every use of `reg` becomes one of a register of its own, loaded before or stored after.
fn keep_in_frame(func: &mut Func, reg: Reg, at: u32, ty: ScalarType) {
    let (base, width) = (func.stack_base, func.regs[reg as usize]);
    let regs = &mut func.regs;
    let mut fresh = || {
        regs.push(width);
        (regs.len() - 1) as Reg
    };
    let is = |operand: &Operand| *operand == Operand::Reg(reg);
    for block in &mut func.blocks {
        let mut out = Vec::with_capacity(block.insts.len());
        for mut inst in block.insts.drain(..) {
            if inst.src.iter().any(is) {
                let own = fresh();
                out.push(frame_access(&inst, false, base, at, Operand::Reg(own), ty));
                inst.src.iter_mut().filter(|o| is(o)).for_each(|o| *o = Operand::Reg(own));
            }
            let store = inst.dst.iter().any(is).then(|| {
                let own = fresh();
                inst.dst.iter_mut().filter(|o| is(o)).for_each(|o| *o = Operand::Reg(own));
                frame_access(&inst, true, base, at, Operand::Reg(own), ty)
            });
            out.push(inst);
            out.extend(store);
        }
        if let Some(last) = block.end.inst_mut()
            && last.src.iter().any(is)
        {
            let own = fresh();
            out.push(frame_access(last, false, base, at, Operand::Reg(own), ty));
            last.src.iter_mut().filter(|o| is(o)).for_each(|o| *o = Operand::Reg(own));
        }
        block.insts = out;
    }
}

#[cfg(test)]
mod tests {
    use crate::diagnostic::Source;
    use crate::load::{Assembler, Module};
    use crate::program::{ControlFlow, OpClass};

    /// Eight values live at once, one of them of 64 bits, one written under a guard.
    const TEXT: &str = ".version 6.0\n.target sm_30\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n\
        .reg .u32 %r<9>;\n.reg .u64 %rd<3>;\n.reg .pred %p;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\n\
        add.u32 %r2, %r1, 1;\nadd.u32 %r3, %r1, 2;\nadd.u32 %r4, %r1, 3;\nadd.u32 %r5, %r1, 4;\nadd.u32 %r6, %r1, 5;\n\
        setp.eq.u32 %p, %r1, 7;\n@%p add.u32 %r4, %r4, 9;\n\
        add.u32 %r7, %r2, %r3;\nadd.u32 %r7, %r7, %r4;\nadd.u32 %r7, %r7, %r5;\nadd.u32 %r7, %r7, %r6;\n\
        add.u32 %r7, %r7, %r1;\nst.global.u32 [%rd1], %r7;\nret;\n}\n";

    #[test]
    fn values_that_find_no_register_lie_in_the_frame() {
        let module = Module::build(&Source::new("s.ptx", TEXT), false);
        let module = module.unwrap_or_else(|e| panic!("{}", e[0].render()));
        let program = |registers| {
            let assembler = Assembler { stack_bytes: 1024, registers, clean_up: false };
            let program = module.program_for("k", &|_| Some(0), ControlFlow::Injected, assembler);
            program.unwrap_or_else(|e| panic!("{}", e[0].render()))
        };
        let local = |program: &crate::program::Program| {
            let stores = program.ops.iter().filter(|op| op.class == OpClass::Store).count() - 1;
            let loads = program.ops.iter().filter(|op| op.class == OpClass::Load).count();
            (stores, loads)
        };
        let whole = program(u32::MAX);
        assert_eq!((local(&whole), whole.local_bytes), ((0, 0), 0));
        let tight = program(6);
        assert!(tight.registers_per_thread <= 6, "{}", tight.registers_per_thread);
        let (stores, loads) = local(&tight);
        assert!(stores > 0 && loads > 0 && tight.local_bytes >= 4, "{stores} {loads}");
        assert!(tight.notes.iter().any(|note| note.contains("local memory")));
        // What one instruction needs at once is the least.
        assert!(program(2).registers_per_thread > 2);
    }
}
