//! Threads at the named barriers of their block (CS §5.5): arrival, completion, threads that end.

use std::sync::Arc;

use sim_frontend::form::BarrierKind;
use sim_frontend::program::{Extra, Op, Pc, Row};
use sim_memory::observation::Event;
use sim_memory::vocabulary::LaneMask;

use super::resident::{Resident, Step};
use crate::barrier::{Arrival, Completed, LiveOf};
use crate::error::Violation;
use crate::grid::Kernel;
use crate::reconvergence::{Lanes, Reconvergence, SplitId};
use crate::registers::{guard, read_row, write_element, write_pred};

impl<P: Reconvergence> Resident<P> {
    /// `bar` and `barrier` (CS §5.4.2, §5.5): lanes that name different barriers arrive at each
    /// [thr-barsync] [thr-bararrive] [thr-barred].
    pub(super) fn barrier(
        &mut self,
        kernels: &[Arc<Kernel>],
        split: SplitId,
        w: usize,
        pc: Pc,
        op: &Op,
        exec: LaneMask,
    ) -> Result<Step, Violation> {
        if let Extra::ClusterBarrier { wait, releases, .. } = op.extra {
            return self.cluster_barrier(split, w, (wait, releases), exec);
        }
        let Extra::Barrier { kind, reduction } = op.extra else {
            return Err(Violation::new(
                "thr-barsync",
                exec,
                "internal error: a decoded barrier instruction has no operands",
            ));
        };
        if exec == 0 {
            self.advance(split, w)?;
            return Ok(Step::Done);
        }
        let code = &*kernels[self.warps[w].kernel].code;
        let warp = &self.warps[w];
        let whole = (P::WHOLE_WARP && self.world.compute_capability < 70).then_some(self.world.warp_size);
        let predicate = guard(op.psrc[0], &warp.preds);
        let value = |row: Row, lane: u32| {
            row.is_some().then(|| read_row(&warp.rows, &code.consts, row)[lane as usize])
        };
        let mut groups = std::mem::take(&mut self.groups);
        // Most name one barrier for all lanes: an immediate, or a constant row.
        let of_all = |row: Row| !row.is_some() || row.0 >= Row::CONST;
        let together = of_all(op.src[0]) && of_all(op.src[1]);
        for lane in Lanes(if together { exec & exec.wrapping_neg() } else { exec }) {
            let lanes = if together { exec } else { 1 << lane };
            let index = value(op.src[0], lane).unwrap_or(op.imm as u32);
            let count = value(op.src[1], lane);
            match groups.iter_mut().find(|g| g.0 == index && g.1 == count) {
                Some(group) => group.2 |= lanes,
                None => groups.push((index, count, lanes)),
            }
        }
        let waits = matches!(kind, BarrierKind::Sync | BarrierKind::Red);
        if !waits {
            // Who goes on at once has gone on before the barrier completes.
            self.advance(split, w)?;
        } else {
            self.park(split, w);
            self.waits[split] = groups.iter().fold(0, |bits, g| bits | 1u32.checked_shl(g.0).unwrap_or(0));
        }
        let block_slot = self.warps[w].block;
        let mut completed = std::mem::take(&mut self.completed);
        let warps = &self.warps;
        let live = |warp: usize| warps[warp].live();
        for (index, count, lanes) in groups.drain(..) {
            let Some(block) = self.blocks[block_slot].as_mut() else { continue };
            let arrival = Arrival {
                index,
                count,
                kind,
                reduction,
                split,
                warp: w,
                lanes,
                predicate,
                pc,
                counted: whole.unwrap_or(lanes.count_ones()),
            };
            if let (false, Some(observed)) = (waits, &mut self.observed) {
                observed.push(Event::Arrived { warp: w as u32, lanes, barrier: index });
            }
            let default = block.barrier_default(whole);
            let live: LiveOf<'_> = &live;
            completed.extend(block.barriers.arrive(arrival, default, whole.is_none().then_some(live))?);
        }
        self.groups = groups;
        for barrier in completed.drain(..) {
            self.complete_barrier(kernels, block_slot, barrier);
        }
        self.completed = completed;
        if !waits {
            return Ok(Step::Done);
        }
        if self.waits[split] == 0 {
            return Ok(Step::Done);
        }
        self.give_way(split);
        Ok(Step::Parked)
    }

    /// remBar: the splits that waited go on, with the result of the reduction in their
    /// registers [bar-rem] [block-endbar].
    fn complete_barrier(&mut self, kernels: &[Arc<Kernel>], block_slot: usize, barrier: Completed) {
        if let Some(observed) = &mut self.observed {
            let members = |arrives: bool| {
                let of_kind = move |a: &&Arrival| (a.kind == BarrierKind::Arrive) == arrives;
                barrier.actions.iter().filter(of_kind).map(|a| (a.warp as u32, a.lanes)).collect()
            };
            let (waited, arrived) = (members(false), members(true));
            observed.push(Event::Barrier { barrier: barrier.index, waited, arrived });
        }
        if self.on_chip {
            self.observe_barrier(kernels, &barrier.actions);
        }
        for action in &barrier.actions {
            if action.kind == BarrierKind::Arrive {
                continue;
            }
            let warp = &mut self.warps[action.warp];
            if let Some(result) = barrier.result {
                let code = &kernels[warp.kernel].code;
                let op = &code.program.ops[action.pc as usize];
                if op.dst[0].is_some() {
                    for lane in Lanes(action.lanes) {
                        write_element(&mut warp.rows, op.dst[0], lane, result.into(), 32);
                    }
                } else {
                    write_pred(
                        &mut warp.preds,
                        op.pdst[0],
                        action.lanes,
                        if result != 0 { u32::MAX } else { 0 },
                    );
                }
            }
            let waits = &mut self.waits[action.split];
            *waits &= !1u32.checked_shl(barrier.index).unwrap_or(0);
            if *waits == 0 {
                self.resume(action.split);
            }
        }
        if let Some(block) = &mut self.blocks[block_slot] {
            block.barriers.recycle(barrier.actions);
        }
    }

    /// Threads of a block have ended: barriers that wait for all live threads look again.
    pub(super) fn reevaluate_barriers(&mut self, kernels: &[Arc<Kernel>], block_slot: usize) {
        let whole = (P::WHOLE_WARP && self.world.compute_capability < 70).then_some(self.world.warp_size);
        let warps = &self.warps;
        let live = |warp: usize| warps[warp].live();
        let live: LiveOf<'_> = &live;
        let completed = match self.blocks[block_slot].as_mut() {
            Some(block) => {
                let default = block.barrier_default(whole);
                block.barriers.reevaluate(default, whole.is_none().then_some(live))
            }
            None => Vec::new(),
        };
        for barrier in completed {
            self.complete_barrier(kernels, block_slot, barrier);
        }
    }
}
