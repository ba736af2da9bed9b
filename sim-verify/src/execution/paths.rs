//! Paths of one thread: which way it branches and what its reads return.

use std::collections::{BTreeMap, BTreeSet};

use super::liveness;
use crate::litmus::program::{
    Access, Address, AtomicOp, Kind, Operand, Order, Proxy, Scope, Test, location_at,
};
use crate::relation::{MAX_EVENTS, Set, members};

/// Values that reads of each physical location may return.
pub type Values = Vec<BTreeSet<i64>>;

/// More paths of one thread than that are not enumerated.
pub const MOST_PATHS: usize = 50_000;

/// An event of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The instruction it comes from.
    pub instruction: usize,
    /// What it does.
    pub action: Action,
    /// Its semantics.
    pub order: Order,
    /// Its scope.
    pub scope: Option<Scope>,
    /// Its proxy.
    pub proxy: Proxy,
    /// Events of the path that its address depends on.
    pub addr: Set,
    /// Events that the value it writes depends on.
    pub data: Set,
    /// Events that an earlier branch depends on.
    pub ctrl: Set,
}

/// What an event does; locations are addresses by their index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "fields are those of events, `EventKind`")]
pub enum Action {
    /// A read, with what it returns; that of a `red` begins no acquire pattern.
    Read { location: usize, value: i64, red: bool },
    /// A write; with `atomic`, of the read before it.
    Write { location: usize, value: i64, atomic: bool },
    /// A fence.
    Fence,
    /// A proxy fence.
    ProxyFence,
    /// An alias fence.
    AliasFence,
    /// Arrival at a barrier of the CTA, with the count of threads if one is given.
    Barrier { id: i64, quorum: Option<i64>, arrive: bool },
}

/// How a path ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// At the end of the program.
    Done,
    /// In a loop that repeats itself: an iteration from this event on leaves registers and memory as they were.
    Spins(usize),
    /// At a barrier, which is its last event. True if no instruction follows it.
    Waits(bool),
}

/// A path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Its events in program order.
    pub steps: Vec<Step>,
    /// Final values of its registers.
    pub registers: Vec<i64>,
    /// How it ends.
    pub outcome: Outcome,
}

/// Why the paths of a thread are not all known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// More than [`MOST_PATHS`].
    Paths,
    /// More than [`MAX_EVENTS`] events.
    Events,
}

/// The paths of a thread.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    /// All of them.
    pub paths: Vec<Path>,
    /// Some loop would repeat more often than it is unrolled.
    pub bounded: bool,
    /// What each path read that such a loop cut off.
    pub cut: BTreeSet<BTreeSet<Valued>>,
    /// Lines of accesses whose address is not that of a location; these paths are left out.
    pub wild: BTreeSet<u32>,
    /// Values that writes of some path bring to a physical location, paths that are left out included; with the values
    /// read that they are computed from.
    pub writes: BTreeSet<Written>,
}

/// A value of a physical location.
pub type Valued = (usize, i64);

/// A value written, and those read that it is computed from.
pub type Written = (Valued, Vec<Valued>);

#[derive(Clone)]
struct State {
    pc: usize,
    registers: Vec<(i64, Set)>,
    ctrl: Set,
    steps: Vec<Step>,
    /// By target of a backward branch: how it was reached so far.
    arrivals: BTreeMap<usize, Arrivals>,
}

/// Arrivals at the head of a loop.
#[derive(Clone, Default)]
struct Arrivals {
    /// The values of the registers that are live there, and the number of events, each time.
    states: Vec<(Vec<i64>, usize)>,
    /// Some passes changed nothing: a path without them reaches the same states.
    repeats: bool,
}

struct Walk<'t> {
    test: &'t Test,
    thread: usize,
    values: &'t Values,
    unroll: u32,
    /// Paths that end at a barrier are wanted too.
    waits: bool,
    /// Heads of loops, and which registers are live there.
    targets: BTreeMap<usize, Vec<usize>>,
    out: Paths,
    stack: Vec<State>,
}

/// Enumerates the paths of a thread; loops are left out that go round more than `unroll` times.
///
/// # Errors
/// There are too many, or too long ones.
pub fn paths(test: &Test, thread: usize, values: &Values, unroll: u32, waits: bool) -> Result<Paths, Limit> {
    let code = &test.threads[thread].code;
    let live = liveness::live(code, test.threads[thread].registers.len());
    let targets = code.iter().enumerate().filter_map(|(pc, instruction)| match instruction.kind {
        Kind::Branch { target, .. } | Kind::Goto(target) if target <= pc => {
            Some((target, live[target].iter().copied().collect()))
        }
        _ => None,
    });
    let registers = test.threads[thread].init.iter().map(|value| (*value, 0)).collect();
    let start = State { pc: 0, registers, ctrl: 0, steps: Vec::new(), arrivals: BTreeMap::new() };
    let mut walk = Walk {
        test,
        thread,
        values,
        unroll,
        waits,
        targets: targets.collect(),
        out: Paths::default(),
        stack: vec![start],
    };
    while let Some(state) = walk.stack.pop() {
        walk.follow(state)?;
    }
    Ok(walk.out)
}

