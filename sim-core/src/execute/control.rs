//! Control flow (CS §5.3.2 bra, call, return, exit; §5.4.3 rule bra): lanes say where they want
//! to go, the policy decides who goes when, the shadow pcs follow each thread.

use std::sync::Arc;

use sim_frontend::lower::tf3_stack::FRAME_ALIGN;
use sim_frontend::program::{ControlFlow, NO_PC, Op, OpClass, OpInfo, Pc};
use sim_memory::vocabulary::{LaneMask, WARP_LANES};

use super::resident::{Resident, Step};
use crate::code::Code;
use crate::error::Violation;
use crate::grid::Kernel;
use crate::monitor::Check;
use crate::reconvergence::{Injected, LaneTargets, Lanes, Reconvergence, SplitId, Targets};
use crate::registers::read_row;

impl<P: Reconvergence> Resident<P> {
    /// Runs a control-flow instruction of `split`
    /// [thr-bra] [thr-call] [thr-return] [thr-exit] [thr-ssy] [thr-prebrk] [thr-preret] [thr-sync]
    /// [thr-break] [warp-bra].
    pub(super) fn control(
        &mut self,
        kernels: &[Arc<Kernel>],
        split: SplitId,
        w: usize,
        pc: Pc,
        mask: LaneMask,
        exec: LaneMask,
        code: &Code,
    ) -> Result<Step, Violation> {
        use OpClass as C;
        let op = &code.program.ops[pc as usize];
        let info = &code.program.info[pc as usize];
        let checked = self.world.check != Check::Off;
        self.hold_shadows(w, Some(split));
        if op.class == C::Branch
            && (exec == mask || exec == 0)
            && self.world.check != Check::Full
            && !info.injected
            && !info.by_hand
        {
            return self.branch_together(split, w, mask, exec, op, info);
        }
        if info.by_hand {
            self.by_hand(w, mask, exec, op, info)?;
            if P::FLOW == ControlFlow::Plain {
                return self.by_hand_alone(split, w, mask);
            }
        }
        // A program that may recur is held to its stack even where nothing is checked.
        let deepest = code.program.deepest_call;
        let checked = (checked || deepest != u32::MAX) && !info.by_hand;
        let mut indirect = [NO_PC; WARP_LANES];
        let mut step = Step::Control;
        let cost = match op.class {
            C::Branch | C::Call => {
                let call = op.class == C::Call;
                let to = LaneTargets { lanes: exec, targets: Targets::One(op.target), call };
                if info.uniform_hint && P::WHOLE_WARP && exec != 0 && exec != mask {
                    return Err(Violation::new(
                        "bra-uni",
                        mask & !exec,
                        "threads of a warp diverge at a branch marked `.uni`",
                    ));
                }
                if checked && !info.injected {
                    let base = Targets::One(info.base_target);
                    self.warps[w].shadow.branch(mask, exec, info.base_pc, &base, call);
                    if call && deepest != u32::MAX {
                        self.check_depth(w, exec, deepest)?;
                    }
                }
                // Threads of a warp formed anew have their registers elsewhere.
                if !(P::FORMS_WARPS && self.policy.forms_warps()) {
                    self.warps[w].branched |= mask;
                }
                self.policy.branched(split, &to, &mut self.touched)?
            }
            C::BranchIndirect | C::CallIndirect => {
                let call = op.class == C::CallIndirect;
                let values = *read_row(&self.warps[w].rows, &code.consts, op.src[0]);
                let mut base = [NO_PC; WARP_LANES];
                for lane in Lanes(exec) {
                    let target = self.indirect_target(code, pc, values[lane as usize], lane)?;
                    indirect[lane as usize] = target;
                    base[lane as usize] =
                        base_target(code, op.class, info.base_pc, values[lane as usize], target);
                }
                let to = LaneTargets { lanes: exec, targets: Targets::PerLane(&indirect), call };
                if checked {
                    self.shadow_indirect(w, mask, exec, info.base_pc, &indirect, &base, call);
                    if call && deepest != u32::MAX {
                        self.check_depth(w, exec, deepest)?;
                    }
                }
                let cost = self.policy.branched(split, &to, &mut self.touched)?;
                if P::FLOW == ControlFlow::Injected {
                    let stays = exec != 0 && to.targets.uniform(exec).is_none();
                    let stay = if stays { mask & !self.policy.mask(split) } else { 0 };
                    let again = &mut self.warps[w].again;
                    if *again & mask != 0 {
                        step = Step::Again;
                    }
                    *again = *again & !mask | stay;
                }
                cost
            }
            C::Return => {
                if checked && !self.warps[w].shadow.ret(mask, exec, info.base_pc) {
                    return Err(Violation::new(
                        "thr-return",
                        exec,
                        "a thread returns from a function it did not call",
                    ));
                }
                self.policy.returned(split, exec, &mut self.touched)?
            }
            C::Exit => {
                if checked {
                    self.warps[w].shadow.exit(mask, exec, info.base_pc);
                }
                let cost = self.policy.exited(split, exec, &mut self.touched)?;
                self.end_threads(kernels, w, exec)?;
                cost
            }
            C::Break => {
                if checked && !info.injected {
                    let base = Targets::One(info.base_target);
                    let taken = if info.inverted { mask & !exec } else { exec };
                    self.warps[w].shadow.branch(mask, taken, info.base_pc, &base, false);
                }
                self.policy.injected(split, exec, Injected::Break, &mut self.touched)?
            }
            C::Ssy => self.policy.injected(split, exec, Injected::Ssy(op.target), &mut self.touched)?,
            C::PreBreak => {
                self.policy.injected(split, exec, Injected::PreBreak(op.target), &mut self.touched)?
            }
            C::PreReturn => {
                self.policy.injected(split, exec, Injected::PreReturn(op.target), &mut self.touched)?
            }
            _ => self.policy.injected(split, exec, Injected::Sync, &mut self.touched)?,
        };
        self.regrouped(split);
        self.charge.add(cost);
        self.give_way(split);
        Ok(step)
    }

