//! Bulk copies to and from shared memory, and asynchronous stores: agents make them, of which those learn who wait for the
//! phase of the mbarrier object that counts the bytes, or for the group of the copy.

use std::sync::Arc;

use sim_memory::access::AccessKind;
use sim_memory::line::{ByteMask, LINE_BYTES};
use sim_memory::observation::Event;
use sim_memory::vocabulary::{AtomicOp, Cycle, LaneMask, ScalarType, Scope, Semantics, WARP_LANES};

use super::Checker;
use super::clock::{Point, Thread};
use super::lines::Transfer;
use super::on_chip::{Access, Held};
use super::threads::{agent_of_object, agent_of_puts};
use crate::reconvergence::Lanes;

impl Checker {
    /// A bulk copy begins: its part in shared memory.
    pub(super) fn bulk(&mut self, sm: u32, at: Cycle, event: &Event) {
        match event {
            Event::BulkHeld { origin, lane, ticket } => {
                let lane = *lane as usize;
                let epoch = self.puts.room((sm, origin.0)).get_or_insert_default().epochs[lane];
                let Some(warp) = self.warps.get_mut(sm, origin.0) else { return };
                let snapshot = warp.issuing_bulk(lane, self.blocks[warp.block as usize].phase);
                self.held.insert((sm, *ticket), Held { snapshot, epoch });
            }
            Event::BulkDropped { ticket } => {
                self.held.remove(&(sm, *ticket));
            }
            Event::Bulk { origin, lane, to, bytes, object, block, counter, reduces, ticket } => {
                let Some((own, by)) = self.copier(sm, *origin, *lane) else { return };
                let grid = self.blocks[own as usize].grid;
                let or = |number: &Option<u64>, other: u32| match number {
                    None => Some(other),
                    Some(number) => self.block_of_number(grid, *number),
                };
                let Some(target) = or(block, own) else { return };
                let Some(counts) = or(counter, target) else { return };
                let agent = self.agent_of(counts, *object);
                let kind = match reduces {
                    true => AccessKind::Atomic { op: AtomicOp::Add, ty: ScalarType::B64, returns: false },
                    false => AccessKind::Store,
                };
                let of = (*origin, *lane, by);
                self.by_agent(sm, at, of, (agent, *ticket), (target, *to, *bytes), kind);
            }
            Event::BulkRead { origin, lane, from, bytes, counted, stored, ticket } => {
                let Some((own, by)) = self.copier(sm, *origin, *lane) else { return };
                let held = ticket.and_then(|ticket| self.held.get(&(sm, ticket)));
                let epoch = held.map(|held| held.epoch);
                let agent = match counted {
                    Some((number, object)) => {
                        let grid = self.blocks[own as usize].grid;
                        let target = self.block_of_number(grid, *number);
                        let Some(target) = target else { return };
                        self.agent_of(target, *object)
                    }
                    None => {
                        let copies = self.puts.room((sm, origin.0)).get_or_insert_default();
                        agent_of_puts(by, epoch.unwrap_or(copies.epochs[*lane as usize]))
                    }
                };
                let of = (*origin, *lane, by);
                let read = (own, *from, *bytes);
                let last = self.by_agent(sm, at, of, (agent, *ticket), read, AccessKind::Load);
                if counted.is_none()
                    && let (Some(last), Some(copies)) = (last, self.puts.get_mut(sm, origin.0))
                {
                    let lane = *lane as usize;
                    copies.last[lane] = Some((epoch.unwrap_or(copies.epochs[lane]), Arc::new(last)));
                }
                if let Some(sanitizer) = self.sanitizer.as_mut().filter(|sanitizer| sanitizer.kinds.init) {
                    for &(at, bytes) in stored {
                        sanitizer.written.write_global(at, bytes);
                    }
                }
            }
            _ => {}
        }
    }

    /// The block and the thread that copy.
    fn copier(&self, sm: u32, origin: (u32, u32), lane: u32) -> Option<(u32, Thread)> {
        let warp = self.warps.get(sm, origin.0)?;
        Some((warp.block, warp.thread(lane as usize)))
    }

    /// Where the agent of an object of a block stands in its current phase.
    fn agent_of(&mut self, block: u32, object: u32) -> Point {
        let phase = self.blocks[block as usize].objects.entry(object).or_default().phase;
        agent_of_object(block, object, phase)
    }

    /// An agent accesses bytes of the shared memory of a block, as lane 0; the access to the last line.
    fn by_agent(
        &mut self,
        sm: u32,
        at: Cycle,
        (origin, lane, by): ((u32, u32), u32, Thread),
        (agent, ticket): (Point, Option<u32>),
        (block, first, bytes): (u32, u32, u32),
        kind: AccessKind,
    ) -> Option<Transfer> {
        let warp = self.warps.get_mut(sm, origin.0)?;
        let phase = self.blocks[warp.block as usize].phase;
        let held = ticket.and_then(|ticket| self.held.get(&(sm, ticket)));
        let snapshot = match held {
            Some(held) => {
                let mut snapshot = held.snapshot.clone();
                snapshot.become_agent(agent);
                Arc::new(snapshot)
            }
            None => warp.copying_bulk(lane as usize, agent, phase),
        };
        let base = self.shared_base(block);
        let reduces = matches!(kind, AccessKind::Atomic { .. });
        let (mut from, mut last) = (first, None);
        while from < first + bytes {
            let end = (from / LINE_BYTES + 1) * LINE_BYTES;
            let size = end.min(first + bytes) - from;
            let access = Access {
                origin,
                kind,
                semantics: if reduces { Semantics::Relaxed } else { Semantics::Weak },
                scope: if reduces { Scope::Gpu } else { Scope::Cta },
                warp: Arc::clone(&snapshot),
                size: size as u8,
                copies: Some(by),
                addresses: &[from; WARP_LANES],
            };
            let line = base | u64::from(from / LINE_BYTES * LINE_BYTES);
            let low = if size == LINE_BYTES { ByteMask::MAX } else { (1 << size) - 1 };
            let mut transfer = self.transfer(sm, at, &access, LaneMask::MAX);
            self.next_transfer(&mut transfer, line, low << (from % LINE_BYTES), 1);
            self.shared_line(&transfer, block);
            last = Some(transfer);
            from += size;
        }
        last
    }

    /// Lanes have waited until their bulk copies to global memory have read their sources.
    pub(super) fn puts_awaited(&mut self, of: (u32, u32), lanes: LaneMask, newest: u8) {
        let (Some(warp), Some(copies)) = (self.warps.get_mut(of.0, of.1), self.puts.get_mut(of.0, of.1))
        else {
            return;
        };
        for lane in Lanes(lanes) {
            let lane = lane as usize;
            if let Some(epoch) = copies.wait(lane, Some(newest)) {
                warp.learns_of(lane, agent_of_puts(warp.thread(lane), epoch));
            }
        }
    }
}
