//! When blocks are sent to SMs: at the rate of the dispatcher where they fill a chip, one interval apart where an SM takes them in the
//! places of others.

use sim_core::report::DeviceReport;

use crate::clusters::{TIMED, clustered, launched};
use crate::machine::{Run, chip, device, module};

const INTERVALS: [u32; 3] = [0, 10_000, 20_000];

/// Cycles of each of these grids, one after another on two SMs with room for two blocks each.
fn of_grids(grids: &[u32], interval: u32) -> Vec<u64> {
    ran(grids, "mov.u32 %r, 1;", interval).kernels.iter().map(|kernel| kernel.cycles).collect()
}

/// The report of grids of blocks that do this.
fn ran(grids: &[u32], body: &str, interval: u32) -> DeviceReport {
    let chip = chip(|c| {
        c.limits.num_processors = 2;
        c.limits.max_resident_blocks = 2;
        c.dispatch.replacement_interval = interval;
    });
    let mut run = Run::new(device(chip, "crs_stack"), &module("", body), false, 1024);
    for grid in grids {
        run.launch(*grid, 32, false).expect("it fits");
    }
    run.wait().unwrap_or_else(|e| panic!("{e}"));
    run.report()
}

#[test]
fn an_sm_takes_blocks_in_the_places_of_others_one_interval_apart() {
    let [none, one, two] = INTERVALS.map(|interval| of_grids(&[24], interval)[0]);
    assert!(none < 10_000, "{none}");
    // Two blocks of twelve fill an SM. The third is sent as soon as one of them has ended, nine more after it.
    assert_eq!(two - one, 9 * 10_000);
    assert!((one - none).abs_diff(9 * 10_000) < none, "{none} {one}");
}

#[test]
fn blocks_that_find_their_sms_unused_wait_for_no_interval() {
    for grids in [vec![4], vec![4, 4, 4], vec![8], vec![8, 8]] {
        let [none, one, two] = INTERVALS.map(|interval| of_grids(&grids, interval));
        // Four of eight take the places of the others, two at each SM.
        let waits = if grids[0] == 8 { 10_000 } else { 0 };
        assert!(two.iter().zip(&one).all(|(two, one)| two - one == waits), "{grids:?} {one:?} {two:?}");
        assert!(one.iter().zip(&none).all(|(one, none)| one - none <= waits), "{grids:?} {none:?} {one:?}");
    }
}

#[test]
fn waits_for_blocks_are_counted_while_an_sm_has_room() {
    let waits = |grid: u32, body: &str, interval: u32| ran(&[grid], body, interval).dispatch_wait_cycles;
    let short = "mov.u32 %r, 1;";
    assert_eq!(waits(24, short, 0), 0);
    assert_eq!(waits(4, short, 10_000), 0);
    // Nine intervals of each SM, in which both of its blocks have ended but for some of their last cycles.
    assert!((178_000..=180_000).contains(&waits(24, short, 10_000)), "{}", waits(24, short, 10_000));
    // Blocks that take longer than the interval: two of an SM end together, and the second of each pair waits.
    let long = "mov.u32 %b, 0;\nAGAIN:\nadd.u32 %b, %b, 1;\nsetp.lt.u32 %p, %b, 200;\n@%p bra AGAIN;\nmov.u32 %r, %b;";
    let (alone, apart) = (ran(&[24], long, 0).cycles, ran(&[24], long, 500));
    assert!(alone > 6 * 1000, "{alone}");
    assert!((1..=2 * 5 * 500).contains(&apart.dispatch_wait_cycles), "{}", apart.dispatch_wait_cycles);
}

#[test]
fn sms_wait_that_long_between_clusters() {
    let of = |interval: u32, blocks: u32| {
        let chip = clustered(|c| {
            c.limits.max_resident_blocks = 1;
            c.dispatch.replacement_interval = interval;
        });
        let (words, report) =
            launched(chip, &module("", "mov.u32 %r, 1;"), [[blocks, 1, 1], [3, 1, 1]], 32, TIMED)
                .expect("it runs");
        assert!(words[..32 * blocks as usize].iter().all(|word| *word == 1));
        report.kernels[0].cycles
    };
    // Three clusters fill the GPCs, and three more take their places as soon as they end.
    assert_eq!([of(20_000, 9), of(20_000, 18)], [of(0, 9), of(0, 18)]);
    assert_eq!(of(20_000, 36) - of(10_000, 36), 2 * 10_000);
}
