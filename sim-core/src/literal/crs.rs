//! →CRS, the transition system of call, return and synchronization (CS §5.4.1). Each rule is an
//! arm of [`step`], in the order of the text.

use std::collections::VecDeque;

use sim_frontend::program::Pc;

use super::Stuck;
use super::thread::FlowAct;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ActiveState {
    Active,
    Inactive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DisableState {
    Enabled,
    Break,
    Return,
    Exit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenType {
    Sync,
    Diverge,
    Call,
    Break,
}

/// α: by warp lane.
pub(super) type ActiveMask = Vec<ActiveState>;
/// δ: by warp lane.
pub(super) type DisableMask = Vec<DisableState>;
/// τ.
pub(super) type ExecToken = (TokenType, ActiveMask, Pc);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WarpState {
    Active,
    Completed,
}

/// ς.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExecState {
    pub pc: Pc,
    pub active: ActiveMask,
    pub disabled: DisableMask,
    /// The topmost token first.
    pub stack: VecDeque<ExecToken>,
}

use ActiveState::{Active, Inactive};
use DisableState::Enabled;

/// `uni(α, wl1 … wln)`.
fn uni(active: &ActiveMask, lanes: &[u32]) -> bool {
    (0..active.len()).all(|wl| active[wl] != Active || lanes.contains(&(wl as u32)))
}

/// `taken`.
fn taken(size: usize, wp: &[(u32, Pc)], target: Pc) -> ActiveMask {
    match wp {
        [] => vec![Inactive; size],
        [(wl, pc), rest @ ..] => {
            let mut mask = taken(size, rest, target);
            if *pc == target {
                mask[*wl as usize] = Active;
            }
            mask
        }
    }
}

/// `notTaken`.
fn not_taken(active: &ActiveMask, wp: &[(u32, Pc)], target: Pc) -> ActiveMask {
    match wp {
        [] => active.clone(),
        [(wl, pc), rest @ ..] => {
            let mut mask = not_taken(active, rest, target);
            if *pc == target {
                mask[*wl as usize] = Inactive;
            }
            mask
        }
    }
}

/// `α \ δ`.
fn minus(active: &ActiveMask, disabled: &DisableMask) -> ActiveMask {
    active.iter().zip(disabled).map(|(a, d)| if *d == Enabled { *a } else { Inactive }).collect()
}

/// `enable(α, δ, disableState)`.
fn enable(active: &ActiveMask, disabled: &DisableMask, reason: DisableState) -> DisableMask {
    let lanes = active.iter().zip(disabled);
    lanes.map(|(a, d)| if *a == Active && *d == reason { Enabled } else { *d }).collect()
}

/// `updExecState`; `None` is ⊥.
fn upd_exec_state(mut state: ExecState) -> Option<ExecState> {
    let (kind, active, pc) = state.stack.pop_front()?;
    state.disabled = match kind {
        TokenType::Sync | TokenType::Diverge => state.disabled,
        TokenType::Call => enable(&active, &state.disabled, DisableState::Return),
        TokenType::Break => enable(&active, &state.disabled, DisableState::Break),
    };
    state.active = minus(&active, &state.disabled);
    state.pc = pc;
    Some(state)
}

/// `unwind`.
fn unwind(mut state: ExecState) -> Result<(WarpState, ExecState), Stuck> {
    if state.stack.is_empty() {
        return if state.disabled.iter().all(|d| *d == DisableState::Exit) {
            Ok((WarpState::Completed, state))
        } else {
            Stuck::new("unwind", "the stack is empty and threads wait")
        };
    }
    match upd_exec_state(state.clone()) {
        Some(next) if next.active.contains(&Active) => Ok((WarpState::Active, next)),
        _ => {
            state.stack.pop_front();
            unwind(state)
        }
    }
}

fn push(mut state: ExecState, token: ExecToken) -> ExecState {
    state.stack.push_front(token);
    state
}

/// Lanes leave the active mask for a reason.
fn disable(mut state: ExecState, lanes: &[u32], reason: DisableState) -> ExecState {
    for wl in lanes {
        state.active[*wl as usize] = Inactive;
        state.disabled[*wl as usize] = reason;
    }
    state
}

fn to_next(mut state: ExecState) -> ExecState {
    state.pc += 1;
    state
}

/// The target that most lanes want, ties to the one the lowest lane wants: the choice that the
/// thesis leaves open.
fn chosen(wp: &[(u32, Pc)]) -> Pc {
    let votes = |target: Pc| wp.iter().filter(|(_, pc)| *pc == target).count();
    let most = wp.iter().map(|(_, pc)| votes(*pc)).max().unwrap_or(0);
    wp.iter().find(|(_, pc)| votes(*pc) == most).map_or(0, |(_, pc)| *pc)
}

/// A step by the actions of the threads; with it comes the name of the rule.
pub(super) fn step(
    state: ExecState,
    acts: &[FlowAct],
) -> Result<(&'static str, WarpState, ExecState), Stuck> {
    let size = state.active.len();
    let go = |rule, state| Ok((rule, WarpState::Active, state));
    let all_agree = |pcs: &[Pc]| pcs.iter().all(|pc| *pc == pcs[0]);
    let addresses: Vec<Pc> = acts
        .iter()
        .filter_map(|act| match act {
            FlowAct::Ssy(pc) | FlowAct::PreBrk(pc) | FlowAct::PreRet(pc) => Some(*pc),
            _ => None,
        })
        .collect();
    let wp: Vec<(u32, Pc)> = acts
        .iter()
        .filter_map(|act| match act {
            FlowAct::Bra(wl, pc) | FlowAct::Call(wl, pc) => Some((*wl, *pc)),
            _ => None,
        })
        .collect();
    let lanes: Vec<u32> = acts
        .iter()
        .filter_map(|act| match act {
            FlowAct::Break(wl) | FlowAct::Return(wl) | FlowAct::Exit(wl) => Some(*wl),
            FlowAct::Bra(wl, _) | FlowAct::Call(wl, _) => Some(*wl),
            _ => None,
        })
        .collect();
    let same_kind = acts.iter().all(|act| std::mem::discriminant(act) == std::mem::discriminant(&acts[0]));
    if !same_kind {
        return Stuck::new("crs", "threads of one warp execute different instructions");
    }
    let Some(first) = acts.first() else { return go("next", to_next(state)) };
    match first {
        FlowAct::Ssy(pc) if all_agree(&addresses) => {
            let token = (TokenType::Sync, state.active.clone(), *pc);
            go("ssy", push(to_next(state), token))
        }
        FlowAct::PreBrk(pc) if all_agree(&addresses) => {
            let token = (TokenType::Break, state.active.clone(), *pc);
            go("prebrk", push(to_next(state), token))
        }
        FlowAct::PreRet(pc) if all_agree(&addresses) => {
            let token = (TokenType::Call, state.active.clone(), *pc);
            go("preret", push(to_next(state), token))
        }
        FlowAct::Sync => {
            let (warp, state) = unwind(state)?;
            Ok(("sync", warp, state))
        }
        FlowAct::Break(_) if !uni(&state.active, &lanes) => {
            go("brkdiv", disable(to_next(state), &lanes, DisableState::Break))
        }
        FlowAct::Return(_) if !uni(&state.active, &lanes) => {
            go("retdiv", disable(to_next(state), &lanes, DisableState::Return))
        }
        FlowAct::Exit(_) if !uni(&state.active, &lanes) => {
            go("exitdiv", disable(to_next(state), &lanes, DisableState::Exit))
        }
        FlowAct::Break(_) => {
            let (warp, state) = unwind(disable(state, &lanes, DisableState::Break))?;
            Ok(("brkuni", warp, state))
        }
        FlowAct::Return(_) => {
            let (warp, state) = unwind(disable(state, &lanes, DisableState::Return))?;
            Ok(("retuni", warp, state))
        }
        FlowAct::Exit(_) => {
            let (warp, state) = unwind(disable(state, &lanes, DisableState::Exit))?;
            Ok(("exituni", warp, state))
        }
        FlowAct::Bra(_, pc) if uni(&state.active, &lanes) && wp.iter().all(|(_, other)| other == pc) => {
            go("brauni", ExecState { pc: *pc, ..state })
        }
        FlowAct::Call(_, pc) if uni(&state.active, &lanes) && wp.iter().all(|(_, other)| other == pc) => {
            go("calluni", ExecState { pc: *pc, ..state })
        }
        FlowAct::Bra(_, pc) if wp.iter().all(|(_, other)| other == pc) => {
            let token = (TokenType::Diverge, not_taken(&state.active, &wp, *pc), state.pc + 1);
            let next = ExecState { pc: *pc, active: taken(size, &wp, *pc), ..state };
            go("braguard", push(next, token))
        }
        FlowAct::Call(_, pc) if wp.iter().all(|(_, other)| other == pc) => {
            go("callguard", ExecState { pc: *pc, active: taken(size, &wp, *pc), ..state })
        }
        FlowAct::Bra(..) | FlowAct::Call(..) => {
            let k = chosen(&wp);
            let token = (TokenType::Diverge, not_taken(&state.active, &wp, k), state.pc);
            let next = ExecState { pc: k, active: taken(size, &wp, k), ..state };
            let rule = if matches!(first, FlowAct::Bra(..)) { "bratarget" } else { "calltarget" };
            go(rule, push(next, token))
        }
        other => Stuck::new("crs", format!("the threads name different addresses in {other:?}")),
    }
}
