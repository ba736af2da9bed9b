//! Liveness of virtual registers. Each thread follows its own path, so per-thread liveness on
//! the control-flow graph is right under any policy; a guarded write keeps the old value alive.

use super::ir::{Func, Reg};

/// A set of registers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegSet(Vec<u64>);

impl RegSet {
    /// An empty set for `n` registers.
    pub fn new(n: usize) -> Self {
        Self(vec![0; n.div_ceil(64)])
    }

    /// Adds a register.
    pub fn insert(&mut self, reg: Reg) {
        self.0[reg as usize / 64] |= 1 << (reg % 64);
    }

    /// Removes a register.
    pub fn remove(&mut self, reg: Reg) {
        self.0[reg as usize / 64] &= !(1 << (reg % 64));
    }

    /// Membership.
    pub fn contains(&self, reg: Reg) -> bool {
        self.0[reg as usize / 64] >> (reg % 64) & 1 == 1
    }

    /// Adds all of another set; true if it grew.
    pub fn union(&mut self, other: &Self) -> bool {
        let mut grew = false;
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            grew |= *b & !*a != 0;
            *a |= b;
        }
        grew
    }

    /// Adds what is in `other` and not in `except`; true if it grew.
    pub fn union_without(&mut self, other: &Self, except: &Self) -> bool {
        let mut grew = false;
        for ((a, b), c) in self.0.iter_mut().zip(&other.0).zip(&except.0) {
            let new = *b & !*c & !*a;
            grew |= new != 0;
            *a |= new;
        }
        grew
    }

    /// Members, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Reg> {
        self.0.iter().enumerate().flat_map(|(i, word)| {
            let mut bits = *word;
            std::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros())?;
                bits &= bits - 1;
                Some(i as u32 * 64 + bit)
            })
        })
    }
}

/// Registers live at the end of each block.
pub fn live_out(func: &Func) -> Vec<RegSet> {
    live(func).1
}

/// Registers live at the beginning and at the end of each block.
pub fn live(func: &Func) -> (Vec<RegSet>, Vec<RegSet>) {
    let n = func.regs.len();
    let blocks = func.blocks.len();
    if func.injected_by_hand {
        // Tokens written by hand lead from `sync` and `break` to wherever they were pushed for:
        // every register may be read later.
        let mut all = RegSet::new(n);
        (0..n as Reg).for_each(|reg| all.insert(reg));
        return (vec![all.clone(); blocks], vec![all; blocks]);
    }
    // What a block reads before it writes it is live before it; what it writes is not, unless it is
    // live behind the block and only some lanes write it.
    let mut live_in = Vec::with_capacity(blocks);
    let mut written = Vec::with_capacity(blocks);
    for block in &func.blocks {
        let (mut read, mut killed) = (RegSet::new(n), RegSet::new(n));
        for inst in block.all() {
            inst.for_reads(|reg| {
                if !killed.contains(reg) {
                    read.insert(reg);
                }
            });
            inst.for_writes(|reg| killed.insert(reg));
        }
        live_in.push(read);
        written.push(killed);
    }
    let mut live_out = vec![RegSet::new(n); blocks];
    let mut changed = true;
    while changed {
        changed = false;
        for b in (0..blocks).rev() {
            let block = &func.blocks[b];
            for next in block.successors() {
                live_out[b].union(&live_in[next]);
            }
            changed |= live_in[b].union_without(&live_out[b], &written[b]);
        }
    }
    (live_in, live_out)
}

/// Liveness before an instruction from liveness after it.
pub fn step_back(live: &mut RegSet, inst: &super::ir::Inst) {
    inst.for_writes(|reg| live.remove(reg));
    inst.for_reads(|reg| live.insert(reg));
}
