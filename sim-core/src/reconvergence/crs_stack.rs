//! The token stack of call, return, synchronization (CS §5.4.1, transition system →CRS): one
//! split a warp, a disable mask, and tokens pushed by injected instructions. Default up to
//! compute capability 6.x.
//!
//! Each of the seventeen rules of →CRS is one function here; [`ExecState::bra`] and
//! [`ExecState::call`] choose among theirs as the side conditions do. The active mask `α` and the disable mask `δ` are bit masks.

use std::sync::Arc;

use sim_frontend::program::{ControlFlow, NO_PC, Pc};
use sim_memory::vocabulary::LaneMask;

#[cfg(test)]
use super::Corruption;
use super::parameters::parameters;
use super::plan::Plan;
use super::{Cost, Holding, Injected, LaneTargets, Lanes, Reconvergence, SplitId, Targets, WarpSlots};
use crate::error::Violation;

/// `TokenType` of CS §5.4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, borsh::BorshSerialize, borsh::BorshDeserialize)]
#[allow(missing_docs, reason = "the names are the thesis's")]
pub enum TokenType {
    Sync,
    Diverge,
    Call,
    Break,
}

/// `ExecToken`: what to activate, and where, when the token is popped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Token {
    /// Its type.
    pub kind: TokenType,
    /// Lanes to activate.
    pub mask: LaneMask,
    /// Address they resume at.
    pub pc: Pc,
}

/// `DisableMask` δ: for each reason, the lanes disabled for it. A lane is in one set at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct DisableMask {
    /// Waiting for the other threads to leave the loop.
    pub break_: LaneMask,
    /// Waiting for the other threads to return.
    pub return_: LaneMask,
    /// Lanes that have exited.
    pub exit: LaneMask,
}

impl DisableMask {
    /// All disabled lanes.
    pub fn any(&self) -> LaneMask {
        self.break_ | self.return_ | self.exit
    }
}

/// `ExecState` ς of one warp.
#[derive(Clone, Debug, Default, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct ExecState {
    /// Program address.
    pub pc: Pc,
    /// Active mask α.
    pub active: LaneMask,
    /// Disable mask δ.
    pub disabled: DisableMask,
    /// The token stack, top last.
    pub stack: Vec<Token>,
    /// The warp's lanes (WarpSize low bits).
    pub lanes: LaneMask,
}

/// `WarpState` of CS §5.4: the result of a →CRS transition beside the execution state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the thesis's")]
pub enum WarpState {
    Active,
    Completed,
}

/// `uni(α, wl…)`: every active lane executed the instruction [crs-uni].
pub fn uni(active: LaneMask, executed: LaneMask) -> bool {
    active & !executed == 0
}

/// `taken`: the lanes that go to `target` [crs-taken].
pub fn taken(lanes: LaneMask, targets: &Targets<'_>, target: Pc) -> LaneMask {
    match targets {
        Targets::One(pc) => {
            if *pc == target {
                lanes
            } else {
                0
            }
        }
        Targets::PerLane(_) => {
            Lanes(lanes).filter(|&lane| targets.of(lane) == target).fold(0, |mask, lane| mask | 1 << lane)
        }
    }
}

/// `notTaken`: the active lanes that do not go to `target` [crs-notTaken].
pub fn not_taken(active: LaneMask, lanes: LaneMask, targets: &Targets<'_>, target: Pc) -> LaneMask {
    active & !taken(lanes, targets, target)
}

/// `α \ δ`: the active mask without disabled lanes [crs-minus].
pub fn minus(active: LaneMask, disabled: &DisableMask) -> LaneMask {
    active & !disabled.any()
}

/// `enable` for the threads that wait for a loop to end [crs-enable]: lanes of `active` that are
/// disabled for this reason become enabled.
pub fn enable(active: LaneMask, reason: &mut LaneMask) {
    *reason &= !active;
}

impl ExecState {
    /// `actToken` of all waiting lanes at once, the topmost token of a kind they wait for: lanes and
    /// address of each go to `visit`. What is left are lanes without one.
    #[inline]
    fn without_token(&self, waiting: LaneMask, mut visit: impl FnMut(LaneMask, Pc)) -> LaneMask {
        let DisableMask { break_, return_, .. } = self.disabled;
        let mut left = waiting;
        for token in self.stack.iter().rev() {
            if left == 0 {
                break;
            }
            let other_kinds = match token.kind {
                TokenType::Break => return_,
                TokenType::Call => break_,
                TokenType::Sync | TokenType::Diverge => break_ | return_,
            };
            let own = token.mask & left & !other_kinds;
            if own != 0 {
                visit(own, token.pc);
                left &= !own;
            }
        }
        left
    }

