//! Blocks of a kernel in the functional mode: which run, and until when.

use std::ops::Range;
use std::sync::Arc;

use super::released::Released;
use super::{FIRST_WATCH, Functional, Going, Halt, Launches, Room, TURN, Verdict, record};
use crate::counts::KernelCounts;
use crate::error::{Fault, FaultKind};
use crate::grid::Kernel;
use crate::reconvergence::Reconvergence;

/// A fault that proves nothing, since a kernel of another stream has not begun.
fn not_begun(mut fault: Box<Fault>) -> Box<Fault> {
    fault.kind = FaultKind::Fault;
    fault.rule = "functional".into();
    fault.message = format!(
        "kernels run one after another in functional mode, and this one may wait for a kernel of another \
         stream that has not begun: run both with timing. {}",
        fault.message
    );
    fault
}

impl<P: Reconvergence> Functional<P> {
    /// Makes room for `room` blocks of a kernel at a time.
    fn make_room(&mut self, kernel: &Kernel, room: u32) {
        let warps = (kernel.warps_per_block() as usize * room as usize).max(self.resident.warps.len());
        let blocks = (room as usize).max(self.resident.blocks.len());
        if (warps, blocks) != (self.resident.warps.len(), self.resident.blocks.len()) {
            self.resident.grow(warps, blocks);
            self.parked.resize(warps * P::SPLITS, false);
            self.released.resize(warps * P::SPLITS, Released::Not);
            self.queued.resize(warps * P::SPLITS, false);
        }
    }

    /// Runs a kernel to its end; `stop` is asked between turns. No more than `most` warp instructions
    /// are executed. No kernel of another stream has still to begin if it is `alone`.
    ///
    /// # Errors
    /// Why it did not come to its end.
    pub fn run(
        &mut self,
        kernel: &Arc<Kernel>,
        room: Room,
        alone: bool,
        most: u64,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), Halt> {
        self.begin(kernel, 0..kernel.blocks(), room, most);
        match self.go_on(kernel, stop)? {
            None => Ok(()),
            Some(fault) => Err(Halt::Fault(if alone { fault } else { not_begun(fault) })),
        }
    }

    /// Begins with the blocks of a range, in the order of dispatch, of a kernel; no more than `most` warp instructions are executed.
    pub fn begin(
        &mut self,
        kernel: &Kernel,
        range: Range<u64>,
        Room { fits, most: most_room }: Room,
        most: u64,
    ) {
        let grid = kernel.grid_id as usize;
        if self.counts.len() <= grid {
            self.counts.resize(grid + 1, KernelCounts::default());
        }
        let last = self.counts[grid].warp_instructions.saturating_add(most);
        self.launches = Launches { next: range.start, blocks: range.end, cancelled: 0 };
        // As many blocks as one SM holds stay in the host's caches. Only where these wait for blocks that
        // have not begun are there more at a time, up to what the chip holds.
        // Blocks of a cooperative launch do.
        let cluster = kernel.cluster_size();
        let most_room = most_room.max(cluster);
        let room = if kernel.workspace == 0 { fits.max(cluster) } else { most_room };
        self.make_room(kernel, room.min(most_room));
        let (done, next_watch) = (range.start, self.first_watch());
        self.going = Going { last, room, most_room, done, next_watch, ..Going::default() };
        self.splits.clear();
        self.queued.fill(false);
        self.released.fill(Released::Not);
    }

    /// The round after which threads are watched first: soon, where others run beside and may be what they wait for.
    fn first_watch(&self) -> u64 {
        if self.local_sm == 0 { FIRST_WATCH } else { FIRST_WATCH / 16 }
    }

    /// Up to so many blocks may run at a time from now on, where they wait for others.
    pub fn widen(&mut self, most: u32) {
        self.going.most_room = self.going.most_room.max(most);
    }

