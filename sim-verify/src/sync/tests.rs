//! The rules of NB by their ids, its programs, and the fast decision against every interleaving.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::agents::{Agents, View};
use super::decide::{Decision, Verdict, decide};
use super::figure4;
use super::order::Position;
use super::program::{
    Access, Addresses, Block, Command, LANES, Operation, Programs, Range, Step, Stream, arrive, atomic, read,
    sync, sync_all, write,
};
use super::search::{Facts, search};
use super::semantics::{Barrier, Configuration, Error, Label};
use super::trace::{End, Trace};

fn start(threads: Vec<Vec<Command>>) -> (Block, Configuration) {
    let block = Block::new(threads);
    let first = Configuration::initial(&block);
    (block, first)
}

/// The step of a thread that does not end in an error.
fn step(block: &Block, from: &Configuration, thread: u8) -> Configuration {
    let (_, next) = from
        .successors(block)
        .into_iter()
        .find(|(label, _)| *label == Label::Thread(thread))
        .unwrap_or_else(|| panic!("thread {thread} has no step in {from:?}"));
    next.unwrap_or_else(|e| panic!("{e:?}"))
}

fn facts(block: &Block) -> Facts {
    search(block, 1 << 20).expect("a small block")
}

fn verdict(block: &Block) -> Verdict {
    decide(&block.into(), View::Threads).verdict
}

#[test]
fn nb_syntax_programs_are_lines_of_four_commands() {
    let block = Block::new(vec![vec![read(0, 8), write(8, 8), arrive(1, 2)], vec![sync(1, 2), sync_all(0)]]);
    let programs = Programs::from(&block);
    assert_eq!(programs.threads(), 2);
    let kinds: Vec<&Operation> = programs.streams[0].steps.iter().map(|step| &step.operation).collect();
    assert!(matches!(kinds[0], Operation::Access { access: Access::Read, bytes: 8, .. }));
    assert!(matches!(kinds[1], Operation::Access { access: Access::Write, .. }));
    assert_eq!(*kinds[2], Operation::Arrive { barrier: 1, count: 2 });
    assert_eq!(programs.streams[1].steps[1].operation, Operation::Sync { barrier: 0, count: None });
    let bytes = |start, bytes| Range { start, bytes };
    assert!(bytes(0, 8).overlaps(bytes(7, 1)) && !bytes(0, 8).overlaps(bytes(8, 8)));
    assert!(bytes(u32::MAX, 4).overlaps(bytes(u32::MAX, 1)));
}

#[test]
fn nb_state_all_threads_are_enabled_and_no_barrier_is_configured() {
    let (block, first) = start(vec![vec![sync(3, 2)], vec![sync(3, 2)]]);
    assert_eq!(first.enabled, [true, true]);
    assert_eq!(first.barriers, vec![Barrier::default(); 4]);
    assert!(!first.done(&block) && first.barriers[3].count.is_none());
}

#[test]
fn nb_step_any_thread_steps_where_no_barrier_is_full() {
    let (block, first) = start(vec![vec![read(0, 4)], vec![arrive(0, 1), read(0, 4)]]);
    let labels: Vec<Label> = first.successors(&block).into_iter().map(|(label, _)| label).collect();
    assert_eq!(labels, [Label::Thread(0), Label::Thread(1)]);
    let full = step(&block, &first, 1);
    let labels: Vec<Label> = full.successors(&block).into_iter().map(|(label, _)| label).collect();
    assert_eq!(labels, [Label::Recycled(0)], "a full barrier is recycled before anybody goes on");
}

#[test]
fn nb_recycle_wakes_who_waits_and_forgets_the_count() {
    let (block, first) = start(vec![vec![sync(0, 2), read(0, 4)], vec![arrive(0, 2)]]);
    let full = step(&block, &step(&block, &first, 0), 1);
    assert_eq!((full.enabled[0], full.points[0]), (false, 0));
    let (label, next) = full.successors(&block).remove(0);
    let next = next.expect("no error");
    assert_eq!(label, Label::Recycled(0));
    assert_eq!((next.enabled[0], next.points[0]), (true, 1));
    assert_eq!(next.barriers[0], Barrier { recycled: 1, ..Barrier::default() });
}

