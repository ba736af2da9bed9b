//! WELLSYNC (NB figure 4) as printed, over all commands, with the transitive closure in full: what the fast decision is
//! tested against.

use super::program::{Block, Command};
use super::search::MOST_COMMANDS;
use super::semantics::{Configuration, Label};

/// The generations of a trace that ended: by thread and command, 0 for accesses.
pub type Generations = Vec<Vec<u32>>;

/// One trace; `None` where it does not reach `done`.
pub fn trace(block: &Block) -> Option<Generations> {
    let mut generations: Generations = block.threads.iter().map(|t| vec![0; t.len()]).collect();
    let mut now = Configuration::initial(block);
    while !now.done(block) {
        let (label, next) = now.successors(block).into_iter().next()?;
        let next = next.ok()?;
        match label {
            Label::Thread(thread) => {
                let (thread, at) = (usize::from(thread), usize::from(now.points[usize::from(thread)]));
                if let Some(&Command::Arrive { barrier, .. }) = block.threads[thread].get(at) {
                    generations[thread][at] = now.barriers[barrier as usize].recycled + 1;
                }
            }
            Label::Landed(..) => {}
            Label::Recycled(barrier) => {
                let barrier = &now.barriers[barrier as usize];
                for &thread in &barrier.syncs {
                    let at = usize::from(now.points[usize::from(thread)]);
                    generations[usize::from(thread)][at] = barrier.recycled + 1;
                }
            }
        }
        now = next;
    }
    Some(generations)
}

/// The relation `R`, over commands numbered thread by thread.
#[derive(Clone, Debug)]
pub struct Relation {
    /// By command: a bit for each that it happens before.
    rows: Vec<u64>,
    /// The number of each thread's first command.
    first: Vec<usize>,
}

impl Relation {
    /// `(one, other)` is in `R`.
    pub fn has(&self, one: (usize, usize), other: (usize, usize)) -> bool {
        self.rows[self.first[one.0] + one.1] >> (self.first[other.0] + other.1) & 1 == 1
    }
}

/// Lines 3 to 17: program order, `arrive` before `sync` and `sync` with `sync` of a generation, closed transitively. A
/// thread that has returned counts at a `sync` without a count as one that arrived.
///
/// # Errors
/// More than [`MOST_COMMANDS`] commands.
pub fn relation(block: &Block, generations: &Generations) -> Result<Relation, &'static str> {
    let mut first = Vec::new();
    let mut count = 0;
    for thread in &block.threads {
        first.push(count);
        count += thread.len();
    }
    if count > MOST_COMMANDS {
        return Err("too many commands");
    }
    let mut rows: Vec<u64> = (0..count).map(|c| 1 << c).collect();
    let commands = commands(block);
    for (thread, of) in block.threads.iter().enumerate() {
        for at in 1..of.len() {
            rows[first[thread] + at - 1] |= 1 << (first[thread] + at);
        }
    }
    for &((t, i), one) in &commands {
        for &((u, j), other) in &commands {
            let (Some((b, _)), Some((c, true))) = (barrier_of(one), barrier_of(other)) else { continue };
            if b == c && generations[t][i] == generations[u][j] {
                rows[first[t] + i] |= 1 << (first[u] + j);
            }
        }
    }
    // Not of the figure: `sync` without a count.
    for &((t, i), one) in &commands {
        let Command::Sync { barrier, count: None } = one else { continue };
        let of_generation = |&&((u, j), c): &&((usize, usize), Command)| {
            barrier_of(c).is_some_and(|(b, _)| b == barrier) && generations[u][j] == generations[t][i]
        };
        let members: Vec<_> = commands.iter().filter(of_generation).collect();
        if members.iter().any(|(_, c)| !matches!(c, Command::Sync { count: None, .. })) {
            continue;
        }
        for (u, thread) in block.threads.iter().enumerate() {
            if !members.iter().any(|((member, _), _)| *member == u) && !thread.is_empty() {
                rows[first[u] + thread.len() - 1] |= 1 << (first[t] + i);
            }
        }
    }
    for middle in 0..count {
        for one in 0..count {
            if rows[one] >> middle & 1 == 1 {
                rows[one] |= rows[middle];
            }
        }
    }
    Ok(Relation { rows, first })
}

fn commands(block: &Block) -> Vec<((usize, usize), Command)> {
    let threads = block.threads.iter().enumerate();
    threads.flat_map(|(t, of)| of.iter().enumerate().map(move |(i, c)| ((t, i), *c))).collect()
}

/// The barrier of a command, and whether it waits.
fn barrier_of(command: Command) -> Option<(u32, bool)> {
    match command {
        Command::Arrive { barrier, .. } => Some((barrier, false)),
        Command::Sync { barrier, .. } => Some((barrier, true)),
        _ => None,
    }
}

/// Lines 18 to 23 over a trace that reached `done`: what participates in a generation is at its operation only after the
/// generation before is complete [nb-WELLSYNC].
///
/// As printed the figure has nothing to compare where an operation is the first of its thread, and where no thread of
/// the earlier generation waits; it then returns true for blocks that are not well-synchronized. Unless `as_printed`, the
/// start of a thread is a command that nothing happens before, and a generation without a `sync` is complete one
/// step after its last `arrive`.
pub fn well_sync(block: &Block, generations: &Generations, relation: &Relation, as_printed: bool) -> bool {
    let commands = commands(block);
    for &(one, c1) in &commands {
        let Some((b, waits)) = barrier_of(c1) else { continue };
        let k = generations[one.0][one.1];
        let in_generation = |other: (usize, usize), c: Command| {
            barrier_of(c).is_some_and(|(c, _)| c == b) && generations[other.0][other.1] == k
        };
        let somebody_waits = commands
            .iter()
            .any(|&(o, c)| in_generation(o, c) && barrier_of(c).is_some_and(|(_, waits)| waits));
        if !waits && (as_printed || somebody_waits) {
            continue;
        }
        for &(other, c2) in &commands {
            if barrier_of(c2).is_none_or(|(c, _)| c != b) || generations[other.0][other.1] != k + 1 {
                continue;
            }
            let Some(before) = other.1.checked_sub(1) else {
                if as_printed {
                    continue;
                }
                return false;
            };
            let c3 = (other.0, before);
            if !relation.has(one, c3) || !waits && c3 == one {
                return false;
            }
        }
    }
    true
}
