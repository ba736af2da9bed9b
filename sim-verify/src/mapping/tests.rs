use std::collections::BTreeSet;

use super::execution::{ScAccess, Writer, choices, of_source};
use super::program::{MemoryOrder, Mode, Op, OpKind, Shape};
use super::search::{Check, Counterexample};
use super::shapes::{Class, classes, permuted};
use super::table::{FIG11, Table};
use crate::cat::Model;
use crate::litmus::Test;
use crate::litmus::program::{Place, Scope};
use crate::models;
use crate::verdict::{Answer, Bounds, decide};

fn models() -> (Model, Model) {
    let model = |name| models::named(name).expect("a model").expect("it parses");
    (model("rc11-scoped"), model("ptx-6.0"))
}

fn table(text: &str) -> Table {
    Table::parse("test.map", text).unwrap_or_else(|error| panic!("{}", error.render()))
}

/// The table of figure 11 with a row replaced.
fn with(row: &str, instructions: &str) -> Table {
    let line = FIG11.lines().find(|line| line.split_whitespace().next() == Some(row)).expect("a row");
    table(&FIG11.replace(line, &format!("{row} {instructions}")))
}

/// Every program of a class, each combination of modes.
fn programs(class: &Class) -> Vec<Vec<Mode>> {
    class.shape.modes().iter().fold(vec![Vec::new()], |out, modes| {
        let extended = |program: Vec<Mode>| modes.iter().map(move |m| [program.clone(), vec![*m]].concat());
        out.into_iter().flat_map(extended).collect()
    })
}

/// MM §5, theorems 1 to 3 [mm-thm1] [mm-thm2] [mm-thm3], and the mapping of figure 11.
#[test]
fn mm_map_mm_thm1_mm_thm2_mm_thm3_hold_to_four_events() {
    let (source, target) = models();
    let table = table(FIG11);
    let check =
        Check { source: &source, target: &target, table: &table, sc: ScAccess::Converted, reduce: false };
    for (events, programs) in [(1, 12), (2, 1043), (3, 128_920), (4, 19_856_873)] {
        let searched = check.all_of(events);
        assert_eq!(searched.counterexample, None);
        assert_eq!(searched.programs, programs, "{events} events");
    }
}

/// A table that leaves one axiom's requirement unmet has a counterexample to that theorem.
#[test]
fn mm_rc11_hb_mm_rc11_psc_mm_rc11_axioms_are_what_some_wrong_table_breaks() {
    let (source, target) = models();
    for (row, instructions, axiom) in
        [("W.rel", "st.relaxed.SCOPE", "Coherence"), ("R.acq", "ld.relaxed.SCOPE", "Coherence")]
    {
        let table = with(row, instructions);
        let check =
            Check { source: &source, target: &target, table: &table, sc: ScAccess::Converted, reduce: false };
        let rows = table.differing(&self::table(FIG11));
        let found = check.classical(&rows).counterexample.unwrap_or_else(|| panic!("{row}"));
        assert_eq!(violated(&source, &found), axiom, "{row}: {found:?}");
    }
    // Store buffering with fences between the accesses.
    let op = |kind, location| Op { kind, location };
    let (read, write, fence) = (OpKind::Read, OpKind::Write, OpKind::Fence);
    let threads = [(0, 1), (1, 0)].map(|(x, y)| vec![op(write, x), op(fence, 0), op(read, y)]);
    let place = |cta| Place { gpu: 0, cluster: None, cta };
    let shape = Shape { threads: threads.to_vec(), places: vec![place(0), place(1)] };
    let [relaxed, sc] =
        [MemoryOrder::Rlx, MemoryOrder::Sc].map(|order| Mode { order, scope: Some(Scope::Gpu) });
    let table = with("F.sc", "fence.acq_rel.SCOPE");
    let check =
        Check { source: &source, target: &target, table: &table, sc: ScAccess::Converted, reduce: false };
    let found =
        check.program(&shape, &[relaxed, sc, relaxed, relaxed, sc, relaxed]).expect("store buffering");
    assert_eq!(violated(&source, &found), "SC");
}

