use super::Command::{Activate, Precharge, Read, Refresh, Write};
use super::*;
use crate::programs::Choice;
use crate::spec::WriteQueueSpec;

fn spec(standard: &str, timing: &[(&str, u32)]) -> DramSpec {
    DramSpec {
        banks: 16,
        bank_groups: 4,
        row_bytes: 2048,
        group_interleave_bytes: 2048,
        burst_bytes: 32,
        burst_cycles: 2,
        latency: 0,
        queue: 64,
        write_queue: WriteQueueSpec { entries: 16, high: 12, low: 4 },
        overtaking_limit: 64,
        standard: Choice::from(standard.to_string()),
        timing: timing.iter().map(|(name, cycles)| ((*name).to_string(), *cycles)).collect(),
    }
}

fn gddr5() -> DramSpec {
    spec(
        "gddr5",
        &[
            ("CCD", 2),
            ("CCDL", 3),
            ("RRD", 6),
            ("FAW", 27),
            ("RCD", 12),
            ("RAS", 28),
            ("RP", 11),
            ("RC", 40),
            ("CL", 13),
            ("WL", 4),
            ("CDLR", 5),
            ("WR", 14),
            ("RTPL", 7),
            ("TURN", 1),
            ("REFI", 100_000),
            ("RFC", 61),
        ],
    )
}

fn hbm2() -> DramSpec {
    spec(
        "hbm2",
        &[
            ("CCD", 1),
            ("CCDL", 4),
            ("RRD", 3),
            ("RRDL", 5),
            ("FAW", 17),
            ("RCD", 12),
            ("RAS", 28),
            ("RP", 11),
            ("RC", 40),
            ("CL", 13),
            ("WL", 2),
            ("CDLR", 3),
            ("WTRL", 6),
            ("WR", 10),
            ("RTPL", 8),
            ("TURN", 1),
            ("REFI", 160_000),
            ("RFCSB", 136),
            ("RREFD", 7),
        ],
    )
}

fn gddr6() -> DramSpec {
    let timing = [
        ("CCD", 2),
        ("CCDL", 3),
        ("RRD", 6),
        ("RRDL", 7),
        ("FAW", 28),
        ("RCD", 26),
        ("RCDWR", 16),
        ("RAS", 53),
        ("RP", 25),
        ("RC", 79),
        ("CL", 24),
        ("WL", 5),
        ("CDLR", 9),
        ("WTRL", 11),
        ("WR", 27),
        ("RTPL", 4),
        ("TURN", 1),
        ("REFI", 160_000),
        ("RFCPB", 105),
        ("RREFD", 14),
    ];
    spec("gddr6", &timing)
}

fn channel(spec: &DramSpec) -> DramChannel {
    DramChannel::new(spec, Arc::new(DramTimings::of(spec).expect("parameters fit")))
}

fn read(tag: u32, address: u64) -> DramRequest {
    DramRequest { tag: Some(tag), address, bursts: 1, write: false }
}

fn write(address: u64) -> DramRequest {
    DramRequest { tag: None, address, bursts: 1, write: true }
}

/// Serves all requests; returns (tag, end) in the order of service.
fn serve(channel: &mut DramChannel) -> Vec<(u32, u64)> {
    let mut out = Vec::new();
    while let Some(at) = channel.next_decision() {
        if let Some((request, end)) = channel.choose(at) {
            out.push((request.tag.unwrap_or(u32::MAX), end));
        }
    }
    out
}

/// The first address of a row of a bank, when a piece is a whole row.
fn at(bank: u64, row: u64) -> u64 {
    let found = (0..1 << 12).map(|page| page * 2048).find(|&address| {
        let channel = channel(&gddr5());
        channel.place(address) == (bank as usize, row)
    });
    found.expect("every bank has the row")
}

