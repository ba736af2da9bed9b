//! Use of one partition for run after run: what it has allocated stays.

use std::sync::Arc;

use super::{Partition, PartitionStats};
use crate::cache::Cache;
use crate::occupancy::Occupancy;
use crate::spec::MemorySpec;

impl Partition {
    /// Makes an idle partition what [`new`](Self::new) makes of a slice, for a specification that differs at most in
    /// L1.
    pub fn reset(&mut self, new: &Arc<MemorySpec>, slice: Cache) {
        let used = self.stats.requests > 0;
        // All fields, so that a new one is not forgotten. Those that the chip alone decides stay.
        let Self {
            spec,
            clocks: _,
            programs: _,
            memory: _,
            mapping: _,
            l2,
            dram,
            instances,
            free,
            held,
            arrivals,
            events,
            port_free,
            by_banks: _,
            halves,
            last_line,
            stalled,
            waiting,
            mshrs,
            want_mshr,
            want_write,
            egress_free,
            dram_next,
            outbox,
            runnable,
            memory_changes,
            stats,
            observation,
        } = self;
        *spec = Arc::clone(new);
        *l2 = slice;
        *observation = None;
        if !used {
            return;
        }
        dram.reset();
        instances.clear();
        free.clear();
        held.reset(u64::from(spec.l2.sets().max(1)));
        arrivals.reset();
        events.reset();
        port_free.fill(0);
        if let Some(halves) = halves {
            halves.reset();
        }
        stalled.clear();
        want_mshr.clear();
        want_write.clear();
        outbox.clear();
        runnable.clear();
        (*waiting, *mshrs) = (Occupancy::default(), Occupancy::default());
        (*egress_free, *dram_next, *memory_changes, *last_line) = (0, None, 0, u64::MAX);
        *stats = PartitionStats::default();
    }
}
