//! Clusters: blocks whose threads have named barriers of their own and one barrier for all; and what goes on beside threads
//! but `cp.async`.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::agents::View;
use super::decide::{Decision, Verdict, decide};
use super::program::{
    Access, Addresses, Block, Blocks, Command, Operation, Programs, Queue, Step, Stream, read, sync,
    sync_all, write,
};

/// The threads of two blocks of a cluster. Their shared memory lies at one address here, so that they meet there too.
fn cluster(blocks: [Vec<Vec<Command>>; 2]) -> Programs {
    const THREADS: u32 = 8;
    let first = |rank: usize, thread: usize| rank as u32 * THREADS + thread as u32;
    let streams = blocks.into_iter().enumerate().flat_map(|(rank, threads)| {
        let mut own = Programs::from(&Block::new(threads));
        own.streams
            .iter_mut()
            .enumerate()
            .for_each(|(thread, stream)| stream.first_thread = first(rank, thread));
        own.streams
    });
    Programs {
        blocks: Some(Blocks { threads: THREADS, bytes: 1 << 16 }),
        warp_size: 1,
        streams: streams.collect(),
    }
}

fn verdict(programs: &Programs) -> Verdict {
    decide(programs, View::Threads).verdict
}

const ARRIVE: Command = Command::ClusterArrive;
const WAIT: Command = Command::ClusterWait;

#[test]
fn all_threads_are_those_of_the_block_at_its_barriers_and_those_of_the_cluster_at_its_own() {
    let meets = vec![sync_all(0), ARRIVE, WAIT];
    assert_eq!(verdict(&cluster([vec![meets.clone(); 2], vec![vec![ARRIVE, WAIT]; 2]])), Verdict::Verified);
    // Threads of one block alone would wait for each other.
    let one = Block::new([vec![meets; 2], vec![vec![ARRIVE, WAIT]; 2]].concat());
    assert!(matches!(verdict(&(&one).into()), Verdict::Deadlock { .. }));
    assert!(matches!(
        verdict(&cluster([
            vec![vec![ARRIVE, WAIT]],
            vec![vec![ARRIVE, WAIT, ARRIVE, WAIT], vec![ARRIVE, sync(0, 2)]]
        ])),
        Verdict::Deadlock { .. }
    ));
}

#[test]
fn only_the_barrier_of_the_cluster_orders_accesses_of_two_blocks() {
    let writes = |between: &[Command]| [&[write(0, 4)][..], between].concat();
    let reads = |between: &[Command]| [between, &[read(0, 4)][..]].concat();
    let both = |between: &[Command]| verdict(&cluster([vec![writes(between)], vec![reads(between)]]));
    assert_eq!(both(&[ARRIVE, WAIT]), Verdict::Verified);
    for between in [&[sync_all(0)][..], &[sync(0, 1)], &[]] {
        assert!(matches!(both(between), Verdict::Races(_)), "{between:?}");
    }
    let early = cluster([vec![vec![write(0, 4), ARRIVE, WAIT]], vec![vec![ARRIVE, read(0, 4), WAIT]]]);
    assert!(matches!(verdict(&early), Verdict::Races(_)));
}

/// Where barriers are used wrongly, which wrong is found first depends on the order of threads.
fn kind(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Verified => "verified",
        Verdict::Races(_) => "races",
        _ => "wrong",
    }
}