#[test]
fn nb_done_all_threads_return_whatever_the_barriers_hold() {
    let (block, first) = start(vec![vec![arrive(0, 2)], vec![]]);
    let end = step(&block, &first, 0);
    assert!(end.done(&block) && end.barriers[0].registered() == 1);
    assert!(end.successors(&block).is_empty());
    let decision = decide(&(&block).into(), View::Threads);
    assert_eq!(decision.verdict, Verdict::Verified);
    assert_eq!(decision.left_open().count(), 1);
}

#[test]
fn nb_arrivefirst_nb_arrivelater_count_and_go_on() {
    let (block, first) = start(vec![vec![arrive(0, 3)], vec![arrive(0, 3)], vec![]]);
    let one = step(&block, &first, 0);
    assert_eq!(one.barriers[0].count, Some(Some(3)));
    assert_eq!((one.barriers[0].arrives.as_slice(), one.points[0]), (&[0][..], 1));
    let two = step(&block, &one, 1);
    assert_eq!((two.barriers[0].arrives.as_slice(), two.barriers[0].count), (&[0, 1][..], Some(Some(3))));
}

#[test]
fn nb_syncfirst_nb_synclater_count_and_wait() {
    let (block, first) = start(vec![vec![sync(0, 3)], vec![sync(0, 3)], vec![]]);
    let one = step(&block, &first, 0);
    assert_eq!(one.barriers[0].count, Some(Some(3)));
    assert_eq!((one.barriers[0].syncs.as_slice(), one.points[0], one.enabled[0]), (&[0][..], 0, false));
    let two = step(&block, &one, 1);
    assert_eq!(two.barriers[0].syncs, [0, 1]);
    assert!(two.successors(&block).is_empty(), "nobody goes on: a deadlock");
}

#[test]
fn nb_errcount_thread_counts_of_a_use_must_agree() {
    for second in [sync(0, 3), arrive(0, 3)] {
        let (block, first) = start(vec![vec![sync(0, 2)], vec![second]]);
        let one = step(&block, &first, 0);
        let mismatch = Error::CountMismatch { thread: 1, barrier: 0 };
        assert_eq!(one.successors(&block), [(Label::Thread(1), Err(mismatch))]);
        let Verdict::CountMismatch { earlier, later } = verdict(&block) else { panic!("{block:?}") };
        assert_eq!((earlier.agent, later.agent), (0, 1));
    }
    // The number of all threads agrees with no number.
    let block = Block::new(vec![vec![sync_all(0)], vec![sync(0, 2)]]);
    assert_eq!(verdict(&block), Verdict::Verified);
    let block = Block::new(vec![vec![sync_all(0)], vec![sync(0, 2)], vec![]]);
    assert!(matches!(verdict(&block), Verdict::CountMismatch { .. }));
}

#[test]
fn nb_errmany_nobody_registers_at_a_full_barrier() {
    let (block, first) = start(vec![vec![arrive(0, 1)], vec![sync(0, 1)]]);
    let full = step(&block, &first, 0);
    let too_many = Error::TooMany { thread: 1, barrier: 0 };
    let steps = full.successors(&block);
    assert_eq!(steps[0].0, Label::Recycled(0));
    assert_eq!(steps[1], (Label::Thread(1), Err(too_many)));
    assert!(facts(&block).too_many);
    let three = Block::new(vec![vec![sync(0, 2)], vec![sync(0, 2)], vec![sync(0, 2)]]);
    assert!(matches!(verdict(&three), Verdict::TooMany { .. }));
}

/// NB listing 1 [nb-lst1].
#[test]
fn nb_lst1_each_waits_for_the_other() {
    let block = Block::new(vec![vec![sync(0, 2), arrive(1, 2)], vec![sync(1, 2), arrive(0, 2)]]);
    let all = facts(&block);
    assert!(all.deadlock && !all.mismatch && !all.too_many);
    let Verdict::Deadlock { waiting } = verdict(&block) else { panic!("it stops") };
    assert_eq!(waiting.iter().map(|u| (u.agent, u.op)).collect::<Vec<_>>(), [(0, 0), (1, 0)]);
}

