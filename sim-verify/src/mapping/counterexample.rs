//! A counterexample as a pair of litmus tests: the program of C++, and what it is compiled to.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::program::OpKind;
use super::search::Counterexample;
use super::table::Table;
use crate::litmus::program::Order;

const NAMES: [&str; 8] = ["x", "y", "z", "u", "v", "w", "s", "t"];

/// The two tests, and the condition that both ask.
pub struct Pair {
    /// The program of C++, in the operations of the table.
    pub source: String,
    /// The PTX litmus test.
    pub target: String,
}

/// The tests of a counterexample.
pub fn pair(found: &Counterexample, table: &Table, name: &str) -> Pair {
    let columns = |text: &dyn Fn(usize) -> Vec<String>| -> Vec<Vec<String>> {
        let mut next = 0;
        let threads = found.shape.threads.iter().map(|ops| {
            let lines = ops.iter().flat_map(|_| {
                next += 1;
                text(next - 1)
            });
            lines.collect()
        });
        threads.collect()
    };
    let source = columns(&|op| vec![source_op(found, op)]);
    let target = columns(&|op| target_ops(found, table, op));
    let condition = condition(found);
    Pair {
        source: test("C++", name, "\"RC11 with scopes forbids this outcome\"", found, &source, &condition),
        target: test(
            "PTX",
            name,
            "Verdict=allowed\nReason=PTX allows what RC11 with scopes forbids of the program it was compiled from.",
            found,
            &target,
            &condition,
        ),
    }
}

fn location(found: &Counterexample, op: usize) -> &'static str {
    let (_, op) = found.shape.ops().nth(op).expect("an operation of the shape");
    NAMES.get(usize::from(op.location)).copied().unwrap_or("l")
}

/// The value that an operation writes: writes to a location are numbered from 1, in a linear extension of coherence order
/// where that is known.
fn values(found: &Counterexample) -> BTreeMap<usize, usize> {
    let ops: Vec<_> = found.shape.ops().map(|(_, op)| op).collect();
    let mut out = BTreeMap::new();
    for (i, op) in ops.iter().enumerate().filter(|(_, op)| op.kind.writes()) {
        let before = ops[..i].iter().filter(|other| other.kind.writes() && other.location == op.location);
        out.insert(i, before.count() + 1);
    }
    out
}

fn source_op(found: &Counterexample, op: usize) -> String {
    let (_, kind) = found.shape.ops().nth(op).map(|(t, o)| (t, o.kind)).expect("an operation of the shape");
    let mode = found.modes[op];
    let value = values(found).get(&op).copied().unwrap_or(0);
    match kind {
        OpKind::Read => format!("r{op} = R.{mode} {}", location(found, op)),
        OpKind::Write => format!("W.{mode} {}, {value}", location(found, op)),
        OpKind::Update => format!("r{op} = U.{mode} {}, {value}", location(found, op)),
        OpKind::Fence => format!("F.{mode}"),
    }
}

fn target_ops(found: &Counterexample, table: &Table, op: usize) -> Vec<String> {
    let (_, kind) = found.shape.ops().nth(op).map(|(t, o)| (t, o.kind)).expect("an operation of the shape");
    let value = values(found).get(&op).copied().unwrap_or(0);
    let instruction = |i: &super::table::Instruction| {
        let scope = i.scope.map_or(String::new(), |s| format!(".{}", s.name()));
        let order = match i.order {
            Order::Weak => "weak",
            order => order.name(),
        };
        match kind {
            _ if i.fence => format!("fence.{order}{scope}"),
            OpKind::Read => format!("ld.{order}{scope} r{op}, {}", location(found, op)),
            OpKind::Write => format!("st.{order}{scope} {}, {value}", location(found, op)),
            _ => format!("atom.{order}{scope}.exch r{op}, {}, {value}", location(found, op)),
        }
    };
    table.compile(kind, found.modes[op]).iter().map(instruction).collect()
}

/// What each read returns, and the last write of each location that has several.
fn condition(found: &Counterexample) -> String {
    let values = values(found);
    let thread_of: Vec<usize> = found.shape.ops().map(|(t, _)| t).collect();
    let mut terms: Vec<String> = found
        .sources
        .iter()
        .map(|(source, read)| {
            let value = source.map_or(0, |op| values[&op]);
            format!("P{}:r{read} == {value}", thread_of[*read])
        })
        .collect();
    for l in 0..found.shape.locations() {
        let writes: Vec<usize> = values
            .keys()
            .copied()
            .filter(|op| found.shape.ops().nth(*op).is_some_and(|(_, o)| usize::from(o.location) == l))
            .collect();
        let last =
            writes.iter().find(|w| writes.iter().all(|v| v == *w || found.coherence.contains(&(*v, **w))));
        if let (Some(last), true) = (last, writes.len() > 1) {
            terms.push(format!("{} == {}", NAMES.get(l).copied().unwrap_or("l"), values[last]));
        }
    }
    terms.join(" /\\ ")
}

fn test(
    language: &str,
    name: &str,
    about: &str,
    found: &Counterexample,
    columns: &[Vec<String>],
    condition: &str,
) -> String {
    let mut out = format!("{language} {name}\n{about}\n{{ ");
    for l in 0..found.shape.locations() {
        let _ = write!(out, "{}=0; ", NAMES.get(l).copied().unwrap_or("l"));
    }
    out.push_str("}\n");
    let heads =
        found.shape.places.iter().enumerate().map(|(t, p)| format!("P{t}@cta {},gpu {}", p.cta, p.gpu));
    let mut rows: Vec<Vec<String>> = vec![heads.collect()];
    for row in 0..columns.iter().map(Vec::len).max().unwrap_or(0) {
        rows.push(columns.iter().map(|c| c.get(row).cloned().unwrap_or_default()).collect());
    }
    let widths: Vec<usize> =
        (0..columns.len()).map(|c| rows.iter().map(|row| row[c].len()).max().unwrap_or(0)).collect();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, w)| format!(" {cell:w$} ")).collect();
        let _ = writeln!(out, "{};", cells.join("|"));
    }
    let _ = writeln!(out, "exists ({condition})");
    out
}
