//! Warp configurations and the warp semantics (SC §3.2, table 2), and what always holds of reachable
//! ones (lemma 1).

use crate::language::{Expr, Kind, Memory, Module, Stm, Threads, each};

/// `DisableState`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disabled {
    No,
    Break,
    Return,
}

/// Token types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    Div,
    Sync,
    Brk,
    Call,
}

/// What a warp's instruction stack holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    Stm(Stm),
    Token(Token, Threads),
}

/// The dynamic part of a warp configuration; the top of the stack is last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warp {
    pub stack: Vec<Item>,
    pub active: Threads,
    pub disabled: Vec<Disabled>,
    pub memory: Memory,
}

/// `awaits(δ, t)`.
pub fn awaits(disabled: Disabled, token: Token) -> bool {
    match disabled {
        Disabled::No => true,
        Disabled::Break => token == Token::Brk,
        Disabled::Return => token == Token::Call,
    }
}

/// `enable(Δ, τ)`: the active and the disable mask once the token is off.
pub fn enable(disabled: &[Disabled], token: Token, threads: Threads) -> (Threads, Vec<Disabled>) {
    let mut after = disabled.to_vec();
    for thread in each(threads) {
        if awaits(after[thread], token) {
            after[thread] = Disabled::No;
        }
    }
    let active = each(threads).filter(|&t| after[t] == Disabled::No).fold(0, |set, t| set | 1 << t);
    (active, after)
}

impl Warp {
    /// The initial configuration `P call_Θ, Θ, {Θ ↦ 0}, μ`.
    pub fn new(module: &Module, threads: usize, memory: Memory) -> Self {
        let all = if threads == 32 { u32::MAX } else { (1 << threads) - 1 };
        let mut warp = Self {
            stack: vec![Item::Token(Token::Call, all)],
            active: all,
            disabled: vec![Disabled::No; threads],
            memory,
        };
        warp.push(&module.program);
        warp
    }

    fn push(&mut self, statements: &[Stm]) {
        self.stack.extend(statements.iter().rev().cloned().map(Item::Stm));
    }

    /// `act(Θ, e, η, μ)`.
    fn act(&self, module: &Module, e: &Expr) -> Threads {
        let holds = |&thread: &usize| module.eval(e, thread, &self.memory) != 0;
        each(self.active).filter(holds).fold(0, |set, thread| set | 1 << thread)
    }

