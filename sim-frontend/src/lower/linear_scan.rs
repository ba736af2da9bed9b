//! Virtual to physical registers by linear scan (Poletto, Sarkar 1999) over live intervals, and over live ranges with holes
//! (Wimmer, Mössenböck 2005) where these need fewer rows: 32-bit rows, 64-bit values in aligned pairs, predicates in a file of
//! their own.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::banks;
use super::ir::{Func, Reg, Width};
use super::live_ranges::{LiveRanges, RowsInUse};
use super::liveness::Live;
use super::scratch::{Products, most_words};
use super::work::count;

/// Where each virtual register lies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// Row or predicate number of each register; `None` for registers never used.
    pub place: Vec<Option<u16>>,
    /// Rows used.
    pub rows: u16,
    /// One of them is the stack pointer's.
    pub stack_pointer: bool,
    /// Registers that are counted at the least: NVIDIA's assembler takes so many where it may.
    pub at_least: u16,
    /// Rows behind those, from the next even one on, of values in uniform registers.
    pub uniform: u16,
    /// Predicates used.
    pub preds: u16,
    /// Registers that may be read before they are written, and some that are not.
    pub exposed: Vec<Reg>,
}

/// A function needs more rows than operands can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyRegisters;

/// Most rows an operand can name besides the special-register rows.
pub const MAX_ROWS: u16 = 0x7e00;

/// The part of a function in which a register may hold a value that is read later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The register.
    pub reg: Reg,
    /// Its first place. Each instruction has two: it reads at the first and writes at the second; the
    /// borders of blocks have places too.
    pub start: u32,
    /// Its last place.
    pub end: u32,
    /// It is live at the entry, or the text reads it before it writes it.
    pub exposed: bool,
}

/// The intervals of all registers that are used, in the order of their beginnings.
pub fn intervals(func: &Func) -> Vec<Interval> {
    let n = func.regs.len();
    // What is touched later begins later, so that they are found in the order of their beginnings.
    let mut end = vec![u32::MAX; n];
    let mut order: Vec<Interval> = Vec::with_capacity(n);
    let mut touch = |reg: Reg, at: u32, exposed: bool| {
        let end = &mut end[reg as usize];
        if *end == u32::MAX {
            order.push(Interval { reg, start: at, end: at, exposed });
        }
        *end = at;
    };
    let live = Live::new(func);
    let mut at = 0u32;
    for (b, block) in func.blocks.iter().enumerate() {
        live.for_before(b, |reg| touch(reg, at, b == 0));
        for inst in block.all() {
            inst.for_reads(|reg| touch(reg, at, true));
            inst.for_writes(|reg| touch(reg, at + 1, false));
            at += 2;
        }
        live.for_behind(b, |reg| touch(reg, at, false));
        at += 1;
    }
    order.iter_mut().for_each(|interval| interval.end = end[interval.reg as usize]);
    for together in order.chunk_by_mut(|a, b| a.start == b.start) {
        together.sort_unstable_by_key(|interval| (interval.end, interval.reg));
    }
    order
}

/// Rows that are free, and those that will be.
struct Rows {
    /// A bit for each row that is free; all beyond are.
    free: Vec<u64>,
    /// A bit for each word of `free` in which a bit is set.
    some: Vec<u64>,
    /// A bit for each word of `free` in which an aligned pair is free.
    pairs: Vec<u64>,
    /// When a row is read last, and the row.
    taken: BinaryHeap<Reverse<(u32, u32)>>,
    /// Rows used.
    used: u32,
}

impl Rows {
    fn new() -> Self {
        Self { free: Vec::new(), some: Vec::new(), pairs: Vec::new(), taken: BinaryHeap::new(), used: 0 }
    }

