//! What a model says about a litmus test.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use serde::Serialize;

use crate::cat::{Frame, Leaf, Model};
use crate::execution::barriers::{Pairing, pairings};
use crate::execution::candidate::arrivals;
use crate::execution::paths::{Action, Limit, MOST_PATHS, Paths, Valued, Values, paths};
use crate::execution::{Candidate, Outcome, Path};
use crate::explain::{Edge, cycle_of};
use crate::litmus::program::{Comparison, Thread};
use crate::litmus::{Atom, Condition, Quantifier, Test};
use crate::relation::{MAX_EVENTS, Relation, members};

/// Bounds of an enumeration.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Maximum number of times that a thread repeats a loop.
    pub unroll: u32,
    /// Maximum number of candidate executions.
    pub candidates: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { unroll: 2, candidates: 5_000_000 }
    }
}

/// The answer to a test's question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// Some consistent execution satisfies the condition.
    Allowed,
    /// No consistent execution satisfies it.
    Forbidden,
    /// A bound was reached before it was known.
    Unknown(String),
}

/// An execution to show.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Its events and their relations.
    pub candidate: Candidate,
    /// The reads-from relation.
    pub reads_from: Relation,
    /// Orders and other relations of the model by their names.
    pub orders: Vec<(String, Relation)>,
    /// The axiom it violates, and a cycle or pair that shows it.
    pub violates: Option<(String, Vec<Edge>)>,
    /// Final values of the registers, by thread.
    pub registers: Vec<Vec<i64>>,
    /// Pairs of events that race.
    pub races: Vec<(usize, usize)>,
    /// Threads that do not end: in a loop or at a barrier.
    pub endless: Vec<(usize, Outcome)>,
}

/// The verdict on a test.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Whether an execution satisfies the condition; of `forall`, whether one violates it.
    pub answer: Answer,
    /// Choices of paths and of what reads read from; those that one axiom rules out together count once.
    pub candidates: u64,
    /// Consistent executions: choices of paths, sources of reads and orders that satisfy the model.
    pub consistent: u64,
    /// Final states of consistent executions: values of what the condition mentions, and how many executions end
    /// there.
    pub states: BTreeMap<Vec<i64>, u64>,
    /// What the values of a state are of.
    pub atoms: Vec<Atom>,
    /// An execution that satisfies the condition.
    pub witness: Option<Shown>,
    /// Where the condition is forbidden: an execution that would satisfy it, with the axiom it violates.
    pub rejected: Option<Shown>,
    /// An execution with a data race.
    pub race: Option<Shown>,
    /// An execution that never ends under weak fairness.
    pub endless: Option<Shown>,
    /// Some loop would repeat more often than it was unrolled.
    pub bounded: bool,
    /// Lines of accesses to undeclared locations or of divisions by zero; such executions are not considered.
    pub wild: BTreeSet<u32>,
}

impl Verdict {
    /// What the test asks for is so; none where it is not known.
    pub fn holds(&self, test: &Test) -> Option<bool> {
        match (&self.answer, test.quantifier) {
            (Answer::Unknown(_), _) => None,
            (answer, Quantifier::Exists) => Some(*answer == Answer::Allowed),
            (answer, Quantifier::NotExists | Quantifier::Forall) => Some(*answer == Answer::Forbidden),
        }
    }
}

/// The final states that a model allows: values of all registers and locations.
#[derive(Clone, Debug)]
pub struct Outcomes {
    /// What the values of a state are of: registers by thread, then locations.
    pub atoms: Vec<Atom>,
    /// The states, and the number of executions that end there.
    pub states: BTreeMap<Vec<i64>, u64>,
    /// There may be other states: some loop would repeat more often than it was unrolled, or executions were left out
    /// that divide by zero or access an undeclared location.
    pub bounded: bool,
}

/// The final states of a test that a model allows.
///
/// # Errors
/// A bound was reached.
pub fn outcomes(test: &Test, model: &Model, bounds: Bounds) -> Result<Outcomes, String> {
    let anything = Condition::Compare(Atom::Constant(0), Comparison::Eq, Atom::Constant(0));
    let test = Test { filter: None, quantifier: Quantifier::Exists, condition: anything, ..test.clone() };
    let mut run = Run::new(&test, model, bounds);
    run.verdict.atoms = atoms(&test);
    run.all()?;
    let Verdict { atoms, states, bounded, wild, .. } = run.verdict;
    Ok(Outcomes { atoms, states, bounded: bounded || !wild.is_empty() })
}