/// The axiom that every modification order of a counterexample violates, the last one that any does.
fn violated(source: &Model, found: &Counterexample) -> String {
    use crate::cat::Leaf;
    let modes: Vec<Option<Mode>> = found.modes.iter().copied().map(Some).collect();
    let events = of_source(&found.shape, &modes, ScAccess::Converted);
    let location = |read: usize| found.shape.ops().nth(read).map_or(0, |(_, op)| usize::from(op.location));
    let choice: Vec<_> = found
        .sources
        .iter()
        .map(|(op, read)| (op.map_or_else(|| Writer::Initial(location(*read)), Writer::Op), *read))
        .collect();
    let mut frame = source.frame(events.n, &events.sets, &events.relations);
    let mut last = 0;
    let _ = source.run(&mut frame, &events.reads_from(&choice), &mut |_, leaf| {
        if let Leaf::Violates(statement) = leaf {
            last = last.max(statement);
        }
        std::ops::ControlFlow::Continue(())
    });
    crate::explain::cycle_of(source, &frame, last).0
}

#[test]
fn atomics_whose_scopes_exclude_each_other_are_not_atomic() {
    let (source, target) = models();
    let update = Op { kind: OpKind::Update, location: 0 };
    let place = |cta| Place { gpu: 0, cluster: None, cta };
    let shape = Shape { threads: vec![vec![update], vec![update]], places: vec![place(0), place(1)] };
    let modes = [Mode { order: MemoryOrder::Rlx, scope: Some(Scope::Gpu) }; 2];
    for (table, wrong) in [(table(FIG11), false), (with("U.rlx", "atom.relaxed.cta"), true)] {
        let check =
            Check { source: &source, target: &target, table: &table, sc: ScAccess::Converted, reduce: false };
        let found = check.program(&shape, &modes);
        assert_eq!(found.is_some(), wrong);
        // Both read the initial value.
        let initial = |found: &Counterexample| found.sources.iter().all(|(source, _)| source.is_none());
        assert!(found.is_none_or(|found| initial(&found) && violated(&source, &found) == "Atomicity"));
    }
    assert_eq!(choices(&shape).len(), 4);
}

/// With sequentially consistent accesses as events of psc, as MM figure 10 prints it, a cycle may lead from an access of
/// one scope to one of another by events between them whose scopes include each other pairwise. Their fences are not
/// morally strong then, and PTX leaves them unordered.
#[test]
fn theorem_3_needs_the_conversion_where_scopes_are_mixed() {
    let (source, target) = models();
    let table = table(FIG11);
    let op = |kind, location| Op { kind, location };
    let (read, write) = (OpKind::Read, OpKind::Write);
    let place = |cta| Place { gpu: 0, cluster: None, cta };
    let shape = Shape {
        threads: vec![vec![op(write, 0), op(read, 1)], vec![op(write, 1)], vec![op(read, 1), op(read, 0)]],
        places: vec![place(0), place(0), place(1)],
    };
    let sc = |scope| Mode { order: MemoryOrder::Sc, scope: Some(scope) };
    let narrow = [sc(Scope::Gpu), sc(Scope::Cta), sc(Scope::Gpu), sc(Scope::Gpu), sc(Scope::Gpu)];
    let wide = [sc(Scope::Gpu); 5];
    for (access, modes, found) in [
        (ScAccess::Direct, narrow, true),
        (ScAccess::Direct, wide, false),
        (ScAccess::Converted, narrow, false),
        (ScAccess::Converted, wide, false),
    ] {
        let check = Check { source: &source, target: &target, table: &table, sc: access, reduce: false };
        assert_eq!(check.program(&shape, &modes).is_some(), found, "{access:?} {modes:?}");
    }
}