    fn set(&mut self, row: u32, free: bool) {
        let word = row as usize / 64;
        if word >= self.free.len() {
            // As many as there are rows below the end of a word of words.
            let words = (word + 1).next_multiple_of(64);
            self.free.resize(words, u64::MAX);
            self.some.resize(words / 64, u64::MAX);
            self.pairs.resize(words / 64, u64::MAX);
        }
        let bits = &mut self.free[word];
        *bits = *bits & !(1 << (row % 64)) | u64::from(free) << (row % 64);
        let aligned = *bits & *bits >> 1 & 0x5555_5555_5555_5555;
        for (summary, any) in [(&mut self.some, *bits != 0), (&mut self.pairs, aligned != 0)] {
            let summary = &mut summary[word / 64];
            *summary = *summary & !(1 << (word % 64)) | u64::from(any) << (word % 64);
        }
    }

    /// The lowest free row, or aligned pair of rows, at `start`, which is taken up to `end`.
    fn take(&mut self, start: u32, end: u32, pair: bool) -> u32 {
        while let Some(&Reverse((until, row))) = self.taken.peek()
            && until < start
        {
            count(1);
            self.taken.pop();
            self.set(row, true);
        }
        let summary = if pair { &self.pairs } else { &self.some };
        count(1 + summary.len());
        let word = summary.iter().position(|bits| *bits != 0);
        let row = match word.map(|i| i * 64 + summary[i].trailing_zeros() as usize) {
            Some(word) => {
                let bits = self.free[word];
                let bits = if pair { bits & bits >> 1 & 0x5555_5555_5555_5555 } else { bits };
                word as u32 * 64 + bits.trailing_zeros()
            }
            None => self.free.len() as u32 * 64,
        };
        for row in row..=row + u32::from(pair) {
            self.set(row, false);
            self.taken.push(Reverse((end, row)));
        }
        // A row that alignment leaves out cannot be taken at the first place of all.
        for gap in self.used..row.max(self.used) {
            self.set(gap, false);
            self.taken.push(Reverse((0, gap)));
        }
        self.used = self.used.max(row + 1 + u32::from(pair));
        row
    }
}

/// How registers are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The lowest row that is free.
    Lowest,
    /// So, with as many counted as the programs of instructions hold, as far as a thread may have so many.
    WithPrograms {
        /// What a thread may have.
        most: u16,
    },
    /// By banks with `full` rows at the most, as NVIDIA's assembler does from compute capability 7.0 on. Where that is too
    /// few, the lowest that is free, but all of `full` are counted, and what programs hold.
    ByBanks {
        /// With these an SM is full of warps.
        full: u16,
        /// What a thread may have.
        most: u16,
    },
}

/// Assigns registers; rows below `first_row` and predicates below `first_pred` stay free.
///
/// # Errors
/// More rows than operands can name.
pub fn assign(
    func: &Func,
    first_row: u16,
    first_pred: u16,
    choice: Choice,
) -> Result<Assignment, TooManyRegisters> {
    let intervals = intervals(func);
    let lowest = || assign_intervals(func, &intervals, first_row, first_pred);
    match choice {
        Choice::Lowest => lowest(),
        Choice::WithPrograms { most } => {
            let held = held(func, first_row, Products::Parts, most);
            lowest().map(|made| Assignment { at_least: held, ..made })
        }
        Choice::ByBanks { full, most } => {
            let by_banks = |held| banks::assign(func, &intervals, (first_row, first_pred), full, held);
            let mut too_many = false;
            for held in [banks::HELD, 0] {
                match by_banks(held) {
                    Some(made) if made.of_values() <= full => return Ok(made),
                    made => too_many = made.is_some(),
                }
            }
            let held = held(func, first_row, Products::Words, most);
            let at_least = if too_many { held.max(full) } else { held };
            lowest().map(|made| Assignment { at_least, ..made })
        }
    }
}

/// Rows that the programs of instructions hold together with what is live beside them.
fn held(func: &Func, first_row: u16, products: Products, most: u16) -> u16 {
    (u32::from(first_row) + most_words(func, products)).min(most.into()) as u16
}

