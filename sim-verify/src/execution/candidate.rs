//! A candidate execution: one path for each thread, put together.

use std::collections::BTreeSet;

use super::barriers::{Arrival, Phases};
use super::paths::{Action, Path};
use crate::litmus::program::{Order, Place, Proxy, Scope, Test};
use crate::relation::{MAX_EVENTS, Relation, Set};
use crate::vocabulary::{RELATIONS, SETS};

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its thread; none for initial writes.
    pub thread: Option<usize>,
    /// Its instruction in the thread.
    pub instruction: usize,
    /// What it does.
    pub kind: EventKind,
    /// Its semantics.
    pub order: Order,
    /// Its scope.
    pub scope: Option<Scope>,
    /// Its proxy.
    pub proxy: Proxy,
}

/// What an event does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "fields: the address as an index of locations, and the value there")]
pub enum EventKind {
    /// A read of an address.
    Read { location: usize, value: i64, red: bool },
    /// A write to an address.
    Write { location: usize, value: i64 },
    /// A fence.
    Fence,
    /// A proxy fence.
    ProxyFence,
    /// An alias fence.
    AliasFence,
    /// A barrier.
    Barrier,
}

impl Event {
    /// Address and value, if it accesses memory.
    pub fn access(&self) -> Option<(usize, i64)> {
        match self.kind {
            EventKind::Read { location, value, .. } | EventKind::Write { location, value } => {
                Some((location, value))
            }
            _ => None,
        }
    }

    /// It writes.
    pub fn is_write(&self) -> bool {
        matches!(self.kind, EventKind::Write { .. })
    }

    /// It reads.
    pub fn is_read(&self) -> bool {
        matches!(self.kind, EventKind::Read { .. })
    }
}

/// Events and the relations between them that do not depend on what reads read.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The events: initial writes first, then those of the threads in program order.
    pub events: Vec<Event>,
    /// Values of [`SETS`].
    pub sets: Vec<Set>,
    /// Values of [`RELATIONS`]; that of `rf` is empty.
    pub relations: Vec<Relation>,
    /// The first event of each thread.
    pub starts: Vec<usize>,
}

/// The arrivals of a path at barriers.
pub fn arrivals(test: &Test, thread: usize, path: &Path) -> Vec<Arrival> {
    let place = test.threads[thread].place;
    let cta = test.threads.iter().position(|t| t.place.same_cta(place)).unwrap_or(thread);
    let found = path.steps.iter().filter_map(|step| match step.action {
        Action::Barrier { id, quorum, arrive } => Some(Arrival { cta, id, quorum, arrive }),
        _ => None,
    });
    found.collect()
}

impl Candidate {
    /// Puts paths together; none if they have more events than an execution may have.
    pub fn new(test: &Test, paths: &[&Path], phases: &Phases) -> Option<Self> {
        let physical: BTreeSet<usize> = test.locations.iter().map(|l| l.physical).collect();
        let count = physical.len() + paths.iter().map(|p| p.steps.len()).sum::<usize>();
        if count > MAX_EVENTS {
            return None;
        }
        let mut events: Vec<Event> = physical
            .into_iter()
            .map(|location| Event {
                thread: None,
                instruction: 0,
                kind: EventKind::Write { location, value: test.locations[location].init },
                order: Order::Weak,
                scope: None,
                proxy: Proxy::Generic,
            })
            .collect();
        let mut starts = Vec::new();
        for (thread, path) in paths.iter().enumerate() {
            starts.push(events.len());
            for step in &path.steps {
                let kind = match step.action {
                    Action::Read { location, value, red } => EventKind::Read { location, value, red },
                    Action::Write { location, value, .. } => EventKind::Write { location, value },
                    Action::Fence => EventKind::Fence,
                    Action::ProxyFence => EventKind::ProxyFence,
                    Action::AliasFence => EventKind::AliasFence,
                    Action::Barrier { .. } => EventKind::Barrier,
                };
                events.push(Event {
                    thread: Some(thread),
                    instruction: step.instruction,
                    kind,
                    order: step.order,
                    scope: step.scope,
                    proxy: step.proxy,
                });
            }
        }
        let sets = SETS.iter().map(|name| set(name, &events)).collect();
        let relations =
            RELATIONS.iter().map(|name| relation(name, test, &events, paths, &starts, phases)).collect();
        Some(Self { events, sets, relations, starts })
    }

    /// The writes that a read may read from: of its location and value.
    pub fn sources(&self, test: &Test, read: usize) -> Vec<usize> {
        let Some((location, value)) = self.events[read].access() else { return Vec::new() };
        let physical = test.locations[location].physical;
        let matches = |event: &Event| {
            event.is_write()
                && event.access().is_some_and(|(l, v)| test.locations[l].physical == physical && v == value)
        };
        (0..self.events.len()).filter(|i| matches(&self.events[*i])).collect()
    }
}

