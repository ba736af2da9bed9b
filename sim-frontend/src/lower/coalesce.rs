//! Where a function needs more registers than a thread may have, a copy and what it copies become one register, if
//! never both are needed with different values (Chaitin 1982): compilers write what goes round a loop as a copy at its
//! end, and leave it to the assembler to do without.

use super::ir::{Func, Inst, Operand, PredOperand, Reg, Width};
use super::liveness::{Live, RegSet};
use super::work::count;
use crate::isa::Root;
use crate::program::OpClass;

/// Rounds at most: each joins a register with one other.
const ROUNDS: u32 = 3;

/// Joins copies with what they copy.
pub fn coalesce(func: &mut Func) {
    if func.injected_by_hand {
        // Its control flow leads where the graph does not say.
        return;
    }
    for _ in 0..ROUNDS {
        let mut partner = partners(func);
        if partner.iter().all(Option::is_none) {
            return;
        }
        keep_apart(func, &mut partner);
        // The smaller number stays.
        let name = |reg: Reg| partner[reg as usize].map_or(reg, |other| other.min(reg));
        if (0..func.regs.len() as Reg).all(|reg| name(reg) == reg) {
            return;
        }
        for block in &mut func.blocks {
            for inst in block.all_mut() {
                count(1);
                let sources = inst.src.iter_mut().chain(&mut inst.fragments);
                for operand in sources.chain(&mut inst.dst).chain(&mut inst.results) {
                    if let Operand::Reg(reg) = operand {
                        *reg = name(*reg);
                    }
                }
            }
            block.insts.retain(|inst| copy(inst).is_none_or(|(to, from)| to != from));
        }
    }
}

/// What a plain copy writes and reads.
fn copy(inst: &Inst) -> Option<(Reg, Reg)> {
    let (Operand::Reg(to), Operand::Reg(from)) = (inst.dst[0], inst.src[0]) else { return None };
    let alone = inst.dst[1..].iter().chain(&inst.src[1..]).all(|operand| *operand == Operand::None);
    let plain = inst.class == OpClass::Data && inst.form.root == Root::Mov && alone;
    (plain && inst.guard == PredOperand::Const(true)).then_some((to, from))
}

/// For each register the one that it may be joined with: of several the first.
fn partners(func: &Func) -> Vec<Option<Reg>> {
    let mut partner = vec![None; func.regs.len()];
    let fixed = func.fixed();
    for inst in func.blocks.iter().flat_map(|block| &block.insts) {
        count(1);
        let Some((to, from)) = copy(inst) else { continue };
        let width = func.regs[to as usize];
        let apart = to == from || width != func.regs[from as usize] || width == Width::Pred;
        if apart || fixed.contains(&Some(to)) || fixed.contains(&Some(from)) {
            continue;
        }
        if partner[to as usize].is_none() && partner[from as usize].is_none() {
            (partner[to as usize], partner[from as usize]) = (Some(from), Some(to));
        }
    }
    partner
}

/// Parts those of which one is written while the other is needed.
fn keep_apart(func: &Func, partner: &mut [Option<Reg>]) {
    let part = |partner: &mut [Option<Reg>], reg: Reg| {
        if let Some(other) = partner[reg as usize].take() {
            partner[other as usize] = None;
        }
    };
    let across = Live::new(func);
    let mut live = RegSet::new(func.regs.len());
    let mut written = Vec::new();
    for (b, block) in func.blocks.iter().enumerate() {
        across.behind(b, &mut live);
        for inst in block.last().into_iter().chain(block.insts.iter().rev()) {
            count(1);
            written.clear();
            inst.for_writes(|reg| written.push(reg));
            for reg in &written {
                let Some(other) = partner[*reg as usize] else { continue };
                let between = copy(inst).is_some_and(|(to, from)| to == *reg && from == other);
                if (live.contains(other) && !between) || written.contains(&other) {
                    part(partner, *reg);
                }
            }
            live.step_back(inst);
        }
    }
    // What nobody has written has the value that it has, each its own.
    if !func.blocks.is_empty() {
        live.clear();
        across.for_before(0, |reg| {
            live.insert(reg);
        });
        for reg in 0..func.regs.len() as Reg {
            if live.contains(reg) && partner[reg as usize].is_some_and(|other| live.contains(other)) {
                part(partner, reg);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::chip::AssemblerSpec;
    use crate::diagnostic::Source;
    use crate::load::{Assembler, Module};
    use crate::program::{ControlFlow, Program};

    /// `sums` that go round a loop, each copied at its end; `beside` is what is done between.
    fn program(sums: u32, beside: &str, registers: u32) -> std::sync::Arc<Program> {
        let each = |f: &dyn Fn(u32) -> String| (0..sums).map(f).collect::<String>();
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n.reg .b32 %r<299>;\n\
             .reg .u64 %rd<3>;\n.reg .pred %p;\nld.param.u64 %rd1, [p];\nmov.u32 %r0, %tid.x;\n{}loop:\n{}{beside}{}\
             add.u32 %r0, %r0, 1;\nsetp.lt.u32 %p, %r0, 99;\n@%p bra loop;\n{}ret;\n}}\n",
            each(&|i| format!("add.u32 %r{}, %r0, {i};\n", 10 + i)),
            each(&|i| format!("mad.lo.u32 %r{}, %r{}, %r0, {i};\n", 110 + i, 10 + i)),
            each(&|i| format!("mov.u32 %r{}, %r{};\n", 10 + i, 110 + i)),
            each(&|i| format!("st.global.u32 [%rd1+{}], %r{};\n", 4 * i, 10 + i)),
        );
        let module = Module::build(&Source::new("c.ptx", &text), false);
        let module = module.unwrap_or_else(|e| panic!("{}", e[0].render()));
        let assembler = Assembler {
            stack_bytes: 1024,
            registers,
            passes: AssemblerSpec { clean_up: true, ..AssemblerSpec::default() },
        };
        let program = module.program_for("k", &|_| Some(0), ControlFlow::Injected, assembler);
        program.unwrap_or_else(|e| panic!("{}", e[0].render()))
    }

    #[test]
    fn what_goes_round_a_loop_takes_one_register() {
        let whole = program(40, "", u32::MAX);
        assert!(whole.registers_per_thread > 80, "{}", whole.registers_per_thread);
        let tight = program(40, "", 48);
        assert!(tight.registers_per_thread <= 48, "{}", tight.registers_per_thread);
        assert_eq!(tight.local_bytes, 0, "{:?}", tight.notes);
        assert!(tight.ops.len() + 40 <= whole.ops.len(), "{} {}", tight.ops.len(), whole.ops.len());
    }

    #[test]
    fn what_is_needed_beside_its_copy_keeps_its_register() {
        // The old values are read after the new ones are there.
        let beside: String = (0..40).map(|i| format!("add.u32 %r1, %r1, %r{};\n", 10 + i)).collect();
        let tight = program(40, &beside, 48);
        assert!(tight.local_bytes > 0, "{:?}", tight.notes);
    }
}
