//! Shared memory of other blocks of the cluster (PTX ISA ".shared::cluster"): accesses become packets to these blocks,
//! which serve them in the order of arrival.

use sim_frontend::form::{MbarrierOptions, MbarrierStep};
use sim_frontend::program::{AsyncStore, Extra, MbarrierOp, MemoryOp, Op, OpClass, Pc};
use sim_memory::address_space::{SHARED_WINDOW, WINDOW_BYTES, of_cluster};
use sim_memory::atomics;
use sim_memory::observation::Event;
use sim_memory::vocabulary::{LaneMask, StateSpace, WARP_LANES};

use super::access::{addresses, both, misaligned, only, wide_operands, write_wide};
use super::asynchronous::shared_addresses;
use super::bulk::counted_elsewhere;
use super::mbarrier::action;
use super::on_chip::outside;
use super::resident::{Resident, Step};
use crate::cluster_barrier::Peers;
use crate::error::Violation;
use crate::grid::Kernel;
use crate::mbarrier::{perform, phase_is_over};
use crate::packet::{Does, Origin, Packet, RemoteAccess, What};
use crate::reconvergence::{Lanes, Reconvergence};
use crate::registers::{extend, first_lane, from_bytes, read_element, write_element, write_loaded};

impl<P: Reconvergence> Resident<P> {
    /// The block in `slot` is one of a cluster whose blocks run on these SMs.
    pub fn join_cluster(&mut self, slot: usize, kernel: &Kernel, sms: &[u32]) {
        let Some(block) = self.blocks[slot].as_mut() else { return };
        let index = block.index;
        let blocks = (0..).zip(sms).map(|(rank, &sm)| (kernel.number_of_rank(index, rank), sm)).collect();
        block.cluster.peers = Some(Box::new(Peers {
            rank: kernel.rank(index),
            all: u32::MAX >> (32 - sms.len().clamp(1, 32)),
            grid_id: kernel.grid_id,
            blocks,
            arrived: [0; 2],
            gone: 0,
        }));
    }

    /// The other blocks of a cluster learn that the threads of this one have arrived, or ended.
    #[cold]
    pub(super) fn tell_cluster(&mut self, slot: usize, all: bool) {
        let Some(block) = self.blocks[slot].as_mut() else { return };
        let (odd, over) = (block.cluster.odd, block.live_threads == 0);
        let Some(peers) = &mut block.cluster.peers else { return };
        let own = 1 << peers.rank;
        let mut tell = |peers: &Peers, odd: Option<bool>| {
            for (rank, &(number, sm)) in (0..).zip(&peers.blocks) {
                if rank != peers.rank {
                    let what = What::Arrived { rank: peers.rank, odd };
                    self.outgoing.push(Packet { grid_id: peers.grid_id, number, sm, what });
                }
            }
        };
        if all && peers.arrived[usize::from(odd)] & own == 0 {
            peers.arrived[usize::from(odd)] |= own;
            tell(peers, Some(odd));
        }
        if over && peers.gone & own == 0 {
            peers.gone |= own;
            tell(peers, None);
        }
        if block.cluster.is_complete() {
            self.next_cluster_phase(slot);
        }
    }

    /// The rank that each of `lanes` names by a shared address, and the offset there. A plain address is the block's
    /// own.
    fn ranks(
        &self,
        w: usize,
        lanes: LaneMask,
        places: &[u64; WARP_LANES],
        bytes: u64,
    ) -> Result<(u32, [(u32, u64); WARP_LANES]), Violation> {
        let block = self.blocks[self.warps[w].block].as_ref();
        let size = block.map_or(0, |block| block.shared.len() as u64);
        let peers = block.and_then(|block| block.cluster.peers.as_deref());
        let (own, blocks) = peers.map_or((0, 1), |peers| (peers.rank, peers.blocks.len() as u64));
        let mut out = [(own, 0); WARP_LANES];
        for lane in Lanes(lanes) {
            let at = places[lane as usize];
            let (rank, offset) = of_cluster(at);
            let rank = rank.unwrap_or(own.into());
            if at >= WINDOW_BYTES || rank >= blocks {
                let reason = format!(
                    "shared address {at:#x} is that of block {rank} of the cluster, which has {blocks} blocks"
                );
                return Err(Violation::new("env-readShared", 1 << lane, reason));
            }
            if offset + bytes > size {
                return Err(outside(1 << lane, &[offset; WARP_LANES], bytes, size));
            }
            out[lane as usize] = (rank as u32, offset);
        }
        Ok((own, out))
    }

