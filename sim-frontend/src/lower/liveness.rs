//! Liveness of virtual registers. Each thread follows its own path, so per-thread liveness on
//! the control-flow graph is right under any policy; a guarded write keeps the old value alive.

use super::ir::{Func, Inst, Reg};
use super::work::count;

/// A set of registers that one function after the other, or block after the other, begins anew.
#[derive(Clone, Debug)]
pub struct RegSet {
    /// By register: the round in which it was put in last; 0 once it was taken out.
    round: Vec<u32>,
    now: u32,
}

impl RegSet {
    /// An empty set for `n` registers.
    pub fn new(n: usize) -> Self {
        Self { round: vec![0; n], now: 1 }
    }

    /// Empties the set.
    pub fn clear(&mut self) {
        self.now += 1;
    }

    /// Adds a register; true if it was not there.
    pub fn insert(&mut self, reg: Reg) -> bool {
        std::mem::replace(&mut self.round[reg as usize], self.now) != self.now
    }

    /// Removes a register.
    pub fn remove(&mut self, reg: Reg) {
        self.round[reg as usize] = 0;
    }

    /// Membership.
    pub fn contains(&self, reg: Reg) -> bool {
        self.round[reg as usize] == self.now
    }

    /// Liveness before an instruction from liveness after it.
    pub fn step_back(&mut self, inst: &Inst) {
        inst.for_writes(|reg| self.remove(reg));
        inst.for_reads(|reg| {
            self.insert(reg);
        });
    }
}

/// Registers live at the borders of each block. Few registers outlive a block: only they are followed.
#[derive(Clone, Debug)]
pub struct Live {
    /// Registers that are live at the beginning of some block, ascending.
    across: Vec<Reg>,
    sets: Sets,
}

#[derive(Clone, Debug)]
enum Sets {
    /// By block, places in `across`, ascending: before it, and after it.
    Lists(Lists, Lists),
    /// By block, a bit for each place in `across`.
    Bits { words: usize, before: Vec<u64>, behind: Vec<u64> },
    /// Every register everywhere.
    All(Reg),
}

/// A list of numbers for each block, or for each register.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    /// The second numbers of `pairs` by their first ones, in the order of the pairs.
    pub(super) fn new(n: usize, pairs: &[(u32, u32)]) -> Self {
        let mut starts = vec![0u32; n + 1];
        pairs.iter().for_each(|(at, _)| starts[*at as usize + 1] += 1);
        (0..n).for_each(|i| starts[i + 1] += starts[i]);
        let mut next = starts.clone();
        let mut items = vec![0; pairs.len()];
        for (at, item) in pairs {
            let slot = &mut next[*at as usize];
            items[*slot as usize] = *item;
            *slot += 1;
        }
        Self { starts, items }
    }

    pub(super) fn of(&self, at: usize) -> &[u32] {
        &self.items[self.starts[at] as usize..self.starts[at + 1] as usize]
    }
}

impl Live {
    /// Liveness in `func`.
    pub fn new(func: &Func) -> Self {
        if func.injected_by_hand {
            // Tokens written by hand lead from `sync` and `break` to wherever they were pushed for:
            // every register may be read later.
            return Self { across: Vec::new(), sets: Sets::All(func.regs.len() as Reg) };
        }
        let exposed = Exposed::new(func);
        let across = exposed.across.clone();
        let words = across.len().div_ceil(64);
        // Lists take a step for each block that a register lives in, bits for each 64 registers there
        // are: whichever is less.
        let budget = 2 * words * func.blocks.len() + 1024;
        let sets = exposed.lists(func, budget).unwrap_or_else(|| exposed.bits(func, words));
        Self { across, sets }
    }

    /// Registers live at the beginning of a block, ascending.
    pub fn for_before(&self, block: usize, each: impl FnMut(Reg)) {
        match &self.sets {
            Sets::Lists(before, _) => self.for_list(before.of(block), each),
            Sets::Bits { words, before, .. } => self.for_bits(&before[block * words..][..*words], each),
            Sets::All(n) => (0..*n).for_each(each),
        }
    }

    /// Registers live at the end of a block, ascending.
    pub fn for_behind(&self, block: usize, each: impl FnMut(Reg)) {
        match &self.sets {
            Sets::Lists(_, behind) => self.for_list(behind.of(block), each),
            Sets::Bits { words, behind, .. } => self.for_bits(&behind[block * words..][..*words], each),
            Sets::All(n) => (0..*n).for_each(each),
        }
    }

    /// Makes `set` what is live at the end of a block.
    pub fn behind(&self, block: usize, set: &mut RegSet) {
        set.clear();
        self.for_behind(block, |reg| {
            set.insert(reg);
        });
    }

    fn for_list(&self, list: &[u32], each: impl FnMut(Reg)) {
        count(list.len());
        list.iter().map(|place| self.across[*place as usize]).for_each(each);
    }

    fn for_bits(&self, bits: &[u64], mut each: impl FnMut(Reg)) {
        count(bits.len());
        for (i, word) in bits.iter().enumerate() {
            let mut word = *word;
            while word != 0 {
                count(1);
                each(self.across[i * 64 + word.trailing_zeros() as usize]);
                word &= word - 1;
            }
        }
    }
}