    /// The state of a warp whose `lanes` start at `entry`; dummy lanes are inactive and count
    /// as ended (CS §5.4.1).
    pub fn start(entry: Pc, lanes: LaneMask, warp_lanes: LaneMask) -> Self {
        let exit = warp_lanes & !lanes;
        let disabled = DisableMask { exit, ..DisableMask::default() };
        Self { pc: entry, active: lanes, disabled, stack: Vec::new(), lanes: warp_lanes }
    }

    /// `updExecState`: pops the topmost token; call and break tokens re-enable the threads that
    /// waited for them [crs-updExecState]. `None` where the stack is empty.
    fn update_exec_state(&mut self) -> Option<()> {
        let token = self.stack.pop()?;
        match token.kind {
            TokenType::Sync | TokenType::Diverge => {}
            TokenType::Call => enable(token.mask, &mut self.disabled.return_),
            TokenType::Break => enable(token.mask, &mut self.disabled.break_),
        }
        self.active = minus(token.mask, &self.disabled);
        self.pc = token.pc;
        Some(())
    }

    /// `actToken`: where on the stack the token lies that activates `lane` again; none for active
    /// and ended lanes [safe-actToken].
    pub fn act_token(&self, lane: u32) -> Option<usize> {
        let bit = 1 << lane;
        if (self.active | self.disabled.exit) & bit != 0 {
            return None;
        }
        self.stack.iter().rposition(|token| {
            token.mask & bit != 0
                && (self.disabled.break_ & bit == 0 || token.kind == TokenType::Break)
                && (self.disabled.return_ & bit == 0 || token.kind == TokenType::Call)
        })
    }

    /// The invariant of CS §6.4, which holds between steps: inactive threads have their token
    /// [inv-1]; somebody is active or all have ended [inv-2]; active threads [inv-3] and waiting
    /// ones [inv-4] are in all tokens they will need; active threads are enabled [inv-5]; no token
    /// is empty [inv-6].
    ///
    /// # Errors
    /// The first part that does not hold, with its lanes.
    pub fn invariants(&self) -> Result<(), Violation> {
        let broken = |rule, lanes, reason: &str| Err(Violation::new(rule, lanes, reason));
        let waiting = self.lanes & !self.active & !self.disabled.exit;
        let of = |test: &dyn Fn(u32) -> bool, lanes| {
            Lanes(lanes).filter(|&lane| test(lane)).fold(0u32, |mask, lane| mask | 1 << lane)
        };
        let lost = of(&|lane| self.act_token(lane).is_none(), waiting);
        if lost != 0 {
            return broken("inv-1", lost, "no token reactivates these threads");
        }
        if self.active == 0 && waiting != 0 {
            return broken("inv-2", waiting, "no thread is active, but these have not exited");
        }
        let held = |tokens: &[Token], lane: u32| {
            tokens.iter().all(|t| t.kind == TokenType::Diverge || t.mask >> lane & 1 == 1)
        };
        let missing = of(&|lane| !held(&self.stack, lane), self.active);
        if missing != 0 {
            return broken(
                "inv-3",
                missing,
                "an active thread is missing from the mask of a token that it will pop",
            );
        }
        let below = |lane| self.act_token(lane).map_or(&[][..], |at| &self.stack[..at]);
        let missing = of(&|lane| !held(below(lane), lane), waiting);
        if missing != 0 {
            return broken(
                "inv-4",
                missing,
                "a waiting thread is missing from the mask of a token below its own in the stack",
            );
        }
        let disabled = self.disabled.break_ | self.disabled.return_ | self.disabled.exit;
        if self.active & disabled != 0 {
            return broken("inv-5", self.active & disabled, "an active thread is disabled");
        }
        if self.stack.iter().any(|token| token.mask == 0) {
            return broken("inv-6", 0, "a token activates no thread");
        }
        Ok(())
    }

    /// `unwind`: pops until a lane is active or the stack is empty; an empty stack with threads
    /// that did not exit is `⊥` [crs-unwind].
    fn unwind(&mut self) -> Result<WarpState, Violation> {
        loop {
            if self.update_exec_state().is_none() {
                let waiting = self.lanes & !self.disabled.exit;
                if waiting == 0 {
                    self.active = 0;
                    return Ok(WarpState::Completed);
                }
                return Err(Violation::new(
                    "crs-unwind",
                    waiting,
                    format!(
                        "the token stack is empty but threads still wait \
                         (break {:#x}, return {:#x})",
                        self.disabled.break_, self.disabled.return_
                    ),
                ));
            }
            if self.active != 0 {
                return Ok(WarpState::Active);
            }
        }
    }