    /// A shared access with addresses beyond the block's own memory: they may name that of blocks of the cluster.
    #[cold]
    #[inline(never)]
    pub(super) fn shared_of_cluster(
        &mut self,
        kernel: &Kernel,
        w: usize,
        pc: Pc,
        op: &Op,
        facts: &MemoryOp,
        lanes: LaneMask,
        places: &[u64; WARP_LANES],
    ) -> Result<(), Violation> {
        let bytes = u64::from(facts.element_bytes) * u64::from(facts.vector);
        let size = self.blocks[self.warps[w].block].as_ref().map_or(0, |block| block.shared.len() as u64);
        let named = |lane: &u32| of_cluster(places[*lane as usize]).0.is_some();
        if Lanes(lanes).find(named).is_none() || kernel.cluster_size() == 1 && !facts.cluster {
            return Err(outside(lanes, places, bytes, size));
        }
        let (own, found) = self.ranks(w, lanes, places, bytes)?;
        if let Some(lane) = Lanes(lanes).find(|&l| found[l as usize].0 != own && !facts.cluster) {
            let reason = format!(
                "shared address {:#x} is that of block {} of the cluster; `.shared::cluster` accesses it, .shared is the block's own",
                places[lane as usize], found[lane as usize].0
            );
            return Err(Violation::new("env-readShared", 1 << lane, reason));
        }
        let offsets = found.map(|(_, offset)| offset);
        let of = |rank: u32| {
            Lanes(lanes).filter(|&l| found[l as usize].0 == rank).fold(0, |mask, lane| mask | 1 << lane)
        };
        let mut did = Step::Done;
        for rank in 0..kernel.cluster_size() {
            let there: LaneMask = of(rank);
            if there == 0 {
                continue;
            }
            if rank == own {
                self.observe_own((w, pc), (op, facts), there, &offsets);
                self.shared(kernel, w, pc, op, facts, there, &only(&offsets, there))?;
                did = both(did, self.outcome);
                continue;
            }
            let bits = u32::from(facts.reg_bits);
            let mut access = self.remote(kernel, w, pc, Does::Access, there, &offsets);
            access.bytes = bytes as u32;
            let each = usize::from(facts.element_bytes);
            let rows = &self.warps[w].rows;
            for lane in Lanes(there) {
                let l = lane as usize;
                match op.class {
                    OpClass::Store => {
                        for (i, row) in op.src[1..].iter().take(facts.vector.into()).enumerate() {
                            let value = read_element(rows, &kernel.code.consts, *row, lane, bits);
                            access.data[l][i * each..][..each].copy_from_slice(&value.to_le_bytes()[..each]);
                        }
                    }
                    OpClass::Atomic if each == 16 => {
                        for [b, c] in wide_operands(rows, &kernel.code.consts, op, 1 << lane) {
                            access.operands[l] = [b as u64, (b >> 64) as u64];
                            access.data[l] = c.to_le_bytes();
                        }
                    }
                    OpClass::Atomic => {
                        for (i, row) in op.src[1..3].iter().enumerate().filter(|(_, row)| row.is_some()) {
                            access.operands[l][i] = read_element(rows, &kernel.code.consts, *row, lane, bits);
                        }
                    }
                    _ => {}
                }
            }
            self.send(kernel, w, rank, access);
            did = Step::Access;
        }
        self.outcome = did;
        Ok(())
    }

    /// An access that is still to be filled in.
    fn remote(
        &self,
        kernel: &Kernel,
        w: usize,
        pc: Pc,
        does: Does,
        lanes: LaneMask,
        offsets: &[u64; WARP_LANES],
    ) -> Box<RemoteAccess> {
        let warp = &self.warps[w];
        let index = self.blocks[warp.block].as_ref().map_or([0; 3], |block| block.index);
        Box::new(RemoteAccess {
            origin: Origin::new(kernel, index, (w, warp.index), pc, self.sm),
            does,
            access: 0,
            ticket: None,
            lanes,
            addresses: offsets.map(|offset| offset as u32),
            bytes: 0,
            data: [[0; 16]; WARP_LANES],
            operands: [[0; 2]; WARP_LANES],
        })
    }

    /// Number in the grid and SM of the block of a rank.
    pub(super) fn block_of_rank(&self, w: usize, rank: u32) -> Option<(u64, u32)> {
        let block = self.blocks[self.warps[w].block].as_ref()?;
        let peers = block.cluster.peers.as_deref();
        // A block that is a cluster by itself has no peers.
        let own = (block.number, self.sm);
        Some(peers.and_then(|peers| peers.blocks.get(rank as usize).copied()).unwrap_or(own))
    }

