//! Thread configurations, the thread semantics (SC table 4), and the projections of warp
//! configurations onto them (table 5).

use crate::language::{Kind, Memory, Module, Stm};
use crate::warp::{Disabled, Item, Token, Warp, awaits};

/// What a thread's instruction stack holds: statements and contexts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Own {
    Stm(Stm),
    Brk,
    Call,
}

/// `TStack`; the top is last.
pub type Stack = Vec<Own>;

/// One transition of a thread, with the name of its rule [sc-interleave]: an interleaved step is a
/// step of any one thread.
pub fn step(module: &Module, thread: usize, stack: &mut Stack, memory: &mut Memory) -> Option<&'static str> {
    let push = |stack: &mut Stack, statements: &[Stm]| {
        stack.extend(statements.iter().rev().cloned().map(Own::Stm));
    };
    Some(match stack.pop()? {
        Own::Brk | Own::Call => "context",
        Own::Stm(Stm { line, kind }) => match kind {
            Kind::Skip => "skip",
            Kind::Assign(var, e) => {
                let value = module.eval(&e, thread, memory);
                stack.push(Own::Stm(Stm { line, kind: Kind::Write(var, value) }));
                "assign_rd"
            }
            Kind::Write(var, value) => {
                memory[module.place(thread, var)] = value;
                "assign_wr"
            }
            Kind::If(e, yes, no) => {
                let holds = module.eval(&e, thread, memory) != 0;
                push(stack, if holds { &yes } else { &no });
                if holds { "if_tt" } else { "if_ff" }
            }
            Kind::While(e, body) => {
                if module.eval(&e, thread, memory) == 0 {
                    return Some("while_ff");
                }
                stack.push(Own::Brk);
                stack.push(Own::Stm(Stm { line, kind: Kind::WhileAgain(e, body.clone()) }));
                push(stack, &body);
                "while_tt"
            }
            Kind::WhileAgain(e, body) => {
                if module.eval(&e, thread, memory) == 0 {
                    // The loop's context goes by (context).
                    return Some("while2_ff");
                }
                stack.push(Own::Stm(Stm { line, kind: Kind::WhileAgain(e, body.clone()) }));
                push(stack, &body);
                "while2_tt"
            }
            Kind::Break => {
                while stack.pop().is_some_and(|own| own != Own::Brk) {}
                "break"
            }
            Kind::Call(function) => {
                stack.push(Own::Call);
                push(stack, &module.functions[function]);
                "call"
            }
            Kind::Return => {
                while stack.pop().is_some_and(|own| own != Own::Call) {}
                "return"
            }
        },
    })
}

/// `actToken_θ(t_Θ, δ)`.
pub fn is_act_token(thread: usize, token: Token, threads: u32, disabled: Disabled) -> bool {
    threads >> thread & 1 == 1 && awaits(disabled, token)
}

/// `π_Θ(W, Δ)(θ)`: the thread's own instruction stack in a warp configuration [sc-project].
pub fn project(warp: &Warp, thread: usize) -> Stack {
    let mut active = warp.active >> thread & 1 == 1;
    let mut disabled = warp.disabled[thread];
    let mut from_top = Vec::new();
    for item in warp.stack.iter().rev() {
        match item {
            Item::Stm(stm) if active => from_top.push(Own::Stm(stm.clone())),
            Item::Stm(_) => {}
            Item::Token(token, _) if active => match token {
                Token::Call => from_top.push(Own::Call),
                Token::Brk => from_top.push(Own::Brk),
                Token::Sync => {}
                Token::Div => active = false,
            },
            Item::Token(token, threads) => {
                if is_act_token(thread, *token, *threads, disabled) {
                    (active, disabled) = (true, Disabled::No);
                }
            }
        }
    }
    from_top.reverse();
    from_top
}