/// The same with the intervals of the function.
///
/// # Errors
/// More rows than operands can name.
pub fn assign_intervals(
    func: &Func,
    intervals: &[Interval],
    first_row: u16,
    first_pred: u16,
) -> Result<Assignment, TooManyRegisters> {
    let whole = assign_whole(func, intervals, first_row, first_pred);
    // Within one block a value is read to the end of its interval, but for what is written before that.
    let with_holes = match func.blocks.len() {
        0 | 1 => None,
        _ => assign_with_holes(func, intervals, first_row, first_pred),
    };
    match (whole, with_holes) {
        (Ok(whole), Some(other)) if other.rows < whole.rows => Ok(other),
        (Err(_), Some(other)) => Ok(other),
        (whole, _) => whole,
    }
}

impl Assignment {
    /// Rows that hold values: the stack pointer is one of the registers that are reserved.
    pub fn of_values(&self) -> u16 {
        self.rows - u16::from(self.stack_pointer)
    }

    /// All rows: with those of values in uniform registers, which are an even number.
    pub fn all_rows(&self) -> u32 {
        match self.uniform {
            0 => self.rows.into(),
            uniform => u32::from(self.rows).next_multiple_of(2) + u32::from(uniform).next_multiple_of(2),
        }
    }

    /// Values in uniform registers have their rows counted from zero so far. A place beyond all is refused by the number of rows.
    pub(super) fn place_uniform(&mut self, func: &Func) {
        let behind = self.rows.next_multiple_of(2);
        for (reg, place) in (0..).zip(&mut self.place) {
            if let Some(place) = place.as_mut().filter(|_| func.is_uniform(reg)) {
                *place = place.saturating_add(behind);
            }
        }
    }
}

/// Registers share rows in the holes of their intervals. None where the function is too large for that.
fn assign_with_holes(
    func: &Func,
    intervals: &[Interval],
    first_row: u16,
    first_pred: u16,
) -> Option<Assignment> {
    let ranges = LiveRanges::new(func)?;
    let (mut rows, mut preds, mut uniform) =
        (RowsInUse::default(), RowsInUse::default(), RowsInUse::default());
    let mut place = vec![None; func.regs.len()];
    for &Interval { reg, .. } in intervals {
        let width = func.regs[reg as usize];
        let (file, first) = match width {
            Width::Pred => (&mut preds, first_pred),
            _ if func.is_uniform(reg) => (&mut uniform, 0),
            _ => (&mut rows, first_row),
        };
        place[reg as usize] = Some(first + file.take(ranges.of_register(reg), width == Width::Pair)?);
    }
    let (rows, preds) = (first_row + rows.used(), first_pred + preds.used());
    let exposed = exposed(intervals);
    let mut made =
        Assignment { place, rows, uniform: uniform.used(), preds, exposed, ..Assignment::default() };
    made.place_uniform(func);
    // Operands can name no more.
    (made.all_rows().max(preds.into()) <= MAX_ROWS.into()).then_some(made)
}

pub(super) fn exposed(intervals: &[Interval]) -> Vec<Reg> {
    intervals.iter().filter(|interval| interval.exposed).map(|interval| interval.reg).collect()
}

