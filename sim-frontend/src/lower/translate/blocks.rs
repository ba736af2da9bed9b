//! Labels and basic blocks, as the text goes on.

use super::Translator;
use crate::diagnostic::nearest;
use crate::lower::ir::{Block, BlockId, Terminator};
use crate::lower::straighten::straighten;
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
            block.end.for_targets_mut(|to| *to = number[*to]);
            for inst in &mut block.insts {
                if matches!(inst.class, OpClass::Ssy | OpClass::PreBreak | OpClass::PreReturn) {
                    inst.imm = number.get(inst.imm as usize).copied().unwrap_or(0) as i64;
                }
            }
        }
        self.func.blocks = blocks;
        if !self.func.injected_by_hand {
            // Compilers put a label at every line of their source.
            straighten(&mut self.func, false);
        }
    }

    /// Ends the current block.
    pub(super) fn finish(&mut self, end: Terminator) {
        self.func.blocks[self.at] = Block {
            insts: std::mem::take(&mut self.current),
            end,
            kept: std::mem::take(&mut self.kept) || self.keeps_all,
        };
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
