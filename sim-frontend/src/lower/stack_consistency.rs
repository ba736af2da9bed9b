//! Control-flow consistency (CS §6.2) of emitted code, by an abstract token stack at every
//! program point [cfc-stack1] [cfc-stack2] [cfc-stack3] [cfc-stack4] [cfc-stack5] [cfc-stack6]
//! [cfc-addr].
//!
//! Sync, break and call tokens are kept with their addresses. A diverge token lies directly
//! above the sync token its branch was given, so it needs no entry; one whose branch was given
//! none is kept as [`Token::Open`], and must never be on top at a `sync`.

use super::ir::PredOperand;
use super::tf6_control_flow::emitted::{Item, NONE};
use super::work::count;
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

/// A stack, by its number in [`Stacks`].
type Stack = u32;
const EMPTY: Stack = 0;
const UNKNOWN: Stack = u32::MAX;

/// A token and what lies below it.
#[derive(Clone, Copy)]
struct Node {
    top: Token,
    below: Stack,
    /// The stack without diverge tokens.
    closed: Stack,
    tokens: u32,
    syncs: u32,
}

/// Every stack that was met, once: two are equal where their numbers are.
struct Stacks {
    nodes: Vec<Node>,
    numbers: FxHashMap<(Stack, Token), Stack>,
}

impl Stacks {
    fn new() -> Self {
        let violation = Node { top: Token::Open, below: EMPTY, closed: EMPTY, tokens: 0, syncs: 0 };
        Self { nodes: vec![violation], numbers: FxHashMap::default() }
    }

    fn node(&self, stack: Stack) -> Node {
        self.nodes[stack as usize]
    }

    fn push(&mut self, below: Stack, top: Token) -> Stack {
        if let Some(known) = self.numbers.get(&(below, top)) {
            return *known;
        }
        let Node { tokens, syncs, closed, .. } = self.node(below);
        let number = |nodes: &Vec<Node>| nodes.len() as Stack;
        let closed = match top {
            Token::Open => closed,
            _ if closed == below => number(&self.nodes),
            _ => self.push(closed, top),
        };
        let own = number(&self.nodes);
        let syncs = syncs + u32::from(matches!(top, Token::Sync(_)));
        self.nodes.push(Node { top, below, closed, tokens: tokens + 1, syncs });
        self.numbers.insert((below, top), own);
        own
    }

    /// The tokens from the top down, each with what lies below it.
    fn down(&self, stack: Stack) -> impl Iterator<Item = (Token, Stack)> {
        let mut at = stack;
        std::iter::from_fn(move || {
            (at != EMPTY).then(|| {
                let node = self.node(at);
                at = node.below;
                (node.top, node.below)
            })
        })
    }

    fn top(&self, stack: Stack) -> Option<(Token, Stack)> {
        self.down(stack).next()
    }

    /// The tokens, the topmost last.
    fn list(&self, stack: Stack) -> Vec<Token> {
        let mut tokens: Vec<Token> = self.down(stack).map(|(token, _)| token).collect();
        tokens.reverse();
        tokens
    }
}

/// Checks emitted code; gives the most tokens of one frame, diverge tokens included. Code
/// written by hand (`entry` without the guarantees of transformation 6) is checked alike.
///
/// # Errors
/// The first point at which a rule does not hold.
pub fn check(items: &[Item], entry: bool) -> Result<u32, Inconsistent> {
    let mut stacks = Stacks::new();
    let start = if entry { EMPTY } else { stacks.push(EMPTY, Token::Call(NONE)) };
    let mut states = vec![UNKNOWN; items.len()];
    let mut open = vec![(0usize, start)];
    let mut deepest = 0;
    while let Some((at, stack)) = open.pop() {
        count(1);
        let fail = |rule, reason: &str| Err(Inconsistent { at, rule, reason: reason.into() });
        let (Some(item), Some(state)) = (items.get(at), states.get_mut(at)) else {
            return fail("cfc-addr", "control flow leaves the function");
        };
        let known = std::mem::replace(state, stack);
        if known == stack {
            continue;
        }
        if known != UNKNOWN {
            // Diverge tokens of paths that end early may or may not be there.
            if stacks.node(known).closed != stacks.node(stack).closed {
                let (known, stack) = (stacks.list(known), stacks.list(stack));
                return fail(
                    "cfc-stack4",
                    &format!("two different stacks reach this point: {known:?} and {stack:?}"),
                );
            }
            if stacks.node(stack).tokens <= stacks.node(known).tokens {
                *state = known;
                continue;
            }
        }
        let Node { tokens, syncs, .. } = stacks.node(stack);
        if tokens as usize > items.len() {
            // Every token was pushed by another operation, or one was passed twice.
            return fail("cfc-stack4", "the stack grows with every iteration of a loop");
        }
        // Each sync token may have one diverge token above it.
        deepest = deepest.max(tokens + syncs);
        let guarded = item.guard != PredOperand::Const(true);
        let targets =
            if item.targets.is_empty() { std::slice::from_ref(&item.target) } else { &item.targets };
        if targets.iter().any(|t| *t != NONE && *t >= items.len())
            || (matches!(item.class, OpClass::Ssy | OpClass::PreBreak | OpClass::PreReturn | OpClass::Branch)
                && item.target == NONE)
        {
            return fail("cfc-addr", "the target is not an instruction of the function");
        }
        match item.class {
            OpClass::Ssy => open.push((at + 1, stacks.push(stack, Token::Sync(item.target)))),
            OpClass::PreBreak => open.push((at + 1, stacks.push(stack, Token::Break(item.target)))),
            OpClass::PreReturn => open.push((at + 1, stacks.push(stack, Token::Call(item.target)))),
            OpClass::Sync => match stacks.top(stack) {
                Some((Token::Sync(target), below)) if target == at + 1 => open.push((at + 1, below)),
                Some((Token::Sync(_), _)) => {
                    return fail("cfc-stack5", "the sync token on top belongs to another sync instruction");
                }
                Some((Token::Open, _)) => {
                    return fail(
                        "cfc-stack4",
                        "the diverge token on top has no sync token of this sync instruction below it",
                    );
                }
                _ => return fail("cfc-stack3", "no sync or diverge token is on top"),
            },
            OpClass::Break => {
                let found = stacks.down(stack).find_map(|(token, below)| match token {
                    Token::Break(target) => Some((target, below)),
                    _ => None,
                });
                let Some((target, below)) = found else {
                    return fail("cfc-stack1", "there is no break token");
                };
                open.push((target, below));
                if guarded {
                    open.push((at + 1, stack));
                }
            }
            OpClass::Return => {
                if !stacks.down(stack).any(|(token, _)| matches!(token, Token::Call(_))) {
                    return fail("cfc-stack2", "there is no call token");
                }
                if guarded {
                    open.push((at + 1, stack));
                }
            }
            OpClass::Exit => {
                if guarded {
                    open.push((at + 1, stack));
                }
            }
            OpClass::Call | OpClass::CallIndirect => match stacks.top(stack) {
                Some((Token::Call(target), below)) if target == at + 1 => open.push((at + 1, below)),
                _ => return fail("cfc-stack6", "no call token resumes after this call"),
            },
            OpClass::Branch | OpClass::BranchIndirect => {
                let diverges = (guarded || !item.targets.is_empty()) && !item.reconverges;
                let taken = if diverges { stacks.push(stack, Token::Open) } else { stack };
                open.extend(targets.iter().map(|target| (*target, taken)));
                if guarded {
                    open.push((at + 1, stack));
                }
            }
            _ => open.push((at + 1, stack)),
        }
    }
    Ok(deepest)
}