#[test]
fn mm_fig12_the_release_behind_a_fence_is_needed() {
    let (source, target) = models();
    let table = with("U.sc", "fence.sc.SCOPE; atom.acquire.SCOPE");
    let check =
        Check { source: &source, target: &target, table: &table, sc: ScAccess::Converted, reduce: false };
    let found = check.classical(&table.differing(&self::table(FIG11))).counterexample.expect("figure 12");
    let kinds: Vec<Vec<OpKind>> =
        found.shape.threads.iter().map(|ops| ops.iter().map(|op| op.kind).collect()).collect();
    use OpKind::{Read, Update, Write};
    assert_eq!(kinds, [vec![Update, Write], vec![Write, Write], vec![Read, Read]]);
    // The pair of litmus tests says it again: allowed of the wrong table, forbidden of the right one.
    for (table, answer) in [(&table, Answer::Allowed), (&self::table(FIG11), Answer::Forbidden)] {
        let pair = super::counterexample::pair(&found, table, "fig12");
        let test = Test::parse("fig12.litmus", &pair.target).unwrap_or_else(|e| panic!("{}", e.render()));
        assert_eq!(decide(&test, &target, Bounds::default()).answer, answer);
    }
}

#[test]
fn the_search_finds_what_one_without_bounds_finds() {
    let (source, target) = models();
    let tables = [
        table(FIG11),
        with("W.rel", "st.relaxed.SCOPE"),
        with("R.acq", "ld.relaxed.SCOPE"),
        with("R.rlx", "ld.weak"),
        with("W.rlx", "st.relaxed.cta"),
        with("U.rlx", "atom.relaxed.cta"),
        with("F.sc", "fence.acq_rel.SCOPE"),
    ];
    let mut all = 0;
    for (i, table) in tables.iter().enumerate() {
        let check = Check { source: &source, target: &target, table, sc: ScAccess::Converted, reduce: false };
        let mut found = 0;
        for events in 1..=3 {
            // All programs of three events would take minutes: every fourth class.
            classes(events, &mut |class| {
                let key = class.shape.ops().fold(class.shape.places.len(), |k, (t, op)| {
                    k * 31 + t * 7 + usize::from(op.location) * 3 + op.kind.events()
                });
                if events < 3 || key % 4 == i % 4 {
                    let literal =
                        programs(&class).iter().any(|modes| check.program(&class.shape, modes).is_some());
                    let bounded = check.search(std::slice::from_ref(&class)).counterexample.is_some();
                    assert_eq!(bounded, literal, "table {i}: {:?}", class.shape);
                    found += u32::from(literal);
                }
            });
        }
        assert!(i > 0 || found == 0, "figure 11 is sound");
        all += found;
    }
    assert!(all >= 5, "{all} classes have a counterexample");
}

/// Programs that stand for others have a counterexample wherever any program of as many events or fewer has one: for the
/// right table, and for tables that lack one order, one fence, or one scope.
#[test]
fn the_reduction_keeps_counterexamples() {
    let (source, target) = models();
    let tables = [
        ("figure 11", table(FIG11), false),
        ("release", with("W.rel", "st.relaxed.SCOPE"), true),
        ("acquire", with("R.acq", "ld.relaxed.SCOPE"), true),
        ("acquire of a read-modify-write", with("U.acq", "atom.relaxed.SCOPE"), false),
        ("release of a read-modify-write", with("U.rel", "atom.relaxed.SCOPE"), false),
        ("both of a read-modify-write", with("U.acqrel", "atom.relaxed.SCOPE"), false),
        ("weak read", with("R.rlx", "ld.weak"), true),
        ("weak write", with("W.rlx", "st.weak"), true),
        ("narrow write", with("W.rlx", "st.relaxed.cta"), true),
        ("narrow read-modify-write", with("U.rlx", "atom.relaxed.cta"), true),
        ("no fence of reads", with("R.sc", "ld.acquire.SCOPE"), true),
        ("trailing fence", with("R.sc", "ld.acquire.SCOPE; fence.sc.SCOPE"), true),
        ("no fence of writes", with("W.sc", "st.release.SCOPE"), true),
        ("narrow fence", with("W.sc", "fence.sc.cta; st.release.SCOPE"), true),
    ];
    for (name, table, wrong) in &tables {
        let first = |reduce: bool| {
            let check = Check { source: &source, target: &target, table, sc: ScAccess::Converted, reduce };
            (1..=4).find(|events| check.all_of(*events).counterexample.is_some())
        };
        let (all, reduced) = (first(false), first(true));
        assert_eq!(all.is_some(), *wrong, "{name}: {all:?}");
        assert_eq!(reduced, all, "{name}");
    }
}

