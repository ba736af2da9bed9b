//! Registers as NVIDIA's assembler chooses them from compute capability 7.0 on. The register file of a sub-core has two banks, of even
//! and of odd registers. An instruction that reads a pair finds both words of it under the even number, so that a single word
//! that it reads besides lies in an odd register; single words that an instruction reads together lie in both banks. Registers are
//! not spared for this as long as an SM is full of warps with them.
//!
//! Read from code of ptxas 12.9 and 13 for sm_75 to sm_90: of a kernel that loads 8 words, keeps and stores them, registers 3, 5, 7 … hold
//! them, 24 in all; of 16 words, 40 where an SM is full of warps with 64 each (sm_75), 32 where it is with 32 (sm_80, sm_90). What an
//! access to memory reads is not written by the next ten instructions, since it is read late, but what is loaded may lie in the register
//! of its own address.

use rustc_hash::FxHashMap;

use super::ir::{Block, Func, Operand, Reg, Width};
use super::linear_scan::{Assignment, Interval, MAX_ROWS, exposed};
use super::live_ranges::{Among, LiveRanges, Range, RowsInUse, append};
use super::scratch::{Products, scratch_words};
use super::work::count;
use crate::program::OpClass;

/// Words that an instruction reads, beyond which they are a fragment of a matrix, of which registers in a row hold the parts.
const FEW: usize = 4;

/// The row of the stack pointer, which is one of the registers that are reserved.
const STACK_POINTER: u16 = 1;

/// Instructions behind an access to memory that do not write what it reads.
pub(super) const HELD: u32 = 10;

/// All places of a function.
const ALWAYS: (u32, u32) = (0, u32::MAX);

/// What an instruction reads together with a word.
#[derive(Default)]
struct Beside {
    /// A pair.
    pair: bool,
    /// Other words, once for each instruction.
    words: Vec<Reg>,
}

/// Assigns registers by banks; rows below `first_row`, which is even, and predicates below `first_pred` stay free, and so does the row of the
/// stack pointer. With `most` rows for values those that have one are left to be chosen freely. What accesses to memory read stays for
/// `held` instructions. None where there are too many registers.
pub(super) fn assign(
    func: &Func,
    intervals: &[Interval],
    (first_row, first_pred): (u16, u16),
    most: u16,
    held: u32,
) -> Option<Assignment> {
    let ranges = LiveRanges::new(func)?;
    let beside = beside(func);
    let accesses = Accesses::new(func, held);
    // Rows with what they hold and what accesses hold there, which may lie over one another, and with what is live alone.
    let (mut rows, mut live) = (RowsInUse::default(), RowsInUse::default());
    let (mut preds, mut uniform) = (RowsInUse::default(), RowsInUse::default());
    let mut place = vec![None; func.regs.len()];
    let stack_pointer = first_row <= STACK_POINTER;
    if stack_pointer {
        rows.put(STACK_POINTER, &[ALWAYS], 1);
        live.put(STACK_POINTER, &[ALWAYS], 1);
    }
    // Pairs come first, then words, each in the order of their first places.
    let mut words: Vec<(u32, Option<Reg>)> = Vec::new();
    for &Interval { reg, start, .. } in intervals {
        let own = ranges.of_register(reg);
        place[reg as usize] = match func.regs[reg as usize] {
            Width::Pred => Some(first_pred + preds.take(own, false)?),
            width if func.is_uniform(reg) => Some(uniform.take(own, width == Width::Pair)?),
            Width::Pair => {
                let mut until = accesses.held(reg, own);
                let row = match accesses.address(reg, own, &ranges, &place, first_row) {
                    Some((row, 2)) if live.is_open(row, 2, own) => {
                        until = accesses.with_address(reg, until);
                        row
                    }
                    _ => rows.lowest(&until, Among::Pairs, |row| live.is_free_in(row, own))?,
                };
                rows.put(row, &until, 2);
                live.put(row, own, 2);
                Some(first_row + row)
            }
            Width::Word | Width::Half => {
                words.push((start, Some(reg)));
                None
            }
        };
    }
    rows.begin_again();
    words.extend(scratch(func));
    words.sort_by_key(|(start, _)| *start);
    let most = (most + u16::from(stack_pointer)).saturating_sub(first_row);
    for (start, reg) in words {
        let within = [(start, start + 1)];
        let own = reg.map_or(&within[..], |reg| ranges.of_register(reg));
        let mut until = reg.map_or_else(|| own.to_vec(), |reg| accesses.held(reg, own));
        let lowest = rows.lowest(&until, Among::Any, |row| live.is_free_in(row, own))?;
        let bank = reg.and_then(|reg| bank(beside.get(&reg), &place, &beside));
        // What is loaded lies where its address lay.
        let address = reg.and_then(|reg| accesses.address(reg, own, &ranges, &place, first_row));
        let there = address.and_then(|(row, rows)| {
            let fits = |row: &u16| bank.is_none_or(|bank| (bank == Among::Odd) == (row % 2 == 1));
            (row..row + rows).filter(fits).find(|row| live.is_open(*row, 1, own))
        });
        let row = match (
            there,
            bank.and_then(|bank| Some((bank, rows.lowest(&until, bank, |row| live.is_free_in(row, own))?))),
        ) {
            (Some(row), _) => row,
            // Without a pair, no row more is taken for it.
            (_, Some((Among::Even, row))) if row >= rows.used() => lowest,
            (_, Some((_, row))) if row < most => row,
            _ => lowest,
        };
        if let (Some(_), Some(reg)) = (there, reg) {
            until = accesses.with_address(reg, until);
        }
        rows.put(row, &until, 1);
        live.put(row, own, 1);
        if let Some(reg) = reg {
            place[reg as usize] = Some(first_row + row);
        }
    }
    let mut made = Assignment {
        place,
        rows: first_row + rows.used(),
        stack_pointer,
        at_least: 0,
        uniform: uniform.used(),
        preds: first_pred + preds.used(),
        exposed: exposed(intervals),
    };
    made.place_uniform(func);
    // Operands can name no more.
    (made.all_rows().max(made.preds.into()) <= MAX_ROWS.into()).then_some(made)
}