/// Every row of the standards at n − 1 and n: the second command, asked for one cycle too early,
/// is moved to the cycle of the constraint; asked for then or later, it is not moved.
#[test]
fn each_constraint_holds_to_the_cycle() {
    let mut rows = 0;
    for spec in [gddr5(), gddr6(), hbm2()] {
        let timings = DramTimings::of(&spec).expect("parameters fit");
        for rule in &timings.constraints {
            // The least distance between these two commands at this level, from the rows alone.
            let alike = |other: &&Constraint| {
                let reaches = match rule.level {
                    Level::Bank => true,
                    Level::BankGroup => other.level != Level::Bank,
                    Level::Channel => other.level == Level::Channel,
                };
                let same = (other.preceding, other.following) == (rule.preceding, rule.following);
                reaches && same && other.window == rule.window
            };
            let distance = timings.constraints.iter().filter(alike).map(|row| row.latency).max();
            let distance = distance.expect("the row itself");
            // Banks 0, 4, 8, 12 are a group; refreshes of a channel name bank 0.
            let second = match rule.level {
                Level::Bank => 0,
                Level::BankGroup => 4,
                Level::Channel => 1,
            };
            let run = |ask: u64| {
                let mut channel = channel(&spec);
                let rules = &mut Arc::make_mut(&mut channel.timings).rules.preceding[rule.preceding as usize];
                for held in rules.iter_mut() {
                    let other = if rule.window == 1 { &mut held.windows } else { &mut held.last };
                    other.clear();
                }
                let rules = rules.clone();
                let note = |channel: &mut DramChannel, level: usize, at: u64| {
                    let place = channel.places_of(0)[level];
                    channel.allowed.note(place, rule.preceding, at, &rules[level]);
                };
                // A window's first command, and those between, far from any other rule.
                (0..3).for_each(|level| note(&mut channel, level, 1000));
                (1..rule.window as u64).for_each(|between| note(&mut channel, 2, 1000 + between));
                channel.issue(rule.following, second, ask) - 1000
            };
            for (ask, expected) in [(1000, distance), (999 + distance, distance), (1000 + distance, distance)]
            {
                assert_eq!(run(ask.max(1000)), expected, "{rule:?}");
            }
            assert_eq!(run(1001 + distance), distance + 1, "{rule:?}");
            rows += 1;
        }
    }
    assert!(rows >= 60, "{rows}");
}

/// A first command, a second one, the bank of the second, and the least distance of the two. The first has bank 0.
type Distance = (Command, Command, usize, u64);

fn check_distances(spec: &DramSpec, cases: &[Distance]) {
    for &(first, second, bank, distance) in cases {
        let mut channel = channel(spec);
        let start = channel.issue(first, 0, 100);
        assert_eq!(channel.issue(second, bank, 100) - start, distance, "{first:?} {second:?} {bank}");
    }
}

/// The distances a datasheet reader expects, computed from the parameters by hand.
#[test]
fn distances_of_gddr5_by_hand() {
    let cases = [
        (Activate, Read, 0, 12),
        (Activate, Write, 0, 12),
        (Activate, Precharge, 0, 28),
        (Activate, Activate, 0, 40),
        (Precharge, Activate, 0, 11),
        (Activate, Activate, 1, 6),
        (Read, Read, 4, 3),
        (Read, Read, 1, 2),
        (Write, Write, 4, 3),
        (Write, Write, 1, 2),
        (Write, Read, 1, 4 + 2 + 5),
        (Read, Write, 1, 13 + 2 + 1 - 4),
        (Write, Precharge, 0, 4 + 2 + 14),
        (Read, Precharge, 0, 7),
        (Precharge, Refresh, 0, 11),
        (Refresh, Activate, 9, 61),
    ];
    check_distances(&gddr5(), &cases);
}

/// A write comes sooner behind an activate than a read, and a refresh holds back its bank only.
#[test]
fn distances_of_gddr6_by_hand() {
    let cases = [
        (Activate, Read, 0, 26),
        (Activate, Write, 0, 16),
        (Activate, Activate, 1, 6),
        (Activate, Activate, 4, 7),
        (Activate, Refresh, 0, 79),
        (Activate, Refresh, 1, 6),
        (Write, Read, 1, 5 + 2 + 9),
        (Write, Read, 4, 5 + 2 + 11),
        (Read, Write, 1, 24 + 2 + 1 - 5),
        (Refresh, Activate, 0, 105),
        (Refresh, Activate, 1, 14),
        (Refresh, Refresh, 9, 14),
    ];
    check_distances(&gddr6(), &cases);
}

