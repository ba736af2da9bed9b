//! Virtual to physical registers by linear scan (Poletto, Sarkar 1999) over live intervals:
//! 32-bit rows, 64-bit values in aligned pairs, predicates in a file of their own.

use super::ir::{Func, Width};
use super::liveness::live;

/// Where each virtual register lies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// Row or predicate number of each register; `None` for registers never used.
    pub place: Vec<Option<u16>>,
    /// Rows used.
    pub rows: u16,
    /// Predicates used.
    pub preds: u16,
}

/// A function needs more rows than operands can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyRegisters;

/// Most rows an operand can name besides the special-register rows.
const MAX_ROWS: u16 = 0x7e00;

/// Assigns registers; rows below `first_row` and predicates below `first_pred` stay free.
///
/// # Errors
/// More rows than operands can name.
pub fn assign(func: &Func, first_row: u16, first_pred: u16) -> Result<Assignment, TooManyRegisters> {
    let n = func.regs.len();
    // Intervals over instruction numbers; a register live at a block's border covers it.
    // What is touched later begins later, so that they are found in the order of their beginnings.
    let mut end = vec![u32::MAX; n];
    let mut order: Vec<(u32, u32)> = Vec::with_capacity(n);
    let mut touch = |reg: u32, at: u32| {
        let end = &mut end[reg as usize];
        if *end == u32::MAX {
            order.push((at, reg));
        }
        *end = at;
    };
    let (ins, outs) = live(func);
    let mut at = 0u32;
    for (block, (before, behind)) in func.blocks.iter().zip(ins.iter().zip(&outs)) {
        before.iter().for_each(|reg| touch(reg, at));
        for inst in block.all() {
            inst.for_reads(|reg| touch(reg, at));
            inst.for_writes(|reg| touch(reg, at + 1));
            at += 2;
        }
        behind.iter().for_each(|reg| touch(reg, at));
        at += 1;
    }
    for together in order.chunk_by_mut(|a, b| a.0 == b.0) {
        together.sort_unstable_by_key(|(_, reg)| (end[*reg as usize], *reg));
    }
    let mut result = Assignment { place: vec![None; n], rows: first_row, preds: first_pred };
    // free[i]: the row is unused from this instruction number on.
    let mut free_rows: Vec<u32> = Vec::new();
    let mut free_preds: Vec<u32> = Vec::new();
    for (start, reg) in order {
        let end = end[reg as usize];
        let is_free = |until: Option<&u32>| until.is_none_or(|until| *until < start);
        match func.regs[reg as usize] {
            Width::Pred => {
                let i = (0..).find(|&i| is_free(free_preds.get(i))).unwrap_or(0);
                if i >= free_preds.len() {
                    free_preds.push(0);
                }
                free_preds[i] = end;
                result.place[reg as usize] = Some(first_pred + i as u16);
            }
            width => {
                let pair = width == Width::Pair;
                // Rows are numbered from an even base so that pairs stay aligned.
                let step = if pair { 2 } else { 1 };
                let i = (0..)
                    .step_by(step)
                    .find(|&i| is_free(free_rows.get(i)) && (!pair || is_free(free_rows.get(i + 1))))
                    .unwrap_or(0);
                let last = i + usize::from(pair);
                if last >= free_rows.len() {
                    free_rows.resize(last + 1, 0);
                }
                free_rows[i] = end;
                free_rows[last] = end;
                if last > usize::from(MAX_ROWS) {
                    return Err(TooManyRegisters);
                }
                result.place[reg as usize] = Some(first_row + i as u16);
            }
        }
    }
    result.rows += free_rows.len() as u16;
    result.preds += free_preds.len() as u16;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use rustc_hash::FxHashMap;

    use super::*;
    use crate::diagnostic::Source;
    use crate::lower::translate::{Context, translate};
    use crate::ptx::parser::parse;

    /// First and last place of each register: all of them noted, then compared.
    fn intervals(func: &Func) -> Vec<(u32, u32, u32)> {
        let (ins, outs) = live(func);
        let mut places: Vec<Vec<u32>> = vec![Vec::new(); func.regs.len()];
        let mut at = 0;
        for (b, block) in func.blocks.iter().enumerate() {
            ins[b].iter().for_each(|reg| places[reg as usize].push(at));
            for inst in block.all() {
                inst.for_reads(|reg| places[reg as usize].push(at));
                inst.for_writes(|reg| places[reg as usize].push(at + 1));
                at += 2;
            }
            outs[b].iter().for_each(|reg| places[reg as usize].push(at));
            at += 1;
        }
        let ends = |places: &Vec<u32>| Some((*places.iter().min()?, *places.iter().max()?));
        let list = (0..).zip(&places).filter_map(|(reg, places)| ends(places).map(|(a, b)| (a, b, reg)));
        let mut list: Vec<_> = list.collect();
        list.sort_unstable();
        list
    }

    #[test]
    fn registers_are_assigned_in_the_order_of_their_intervals_and_none_is_shared() {
        for text in [
            include_str!("../../../workloads/vecadd/vecadd.sm_20.ptx"),
            include_str!("../../../workloads/blackscholes/blackscholes.sm_52.ptx"),
            include_str!("../../../workloads/mandelbrot/mandelbrot.sm_20.ptx"),
            // Of two registers that one instruction writes, nobody reads the first.
            ".version 6.0\n.target sm_20\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n\
             .reg .b32 %a, %b;\n.reg .b64 %w;\nld.param.u64 %w, [p];\nmov.b64 {%a, %b}, %w;\n\
             st.global.u32 [%w], %b;\nret;\n}\n",
        ] {
            let source = Source::new("text", text);
            let module = parse(&source, false).expect("a module");
            let (symbols, opcodes) = (FxHashMap::default(), RefCell::default());
            let cx = Context { source: &source, module: &module, symbols: &symbols, saved: 0, opcodes };
            for f in (0..module.functions.len()).filter(|f| module.functions[*f].body.is_some()) {
                let func = translate(&cx, f).expect("a function");
                let intervals = intervals(&func);
                let assignment = assign(&func, 0, 0).expect("room");
                let rows = |reg: u32| {
                    let first = assignment.place[reg as usize].expect("a place");
                    let last = first + u16::from(func.regs[reg as usize] == Width::Pair);
                    (func.regs[reg as usize] == Width::Pred, first, last)
                };
                for (i, &(start, _, reg)) in intervals.iter().enumerate() {
                    let (pred, first, last) = rows(reg);
                    let taken = |row: u16| {
                        intervals[..i].iter().any(|&(_, end, other)| {
                            let (kind, a, b) = rows(other);
                            kind == pred && (a..=b).contains(&row) && end >= start
                        })
                    };
                    let step = usize::from(last - first) + 1;
                    assert!((first..=last).all(|row| !taken(row)), "register {reg} shares a row");
                    let lower =
                        (0..first).step_by(step).find(|&row| (row..row + step as u16).all(|r| !taken(r)));
                    assert_eq!(lower, None, "register {reg} at {first} would have found room below");
                }
            }
        }
    }
}
