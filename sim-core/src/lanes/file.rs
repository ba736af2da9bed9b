//! The registers of a warp as lane functions see them: rows of 32 lanes. All reads come before
//! all writes, so sources may be destinations too.

use sim_frontend::program::{Pred, Row};
use sim_memory::vocabulary::{LaneMask, WARP_LANES};

use crate::registers::{LaneRow, each, guard, write_pred};

/// What a lane function works on.
#[derive(Debug)]
pub struct LaneFile<'a> {
    /// The warp's rows.
    pub rows: &'a mut [LaneRow],
    /// Constant rows.
    pub consts: &'a [LaneRow],
    /// Predicates, one bit a lane.
    pub preds: &'a mut [u32],
}

impl LaneFile<'_> {
    #[inline(always)]
    fn row(&self, row: Row) -> &LaneRow {
        if row.0 >= Row::CONST {
            &self.consts[usize::from(row.0 - Row::CONST)]
        } else {
            &self.rows[usize::from(row.0)]
        }
    }

    /// 32 lanes of 32 bits.
    #[inline(always)]
    pub fn r32(&self, row: Row) -> [u32; WARP_LANES] {
        self.row(row).0
    }

    /// 32 lanes of 64 bits: low words in the first row, high words in the second.
    #[inline(always)]
    pub fn r64(&self, row: Row) -> [u64; WARP_LANES] {
        let (low, high) = (self.row(row), self.row(Row(row.0 + 1)));
        each(|i| u64::from(low.0[i]) | u64::from(high.0[i]) << 32)
    }

    /// Writes `mask`'s lanes of 32 bits; a sink takes nothing.
    #[inline(always)]
    pub fn w32(&mut self, row: Row, mask: LaneMask, values: [u32; WARP_LANES]) {
        let Some(LaneRow(to)) = self.rows.get_mut(usize::from(row.0)) else { return };
        if mask == LaneMask::MAX {
            *to = values;
        } else {
            for lane in 0..WARP_LANES {
                to[lane] = if mask >> lane & 1 == 1 { values[lane] } else { to[lane] };
            }
        }
    }

    /// Writes `mask`'s lanes of 64 bits; a sink takes nothing.
    #[inline(always)]
    pub fn w64(&mut self, row: Row, mask: LaneMask, values: [u64; WARP_LANES]) {
        if row.is_some() {
            self.w32(row, mask, each(|i| values[i] as u32));
            self.w32(Row(row.0 + 1), mask, each(|i| (values[i] >> 32) as u32));
        }
    }

    /// A predicate operand, one bit a lane.
    #[inline(always)]
    pub fn pred(&self, pred: Pred) -> u32 {
        guard(pred, self.preds)
    }

    /// Writes `mask`'s lanes of a predicate; a sink takes nothing.
    #[inline(always)]
    pub fn wpred(&mut self, pred: Pred, mask: LaneMask, value: u32) {
        write_pred(self.preds, pred, mask, value);
    }
}