    /// Runs the blocks that [`begin`](Self::begin) was told of to their end; `stop` is asked between turns. Where they wait for what no
    /// block of them does, it gives the fault that this is if nobody else does it, and can go on later.
    ///
    /// # Errors
    /// Why they did not come to their end.
    pub fn go_on(
        &mut self,
        kernel: &Arc<Kernel>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Box<Fault>>, Halt> {
        let grid = kernel.grid_id as usize;
        let cluster = kernel.cluster_size();
        while self.going.done + self.launches.cancelled < self.launches.blocks {
            while self.has_room(cluster) && self.launches.next < self.launches.blocks {
                let number = kernel.in_order(self.launches.next);
                let Some(slot) = self.resident.admit(kernel, number) else { break };
                self.not_released(slot);
                if cluster > 1 {
                    self.resident.join_cluster(slot, kernel, &vec![0; cluster as usize]);
                }
                if self.observed.is_some() {
                    self.observe_block(slot, kernel, number);
                }
                if let Some(record) = &self.record {
                    record::block(record, &self.resident, slot, kernel, number);
                }
                self.launches.next += 1;
                self.going.live += 1;
                self.queue_touched();
            }
            self.note_blocks();
            let before = self.counts[grid].issues();
            let (moved, mut whole_turn) = self.round(grid)?;
            if stop() {
                return Err(Halt::Stopped);
            }
            let issued = self.counts[grid].issues() - before;
            let going = &mut self.going;
            // Threads that spin and meet at a barrier each time end all their turns early.
            going.spent += issued;
            whole_turn |= going.spent >= (self.splits.len() as u64 + 1) * TURN;
            going.spent = if whole_turn { 0 } else { going.spent };
            going.rounds += u64::from(whole_turn);
            let (Going { room, most_room, done, live, .. }, Launches { next, blocks, cancelled }) =
                (*going, self.launches);
            let stuck = if whole_turn && going.rounds >= going.next_watch {
                match self.look(next + done) {
                    Verdict::Undecided => None,
                    Verdict::Over => {
                        self.going.next_watch = 2 * self.going.rounds;
                        None
                    }
                    Verdict::Stuck(fault) => Some(fault),
                }
            } else if !moved && done + cancelled < blocks && (next == blocks || live + cluster > room) {
                Some(self.deadlock())
            } else {
                None
            };
            if let Some(fault) = stuck {
                (self.watch, self.resident.watching) = (None, false);
                if next == blocks || live + cluster <= room || room >= most_room {
                    // Where others go on meanwhile, it is soon looked at again.
                    (self.going.rounds, self.going.next_watch) = (0, self.first_watch());
                    return Ok(Some(fault));
                }
                self.going.room = room.saturating_mul(2).min(most_room);
                self.make_room(kernel, self.going.room);
            }
        }
        // Clocks go on in the next kernel.
        self.base = self.base.wrapping_add(self.counts[grid].issues());
        self.finish_check().map(|()| None)
    }

    /// Notes accesses from here on, or does not, as far as those of some blocks only are noted.
    fn note_blocks(&mut self) {
        let (Some(noted), Some(touched)) = (&mut self.noted, &self.touched) else { return };
        let Launches { next, blocks, .. } = self.launches;
        if noted.last.is_none() && next - noted.from >= noted.first {
            let fill = touched.blocks_that_fill(next - noted.from);
            noted.last = Some(blocks.saturating_sub(fill));
        }
        self.notes = self.observed.is_some() || noted.last.is_none_or(|last| next >= last);
    }

    /// There is room for another cluster; its blocks begin together.
    fn has_room(&self, cluster: u32) -> bool {
        self.going.live + cluster <= self.going.room || !self.launches.next.is_multiple_of(cluster.into())
    }

    /// No other has released the splits of a block that begins.
    fn not_released(&mut self, slot: usize) {
        let Some(block) = &self.resident.blocks[slot] else { return };
        for w in block.warps.clone() {
            for split in self.resident.splits_of(w) {
                self.released[split as usize] = Released::Not;
            }
        }
    }
}
