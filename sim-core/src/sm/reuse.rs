//! Use of one SM for run after run: what it has allocated stays.

use std::sync::Arc;

use sim_memory::spec::MemorySpec;

use super::scheduler_state::SchedulerState;
use super::{Sm, SmStats, Status};
use crate::code::Queue;
use crate::execute::World;
use crate::reconvergence::Reconvergence;

impl<P: Reconvergence> Sm<P> {
    /// Makes an SM that has run all its blocks what [`new`](Self::new) makes for a chip that differs at most in how it
    /// splits L1 and shared memory. An SM that had nothing to do costs next to nothing.
    pub fn reset(&mut self, world: &Arc<World>, spec: &Arc<MemorySpec>, policy: impl FnOnce() -> P) {
        // All fields, so that a new one is not forgotten. Those that the chip alone decides stay.
        let Self {
            index: _,
            resident,
            memory,
            stats,
            accesses,
            units,
            scheduler_states,
            wheel,
            status,
            queue_of,
            schedulers: _,
            scheduler_shift: _,
            local_shift: _,
            live,
            now,
            next,
            inbox,
            woken,
            copied,
            touched,
            notices,
            barrier_latency: _,
            barrier_interval: _,
            barriers_free,
            fence: _,
            branch_latency: _,
            resident_warps,
            resident_since,
            finishing,
            load_store: _,
            instruction_set: _,
            following,
            turned: _,
            runs_until: _,
            ahead: _,
            network,
            tma,
            dual_issue: _,
            recorder,
            coming,
            product_reads,
            fetch,
            used,
        } = self;
        memory.reset(spec);
        *recorder = None;
        *resident_since = 0;
        *barriers_free = 0;
        let turns = std::mem::take(&mut stats.turns);
        let kernels = std::mem::take(&mut stats.kernels);
        *stats = SmStats { turns, kernels, ..SmStats::default() };
        stats.turns.clear();
        stats.kernels.clear();
        if !std::mem::take(used) {
            // Idle slots were accounted for all the same.
            scheduler_states.iter_mut().for_each(|state| state.accounted = 0);
            resident.enter(world);
            return;
        }
        resident.reset(world, policy());
        accesses.reset();
        units.reset();
        scheduler_states.iter_mut().for_each(SchedulerState::reset);
        wheel.reset();
        status.fill(Status::Absent);
        queue_of.fill(Queue::default());
        (*live, *now, *next) = (1, 0, None);
        inbox.clear();
        if let Some(network) = network {
            network.reset();
        }
        tma.reset();
        if let Some(fetch) = fetch {
            fetch.reset();
        }
        woken.clear();
        copied.clear();
        touched.clear();
        notices.clear();
        (*resident_warps, *following, *product_reads) = (0, false, (0, 0));
        finishing.clear();
        coming.clear();
    }
}
