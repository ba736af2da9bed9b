//! Spilling: where a function needs more registers than a thread may have, values lie in its frame
//! and are loaded and stored where they are used, as a compiler does it.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use sim_memory::vocabulary::ScalarType;

use super::coalesce::coalesce;
use super::ir::{Func, Inst, Operand, PredOperand, Reg, Width};
use super::linear_scan::{Interval, assign_intervals, intervals};
use super::sink::sink;
use super::tf3_stack::{frame_access, made};
use super::work::count;
use crate::isa::Root;
use crate::program::OpClass;

/// Instructions between that of a result and its use, the most that registers are found for: tried in turn.
const AHEAD: [i64; 3] = [64, 16, 4];

/// What is stored of a register: a half takes a word.
fn stored(width: Width) -> ScalarType {
    if width == Width::Pair { ScalarType::B64 } else { ScalarType::B32 }
}

/// `func` as it needs at most `rows` rows, the first `first_row` of them not its own; values that find
/// none lie in the frame from `offset` on. With the bytes they take; `None` where it cannot be done. Where it `moves`
/// instructions, copies go and results come nearer to their uses first.
pub fn spill(func: &Func, rows: u16, first_row: u16, offset: u32, moves: bool) -> Option<(Func, u32)> {
    let mut func = func.clone();
    let fits = |func: &Func| {
        let found = assign_intervals(func, &intervals(func), first_row, 0);
        found.is_ok_and(|found| found.rows <= rows)
    };
    if moves && !fits(&func) {
        coalesce(&mut func);
        if fits(&func) {
            return Some((func, 0));
        }
        let moved = |ahead| {
            let mut moved = func.clone();
            sink(&mut moved, ahead);
            moved
        };
        let nearest = moved(0);
        if fits(&nearest) {
            // Results are early as long as there is room for them: units take their time.
            return Some((AHEAD.into_iter().map(moved).find(fits).unwrap_or(nearest), 0));
        }
        func = nearest;
    }
    let mut at = offset;
    let mut fixed = fixed_registers(&func);
    // Each round spills where too many intervals lie over one another. Loads and stores have intervals of
    // their own, and pairs leave rows free between them: the next round finds fewer such places.
    let mut limit = u32::from(rows.saturating_sub(first_row));
    let mut less = 1;
    loop {
        let intervals = intervals(&func);
        let needed = assign_intervals(&func, &intervals, first_row, 0).ok().map(|found| found.rows);
        if needed.is_some_and(|needed| needed <= rows) {
            return Some((func, at - offset));
        }
        fixed.resize(func.regs.len(), true);
        let chosen = choose(&func, &intervals, &fixed, limit);
        if chosen.is_empty() {
            // It is alignment that takes the rows.
            limit = limit.checked_sub(less)?;
            less *= 2;
            continue;
        }
        let mut slots: Vec<Option<u32>> = vec![None; func.regs.len()];
        for reg in chosen {
            let bytes = stored(func.regs[reg as usize]).bytes();
            at = at.checked_next_multiple_of(bytes)?;
            slots[reg as usize] = Some(at);
            at = at.checked_add(bytes)?;
            fixed[reg as usize] = true;
        }
        keep_in_frame(&mut func, &slots);
    }
}

/// Registers that cannot lie in the frame.
fn fixed_registers(func: &Func) -> Vec<bool> {
    let mut fixed: Vec<bool> = vec![false; func.regs.len()];
    for reg in func.fixed().into_iter().flatten() {
        fixed[reg as usize] = true;
    }
    for inst in func.blocks.iter().flat_map(|block| block.all()) {
        // The frame has moved where a call reads its target.
        let call = inst.class == OpClass::CallIndirect;
        // A store behind it would see the guard that it writes.
        let own_guard = matches!(inst.guard, PredOperand::Reg(p, _)
            if inst.pdst.iter().any(|d| matches!(d, PredOperand::Reg(q, _) if *q == p)));
        for operand in inst.src.iter().filter(|_| call).chain(inst.destinations().filter(|_| own_guard)) {
            if let Operand::Reg(reg) = operand {
                fixed[*reg as usize] = true;
            }
        }
    }
    fixed
}

/// What it costs to keep each register in the frame: its uses, those in loops more often. A loop is what
/// stands between a jump back and its target.
fn costs(func: &Func) -> Vec<u64> {
    let mut depth = vec![0i32; func.blocks.len() + 1];
    for (b, block) in func.blocks.iter().enumerate() {
        block.for_successors(|to| {
            if to <= b {
                depth[to] += 1;
                depth[b + 1] -= 1;
            }
        });
    }
    let mut costs = vec![0u64; func.regs.len()];
    let mut loops = 0;
    for (block, change) in func.blocks.iter().zip(depth) {
        loops += change;
        let weight = 1 << (3 * loops.clamp(0, 6));
        for inst in block.all() {
            inst.for_reads(|reg| costs[reg as usize] += weight);
            inst.for_writes(|reg| costs[reg as usize] += weight);
        }
    }
    costs
}