/// NB listing 2 [nb-lst2] and the thread programs made of it, figure 3 [nb-fig3].
fn working_example() -> Block {
    Block::new(vec![
        vec![sync(0, 2), write(0, 8), arrive(1, 2), sync(0, 2), sync(1, 2), read(0, 8)],
        vec![sync(0, 2), sync(1, 2), read(0, 8), sync(0, 2), write(0, 8), arrive(1, 2)],
    ])
}

#[test]
fn nb_lst2_nb_fig3_nb_gen_generations_are_those_of_the_figure() {
    let block = working_example();
    let programs = Programs::from(&block);
    let decision = decide(&programs, View::Threads);
    assert_eq!(decision.verdict, Verdict::Verified);
    let (agents, trace) = (decision.agents.expect("agents"), decision.trace.expect("a trace"));
    let generation = |thread: usize| -> Vec<u32> {
        let agent = agents.of_stream[thread][0].0 as usize;
        trace.node_of[agent].iter().map(|&node| trace.nodes[node as usize].generation).collect()
    };
    assert_eq!(generation(0), [1, 1, 2, 2]);
    assert_eq!(generation(1), [1, 1, 2, 2]);
    let all = facts(&block);
    let numbers: Vec<Vec<u32>> = all.generations.iter().map(|g| g.iter().copied().collect()).collect();
    let [none, one, two] = [vec![], vec![1], vec![2]];
    let figure = [&one, &none, &one, &two, &two, &none, &one, &one, &none, &two, &none, &two];
    assert_eq!(numbers.iter().collect::<Vec<_>>(), figure);
}

/// NB figure 5 [nb-fig5].
#[test]
fn nb_fig5_paths_of_the_figure_are_happens_before() {
    let block = working_example();
    let generations = figure4::trace(&block).expect("it ends");
    let relation = figure4::relation(&block, &generations).expect("small");
    // c2 of P: the latest before it in Q is c1, the earliest after it c3.
    assert!(relation.has((1, 0), (0, 1)) && !relation.has((1, 1), (0, 1)));
    assert!(relation.has((0, 1), (1, 2)) && relation.has((0, 1), (1, 1)));
    let all = facts(&block);
    for one in commands(&block) {
        for other in commands(&block) {
            let (a, b) = (all.number(one.0, one.1), all.number(other.0, other.1));
            assert_eq!(relation.has(one, other), all.before(a, b), "{one:?} {other:?}");
        }
    }
}

#[test]
fn nb_bdg_nb_lhb_nb_eha_nb_intervals_of_the_working_example() {
    let block = working_example();
    let mut decision = decide(&(&block).into(), View::Threads);
    let agents = decision.agents.as_ref().expect("agents");
    let [p, q] = [0, 1].map(|thread: usize| agents.of_stream[thread][0].0);
    // Figure 7: n1, then n2 and n3, then n4.
    let trace = decision.trace.as_ref().expect("a trace");
    let shape: Vec<(u32, usize)> = trace
        .completed
        .iter()
        .map(|&n| (trace.nodes[n as usize].generation, trace.nodes[n as usize].parts.len()))
        .collect();
    assert_eq!(shape, [(1, 2), (1, 2), (2, 2), (2, 2)]);
    let order = decision.order.as_ref().expect("an order");
    let first = trace.completed[0];
    assert_eq!((order.before(first, p), order.before(first, q)), (1, 1));
    // The write of P comes behind one operation: what Q does between its first and its second can run with it.
    assert_eq!(decision.between((p, 1), q), Some((1, 2)));
    // The read of Q behind two operations: P's first two lie before it, its third after it.
    assert_eq!(decision.between((q, 2), p), Some((2, 3)));
    assert_eq!(decision.between((p, 4), q), Some((4, u32::MAX)));
}

/// NB figure 2: barrier 2 is used again, which D, E, F, I and D, E, G make safe.
fn heptane(with_third: bool) -> Block {
    let mut warps = vec![
        vec![arrive(0, 2), arrive(2, 2)],
        vec![sync(0, 2), sync(1, 2), sync(2, 2)],
        vec![sync(2, 2), arrive(1, 2), arrive(3, 2)],
        vec![sync(3, 2), arrive(2, 2)],
    ];
    if !with_third {
        warps[2].pop();
        warps[3].remove(0);
    }
    Block::new(warps)
}

