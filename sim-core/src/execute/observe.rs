//! What sanitizers are told of: accesses to shared and local memory, and instructions that synchronize. They are
//! logged before the step that executes them; who completes what is logged where it happens.

use std::sync::Arc;

use sim_frontend::form::BarrierKind;
use sim_frontend::program::{Extra, MemoryOp, Op, OpClass, Pc};
use sim_memory::access::AccessKind;
use sim_memory::address_space::{WINDOWS, resolve};
use sim_memory::observation::{Event, ObjectAction};
use sim_memory::vocabulary::{LaneMask, Semantics, StateSpace, WARP_LANES};

use super::access::addresses;
use super::matrix::addressing_lanes;
use super::resident::Resident;
use crate::barrier::Arrival;
use crate::grid::Kernel;
use crate::mbarrier;
use crate::reconvergence::{Lanes, Reconvergence};

/// What a memory instruction does.
pub(super) fn kind_of(op: &Op, facts: &MemoryOp) -> Option<AccessKind> {
    Some(match (op.class, facts.atomic) {
        (OpClass::Load | OpClass::LoadMatrix, _) => AccessKind::Load,
        (OpClass::Store | OpClass::StoreMatrix, _) => AccessKind::Store,
        (_, Some((op_, ty))) => AccessKind::Atomic { op: op_, ty, returns: op.dst[0].is_some() },
        _ => return None,
    })
}

/// True of fences between the generic and the asynchronous proxy that are not of global memory alone.
fn fences_shared(text: &str) -> bool {
    text.contains("fence.proxy.async") && !text.contains("fence.proxy.async.global")
}

impl<P: Reconvergence> Resident<P> {
    /// Logs what only sanitizers ask for.
    #[inline]
    pub(super) fn observe_event(&mut self, event: impl FnOnce() -> Event) {
        if let (true, Some(observed)) = (self.on_chip, &mut self.observed) {
            observed.push(event());
        }
    }

    /// The lanes `exec` of a warp are about to execute an instruction.
    #[cold]
    #[inline(never)]
    pub(super) fn observe_step(&mut self, kernels: &[Arc<Kernel>], w: usize, pc: Pc, exec: LaneMask) {
        let kernel = &*kernels[self.warps[w].kernel];
        let op = &kernel.code.program.ops[pc as usize];
        let origin = (w as u32, pc);
        if let Some(tracked) = &mut self.warps[w].tracked
            && !tracked.found.is_empty()
        {
            for (pc, lanes) in std::mem::take(&mut tracked.found) {
                self.observe_event(|| Event::Unwritten { origin: (w as u32, pc), lanes });
            }
        }
        if exec == 0 {
            return;
        }
        self.object_action = (pc, ObjectAction::Count);
        match (op.class, &op.extra) {
            (OpClass::Load | OpClass::Store | OpClass::Atomic, Extra::Memory(facts)) => {
                self.observe_access(kernel, op, facts, origin, exec);
            }
            (OpClass::LoadMatrix | OpClass::StoreMatrix, Extra::Tiles { memory, count, .. }) => {
                self.observe_access(kernel, op, memory, origin, exec & addressing_lanes(*count));
            }
            (OpClass::Barrier, Extra::Barrier { kind, .. }) if *kind != BarrierKind::WarpSync => {
                self.observe_event(|| Event::Synchronizes { origin, lanes: exec });
            }
            (OpClass::Membar, Extra::Membar(_, semantics)) => {
                self.observe_event(|| Event::Synchronizes { origin, lanes: exec });
                // Fences of proxies have no scope.
                if *semantics == Semantics::Weak && fences_shared(&kernel.code.program.text(pc)) {
                    self.observe_event(|| Event::ProxyFence { warp: origin.0 });
                }
            }
            (_, Extra::Wgmma(wgmma)) => {
                if let Ok(ranges) = self.product_reads(w, &kernel.code, op, wgmma) {
                    let ranges = ranges.into_iter().map(|(at, bytes)| (at as u32, bytes)).collect();
                    self.observe_event(|| Event::ProductRead { origin, ranges });
                }
            }
            (OpClass::Barrier | OpClass::WarpSync | OpClass::Membar | OpClass::Mbarrier, _)
            | (_, Extra::CopyWait(_) | Extra::BulkWait(..)) => {
                self.observe_event(|| Event::Synchronizes { origin, lanes: exec });
            }
            _ => {}
        }
    }