    fn push(&mut self, kind: TokenType, mask: LaneMask, pc: Pc) {
        self.stack.push(Token { kind, mask, pc });
    }

    fn next_pc(&mut self) -> WarpState {
        self.pc += 1;
        WarpState::Active
    }

    /// Rule (ssy): push a sync token with the active mask [crs-ssy].
    pub fn ssy(&mut self, target: Pc) -> WarpState {
        self.push(TokenType::Sync, self.active, target);
        self.next_pc()
    }

    /// Rule (preBrk): push a break token with the active mask [crs-prebrk].
    pub fn pre_brk(&mut self, target: Pc) -> WarpState {
        self.push(TokenType::Break, self.active, target);
        self.next_pc()
    }

    /// Rule (preRet): push a call token with the active mask: with a guard, the lanes that do
    /// not call wait for it too, and resume with the others [crs-preret].
    pub fn pre_ret(&mut self, target: Pc) -> WarpState {
        self.push(TokenType::Call, self.active, target);
        self.next_pc()
    }

    /// Rule (sync): unwind [crs-sync].
    ///
    /// # Errors
    /// `⊥` of `unwind`.
    pub fn sync(&mut self) -> Result<WarpState, Violation> {
        self.unwind()
    }

    /// Rules (brkdiv) and (brkuni): the lanes wait for the loop's break token
    /// [crs-brkdiv] [crs-brkuni].
    ///
    /// # Errors
    /// `⊥` of `unwind`.
    pub fn brk(&mut self, lanes: LaneMask) -> Result<WarpState, Violation> {
        let uniform = uni(self.active, lanes);
        self.active &= !lanes;
        self.disabled.break_ |= lanes;
        if uniform { self.unwind() } else { Ok(self.next_pc()) }
    }

    /// Rules (retdiv) and (retuni): the lanes wait for the call token
    /// [crs-retdiv] [crs-retuni].
    ///
    /// # Errors
    /// `⊥` of `unwind`.
    pub fn ret(&mut self, lanes: LaneMask) -> Result<WarpState, Violation> {
        let uniform = uni(self.active, lanes);
        self.active &= !lanes;
        self.disabled.return_ |= lanes;
        if uniform { self.unwind() } else { Ok(self.next_pc()) }
    }

    /// Rules (exitdiv) and (exituni): the lanes end [crs-exitdiv] [crs-exituni].
    ///
    /// # Errors
    /// `⊥` of `unwind`.
    pub fn exit(&mut self, lanes: LaneMask) -> Result<WarpState, Violation> {
        let uniform = uni(self.active, lanes);
        self.active &= !lanes;
        self.disabled.exit |= lanes;
        if uniform { self.unwind() } else { Ok(self.next_pc()) }
    }

    /// Rule (brauni): all active lanes branch to one address [crs-brauni].
    pub fn bra_uni(&mut self, target: Pc) -> WarpState {
        self.pc = target;
        WarpState::Active
    }

    /// Rule (calluni): all active lanes call one function [crs-calluni].
    pub fn call_uni(&mut self, target: Pc) -> WarpState {
        self.pc = target;
        WarpState::Active
    }

    /// Rule (braguard): some lanes branch to one address, the others fall through; the taken
    /// path runs first [crs-braguard].
    pub fn bra_guard(&mut self, lanes: LaneMask, target: Pc) -> WarpState {
        let targets = Targets::One(target);
        let rest = not_taken(self.active, lanes, &targets, target);
        self.push(TokenType::Diverge, rest, self.pc + 1);
        self.active = taken(lanes, &targets, target);
        self.pc = target;
        WarpState::Active
    }

    /// Rule (callguard): some lanes call one function; the others wait for its call token
    /// [crs-callguard].
    pub fn call_guard(&mut self, lanes: LaneMask, target: Pc) -> WarpState {
        self.active = taken(lanes, &Targets::One(target), target);
        self.pc = target;
        WarpState::Active
    }

    /// Rule (bratarget): the target most lanes want goes first, ties to the one the lowest lane
    /// wants; the others come back to the branch [crs-bratarget].
    pub fn bra_target(&mut self, lanes: LaneMask, targets: &Targets<'_>) -> WarpState {
        self.diverge_to_most_wanted(lanes, targets)
    }

    /// Rule (calltarget): the same for indirect calls [crs-calltarget].
    pub fn call_target(&mut self, lanes: LaneMask, targets: &Targets<'_>) -> WarpState {
        self.diverge_to_most_wanted(lanes, targets)
    }

