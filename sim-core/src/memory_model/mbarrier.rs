//! Mbarrier objects: what their operations order, and what they are as memory.

use std::sync::Arc;

use sim_frontend::program::{Extra, NO_PC};
use sim_memory::access::AccessKind;
use sim_memory::line::{ByteMask, LINE_BYTES};
use sim_memory::observation::{Event, ObjectAction};
use sim_memory::vocabulary::{AtomicOp, Cycle, LaneMask, ScalarType, Scope, Semantics, WARP_LANES};

use super::Checker;
use super::lines::Transfer;
use super::on_chip::{Access, Object};
use super::threads::{Snapshot, agent_of_object};
use crate::reconvergence::Lanes;
use crate::sanitizer::findings::Kind;

impl Checker {
    /// An operation on an mbarrier object: an arrival releases, a wait that succeeds acquires.
    pub(super) fn object(&mut self, sm: u32, at: Cycle, event: &Event) {
        let Event::Object { origin, lane, object: address, action, existed, completes } = event else {
            return;
        };
        let Some(warp) = self.warps.get_mut(sm, origin.0) else { return };
        let (number, l) = (warp.block, *lane as usize);
        let block = &mut self.blocks[number as usize];
        let phase = block.phase;
        // A copy that arrives is no access, and a test that fails tells nothing.
        let silent = origin.1 == NO_PC || *action == ObjectAction::Wait(false);
        let before = (!silent).then(|| warp.snapshot(phase));
        let object = block.objects.entry(*address).or_default();
        let again = *action == ObjectAction::Init && *existed && object.live;
        match action {
            ObjectAction::Init => *object = Object { live: true, phase: object.phase, ..Object::default() },
            ObjectAction::Inval => object.live = false,
            ObjectAction::Arrive => {
                let release = warp.arrive(l, phase);
                object.arriving.join(&release.clock);
                object.arriving.add(release.point);
            }
            ObjectAction::Wait(true) => {
                warp.learns(l, &object.complete);
            }
            ObjectAction::Wait(false) | ObjectAction::Count => {}
        }
        if *completes {
            self.end_phase(number, *address);
        }
        let Some(before) = before else { return };
        if again {
            self.misuse(sm, at, Kind::MbarrierReinitialized, *origin, 1 << lane);
        }
        let made = matches!(action, ObjectAction::Init | ObjectAction::Inval);
        self.object_access((sm, at), *origin, before, *lane, (number, *address), made);
    }

    /// A phase of an object of a block is complete, and its copies with it.
    pub(super) fn end_phase(&mut self, number: u32, address: u32) {
        let object = self.blocks[number as usize].objects.entry(address).or_default();
        let arrived = std::mem::take(&mut object.arriving);
        object.complete.join(&arrived);
        object.complete.add(agent_of_object(number, address, object.phase));
        object.phase += 1;
    }

    /// An object itself is memory: making and ending it are stores, all else is strong.
    pub(super) fn object_access(
        &mut self,
        (sm, at): (u32, Cycle),
        origin: (u32, u32),
        warp: Arc<Snapshot>,
        lane: u32,
        (number, address): (u32, u32),
        made: bool,
    ) {
        let access = Access {
            origin,
            kind: match made {
                true => AccessKind::Store,
                false => AccessKind::Atomic { op: AtomicOp::Add, ty: ScalarType::B64, returns: true },
            },
            semantics: if made { Semantics::Weak } else { Semantics::Relaxed },
            scope: Scope::Cluster,
            warp,
            size: 8,
            copies: None,
            addresses: &[address; WARP_LANES],
        };
        let line = u64::from(address / LINE_BYTES * LINE_BYTES);
        let bytes: ByteMask = 0xff << (address % LINE_BYTES);
        let line = self.shared_base(number) | line;
        let mut transfer = self.transfer(sm, at, &access, LaneMask::MAX);
        self.next_transfer(&mut transfer, line, bytes, 1 << lane);
        if let Some(sanitizer) = &mut self.sanitizer {
            sanitizer.access(&transfer, &self.kernels);
            if sanitizer.kinds.init {
                *sanitizer.written.shared_line(number, address) |= bytes;
            }
        }
    }

    /// An ordinary store to the bytes of an mbarrier object.
    pub(super) fn overwrites(&mut self, transfer: &Transfer, block: u32) {
        let objects = &self.blocks[block as usize].objects;
        if objects.is_empty()
            || matches!(transfer.kind, AccessKind::Load)
            || self.is_object_operation(transfer)
        {
            return;
        }
        let first = transfer.address(0) as u32;
        let hit = objects.range(first..first + LINE_BYTES).find_map(|(at, object)| {
            let bytes: ByteMask = 0xff << (at - first);
            let lane = Lanes(transfer.lanes).find(|&l| transfer.mask_of(l as usize) & bytes != 0);
            lane.filter(|_| object.live).map(|lane| (*at, lane as usize))
        });
        if let (Some((at, lane)), Some(sanitizer)) = (hit, self.sanitizer.as_mut().filter(|s| s.kinds.sync)) {
            let side = (transfer, lane);
            sanitizer.found(Kind::MbarrierOverwritten, side, Some(at.into()), 1, &self.kernels);
        }
    }

    fn is_object_operation(&self, transfer: &Transfer) -> bool {
        let kernel = self.kernels.iter().find(|kernel| kernel.grid_id == transfer.grid);
        let op = kernel.and_then(|kernel| kernel.code.program.ops.get(transfer.pc as usize));
        op.is_some_and(|op| matches!(op.extra, Extra::Mbarrier(_) | Extra::CopyArrive(..)))
    }
}