    fn send(&mut self, kernel: &Kernel, w: usize, rank: u32, mut access: Box<RemoteAccess>) {
        let Some((number, sm)) = self.block_of_rank(w, rank) else { return };
        if self.on_chip && access.does != Does::Async {
            access.ticket = Some(self.tickets);
            self.tickets += 1;
            self.observe_remote(number, &access);
        }
        self.outgoing.push(Packet { grid_id: kernel.grid_id, number, sm, what: What::Access(access) });
    }

    /// `st.async` and `red.async`: to the own block too they are packets, as they act later.
    pub(super) fn store_async(
        &mut self,
        kernel: &Kernel,
        w: usize,
        pc: Pc,
        op: &Op,
        facts: &AsyncStore,
        exec: LaneMask,
    ) -> Result<(), Violation> {
        let (code, warp) = (&*kernel.code, &self.warps[w]);
        let memory = &facts.memory;
        let bytes = u64::from(memory.element_bytes) * u64::from(memory.vector);
        let mut to = addresses(self.world.instruction_set, warp, code, op, memory.address_64, exec);
        let mut objects = shared_addresses(warp, code, op.src[4], facts.object);
        self.without_window(memory.space, exec, &mut to)?;
        self.without_window(memory.space, exec, &mut objects)?;
        for (places, bytes) in [(&to, bytes), (&objects, 8)] {
            if Lanes(exec).any(|l| places[l as usize] & (bytes - 1) != 0) {
                return Err(misaligned(exec, places, bytes));
            }
        }
        let (_, to) = self.ranks(w, exec, &to, bytes)?;
        let (_, objects) = self.ranks(w, exec, &objects, 8)?;
        if let Some(lane) = Lanes(exec).find(|&l| to[l as usize].0 != objects[l as usize].0) {
            let reason = format!(
                "the address is in the shared memory of block {} of the cluster, the mbarrier object in that of block {}",
                to[lane as usize].0, objects[lane as usize].0
            );
            return Err(Violation::new("mbarrier", 1 << lane, reason));
        }
        let offsets = to.map(|(_, offset)| offset);
        let (bits, each) = (u32::from(memory.reg_bits), usize::from(memory.element_bytes));
        for rank in 0..kernel.cluster_size() {
            let there: LaneMask =
                Lanes(exec).filter(|&l| to[l as usize].0 == rank).fold(0, |mask, lane| mask | 1 << lane);
            if there == 0 {
                continue;
            }
            let mut access = self.remote(kernel, w, pc, Does::Async, there, &offsets);
            access.bytes = bytes as u32;
            let rows = &self.warps[w].rows;
            for lane in Lanes(there) {
                let l = lane as usize;
                access.operands[l] = [objects[l].1, 0];
                for (i, row) in op.src[1..3].iter().take(memory.vector.into()).enumerate() {
                    let value = read_element(rows, &code.consts, *row, lane, bits);
                    access.data[l][i * each..][..each].copy_from_slice(&value.to_le_bytes()[..each]);
                }
            }
            self.observe_async_stores(w, &access, rank, memory.atomic.is_some());
            self.send(kernel, w, rank, access);
            self.outcome = Step::Access;
        }
        Ok(())
    }

