//! The program as it is written, before control flow is injected.

use crate::lower::ir::{Func, Terminator};
use crate::lower::tf6_control_flow::emitted::{Emitted, Item, NONE};
use crate::program::OpClass;

/// Blocks in the order of the text.
pub(super) fn plain_order(func: &Func) -> Emitted {
    let mut starts = Vec::new();
    let mut n = 0;
    for block in &func.blocks {
        starts.push(n);
        n += block.all().count();
    }
    let mut items = Vec::with_capacity(n);
    for (b, block) in func.blocks.iter().enumerate() {
        for (i, inst) in block.all().enumerate() {
            let mut item = Item {
                source: Some((b, i)),
                class: inst.class,
                guard: inst.guard,
                target: NONE,
                targets: Vec::new(),
                inverted: false,
                data: None,
                reconverges: true,
            };
            if i == block.insts.len() {
                match &block.end {
                    Terminator::Jump(_, to) | Terminator::Branch(_, to, _) => item.target = starts[*to],
                    Terminator::Indirect(_, targets) => {
                        item.targets = targets.iter().map(|t| starts[*t]).collect()
                    }
                    Terminator::End(_) => {}
                }
            } else if matches!(item.class, OpClass::Ssy | OpClass::PreBreak | OpClass::PreReturn) {
                item.target = starts.get(inst.imm as usize).copied().unwrap_or(NONE);
            }
            items.push(item);
        }
    }
    Emitted { items, ..Emitted::default() }
}