#[test]
fn nb_wellsync_figure_2_is_safe_only_by_both_paths() {
    assert_eq!(verdict(&heptane(true)), Verdict::Verified);
    assert!(facts(&heptane(true)).well_synchronized(&heptane(true)));
    let bad = heptane(false);
    assert!(!facts(&bad).well_synchronized(&bad));
    assert!(!matches!(verdict(&bad), Verdict::Verified | Verdict::Races(_)), "{:?}", verdict(&bad));
}

/// What figure 4 as printed lets pass.
#[test]
fn nb_wellsync_as_printed_compares_nothing_where_nobody_waits() {
    let blocks = [
        Block::new(vec![vec![arrive(0, 2)]; 4]),
        Block::new(vec![vec![arrive(0, 2)], vec![sync(0, 2)], vec![arrive(0, 2)], vec![sync(0, 2)]]),
    ];
    for block in blocks {
        assert!(!facts(&block).well_synchronized(&block));
        if let Some(generations) = figure4::trace(&block) {
            let relation = figure4::relation(&block, &generations).expect("small");
            assert!(figure4::well_sync(&block, &generations, &relation, true));
            assert!(!figure4::well_sync(&block, &generations, &relation, false));
        }
        assert!(!matches!(verdict(&block), Verdict::Verified | Verdict::Races(_)));
    }
}

/// NB listing 3 [nb-lst3]: the transfer of the next tile is started before the last read of this one.
#[test]
fn nb_lst3_nb_racefree_a_buffer_is_given_away_before_its_last_read() {
    let pipeline = |early: bool| {
        let (mut compute, mut transfer) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            compute.push(sync(1, 2));
            compute.push(read(0, 8));
            match early {
                true => compute.extend([arrive(0, 2), read(8, 8)]),
                false => compute.extend([read(8, 8), arrive(0, 2)]),
            }
            transfer.extend([write(0, 8), write(8, 8), arrive(1, 2), sync(0, 2)]);
        }
        Block::new(vec![compute, transfer])
    };
    assert_eq!(verdict(&pipeline(false)), Verdict::Verified);
    let Verdict::Races(races) = verdict(&pipeline(true)) else { panic!("it races") };
    let bytes: BTreeSet<u32> = races.iter().map(|race| race.second.range.start).collect();
    assert_eq!(bytes, [8].into());
    assert!(races.iter().all(|race| race.first.access.conflicts(race.second.access)));
}

/// Lanes of one warp, with these steps.
fn warp(steps: Vec<(u32, Operation)>) -> Programs {
    let step =
        |(site, (lanes, operation)): (usize, (u32, Operation))| Step { lanes, site: site as u32, operation };
    let steps = steps.into_iter().enumerate().map(step).collect();
    Programs {
        blocks: None,
        warp_size: 32,
        streams: vec![Stream { first_thread: 0, lanes: u32::MAX, steps }],
    }
}

fn access(access: Access, base: u32, stride: u32) -> Operation {
    Operation::Access { access, bytes: 4, addresses: Addresses::Affine { base, stride } }
}

#[test]
fn nb_warpsync_warps_in_lockstep_need_no_barrier_between_their_lanes() {
    // The last rounds of a reduction without synchronization.
    let steps = |meet: Option<bool>| {
        let mut steps = Vec::new();
        for stride in [2u32, 1] {
            steps.push((u32::MAX, access(Access::Write, 0, 4)));
            if let Some(orders_memory) = meet {
                steps.push((u32::MAX, Operation::Meet { mask: u32::MAX, orders_memory }));
            }
            steps.push((u32::MAX, access(Access::Read, 4 * stride, 4)));
            if let Some(orders_memory) = meet {
                steps.push((u32::MAX, Operation::Meet { mask: u32::MAX, orders_memory }));
            }
        }
        warp(steps)
    };
    assert_eq!(decide(&steps(None), View::Lockstep).verdict, Verdict::Verified);
    for unordered in [None, Some(false)] {
        assert!(matches!(decide(&steps(unordered), View::Threads).verdict, Verdict::Races(_)));
    }
    for view in [View::Lockstep, View::Threads] {
        assert_eq!(decide(&steps(Some(true)), view).verdict, Verdict::Verified);
    }
    // Two lanes of one instruction.
    let same = warp(vec![(3, access(Access::Write, 0, 0))]);
    for view in [View::Lockstep, View::Threads] {
        assert!(matches!(decide(&same, view).verdict, Verdict::Races(_)), "{view:?}");
    }
}

