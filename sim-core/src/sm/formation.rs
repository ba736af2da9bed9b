//! Formed warps: splits of several home warps that stand at one address issue in one slot, each
//! thread in its own lane. The registers stay with the home warps; the splits of a formed warp are
//! executed one after another in the same cycle.

use sim_frontend::program::Pc;
use sim_memory::vocabulary::{Cycle, LaneMask};

use super::Sm;
use crate::error::Fault;
use crate::reconvergence::{ReadyAddress, Reconvergence, SplitId};

impl<P: Reconvergence> Sm<P> {
    /// The kernel and address a split stands at.
    fn stands_at(&self, split: SplitId) -> (usize, Pc) {
        (self.resident.warps[self.resident.warp_of(split)].kernel, self.resident.policy.pc(split))
    }

    /// Of a scheduler's candidates keeps those at the address that the policy wants issued.
    pub(super) fn keep_preferred(&mut self, scheduler: usize) {
        let mut places: Vec<ReadyAddress> = Vec::new();
        let live = self.live;
        let state = self.scheduler(scheduler);
        state.picker.narrow(&mut state.candidates[..live]);
        let candidates = state.candidates[..live].to_vec();
        let splits: Vec<(u32, SplitId)> =
            bits(candidates.iter().copied()).map(|place| (place, self.split_at(scheduler, place))).collect();
        for &(_, split) in &splits {
            let (kernel, pc) = self.stands_at(split);
            let threads = self.resident.policy.mask(split).count_ones();
            let since = self.resident.policy.since(split);
            match places.iter_mut().find(|place| (place.kernel, place.pc) == (kernel, pc)) {
                Some(place) => {
                    place.threads += threads;
                    place.since = place.since.min(since);
                }
                None => {
                    let nesting = self.resident.kernels[kernel].code.plan.nesting(pc);
                    places.push(ReadyAddress { kernel, pc, threads, since, nesting });
                }
            }
        }
        let Some(chosen) = self.resident.policy.prefers(&places) else { return };
        let ReadyAddress { kernel, pc, .. } = places[chosen];
        for (place, split) in splits {
            if self.stands_at(split) != (kernel, pc) {
                self.scheduler(scheduler).candidates[place as usize / 64] &= !(1 << (place % 64));
            }
        }
    }

    /// Issues the split at `place` and with it, in the same slot, ready splits of other warps at
    /// its address whose lanes are free.
    pub(super) fn issue_formed(
        &mut self,
        scheduler: usize,
        place: u32,
        now: Cycle,
    ) -> Result<(), Box<Fault>> {
        let leader = self.split_at(scheduler, place);
        let at = self.stands_at(leader);
        let mut taken: LaneMask = self.resident.policy.mask(leader);
        let home = self.resident.warp_of(leader);
        let unit = self.queue_of[leader].unit();
        let others: Vec<SplitId> = (0..self.schedulers)
            .flat_map(|s| bits(self.scheduler_states[s].ready_words()).map(move |place| (s, place)))
            .map(|(s, place)| self.split_at(s, place))
            .filter(|&other| self.resident.warp_of(other) != home && self.stands_at(other) == at)
            .filter(|&other| self.resident.policy.joins(leader, other))
            .collect();
        self.issue(scheduler, place, now)?;
        for other in others {
            let memory = unit == self.load_store;
            if memory && !self.memory.accepting() {
                break;
            }
            let mask = self.resident.policy.mask(other);
            let free = mask & !taken;
            let (scheduler, place) = self.place(other);
            // The leader's step may have changed it.
            if free == 0 || self.stands_at(other) != at || !self.is_ready(scheduler, place) {
                continue;
            }
            let split = if free == mask {
                other
            } else {
                let Some(part) = self.resident.policy.carve(other, free) else { continue };
                self.resident.expected[part] = self.resident.expected[other];
                part
            };
            taken |= free;
            let (scheduler, place) = self.place(split);
            let grid = self.resident.kernels[at.0].grid_id as usize;
            let before = self.stats.kernels[grid];
            self.following = true;
            let issued = self.issue(scheduler, place, now);
            self.following = false;
            issued?;
            // One instruction of a formed warp, with the threads of all its parts.
            let counts = &mut self.stats.kernels[grid];
            counts.warp_instructions = before.warp_instructions;
            counts.control_instructions = before.control_instructions;
            counts.machine_instructions = before.machine_instructions;
        }
        Ok(())
    }
}

/// Set bits of a set of words, ascending.
fn bits(words: impl Iterator<Item = u64>) -> impl Iterator<Item = u32> {
    words.enumerate().flat_map(|(word, set)| {
        let mut left = set;
        std::iter::from_fn(move || {
            (left != 0).then(|| {
                let bit = left.trailing_zeros();
                left &= left - 1;
                word as u32 * 64 + bit
            })
        })
    })
}