/// All registers of a test by thread, then its locations.
pub fn atoms(test: &Test) -> Vec<Atom> {
    let of_thread = |(t, thread): (usize, &Thread)| {
        (0..thread.registers.len()).map(move |r| Atom::Register(t, r)).collect::<Vec<_>>()
    };
    let registers = test.threads.iter().enumerate().flat_map(of_thread);
    registers.chain((0..test.locations.len()).map(Atom::Location)).collect()
}

/// Decides a test by a model.
pub fn decide(test: &Test, model: &Model, bounds: Bounds) -> Verdict {
    let mut run = Run::new(test, model, bounds);
    if let Err(reason) = run.all() {
        // What was found is found: only an answer that needs all executions is unknown.
        if run.verdict.witness.is_none() {
            run.verdict.answer = Answer::Unknown(reason);
        }
    } else if run.verdict.answer == Answer::Forbidden
        && let Some(reason) = run.left_out()
    {
        run.verdict.answer = Answer::Unknown(reason);
    }
    run.verdict
}

struct Run<'t> {
    test: &'t Test,
    model: &'t Model,
    bounds: Bounds,
    verdict: Verdict,
    /// Paths looked through since the last step.
    looked: usize,
    /// Steps of the enumeration: sets of paths that were tried, evaluations of the model.
    steps: u64,
    /// Of the rejected execution that is shown: the statement that rejects it, and how few events it has.
    rank: Option<(usize, usize)>,
}

/// A path with the values it reads and writes.
struct Used<'p> {
    path: &'p Path,
    reads: BTreeSet<Valued>,
    writes: BTreeSet<Valued>,
}

/// Paths that are looked through in about the time of an evaluation of the model.
const PATHS_PER_STEP: usize = 2048;

/// With fewer choices of sources, each is looked at by itself.
const FEW_CHOICES: usize = 16;

/// The reads of a candidate, and what each may read from.
struct Choices<'c> {
    reads: &'c [usize],
    sources: &'c [Vec<usize>],
}

impl Choices<'_> {
    /// The sources of the first reads.
    fn reads_from(&self, n: usize, choice: &[usize]) -> Relation {
        Relation::of(n, choice.iter().copied().zip(self.reads.iter().copied()))
    }

    /// These, and all that the other reads may read from.
    fn possible(&self, n: usize, choice: &[usize]) -> Relation {
        let mut out = self.reads_from(n, choice);
        for (read, list) in self.reads.iter().zip(self.sources).skip(choice.len()) {
            list.iter().for_each(|source| out.insert(*source, *read));
        }
        out
    }

    /// The number of choices from a read on.
    fn left(&self, from: usize) -> usize {
        self.sources[from..].iter().fold(1, |product: usize, list| product.saturating_mul(list.len()))
    }
}

/// The chosen paths: one of each thread.
type Chosen<'p> = Vec<&'p Path>;

impl<'t> Run<'t> {
    fn new(test: &'t Test, model: &'t Model, bounds: Bounds) -> Self {
        let mut atoms = BTreeSet::new();
        let mut each = |atom| {
            if !matches!(atom, Atom::Constant(_)) {
                atoms.insert(atom);
            }
        };
        test.condition.atoms(&mut each);
        let verdict = Verdict {
            answer: Answer::Forbidden,
            candidates: 0,
            consistent: 0,
            states: BTreeMap::new(),
            atoms: atoms.into_iter().collect(),
            witness: None,
            rejected: None,
            race: None,
            endless: None,
            bounded: false,
            wild: BTreeSet::new(),
        };
        Self { test, model, bounds, verdict, looked: 0, steps: 0, rank: None }
    }

    fn all(&mut self) -> Result<(), String> {
        let waits = self.test.threads.iter().flat_map(|t| &t.code);
        let waits = waits.into_iter().any(|i| matches!(i.kind, crate::litmus::program::Kind::Barrier { .. }));
        let threads = self.paths(waits)?;
        // A path that reads what nobody writes is a guess at values out of thin air.
        let written: BTreeSet<Valued> = threads.iter().flat_map(|t| &t.writes).map(|(v, _)| *v).collect();
        let init = |(location, value): &Valued| self.test.locations[*location].init == *value;
        let real = |reads: &BTreeSet<Valued>| reads.iter().all(|v| init(v) || written.contains(v));
        self.verdict.bounded = threads.iter().flat_map(|t| &t.cut).any(real);
        for paths in &threads {
            self.verdict.wild.extend(&paths.wild);
        }
        let used: Vec<Vec<Used<'_>>> =
            threads.iter().map(|t| t.paths.iter().map(|p| self.used(p)).collect()).collect();
        self.choose(&used, &mut Vec::new())
    }