    /// Operations on mbarrier objects some of which are in other blocks; those of the block itself are left to the
    /// caller: their lanes, and the places of all.
    #[cold]
    #[inline(never)]
    pub(super) fn mbarrier_of_cluster(
        &mut self,
        kernel: &Kernel,
        w: usize,
        pc: Pc,
        (op, facts): (&Op, &MbarrierOp),
        exec: LaneMask,
        places: &mut [u64; WARP_LANES],
    ) -> Result<LaneMask, Violation> {
        use MbarrierStep as M;
        self.requests.clear();
        if Lanes(exec).any(|l| places[l as usize] & 7 != 0) {
            return Err(misaligned(exec, places, 8));
        }
        let (own, found) = self.ranks(w, exec, places, 8)?;
        let offsets = found.map(|(_, offset)| offset);
        let away = |lane: &u32| found[*lane as usize].0 != own;
        let counts = matches!(facts.step, M::Arrive | M::ArriveDrop | M::ExpectTx | M::CompleteTx);
        if let Some(lane) = Lanes(exec).find(away)
            && (!counts || op.dst[0].is_some())
        {
            let rank = found[lane as usize].0;
            let reason = match counts {
                true => format!(
                    "an arrival at an mbarrier object of block {rank} of the cluster returns no state"
                ),
                false => format!(
                    "the mbarrier object is in the shared memory of block {rank} of the cluster; only its own block may initialize it, invalidate it or wait at it"
                ),
            };
            return Err(Violation::new("mbarrier", 1 << lane, reason));
        }
        for rank in (0..kernel.cluster_size()).filter(|rank| *rank != own) {
            let there: LaneMask =
                Lanes(exec).filter(|&l| found[l as usize].0 == rank).fold(0, |mask, lane| mask | 1 << lane);
            if there == 0 {
                continue;
            }
            let mut access =
                self.remote(kernel, w, pc, Does::Count(facts.step, facts.options), there, &offsets);
            let rows = &self.warps[w].rows;
            for lane in Lanes(there) {
                access.operands[lane as usize][0] = match op.src[1].is_some() {
                    true => {
                        read_element(rows, &kernel.code.consts, op.src[1], lane, facts.operand_bits.into())
                    }
                    false => 1,
                };
            }
            self.send(kernel, w, rank, access);
        }
        *places = offsets;
        Ok(Lanes(exec).filter(|lane| !away(lane)).fold(0, |mask, lane| mask | 1 << lane))
    }

    /// Makes generic addresses shared ones.
    pub(crate) fn without_window(
        &self,
        space: StateSpace,
        lanes: LaneMask,
        places: &mut [u64; WARP_LANES],
    ) -> Result<(), Violation> {
        if space != StateSpace::Generic {
            return Ok(());
        }
        for lane in Lanes(lanes) {
            let at = &mut places[lane as usize];
            let inside = at.wrapping_sub(SHARED_WINDOW);
            if inside >= WINDOW_BYTES {
                let reason = format!("generic address {at:#x} is not in the shared memory window");
                return Err(Violation::new("env-readShared", 1 << lane, reason));
            }
            *at = inside;
        }
        Ok(())
    }

    /// The slot of a block whose threads have not all ended.
    fn slot_of(&self, grid_id: u32, number: u64) -> Option<usize> {
        self.blocks.iter().position(|block| {
            block.as_ref().is_some_and(|block| {
                let grid = self.kernels.get(block.kernel).map(|kernel| kernel.grid_id);
                block.number == number && grid == Some(grid_id) && block.live_threads > 0
            })
        })
    }

    /// A block of the cluster arrived at its barrier, or ended.
    pub fn hear_of_cluster(&mut self, grid_id: u32, number: u64, rank: u32, odd: Option<bool>) {
        let Some(slot) = self.slot_of(grid_id, number) else { return };
        let Some(block) = self.blocks[slot].as_mut() else { return };
        block.cluster.hear(rank, odd);
        self.changes += 1;
        if block.cluster.is_complete() {
            self.next_cluster_phase(slot);
        }
    }

