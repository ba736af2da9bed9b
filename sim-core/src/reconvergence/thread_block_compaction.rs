//! Thread block compaction (Fung and Aamodt 2011): one post-dominator stack a block. At a branch
//! that may divide threads the warps of a block wait for each other; the threads of each path are
//! then compacted: they issue as formed warps, each thread in its own lane, and wait for the other
//! paths at the post-dominator.

use std::collections::HashMap;

use sim_frontend::program::{NO_PC, Pc};

use super::paths::{Group, NONE, Path, Paths};
use super::rules::{Event, Rules};

/// An entry of a block's stack.
#[derive(Clone, Copy, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
struct Entry {
    id: usize,
    /// The entry its threads belong to once they are at the join.
    parent: usize,
    /// Address and depth at which they wait for the other paths.
    join: (Pc, u32),
}

/// One stack a block.
#[derive(Debug, Default)]
pub struct ThreadBlockCompaction {
    /// By block slot. Never iterated over.
    stacks: HashMap<usize, Vec<Entry>>,
    next_id: usize,
}

/// The first entry of a block, which only ends with its threads.
const ROOT: usize = 0;

impl ThreadBlockCompaction {
    fn stack(&mut self, block: usize) -> &mut Vec<Entry> {
        self.stacks.entry(block).or_insert_with(|| vec![Entry { id: ROOT, parent: ROOT, join: (NO_PC, 0) }])
    }

    /// Paths that have come to their join belong to the entry below.
    fn arrive(stack: &[Entry], paths: &mut Paths) {
        for slot in paths.running() {
            let path = &mut paths.slots[slot];
            while let Some(entry) = stack.iter().find(|entry| entry.id == path.entry)
                && entry.join == (path.pc, path.depth)
                && path.held == NO_PC
            {
                path.entry = entry.parent;
            }
        }
    }

    /// All threads of an entry that can go on wait at branches: where they go become entries of
    /// their own, which meet at the first address that all of them come to. `others`: the entry has
    /// threads at a barrier besides.
    fn divide(
        &mut self,
        block: usize,
        warps: &mut [Paths],
        id: usize,
        members: &[(usize, usize)],
        others: bool,
    ) {
        let mut groups: Vec<((Pc, u32), Vec<(usize, usize)>)> = Vec::new();
        let mut branches: Vec<Pc> = Vec::new();
        for &(warp, slot) in members {
            let path = &mut warps[warp].slots[slot];
            branches.push(std::mem::replace(&mut path.held, NO_PC));
            let to = (path.pc, path.depth);
            match groups.iter_mut().find(|(at, _)| *at == to) {
                Some((_, members)) => members.push((warp, slot)),
                None => groups.push((to, vec![(warp, slot)])),
            }
        }
        if groups.len() > 1 {
            branches.sort_unstable();
            branches.dedup();
            let depth = groups[0].0.1;
            let one_call = groups.iter().all(|((_, other), _)| *other == depth);
            let join = warps[members[0].0].plan.common_join(&branches).filter(|_| one_call);
            let first_id = self.next_id + 1;
            self.next_id += groups.len();
            let stack = self.stack(block);
            let Some(at) = stack.iter().position(|entry| entry.id == id) else { return };
            let old = stack[at];
            let (parent, join) = match join {
                Some(join) if (join, depth) != old.join => (old.id, (join, depth)),
                // They wait where the entry itself would have: it makes room, unless it has others.
                _ if old.id != ROOT => {
                    if !others {
                        stack.remove(at);
                    }
                    (old.parent, old.join)
                }
                _ => (ROOT, old.join),
            };
            for (i, (_, members)) in groups.iter().enumerate().rev() {
                stack.push(Entry { id: first_id + i, parent, join });
                for &(warp, slot) in members {
                    warps[warp].slots[slot].entry = first_id + i;
                }
            }
        }
        let stack = self.stack(block);
        for &(warp, _) in members {
            Self::arrive(stack, &mut warps[warp]);
        }
    }

