//! Every interleaving of a small block: the definitions of NB §4.1 taken literally.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;

use super::program::{Access, Act, Block, Command};
use super::semantics::{Configuration, Error, Label};

/// Commands of a block at most.
pub const MOST_COMMANDS: usize = 64;

/// What the traces of a block have in common and where they differ.
#[derive(Clone, Debug)]
pub struct Facts {
    /// A trace ends in `err`, as thread counts differ.
    pub mismatch: bool,
    /// A trace ends in `err`, as too many threads register.
    pub too_many: bool,
    /// A trace ends in a deadlock.
    pub deadlock: bool,
    /// What traces end in that is neither.
    pub misuses: BTreeSet<&'static str>,
    /// By command: its generations in all traces, from 1, or phases; empty for accesses and what no trace executes.
    pub generations: Vec<BTreeSet<u32>>,
    /// By command: a bit for each that some trace has not executed when it executes this one. Behind the commands, the same
    /// for what they have begun: that it ends.
    later: Vec<u64>,
    /// The number of each thread's first command.
    first: Vec<usize>,
    /// Configurations that were seen.
    pub configurations: usize,
}

impl Facts {
    /// The number of a command.
    pub fn number(&self, thread: usize, at: usize) -> usize {
        self.first[thread] + at
    }

    /// The number of the end of what a command begins, or of the command.
    pub fn end(&self, thread: usize, at: usize) -> usize {
        self.generations.len() + self.number(thread, at)
    }

    /// In all traces `one` executes no later than `other` (NB definition 4).
    pub fn before(&self, one: usize, other: usize) -> bool {
        self.later[other] >> one & 1 == 0
    }

    /// All traces give each barrier operation the same generation, and it is not 0 (NB definitions 5–7) [nb-wellSync].
    pub fn well_synchronized(&self, block: &Block) -> bool {
        let operation = |c: &Command| !matches!(c, Command::Access(..));
        let commands = block.threads.iter().flatten();
        !self.mismatch
            && !self.too_many
            && !self.deadlock
            && self.misuses.is_empty()
            && commands.zip(&self.generations).all(|(c, g)| !operation(c) || g.len() == 1)
    }

    /// Pairs of accesses that two traces execute in different orders (NB definition 8).
    pub fn races(&self, block: &Block) -> BTreeSet<((usize, usize), (usize, usize))> {
        let mut out = BTreeSet::new();
        let all = || {
            block.threads.iter().enumerate().flat_map(|(t, commands)| {
                commands.iter().enumerate().filter_map(move |(i, c)| match c {
                    Command::Access(access, range) => Some(((t, i), *access, *range)),
                    Command::Copy(range) | Command::Bulk { to: range, .. } => {
                        Some(((t, i), Access::Copy, *range))
                    }
                    _ => None,
                })
            })
        };
        for (one, access, range) in all() {
            for (other, second, second_range) in all().filter(|(other, ..)| *other > one) {
                let (a, b) = (self.number(one.0, one.1), self.number(other.0, other.1));
                let (end_a, end_b) = (self.end(one.0, one.1), self.end(other.0, other.1));
                let ordered = self.before(end_a, b) || self.before(end_b, a);
                if !ordered && range.overlaps(second_range) && access.conflicts(second) {
                    out.insert((one, other));
                }
            }
        }
        out
    }
}