impl Walk<'_> {
    /// Follows a path until it ends; where a read may return several values, the others are put aside.
    fn follow(&mut self, mut state: State) -> Result<(), Limit> {
        loop {
            if state.steps.len() > MAX_EVENTS {
                return Err(Limit::Events);
            }
            if self.targets.contains_key(&state.pc) && !self.arrive(&mut state)? {
                return Ok(());
            }
            let Some(instruction) = self.test.threads[self.thread].code.get(state.pc) else {
                return self.end(state, Outcome::Done);
            };
            let pc = state.pc;
            state.pc += 1;
            match instruction.kind {
                Kind::Compute { register, op, a, b } => {
                    let ((x, i), (y, j)) = (value(&state, a), value(&state, b));
                    let Some(result) = op.apply(x, y) else {
                        self.out.wild.insert(instruction.line);
                        return Ok(());
                    };
                    state.registers[register] = (result, i | j);
                }
                Kind::Goto(target) => state.pc = target,
                Kind::Branch { comparison, a, b, target } => {
                    let ((x, i), (y, j)) = (value(&state, a), value(&state, b));
                    state.ctrl |= i | j;
                    if comparison.holds(x, y) {
                        state.pc = target;
                    }
                }
                Kind::Fence { order, scope } => {
                    push(&mut state, pc, Action::Fence, order, Some(scope), Proxy::Generic, 0, 0);
                }
                Kind::ProxyFence(proxy) => {
                    push(&mut state, pc, Action::ProxyFence, Order::Weak, None, proxy, 0, 0);
                }
                Kind::AliasFence => {
                    push(&mut state, pc, Action::AliasFence, Order::Weak, None, Proxy::Generic, 0, 0);
                }
                Kind::Barrier { arrive, id, quorum } => {
                    let quorum = quorum.map(|q| value(&state, q).0);
                    let action = Action::Barrier { id: value(&state, id).0, quorum, arrive };
                    push(&mut state, pc, action, Order::Weak, None, Proxy::Generic, 0, 0);
                    if self.waits && !arrive {
                        let last = state.pc == self.test.threads[self.thread].code.len();
                        self.end(state.clone(), Outcome::Waits(last))?;
                    }
                }
                Kind::Load { .. } | Kind::Store { .. } | Kind::Atomic { .. } => {
                    if !self.access(&mut state, pc) {
                        self.out.wild.insert(instruction.line);
                        return Ok(());
                    }
                }
            }
        }
    }

    fn end(&mut self, state: State, outcome: Outcome) -> Result<(), Limit> {
        let registers = state.registers.iter().map(|(value, _)| *value).collect();
        self.out.paths.push(Path { steps: state.steps, registers, outcome });
        if self.out.paths.len() + self.stack.len() > MOST_PATHS { Err(Limit::Paths) } else { Ok(()) }
    }

    /// At the head of a loop: false if the path goes round too often. A pass that changed nothing is a path of its own,
    /// which goes on for ever. Only a path of which every pass changed something is missed at the bound: another has the
    /// states of one with a pass that changed nothing.
    fn arrive(&mut self, state: &mut State) -> Result<bool, Limit> {
        let live: Vec<i64> = self.targets[&state.pc].iter().map(|r| state.registers[*r].0).collect();
        let events = state.steps.len();
        let arrivals = state.arrivals.entry(state.pc).or_default();
        let passes = arrivals.states.len() as u32;
        let same = |(before, start): &&(Vec<i64>, usize)| *before == live && idle(&state.steps[*start..]);
        let repeated = arrivals.states.iter().rev().find(same).map(|(_, start)| *start);
        arrivals.repeats |= repeated.is_some();
        let repeats = arrivals.repeats;
        arrivals.states.push((live, events));
        if let Some(start) = repeated {
            self.end(state.clone(), Outcome::Spins(start))?;
        }
        if passes > self.unroll && !repeats {
            self.out.bounded = true;
            let reads = state.steps.iter().filter_map(|step| match step.action {
                Action::Read { location, value, .. } => Some((self.test.locations[location].physical, value)),
                _ => None,
            });
            self.out.cut.insert(reads.collect());
        }
        Ok(passes <= self.unroll)
    }

    fn written(&mut self, state: &State, location: usize, value: i64, data: Set) {
        let physical = |location: usize| self.test.locations[location].physical;
        let sources = members(data).filter_map(|event| match state.steps[event].action {
            Action::Read { location, value, .. } => Some((physical(location), value)),
            _ => None,
        });
        let entry = ((physical(location), value), sources.collect());
        self.out.writes.insert(entry);
    }

    /// A memory operation; false if its address is not that of a location.
    fn access(&mut self, state: &mut State, pc: usize) -> bool {
        let kind = &self.test.threads[self.thread].code[pc].kind;
        let (Kind::Load { access, .. } | Kind::Store { access, .. } | Kind::Atomic { access, .. }) = *kind
        else {
            return true;
        };
        let Access { address, order, scope, proxy } = access;
        let (location, addr) = match address {
            Address::Location(location) => (location, 0),
            Address::Register(register) => {
                let (pointer, from) = state.registers[register];
                match location_at(pointer, self.test.locations.len()) {
                    Some(location) => (location, from),
                    None => return false,
                }
            }
        };
        if let Kind::Store { value: operand, .. } = *kind {
            let (value, data) = value(state, operand);
            let action = Action::Write { location, value, atomic: false };
            self.written(state, location, value, data);
            push(state, pc, action, order, scope, proxy, addr, data);
            return true;
        }
        // Each value that the location may have is a path of its own; the first is followed now.
        let values = self.values;
        let mut values = values[self.test.locations[location].physical].iter();
        let Some(first) = values.next() else { return false };
        for other in values {
            let mut aside = state.clone();
            self.read(&mut aside, pc, location, *other, addr);
            self.stack.push(aside);
        }
        self.read(state, pc, location, *first, addr);
        true
    }

    fn read(&mut self, state: &mut State, pc: usize, location: usize, old: i64, addr: Set) {
        match self.test.threads[self.thread].code[pc].kind {
            Kind::Load { register, access: Access { order, scope, proxy, .. } } => {
                let action = Action::Read { location, value: old, red: false };
                let event = push(state, pc, action, order, scope, proxy, addr, 0);
                state.registers[register] = (old, 1 << event);
            }
            Kind::Atomic { register, access: Access { order, scope, proxy, .. }, op } => {
                let (reads, writes) = match order {
                    Order::Acquire => (Order::Acquire, Order::Relaxed),
                    Order::Release => (Order::Relaxed, Order::Release),
                    Order::AcqRel => (Order::Acquire, Order::Release),
                    _ => (Order::Relaxed, Order::Relaxed),
                };
                let action = Action::Read { location, value: old, red: register.is_none() };
                // The operands are read before the result is written: it may be the same register.
                let (new, from) = match op {
                    AtomicOp::Apply(op, operand) => {
                        let (value, from) = value(state, operand);
                        (op.apply(old, value), from)
                    }
                    AtomicOp::Cas(expected, new) => {
                        let ((expected, i), (new, j)) = (value(state, expected), value(state, new));
                        ((old == expected).then_some(new), i | j)
                    }
                };
                let event = push(state, pc, action, reads, scope, proxy, addr, 0);
                if let Some(register) = register {
                    state.registers[register] = (old, 1 << event);
                }
                if let Some(new) = new {
                    // What `exch` writes does not depend on what it reads.
                    let exchange = matches!(op, AtomicOp::Apply(crate::litmus::program::ValueOp::Exch, _));
                    let data = from | if exchange { 0 } else { 1 << event };
                    self.written(state, location, new, data);
                    let action = Action::Write { location, value: new, atomic: true };
                    push(state, pc, action, writes, scope, proxy, addr, data);
                }
            }
            _ => {}
        }
    }
}

fn value(state: &State, operand: Operand) -> (i64, Set) {
    match operand {
        Operand::Constant(value) => (value, 0),
        Operand::Register(register) => state.registers[register],
    }
}

/// Adds an event and gives its index; none is lost, as paths are followed no further than events have bits.
fn push(
    state: &mut State,
    instruction: usize,
    action: Action,
    order: Order,
    scope: Option<Scope>,
    proxy: Proxy,
    addr: Set,
    data: Set,
) -> usize {
    let ctrl = state.ctrl;
    state.steps.push(Step { instruction, action, order, scope, proxy, addr, data, ctrl });
    (state.steps.len() - 1).min(MAX_EVENTS - 1)
}

/// No memory changed: every write is that of an atomic and writes what was there.
fn idle(steps: &[Step]) -> bool {
    steps.iter().enumerate().all(|(i, step)| match step.action {
        Action::Write { atomic: true, value, .. } => {
            i > 0 && matches!(steps[i - 1].action, Action::Read { value: old, .. } if old == value)
        }
        Action::Write { .. } | Action::Barrier { .. } => false,
        _ => true,
    })
}