    /// Why an execution that was not enumerated may satisfy the condition.
    fn left_out(&self) -> Option<String> {
        let Verdict { bounded, wild, consistent, .. } = &self.verdict;
        if *bounded {
            return Some(format!("a loop repeats more than {} times (`--unroll`)", self.bounds.unroll));
        }
        let line = wild.first().filter(|_| *consistent == 0)?;
        Some(format!("line {line} divides by zero or accesses an undeclared location in every execution"))
    }

    /// The paths of all threads, over the values that writes can bring to each location.
    fn paths(&self, waits: bool) -> Result<Vec<Paths>, String> {
        let count = self.test.locations.len();
        let mut values: Values = vec![BTreeSet::new(); count];
        for location in &self.test.locations {
            values[location.physical].insert(self.test.locations[location.physical].init);
        }
        // Values out of thin air: a model without an axiom against them allows what the condition asks for.
        let mut constants = BTreeSet::new();
        self.test.condition.atoms(&mut |atom| {
            if let Atom::Constant(value) = atom {
                constants.insert(value);
            }
        });
        self.written().iter().for_each(|location| values[*location].extend(&constants));
        // How often the derivation of a value passes through writes to each location, at least.
        let mut depths: BTreeMap<Valued, Vec<usize>> = BTreeMap::new();
        for (location, list) in values.iter().enumerate() {
            list.iter().for_each(|value| drop(depths.insert((location, *value), vec![0; count])));
        }
        loop {
            let mut all = Vec::new();
            for thread in 0..self.test.threads.len() {
                let found = paths(self.test, thread, &values, self.bounds.unroll, waits);
                all.push(found.map_err(|limit| match limit {
                    Limit::Paths => {
                        format!("{} has more than {MOST_PATHS} paths", self.test.threads[thread].name)
                    }
                    Limit::Events => {
                        format!(
                            "a path of {} has more than {MAX_EVENTS} events",
                            self.test.threads[thread].name
                        )
                    }
                })?);
            }
            let most = self.most_writes(&all);
            let mut grown = false;
            for ((location, value), sources) in all.iter().flat_map(|p| &p.writes) {
                let mut depth = vec![0; count];
                for source in sources {
                    let known = depths.get(source).cloned().unwrap_or_default();
                    depth.iter_mut().zip(known).for_each(|(d, k)| *d = (*d).max(k));
                }
                depth[*location] += 1;
                // An execution has only so many writes to pass through.
                if depth.iter().zip(&most).any(|(d, most)| d > most) {
                    continue;
                }
                values[*location].insert(*value);
                let known = depths.entry((*location, *value)).or_insert_with(|| {
                    grown = true;
                    depth.clone()
                });
                for (known, depth) in known.iter_mut().zip(depth) {
                    grown |= depth < *known;
                    *known = depth.min(*known);
                }
            }
            if !grown {
                return Ok(all);
            }
        }
    }

    /// The most writes that an execution has to each location.
    fn most_writes(&self, threads: &[Paths]) -> Vec<usize> {
        let mut most = vec![0; self.test.locations.len()];
        for thread in threads {
            let mut of_thread = vec![0; most.len()];
            for path in &thread.paths {
                let mut of_path = vec![0; most.len()];
                for step in &path.steps {
                    if let Action::Write { location, .. } = step.action {
                        of_path[self.test.locations[location].physical] += 1;
                    }
                }
                of_thread.iter_mut().zip(of_path).for_each(|(a, b): (&mut usize, usize)| *a = (*a).max(b));
            }
            // Paths that are left out may write as often as the loop goes round.
            if thread.bounded || thread.paths.is_empty() {
                let rounds = self.bounds.unroll as usize + 1;
                for ((location, _), _) in &thread.writes {
                    of_thread[*location] = of_thread[*location].max(rounds);
                }
            }
            most.iter_mut().zip(of_thread).for_each(|(a, b)| *a += b);
        }
        most
    }

