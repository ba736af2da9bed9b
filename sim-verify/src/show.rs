//! Executions as text and as Graphviz graphs.

use std::fmt::Write;

use crate::execution::{Candidate, EventKind, Outcome};
use crate::explain::Edge;
use crate::litmus::program::location_at;
use crate::litmus::{Atom, Test};
use crate::relation::Relation;
use crate::verdict::Shown;

/// The letter of an event: `a` to `z`, then `a1` and so on.
pub fn letter(event: usize) -> String {
    let letter = char::from(b'a' + (event % 26) as u8);
    match event / 26 {
        0 => letter.to_string(),
        round => format!("{letter}{round}"),
    }
}

/// A value; that of a location's address by its name.
pub fn value(test: &Test, value: i64) -> String {
    match location_at(value, test.locations.len()) {
        Some(location) => format!("&{}", test.locations[location].name),
        None => value.to_string(),
    }
}

/// An atom of a condition, as tests write it.
pub fn atom(test: &Test, atom: Atom) -> String {
    match atom {
        Atom::Register(thread, register) => {
            format!("{}:{}", test.threads[thread].name, test.threads[thread].registers[register])
        }
        Atom::Location(location) => test.locations[location].name.clone(),
        Atom::Constant(constant) => value(test, constant),
    }
}

/// What an event does: `R x = 1`.
fn action(test: &Test, candidate: &Candidate, event: usize) -> String {
    match candidate.events[event].kind {
        EventKind::Read { location, value: v, .. } => {
            format!("R {} = {}", test.locations[location].name, value(test, v))
        }
        EventKind::Write { location, value: v } => {
            format!("W {} = {}", test.locations[location].name, value(test, v))
        }
        EventKind::Fence => "F".to_string(),
        EventKind::ProxyFence => "F proxy".to_string(),
        EventKind::AliasFence => "F alias".to_string(),
        EventKind::Barrier => "B".to_string(),
    }
}

/// The text of the instruction of an event, and its line; none for initial writes.
pub fn instruction<'t>(test: &'t Test, candidate: &Candidate, event: usize) -> Option<(&'t str, u32)> {
    let event = &candidate.events[event];
    let instruction = test.threads[event.thread?].code.get(event.instruction)?;
    let text = test.source.text.get(instruction.span.start as usize..instruction.span.end as usize)?;
    Some((text.trim(), instruction.line))
}

/// An event with its thread and instruction.
pub fn event(test: &Test, candidate: &Candidate, event: usize) -> String {
    let what = action(test, candidate, event);
    match (candidate.events[event].thread, instruction(test, candidate, event)) {
        (Some(thread), Some((text, line))) => {
            format!("{}: {} line {line} `{text}` {what}", letter(event), test.threads[thread].name)
        }
        _ => format!("{}: initially {what}", letter(event)),
    }
}

/// An execution in lines of text.
pub fn text(test: &Test, shown: &Shown) -> String {
    let mut out = String::new();
    let candidate = &shown.candidate;
    for i in 0..candidate.events.len() {
        let _ = writeln!(out, "    {}", event(test, candidate, i));
    }
    let mut relation = |name: &str, relation: &Relation| {
        if !relation.is_empty() {
            let pairs: Vec<String> =
                relation.pairs().map(|(a, b)| format!("{}→{}", letter(a), letter(b))).collect();
            let _ = writeln!(out, "    {name}: {}", pairs.join(" "));
        }
    };
    relation("rf", &shown.reads_from);
    for (name, order) in &shown.orders {
        relation(name, &immediate(order));
    }
    for (thread, outcome) in &shown.endless {
        let name = &test.threads[*thread].name;
        let _ = match outcome {
            Outcome::Spins(from)
                if candidate
                    .events
                    .get(candidate.starts[*thread] + from)
                    .is_none_or(|e| e.thread != Some(*thread)) =>
            {
                writeln!(out, "    {name} repeats a loop without memory operations forever")
            }
            Outcome::Spins(from) => {
                let first = candidate.starts[*thread] + from;
                let line =
                    instruction(test, candidate, first.min(candidate.events.len() - 1)).map_or(0, |(_, l)| l);
                writeln!(out, "    {name} repeats its loop from line {line} forever")
            }
            _ => writeln!(out, "    {name} waits at its barrier forever"),
        };
    }
    out
}

/// A cycle in lines of text: its steps, and what each is made of.
pub fn edges(edges: &[Edge], indent: usize) -> String {
    let mut out = String::new();
    for edge in edges {
        let blanks = " ".repeat(indent);
        let _ = writeln!(out, "{blanks}{} —{}→ {}", letter(edge.from), edge.name, letter(edge.to));
        // Names of one step each are left out: the last says what it is.
        let mut parts = &edge.parts;
        while let [only] = &parts[..] {
            if only.parts.is_empty() {
                break;
            }
            parts = &only.parts;
        }
        if parts.len() > 1 || parts.first().is_some_and(|part| part.name != edge.name) {
            out.push_str(&self::edges(parts, indent + 2));
        }
    }
    out
}

/// A relation without the pairs that follow from others by transitivity.
fn immediate(relation: &Relation) -> Relation {
    relation.difference(&relation.sequence(relation))
}

/// An execution as a graph in Graphviz's language.
pub fn graph(test: &Test, shown: &Shown, title: &str) -> String {
    let candidate = &shown.candidate;
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let mut out = format!("digraph execution {{\n  label=\"{}\";\n  node [shape=box];\n", quoted(title));
    for (i, event) in candidate.events.iter().enumerate() {
        let what = action(test, candidate, i);
        let text = match instruction(test, candidate, i) {
            Some((text, line)) => format!("{}: {what}\\n{}\\nline {line}", letter(i), quoted(text)),
            None => format!("{}: {what}\\ninitially", letter(i)),
        };
        match event.thread {
            Some(thread) => {
                let place = test.threads[thread].place;
                let name = &test.threads[thread].name;
                let _ = writeln!(
                    out,
                    "  subgraph cluster_{thread} {{ label=\"{name} cta {} gpu {}\"; e{i} [label=\"{text}\"]; }}",
                    place.cta, place.gpu
                );
            }
            None => {
                let _ = writeln!(out, "  e{i} [label=\"{text}\", style=dashed];");
            }
        }
    }
    let mut arrows = |relation: &Relation, name: &str, colour: &str| {
        for (a, b) in relation.pairs() {
            let _ = writeln!(
                out,
                "  e{a} -> e{b} [label=\"{name}\", color=\"{colour}\", fontcolor=\"{colour}\"];"
            );
        }
    };
    let po = crate::vocabulary::relation("po");
    arrows(&immediate(&candidate.relations[po]), "po", "black");
    arrows(&shown.reads_from, "rf", "red");
    for (name, order) in &shown.orders {
        arrows(&immediate(order), name, if name == "sc" { "purple" } else { "blue" });
    }
    if let Some((axiom, edges)) = &shown.violates {
        for edge in edges {
            let _ = writeln!(
                out,
                "  e{} -> e{} [label=\"{}: {}\", style=bold, color=orange, constraint=false];",
                edge.from,
                edge.to,
                quoted(axiom),
                quoted(&edge.name)
            );
        }
    }
    out.push_str("}\n");
    out
}