#[test]
fn a_warp_counts_whole_at_a_barrier_once_its_other_lanes_have_returned() {
    let sync = Operation::Sync { barrier: 0, count: Some(64) };
    let stream = |first_thread, lanes, steps: Vec<(u32, Operation)>| Stream {
        first_thread,
        lanes,
        steps: steps.into_iter().map(|(lanes, operation)| Step { lanes, site: 0, operation }).collect(),
    };
    let whole = stream(0, u32::MAX, vec![(u32::MAX, sync.clone())]);
    let part = stream(32, u32::MAX, vec![(0xff, sync.clone())]);
    let programs = Programs { blocks: None, warp_size: 32, streams: vec![whole.clone(), part] };
    assert_eq!(decide(&programs, View::Threads).verdict, Verdict::Verified);
    let small = stream(32, 0xffff, vec![(0xffff, sync.clone())]);
    let programs = Programs { blocks: None, warp_size: 32, streams: vec![whole.clone(), small] };
    assert_eq!(decide(&programs, View::Threads).verdict, Verdict::Verified);
    let other = Operation::Arrive { barrier: 1, count: 64 };
    let mixed = stream(32, 0xffff, vec![(0xff, sync), (0xff00, other)]);
    let programs = Programs { blocks: None, warp_size: 32, streams: vec![whole, mixed] };
    assert!(matches!(decide(&programs, View::Threads).verdict, Verdict::Unknown(_)));
}

#[test]
fn atomics_race_with_others_only() {
    let block = Block::new(vec![vec![atomic(0, 4)], vec![atomic(0, 4)]]);
    assert_eq!(verdict(&block), Verdict::Verified);
    for other in [read(0, 4), write(2, 2)] {
        assert!(matches!(verdict(&Block::new(vec![vec![atomic(0, 4)], vec![other]])), Verdict::Races(_)));
        assert!(matches!(verdict(&Block::new(vec![vec![other], vec![atomic(0, 4)]])), Verdict::Races(_)));
    }
}

#[test]
fn addresses_are_kept_short_where_they_can_be() {
    let each: [u32; LANES] = std::array::from_fn(|lane| 400 - 8 * lane as u32);
    assert_eq!(Addresses::of(u32::MAX, &each), Addresses::Affine { base: 400, stride: 8u32.wrapping_neg() });
    let mut odd = each;
    odd[7] = 3;
    for lanes in [u32::MAX, 0x80, 0x8000_0080, 0x180, 0] {
        let short = Addresses::of(lanes, &odd);
        for lane in (0..32).filter(|lane| lanes >> lane & 1 == 1) {
            assert_eq!(short.at(lane), odd[lane as usize], "{lanes:#x} {lane}");
        }
    }
    assert!(matches!(Addresses::of(u32::MAX, &odd), Addresses::Each(_)));
    assert!(matches!(Addresses::of(!0x80, &odd), Addresses::Affine { .. }));
}

pub(super) fn commands(block: &Block) -> Vec<(usize, usize)> {
    let threads = block.threads.iter().enumerate();
    threads.flat_map(|(t, of)| (0..of.len()).map(move |i| (t, i))).collect()
}

/// The position of a command in the program of its agent.
pub(super) fn position(decision: &Decision, block: &Block, (thread, at): (usize, usize)) -> (u32, Position) {
    let agent = decision.agents.as_ref().expect("agents").of_stream[thread][0].0;
    let operation = |c: &&Command| !matches!(c, Command::Access(..));
    let before = block.threads[thread][..at].iter().filter(operation).count() as u32;
    match block.threads[thread][at] {
        Command::Access(..) => (agent, Position::Access(before)),
        _ => (agent, Position::Operation(before)),
    }
}