/// The number of programs against one that writes down every program and takes one of each class.
#[test]
fn programs_are_counted_as_by_listing_them() {
    fn sequences(events: usize, locations: u8) -> Vec<Vec<Op>> {
        if events == 0 {
            return vec![Vec::new()];
        }
        let mut out = Vec::new();
        for kind in OpKind::ALL.into_iter().filter(|kind| kind.events() <= events) {
            for location in 0..if kind.accesses() { locations } else { 1 } {
                for rest in sequences(events - kind.events(), locations) {
                    out.push([vec![Op { kind, location }], rest].concat());
                }
            }
        }
        out
    }
    fn threads(events: usize, locations: u8) -> Vec<Vec<Vec<Op>>> {
        let mut out = vec![];
        if events == 0 {
            return vec![vec![]];
        }
        for size in 1..=events {
            for first in sequences(size, locations) {
                for rest in threads(events - size, locations) {
                    out.push([vec![first.clone()], rest].concat());
                }
            }
        }
        out
    }
    for events in 1..=3usize {
        let mut all = BTreeSet::new();
        for list in threads(events, events as u8) {
            let count = list.len() as u32;
            for code in 0..count.pow(2 * count) {
                let digit = |i: u32| code / count.pow(i) % count;
                let place = |t: u32| Place { gpu: digit(2 * t), cluster: None, cta: digit(2 * t + 1) };
                let shape = Shape { threads: list.clone(), places: (0..count).map(place).collect() };
                all.insert(orders(count as usize).iter().map(|order| permuted(&shape, order)).min());
            }
        }
        let mut listed = 0;
        classes(events, &mut |class| {
            listed += 1;
            // Each program with its operations in every order of threads that leaves the shape as it is.
            let starts: Vec<usize> = (0..class.shape.threads.len())
                .map(|t| class.shape.threads[..t].iter().map(Vec::len).sum())
                .collect();
            let classes: BTreeSet<Vec<Mode>> = programs(&class)
                .iter()
                .filter_map(|modes| {
                    let reordered = class.symmetries.iter().map(|order| {
                        let of_thread = |t: &usize| {
                            modes[starts[*t]..starts[*t] + class.shape.threads[*t].len()].to_vec()
                        };
                        order.iter().flat_map(of_thread).collect::<Vec<Mode>>()
                    });
                    reordered.min()
                })
                .collect();
            assert_eq!(class.programs(), classes.len() as u64, "{:?}", class.shape);
        });
        assert_eq!(listed, all.len(), "{events} events");
    }
}

fn orders(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![vec![]];
    }
    let shorter = orders(count - 1);
    let insert =
        |order: Vec<usize>| (0..count).map(move |at| [&order[..at], &[count - 1], &order[at..]].concat());
    shorter.into_iter().flat_map(insert).collect()
}

#[test]
fn tables_that_are_wrong_say_where() {
    let message = |text: &str| Table::parse("t.map", text).expect_err("an error").render();
    for (text, words) in [
        ("X.na ld.weak", "`X` is not an operation"),
        ("R.rel ld.weak", "`R` cannot be `rel`"),
        ("R.na", "the PTX instructions of this row are missing"),
        ("R.na st.weak", "`st` cannot implement `R`"),
        ("R.acq ld.release.SCOPE", "`ld` cannot be `.release`"),
        ("R.acq ld.acquire", "`ld.acquire` needs a scope"),
        ("R.acq ld.acquire.block", "`block` is not a scope"),
        ("R.na fence.sc.SCOPE; ld.weak", "has no scope"),
        ("R.acq fence.sc.SCOPE", "`R.acq` needs one access"),
        ("F.sc ld.weak", "`ld` cannot implement `F`"),
        ("R.acq.cta ld.weak\nR.acq.gpu ld.weak", "there is no row for `R.na`"),
    ] {
        assert!(message(text).contains(words), "{text}: {}", message(text));
    }
    assert!(message(&format!("{FIG11}R.na ld.weak\n")).contains("there are two rows for `R.na`"));
}