#[test]
fn four_activates_fill_a_window() {
    let mut channel = channel(&gddr5());
    let times: Vec<u64> = (0..6).map(|bank| channel.issue(Activate, bank, 50)).collect();
    assert_eq!(times, vec![50, 56, 62, 68, 50 + 27, 56 + 27]);
    // Other bank groups each time: the fifth waits for the window, not for RRD.
    let mut channel = self::channel(&hbm2());
    let times: Vec<u64> = [0, 1, 2, 3, 4, 5].map(|bank| channel.issue(Activate, bank, 50)).to_vec();
    assert_eq!(times, vec![50, 53, 56, 59, 50 + 17, 53 + 17]);
}

#[test]
fn a_closed_bank_takes_rcd_cl_and_the_burst() {
    let mut channel = channel(&gddr5());
    channel.push(read(1, 0), 0);
    assert_eq!(serve(&mut channel), vec![(1, 12 + 13 + 2)]);
    assert_eq!(channel.stats().row_misses, 1);
}

#[test]
fn an_open_row_takes_the_column_delay_and_another_row_the_whole_cycle() {
    let mut channel = channel(&gddr5());
    channel.push(read(1, at(0, 0)), 0);
    channel.push(read(2, at(0, 0) + 64), 0);
    // CCDL after the first read of the same bank group.
    assert_eq!(serve(&mut channel), vec![(1, 27), (2, 27 + 3)]);
    // Another row: precharge waits for RAS, activate for RP and RC.
    channel.push(read(3, at(0, 1)), 30);
    assert_eq!(serve(&mut channel), vec![(3, 40 + 12 + 13 + 2)]);
    let stats = channel.stats();
    assert_eq!((stats.row_hits, stats.row_misses, stats.row_conflicts), (1, 1, 1));
}

#[test]
fn row_hits_overtake_up_to_the_limit() {
    let mut limited = gddr5();
    limited.overtaking_limit = 2;
    for (spec, expected) in [(gddr5(), vec![1, 3, 4, 5, 2]), (limited, vec![1, 3, 4, 2, 5])] {
        let mut channel = channel(&spec);
        channel.push(read(1, at(0, 0)), 0);
        channel.push(read(2, at(0, 1)), 0);
        for tag in 3..6 {
            channel.push(read(tag, at(0, 0) + u64::from(tag) * 32), 0);
        }
        let order: Vec<u32> = serve(&mut channel).into_iter().map(|(tag, _)| tag).collect();
        assert_eq!(order, expected);
    }
}

/// Among requests without an open row, the bank that can open first goes first: bank 0 has to
/// wait for RAS and RC.
#[test]
fn the_bank_that_is_ready_goes_first() {
    let mut channel = channel(&gddr5());
    channel.push(read(1, at(0, 0)), 0);
    channel.push(read(2, at(0, 1)), 0);
    channel.push(read(3, at(5, 0)), 0);
    let order: Vec<u32> = serve(&mut channel).into_iter().map(|(tag, _)| tag).collect();
    assert_eq!(order, vec![1, 3, 2]);
}

/// A bank cannot open another row before its precharge, which comes late after a write: the closed bank
/// whose request came later goes first.
#[test]
fn a_bank_that_recovers_from_a_write_opens_later() {
    let mut channel = channel(&gddr5());
    // Bank 0 writes long after its row was opened, so that RAS and RC have passed.
    channel.push(read(1, at(0, 0)), 0);
    assert_eq!(serve(&mut channel), vec![(1, 27)]);
    channel.push(write(at(0, 0) + 64), 200);
    let (.., end) = channel.choose(200).expect("a write");
    channel.push(read(2, at(0, 1)), 200);
    channel.push(read(3, at(5, 0)), 200);
    let order = serve(&mut channel);
    // Precharge waits for WR behind the write's data, activate for RP behind that.
    assert_eq!(order.iter().map(|(tag, _)| *tag).collect::<Vec<_>>(), [3, 2]);
    assert_eq!(order[1].1, end + 14 + 11 + 12 + 13 + 2);
}