    /// A direct branch that all threads of the split take, or none of them: most branches. Their own addresses
    /// are one, so that it need not be set lane by lane unless the policy regroups them.
    #[inline]
    fn branch_together(
        &mut self,
        split: SplitId,
        w: usize,
        mask: LaneMask,
        exec: LaneMask,
        op: &Op,
        info: &OpInfo,
    ) -> Result<Step, Violation> {
        if !(P::FORMS_WARPS && self.policy.forms_warps()) {
            self.warps[w].branched |= mask;
        }
        let to = LaneTargets { lanes: exec, targets: Targets::One(op.target), call: false };
        let cost = self.policy.branched(split, &to, &mut self.touched)?;
        if self.world.check != Check::Off {
            let own = if exec == 0 { info.base_pc + 1 } else { info.base_target };
            if self.touched.is_empty() && self.policy.mask(split) == mask {
                self.expected[split] = own;
            } else {
                self.warps[w].shadow.set(mask, own);
                self.regrouped(split);
            }
        }
        self.charge.add(cost);
        self.give_way(split);
        Ok(Step::Control)
    }

    /// The threads' own control flow at an instruction of the papers' dialect: a thread that
    /// takes a token goes on at the address it pushed.
    fn by_hand(
        &mut self,
        w: usize,
        mask: LaneMask,
        exec: LaneMask,
        op: &Op,
        info: &OpInfo,
    ) -> Result<(), Violation> {
        use OpClass as C;
        let shadow = &mut self.warps[w].shadow;
        let taken = match op.class {
            C::Ssy | C::PreBreak => {
                shadow.push_token(mask, info.base_pc, op.class == C::PreBreak, info.base_target);
                Ok(())
            }
            C::Sync => shadow.take_token(mask, exec, info.base_pc, false),
            C::Break => shadow.take_token(mask, exec, info.base_pc, true),
            _ => {
                shadow.set(mask, info.base_pc + 1);
                Ok(())
            }
        };
        taken.map_err(|lane| {
            Violation::new(
                "cfc-stack1",
                1 << lane,
                "the thread pops a token that was not pushed in this function",
            )
        })
    }

    /// Under a policy without tokens the threads go where their own tokens say.
    fn by_hand_alone(&mut self, split: SplitId, w: usize, mask: LaneMask) -> Result<Step, Violation> {
        let targets = *self.warps[w].shadow.pcs();
        let to = LaneTargets { lanes: mask, targets: Targets::PerLane(&targets), call: false };
        let cost = self.policy.branched(split, &to, &mut self.touched)?;
        self.regrouped(split);
        self.charge.add(cost);
        self.give_way(split);
        Ok(Step::Control)
    }