    /// A barrier is complete: `bar` and `barrier … .aligned` are for all threads of a warp, at one instruction.
    #[cold]
    #[inline(never)]
    pub(super) fn observe_barrier(&mut self, kernels: &[Arc<Kernel>], actions: &[Arrival]) {
        for (i, action) in actions.iter().enumerate() {
            let same = |other: &&Arrival| (other.warp, other.pc) == (action.warp, action.pc);
            if actions[..i].iter().any(|other| same(&other)) {
                continue;
            }
            let lanes = actions.iter().filter(same).fold(0, |lanes, other| lanes | other.lanes);
            let live = self.warps[action.warp].live();
            if live & !lanes == 0 {
                continue;
            }
            let text = kernels[self.warps[action.warp].kernel].code.program.text(action.pc);
            if text.contains("bar.") || text.contains(".aligned") {
                let origin = (action.warp as u32, action.pc);
                self.observe_event(|| Event::Divergent { origin, lanes, live });
            }
        }
    }

    /// An access: what of it lies in shared and local memory. Global memory is observed where it is performed.
    fn observe_access(
        &mut self,
        kernel: &Kernel,
        op: &Op,
        facts: &MemoryOp,
        origin: (u32, u32),
        exec: LaneMask,
    ) {
        if exec == 0 || matches!(facts.space, StateSpace::Const | StateSpace::Param) {
            return;
        }
        if matches!(
            facts.semantics,
            Semantics::Acquire | Semantics::Release | Semantics::AcqRel | Semantics::Sc
        ) {
            self.observe_event(|| Event::Synchronizes { origin, lanes: exec });
        }
        if facts.space == StateSpace::Global {
            return;
        }
        let warp = &self.warps[origin.0 as usize];
        let own = addresses(self.world.instruction_set, warp, &kernel.code, op, facts.address_64, exec);
        let Some(kind) = kind_of(op, facts) else { return };
        let size = facts.element_bytes * facts.vector;
        // Inactive lanes are at the first active one's address.
        let mut told = |space: StateSpace, lanes: LaneMask, at: &[u64; WARP_LANES]| {
            let bound = u64::from(match space {
                StateSpace::Shared => kernel.shared_bytes,
                _ => kernel.local_bytes,
            });
            let any = at.iter().fold(0, |any, address| any | address);
            let fits = |first: u64| first <= bound && bound - first >= size.into();
            // What lies outside is a fault of the step. No address is above all their bits together.
            let inside = fits(any) || fits(at.iter().fold(0, |last, address| last.max(*address)));
            if lanes != 0 && inside && any & (u64::from(size.max(1)) - 1) == 0 {
                let addresses = at.map(|address| address as u32);
                self.observe_event(|| Event::OnChip {
                    origin,
                    space,
                    kind,
                    semantics: facts.semantics,
                    scope: facts.scope,
                    lanes,
                    addresses,
                    size,
                });
            }
        };
        if facts.space != StateSpace::Generic {
            told(facts.space, exec, &own);
            return;
        }
        let first = own.iter().fold(u64::MAX, |first, address| first.min(*address));
        let last = own.iter().fold(0, |last, address| last.max(*address));
        if last < WINDOWS.start || first >= WINDOWS.end {
            return;
        }
        let places = own.map(resolve);
        for space in [StateSpace::Shared, StateSpace::Local] {
            let lanes = Lanes(exec).filter(|&l| places[l as usize].0 == space).fold(0, |m, l| m | 1 << l);
            let Some(first) = Lanes(lanes).next() else { continue };
            let at = |lane: usize| if lanes >> lane & 1 == 1 { lane } else { first as usize };
            told(space, lanes, &std::array::from_fn(|lane| places[at(lane)].1));
        }
    }

    /// The bytes of an mbarrier object have changed from the first to the second word.
    #[cold]
    #[inline(never)]
    pub(super) fn observe_object(&mut self, w: usize, lane: u32, at: u64, words: [u64; 2], result: u64) {
        let (pc, mut action) = self.object_action;
        if let ObjectAction::Wait(done) = &mut action {
            *done = result != 0;
        }
        let [before, after] = words;
        let existed = mbarrier::is_object(before);
        let completes = mbarrier::phase_is_over(before, after);
        let object = at as u32;
        self.observe_event(|| Event::Object {
            origin: (w as u32, pc),
            lane,
            object,
            action,
            existed,
            completes,
        });
    }
}
