//! The safety property of CS chapter 6 beside the rules of chapter 5: threads that know the address
//! of their own next instruction (§6.3), and what theorem 1 says of every state that a step leads
//! to (§6.4).

use std::collections::VecDeque;

use sim_frontend::program::Pc;

use super::Stuck;
use super::crs::{ActiveMask, ActiveState, DisableState, ExecState, ExecToken, TokenType};
use super::thread::{Act, FlowAct};

use ActiveState::{Active, Inactive};

/// `topmostToken` [safe-topmostToken].
pub(super) fn topmost_token(stack: &VecDeque<ExecToken>, kind: TokenType) -> Result<&ExecToken, Stuck> {
    match stack.iter().find(|token| token.0 == kind) {
        Some(token) => Ok(token),
        None => Stuck::new("topmostToken", format!("there is no {kind:?} token")),
    }
}

/// `branchΘ`: where a thread goes on that did `act` at `pc`; nowhere once it has ended
/// [safe-branch].
pub(super) fn branch(pc: Pc, stack: &VecDeque<ExecToken>, act: Option<&Act>) -> Result<Option<Pc>, Stuck> {
    let Some(Act::Flow(flow)) = act else { return Ok(Some(pc + 1)) };
    Ok(match flow {
        FlowAct::Ssy(_) | FlowAct::PreRet(_) | FlowAct::PreBrk(_) | FlowAct::Sync => Some(pc + 1),
        FlowAct::Break(_) => Some(topmost_token(stack, TokenType::Break)?.2),
        FlowAct::Return(_) => Some(topmost_token(stack, TokenType::Call)?.2),
        FlowAct::Exit(_) => None,
        FlowAct::Bra(_, target) | FlowAct::Call(_, target) => Some(*target),
    })
}

/// `reset`: threads at an indirect branch or call whose target was not chosen come back to it
/// [safe-reset].
pub(super) fn reset(
    pcs: &mut [Option<Pc>],
    flows: &[FlowAct],
    pc: Pc,
    before: &ActiveMask,
    after: &ActiveMask,
) {
    let targets: Vec<Pc> = flows
        .iter()
        .filter_map(|flow| match flow {
            FlowAct::Bra(_, target) | FlowAct::Call(_, target) => Some(*target),
            _ => None,
        })
        .collect();
    if targets.iter().all(|target| *target == targets[0]) {
        return;
    }
    for (wl, own) in pcs.iter_mut().enumerate() {
        if before[wl] == Active && after[wl] == Inactive {
            *own = Some(pc);
        }
    }
}

/// `actToken`, by its place from the top.
fn act_token(state: &ExecState, wl: usize) -> Option<usize> {
    state.stack.iter().position(|(kind, active, _)| {
        state.active[wl] == Inactive
            && state.disabled[wl] != DisableState::Exit
            && active[wl] == Active
            && (state.disabled[wl] != DisableState::Break || *kind == TokenType::Break)
            && (state.disabled[wl] != DisableState::Return || *kind == TokenType::Call)
    })
}

/// `inv`, `act-cons` and `inact-cons`: theorem 1 says that a step keeps them.
pub(super) fn theorem_1(state: &ExecState, pcs: &[Option<Pc>]) -> Result<(), Stuck> {
    let lanes = 0..state.active.len();
    let waits = |wl: usize| state.active[wl] == Inactive && state.disabled[wl] != DisableState::Exit;
    let held = |above: usize, wl: usize| {
        state
            .stack
            .iter()
            .skip(above)
            .all(|(kind, active, _)| *kind == TokenType::Diverge || active[wl] == Active)
    };
    let broken = |part: &str, wl: usize| Stuck::new(part, format!("lane {wl} of {state:?}, {pcs:?}"));
    for wl in lanes.clone() {
        let token = act_token(state, wl);
        if waits(wl) && token.is_none() {
            return broken("inv 1", wl);
        }
        if state.active[wl] == Active && !held(0, wl) {
            return broken("inv 3", wl);
        }
        if let Some(at) = token.filter(|_| waits(wl))
            && !held(at + 1, wl)
        {
            return broken("inv 4", wl);
        }
        if state.active[wl] == Active && state.disabled[wl] != DisableState::Enabled {
            return broken("inv 5", wl);
        }
        if state.active[wl] == Active && pcs[wl] != Some(state.pc) {
            return broken("act-cons", wl);
        }
        if let Some(at) = token.filter(|_| waits(wl))
            && pcs[wl] != Some(state.stack[at].2)
        {
            return broken("inact-cons", wl);
        }
    }
    let somebody = state.active.contains(&Active);
    if !somebody && lanes.clone().any(|wl| state.disabled[wl] != DisableState::Exit) {
        return broken("inv 2", 0);
    }
    if state.stack.iter().any(|(_, active, _)| !active.contains(&Active)) {
        return broken("inv 6", 0);
    }
    Ok(())
}
