//! Mbarrier objects, copies and the barrier of a cluster: the fast decision against every interleaving.

use std::collections::BTreeMap;

use super::agents::View;
use super::decide::{Verdict, decide, decide_by};
use super::phases::{Misuse, Wrong};
use super::program::{Act, Block, Command, Range, Thread, read, sync_all, write};
use super::search::search;
use super::tests::{commands, position};

fn init(object: u32, count: u32) -> Command {
    Command::Object(object, Act::Init { count })
}

fn arrives(object: u32) -> Command {
    Command::Object(object, Act::Arrive { count: 1, bytes: 0, drop: false })
}

fn arrives_expecting(object: u32, bytes: u32) -> Command {
    Command::Object(object, Act::Arrive { count: 1, bytes, drop: false })
}

fn waits(object: u32, odd: bool) -> Command {
    Command::Object(object, Act::Wait { odd })
}

fn copy(start: u32) -> Command {
    Command::Copy(Range { start, bytes: 4 })
}

fn bulk(object: u32, start: u32, bytes: u32) -> Command {
    Command::Bulk { object, to: Range { start, bytes } }
}

fn verdict(threads: Vec<Thread>) -> Verdict {
    decide(&(&Block::new(threads)).into(), View::Threads).verdict
}

/// What is wrong with phases.
fn wrong(threads: Vec<Thread>) -> Vec<Wrong> {
    match verdict(threads) {
        Verdict::Phases(found) => found.iter().map(|phases| phases.wrong).collect(),
        other => panic!("{other:?}"),
    }
}

/// The verdict of the fast decision and of every interleaving, happens-before of each pair of commands, and races.
fn agree(block: &Block) -> &'static str {
    let all = search(block, 1 << 20).expect("a small block");
    let decision = decide_by(&block.into(), View::Threads, false);
    let well = all.well_synchronized(block);
    let verdict = &decision.verdict;
    if let Verdict::Unknown(beyond) = verdict {
        assert!(beyond.reason.contains("bulk copy may complete"), "{beyond:?}: {block:?}");
        return "unknown";
    }
    let is_well = matches!(verdict, Verdict::Verified | Verdict::Races(_) | Verdict::NotAwaited(_));
    assert_eq!(is_well, well, "{verdict:?}: {block:?} {all:?}");
    let kind = match verdict {
        Verdict::Verified => "verified",
        Verdict::Races(_) => "races",
        Verdict::NotAwaited(_) => "not awaited",
        Verdict::Deadlock { waiting } => {
            assert!(all.deadlock && !waiting.is_empty(), "{block:?}");
            "deadlock"
        }
        Verdict::Misuse { what, .. } => {
            assert!(all.misuses.contains(what.name()), "{what:?}: {block:?}");
            what.name()
        }
        Verdict::Phases(found) => match found[0].wrong {
            Wrong::NotInitialized => "may not be initialized",
            Wrong::InUse => "in use",
            Wrong::Early => "early",
            Wrong::WaitsEarly => "waits early",
            Wrong::WaitsLate => "waits late",
            Wrong::Incomplete => "incomplete",
        },
        Verdict::Recycling(_) => "recycling",
        Verdict::CountMismatch { .. } | Verdict::TooMany { .. } => "named",
        Verdict::Unknown(_) => "unknown",
    };
    if !well {
        return kind;
    }
    for one in commands(block) {
        for other in commands(block).into_iter().filter(|other| other.0 != one.0) {
            let (a, b) = (all.number(one.0, one.1), all.number(other.0, other.1));
            let (from, to) = (position(&decision, block, one), position(&decision, block, other));
            let before = decision.happens_before(from, to).expect("an order");
            assert_eq!(before, all.before(a, b), "{one:?} {other:?}: {block:?}");
        }
    }
    let races = all.races(block);
    let found: &[_] = if let Verdict::Races(found) = verdict { found } else { &[] };
    assert_eq!(found.is_empty(), races.is_empty(), "{races:?} {found:?}: {block:?}");
    for race in found {
        let key = |p: &super::races::Point| (p.thread as usize, p.site as usize);
        let (one, other) = (key(&race.first), key(&race.second));
        assert!(races.contains(&(one.min(other), one.max(other))), "{race:?}: {block:?}");
    }
    if found.is_empty() {
        let copies = commands(block).into_iter().filter(|&(t, i)| {
            matches!(block.threads[t][i], Command::Copy(_) | Command::Bulk { .. })
        });
        let mut left = copies.filter(|&(t, i)| {
            !commands(block).into_iter().any(|(u, j)| (u, j) != (t, i) && all.before(all.end(t, i), all.number(u, j)))
        });
        assert_eq!(left.next().is_some(), kind == "not awaited", "{verdict:?}: {block:?}");
    }
    kind
}

/// Numbers from a seed (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end as u64) as usize
    }

    fn one_in(&mut self, end: usize) -> bool {
        self.below(end) == 0
    }
}

fn anything(numbers: &mut Numbers, objects: usize) -> Command {
    let object = numbers.below(objects) as u32;
    let place = 4 * numbers.below(3) as u32;
    match numbers.below(14) {
        0 => read(place, 4),
        1 => write(place, 4),
        2 | 3 => arrives(object),
        4 => waits(object, numbers.one_in(2)),
        5 => copy(place),
        6 => Command::Commit,
        7 => Command::Await([None, Some(0), Some(1)][numbers.below(3)]),
        8 => Command::CopiesArrive { object, inc: numbers.one_in(2) },
        9 => bulk(object, place, 4),
        10 => Command::Object(object, Act::Expect { bytes: 4 }),
        11 => Command::Object(object, Act::Complete { bytes: 4 }),
        12 => Command::Object(object, Act::Arrive { count: 1, bytes: 0, drop: true }),
        _ => [init(object, 1), Command::Object(object, Act::Inval), Command::ClusterArrive, Command::ClusterWait]
            [numbers.below(4)],
    }
}