/// Two blocks whose barriers have the same numbers are one whose barriers have different ones.
#[test]
fn named_barriers_of_blocks_are_barriers_with_other_numbers() {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[26; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let command = prop_oneof![
        2 => (0u32..2, 1u32..3).prop_map(|(b, n)| super::program::arrive(b, n)),
        4 => (0u32..2, 1u32..3).prop_map(|(b, n)| sync(b, n)),
        2 => (0u32..3).prop_map(|g| read(2 * g, 4)),
        2 => (0u32..3).prop_map(|g| write(2 * g, 2)),
        2 => Just(ARRIVE),
        3 => Just(WAIT),
    ];
    let threads = prop::collection::vec(prop::collection::vec(command, 0..6), 1..4);
    let blocks = (threads.clone(), threads);
    let mut kinds = std::collections::BTreeMap::<&str, u32>::new();
    for _ in 0..20_000 {
        let (one, other) = prop::strategy::ValueTree::current(&blocks.new_tree(&mut runner).expect("blocks"));
        // An arrival before each wait, as half of them would be misuse.
        let paired = |threads: Vec<Vec<Command>>| -> Vec<Vec<Command>> {
            let pair = |command| if command == WAIT { vec![ARRIVE, WAIT] } else { vec![command] };
            threads
                .into_iter()
                .map(|thread| thread.into_iter().filter(|c| *c != ARRIVE).flat_map(pair).collect())
                .collect()
        };
        let blocks = [paired(one), paired(other)];
        let renamed = |command: &Command| match *command {
            Command::Arrive { barrier, count } => Command::Arrive { barrier: barrier + 4, count },
            Command::Sync { barrier, count } => Command::Sync { barrier: barrier + 4, count },
            other => other,
        };
        let second = blocks[1].iter().map(|thread| thread.iter().map(renamed).collect());
        let alone = Block::new(blocks[0].iter().cloned().chain(second).collect());
        let (cluster, alone) = (verdict(&cluster(blocks.clone())), verdict(&(&alone).into()));
        assert_eq!(kind(&cluster), kind(&alone), "{cluster:?} {alone:?}: {blocks:?}");
        if let (Verdict::Races(one), Verdict::Races(other)) = (&cluster, &alone) {
            assert_eq!(one.len(), other.len(), "{blocks:?}");
        }
        *kinds.entry(kind(&cluster)).or_insert(0) += 1;
    }
    for kind in ["verified", "wrong", "races"] {
        assert!(kinds.get(kind).is_some_and(|count| *count > 200), "{kinds:?}");
    }
}

/// A warp that executes these.
fn warp(number: u32, operations: &[Operation]) -> Stream {
    let step =
        |(site, operation): (u32, &Operation)| Step { lanes: u32::MAX, site, operation: operation.clone() };
    let steps = (0..).zip(operations).map(step).collect();
    Stream { first_thread: 32 * number, lanes: u32::MAX, steps }
}

fn at(base: u32) -> Addresses {
    Addresses::Affine { base, stride: 0 }
}

fn begins(queue: Queue, base: u32) -> Operation {
    Operation::Copy { queue, more: false, bytes: 16, addresses: at(base) }
}

fn access(access: Access, base: u32) -> Operation {
    Operation::Access { access, bytes: 4, addresses: at(base) }
}

fn decided(streams: Vec<Stream>) -> Decision {
    decide(&Programs { blocks: None, warp_size: 32, streams }, View::Threads)
}

const SYNC: Operation = Operation::Sync { barrier: 0, count: None };

fn commit(queue: Queue) -> Operation {
    Operation::Commit { queue }
}

fn wait(queue: Queue, newest: u8) -> Operation {
    Operation::Await { queue, newest: Some(newest) }
}

/// One thread of the first warp writes after all.
fn writer(number: u32, before: &[Operation], to: u32) -> Stream {
    let mut stream = warp(number, before);
    stream.steps.push(Step { lanes: 1, site: 99, operation: access(Access::Write, to) });
    stream
}

#[test]
fn sources_of_stores_and_products_are_read_until_their_group_is_awaited() {
    for queue in [Queue::Stores, Queue::Products] {
        let (begins, commit) = (|base| begins(queue, base), commit(queue));
        let two = |own: &[Operation], to: u32| decided(vec![warp(0, own), writer(1, &[SYNC], to)]).verdict;
        let all = [begins(0), commit.clone(), begins(64), commit.clone()];
        let with = |more: &[Operation]| [&all[..], more].concat();
        assert_eq!(two(&with(&[wait(queue, 0), SYNC]), 64), Verdict::Verified, "{queue:?}");
        assert_eq!(two(&with(&[wait(queue, 1), SYNC, wait(queue, 0)]), 0), Verdict::Verified);
        for (more, to) in [(&[wait(queue, 1), SYNC, wait(queue, 0)][..], 64), (&[SYNC, wait(queue, 0)], 0)] {
            assert!(matches!(two(&with(more), to), Verdict::Races(_)), "{queue:?} {more:?}");
        }
        // Groups of one queue say nothing of another.
        let other = if queue == Queue::Stores { Queue::Products } else { Queue::Stores };
        assert!(matches!(two(&with(&[wait(other, 0), SYNC, wait(queue, 0)]), 0), Verdict::Races(_)));
        // Its thread itself is no exception, and reads are none.
        assert!(matches!(
            decided(vec![writer(0, &[begins(0), commit.clone()], 0)]).verdict,
            Verdict::Races(_)
        ));
        let reads = [begins(0), access(Access::Read, 0), commit.clone(), wait(queue, 0)];
        assert_eq!(decided(vec![warp(0, &reads)]).verdict, Verdict::Verified);
        // A later read of the thread does not stand for the copy, which goes on.
        let reads = [begins(0), commit.clone(), access(Access::Read, 0), SYNC, wait(queue, 0)];
        assert!(matches!(two(&reads, 0), Verdict::Races(_)));
    }
    // Shared memory must outlast the stores; of products nobody sees the rest.
    assert!(matches!(decided(vec![warp(0, &[begins(Queue::Stores, 0)])]).verdict, Verdict::NotAwaited(_)));
    assert_eq!(decided(vec![warp(0, &[begins(Queue::Products, 0)])]).verdict, Verdict::Verified);
}

/// A product is one of the four warps of a group: who waits for it knows that it has read all, and that the others have
/// issued their parts.
#[test]
fn who_waits_for_a_product_waits_for_the_parts_of_its_warpgroup() {
    let queue = Queue::Products;
    let part = |event| {
        vec![
            begins(queue, 16 * event),
            Operation::Signal { event, relaxed: true },
            commit(queue),
            wait(queue, 0),
        ]
    };
    // One lane signals.
    let warp = |number: u32, operations: &[Operation]| {
        let mut stream = warp(number, operations);
        for step in &mut stream.steps {
            if matches!(step.operation, Operation::Signal { .. }) {
                step.lanes = 1;
            }
        }
        stream
    };
    let group = |first: u32, also: &[Operation]| {
        let others = (1..4).map(|event| Operation::Observe { event, relaxed: true });
        let waits: Vec<Operation> = part(0).into_iter().chain(others).chain(also.iter().cloned()).collect();
        let rest = (1..4).map(|number| warp(first + number, &part(number)));
        std::iter::once(warp(first, &waits)).chain(rest).collect::<Vec<_>>()
    };
    let tells = Operation::Arrive { barrier: 1, count: 64 };
    let hears = Operation::Sync { barrier: 1, count: Some(64) };
    let with = |also: &[Operation], to| {
        let mut streams = group(0, also);
        streams.push(writer(4, std::slice::from_ref(&hears), to));
        decided(streams).verdict
    };
    for part in 0..4 {
        assert_eq!(with(std::slice::from_ref(&tells), 16 * part), Verdict::Verified, "part {part}");
    }
    // Of another group nothing is known.
    let mut streams = group(0, std::slice::from_ref(&tells));
    streams.push(warp(4, &[begins(queue, 256), commit(queue), wait(queue, 0)]));
    streams.push(writer(8, &[hears], 256));
    assert!(matches!(decided(streams).verdict, Verdict::Races(_)));
}
