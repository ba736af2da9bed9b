//! Random programs that end: loops count down, functions call only earlier ones.

use std::rc::Rc;

use sim_frontend::workload::SplitMix64;

use crate::language::{Expr, Kind, Memory, Module, Stm, Stms};

/// One number after another from a seed.
pub struct Numbers(SplitMix64);

impl Numbers {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def1))
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.0.next_bits() % end
    }

    /// A random order.
    pub fn shuffle(&mut self, order: &mut [usize]) {
        for i in (1..order.len()).rev() {
            order.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

/// Variables of data: two shared, three of each thread. Loop counters follow.
const DATA: usize = 5;

struct Maker {
    numbers: Numbers,
    /// Counters of loops made so far, each thread's own.
    counters: usize,
}

impl Maker {
    fn expr(&mut self, depth: u32) -> Expr {
        let var = |maker: &mut Self| Expr::Var(maker.numbers.below(DATA as u64) as usize);
        if depth == 0 {
            return if self.numbers.below(3) == 0 {
                Expr::Value(self.numbers.below(9) as i64 - 4)
            } else {
                var(self)
            };
        }
        let (a, b) = (Rc::new(self.expr(depth - 1)), Rc::new(self.expr(depth - 1)));
        match self.numbers.below(6) {
            0 => Expr::Add(a, b),
            1 => Expr::Sub(a, b),
            2 => Expr::Mul(a, b),
            3 => Expr::Greater(a, b),
            4 => Expr::Differs(a, b),
            _ => Expr::Bit(a, self.numbers.below(3) as u32),
        }
    }

    fn list(&mut self, depth: u32, in_loop: bool, functions: usize) -> Stms {
        let mut out = Vec::new();
        for _ in 0..1 + self.numbers.below(3) {
            self.statement(depth, in_loop, functions, &mut out);
        }
        Rc::new(out)
    }

    fn statement(&mut self, depth: u32, in_loop: bool, functions: usize, out: &mut Vec<Stm>) {
        let line = out.len() as u32;
        let kind = match self.numbers.below(10) {
            0 => Kind::Skip,
            1..=3 => Kind::Assign(self.numbers.below(DATA as u64) as usize, self.expr(2)),
            4 | 5 if depth > 0 => {
                let condition = self.expr(1);
                let yes = self.list(depth - 1, in_loop, functions);
                Kind::If(condition, yes, self.list(depth - 1, in_loop, functions))
            }
            6 | 7 if depth > 0 => {
                let counter = DATA + self.counters;
                self.counters += 1;
                let trips = Expr::Add(
                    Rc::new(Expr::Bit(Rc::new(Expr::Var(2)), 0)),
                    Rc::new(Expr::Value(self.numbers.below(3) as i64)),
                );
                out.push(Stm { line, kind: Kind::Assign(counter, trips) });
                let left = Rc::new(Expr::Var(counter));
                let down = Kind::Assign(counter, Expr::Sub(left.clone(), Rc::new(Expr::Value(1))));
                let mut body = vec![Stm { line, kind: down }];
                body.extend(self.list(depth - 1, true, functions).iter().cloned());
                Kind::While(Expr::Greater(left, Rc::new(Expr::Value(0))), Rc::new(body))
            }
            8 if in_loop => Kind::Break,
            9 if functions > 0 => Kind::Call(self.numbers.below(functions as u64) as usize),
            8 => Kind::Return,
            _ => Kind::Skip,
        };
        out.push(Stm { line, kind });
    }
}

/// Program number `seed`, and for how many threads.
pub fn program(seed: u64) -> (Module, usize) {
    let mut maker = Maker { numbers: Numbers::new(seed), counters: 0 };
    let threads = maker.numbers.below(6) as usize + 1;
    let count = maker.numbers.below(3) as usize;
    let functions: Vec<Stms> = (0..count).map(|earlier| maker.list(2, false, earlier)).collect();
    let program = maker.list(4, false, count);
    let shared = (0..DATA + maker.counters).map(|var| var < 2).collect();
    (Module { program, functions, shared }, threads)
}

/// First contents.
pub fn memory(module: &Module, threads: usize, seed: u64) -> Memory {
    let mut numbers = Numbers::new(!seed);
    module.memory(threads).iter().map(|_| numbers.below(7) as i64 - 3).collect()
}