#[test]
fn writes_wait_until_their_queue_is_high_and_go_as_far_as_to_its_low_mark() {
    let mut channel = channel(&gddr5());
    let reads =
        |channel: &mut DramChannel, n: u32| (0..n).for_each(|i| channel.push(read(i, u64::from(i) * 32), 0));
    reads(&mut channel, 6);
    for i in 0..11 {
        channel.push(write(at(3, 0) + i * 32), 0);
    }
    // Eleven are below the mark: reads first, then all writes.
    let tags: Vec<u32> = serve(&mut channel).into_iter().map(|(tag, _)| tag).collect();
    assert_eq!(tags[..6], [0, 1, 2, 3, 4, 5]);
    assert_eq!(channel.stats().turnarounds, 1);
    reads(&mut channel, 6);
    for i in 0..12 {
        assert!(channel.takes_writes());
        channel.push(write(at(3, 0) + i * 32), 0);
    }
    // Twelve are not: eight writes go, as many as lie between the marks, then reads, then the rest.
    let tags: Vec<u32> = serve(&mut channel).into_iter().map(|(tag, _)| tag).collect();
    let writes = tags.iter().position(|tag| *tag != u32::MAX);
    assert_eq!(writes, Some(8), "{tags:?}");
    assert_eq!(tags[8..14], [0, 1, 2, 3, 4, 5]);
    for i in 0..16 {
        assert!(channel.takes_writes());
        channel.push(write(i * 32), 0);
    }
    assert!(!channel.takes_writes());
}

/// Where both queues are kept full, reads and writes take turns, as many as lie between the marks.
#[test]
fn reads_and_writes_take_turns_where_both_wait() {
    let mut channel = channel(&gddr5());
    let (mut now, mut kinds) = (0, Vec::new());
    while kinds.len() < 64 {
        for i in 0..16 {
            if channel.reads.len() < 16 {
                channel.push(read(i, u64::from(i) * 32), now);
            }
            if channel.takes_writes() {
                channel.push(write(at(3, 0) + u64::from(i) * 32), now);
            }
        }
        now = channel.next_decision().expect("requests wait").max(now);
        kinds.extend(channel.choose(now).map(|(request, _)| request.write));
    }
    let runs: Vec<usize> = kinds.chunk_by(|a, b| a == b).map(<[bool]>::len).collect();
    assert_eq!(runs[..8], [8; 8], "{kinds:?}");
}

/// A refresh of the channel closes every row and holds activates back for RFC; idle intervals
/// are made up for.
#[test]
fn refresh_of_a_channel_takes_its_time() {
    let mut spec = gddr5();
    spec.timing.insert("REFI".into(), 500);
    let mut channel = channel(&spec);
    channel.push(read(1, 0), 0);
    assert_eq!(channel.choose(0).map(|(_, end)| end), Some(27));
    // Due at 500: precharge, RP 11, refresh, RFC 61, then activate, read.
    channel.push(read(2, 0), 510);
    assert_eq!(channel.choose(510).map(|(_, end)| end), Some(500 + 11 + 61 + 12 + 13 + 2));
    // Twenty intervals later the last refresh, at 10,500, is over.
    channel.push(read(3, 0), 10_900);
    assert_eq!(channel.choose(10_900).map(|(_, end)| end), Some(10_900 + 12 + 13 + 2));
    assert_eq!(channel.stats().refreshes, 21);
}

/// Refreshes of single banks rotate over the banks; other banks continue meanwhile.
#[test]
fn refresh_of_a_bank_leaves_others_alone() {
    let mut spec = hbm2();
    spec.timing.insert("REFI".into(), 1600);
    let mut channel = channel(&spec);
    // Due at 100: bank 0. A read of bank 0 waits for RFCSB, one of bank 5 for RREFD.
    channel.push(read(1, at(0, 0)), 101);
    assert_eq!(channel.choose(101).map(|(_, end)| end), Some(100 + 136 + 12 + 13 + 2));
    let mut other = self::channel(&spec);
    other.push(read(1, at(5, 0)), 101);
    assert_eq!(other.choose(101).map(|(_, end)| end), Some(100 + 7 + 12 + 13 + 2));
    // A row that is open when another bank is refreshed stays open.
    let mut open = self::channel(&spec);
    open.push(read(1, at(5, 0)), 0);
    assert!(open.choose(0).is_some());
    open.push(read(2, at(5, 0) + 64), 101);
    assert!(open.choose(101).is_some());
    assert_eq!((open.stats().refreshes, open.stats().row_hits), (1, 1));
    // Sixteen intervals are one round; the next starts with bank 0 again.
    other.push(read(2, at(0, 0)), 1701);
    assert_eq!(other.choose(1701).map(|(_, end)| end), Some(1700 + 136 + 12 + 13 + 2));
    assert_eq!(other.stats().refreshes, 17);
}

