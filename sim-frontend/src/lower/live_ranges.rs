//! Where registers hold values that are read later: the parts of a function's text, with the holes between them. In a hole
//! another register may have the same row, since a thread that is there has no use for the value.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::ir::{Func, Reg};
use super::liveness::{Lists, Live};
use super::work::count;

/// First and last place of a range, both within it.
pub type Range = (u32, u32);

/// Rows beyond which no holes are looked for: functions that need so many find none that help.
const MOST_ROWS: usize = 512;

/// The ranges of all registers.
#[derive(Clone, Debug)]
pub struct LiveRanges {
    /// By register: where its ranges begin in `ranges`, and where those of the last end.
    starts: Vec<u32>,
    ranges: Vec<Range>,
}

impl LiveRanges {
    /// The ranges of a function's registers, at the places of [`intervals`](super::linear_scan::intervals); none where there
    /// would be many more than instructions.
    pub fn new(func: &Func) -> Option<Self> {
        let insts: usize = func.blocks.iter().map(|block| block.all().count()).sum();
        let most = 4 * (insts + func.regs.len()) + 1024;
        let live = Live::new(func);
        // Each with its register, from the last block to the first.
        let mut found: Vec<(Reg, Range)> = Vec::new();
        const DEAD: u32 = u32::MAX;
        let mut end = vec![DEAD; func.regs.len()];
        // Places: two of each instruction, and one behind each block.
        let mut at = 2 * insts as u32 + func.blocks.len() as u32;
        for (b, block) in func.blocks.iter().enumerate().rev() {
            at -= 1;
            live.for_behind(b, |reg| end[reg as usize] = at);
            let list: Vec<_> = block.all().collect();
            for inst in list.into_iter().rev() {
                at -= 2;
                inst.for_writes(|reg| {
                    let last = std::mem::replace(&mut end[reg as usize], DEAD);
                    found.push((reg, (at + 1, if last == DEAD { at + 1 } else { last })));
                });
                inst.for_reads(|reg| {
                    let end = &mut end[reg as usize];
                    *end = if *end == DEAD { at } else { *end };
                });
            }
            live.for_before(b, |reg| {
                let last = std::mem::replace(&mut end[reg as usize], DEAD);
                found.push((reg, (at, if last == DEAD { at } else { last })));
            });
            if found.len() > most {
                return None;
            }
        }
        count(found.len());
        Some(Self::of(func.regs.len(), &found))
    }

    /// The ranges by register, those that touch made one. Those of a register come from the last to the first.
    fn of(regs: usize, found: &[(Reg, Range)]) -> Self {
        let places: Vec<(u32, u32)> = (0..found.len()).rev().map(|i| (found[i].0, i as u32)).collect();
        let by_register = Lists::new(regs, &places);
        let mut ranges: Vec<Range> = Vec::with_capacity(found.len());
        let mut starts = Vec::with_capacity(regs + 1);
        for reg in 0..regs {
            let first = ranges.len();
            starts.push(first as u32);
            for i in by_register.of(reg) {
                append(&mut ranges, first, found[*i as usize].1);
            }
        }
        starts.push(ranges.len() as u32);
        Self { starts, ranges }
    }

    /// The ranges of a register, ascending.
    pub fn of_register(&self, reg: Reg) -> &[Range] {
        &self.ranges[self.starts[reg as usize] as usize..self.starts[reg as usize + 1] as usize]
    }
}

/// Appends a range to those from `first` on, which come in order: what touches the last one is part of it.
pub(super) fn append(ranges: &mut Vec<Range>, first: usize, (start, end): Range) {
    match ranges[first..].last_mut() {
        Some(last) if start <= last.1.saturating_add(1) => last.1 = last.1.max(end),
        _ => ranges.push((start, end)),
    }
}

/// The rows of a register file, given to registers in the order of their first places.
#[derive(Clone, Debug, Default)]
pub struct RowsInUse {
    /// By row: the first places of the ranges in which it is taken, with the last ones.
    taken: Vec<BTreeMap<u32, u32>>,
    /// A bit for each row that is free at the place that was asked for last.
    free: Vec<u64>,
    /// Where rows become free, and then where they are taken again: place, whether it is taken, row.
    changes: BinaryHeap<Reverse<(u32, bool, u32)>>,
}

/// Rows among which one is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Among {
    Any,
    Even,
    Odd,
    /// The first of two, aligned.
    Pairs,
}

impl RowsInUse {
    /// The lowest row, or aligned pair of rows, that is free in all of these ranges, which is taken; none where too many are in
    /// use. Those of one register after the other come in the order of their first places.
    pub fn take(&mut self, ranges: &[Range], pair: bool) -> Option<u16> {
        let row = self.lowest(ranges, if pair { Among::Pairs } else { Among::Any }, |_| true)?;
        self.put(row, ranges, if pair { 2 } else { 1 });
        Some(row)
    }

    /// The lowest of these rows that is free in all of these ranges, and of which it `also` holds: with the next one for a pair.
    pub fn lowest(&mut self, ranges: &[Range], among: Among, also: impl Fn(usize) -> bool) -> Option<u16> {
        let &(start, _) = ranges.first()?;
        while let Some(&Reverse((place, taken, row))) = self.changes.peek()
            && place <= start
        {
            count(1);
            self.changes.pop();
            self.set_free(row as usize, !taken);
        }
        let step = if among == Among::Pairs { 2 } else { 1 };
        let row = self.find(ranges, among, also);
        (row + step <= MOST_ROWS).then_some(row as u16)
    }