    /// The shadow of an indirect branch under the token stack: only the lanes whose target the
    /// policy chooses leave; the others issue the branch again (`reset` of CS ch. 6), so each
    /// lane's shadow waits at the branch until its lane is among those that went.
    fn shadow_indirect(
        &mut self,
        w: usize,
        mask: LaneMask,
        exec: LaneMask,
        pc: Pc,
        targets: &[Pc; WARP_LANES],
        base: &[Pc; WARP_LANES],
        call: bool,
    ) {
        let shadow = &mut self.warps[w].shadow;
        if P::FLOW == ControlFlow::Injected {
            // The most wanted target goes first, ties to the lowest lane (rule bratarget).
            let mut going = 0u32;
            let mut left = exec;
            while left != 0 {
                let target = targets[left.trailing_zeros() as usize];
                let same = Lanes(left)
                    .filter(|&lane| targets[lane as usize] == target)
                    .fold(0u32, |m, lane| m | 1 << lane);
                if same.count_ones() > going.count_ones() {
                    going = same;
                }
                left &= !same;
            }
            if going == exec {
                shadow.branch(mask, exec, pc, &Targets::PerLane(base), call);
            } else {
                shadow.set(mask & !going, pc);
                shadow.branch(going, going, pc, &Targets::PerLane(base), call);
            }
        } else {
            shadow.branch(mask, exec, pc, &Targets::PerLane(base), call);
        }
    }

    /// Threads are in no more calls than their stack holds frames.
    #[cold]
    #[inline(never)]
    fn check_depth(&self, w: usize, lanes: LaneMask, deepest: u32) -> Result<(), Violation> {
        let shadow = &self.warps[w].shadow;
        let over = |lane: &u32| shadow.depth(*lane as usize) > deepest as usize;
        let over = Lanes(lanes).filter(over).fold(0, |mask, lane| mask | 1 << lane);
        if over == 0 {
            return Ok(());
        }
        Err(Violation::new(
            "thr-call",
            over,
            format!(
                "stack overflow: the call depth is {deepest}, and the stack of {} bytes per thread has no space for another frame (minimum frame size {FRAME_ALIGN} bytes)",
                u64::from(deepest) * u64::from(FRAME_ALIGN)
            ),
        ))
    }

    /// The address an indirect branch or call goes to.
    fn indirect_target(&self, code: &Code, pc: Pc, value: u32, lane: u32) -> Result<Pc, Violation> {
        let op = &code.program.ops[pc as usize];
        if op.class == OpClass::BranchIndirect && op.imm >= 0 {
            let table = code.program.tables.get(op.imm as usize);
            return table.and_then(|table| table.get(value as usize).copied()).ok_or_else(|| {
                let size = table.map_or(0, Vec::len);
                Violation::new(
                    "thr-bra",
                    1 << lane,
                    format!("branch index {value} is out of range: the branch has {size} targets"),
                )
            });
        }
        // The papers' dialect names labels' addresses.
        let found = if op.class == OpClass::BranchIndirect {
            Some(value).filter(|value| (*value as usize) < code.program.ops.len())
        } else {
            let mut functions = code.program.functions.iter();
            functions.find(|function| function.address == value).map(|function| function.entry_pc)
        };
        found.ok_or_else(|| {
            Violation::new("thr-call", 1 << lane, format!("{value:#x} is not the address of a function"))
        })
    }

    /// Threads of a warp have ended: barriers and collectives that wait for live threads look
    /// again.
    fn end_threads(&mut self, kernels: &[Arc<Kernel>], w: usize, lanes: LaneMask) -> Result<(), Violation> {
        if lanes == 0 {
            return Ok(());
        }
        let warp = &mut self.warps[w];
        warp.exited |= lanes;
        let over = warp.live() == 0;
        let block_slot = warp.block;
        if let Some(block) = self.blocks[block_slot].as_mut() {
            block.live_threads -= lanes.count_ones();
            block.live_warps -= u32::from(over);
        }
        if over {
            self.ended.push(w);
        }
        self.leave_cluster(w, lanes);
        self.reevaluate_barriers(kernels, block_slot);
        self.reevaluate_meetings(kernels, w)
    }
}

/// Where an indirect branch or call of the source leads in the program before transformation 6,
/// by that program's own table.
fn base_target(code: &Code, class: OpClass, base_pc: Pc, value: u32, target: Pc) -> Pc {
    let Some(base) = &code.program.base else { return code.program.info[target as usize].base_pc };
    let found = if class == OpClass::BranchIndirect {
        let table = base.ops.get(base_pc as usize).and_then(|op| base.tables.get(op.imm as usize));
        table.and_then(|table| table.get(value as usize).copied())
    } else {
        let function = code.program.functions.iter().position(|function| function.entry_pc == target);
        function.and_then(|index| base.functions.get(index)).map(|function| function.entry_pc)
    };
    found.unwrap_or(code.program.info[target as usize].base_pc)
}
