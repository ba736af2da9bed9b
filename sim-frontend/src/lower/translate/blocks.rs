//! Labels and basic blocks, as the text goes on.

use super::Translator;
use crate::diagnostic::nearest;
use crate::lower::ir::{Block, BlockId, Terminator};
use crate::program::OpClass;
use crate::ptx::ast::{Operand as AstOperand, OperandKind};

impl<'a> Translator<'_, 'a> {
    pub(super) fn label(&mut self, operand: &AstOperand<'a>) -> Option<BlockId> {
        let OperandKind::Name(name) = &operand.kind else {
            self.error(operand.span, "label", "expected a label");
            return None;
        };
        if let Some(block) = self.labels.find(name) {
            return Some(*block);
        }
        self.error(operand.span, "label", format!("undefined label `{name}`"));
        let near = nearest(name, self.labels.names());
        if let Some(near) = near {
            let words = format!("did you mean `{near}`?");
            self.help(words);
        }
        None
    }

    pub(super) fn table(&mut self, operand: &AstOperand<'a>) -> Option<Vec<BlockId>> {
        let OperandKind::Name(name) = &operand.kind else {
            self.error(operand.span, "label", "expected the name of a .branchtargets list");
            return None;
        };
        let Some(targets) = self.tables.find(name).cloned() else {
            self.error(operand.span, "label", format!("undefined .branchtargets list `{name}`"));
            return None;
        };
        let labels: Vec<_> = targets
            .iter()
            .map(|(name, span)| self.label(&AstOperand { kind: OperandKind::Name(name), span: *span }))
            .collect();
        labels.into_iter().collect()
    }

    /// All labels of the innermost scopes, for the papers' indirect branches.
    pub(super) fn all_labels(&self) -> Vec<BlockId> {
        let mut labels: Vec<BlockId> =
            self.labels.names().filter_map(|name| self.labels.find(name).copied()).collect();
        labels.sort_unstable();
        labels
    }

    pub(super) fn enter(&mut self, block: BlockId) {
        self.at = block;
        self.order.push(block);
        self.ended = false;
    }

    /// Blocks were numbered as labels were met; from here on their numbers follow the text, so
    /// that falling through leads to the next one.
    pub(super) fn renumber(&mut self) {
        let mut number = vec![0; self.func.blocks.len()];
        for (new, old) in self.order.iter().enumerate() {
            number[*old] = new;
        }
        let placeholder = self.placeholder();
        let mut take = |old: usize| std::mem::replace(&mut self.func.blocks[old], placeholder.clone());
        let mut blocks: Vec<Block> = self.order.iter().map(|old| take(*old)).collect();
        for block in &mut blocks {
            match &mut block.end {
                Terminator::Jump(_, to) => *to = number[*to],
                Terminator::Branch(_, taken, next) => {
                    *taken = number[*taken];
                    *next = number[*next];
                }
                Terminator::Indirect(_, targets) => targets.iter_mut().for_each(|t| *t = number[*t]),
                Terminator::End(_) => {}
            }
            for inst in &mut block.insts {
                if matches!(inst.class, OpClass::Ssy | OpClass::PreBreak | OpClass::PreReturn) {
                    inst.imm = number.get(inst.imm as usize).copied().unwrap_or(0) as i64;
                }
            }
        }
        self.func.blocks = if self.func.injected_by_hand { blocks } else { joined(blocks) };
    }

    /// Ends the current block.
    pub(super) fn finish(&mut self, end: Terminator) {
        self.func.blocks[self.at] = Block { insts: std::mem::take(&mut self.current), end };
        self.ended = true;
    }

    /// A conditional end: the next block begins after it.
    pub(super) fn split(&mut self, end: impl FnOnce(BlockId) -> Terminator) {
        let next = self.func.blocks.len();
        self.func.blocks.push(self.placeholder());
        self.finish(end(next));
        self.enter(next);
    }
}

/// Blocks that nothing else leads to become part of the block that falls through to them: compilers put a
/// label at every line of their source.
fn joined(blocks: Vec<Block>) -> Vec<Block> {
    let mut entered = vec![0u32; blocks.len()];
    entered[0] = 1;
    blocks.iter().for_each(|block| block.for_successors(|to| entered[to] += 1));
    let mut number = Vec::with_capacity(blocks.len());
    let mut out: Vec<Block> = Vec::with_capacity(blocks.len());
    for (b, mut block) in blocks.into_iter().enumerate() {
        match out.last_mut() {
            Some(last) if entered[b] == 1 && matches!(last.end, Terminator::Jump(None, to) if to == b) => {
                last.insts.append(&mut block.insts);
                last.end = block.end;
            }
            _ => out.push(block),
        }
        number.push(out.len() - 1);
    }
    for block in &mut out {
        match &mut block.end {
            Terminator::Jump(_, to) => *to = number[*to],
            Terminator::Branch(_, taken, next) => {
                *taken = number[*taken];
                *next = number[*next];
            }
            Terminator::Indirect(_, targets) => targets.iter_mut().for_each(|to| *to = number[*to]),
            Terminator::End(_) => {}
        }
    }
    out
}
