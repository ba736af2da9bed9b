//! Mbarrier objects, copies and the barrier of a cluster: the fast decision against every interleaving.

use std::collections::BTreeMap;

use super::agents::View;
use super::decide::{Verdict, decide, decide_by};
use super::object::Misuse;
use super::phases::Wrong;
use super::program::{
    Access, Act, Addresses, Block, Command, Operation, Programs, Range, Step, Stream, Thread, read, sync_all,
    write,
};
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
            // Threads that do the same and are of different phases may be so without an error in any interleaving.
            let phases_differ = *what == Misuse::OtherPhase && all.generations.iter().any(|g| g.len() > 1);
            assert!(phases_differ || all.misuses.contains(what.name()), "{what:?}: {block:?}");
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
        let copies = commands(block)
            .into_iter()
            .filter(|&(t, i)| matches!(block.threads[t][i], Command::Copy(_) | Command::Bulk { .. }));
        let mut left = copies.filter(|&(t, i)| {
            !commands(block)
                .into_iter()
                .any(|(u, j)| (u, j) != (t, i) && all.before(all.end(t, i), all.number(u, j)))
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
        _ => [
            init(object, 1),
            Command::Object(object, Act::Inval),
            Command::ClusterArrive,
            Command::ClusterWait,
        ][numbers.below(4)],
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
            0 => {
                own.extend([copy(4 * numbers.below(2) as u32), Command::CopiesArrive { object, inc: false }])
            }
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
    let mut phases = vec![0u32; objects];
    for _ in 0..1 + numbers.below(3) {
        let object = numbers.below(objects);
        match numbers.below(9) {
            0 => {
                let thread = numbers.below(count);
                threads[thread].push(waits(object as u32, phases[object].is_multiple_of(2)));
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
    for event in 0..numbers.below(4) as u32 {
        let (from, to) = (numbers.below(count), numbers.below(count));
        let signal = [write(8, 4), Command::Signal(event)];
        threads[from].extend(&signal[usize::from(numbers.one_in(3))..]);
        let observe = [Command::Observe(event), read(8, 4)];
        threads[to].extend(&observe[..2 - usize::from(numbers.one_in(3))]);
    }
    if numbers.one_in(8) {
        if numbers.one_in(3) {
            threads.iter_mut().for_each(|thread| thread.push(sync_all(0)));
        }
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

/// Rounds of a ring of two stages: a producer and a consumer.
fn ring(rounds: u32, parity: u32, waits_for_empty: bool) -> Vec<Thread> {
    let mut producer = vec![init(0, 1), init(1, 1), init(2, 1), init(3, 1), sync_all(0)];
    let mut consumer = vec![sync_all(0)];
    for round in 0..rounds {
        let (stage, phase) = (round % 2, round / 2);
        if waits_for_empty {
            producer.push(waits(2 + stage, phase % 2 == 0));
        }
        producer.extend([write(8 * stage, 8), arrives(stage)]);
        consumer.push(waits(stage, (phase + parity) % 2 == 1));
        consumer.extend([read(8 * stage, 8), arrives(2 + stage)]);
    }
    vec![producer, consumer]
}

#[test]
fn a_ring_is_right_with_its_parity_and_with_waits_for_empty_stages_only() {
    assert_eq!(verdict(ring(9, 0, true)), Verdict::Verified);
    assert!(matches!(verdict(ring(9, 1, true)), Verdict::Deadlock { .. }));
    let early =
        vec![vec![init(0, 1), sync_all(0), arrives(0), arrives(0)], vec![sync_all(0), waits(0, true)]];
    assert_eq!(wrong(early), [Wrong::WaitsEarly]);
    // The producer is ahead by two phases: parity does not tell them apart, and the consumer waits for ever.
    assert!(matches!(verdict(ring(9, 0, false)), Verdict::Deadlock { .. }));
    let late =
        vec![vec![sync_all(0), waits(0, false)], vec![init(0, 1), sync_all(0), arrives(0), arrives(0)]];
    assert_eq!(wrong(late), [Wrong::WaitsLate]);
}

#[test]
fn phases_wait_for_their_arrivals_and_bytes() {
    let pair = |first: Vec<Command>, second: Vec<Command>| {
        verdict(vec![
            [&[init(0, 1), sync_all(0)], &first[..]].concat(),
            [&[sync_all(0)], &second[..], &[waits(0, false), read(0, 4)]].concat(),
        ])
    };
    assert_eq!(pair(vec![arrives_expecting(0, 4), bulk(0, 0, 4)], vec![]), Verdict::Verified);
    assert_eq!(pair(vec![bulk(0, 0, 4), arrives_expecting(0, 4)], vec![]), Verdict::Verified);
    for wrong in [vec![arrives_expecting(0, 8), bulk(0, 0, 4)], vec![], vec![arrives_expecting(0, 4)]] {
        assert!(matches!(pair(wrong.clone(), vec![]), Verdict::Deadlock { .. }), "{wrong:?}");
    }
    let what = |verdict| match verdict {
        Verdict::Misuse { what, .. } => what,
        other => panic!("{other:?}"),
    };
    let twice = vec![Command::Object(0, Act::Arrive { count: 2, bytes: 0, drop: false })];
    assert_eq!(what(pair(twice, vec![])), Misuse::TooManyArrivals);
    assert_eq!(what(pair(vec![init(0, 1)], vec![])), Misuse::StillValid);
    let ended = vec![arrives(0), Command::Object(0, Act::Inval), arrives(0)];
    assert_eq!(what(pair(ended, vec![])), Misuse::NotInitialized);
    let same =
        vec![vec![init(0, 3), sync_all(0)], vec![sync_all(0), arrives(0)], vec![sync_all(0), arrives(0)]];
    let four = [same.clone(), same[1..].to_vec()].concat();
    assert_eq!(what(verdict(four)), Misuse::OtherPhase);
    assert_eq!(verdict(same), Verdict::Verified);
    assert_eq!(what(verdict(vec![vec![init(0, 0)]])), Misuse::Count);
    assert_eq!(what(verdict(vec![vec![Command::ClusterWait]])), Misuse::NotArrived);
    assert_eq!(what(verdict(vec![vec![Command::ClusterArrive; 2]])), Misuse::ArrivedTwice);
}

#[test]
fn expectations_come_before_the_arrival_that_completes_the_phase() {
    let late = |expects_first: bool| {
        let expects = Command::Object(0, Act::Expect { bytes: 4 });
        let mut first = vec![init(0, 1), sync_all(0)];
        first.extend(if expects_first { [expects, arrives(0)] } else { [arrives(0), expects] });
        first.push(Command::Object(0, Act::Complete { bytes: 4 }));
        vec![first, vec![sync_all(0), waits(0, false)]]
    };
    assert_eq!(verdict(late(true)), Verdict::Verified);
    // Two arrivals: the other thread's may be the last.
    let unordered = vec![
        vec![
            init(0, 1),
            sync_all(0),
            Command::Object(0, Act::Expect { bytes: 4 }),
            Command::Object(0, Act::Complete { bytes: 4 }),
        ],
        vec![sync_all(0), arrives(0), waits(0, false)],
    ];
    assert_eq!(wrong(unordered), [Wrong::Incomplete]);
}

#[test]
fn copies_are_in_flight_until_their_thread_or_a_phase_waits_for_them() {
    let own = |commands: &[Command]| verdict(vec![commands.to_vec()]);
    let [commit, all] = [Command::Commit, Command::Await(None)];
    let group = |newest| Command::Await(Some(newest));
    assert_eq!(own(&[copy(0), commit, group(0), read(0, 4)]), Verdict::Verified);
    assert_eq!(own(&[copy(0), all, read(0, 4)]), Verdict::Verified);
    assert_eq!(own(&[copy(0), commit, copy(4), commit, group(1), read(0, 4), all]), Verdict::Verified);
    for wrong in [
        vec![copy(0), commit, read(0, 4), all],
        vec![copy(0), commit, copy(4), commit, group(1), read(4, 4), all],
        // Nothing is committed, so that there is no group to wait for.
        vec![copy(0), group(0), read(0, 4), all],
        vec![copy(0), copy(0), all],
    ] {
        assert!(matches!(own(&wrong), Verdict::Races(_)), "{wrong:?}");
    }
    assert_eq!(own(&[read(0, 4), write(0, 4), copy(0), all]), Verdict::Verified);
    assert!(matches!(own(&[copy(0), commit]), Verdict::NotAwaited(_)));
    assert!(matches!(own(&[init(0, 1), bulk(0, 0, 4)]), Verdict::NotAwaited(_)));
    // Another thread knows by a barrier behind the wait.
    let two = |first: &[Command]| verdict(vec![first.to_vec(), vec![sync_all(0), read(0, 4)]]);
    assert_eq!(two(&[copy(0), all, sync_all(0)]), Verdict::Verified);
    assert!(matches!(two(&[copy(0), sync_all(0), all]), Verdict::Races(_)));
}

#[test]
fn what_is_relaxed_or_asynchronous_orders_no_accesses_of_its_thread() {
    let programs = |relaxed: [bool; 2], arrival: Operation| {
        let stream = |first_thread, operations: Vec<Operation>| Stream {
            first_thread,
            lanes: 1,
            steps: operations
                .into_iter()
                .zip(0..)
                .map(|(operation, site)| Step { lanes: 1, site, operation })
                .collect(),
        };
        let object = |act, relaxed| Operation::Object { object: 64, act, relaxed };
        let access = |access| Operation::Access {
            access,
            bytes: 4,
            addresses: Addresses::Affine { base: 0, stride: 0 },
        };
        let all = Operation::Sync { barrier: 0, count: None };
        let arrival = match arrival {
            Operation::Object { .. } => object(Act::Arrive { count: 1, bytes: 0, drop: false }, relaxed[0]),
            other => other,
        };
        let first = vec![object(Act::Init { count: 1 }, false), all.clone(), access(Access::Write), arrival];
        let second = vec![all, object(Act::Wait { odd: false }, relaxed[1]), access(Access::Read)];
        Programs { blocks: None, warp_size: 1, streams: vec![stream(0, first), stream(1, second)] }
    };
    let arrive = Operation::Object { object: 64, act: Act::Inval, relaxed: false };
    let decided =
        |relaxed, arrival: &Operation| decide(&programs(relaxed, arrival.clone()), View::Threads).verdict;
    assert_eq!(decided([false, false], &arrive), Verdict::Verified);
    for relaxed in [[true, false], [false, true]] {
        let decision = decide(&programs(relaxed, arrive.clone()), View::Threads);
        let Verdict::Races(races) = &decision.verdict else { panic!("{relaxed:?}: {decision:?}") };
        // One access is executed before the other, but for what memory shows of it.
        let at = |point: super::races::Point| (point.agent, point.operations);
        let (first, second) = (at(races[0].first), at(races[0].second));
        assert!(decision.executes_before(first, second) && !decision.executes_before(second, first));
    }
    // The arrival is of the thread's copies, not of what it wrote itself.
    let copies = Operation::CopiesArrive { object: 64, inc: false };
    assert!(matches!(decided([false, false], &copies), Verdict::Races(_)));
}

#[test]
fn bytes_of_an_object_are_those_of_its_operations() {
    let at = super::program::object_address(0);
    for (other, is_wrong) in [(write(at, 4), true), (read(at + 4, 4), true), (write(at + 8, 4), false)] {
        let found = verdict(vec![vec![init(0, 1), other, arrives(0), waits(0, false)]]);
        match found {
            Verdict::Races(races) => {
                assert!(is_wrong && races.iter().all(|race| race.on_object), "{races:?}")
            }
            other => assert!(!is_wrong, "{other:?}"),
        }
    }
    let ended = vec![init(0, 1), arrives(0), waits(0, false), Command::Object(0, Act::Inval), write(at, 8)];
    assert_eq!(verdict(vec![ended]), Verdict::Verified);
}

#[test]
fn what_is_not_decided_is_said() {
    let block = Block::new(ring(3, 0, true));
    let lockstep = decide(&(&block).into(), View::Lockstep);
    assert!(matches!(&lockstep.verdict, Verdict::Unknown(beyond) if beyond.reason.contains("lockstep")));
    // Expectations that nobody is certain to come behind, and many ways to count them.
    let mut first = vec![init(0, 1), sync_all(0)];
    first.extend([Command::Object(0, Act::Expect { bytes: 4 }); 7]);
    first.extend([Command::Object(0, Act::Complete { bytes: 4 }); 7]);
    let many = vec![first, vec![sync_all(0), arrives(0), waits(0, false)]];
    let Verdict::Unknown(beyond) = verdict(many) else { panic!("it is decided") };
    assert!(beyond.reason.contains("many contributions") && beyond.site == 2, "{beyond:?}");
    let expects = Command::Object(0, Act::Expect { bytes: 1 << 19 });
    let completes = Command::Object(0, Act::Complete { bytes: 1 << 19 });
    let large = vec![init(0, 1), expects, completes, expects, completes, expects, completes, arrives(0)];
    assert!(matches!(verdict(vec![large]), Verdict::Unknown(_)));
}

/// A warp of a pipeline of 32: the first eight fill seven buffers, the others read them.
fn pipeline(warp: u32, rounds: u32) -> Stream {
    const BUFFERS: u32 = 7;
    let mut steps = Vec::new();
    let mut step = |lanes, operation| steps.push(Step { lanes, site: 0, operation });
    let object = |number: u32, act| Operation::Object { object: 0x8000 + 8 * number, act, relaxed: false };
    if warp == 0 {
        for buffer in 0..BUFFERS {
            step(1, object(buffer, Act::Init { count: 256 }));
            step(1, object(8 + buffer, Act::Init { count: 768 }));
        }
    }
    step(u32::MAX, Operation::Sync { barrier: 0, count: None });
    for round in 0..rounds {
        let (slot, phase, writes) = (round % BUFFERS, round / BUFFERS, warp < 8);
        let odd = if writes { phase % 2 == 0 } else { phase % 2 == 1 };
        step(u32::MAX, object(if writes { 8 + slot } else { slot }, Act::Wait { odd }));
        for word in 0..2 {
            let row = if writes { 2 * warp + word } else { (warp + word) % 16 };
            let access = if writes { Access::Write } else { Access::Read };
            let addresses = Addresses::Affine { base: (slot * 16 + row) * 128, stride: 4 };
            step(u32::MAX, Operation::Access { access, bytes: 4, addresses });
        }
        let arrives = Act::Arrive { count: 1, bytes: 0, drop: false };
        step(u32::MAX, object(if writes { slot } else { 8 + slot }, arrives));
    }
    Stream { first_thread: 32 * warp, lanes: u32::MAX, steps }
}

#[test]
fn a_block_of_ten_thousand_phases_and_ten_million_accesses_is_decided() {
    const ROUNDS: u32 = 5000;
    let streams = (0..32).map(|warp| pipeline(warp, ROUNDS)).collect();
    let decision = decide(&Programs { blocks: None, warp_size: 32, streams }, View::Threads);
    assert_eq!(decision.verdict, Verdict::Verified);
    let measures = decision.measures;
    assert_eq!((measures.threads, measures.accesses), (1024, 2048 * u64::from(ROUNDS)));
    assert!(measures.dynamic_barriers >= 10_000 && measures.pairs < 4 * measures.accesses, "{measures:?}");
}
