//! Use of one memory side for run after run: what it has allocated stays.

use std::sync::Arc;

use super::{SmMemory, SmMemoryStats};
use crate::occupancy::Occupancy;
use crate::spec::MemorySpec;

impl SmMemory {
    /// Makes an idle memory side what [`new`](Self::new) makes for a specification that differs at most in L1.
    pub fn reset(&mut self, new: &Arc<MemorySpec>) {
        let used = self.stats.accesses > 0;
        // All fields, so that a new one is not forgotten. Those that the chip alone decides stay, and those whose
        // entries are written before they are read.
        let Self {
            spec,
            programs: _,
            latencies,
            fence_flushes: _,
            mapping: _,
            l1,
            instances,
            data: _,
            free,
            lsu,
            lsu_free,
            lsu_blocked,
            held,
            events,
            replies,
            accepted,
            ingress_free,
            replay_free,
            parts,
            spare_atomics: _,
            outbox,
            egress_free,
            tlbs,
            sm: _,
            mshrs,
            tokens,
            load_store,
            leaving,
            runnable,
            stats,
            asked,
            observation,
            follows_stores,
        } = self;
        let old = std::mem::replace(spec, Arc::clone(new));
        (*asked, *observation, *follows_stores) = (None, None, false);
        if !used && old.l1 == spec.l1 {
            return;
        }
        l1.reset(&spec.l1);
        held.reset(u64::from(spec.l1.sets().max(1)));
        instances.clear();
        free.clear();
        lsu.clear();
        (*lsu_free, *lsu_blocked, *egress_free, *ingress_free, *replay_free) = (0, false, 0, 0, 0);
        events.reset();
        replies.reset();
        accepted.reset();
        parts.clear();
        outbox.clear();
        if let Some(tlbs) = tlbs {
            tlbs.reset();
        }
        leaving.clear();
        runnable.clear();
        latencies.reset();
        (*mshrs, *tokens, *load_store) = (Occupancy::default(), Occupancy::default(), Occupancy::default());
        *stats = SmMemoryStats::default();
    }
}