    fn used<'p>(&self, path: &'p Path) -> Used<'p> {
        let mut used = Used { path, reads: BTreeSet::new(), writes: BTreeSet::new() };
        for step in &path.steps {
            match step.action {
                Action::Read { location, value, .. } => {
                    used.reads.insert((self.test.locations[location].physical, value));
                }
                Action::Write { location, value, .. } => {
                    used.writes.insert((self.test.locations[location].physical, value));
                }
                _ => {}
            }
        }
        used
    }

    /// Physical locations that some instruction writes.
    fn written(&self) -> BTreeSet<usize> {
        use crate::litmus::program::{Address, Kind};
        let mut out = BTreeSet::new();
        for instruction in self.test.threads.iter().flat_map(|t| &t.code) {
            if let Kind::Store { access, .. } | Kind::Atomic { access, .. } = instruction.kind {
                match access.address {
                    Address::Location(location) => {
                        out.insert(self.test.locations[location].physical);
                    }
                    Address::Register(_) => out.extend(self.test.locations.iter().map(|l| l.physical)),
                }
            }
        }
        out
    }

    /// Counts steps of the enumeration.
    fn step(&mut self, count: usize) -> Result<(), String> {
        self.steps += count as u64;
        if self.steps > self.bounds.candidates {
            return Err(format!(
                "the enumeration takes more than {} steps (`--max-candidates`)",
                self.bounds.candidates
            ));
        }
        Ok(())
    }

    /// Chooses a path for each thread.
    fn choose<'u>(
        &mut self,
        threads: &'u [Vec<Used<'u>>],
        chosen: &mut Vec<&'u Used<'u>>,
    ) -> Result<(), String> {
        let Some(next) = threads.get(chosen.len()) else {
            let paths: Chosen<'_> = chosen.iter().map(|used| used.path).collect();
            return self.paired(&paths);
        };
        for used in next {
            // Every value that a chosen path reads is written by one of these, or may be by one yet to be chosen.
            let open = &threads[chosen.len() + 1..];
            self.looked += 1 + open.iter().map(Vec::len).sum::<usize>();
            self.step(self.looked / PATHS_PER_STEP)?;
            self.looked %= PATHS_PER_STEP;
            let known = |valued: &Valued| {
                self.test.locations[valued.0].init == valued.1
                    || used.writes.contains(valued)
                    || chosen.iter().any(|other| other.writes.contains(valued))
                    || open.iter().flatten().any(|other| other.writes.contains(valued))
            };
            let fits =
                used.reads.iter().all(known) && chosen.iter().all(|other| other.reads.iter().all(known));
            if fits {
                chosen.push(used);
                self.choose(threads, chosen)?;
                chosen.pop();
            }
        }
        Ok(())
    }

    fn paired(&mut self, chosen: &Chosen<'_>) -> Result<(), String> {
        let arrivals: Vec<_> =
            chosen.iter().enumerate().map(|(t, path)| arrivals(self.test, t, path)).collect();
        let mut seen = BTreeSet::new();
        for Pairing { phases, waiting } in pairings(&arrivals) {
            let fits = chosen
                .iter()
                .enumerate()
                .all(|(thread, path)| matches!(path.outcome, Outcome::Waits(_)) == waiting.contains(&thread));
            if fits && seen.insert(phases.clone()) {
                let Some(candidate) = Candidate::new(self.test, chosen, &phases) else {
                    return Err(format!("an execution has more than {MAX_EVENTS} events"));
                };
                self.sources(chosen, &candidate)?;
            }
        }
        Ok(())
    }

    /// Chooses what each read reads from.
    fn sources(&mut self, chosen: &Chosen<'_>, candidate: &Candidate) -> Result<(), String> {
        let n = candidate.events.len();
        let reads: Vec<usize> = (0..n).filter(|i| candidate.events[*i].is_read()).collect();
        let sources: Vec<Vec<usize>> = reads.iter().map(|read| candidate.sources(self.test, *read)).collect();
        if sources.iter().any(Vec::is_empty) {
            return Ok(());
        }
        let mut frame = self.model.frame(n, &candidate.sets, &candidate.relations);
        let choices = Choices { reads: &reads, sources: &sources };
        self.assign(chosen, candidate, &mut frame, &choices, &mut Vec::new())
    }

    /// Chooses what the next read reads from.
    fn assign(
        &mut self,
        chosen: &Chosen<'_>,
        candidate: &Candidate,
        frame: &mut Frame,
        choices: &Choices<'_>,
        choice: &mut Vec<usize>,
    ) -> Result<(), String> {
        let Some(sources) = choices.sources.get(choice.len()) else {
            return self.candidate(chosen, candidate, frame, &choices.reads_from(frame.events(), choice));
        };
        if choices.left(choice.len()) > FEW_CHOICES {
            self.step(1)?;
            let lower = choices.reads_from(frame.events(), choice);
            if self.model.refutes_reads(frame, &lower, &choices.possible(frame.events(), choice)).is_some() {
                // One of these executions stands for all.
                let mut complete = choice.clone();
                complete.extend(choices.sources[choice.len()..].iter().map(|list| list[0]));
                return self.candidate(
                    chosen,
                    candidate,
                    frame,
                    &choices.reads_from(frame.events(), &complete),
                );
            }
        }
        for source in sources {
            choice.push(*source);
            self.assign(chosen, candidate, frame, choices, choice)?;
            choice.pop();
        }
        Ok(())
    }

    fn candidate(
        &mut self,
        chosen: &Chosen<'_>,
        candidate: &Candidate,
        frame: &mut Frame,
        reads_from: &Relation,
    ) -> Result<(), String> {
        let endless: Vec<(usize, Outcome)> = chosen
            .iter()
            .enumerate()
            .filter(|(_, path)| path.outcome != Outcome::Done)
            .map(|(thread, path)| (thread, path.outcome))
            .collect();
        // A thread that waits with nothing left to do changes no outcome.
        let complete = endless.iter().all(|(_, outcome)| *outcome == Outcome::Waits(true));
        if complete {
            self.verdict.candidates += 1;
            if self.verdict.candidates > self.bounds.candidates {
                return Err(format!("there are more than {} candidate executions", self.bounds.candidates));
            }
        }
        let model = self.model;
        let mut within = Ok(());
        let _ = model.run(frame, reads_from, &mut |frame, leaf| {
            within = self.step(1);
            if within.is_err() {
                return ControlFlow::Break(());
            }
            match leaf {
                Leaf::Consistent if complete => self.consistent(chosen, candidate, frame, reads_from),
                Leaf::Consistent => {}
                Leaf::Violates(statement) | Leaf::NoOrder(statement) if complete => {
                    self.violating(chosen, candidate, frame, reads_from, statement);
                }
                _ => {}
            }
            if let (Leaf::Consistent, false, true) =
                (leaf, endless.is_empty(), self.verdict.endless.is_none())
                && self.never_ends(chosen, candidate, frame, reads_from)
            {
                let mut shown = self.shown(chosen, candidate, frame, reads_from);
                shown.endless = endless.clone();
                self.verdict.endless = Some(shown);
            }
            ControlFlow::Continue(())
        });
        within
    }

    fn consistent(
        &mut self,
        chosen: &Chosen<'_>,
        candidate: &Candidate,
        frame: &Frame,
        reads_from: &Relation,
    ) {
        let mut counted = false;
        for state in self.states(chosen, candidate, frame) {
            let value = |atom| self.value(&state, chosen, atom);
            if self.test.filter.as_ref().is_some_and(|filter| !filter.holds(&value)) {
                continue;
            }
            let wanted = self.test.condition.holds(&value) != (self.test.quantifier == Quantifier::Forall);
            self.verdict.consistent += u64::from(!counted);
            counted = true;
            *self.verdict.states.entry(state).or_default() += 1;
            if wanted && self.verdict.witness.is_none() {
                self.verdict.answer = Answer::Allowed;
                self.verdict.witness = Some(self.shown(chosen, candidate, frame, reads_from));
            }
        }
        if counted && self.verdict.race.is_none() {
            let flags = self.model.flags(frame);
            if let Some((_, pairs)) = flags.iter().find(|(name, _)| *name == "data-race") {
                let mut shown = self.shown(chosen, candidate, frame, reads_from);
                shown.races = pairs.pairs().filter(|(a, b)| a < b || !pairs.has(*b, *a)).collect();
                self.verdict.race = Some(shown);
            }
        }
    }

    /// An execution that the model rejects, kept where it would satisfy the condition.
    fn violating(
        &mut self,
        chosen: &Chosen<'_>,
        candidate: &Candidate,
        frame: &Frame,
        reads_from: &Relation,
        statement: usize,
    ) {
        // The one that is shown violates the last axiom that any does, with the fewest events.
        let rank = (statement, MAX_EVENTS - candidate.events.len());
        if self.verdict.witness.is_some() || self.rank.is_some_and(|known| known >= rank) {
            return;
        }
        let wanted = self.test.quantifier != Quantifier::Forall;
        // Orders that are not yet chosen leave the final values of memory open: any write may be the last.
        for state in self.states(chosen, candidate, frame) {
            let value = |atom| self.value(&state, chosen, atom);
            let filtered = self.test.filter.as_ref().is_some_and(|filter| !filter.holds(&value));
            if !filtered && self.test.condition.holds(&value) == wanted {
                let mut shown = self.shown(chosen, candidate, frame, reads_from);
                shown.violates = Some(cycle_of(self.model, frame, statement));
                self.verdict.rejected = Some(shown);
                self.rank = Some(rank);
                return;
            }
        }
    }

    /// Final values of the atoms: each location has that of a write that is last in coherence order.
    fn states(&self, chosen: &Chosen<'_>, candidate: &Candidate, frame: &Frame) -> Vec<Vec<i64>> {
        let mut states = vec![Vec::new()];
        for atom in &self.verdict.atoms {
            let values: BTreeSet<i64> = match atom {
                Atom::Register(thread, register) => BTreeSet::from([chosen[*thread].registers[*register]]),
                Atom::Constant(value) => BTreeSet::from([*value]),
                Atom::Location(location) => self.last_values(candidate, frame, *location),
            };
            states = states
                .into_iter()
                .flat_map(|state: Vec<i64>| {
                    values.iter().map(move |value| state.iter().copied().chain([*value]).collect())
                })
                .collect();
        }
        states
    }

    fn last_values(&self, candidate: &Candidate, frame: &Frame, location: usize) -> BTreeSet<i64> {
        let physical = self.test.locations[location].physical;
        let order = coherence(self.model, frame);
        let writes = candidate.events.iter().enumerate().filter(|(_, event)| {
            event.is_write()
                && event.access().is_some_and(|(l, _)| self.test.locations[l].physical == physical)
        });
        let writes: Vec<usize> = writes.map(|(i, _)| i).collect();
        let last = writes.iter().filter(|w| writes.iter().all(|other| !order.has(**w, *other)));
        last.filter_map(|w| candidate.events[*w].access().map(|(_, value)| value)).collect()
    }

    fn value(&self, state: &[i64], chosen: &Chosen<'_>, atom: Atom) -> i64 {
        match atom {
            Atom::Constant(value) => value,
            Atom::Register(thread, register) => chosen[thread].registers[register],
            Atom::Location(_) => self.verdict.atoms.iter().position(|a| *a == atom).map_or(0, |i| state[i]),
        }
    }

    /// Weak fairness: every thread that can go on goes on, and every write becomes visible. An execution never ends
    /// where a thread goes round a loop whose reads return the last value of their location, or waits at a barrier.
    fn never_ends(
        &self,
        chosen: &Chosen<'_>,
        candidate: &Candidate,
        frame: &Frame,
        reads_from: &Relation,
    ) -> bool {
        let order = coherence(self.model, frame);
        let mut repeated = 0u64;
        for (path, start) in chosen.iter().zip(&candidate.starts) {
            if let Outcome::Spins(from) = path.outcome {
                (from..path.steps.len()).for_each(|i| repeated |= 1 << (start + i));
            }
        }
        members(repeated).filter(|i| candidate.events[*i].is_read()).all(|read| {
            let source = (0..candidate.events.len()).find(|w| reads_from.has(*w, read));
            source.is_some_and(|source| order.row(source) & !repeated == 0)
        })
    }

    fn shown(
        &self,
        chosen: &Chosen<'_>,
        candidate: &Candidate,
        frame: &Frame,
        reads_from: &Relation,
    ) -> Shown {
        let orders = ["co", "mo", "sc"].into_iter();
        let orders = orders.filter_map(|name| Some((name.to_string(), self.model.value(frame, name)?)));
        Shown {
            candidate: candidate.clone(),
            reads_from: *reads_from,
            orders: orders.collect(),
            violates: None,
            registers: chosen.iter().map(|path| path.registers.clone()).collect(),
            races: Vec::new(),
            endless: Vec::new(),
        }
    }
}

/// Coherence order, by the name it has in models.
fn coherence(model: &Model, frame: &Frame) -> Relation {
    let found = ["co", "mo"].iter().find_map(|name| model.value(frame, name));
    found.unwrap_or(Relation::empty(frame.events()))
}