    /// Serves an access of another block: what it loads is left in it. The cycles that its lanes' banks take.
    ///
    /// # Errors
    /// The block has ended, or what the access does to an mbarrier object cannot be done.
    pub fn serve(&mut self, grid_id: u32, number: u64, access: &mut RemoteAccess) -> Result<u32, Violation> {
        let Some(slot) = self.slot_of(grid_id, number) else {
            let reason = format!(
                "shared memory of block {number} of the grid is accessed, whose threads have all exited"
            );
            return Err(Violation::new("cluster", access.lanes, reason));
        };
        // Whatever it does may be what others wait for.
        self.changes += 1;
        let origin = &access.origin;
        let op = &origin.code.program.ops[origin.pc as usize];
        let bytes = access.bytes as usize;
        let mut elsewhere = 0;
        for lane in Lanes(access.lanes) {
            let l = lane as usize;
            let at = access.addresses[l] as usize;
            if let Does::Count(step, options) = access.does {
                let sent = access.ticket.map(|ticket| (access.origin.sm, ticket));
                self.count_at((slot, grid_id, sent), lane, at, step, options, access.operands[l][0])?;
                continue;
            }
            let Some(facts) = op.extra.access() else { continue };
            let Some(block) = self.blocks[slot].as_mut() else { continue };
            let Some(place) = block.shared.bytes_mut().get_mut(at..at + bytes) else { continue };
            let data = &mut access.data[l][..bytes];
            match (facts.atomic, op.class) {
                (Some((operation, _)), _) if bytes == 16 => {
                    let wide =
                        |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u128::from_le_bytes(*bytes));
                    let (old, c) = (wide(place), wide(data));
                    let [low, high] = access.operands[l].map(u128::from);
                    let new = atomics::apply_wide(operation, old, high << 64 | low, c);
                    place.copy_from_slice(&new.to_le_bytes());
                    data.copy_from_slice(&old.to_le_bytes());
                }
                (Some((operation, ty)), _) => {
                    let old = from_bytes(place);
                    let [b, c] = match access.does {
                        Does::Async => [from_bytes(data), 0],
                        _ => access.operands[l],
                    };
                    let new = atomics::apply(operation, ty, old, b, c);
                    place.copy_from_slice(&new.to_le_bytes()[..bytes]);
                    data.copy_from_slice(&old.to_le_bytes()[..bytes]);
                }
                (None, OpClass::Load) => data.copy_from_slice(place),
                (None, _) => place.copy_from_slice(data),
            }
            if access.does == Does::Async && access.operands[l][1] != 0 {
                elsewhere += access.bytes;
            } else if access.does == Does::Async {
                let object = access.operands[l][0] as usize;
                let options = MbarrierOptions::default();
                let step = MbarrierStep::CompleteTx;
                self.count_at((slot, grid_id, None), lane, object, step, options, bytes as u64)?;
            }
        }
        if elsewhere > 0 {
            // The bytes are here: now the other block of the pair may count them.
            let [object, peer] = access.operands[first_lane(access.lanes)];
            let peers = self.blocks[slot].as_ref().and_then(|block| block.cluster.peers.as_deref());
            if let Some(&(number, sm)) = peers.and_then(|peers| peers.blocks.get(peer as usize - 1)) {
                let counted = counted_elsewhere(access.origin.clone(), object as u32, elsewhere);
                self.outgoing.push(Packet { grid_id, number, sm, what: What::Access(counted) });
            }
        }
        if let (Does::Access, Some(ticket)) = (access.does, access.ticket) {
            self.observe_event(|| Event::RemotePerformed { sm: access.origin.sm, ticket });
        }
        let degree = match access.does {
            Does::Count(..) => access.lanes.count_ones(),
            _ => self.world.latency.bank_rule.turns(&access.places(), access.lanes, access.bytes),
        };
        Ok(degree.max(1))
    }

    fn count_at(
        &mut self,
        (slot, grid, sent): (usize, u32, Option<(u32, u32)>),
        lane: u32,
        at: usize,
        step: MbarrierStep,
        options: MbarrierOptions,
        operand: u64,
    ) -> Result<(), Violation> {
        let bytes = self.blocks[slot].as_mut().map(|block| block.shared.bytes_mut());
        let Some(word) = bytes.and_then(|bytes| bytes.get_mut(at..)?.first_chunk_mut::<8>()) else {
            return Ok(());
        };
        let before = u64::from_le_bytes(*word);
        let done = perform(step, options, before, operand);
        let (new, _) = done.map_err(|reason| {
            let reason = format!("mbarrier at shared address {at:#x} of another block: {reason}");
            Violation::new("mbarrier", 1 << lane, reason)
        })?;
        *word = new.to_le_bytes();
        if let (true, Some(block)) = (self.on_chip, &self.blocks[slot]) {
            let (block, object, action) = (block.number, at as u32, action(step));
            let completes = phase_is_over(before, new);
            self.observe_event(|| Event::RemoteObject { sent, grid, block, lane, object, action, completes });
        }
        Ok(())
    }

    /// Writes what an access brought to the registers of its lanes.
    pub fn accept(&mut self, access: &RemoteAccess) {
        let origin = &access.origin;
        let op = &origin.code.program.ops[origin.pc as usize];
        let Extra::Memory(facts) = &op.extra else { return };
        let bytes = access.bytes as usize;
        if let Some(ticket) = access.ticket {
            self.observe_event(|| Event::RemoteAnswered { ticket });
        }
        let warp = &mut self.warps[origin.slot];
        for lane in Lanes(access.lanes) {
            let data = &access.data[lane as usize][..bytes];
            match op.class {
                OpClass::Load => write_loaded(&mut warp.rows, op, facts, lane, data),
                OpClass::Atomic if bytes == 16 => {
                    let old = data.first_chunk().map_or(0, |bytes| u128::from_le_bytes(*bytes));
                    write_wide(&mut warp.rows, op, lane, old);
                }
                OpClass::Atomic if op.dst[0].is_some() => {
                    let value = extend(from_bytes(data), facts);
                    write_element(&mut warp.rows, op.dst[0], lane, value, facts.reg_bits.into());
                }
                _ => {}
            }
        }
    }
}