    /// One transition, with the name of its rule; `None` once the stack is empty. `order` is the
    /// order in which threads write where an assignment conflicts.
    pub fn step(&mut self, module: &Module, order: &[usize]) -> Option<&'static str> {
        match self.stack.last()?.clone() {
            Item::Token(token, threads) => Some(self.token(token, threads)),
            Item::Stm(_) if self.active == 0 => Some(self.inact()),
            Item::Stm(stm) => {
                self.stack.pop();
                Some(match stm.kind.clone() {
                    // [sc-skip]
                    Kind::Skip => "skip",
                    Kind::Assign(var, e) => self.assign(module, var, &e, order),
                    Kind::Write(..) => unreachable!("no program holds one"),
                    Kind::If(e, yes, no) => self.branch(module, &e, &yes, &no),
                    Kind::While(e, body) => self.enter(module, stm.line, &e, &body),
                    Kind::WhileAgain(e, body) => self.again(module, stm.line, &e, &body),
                    Kind::Break => self.leave(Disabled::Break, "break"),
                    Kind::Call(function) => self.call(module, function),
                    Kind::Return => self.leave(Disabled::Return, "return"),
                })
            }
        }
    }

    /// All evaluate, then all write [sc-assign].
    fn assign(&mut self, module: &Module, var: usize, e: &Expr, order: &[usize]) -> &'static str {
        let value = |&thread: &usize| (thread, module.eval(e, thread, &self.memory));
        let values: Vec<(usize, i64)> = each(self.active).map(|thread| value(&thread)).collect();
        for thread in order {
            if let Some((_, value)) = values.iter().find(|(t, _)| t == thread) {
                let at = module.place(*thread, var);
                self.memory[at] = *value;
            }
        }
        "assign"
    }

    /// The else path first; `div` keeps the then path, `sync` where they meet [sc-if].
    fn branch(&mut self, module: &Module, e: &Expr, yes: &[Stm], no: &[Stm]) -> &'static str {
        let then = self.act(module, e);
        self.stack.push(Item::Token(Token::Sync, self.active));
        self.push(yes);
        self.stack.push(Item::Token(Token::Div, then));
        self.push(no);
        self.active &= !then;
        "if"
    }

    /// `brk` keeps those that leave the loop [sc-while].
    fn enter(&mut self, module: &Module, line: u32, e: &Expr, body: &std::rc::Rc<Vec<Stm>>) -> &'static str {
        self.stack.push(Item::Token(Token::Brk, self.active));
        self.again(module, line, e, body);
        "while"
    }

    /// A later iteration [sc-while2].
    fn again(&mut self, module: &Module, line: u32, e: &Expr, body: &std::rc::Rc<Vec<Stm>>) -> &'static str {
        let stays = self.act(module, e);
        self.stack.push(Item::Stm(Stm { line, kind: Kind::WhileAgain(e.clone(), body.clone()) }));
        self.push(body);
        self.active = stays;
        "while2"
    }

    /// The active threads wait for a token of their own; statements up to the next token are
    /// skipped [sc-break] [sc-return].
    fn leave(&mut self, how: Disabled, rule: &'static str) -> &'static str {
        self.skip_statements();
        for thread in each(std::mem::take(&mut self.active)) {
            self.disabled[thread] = how;
        }
        rule
    }

    /// [sc-call]
    fn call(&mut self, module: &Module, function: usize) -> &'static str {
        self.stack.push(Item::Token(Token::Call, self.active));
        self.push(&module.functions[function]);
        "call"
    }

    /// [sc-token]
    fn token(&mut self, token: Token, threads: Threads) -> &'static str {
        self.stack.pop();
        (self.active, self.disabled) = enable(&self.disabled, token, threads);
        "token"
    }

    /// Nobody is active: on to the next token [sc-inact].
    fn inact(&mut self) -> &'static str {
        self.skip_statements();
        "inact"
    }

    fn skip_statements(&mut self) {
        while matches!(self.stack.last(), Some(Item::Stm(_))) {
            self.stack.pop();
        }
    }

    /// Lemma 1, each part that does not hold.
    pub fn lemma_1(&self) -> Vec<u32> {
        let mut broken = Vec::new();
        let subset = |a: Threads, b: Threads| a & !b == 0;
        let tokens: Vec<(Token, Threads)> = self
            .stack
            .iter()
            .rev()
            .filter_map(
                |item| if let Item::Token(token, threads) = item { Some((*token, *threads)) } else { None },
            )
            .collect();
        if let Some(Item::Token(Token::Div, then)) = self.stack.last() {
            let holds =
                tokens.get(1).is_some_and(|(t, all)| *t == Token::Sync && subset(self.active | then, *all));
            broken.extend((!holds).then_some(1));
        }
        if let Some(Item::Stm(Stm { kind: Kind::WhileAgain(..), .. })) = self.stack.last() {
            let below = self.stack.len().checked_sub(2).map(|at| &self.stack[at]);
            let holds = matches!(below, Some(Item::Token(Token::Brk, all)) if subset(self.active, *all));
            broken.extend((!holds).then_some(2));
        }
        let others: Vec<Threads> =
            tokens.iter().filter(|(t, _)| *t != Token::Div).map(|(_, all)| *all).collect();
        broken.extend((!others.windows(2).all(|pair| subset(pair[0], pair[1]))).then_some(3));
        let fits = |&(token, threads): &(Token, Threads)| match token {
            Token::Div => self.active & threads == 0,
            _ => subset(self.active, threads),
        };
        broken.extend((!tokens.iter().all(fits)).then_some(4));
        broken
    }
}