/// The verdict of the fast decision, of figure 4 and of every interleaving, and happens-before for each pair of commands.
fn agree(block: &Block) -> &'static str {
    let all = facts(block);
    let mut decision = decide(&block.into(), View::Threads);
    let well = all.well_synchronized(block);
    if let Some(generations) = figure4::trace(block) {
        let relation = figure4::relation(block, &generations).expect("small");
        assert_eq!(figure4::well_sync(block, &generations, &relation, false), well, "figure 4: {block:?}");
    } else {
        assert!(!well, "figure 4: {block:?}");
    }
    let verdict = decision.verdict.clone();
    assert_eq!(matches!(verdict, Verdict::Verified | Verdict::Races(_)), well, "{verdict:?}: {block:?}");
    let kind = match &verdict {
        Verdict::Verified => "verified",
        Verdict::Deadlock { waiting } => {
            assert!(all.deadlock && !waiting.is_empty(), "{block:?}");
            "deadlock"
        }
        Verdict::CountMismatch { .. } => {
            assert!(all.mismatch, "{block:?}");
            "mismatch"
        }
        Verdict::TooMany { .. } => {
            assert!(all.too_many, "{block:?}");
            "too many"
        }
        Verdict::Recycling(found) => {
            assert!(!found.is_empty(), "{block:?}");
            "recycling"
        }
        Verdict::Races(_) => "races",
        other => panic!("{other:?}: {block:?}"),
    };
    if !well {
        return kind;
    }
    let races = all.races(block);
    for one in commands(block) {
        for other in commands(block).into_iter().filter(|other| other.0 != one.0) {
            let (a, b) = (all.number(one.0, one.1), all.number(other.0, other.1));
            let (from, to) = (position(&decision, block, one), position(&decision, block, other));
            let before = decision.happens_before(from, to).expect("an order");
            assert_eq!(before, all.before(a, b), "{one:?} {other:?}: {block:?}");
            let (Position::Access(x), Position::Access(y)) = (from.1, to.1) else { continue };
            let (least, most) = decision.between((from.0, x), to.0).expect("an order");
            let parallel = !all.before(a, b) && !all.before(b, a);
            assert_eq!((least..most).contains(&y), parallel, "interval of {one:?}, {other:?}: {block:?}");
        }
    }
    let found: &[_] = if let Verdict::Races(found) = &verdict { found } else { &[] };
    assert_eq!(found.is_empty(), races.is_empty(), "{races:?}: {block:?}");
    // Each byte that races is found, and what is found is a race.
    for race in found {
        let key = |p: &super::races::Point| (p.thread as usize, p.site as usize);
        let (one, other) = (key(&race.first), key(&race.second));
        assert!(races.contains(&(one.min(other), one.max(other))), "{race:?}: {block:?}");
    }
    kind
}

/// Blocks of 2 to 4 threads with up to 3 barriers. Purely random ones deadlock most of the time: half of them begin with
/// threads that meet, and then lose, gain or exchange a command.
fn block() -> impl Strategy<Value = Block> {
    let command = prop_oneof![
        3 => (0u32..3, 0u32..3).prop_map(|(b, n)| arrive(b, n.max(1))),
        3 => (0u32..3, 1u32..4).prop_map(|(b, n)| sync(b, n)),
        1 => (0u32..2).prop_map(sync_all),
        1 => (0u32..3).prop_map(|g| read(2 * g, 4)),
        2 => (0u32..3).prop_map(|g| write(2 * g, 2)),
        1 => (0u32..2).prop_map(|g| atomic(2 * g, 4)),
    ];
    let random = prop::collection::vec(prop::collection::vec(command.clone(), 0..5), 2..5);
    let meeting = (
        0u32..3,
        0u8..16,
        0u8..16,
        any::<bool>(),
        prop::collection::vec((0u8..4, 0u32..3, any::<bool>()), 0..3),
    );
    let meetings = (
        2usize..5,
        prop::collection::vec(meeting, 1..5),
        prop::option::weighted(0.5, (0usize..4, 0usize..5, command, 0u8..3)),
    );
    let planned = meetings.prop_map(|(threads, meetings, change)| {
        let mut block = vec![Vec::new(); threads];
        for (barrier, members, waiting, all, accesses) in meetings {
            for (thread, place, writes) in accesses {
                let at = if writes { write(2 * place, 2) } else { read(2 * place, 4) };
                block[usize::from(thread) % threads].push(at);
            }
            let members: Vec<usize> = (0..threads).filter(|t| all || members >> t & 1 == 1).collect();
            for &thread in &members {
                let count = members.len() as u32;
                block[thread].push(match waiting >> thread & 1 {
                    _ if all => sync_all(barrier),
                    1 => sync(barrier, count),
                    _ => arrive(barrier, count),
                });
            }
        }
        if let Some((thread, at, command, how)) = change {
            let thread = &mut block[thread % threads];
            let at = at.min(thread.len());
            match how {
                0 => thread.insert(at, command),
                1 if at < thread.len() => drop(thread.remove(at)),
                _ if at + 1 < thread.len() => thread.swap(at, at + 1),
                _ => {}
            }
        }
        Block::new(block)
    });
    prop_oneof![1 => random.prop_map(Block::new), 3 => planned]
}

