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

use super::ir::{Block, Func, Inst, Operand, Reg, Width};
use super::linear_scan::{Assignment, Interval, MAX_ROWS, exposed};
use super::live_ranges::{Among, LiveRanges, Range, RowsInUse, append};
use super::scratch::{Products, scratch_words};
use super::work::count;
use crate::isa::Root;
use crate::program::{Extra, OpClass};
use sim_memory::vocabulary::ScalarType;

/// Words that an instruction reads, beyond which they are a fragment of a matrix, of which registers in a row hold the parts.
const FEW: usize = 4;

/// The row of the stack pointer, which is one of the registers that are reserved.
const STACK_POINTER: u16 = 1;

/// Instructions behind an access to memory that do not write what it reads.
pub(super) const HELD: u32 = 10;

/// All places of a function.
const ALWAYS: (u32, u32) = (0, u32::MAX);

/// What a row is wanted for.
#[derive(Clone, Copy)]
enum Wanted {
    /// A register.
    Value(Reg),
    /// The low word of a sum of 64 bits that only such sums read: its words are two values in machine code, and that of the low word is
    /// written while the operands of the high words are there.
    LowWord(Reg),
    /// A copy of a register that is several words of a fragment, which lie in registers in a row.
    Copy(Reg),
    /// The program of an instruction.
    Program,
}

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
    let mut words: Vec<(u32, Wanted)> = Vec::new();
    // By register that lies where the address of its load lay: the place up to which the load holds that.
    let mut over: FxHashMap<Reg, u32> = FxHashMap::default();
    let split = split(func);
    let copies = copies(func);
    for &Interval { reg, start, .. } in intervals {
        let own = ranges.of_register(reg);
        place[reg as usize] = match func.regs[reg as usize] {
            Width::Pred => Some(first_pred + preds.take(own, false)?),
            width if func.is_uniform(reg) => Some(uniform.take(own, width == Width::Pair)?),
            Width::Pair => {
                let mut until = accesses.held(reg, own);
                let row = match accesses.address(reg, own, &ranges, &place, first_row, &over) {
                    Some((row, 2)) if live.is_open(row, 2, own) => {
                        until = accesses.with_address(reg, until);
                        over.extend(accesses.hold_of_address(reg).map(|(_, until)| (reg, until)));
                        row
                    }
                    _ => rows.lowest(&until, Among::Pairs, |row| live.is_free_in(row, own))?,
                };
                rows.put(row, &until, 2);
                live.put(row, own, 2);
                if split[reg as usize] {
                    words.push((start, Wanted::LowWord(reg)));
                }
                Some(first_row + row)
            }
            Width::Word | Width::Half => {
                words.push((start, Wanted::Value(reg)));
                words.extend((0..copies.get(&reg).copied().unwrap_or(0)).map(|_| (start, Wanted::Copy(reg))));
                None
            }
        };
    }
    let hints = hints(func, &ranges, &place, first_row);
    rows.begin_again();
    words.extend(scratch(func));
    words.sort_by_key(|(start, _)| *start);
    let most = (most + u16::from(stack_pointer)).saturating_sub(first_row);
    for (start, wanted) in words {
        let within = [(start, start + 1)];
        let (reg, own) = match wanted {
            Wanted::Value(reg) => (Some(reg), ranges.of_register(reg)),
            Wanted::LowWord(reg) | Wanted::Copy(reg) => (None, ranges.of_register(reg)),
            Wanted::Program => (None, &within[..]),
        };
        let mut until = reg.map_or_else(|| own.to_vec(), |reg| accesses.held(reg, own));
        let lowest = rows.lowest(&until, Among::Any, |row| live.is_free_in(row, own))?;
        let bank = match wanted {
            Wanted::LowWord(_) => Some(Among::Odd),
            _ => reg.and_then(|reg| bank(beside.get(&reg), &place, &beside, &hints)),
        };
        let fits = |row: u16| bank.is_none_or(|bank| (bank == Among::Odd) == (row % 2 == 1));
        // A source of a result lies where this does.
        let hint = reg.and_then(|reg| hints.get(&reg).copied());
        let hint =
            hint.filter(|row| fits(*row) && rows.is_open(*row, 1, &until) && live.is_open(*row, 1, own));
        // What is loaded lies where its address lay.
        let address = reg.and_then(|reg| accesses.address(reg, own, &ranges, &place, first_row, &over));
        let there = address.and_then(|(row, rows)| {
            (row..row + rows).filter(|row| fits(*row)).find(|row| live.is_open(*row, 1, own))
        });
        let row = match (
            there.or(hint),
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
            over.extend(accesses.hold_of_address(reg).map(|(_, until)| (reg, until)));
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
fn bank(
    own: Option<&Beside>,
    place: &[Option<u16>],
    beside: &FxHashMap<Reg, Beside>,
    wanted: &FxHashMap<Reg, u16>,
) -> Option<Among> {
    let own = own?;
    if own.pair {
        return Some(Among::Odd);
    }
    let odd = |reg: Reg| match place[reg as usize] {
        Some(row) => Some(row % 2 == 1),
        None if beside.get(&reg).is_some_and(|other| other.pair) => Some(true),
        None => wanted.get(&reg).map(|row| row % 2 == 1),
    };
    count(own.words.len());
    let votes: i32 = own.words.iter().filter_map(|reg| odd(*reg)).map(|odd| if odd { 1 } else { -1 }).sum();
    match votes {
        0 => None,
        1.. => Some(Among::Even),
        _ => Some(Among::Odd),
    }
}

/// By register that is several words of one fragment: how many copies of it there are besides.
fn copies(func: &Func) -> FxHashMap<Reg, usize> {
    let mut found: FxHashMap<Reg, usize> = FxHashMap::default();
    for inst in func.blocks.iter().flat_map(Block::all) {
        let Extra::Mma(product) = &inst.extra else { continue };
        let [_, a, b, ..] = product.registers();
        let (first, rest) = inst.fragments.split_at(a.min(inst.fragments.len()));
        for fragment in [first, &rest[..b.min(rest.len())]] {
            for (i, operand) in fragment.iter().enumerate() {
                count(1);
                let before = fragment[..i].iter().filter(|other| *other == operand).count();
                if let Operand::Reg(reg) = operand
                    && before > 0
                {
                    let most = found.entry(*reg).or_default();
                    *most = before.max(*most);
                }
            }
        }
    }
    found
}

/// By register: a sum of 64 bits that only such sums read.
fn split(func: &Func) -> Vec<bool> {
    let sum = |inst: &Inst| {
        let long = matches!(inst.form.ty, ScalarType::S64 | ScalarType::U64 | ScalarType::B64);
        inst.class == OpClass::Data && long && matches!(inst.form.root, Root::Add | Root::Sub)
    };
    let (mut sums, mut others) = (vec![false; func.regs.len()], vec![false; func.regs.len()]);
    for inst in func.blocks.iter().flat_map(Block::all) {
        count(1);
        let is_sum = sum(inst);
        inst.for_writes(|reg| if is_sum { sums[reg as usize] = true } else { others[reg as usize] = true });
        if !is_sum {
            inst.for_reads(|reg| others[reg as usize] = true);
        }
    }
    sums.iter().zip(others).map(|(sum, other)| *sum && !other).collect()
}

/// By word that ends where a result is written: the row of the result, or of the word of a pair, if that has one or is wanted to have one.
fn hints(func: &Func, ranges: &LiveRanges, place: &[Option<u16>], first_row: u16) -> FxHashMap<Reg, u16> {
    let mut found: FxHashMap<Reg, u16> = FxHashMap::default();
    let insts: usize = func.blocks.iter().map(|block| block.all().count()).sum();
    let mut at = 2 * insts as u32 + func.blocks.len() as u32;
    for block in func.blocks.iter().rev() {
        at -= 1;
        let list: Vec<_> = block.all().collect();
        for inst in list.into_iter().rev() {
            at -= 2;
            count(1);
            let Operand::Reg(to) = inst.dst[0] else { continue };
            if inst.class != OpClass::Data || func.is_uniform(to) {
                continue;
            }
            let row = match func.regs[to as usize] {
                Width::Pair => place[to as usize].and_then(|row| row.checked_sub(first_row)),
                Width::Word => found.get(&to).copied(),
                _ => None,
            };
            let Some(row) = row else { continue };
            let mut ends: Vec<(u32, usize, Reg)> = Vec::new();
            for (slot, operand) in inst.src.iter().enumerate() {
                let Operand::Reg(reg) = *operand else { continue };
                let word = func.regs[reg as usize] == Width::Word && !func.is_uniform(reg);
                let own = ranges.of_register(reg);
                if word
                    && own.binary_search_by_key(&at, |(_, end)| *end).is_ok()
                    && ends.iter().all(|(_, _, other)| *other != reg)
                {
                    ends.push((own[0].0, slot, reg));
                }
            }
            ends.sort_unstable();
            let pair = func.regs[to as usize] == Width::Pair;
            match (pair, &ends[..]) {
                (true, [(_, slot, reg)]) => {
                    found.entry(*reg).or_insert(row + u16::from(*slot > 0));
                }
                (true, [(_, _, a), (_, _, b), ..]) => {
                    found.entry(*a).or_insert(row);
                    found.entry(*b).or_insert(row + 1);
                }
                (false, [(_, _, a), ..]) => {
                    found.entry(*a).or_insert(row);
                }
                _ => {}
            }
        }
    }
    found
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
        ranges.extend(self.hold_of_address(reg));
        merged(ranges)
    }

    /// The range in which the load of this register holds its address, behind the load.
    fn hold_of_address(&self, reg: Reg) -> Option<Range> {
        let (address, at) = *self.loaded.get(&reg)?;
        let held = self.held.get(&address)?;
        let own = held.binary_search_by_key(&at, |(start, _)| *start).ok()?;
        Some((at + 1, held[own].1))
    }

    /// Row and rows of the address of a load of this register, where nobody needs the address from there on.
    fn address(
        &self,
        reg: Reg,
        own: &[Range],
        ranges: &LiveRanges,
        place: &[Option<u16>],
        first_row: u16,
        over: &FxHashMap<Reg, u32>,
    ) -> Option<(u16, u16)> {
        let (address, at) = *self.loaded.get(&reg)?;
        // Another load still holds what lay there before.
        if over.get(&address).is_some_and(|until| *until > at) {
            return None;
        }
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
fn scratch(func: &Func) -> Vec<(u32, Wanted)> {
    let mut found = Vec::new();
    let mut at = 0;
    for block in &func.blocks {
        for inst in block.all() {
            found.extend((0..scratch_words(inst, Products::Words)).map(|_| (at, Wanted::Program)));
            at += 2;
        }
        at += 1;
    }
    found
}

#[cfg(test)]
mod tests;
