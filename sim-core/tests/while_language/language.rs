//! The language of Habermaier and Knapp (ESOP 2012, "SC") §3.1: statements, programs, expressions,
//! the places of variables.

use std::rc::Rc;

/// Threads, one bit each.
pub type Threads = u32;

/// The threads of a set.
pub fn each(threads: Threads) -> impl Iterator<Item = usize> {
    (0..32).filter(move |thread| threads >> thread & 1 == 1)
}

/// `Expr`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expr {
    Value(i64),
    Var(usize),
    Add(Rc<Expr>, Rc<Expr>),
    Sub(Rc<Expr>, Rc<Expr>),
    Mul(Rc<Expr>, Rc<Expr>),
    Greater(Rc<Expr>, Rc<Expr>),
    Differs(Rc<Expr>, Rc<Expr>),
    /// The lowest bits of a value, so that conditions differ by thread.
    Bit(Rc<Expr>, u32),
}

/// `Stm`, each with the line it stands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stm {
    pub line: u32,
    pub kind: Kind,
}

/// What a statement does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Skip,
    Assign(usize, Expr),
    /// `x = v;`: an assignment whose expression a thread has evaluated (table 4).
    Write(usize, i64),
    If(Expr, Stms, Stms),
    While(Expr, Stms),
    /// The underlined `while`: later iterations of a loop.
    WhileAgain(Expr, Stms),
    Break,
    Call(usize),
    Return,
}

/// `Stms`.
pub type Stms = Rc<Vec<Stm>>;

/// `FuncEnv`, with the program, and which variables all threads share.
#[derive(Clone, Debug)]
pub struct Module {
    pub program: Stms,
    pub functions: Vec<Stms>,
    pub shared: Vec<bool>,
}

/// `Mem`.
pub type Memory = Vec<i64>;

impl Module {
    /// `η(θ)(x)`: where a variable of a thread lies.
    pub fn place(&self, thread: usize, var: usize) -> usize {
        if self.shared[var] { var } else { (thread + 1) * self.shared.len() + var }
    }

    /// A memory for `threads` threads.
    pub fn memory(&self, threads: usize) -> Memory {
        vec![0; (threads + 1) * self.shared.len()]
    }

    /// `E⟦e⟧ η(θ) μ`.
    pub fn eval(&self, e: &Expr, thread: usize, memory: &Memory) -> i64 {
        let of = |e: &Expr| self.eval(e, thread, memory);
        match e {
            Expr::Value(value) => *value,
            Expr::Var(var) => memory[self.place(thread, *var)],
            Expr::Add(a, b) => of(a).wrapping_add(of(b)),
            Expr::Sub(a, b) => of(a).wrapping_sub(of(b)),
            Expr::Mul(a, b) => of(a).wrapping_mul(of(b)),
            Expr::Greater(a, b) => i64::from(of(a) > of(b)),
            Expr::Differs(a, b) => i64::from(of(a) != of(b)),
            Expr::Bit(a, bit) => of(a) >> bit & 1,
        }
    }
}
