//! Clusters: their barrier, and what their blocks do in each other's shared memory.
//!
//! An access to the memory of another block is sent there, performed, and perhaps answered. What its threads know, and
//! what they release, is that of the time when it is sent; a strong access observes what is there when it is performed,
//! and its threads learn of that by the answer.

use std::sync::Arc;

use sim_memory::observation::{ClusterAction, Event, ObjectAction};
use sim_memory::vocabulary::{Cycle, LaneMask};

use super::Checker;
use super::lines::Reads;
use super::on_chip::{Access, scope_of};
use super::sent::{Cluster, Sent};
use crate::reconvergence::Lanes;

impl Checker {
    /// The cluster of block `block` of the run, which begins: it has this number in its grid.
    pub(super) fn cluster_of(&mut self, kernel: usize, (grid, number): (u32, u64), block: u32) -> u32 {
        let new = self.clusters.len() as u32;
        self.numbers.insert((grid, number), block);
        let Some(kernel) = self.kernels.get(kernel).filter(|kernel| kernel.cluster_size() > 1) else {
            self.clusters.push(Cluster::default());
            return new;
        };
        let first = kernel.number_of_rank(kernel.block_index(number), 0);
        let cluster = *self.by_first.entry((grid, first)).or_insert(new);
        if cluster == new {
            self.clusters.push(Cluster { several: true, ..Cluster::default() });
        }
        cluster
    }

    /// The barrier of a cluster is no memory: an arrival releases, who waits acquires.
    pub(super) fn cluster_barrier(
        &mut self,
        of: (u32, u32),
        lanes: LaneMask,
        action: ClusterAction,
        odd: bool,
    ) {
        let Some(warp) = self.warps.get_mut(of.0, of.1) else { return };
        let block = &self.blocks[warp.block as usize];
        let released = &mut self.clusters[block.cluster as usize].released[usize::from(odd)];
        match action {
            ClusterAction::Arrive => warp.release_to(lanes, block.phase, released),
            ClusterAction::Waited => warp.learn_together(lanes, released),
        }
    }

    /// The block of this number in a grid, if it has not ended.
    pub(super) fn block_of_number(&self, grid: u32, number: u64) -> Option<u32> {
        let block = *self.numbers.get(&(grid, number))?;
        (self.blocks[block as usize].warps > 0).then_some(block)
    }

    /// What an SM sends to another, and what becomes of it.
    pub(super) fn remote(&mut self, sm: u32, at: Cycle, event: &Event) {
        match event {
            Event::Remote { origin, ticket, block, kind, semantics, scope, lanes, addresses, size } => {
                let Some(warp) = self.warps.get_mut(sm, origin.0) else { return };
                let (grid, phase) = {
                    let own = &self.blocks[warp.block as usize];
                    (own.grid, own.phase)
                };
                let warp = warp.snapshot(phase);
                let Some(target) = self.block_of_number(grid, *block) else { return };
                let scope = scope_of(*kind, *semantics, *scope);
                let access = Access {
                    origin: *origin,
                    kind: *kind,
                    semantics: *semantics,
                    scope,
                    warp,
                    size: *size,
                    copies: None,
                    addresses,
                };
                let mut strong = Vec::new();
                self.by_line(sm, at, &access, *lanes, target, |checker, transfer| {
                    if !checker.follows || !transfer.strong() {
                        checker.shared_line(transfer, target);
                        return;
                    }
                    checker.sanitize_shared(transfer, target);
                    let releases = checker.released_by(transfer);
                    strong.push((Arc::new(transfer.clone()), releases, Reads::new()));
                });
                if !strong.is_empty() {
                    self.sent.insert((sm, *ticket), Sent::Access(strong));
                }
            }
            Event::RemotePerformed { sm: by, ticket } => {
                let Some(Sent::Access(mut parts)) = self.sent.remove(&(*by, *ticket)) else { return };
                for (transfer, releases, observed) in &mut parts {
                    *observed = self.perform_shared(transfer, std::mem::take(releases));
                }
                self.sent.insert((*by, *ticket), Sent::Access(parts));
            }
            Event::RemoteAnswered { ticket } => {
                let Some(Sent::Access(parts)) = self.sent.remove(&(sm, *ticket)) else { return };
                for (transfer, _, observed) in &parts {
                    self.learn(transfer, observed);
                }
            }
            Event::RemoteCount { origin, ticket, lanes, action } => {
                let Some(warp) = self.warps.get_mut(sm, origin.0) else { return };
                let phase = self.blocks[warp.block as usize].phase;
                let before = warp.snapshot(phase);
                let arriving = if *action == ObjectAction::Arrive { *lanes } else { 0 };
                let releases =
                    Lanes(arriving).map(|lane| (lane, warp.arrive(lane as usize, phase))).collect();
                let sent = Sent::Count { origin: *origin, warp: before, releases, left: *lanes };
                self.sent.insert((sm, *ticket), sent);
            }
            Event::RemoteObject { .. } => self.remote_object(at, event),
            _ => {}
        }
    }

    /// An operation that another block has sent is performed at an mbarrier object.
    fn remote_object(&mut self, at: Cycle, event: &Event) {
        let Event::RemoteObject { sent, grid, block, lane, object: address, completes, .. } = event else {
            return;
        };
        let Some(number) = self.block_of_number(*grid, *block) else { return };
        let mut access = None;
        if let Some(key) = sent
            && let Some(Sent::Count { origin, warp, releases, left }) = self.sent.get_mut(key)
        {
            let object = self.blocks[number as usize].objects.entry(*address).or_default();
            if let Some((_, release)) = releases.iter().find(|(by, _)| by == lane) {
                object.arriving.join(&release.clock);
                object.arriving.add(release.point);
            }
            access = Some((key.0, *origin, Arc::clone(warp)));
            *left &= !(1 << lane);
            if *left == 0 {
                self.sent.remove(key);
            }
        }
        if *completes {
            self.end_phase(number, *address);
        }
        if let Some((sm, origin, warp)) = access {
            self.object_access((sm, at), origin, warp, *lane, (number, *address), false);
        }
    }
}