/// Soundness and completeness (NB definitions 9 and 10, theorem 1, lemma 1), verdict by verdict.
#[test]
fn nb_wellsync_nb_racefree_a_hundred_thousand_programs_against_every_interleaving() {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[25; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let blocks = block();
    let mut kinds = std::collections::BTreeMap::<&str, u32>::new();
    while kinds.values().sum::<u32>() < 100_000 {
        let block = blocks.new_tree(&mut runner).expect("a block").current();
        if block.threads.iter().map(Vec::len).sum::<usize>() > 14 {
            continue;
        }
        *kinds.entry(agree(&block)).or_insert(0) += 1;
    }
    for kind in ["verified", "deadlock", "mismatch", "too many", "recycling", "races"] {
        let count = kinds.get(kind).copied().unwrap_or(0);
        assert!(count > 200, "{kind}: {count} of {kinds:?}");
    }
}

#[test]
fn a_deadlock_has_a_schedule_that_leads_to_it() {
    let block = Block::new(vec![vec![sync(0, 2), sync(1, 2)], vec![sync(0, 2)], vec![]]);
    let agents = Agents::new(&(&block).into(), View::Threads).expect("agents");
    let run = Trace::new(&agents);
    assert_eq!(run.end, End::Deadlock);
    assert_eq!(run.schedule, [0, 1, 0]);
}

/// 1,024 threads in 32 warps, two uses of barriers a round, 2,048 accesses a round.
#[test]
fn a_block_of_ten_thousand_dynamic_barriers_and_ten_million_accesses_is_decided() {
    const ROUNDS: u32 = 5000;
    let stream = |warp: u32| {
        let mut steps = Vec::new();
        let mut step = |operation| steps.push(Step { lanes: u32::MAX, site: 0, operation });
        for round in 0..ROUNDS {
            let (slot, writes) = (round % 7, warp < 8);
            let (full, empty, count) = (1 + slot, 8 + slot, 1024);
            match writes {
                true if round >= 7 => step(Operation::Sync { barrier: empty, count: Some(count) }),
                true => {}
                false => step(Operation::Sync { barrier: full, count: Some(count) }),
            }
            for word in 0..2 {
                let row = if writes { 2 * warp + word } else { (warp + word) % 16 };
                let kind = if writes { Access::Write } else { Access::Read };
                step(access(kind, (slot * 16 + row) * 128, 4));
            }
            match writes {
                true => step(Operation::Arrive { barrier: full, count }),
                false if round + 7 < ROUNDS => step(Operation::Arrive { barrier: empty, count }),
                false => {}
            }
        }
        Stream { first_thread: 32 * warp, lanes: u32::MAX, steps }
    };
    let programs = Programs { blocks: None, warp_size: 32, streams: (0..32).map(stream).collect() };
    let Decision { verdict, measures, .. } = decide(&programs, View::Threads);
    assert_eq!(verdict, Verdict::Verified);
    assert_eq!((measures.threads, measures.accesses), (1024, 2048 * u64::from(ROUNDS)));
    assert!(measures.dynamic_barriers > 9_990, "{measures:?}");
    assert!(measures.pairs < 2 * measures.accesses, "near-linear: {measures:?}");
}
