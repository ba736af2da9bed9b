//! The registers of a warp's threads, and how expressions read them (CS §5.2).

use sim_frontend::program::{Op, Pred, Row};

use crate::code::Code;
use crate::lanes::LaneFn;
use crate::lanes::file::LaneFile;
use crate::registers::LaneRow;

/// A register of one thread: a word of a row, or a predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Word(usize),
    Predicate(usize),
}

/// `%`: what the threads of one warp find in their registers.
#[derive(Clone, Debug, Default)]
pub(super) struct Registers {
    pub rows: Vec<LaneRow>,
    pub predicates: Vec<u32>,
}

impl Registers {
    fn word(&self, code: &Code, row: usize, lane: u32) -> u32 {
        let first = usize::from(Row::CONST);
        if row >= first { code.consts[row - first].0[lane as usize] } else { self.rows[row].0[lane as usize] }
    }

    /// `E`: the value of an operand of `bits` bits.
    pub fn value(&self, code: &Code, row: Row, lane: u32, bits: u32) -> u64 {
        let row = usize::from(row.0);
        let low = u64::from(self.word(code, row, lane));
        if bits > 32 { low | u64::from(self.word(code, row + 1, lane)) << 32 } else { low }
    }

    /// `Eopt`: of an operand that need not be there.
    pub fn optional(&self, code: &Code, row: Row, lane: u32, bits: u32) -> Option<u64> {
        row.is_some().then(|| self.value(code, row, lane, bits))
    }

    /// `B`: the truth of a guard or predicate operand.
    pub fn truth(&self, predicate: Pred, lane: u32) -> bool {
        let plain = predicate.is_const() || self.predicates[predicate.index()] >> lane & 1 == 1;
        plain != predicate.negated()
    }

    /// Writes one thread's register.
    pub fn write(&mut self, slot: Slot, lane: u32, value: u32) {
        match slot {
            Slot::Word(row) => {
                if let Some(row) = self.rows.get_mut(row) {
                    row.0[lane as usize] = value;
                }
            }
            Slot::Predicate(p) => {
                if let Some(p) = self.predicates.get_mut(p) {
                    *p = *p & !(1 << lane) | (value & 1) << lane;
                }
            }
        }
    }

    /// `dop(e1 … en)`: what an operation on data words writes for one thread, all else being as it
    /// was.
    pub fn dop(&mut self, consts: &[LaneRow], function: LaneFn, op: &Op, lane: u32) -> Vec<(Slot, u32)> {
        let targets: Vec<usize> = op
            .dst
            .iter()
            .filter(|row| row.is_some())
            .flat_map(|row| [usize::from(row.0), usize::from(row.0) + 1])
            .filter(|row| *row < self.rows.len())
            .collect();
        let before: Vec<LaneRow> = targets.iter().map(|row| self.rows[*row]).collect();
        let predicates = self.predicates.clone();
        let mut file = LaneFile { rows: &mut self.rows, consts, preds: &mut self.predicates };
        // SAFETY: the function was resolved for the baseline, which every host has.
        #[allow(unsafe_code, reason = "lane functions carry target features")]
        unsafe {
            function(&mut file, op, 1 << lane);
        }
        let mut writes = Vec::new();
        for (&row, before) in targets.iter().zip(&before) {
            if self.rows[row].0[lane as usize] != before.0[lane as usize] {
                writes.push((Slot::Word(row), self.rows[row].0[lane as usize]));
            }
            self.rows[row] = *before;
        }
        for (p, before) in predicates.iter().enumerate() {
            if (self.predicates[p] ^ before) >> lane & 1 == 1 {
                writes.push((Slot::Predicate(p), self.predicates[p] >> lane & 1));
            }
        }
        self.predicates = predicates;
        writes
    }
}