/// Registers to be spilled so that no place has more than `limit` words: those that cost least for the
/// places they are live at.
fn choose(func: &Func, intervals: &[Interval], fixed: &[bool], limit: u32) -> Vec<Reg> {
    let costs = costs(func);
    let price = |interval: &Interval| {
        let length = u64::from(interval.end - interval.start) + 1;
        (costs[interval.reg as usize] << 20) / length
    };
    // Ends and words of what is live, and what of it may be spilled, by price.
    let mut ends: BinaryHeap<Reverse<(u32, Reg)>> = BinaryHeap::new();
    let mut open: BTreeSet<(u64, u32, Reg)> = BTreeSet::new();
    let mut end_of = vec![None; func.regs.len()];
    let mut live = 0;
    let mut chosen = Vec::new();
    for interval in intervals {
        let own = func.words(interval.reg);
        if own == 0 {
            continue;
        }
        while let Some(&Reverse((end, reg))) = ends.peek()
            && end < interval.start
        {
            count(1);
            ends.pop();
            if let Some(price) = end_of[reg as usize].take() {
                live -= func.words(reg);
                open.remove(&(price, u32::MAX - end, reg));
            }
        }
        let price = price(interval);
        live += own;
        end_of[interval.reg as usize] = Some(price);
        ends.push(Reverse((interval.end, interval.reg)));
        if !fixed[interval.reg as usize] {
            open.insert((price, u32::MAX - interval.end, interval.reg));
        }
        while live > limit
            && let Some((_, _, reg)) = open.pop_first()
        {
            count(1);
            live -= func.words(reg);
            end_of[reg as usize] = None;
            chosen.push(reg);
        }
    }
    chosen.sort_unstable();
    chosen
}

/// Every use of a register that has a slot becomes one of a register of its own, loaded before or stored
/// after.
fn keep_in_frame(func: &mut Func, slots: &[Option<u32>]) {
    let base = func.stack_base;
    let regs = &mut func.regs;
    let slot = |operand: &Operand| match operand {
        Operand::Reg(reg) => Some((*reg, slots.get(*reg as usize).copied().flatten()?)),
        _ => None,
    };
    for block in &mut func.blocks {
        let spilled =
            |inst: &Inst| inst.sources().chain(inst.destinations()).any(|operand| slot(operand).is_some());
        if !block.all().any(spilled) {
            count(block.insts.len());
            continue;
        }
        // What is loaded before an instruction, and stored after it.
        let mut rewrite = |inst: &mut Inst, stores: &mut Vec<Inst>, out: &mut Vec<Inst>| {
            count(1);
            for i in 0..inst.src.len() + inst.fragments.len() {
                let operand = inst.src.iter().chain(&inst.fragments).nth(i);
                let Some((reg, at)) = operand.and_then(&slot) else { continue };
                let own = Operand::Reg(fresh(regs, reg));
                // In all lanes: under a guard it would keep what `own` had before, from the beginning of
                // the function on.
                let load = frame_access(inst, false, base, at, own, stored(regs[reg as usize]));
                out.push(Inst { guard: PredOperand::Const(true), ..load });
                let sources = inst.src.iter_mut().chain(&mut inst.fragments);
                sources.filter(|o| **o == Operand::Reg(reg)).for_each(|o| *o = own);
            }
            for i in 0..inst.dst.len() + inst.results.len() {
                let operand = inst.destinations().nth(i);
                let Some((reg, at)) = operand.and_then(&slot) else { continue };
                let own = Operand::Reg(fresh(regs, reg));
                let destinations = inst.dst.iter_mut().chain(&mut inst.results);
                destinations.filter(|o| **o == Operand::Reg(reg)).for_each(|o| *o = own);
                if inst.guard != PredOperand::Const(true) {
                    // Lanes that the guard leaves out keep what they had: from here on, not from the
                    // beginning of the function on.
                    out.push(zero(inst, own, regs[reg as usize]));
                }
                stores.push(frame_access(inst, true, base, at, own, stored(regs[reg as usize])));
            }
        };
        let mut out = Vec::with_capacity(block.insts.len() * 2);
        let mut stores = Vec::new();
        for mut inst in block.insts.drain(..) {
            rewrite(&mut inst, &mut stores, &mut out);
            out.push(inst);
            out.append(&mut stores);
        }
        // No end of a block writes a register.
        if let Some(last) = block.end.inst_mut() {
            rewrite(last, &mut stores, &mut out);
        }
        block.insts = out;
    }
}

/// `mov to, 0` in all lanes.
fn zero(like: &Inst, to: Operand, width: Width) -> Inst {
    let ty = match width {
        Width::Pair => ScalarType::B64,
        Width::Half | Width::Pred => ScalarType::B16,
        Width::Word => ScalarType::B32,
    };
    let mut inst = made(like, OpClass::Data, Root::Mov, ty);
    inst.guard = PredOperand::Const(true);
    inst.dst[0] = to;
    inst.src[0] = Operand::Const { bits: 0, wide: width == Width::Pair };
    inst
}