/// Goes through every configuration that a block can reach.
///
/// # Errors
/// More than [`MOST_COMMANDS`] commands, or more than `most` configurations.
pub fn search(block: &Block, most: usize) -> Result<Facts, &'static str> {
    let commands: usize = block.threads.iter().map(Vec::len).sum();
    if 2 * commands > MOST_COMMANDS || block.threads.len() > usize::from(u8::MAX) {
        return Err("too many commands or threads");
    }
    let mut first = Vec::new();
    let mut next = 0;
    for thread in &block.threads {
        first.push(next);
        next += thread.len();
    }
    let mut facts = Facts {
        mismatch: false,
        too_many: false,
        deadlock: false,
        misuses: BTreeSet::new(),
        generations: vec![BTreeSet::new(); commands],
        later: vec![0; 2 * commands],
        first,
        configurations: 0,
    };
    let all = if commands == 32 { u64::MAX } else { (1 << (2 * commands)) - 1 };
    let start = Configuration::initial(block);
    let mut seen: FxHashSet<Configuration> = FxHashSet::default();
    let mut open = vec![start.clone()];
    seen.insert(start);
    while let Some(configuration) = open.pop() {
        let mut executed = 0u64;
        for (thread, &point) in configuration.points.iter().enumerate() {
            for at in 0..usize::from(point).min(block.threads[thread].len()) {
                executed |= 1 << facts.number(thread, at);
                if !configuration.flights.contains(&(thread as u8, at as u16)) {
                    executed |= 1 << facts.end(thread, at);
                }
            }
        }
        for (command, later) in facts.later.iter_mut().enumerate() {
            *later |= if executed >> command & 1 == 1 { all & !executed } else { 0 };
        }
        let successors = configuration.successors(block);
        if successors.is_empty() && !configuration.done(block) {
            facts.deadlock = true;
        }
        for (label, next) in successors {
            match next {
                Err(Error::CountMismatch { .. }) => facts.mismatch = true,
                Err(Error::TooMany { .. }) => facts.too_many = true,
                Err(Error::Misuse { what, .. }) => {
                    facts.misuses.insert(what.name());
                }
                Ok(next) => {
                    generation(block, &configuration, &label, &mut facts);
                    if seen.len() >= most {
                        return Err("too many configurations");
                    }
                    if !seen.contains(&next) {
                        seen.insert(next.clone());
                        open.push(next);
                    }
                }
            }
        }
    }
    facts.configurations = seen.len();
    Ok(facts)
}

/// Notes the generation of what a step executes: one more than the barrier was recycled before; the phase of an object.
fn generation(block: &Block, from: &Configuration, label: &Label, facts: &mut Facts) {
    match *label {
        Label::Thread(thread) => {
            let thread = usize::from(thread);
            let at = usize::from(from.points[thread]);
            let Some(command) = block.threads[thread].get(at) else { return };
            let generation = match *command {
                // Noted when the barrier is recycled, or when it lands.
                Command::Sync { .. }
                | Command::Access(..)
                | Command::Bulk { .. }
                | Command::CopiesArrive { inc: false, .. } => return,
                Command::Arrive { barrier, .. } => from.barriers[barrier as usize].recycled + 1,
                Command::Object(_, Act::Init { .. } | Act::Inval) => 1,
                Command::Object(object, _) | Command::CopiesArrive { object, inc: true } => {
                    from.objects[object as usize].number()
                }
                Command::ClusterArrive => from.cluster.phase + 1,
                Command::ClusterWait => from.cluster.open[thread],
                Command::Copy(_)
                | Command::Commit
                | Command::Await(_)
                | Command::Signal(_)
                | Command::Observe(_) => 1,
            };
            let number = facts.number(thread, at);
            facts.generations[number].insert(generation);
        }
        Label::Landed(thread, at) => {
            let (thread, at) = (usize::from(thread), usize::from(at));
            if let Some(&(Command::Bulk { object, .. } | Command::CopiesArrive { object, .. })) =
                block.threads[thread].get(at)
            {
                let number = facts.number(thread, at);
                facts.generations[number].insert(from.objects[object as usize].number());
            }
        }
        Label::Recycled(barrier) => {
            let barrier = &from.barriers[barrier as usize];
            for &thread in &barrier.syncs {
                let thread = usize::from(thread);
                let number = facts.number(thread, usize::from(from.points[thread]));
                facts.generations[number].insert(barrier.recycled + 1);
            }
        }
    }
}