fn set(name: &str, events: &[Event]) -> Set {
    let ordered = |orders: &'static [Order], event: &Event| {
        orders.contains(&event.order) && (event.scope.is_some() || event.order != Order::Weak)
    };
    let belongs = |event: &Event| match name {
        "M" => event.is_read() || event.is_write(),
        "R" => event.is_read(),
        "W" => event.is_write(),
        "F" => matches!(event.kind, EventKind::Fence | EventKind::ProxyFence | EventKind::AliasFence),
        "B" => event.kind == EventKind::Barrier,
        "IW" => event.thread.is_none(),
        "WEAK" => event.access().is_some() && event.order == Order::Weak,
        "RLX" => ordered(&[Order::Relaxed], event),
        "ACQ" => ordered(&[Order::Acquire], event),
        "REL" => ordered(&[Order::Release], event),
        // A sequentially consistent fence is one of acquire and release too.
        "ACQ_REL" => ordered(&[Order::AcqRel, Order::Sc], event),
        "SC" => ordered(&[Order::Sc], event),
        "CTA" => event.scope == Some(Scope::Cta),
        "CLUSTER" => event.scope == Some(Scope::Cluster),
        "GPU" => event.scope == Some(Scope::Gpu),
        "SYS" => event.scope == Some(Scope::Sys),
        "GEN" => event.proxy == Proxy::Generic && event.kind != EventKind::AliasFence,
        "SUR" => event.proxy == Proxy::Surface,
        "TEX" => event.proxy == Proxy::Texture,
        "CON" => event.proxy == Proxy::Constant,
        "ALIAS" => event.kind == EventKind::AliasFence,
        "RED" => matches!(event.kind, EventKind::Read { red: true, .. }),
        // Programs of the C++ model have it.
        _ => false,
    };
    events.iter().enumerate().filter(|(_, event)| belongs(event)).fold(0, |set, (i, _)| set | 1 << i)
}

fn relation(
    name: &str,
    test: &Test,
    events: &[Event],
    paths: &[&Path],
    starts: &[usize],
    phases: &Phases,
) -> Relation {
    let n = events.len();
    let between = |related: &dyn Fn(&Event, &Event) -> bool| {
        let pairs = (0..n).flat_map(|a| (0..n).map(move |b| (a, b)));
        Relation::of(n, pairs.filter(|(a, b)| related(&events[*a], &events[*b])))
    };
    let place = |event: &Event| -> Option<Place> { event.thread.map(|t| test.threads[t].place) };
    let dependency = |mask: &dyn Fn(&super::paths::Step) -> Set| {
        let mut out = Relation::empty(n);
        for (path, start) in paths.iter().zip(starts) {
            for (i, step) in path.steps.iter().enumerate() {
                crate::relation::members(mask(step)).for_each(|from| out.insert(start + from, start + i));
            }
        }
        out
    };
    match name {
        "po" => {
            let pairs = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b)));
            Relation::of(
                n,
                pairs.filter(|(a, b)| events[*a].thread.is_some() && events[*a].thread == events[*b].thread),
            )
        }
        "rmw" => {
            let atomic = paths.iter().zip(starts).flat_map(|(path, start)| {
                let writes = path.steps.iter().enumerate();
                let writes =
                    writes.filter(|(_, step)| matches!(step.action, Action::Write { atomic: true, .. }));
                writes.map(move |(i, _)| (start + i - 1, start + i))
            });
            Relation::of(n, atomic)
        }
        "addr" => dependency(&|step| step.addr),
        "data" => dependency(&|step| step.data),
        "ctrl" => dependency(&|step| step.ctrl),
        "loc" => between(&|a, b| match (a.access(), b.access()) {
            (Some((x, _)), Some((y, _))) => test.locations[x].physical == test.locations[y].physical,
            _ => false,
        }),
        "vloc" => between(&|a, b| match (a.access(), b.access()) {
            (Some((x, _)), Some((y, _))) => test.locations[x].generic == test.locations[y].generic,
            _ => false,
        }),
        "sr" => between(&|a, b| match (place(a), a.scope, place(b), b.scope) {
            (Some(p), Some(s), Some(q), Some(t)) => p.includes(s, q) && q.includes(t, p),
            _ => false,
        }),
        "scta" => between(&|a, b| place(a).zip(place(b)).is_some_and(|(p, q)| p.same_cta(q))),
        "syncbar" => barriers(paths, starts, phases, n),
        "int" => between(&|a, b| a.thread.is_some() && a.thread == b.thread),
        "ext" => between(&|a, b| a.thread != b.thread),
        _ => Relation::empty(n),
    }
}

/// Every arrival of a phase with every thread that waits in it.
fn barriers(paths: &[&Path], starts: &[usize], phases: &Phases, n: usize) -> Relation {
    let event = |(thread, position): (usize, usize)| {
        let steps = paths[thread].steps.iter().enumerate();
        let mut barriers = steps.filter_map(|(i, step)| match step.action {
            Action::Barrier { arrive, .. } => Some((starts[thread] + i, arrive)),
            _ => None,
        });
        barriers.nth(position)
    };
    let mut out = Relation::empty(n);
    for phase in phases {
        let events: Vec<(usize, bool)> = phase.iter().filter_map(|arrival| event(*arrival)).collect();
        for (a, _) in &events {
            for (b, arrive) in &events {
                if a != b && !arrive {
                    out.insert(*a, *b);
                }
            }
        }
    }
    out
}