    /// Takes so many rows from this one on.
    pub fn put(&mut self, row: u16, ranges: &[Range], rows: usize) {
        let row = usize::from(row);
        if self.taken.len() < row + rows {
            (self.taken.len()..row + rows).for_each(|row| self.set_free(row, true));
            self.taken.resize(row + rows, BTreeMap::new());
        }
        for row in row..row + rows {
            for &(start, end) in ranges {
                self.taken[row].insert(start, end);
                self.changes.push(Reverse((start, true, row as u32)));
                self.changes.push(Reverse((end.saturating_add(1), false, row as u32)));
            }
            self.set_free(row, false);
        }
    }

    /// The registers that come now begin at the first place again.
    pub fn begin_again(&mut self) {
        self.changes.clear();
        for row in 0..self.taken.len() {
            count(self.taken[row].len());
            self.set_free(row, true);
            for (&start, &end) in &self.taken[row] {
                self.changes.push(Reverse((start, true, row as u32)));
                self.changes.push(Reverse((end.saturating_add(1), false, row as u32)));
            }
        }
    }

    /// The first of the rows that are free in all of the ranges.
    fn find(&self, ranges: &[Range], among: Among, also: impl Fn(usize) -> bool) -> usize {
        let (mask, step) = match among {
            Among::Any => (u64::MAX, 1),
            Among::Even => (0x5555_5555_5555_5555, 1),
            Among::Odd => (0xaaaa_aaaa_aaaa_aaaa, 1),
            Among::Pairs => (0x5555_5555_5555_5555, 2),
        };
        for (word, &bits) in self.free.iter().enumerate() {
            count(1);
            let mut left = mask & if step == 2 { bits & bits >> 1 } else { bits };
            while left != 0 {
                let row = word * 64 + left.trailing_zeros() as usize;
                left &= left - 1;
                if (row..row + step).all(|row| self.has_room(row, ranges) && also(row)) {
                    return row;
                }
            }
        }
        // A row that is free for good may be left over at the end.
        let rows = self.taken.len();
        match among {
            Among::Pairs
                if rows % 2 == 1
                    && self.is_free(rows - 1)
                    && self.has_room(rows - 1, ranges)
                    && also(rows - 1) =>
            {
                rows - 1
            }
            Among::Any => rows,
            Among::Odd => rows | 1,
            Among::Even | Among::Pairs => rows.next_multiple_of(2),
        }
    }

    /// True if a row is free in all of the ranges.
    pub fn is_free_in(&self, row: usize, ranges: &[Range]) -> bool {
        row >= self.taken.len() || self.has_room(row, ranges)
    }

    /// True if so many rows from this one on are in use, and free in all of the ranges.
    pub fn is_open(&self, row: u16, rows: usize, ranges: &[Range]) -> bool {
        let row = usize::from(row);
        row + rows <= self.taken.len() && (row..row + rows).all(|row| self.has_room(row, ranges))
    }

    fn has_room(&self, row: usize, ranges: &[Range]) -> bool {
        count(ranges.len());
        let taken = &self.taken[row];
        ranges
            .iter()
            .all(|(start, end)| taken.range(..=*end).next_back().is_none_or(|(_, until)| until < start))
    }

    fn is_free(&self, row: usize) -> bool {
        self.free.get(row / 64).is_some_and(|bits| bits >> (row % 64) & 1 == 1)
    }

    fn set_free(&mut self, row: usize, free: bool) {
        if self.free.len() <= row / 64 {
            self.free.resize(row / 64 + 1, 0);
        }
        let bits = &mut self.free[row / 64];
        *bits = *bits & !(1 << (row % 64)) | u64::from(free) << (row % 64);
    }

    /// Rows used.
    pub fn used(&self) -> u16 {
        self.taken.iter().rposition(|taken| !taken.is_empty()).map_or(0, |row| row as u16 + 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Ranges with room between them, from gaps and lengths.
    fn ranges() -> impl Strategy<Value = Vec<Range>> {
        (0u32..40, proptest::collection::vec((0u32..6, 2u32..9), 1..4)).prop_map(|(mut at, parts)| {
            let mut out = Vec::new();
            for (length, gap) in parts {
                out.push((at, at + length));
                at += length + gap;
            }
            out
        })
    }

    proptest! {
        /// Each register has the lowest row that is free wherever it needs one.
        #[test]
        fn rows_are_shared_in_holes_alone(regs in proptest::collection::vec((ranges(), any::<bool>()), 1..40)) {
            let mut regs = regs;
            regs.sort_by_key(|(ranges, _)| ranges[0].0);
            let mut rows = RowsInUse::default();
            let mut literal: Vec<(u16, Range)> = Vec::new();
            for (ranges, pair) in &regs {
                let free = |row: u16| {
                    let meets = |&(a, b): &Range| {
                        literal.iter().any(|&(other, (start, end))| other == row && start <= b && a <= end)
                    };
                    !ranges.iter().any(meets)
                };
                let lowest = (0..).step_by(1 + usize::from(*pair)).find(|row| free(*row) && (!pair || free(row + 1)));
                let found = rows.take(ranges, *pair);
                prop_assert_eq!(found, lowest);
                let row = found.expect("few rows");
                for row in row..=row + u16::from(*pair) {
                    literal.extend(ranges.iter().map(|range| (row, *range)));
                }
                let used = literal.iter().map(|(row, _)| row + 1).max();
                prop_assert_eq!(Some(rows.used()), used);
            }
        }
    }
}