/// Every register has its row from the first of its interval to the last.
fn assign_whole(
    func: &Func,
    intervals: &[Interval],
    first_row: u16,
    first_pred: u16,
) -> Result<Assignment, TooManyRegisters> {
    let exposed = exposed(intervals);
    let place = vec![None; func.regs.len()];
    let mut result = Assignment { place, exposed, ..Assignment::default() };
    let (mut rows, mut preds, mut uniform) = (Rows::new(), Rows::new(), Rows::new());
    for &Interval { reg, start, end, .. } in intervals {
        let width = func.regs[reg as usize];
        let (file, first) = match width {
            Width::Pred => (&mut preds, first_pred),
            _ if func.is_uniform(reg) => (&mut uniform, 0),
            // Rows are numbered from an even base so that pairs stay aligned.
            _ => (&mut rows, first_row),
        };
        let row = file.take(start, end, width == Width::Pair);
        if u32::from(first) + file.used > u32::from(MAX_ROWS) {
            return Err(TooManyRegisters);
        }
        result.place[reg as usize] = Some(first + row as u16);
    }
    result.rows = first_row + rows.used as u16;
    result.uniform = uniform.used as u16;
    result.preds = first_pred + preds.used as u16;
    result.place_uniform(func);
    if result.all_rows() > u32::from(MAX_ROWS) {
        return Err(TooManyRegisters);
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lower::assembled::{rows_are_alone, translated};

    /// First and last place of each register: all of them noted, then compared.
    fn first_and_last(func: &Func) -> Vec<(u32, u32, u32)> {
        let live = Live::new(func);
        let mut places: Vec<Vec<u32>> = vec![Vec::new(); func.regs.len()];
        let mut at = 0;
        for (b, block) in func.blocks.iter().enumerate() {
            live.for_before(b, |reg| places[reg as usize].push(at));
            for inst in block.all() {
                inst.for_reads(|reg| places[reg as usize].push(at));
                inst.for_writes(|reg| places[reg as usize].push(at + 1));
                at += 2;
            }
            live.for_behind(b, |reg| places[reg as usize].push(at));
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
            for func in translated(text) {
                let intervals = first_and_last(&func);
                let assignment = assign_whole(&func, &super::intervals(&func), 0, 0).expect("room");
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

    /// With holes: what is live at a place, and what is written there, lies in rows of its own.
    #[test]
    fn what_is_live_together_shares_no_row() {
        let mut fewer = 0;
        for text in [
            include_str!("../../../workloads/bfs/bfs.sm_90.ptx"),
            include_str!("../../../workloads/liveness/liveness.sm_52.ptx"),
            include_str!("../../../workloads/lud/lud.sm_90.ptx"),
            include_str!("../../../workloads/mandelbrot/mandelbrot.sm_90.ptx"),
            include_str!("../../../workloads/mergesort/mergesort.sm_90.ptx"),
            // What a load holds lies over what is loaded, again and again.
            include_str!("../../../workloads/pointer_chase/pointer_chase.sm_90.ptx"),
            // Nobody needs `%kept` and `%w` in the first arm, whose values find room in their rows.
            ".version 6.0\n.target sm_20\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n\
             .reg .b32 %kept, %a, %b, %c;\n.reg .b64 %w, %to;\n.reg .pred %q;\nld.param.u64 %to, [p];\n\
             mov.u32 %kept, %tid.x;\nmov.u64 %w, 5;\nsetp.lt.u32 %q, %kept, 7;\n@%q bra OTHER;\n\
             mov.u32 %a, 1;\nmov.u32 %b, 2;\nmov.u32 %c, 3;\nadd.u32 %a, %a, %b;\nadd.u32 %a, %a, %c;\n\
             st.global.u32 [%to], %a;\nret;\nOTHER:\nst.global.u64 [%to], %w;\nst.global.u32 [%to+8], %kept;\nret;\n}\n",
        ] {
            for func in translated(text) {
                let intervals = super::intervals(&func);
                let whole = assign_whole(&func, &intervals, 0, 0).expect("room");
                let found = assign_with_holes(&func, &intervals, 0, 0).expect("room");
                assert!(found.rows <= whole.rows);
                fewer += whole.rows - found.rows;
                assert_eq!(found.exposed, whole.exposed);
                assert!(found.rows > 2);
                assert_eq!(assign(&func, MAX_ROWS - 2, 0, Choice::Lowest), Err(TooManyRegisters));
                rows_are_alone(&func, &found, 0);
                for held in [banks::HELD, 0] {
                    let made = banks::assign(&func, &intervals, (0, 0), 30, held).expect("room");
                    assert_eq!((made.of_values(), &made.exposed), (made.rows - 1, &whole.exposed));
                    rows_are_alone(&func, &made, 0);
                }
            }
        }
        assert_eq!(fewer, 4);
    }
}