/// The bank that a word has to lie in, if what is read with it says so.
fn bank(own: Option<&Beside>, place: &[Option<u16>], beside: &FxHashMap<Reg, Beside>) -> Option<Among> {
    let own = own?;
    if own.pair {
        return Some(Among::Odd);
    }
    let odd = |reg: Reg| match place[reg as usize] {
        Some(row) => Some(row % 2 == 1),
        None => beside.get(&reg).is_some_and(|other| other.pair).then_some(true),
    };
    count(own.words.len());
    let votes: i32 = own.words.iter().filter_map(|reg| odd(*reg)).map(|odd| if odd { 1 } else { -1 }).sum();
    match votes {
        0 => None,
        1.. => Some(Among::Even),
        _ => Some(Among::Odd),
    }
}

/// By word: what instructions read together with it.
fn beside(func: &Func) -> FxHashMap<Reg, Beside> {
    let mut found: FxHashMap<Reg, Beside> = FxHashMap::default();
    let mut words: Vec<Reg> = Vec::new();
    for inst in func.blocks.iter().flat_map(Block::all) {
        words.clear();
        let mut pair = false;
        inst.for_reads(|reg| match func.regs[reg as usize] {
            _ if func.is_uniform(reg) => {}
            Width::Pair => pair = true,
            Width::Word | Width::Half if !words.contains(&reg) => words.push(reg),
            _ => {}
        });
        count(1);
        if words.len() > FEW {
            continue;
        }
        for &word in &words {
            let own = found.entry(word).or_default();
            own.pair |= pair;
            own.words.extend(words.iter().filter(|other| **other != word));
        }
    }
    found
}

/// What accesses to memory read.
struct Accesses<'f> {
    func: &'f Func,
    /// By register: the places up to which one of them holds it, ascending.
    held: FxHashMap<Reg, Vec<Range>>,
    /// By register that one loads: the register of the address, and the place.
    loaded: FxHashMap<Reg, (Reg, u32)>,
}

impl<'f> Accesses<'f> {
    fn new(func: &'f Func, held: u32) -> Self {
        let mut found = Self { func, held: FxHashMap::default(), loaded: FxHashMap::default() };
        let mut at = 0;
        for block in &func.blocks {
            let end = at + 2 * block.all().count() as u32;
            for inst in block.all() {
                count(1);
                let access = matches!(
                    inst.class,
                    OpClass::Load | OpClass::Store | OpClass::Atomic | OpClass::LoadMatrix
                );
                if access && held > 0 {
                    // Two places of each instruction, none beyond the block.
                    let until = (at + 2 * held).min(end);
                    inst.for_reads(|reg| found.held.entry(reg).or_default().push((at, until)));
                }
                if let (OpClass::Load, Operand::Reg(address)) = (inst.class, inst.src[0]) {
                    inst.for_writes(|reg| {
                        found.loaded.insert(reg, (address, at));
                    });
                }
                at += 2;
            }
            at = end + 1;
        }
        found
    }

    /// The ranges of a register with those in which an access holds it.
    fn held(&self, reg: Reg, ranges: &[Range]) -> Vec<Range> {
        let held = self.held.get(&reg).map_or(&[][..], Vec::as_slice);
        count(held.len());
        merged(ranges.iter().chain(held).copied().collect())
    }

    /// Ranges of what is loaded with that in which its load holds the address.
    fn with_address(&self, reg: Reg, mut ranges: Vec<Range>) -> Vec<Range> {
        if let Some((address, at)) = self.loaded.get(&reg) {
            let held = self
                .held
                .get(address)
                .and_then(|held| held.binary_search_by_key(at, |(start, _)| *start).ok().map(|i| held[i].1));
            ranges.extend(held.map(|until| (at + 1, until)));
        }
        merged(ranges)
    }

    /// Row and rows of the address of a load of this register, where nobody needs the address from there on.
    fn address(
        &self,
        reg: Reg,
        own: &[Range],
        ranges: &LiveRanges,
        place: &[Option<u16>],
        first_row: u16,
    ) -> Option<(u16, u16)> {
        let (address, at) = *self.loaded.get(&reg)?;
        let ends = ranges.of_register(address).iter().any(|(_, end)| *end == at);
        let row = place[address as usize]?.checked_sub(first_row)?;
        let whole = own.first().is_some_and(|(start, _)| *start > at);
        (ends && whole).then_some((row, self.func.words(address) as u16))
    }
}

/// Ranges in order, those that touch made one.
fn merged(mut ranges: Vec<Range>) -> Vec<Range> {
    ranges.sort_unstable();
    let mut out = Vec::with_capacity(ranges.len());
    ranges.into_iter().for_each(|range| append(&mut out, 0, range));
    out
}

/// Words that the programs of instructions take, with the places of these.
fn scratch(func: &Func) -> Vec<(u32, Option<Reg>)> {
    let mut found = Vec::new();
    let mut at = 0;
    for block in &func.blocks {
        for inst in block.all() {
            found.extend((0..scratch_words(inst, Products::Words)).map(|_| (at, None)));
            at += 2;
        }
        at += 1;
    }
    found
}

#[cfg(test)]
mod tests;