/// What each block reads before it writes it, and what it writes.
struct Exposed {
    /// Registers that some block reads before it writes them, ascending.
    across: Vec<Reg>,
    /// By block: places in `across` of what it reads before it writes it.
    read: Vec<(u32, u32)>,
    /// The same of what it writes.
    written: Vec<(u32, u32)>,
}

impl Exposed {
    fn new(func: &Func) -> Self {
        let n = func.regs.len();
        let (mut killed, mut seen) = (RegSet::new(n), RegSet::new(n));
        let mut read: Vec<(u32, u32)> = Vec::new();
        let mut place = vec![u32::MAX; n];
        for (b, block) in func.blocks.iter().enumerate() {
            killed.clear();
            seen.clear();
            for inst in block.all() {
                inst.for_reads(|reg| {
                    if !killed.contains(reg) && seen.insert(reg) {
                        place[reg as usize] = 0;
                        read.push((b as u32, reg));
                    }
                });
                inst.for_writes(|reg| {
                    killed.insert(reg);
                });
            }
        }
        let across: Vec<Reg> = (0..n as Reg).filter(|reg| place[*reg as usize] == 0).collect();
        across.iter().zip(0..).for_each(|(reg, i)| place[*reg as usize] = i);
        read.iter_mut().for_each(|(_, reg)| *reg = place[*reg as usize]);
        let mut written = Vec::new();
        if !across.is_empty() {
            for (b, block) in func.blocks.iter().enumerate() {
                seen.clear();
                block.all().for_each(|inst| {
                    inst.for_writes(|reg| {
                        let place = place[reg as usize];
                        if place != u32::MAX && seen.insert(reg) {
                            written.push((b as u32, place));
                        }
                    });
                });
            }
        }
        Self { across, read, written }
    }

    /// From each block that reads a register back to where it is written, register by register; `None`
    /// beyond `budget` steps.
    fn lists(&self, func: &Func, budget: usize) -> Option<Sets> {
        let blocks = func.blocks.len();
        let mut edges: Vec<(u32, u32)> = Vec::new();
        for (b, block) in func.blocks.iter().enumerate() {
            block.for_successors(|next| edges.push((next as u32, b as u32)));
        }
        let predecessors = Lists::new(blocks, &edges);
        let by_register = |pairs: &[(u32, u32)]| {
            let turned: Vec<(u32, u32)> = pairs.iter().map(|(block, place)| (*place, *block)).collect();
            Lists::new(self.across.len(), &turned)
        };
        let (read, written) = (by_register(&self.read), by_register(&self.written));
        let (mut before, mut behind): (Vec<(u32, u32)>, Vec<(u32, u32)>) = (Vec::new(), Vec::new());
        let (mut is_before, mut is_behind) = (vec![u32::MAX; blocks], vec![u32::MAX; blocks]);
        let mut writes = vec![u32::MAX; blocks];
        let mut open: Vec<u32> = Vec::new();
        for place in 0..self.across.len() {
            let reg = place as u32;
            written.of(place).iter().for_each(|b| writes[*b as usize] = reg);
            for &b in read.of(place) {
                is_before[b as usize] = reg;
                before.push((b, reg));
                open.push(b);
            }
            while let Some(b) = open.pop() {
                for &p in predecessors.of(b as usize) {
                    count(1);
                    if std::mem::replace(&mut is_behind[p as usize], reg) == reg {
                        continue;
                    }
                    behind.push((p, reg));
                    if writes[p as usize] != reg && std::mem::replace(&mut is_before[p as usize], reg) != reg
                    {
                        before.push((p, reg));
                        open.push(p);
                    }
                }
                if before.len() + behind.len() > budget {
                    return None;
                }
            }
        }
        Some(Sets::Lists(Lists::new(blocks, &before), Lists::new(blocks, &behind)))
    }

    /// All registers together, until nothing changes.
    fn bits(&self, func: &Func, words: usize) -> Sets {
        let blocks = func.blocks.len();
        let set = |pairs: &[(u32, u32)]| {
            let mut bits = vec![0u64; words * blocks];
            for (block, place) in pairs {
                bits[*block as usize * words + *place as usize / 64] |= 1 << (place % 64);
            }
            bits
        };
        let (mut before, written) = (set(&self.read), set(&self.written));
        let mut behind = vec![0u64; words * blocks];
        let mut changed = true;
        while changed {
            changed = false;
            for b in (0..blocks).rev() {
                count(words);
                let own = b * words..(b + 1) * words;
                let behind = &mut behind[own.clone()];
                func.blocks[b].for_successors(|next| {
                    let next = &before[next * words..][..words];
                    behind.iter_mut().zip(next).for_each(|(a, b)| *a |= b);
                });
                for ((a, b), c) in before[own.clone()].iter_mut().zip(behind).zip(&written[own]) {
                    let new = *b & !c & !*a;
                    changed |= new != 0;
                    *a |= new;
                }
            }
        }
        Sets::Bits { words, before, behind }
    }
}