/// One phase of an object: who arrives, how, and who waits.
fn phase(numbers: &mut Numbers, threads: &mut [Thread], object: u32, number: u32, arrivers: &[usize]) {
    let waiting = |numbers: &mut Numbers, threads: &mut [Thread]| {
        for thread in 0..threads.len() {
            if !numbers.one_in(3) {
                threads[thread].push(waits(object, number % 2 == 1));
                if numbers.one_in(3) {
                    threads[thread].push(if numbers.one_in(2) { read(0, 4) } else { write(4, 4) });
                }
            }
        }
    };
    for &thread in arrivers {
        let own = &mut threads[thread];
        match numbers.below(7) {
            0 => own.extend([copy(4 * numbers.below(2) as u32), Command::CopiesArrive { object, inc: false }]),
            1 => own.extend([copy(0), Command::CopiesArrive { object, inc: true }, arrives(object)]),
            2 => own.extend([arrives_expecting(object, 4), bulk(object, 0, 4)]),
            3 => own.extend([bulk(object, 4, 4), arrives_expecting(object, 4)]),
            4 => {
                own.extend([Command::Object(object, Act::Expect { bytes: 4 }), arrives(object)]);
                let other = numbers.below(threads.len());
                threads[other].push(Command::Object(object, Act::Complete { bytes: 4 }));
            }
            5 => own.extend([write(0, 4), arrives(object)]),
            _ => own.push(arrives(object)),
        }
    }
    waiting(numbers, threads);
}

/// Threads that meet at objects as they should, most of the time; then one command is lost, gained or moved.
fn block(numbers: &mut Numbers) -> Block {
    let mut threads: Vec<Thread> = vec![Vec::new(); 2 + numbers.below(2)];
    let count = threads.len();
    let objects = 1 + numbers.below(2);
    let mut arrivers: Vec<Vec<usize>> = Vec::new();
    for object in 0..objects {
        let mut own: Vec<usize> = (0..count).filter(|_| numbers.one_in(2)).collect();
        if own.is_empty() {
            own.push(numbers.below(count));
        }
        threads[0].push(init(object as u32, own.len() as u32));
        arrivers.push(own);
    }
    if !numbers.one_in(12) {
        threads.iter_mut().for_each(|thread| thread.push(sync_all(0)));
    }
    let mut phases = vec![0; objects];
    for _ in 0..1 + numbers.below(3) {
        let object = numbers.below(objects);
        match numbers.below(9) {
            0 => {
                let thread = numbers.below(count);
                threads[thread].push(waits(object as u32, phases[object] % 2 == 0));
            }
            1 => {
                let own = &mut threads[numbers.below(count)];
                own.extend([copy(0), Command::Commit]);
                own.push(Command::Await([None, Some(0), Some(1)][numbers.below(3)]));
                own.push(read(0, 4));
            }
            2 => threads.iter_mut().for_each(|thread| {
                thread.push(Command::ClusterArrive);
                if numbers.one_in(3) {
                    thread.push(write(0, 4));
                }
                thread.push(Command::ClusterWait);
            }),
            3 => threads.iter_mut().for_each(|thread| thread.push(sync_all(0))),
            _ => {
                phase(numbers, &mut threads, object as u32, phases[object], &arrivers[object]);
                phases[object] += 1;
            }
        }
    }
    if numbers.one_in(8) {
        threads.iter_mut().for_each(|thread| thread.push(sync_all(0)));
        threads[0].push(Command::Object(0, Act::Inval));
        if numbers.one_in(2) {
            threads[0].extend([init(0, 1), arrives(0)]);
        }
    }
    if numbers.one_in(2) {
        let thread = numbers.below(count);
        let at = numbers.below(threads[thread].len() + 1);
        let command = anything(numbers, objects);
        let own = &mut threads[thread];
        match numbers.below(3) {
            0 => own.insert(at, command),
            1 if at < own.len() => drop(own.remove(at)),
            _ if at + 1 < own.len() => own.swap(at, at + 1),
            _ => {}
        }
    }
    Block::new(threads)
}

/// Soundness and completeness, verdict by verdict.
#[test]
fn a_hundred_thousand_programs_of_objects_and_copies_against_every_interleaving() {
    let mut numbers = Numbers(25);
    let mut kinds = BTreeMap::<&str, u32>::new();
    while kinds.values().sum::<u32>() < 100_000 {
        let block = block(&mut numbers);
        if block.threads.iter().map(Vec::len).sum::<usize>() > 13 {
            continue;
        }
        *kinds.entry(agree(&block)).or_insert(0) += 1;
    }
    for (kind, least) in [
        ("verified", 10_000),
        ("races", 3000),
        ("deadlock", 3000),
        ("not awaited", 300),
        ("may not be initialized", 500),
        ("not_initialized", 50),
        ("still_valid", 50),
        ("too_many_arrivals", 300),
        ("in use", 50),
        ("early", 500),
        ("waits early", 300),
        ("waits late", 300),
        ("incomplete", 10),
    ] {
        let count = kinds.get(kind).copied().unwrap_or(0);
        assert!(count >= least, "{kind}: {count} of {kinds:?}");
    }
    assert!(kinds.get("unknown").copied().unwrap_or(0) < 1000, "{kinds:?}");
}