/// A bank in refresh opens late; commands of other banks are not delayed by that.
#[test]
fn a_bank_in_refresh_does_not_hold_others_back() {
    let mut spec = hbm2();
    spec.timing.insert("REFI".into(), 1600);
    let mut channel = channel(&spec);
    channel.push(read(1, at(0, 0)), 101);
    channel.push(read(2, at(5, 0)), 101);
    channel.push(read(3, at(6, 0)), 101);
    let mut served = Vec::new();
    while let Some(at) = channel.next_decision() {
        served.extend(channel.choose(at.max(101)).map(|(request, end)| (request.tag, end)));
    }
    let open = |activate: u64| activate + 12 + 13 + 2;
    assert_eq!(served, vec![(Some(2), open(107)), (Some(3), open(110)), (Some(1), open(236))]);
}

/// Throughput of a stream against the formula: one burst each CCDL cycles where a row lies whole in a bank
/// group and the scheduler sees too few requests to reach the next group; one each CCD cycles where pieces of
/// 256 bytes are interleaved over the groups, with requests of several bursts too. Each refresh interval
/// loses RP, RFC and the opening of a row.
#[test]
fn a_stream_reaches_its_bandwidth() {
    for (piece, queue, refi, column, bursts) in [
        (2048, 2, 1_000_000, 3.0, 1),
        (256, 64, 1_000_000, 2.0, 1),
        (256, 16, 1_000_000, 2.0, 4),
        (256, 64, 2_000, 2.0, 1),
    ] {
        let mut spec = gddr5();
        spec.queue = queue;
        spec.group_interleave_bytes = piece;
        spec.timing.insert("REFI".into(), refi);
        let mut channel = channel(&spec);
        let n = 16384 / u64::from(bursts);
        let mut pushed = 0;
        let mut end = 0;
        while channel.stats().reads < n {
            let now = channel.next_decision().unwrap_or(0);
            // The scheduler sees 64.
            while pushed < n && channel.queued() < 64 {
                let address = pushed * 32 * u64::from(bursts);
                channel.push(DramRequest { bursts, ..read(pushed as u32, address) }, now);
                pushed += 1;
            }
            let now = channel.next_decision().unwrap_or(0);
            end = channel.choose(now).map_or(end, |(_, at)| end.max(at));
        }
        // The last read before a refresh is followed by RTP, RP, RFC, RCD until the next.
        let lost = (7 + 11 + 61 + 12) as f64;
        let share = 1.0 - lost / f64::from(refi);
        let expected = 16384.0 * column / share;
        let ratio = end as f64 / expected;
        assert!((0.97..1.03).contains(&ratio), "{piece} {refi}: {end} for {expected}");
    }
}

#[test]
fn a_standard_names_what_is_wrong() {
    let lacking = |name: &str| {
        let mut spec = gddr5();
        spec.timing.remove(name);
        DramTimings::of(&spec).expect_err("a parameter is missing")
    };
    assert!(lacking("RCD").contains("lacks RCD"), "{}", lacking("RCD"));
    let mut spec = gddr5();
    spec.timing.insert("RDC".into(), 3);
    assert!(DramTimings::of(&spec).expect_err("unknown").contains("no RDC"));
    let mut spec = gddr5();
    spec.standard = Choice::from("ddr9".to_string());
    assert!(DramTimings::of(&spec).expect_err("unknown").contains("shipped: gddr5, gddr6, hbm2"));
    for (from, to, why) in [
        ("latency: RCD", "latency: RCD +", "ends without a value"),
        ("latency: RCD", "latency: RCD RAS", "expected + or -"),
        ("latency: RCD", "latency: XYZ", "no parameter `XYZ`"),
        ("window: 4", "window: 9", "windows must be between"),
        ("level: bank,", "level: blank,", "blank"),
        ("schema: 1", "schema: 2", "schema 1"),
    ] {
        let mut spec = gddr5();
        let (_, text) = STANDARDS[0];
        assert!(text.contains(from));
        spec.standard.text = Some(text.replacen(from, to, 1));
        let error = DramTimings::of(&spec).expect_err(to);
        assert!(error.contains(why), "{error}");
    }
}