    fn diverge_to_most_wanted(&mut self, lanes: LaneMask, targets: &Targets<'_>) -> WarpState {
        let (mut best, mut best_mask, mut left) = (self.pc, 0u32, lanes);
        while left != 0 {
            let target = targets.of(left.trailing_zeros());
            let mask = taken(left, targets, target);
            if mask.count_ones() > best_mask.count_ones() {
                (best, best_mask) = (target, mask);
            }
            left &= !mask;
        }
        let rest = not_taken(self.active, lanes, targets, best);
        self.push(TokenType::Diverge, rest, self.pc);
        self.active = best_mask;
        self.pc = best;
        WarpState::Active
    }

    /// Rule (next): nothing that concerns control flow happened [crs-next].
    #[allow(clippy::should_implement_trait, reason = "the rule's name")]
    pub fn next(&mut self) -> WarpState {
        self.next_pc()
    }

    /// A branch, by whichever of the rules for branches applies.
    pub fn bra(&mut self, lanes: LaneMask, targets: &Targets<'_>) -> WarpState {
        if lanes == 0 {
            return self.next();
        }
        match targets.uniform(lanes) {
            Some(target) if uni(self.active, lanes) => self.bra_uni(target),
            Some(target) => self.bra_guard(lanes, target),
            None => self.bra_target(lanes, targets),
        }
    }

    /// A call, by whichever of the rules for calls applies.
    pub fn call(&mut self, lanes: LaneMask, targets: &Targets<'_>) -> WarpState {
        if lanes == 0 {
            return self.next();
        }
        match targets.uniform(lanes) {
            Some(target) if uni(self.active, lanes) => self.call_uni(target),
            Some(target) => self.call_guard(lanes, target),
            None => self.call_target(lanes, targets),
        }
    }
}

/// Bytes of one token in spill memory: type and padding, mask, address (assumed; the thesis
/// leaves the layout open).
const TOKEN_BYTES: u32 = 16;

parameters! {
    /// Parameters of `crs_stack`.
    pub struct Parameters {
        depth: u32 = 16, 1..=4096, "tokens a warp holds on chip before the oldest are spilled";
        spill_cycles: u32 = 0, 0..=10_000, "core cycles to move one token to or from spill memory";
    }
}

/// The token stack as a policy.
#[derive(Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct CrsStack {
    warps: Vec<ExecState>,
    #[borsh(serialize_with = "sim_memory::links::named", deserialize_with = "sim_memory::links::linked")]
    parameters: Parameters,
    warp_lanes: LaneMask,
}

impl CrsStack {
    fn cost(&self, warp: usize, before: usize) -> Cost {
        let depth = self.parameters.depth as usize;
        let after = self.warps[warp].stack.len();
        let moved = after.max(depth).abs_diff(before.max(depth)) as u32;
        Cost {
            cycles: moved * self.parameters.spill_cycles,
            spilled_bytes: moved * TOKEN_BYTES,
            entries: after as u32,
        }
    }
}

impl Reconvergence for CrsStack {
    const FLOW: ControlFlow = ControlFlow::Injected;
    const WHOLE_WARP: bool = true;
    const SPLITS: usize = 1;

    type Parameters = Parameters;

    fn new(parameters: &Parameters, slots: WarpSlots) -> Self {
        Self {
            warps: vec![ExecState::default(); slots.count],
            parameters: *parameters,
            warp_lanes: slots.lanes,
        }
    }

    fn grow(&mut self, warps: usize) {
        self.warps.resize(warps, ExecState::default());
    }

    fn admit(
        &mut self,
        warp: usize,
        _block: usize,
        lanes: LaneMask,
        plan: &Arc<Plan>,
        touched: &mut Vec<SplitId>,
    ) {
        let mut stack = std::mem::take(&mut self.warps[warp].stack);
        stack.clear();
        self.warps[warp] = ExecState { stack, ..ExecState::start(plan.entry, lanes, self.warp_lanes) };
        touched.push(warp as SplitId);
    }

    #[inline]
    fn lies_at(&self, split: SplitId) -> *const u8 {
        self.warps.get(split as usize).map_or(std::ptr::null(), |warp| std::ptr::from_ref(warp).cast())
    }

    #[inline]
    fn pc(&self, split: SplitId) -> Pc {
        self.warps[split as usize].pc
    }

    #[inline]
    fn mask(&self, split: SplitId) -> LaneMask {
        self.warps[split as usize].active
    }

    #[inline]
    fn advance(&mut self, split: SplitId) -> bool {
        self.warps[split as usize].pc += 1;
        false
    }

