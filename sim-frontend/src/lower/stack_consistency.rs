//! Control-flow consistency (CS §6.2) of emitted code, by an abstract token stack at every
//! program point [cfc-stack1] [cfc-stack2] [cfc-stack3] [cfc-stack4] [cfc-stack5] [cfc-stack6]
//! [cfc-addr].
//!
//! Sync, break and call tokens are kept with their addresses. A diverge token lies directly
//! above the sync token its branch was given, so it needs no entry; one whose branch was given
//! none is kept as [`Token::Open`], and must never be on top at a `sync`.

use super::ir::PredOperand;
use super::tf6_control_flow::{Item, NONE};
use crate::program::OpClass;
use rustc_hash::FxHashMap;

/// An abstract token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Token {
    /// Sync, with its address.
    Sync(usize),
    /// Break, with its address.
    Break(usize),
    /// Call, with its address; `NONE` for the caller's.
    Call(usize),
    /// Diverge of a branch without a sync token.
    Open,
}

/// Where code is inconsistent, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inconsistent {
    /// The operation.
    pub at: usize,
    /// The rule.
    pub rule: &'static str,
    /// The reason.
    pub reason: String,
}

/// Checks emitted code; gives the most tokens of one frame, diverge tokens included. Code
/// written by hand (`entry` without the guarantees of transformation 6) is checked alike.
///
/// # Errors
/// The first point at which a rule does not hold.
pub fn check(items: &[Item], entry: bool) -> Result<u32, Inconsistent> {
    let start = if entry { Vec::new() } else { vec![Token::Call(NONE)] };
    let mut states: FxHashMap<usize, Vec<Token>> = FxHashMap::default();
    let mut open = vec![(0usize, start)];
    let mut deepest = 0;
    while let Some((at, stack)) = open.pop() {
        let fail = |rule, reason: &str| Err(Inconsistent { at, rule, reason: reason.into() });
        let Some(item) = items.get(at) else {
            return fail("cfc-addr", "control flow leaves the function");
        };
        match states.get(&at) {
            Some(known) if *known == stack => continue,
            Some(known) => {
                // Diverge tokens of paths that end early may or may not be there.
                let closed =
                    |s: &[Token]| s.iter().filter(|t| **t != Token::Open).copied().collect::<Vec<_>>();
                if closed(known) == closed(&stack) {
                    if stack.len() <= known.len() {
                        continue;
                    }
                } else {
                    return fail("cfc-stack4", &format!("two stacks meet here: {known:?} and {stack:?}"));
                }
            }
            None => {}
        }
        if stack.len() > items.len() {
            // Every token was pushed by another operation, or one was passed twice.
            return fail("cfc-stack4", "the stack grows with every trip of a loop");
        }
        // Each sync token may have one diverge token above it.
        let depth = stack.len() + stack.iter().filter(|t| matches!(t, Token::Sync(_))).count();
        deepest = deepest.max(depth as u32);
        states.insert(at, stack.clone());
        let guarded = item.guard != PredOperand::Const(true);
        let mut go = |to: usize, stack: Vec<Token>| open.push((to, stack));
        let with = |token| {
            let mut longer = stack.clone();
            longer.push(token);
            longer
        };
        let targets = || match item.targets.is_empty() {
            true => vec![item.target],
            false => item.targets.clone(),
        };
        if targets().iter().any(|t| *t != NONE && *t >= items.len())
            || (matches!(item.class, OpClass::Ssy | OpClass::PreBreak | OpClass::PreReturn | OpClass::Branch)
                && item.target == NONE)
        {
            return fail("cfc-addr", "its target is no instruction of the function");
        }
        match item.class {
            OpClass::Ssy => go(at + 1, with(Token::Sync(item.target))),
            OpClass::PreBreak => go(at + 1, with(Token::Break(item.target))),
            OpClass::PreReturn => go(at + 1, with(Token::Call(item.target))),
            OpClass::Sync => match stack.last() {
                Some(Token::Sync(target)) if *target == at + 1 => {
                    go(at + 1, stack[..stack.len() - 1].to_vec());
                }
                Some(Token::Sync(_)) => return fail("cfc-stack5", "the sync token is another's"),
                Some(Token::Open) => {
                    return fail("cfc-stack4", "a diverge token lies above no sync token of this sync");
                }
                _ => return fail("cfc-stack3", "no sync or diverge token is on top"),
            },
            OpClass::Break => {
                let Some(position) = stack.iter().rposition(|t| matches!(t, Token::Break(_))) else {
                    return fail("cfc-stack1", "there is no break token");
                };
                if let Token::Break(target) = stack[position] {
                    go(target, stack[..position].to_vec());
                }
                if guarded {
                    go(at + 1, stack);
                }
            }
            OpClass::Return => {
                if !stack.iter().any(|t| matches!(t, Token::Call(_))) {
                    return fail("cfc-stack2", "there is no call token");
                }
                if guarded {
                    go(at + 1, stack);
                }
            }
            OpClass::Exit => {
                if guarded {
                    go(at + 1, stack);
                }
            }
            OpClass::Call | OpClass::CallIndirect => match stack.last() {
                Some(Token::Call(target)) if *target == at + 1 => {
                    go(at + 1, stack[..stack.len() - 1].to_vec());
                }
                _ => return fail("cfc-stack6", "no call token resumes behind this call"),
            },
            OpClass::Branch | OpClass::BranchIndirect => {
                let diverges = (guarded || !item.targets.is_empty()) && !item.reconverges;
                let taken = if diverges { with(Token::Open) } else { stack.clone() };
                for target in targets() {
                    go(target, taken.clone());
                }
                if guarded {
                    go(at + 1, stack);
                }
            }
            _ => go(at + 1, stack),
        }
    }
    Ok(deepest)
}