/// A register as wide as `reg`.
fn fresh(regs: &mut Vec<Width>, reg: Reg) -> Reg {
    regs.push(regs[reg as usize]);
    (regs.len() - 1) as Reg
}

#[cfg(test)]
mod tests {
    use crate::chip::AssemblerSpec;
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
            let assembler = Assembler { stack_bytes: 1024, registers, passes: AssemblerSpec::default() };
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

    #[test]
    fn a_kernel_has_no_more_registers_than_its_bounds_leave_it() {
        let text_with = |first: &str, last: &str, values: u32, bounds: &str, passes| {
            let each = |one: &dyn Fn(u32) -> String| (0..values).map(one).collect::<String>();
            let text = format!(
                ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p) {bounds}\n{{\n\
                 .reg .u32 %r<99>;\n.reg .u64 %rd<3>;\n{first}ld.param.u64 %rd1, [p];\n{}{last}{}ret;\n}}\n",
                each(&|i| format!("ld.global.u32 %r{i}, [%rd1+{}];\n", 4 * i)),
                each(&|i| format!("st.global.u32 [%rd1+{}], %r{i};\n", 4 * (40 + i))),
            );
            let module = Module::build(&Source::new("b.ptx", &text), false);
            let module = module.unwrap_or_else(|e| panic!("{}", e[0].render()));
            let assembler = Assembler { stack_bytes: 1024, registers: 255, passes };
            let program = module.program_for("k", &|_| Some(0), ControlFlow::Plain, assembler);
            program.unwrap_or_else(|e| panic!("{}", e[0].render()))
        };
        let with =
            |first: &str, values: u32, bounds: &str, passes| text_with(first, "", values, bounds, passes);
        let with_last =
            |last: &str, values: u32, bounds: &str, passes| text_with("", last, values, bounds, passes);
        let made_of = |values, bounds: &str, passes| with("", values, bounds, passes);
        let made = |bounds: &str, passes| made_of(40, bounds, passes);
        let registers = |bounds: &str, passes| made(bounds, passes).registers_per_thread;
        let as_written = AssemblerSpec::default();
        let passes = AssemblerSpec { clean_up: true, reserved_registers: 3, ..as_written };
        let free = registers("", passes);
        assert!((45..48).contains(&free), "{free}");
        assert_eq!(registers("", AssemblerSpec { reserved_registers: 0, ..passes }), free - 3);
        assert_eq!(registers(".maxntid 1024, 1, 1", passes), free);
        for (bounds, most) in
            [(".maxntid 1024, 1, 1 .minnctapersm 2", 32), (".maxnreg 24", 24), (".maxnreg 40", 40)]
        {
            let made = made(bounds, passes);
            assert!(
                (most - 3..=most).contains(&made.registers_per_thread),
                "{bounds}: {}",
                made.registers_per_thread
            );
            assert!(made.local_bytes > 0, "{bounds}");
            // Where the program runs as it is written nothing is spilled.
            assert_eq!(registers(bounds, as_written), free - 3, "{bounds}");
        }
        // What is chosen by banks, and what is counted for divisions, is spilled no sooner: 20 words fit in 24 and 32 registers.
        let all = AssemblerSpec { reserved_registers: 3, prologue: 2, ..AssemblerSpec::ALL };
        for (passes, division) in [
            (all, ""),
            (AssemblerSpec { register_banks: false, reserved_registers: 1, ..all }, ""),
            (all, "div.u64 %rd2, %rd1, %rd1;\nst.global.u64 [%rd1+512], %rd2;\n"),
            (
                AssemblerSpec { register_banks: false, reserved_registers: 1, ..all },
                "div.u64 %rd2, %rd1, %rd1;\nst.global.u64 [%rd1+512], %rd2;\n",
            ),
        ] {
            for most in [28, 32] {
                let made = with_last(division, 20, &format!(".maxnreg {most}"), passes);
                assert_eq!(made.local_bytes, 0, "{most} {division}");
                assert!(
                    (22..=most).contains(&made.registers_per_thread),
                    "{most}: {}",
                    made.registers_per_thread
                );
                assert!(made.notes.iter().all(|note| !note.contains("limited to")), "{:?}", made.notes);
            }
        }
        // Where registers move, code may have more than a thread begins with.
        let moves = with("setmaxnreg.inc.sync.aligned.u32 64;\n", 40, ".maxnreg 32", passes);
        assert_eq!((moves.registers_per_thread, moves.registers, moves.local_bytes), (32, 42, 0));
        // Those that are reserved are found among the 32 with which an SM is full of warps.
        let own = AssemblerSpec { reserved_registers: 0, ..passes };
        for values in [20, 27, 28, 29, 30, 31, 33] {
            let [rows, with] = [own, passes].map(|passes| made_of(values, "", passes).registers_per_thread);
            assert_eq!(with, if rows <= 32 { (rows + 3).min(32) } else { rows + 3 }, "{values}");
        }
    }
}