    #[inline]
    fn stop(&self, _split: SplitId) -> Pc {
        NO_PC
    }

    #[inline]
    fn advance_by(&mut self, split: SplitId, count: Pc) {
        self.warps[split as usize].pc += count;
    }

    /// Rule bra-uni, and the step to the next address where no thread takes the branch: neither changes the stack.
    #[inline]
    fn jumped(&mut self, split: SplitId, target: Pc) -> bool {
        self.warps[split as usize].pc = target;
        true
    }

    fn branched(
        &mut self,
        split: SplitId,
        to: &LaneTargets<'_>,
        _touched: &mut Vec<SplitId>,
    ) -> Result<Cost, Violation> {
        let state = &mut self.warps[split as usize];
        let before = state.stack.len();
        if to.call {
            state.call(to.lanes, &to.targets);
        } else {
            state.bra(to.lanes, &to.targets);
        }
        Ok(self.cost(split as usize, before))
    }

    fn returned(
        &mut self,
        split: SplitId,
        lanes: LaneMask,
        _touched: &mut Vec<SplitId>,
    ) -> Result<Cost, Violation> {
        let state = &mut self.warps[split as usize];
        let before = state.stack.len();
        if lanes == 0 {
            state.next()
        } else {
            state.ret(lanes)?
        };
        Ok(self.cost(split as usize, before))
    }

    fn exited(
        &mut self,
        split: SplitId,
        lanes: LaneMask,
        _touched: &mut Vec<SplitId>,
    ) -> Result<Cost, Violation> {
        let state = &mut self.warps[split as usize];
        let before = state.stack.len();
        if lanes == 0 {
            state.next()
        } else {
            state.exit(lanes)?
        };
        Ok(self.cost(split as usize, before))
    }

    fn injected(
        &mut self,
        split: SplitId,
        lanes: LaneMask,
        instruction: Injected,
        _touched: &mut Vec<SplitId>,
    ) -> Result<Cost, Violation> {
        let state = &mut self.warps[split as usize];
        let before = state.stack.len();
        if lanes == 0 {
            state.next();
        } else {
            match instruction {
                Injected::Ssy(pc) => state.ssy(pc),
                Injected::PreBreak(pc) => state.pre_brk(pc),
                Injected::PreReturn(pc) => state.pre_ret(pc),
                Injected::Sync => state.sync()?,
                Injected::Break => state.brk(lanes)?,
            };
        }
        Ok(self.cost(split as usize, before))
    }

    fn threads(&self, warp: usize, visit: &mut dyn FnMut(Holding)) {
        let state = &self.warps[warp];
        if state.active != 0 {
            visit(Holding { pc: state.pc, mask: state.active, waits: false });
        }
        let waiting = state.lanes & !state.active & !state.disabled.exit;
        state.without_token(waiting, |mask, pc| visit(Holding { pc, mask, waits: true }));
    }

    #[inline]
    fn held(&self, warp: usize) -> (LaneMask, LaneMask) {
        let state = &self.warps[warp];
        let waiting = state.lanes & !state.active & !state.disabled.exit;
        let found = if waiting == 0 { 0 } else { waiting & !state.without_token(waiting, |_, _| {}) };
        (state.active | found, 0)
    }

    fn invariants(&self, warp: usize) -> Result<(), Violation> {
        self.warps[warp].invariants()
    }

    #[cfg(test)]
    fn exec_state(&self, warp: usize) -> Option<&ExecState> {
        self.warps.get(warp)
    }

    #[cfg(test)]
    fn corrupt(&mut self, split: SplitId, how: Corruption) -> bool {
        let state = &mut self.warps[split as usize];
        match (how, state.stack.last_mut()) {
            (Corruption::DropLane, _) => {
                state.active &= state.active - 1;
                true
            }
            (Corruption::Pop, Some(_)) => state.stack.pop().is_some(),
            (Corruption::MoveTop, Some(top)) => {
                top.pc += 1;
                true
            }
            (_, None) => false,
        }
    }

    fn describe(&self, warp: usize) -> String {
        let ExecState { pc, active, disabled, stack, .. } = &self.warps[warp];
        let tokens: Vec<String> =
            stack.iter().rev().map(|t| format!("({:?}, {:#x}, {})", t.kind, t.mask, t.pc)).collect();
        format!(
            "pc {pc}, active {active:#x}, break {:#x}, return {:#x}, exit {:#x}, tokens [{}]",
            disabled.break_,
            disabled.return_,
            disabled.exit,
            tokens.join(" :: ")
        )
    }
}

#[cfg(test)]
mod tests;