    /// The entry whose threads run: the topmost with threads that can. Entries without threads end;
    /// one all of whose threads wait at branches is divided.
    fn running_entry(&mut self, block: usize, warps: &mut [Paths], own: &[usize]) -> usize {
        let mut index = self.stack(block).len();
        while index > 0 {
            index -= 1;
            let stack = self.stack(block);
            let Some(&Entry { id, .. }) = stack.get(index) else { break };
            let members: Vec<(usize, usize)> = own
                .iter()
                .flat_map(|&warp| warps[warp].used().map(move |slot| (warp, slot)))
                .filter(|&(warp, slot)| warps[warp].slots[slot].entry == id)
                .collect();
            if members.is_empty() {
                if index + 1 == stack.len() && index > 0 {
                    stack.pop();
                }
                continue;
            }
            let path = |&(warp, slot): &(usize, usize)| &warps[warp].slots[slot];
            if members.iter().map(path).any(|path| path.held == NO_PC && !path.parked) {
                return id;
            }
            // Threads at a barrier wait for others, which may be below.
            let held: Vec<_> = members.iter().copied().filter(|at| path(at).held != NO_PC).collect();
            if !held.is_empty() {
                self.divide(block, warps, id, &held, held.len() < members.len());
                index = self.stack(block).len();
            }
        }
        NONE
    }
}

/// Paths that one entry holds.
fn same(a: &Path, b: &Path) -> bool {
    a.entry == b.entry && a.depth == b.depth && a.held == b.held
}

impl Rules for ThreadBlockCompaction {
    fn save(&self) -> std::io::Result<Vec<u8>> {
        borsh::to_vec(&(&self.stacks, self.next_id))
    }

    fn restore(&mut self, saved: &[u8]) -> std::io::Result<()> {
        (self.stacks, self.next_id) = borsh::from_slice(saved)?;
        Ok(())
    }

    fn diverged(&mut self, paths: &mut Paths, slot: usize, _pc: Pc, groups: &[Group], _join: Option<Pc>) {
        let entry = paths.slots[slot].entry;
        paths.scatter(slot, groups, entry);
    }

    fn settle(&mut self, paths: &mut Paths, event: Event, _slot: usize) {
        match event {
            Event::Admitted => paths.slots.iter_mut().for_each(|path| path.entry = ROOT),
            // Every path this branch made or moved has its turn stamped since.
            Event::Branched(pc) if paths.plan.branches(pc) => {
                let moved = paths.moved;
                for slot in paths.running().filter(|slot| moved >> slot & 1 == 1) {
                    paths.slots[slot].held = pc;
                }
            }
            _ => {}
        }
    }

    fn spans_blocks(&self) -> bool {
        true
    }

    fn settle_block(&mut self, warps: &mut [Paths], own: &[usize], begins: bool) {
        let Some(&first) = own.first() else { return };
        let block = warps[first].block;
        if begins {
            self.stacks.remove(&block);
        }
        let stack = self.stack(block);
        for &warp in own {
            Self::arrive(stack, &mut warps[warp]);
            warps[warp].merge(same);
        }
        let top = self.running_entry(block, warps, own);
        let stack = self.stack(block);
        for &warp in own {
            let paths = &mut warps[warp];
            paths.merge(same);
            paths.enable_only(|_, path| path.entry == top && path.held == NO_PC);
            for slot in paths.running() {
                let path = paths.slots[slot];
                let join = stack.iter().find(|entry| entry.id == path.entry).map(|entry| entry.join);
                let join =
                    join.filter(|join| join.1 == path.depth && join.0 > path.pc).map_or(NO_PC, |join| join.0);
                paths.slots[slot].stop = paths.next_meeting(slot, same).min(join);
            }
        }
    }

    fn forms_warps(&self) -> bool {
        true
    }

    fn forms_within_blocks(&self) -> bool {
        true
    }
}
