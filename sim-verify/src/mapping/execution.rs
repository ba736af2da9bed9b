//! Events of a program of C++ and of what it is compiled to, for the two models.

use super::program::{MemoryOrder, Mode, OpKind, Shape};
use super::table::{Instruction, Table};
use crate::litmus::program::{Order, Place, Scope};
use crate::relation::{Relation, Set};
use crate::vocabulary::{self, RELATIONS, SETS};

/// Events with the sets and relations that models ask for.
#[derive(Clone, Debug)]
pub struct Events {
    /// The number of events.
    pub n: usize,
    /// Values of [`SETS`].
    pub sets: Vec<Set>,
    /// Values of [`RELATIONS`].
    pub relations: Vec<Relation>,
    /// For each operation: the event that reads and the event that writes, if it has one.
    pub accesses: Vec<(Option<usize>, Option<usize>)>,
}

/// What an operation reads or writes: operations by their index, or the initial value of the location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// The initial write of the location.
    Initial(usize),
    /// An operation.
    Op(usize),
}

/// Slots of the sets and relations that are filled in, looked up once.
struct Slots {
    m: usize,
    r: usize,
    w: usize,
    f: usize,
    iw: usize,
    na: usize,
    weak: usize,
    rlx: usize,
    acq: usize,
    rel: usize,
    acq_rel: usize,
    sc: usize,
    gen_: usize,
    po: usize,
    rmw: usize,
    loc: usize,
    vloc: usize,
    sr: usize,
    scta: usize,
}

static SLOTS: std::sync::LazyLock<Slots> = std::sync::LazyLock::new(|| {
    let (set, relation) = (vocabulary::set, vocabulary::relation);
    Slots {
        m: set("M"),
        r: set("R"),
        w: set("W"),
        f: set("F"),
        iw: set("IW"),
        na: set("NA"),
        weak: set("WEAK"),
        rlx: set("RLX"),
        acq: set("ACQ"),
        rel: set("REL"),
        acq_rel: set("ACQ_REL"),
        sc: set("SC"),
        gen_: set("GEN"),
        po: relation("po"),
        rmw: relation("rmw"),
        loc: relation("loc"),
        vloc: relation("vloc"),
        sr: relation("sr"),
        scta: relation("scta"),
    }
});

struct Builder<'s> {
    shape: &'s Shape,
    events: Events,
    /// By event: thread, location, scope.
    facts: Vec<(Option<usize>, Option<u8>, Option<Scope>)>,
}

impl Builder<'_> {
    fn new(shape: &Shape) -> Builder<'_> {
        let events = Events { n: 0, sets: vec![0; SETS.len()], relations: Vec::new(), accesses: Vec::new() };
        let mut builder = Builder { shape, events, facts: Vec::new() };
        for location in 0..shape.locations() {
            let event = builder.event(None, Some(location as u8), None);
            for slot in [SLOTS.m, SLOTS.w, SLOTS.iw, SLOTS.na, SLOTS.weak] {
                builder.mark(slot, event);
            }
        }
        builder
    }

    fn event(&mut self, thread: Option<usize>, location: Option<u8>, scope: Option<Scope>) -> usize {
        self.facts.push((thread, location, scope));
        self.mark(SLOTS.gen_, self.facts.len() - 1);
        self.facts.len() - 1
    }

    fn mark(&mut self, slot: usize, event: usize) {
        self.events.sets[slot] |= 1 << event;
    }

    fn read(&mut self, event: usize) {
        self.mark(SLOTS.m, event);
        self.mark(SLOTS.r, event);
    }

    fn write(&mut self, event: usize) {
        self.mark(SLOTS.m, event);
        self.mark(SLOTS.w, event);
    }

    fn finish(mut self, rmw: &[(usize, usize)]) -> Events {
        let n = self.facts.len();
        let mut relations = vec![Relation::empty(n); RELATIONS.len()];
        let places: Vec<Option<Place>> =
            self.facts.iter().map(|(t, ..)| t.map(|t| self.shape.places[t])).collect();
        for a in 0..n {
            let (thread, location, scope) = self.facts[a];
            for b in 0..n {
                let (other, place, reach) = self.facts[b];
                if thread.is_some() && thread == other && a < b {
                    relations[SLOTS.po].insert(a, b);
                }
                if location.is_some() && location == place {
                    relations[SLOTS.loc].insert(a, b);
                    relations[SLOTS.vloc].insert(a, b);
                }
                if let (Some(p), Some(q)) = (places[a], places[b]) {
                    if p.same_cta(q) {
                        relations[SLOTS.scta].insert(a, b);
                    }
                    if let (Some(s), Some(t)) = (scope, reach)
                        && p.includes(s, q)
                        && q.includes(t, p)
                    {
                        relations[SLOTS.sr].insert(a, b);
                    }
                }
            }
        }
        rmw.iter().for_each(|(a, b)| relations[SLOTS.rmw].insert(*a, *b));
        self.events.n = n;
        self.events.relations = relations;
        self.events
    }
}

/// What a sequentially consistent access is in the model of C++.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScAccess {
    /// A sequentially consistent fence of its scope in front of an acquire or release access, as MM §5 has it for theorem
    /// 3 (after Lahav et al.).
    #[default]
    Converted,
    /// A sequentially consistent event, as MM figure 10 has it.
    Direct,
}

/// Events of the C++ program; operations without a mode are the strongest.
pub fn of_source(shape: &Shape, modes: &[Option<Mode>], sc: ScAccess) -> Events {
    let mut builder = Builder::new(shape);
    let mut rmw = Vec::new();
    for (i, (thread, op)) in shape.ops().enumerate() {
        let mut mode = modes[i].unwrap_or(Mode::STRONGEST);
        if op.kind.accesses() && mode.order == MemoryOrder::Sc && sc == ScAccess::Converted {
            let fence = builder.event(Some(thread), None, mode.scope);
            builder.mark(SLOTS.f, fence);
            builder.mark(SLOTS.sc, fence);
            mode.order = match op.kind {
                OpKind::Read => MemoryOrder::Acq,
                OpKind::Write => MemoryOrder::Rel,
                _ => MemoryOrder::AcqRel,
            };
        }
        let location = op.kind.accesses().then_some(op.location);
        let mut access = (None, None);
        if op.kind == OpKind::Fence {
            let event = builder.event(Some(thread), None, mode.scope);
            builder.mark(SLOTS.f, event);
            let slot = match mode.order {
                MemoryOrder::Acq => SLOTS.acq,
                MemoryOrder::Rel => SLOTS.rel,
                MemoryOrder::AcqRel => SLOTS.acq_rel,
                _ => SLOTS.sc,
            };
            builder.mark(slot, event);
        }
        if op.kind.reads() {
            let event = builder.event(Some(thread), location, mode.scope);
            builder.read(event);
            let slot = match mode.order {
                MemoryOrder::Na => SLOTS.na,
                MemoryOrder::Acq | MemoryOrder::AcqRel => SLOTS.acq,
                MemoryOrder::Sc => SLOTS.sc,
                MemoryOrder::Rlx | MemoryOrder::Rel => SLOTS.rlx,
            };
            builder.mark(slot, event);
            access.0 = Some(event);
        }
        if op.kind.writes() {
            let event = builder.event(Some(thread), location, mode.scope);
            builder.write(event);
            let slot = match mode.order {
                MemoryOrder::Na => SLOTS.na,
                MemoryOrder::Rel | MemoryOrder::AcqRel => SLOTS.rel,
                MemoryOrder::Sc => SLOTS.sc,
                MemoryOrder::Rlx | MemoryOrder::Acq => SLOTS.rlx,
            };
            builder.mark(slot, event);
            access.1 = Some(event);
        }
        rmw.extend(access.0.zip(access.1));
        builder.events.accesses.push(access);
    }
    builder.finish(&rmw)
}

/// Events of the compiled program; operations without a mode become what `floors` has for them.
pub fn of_compiled(
    shape: &Shape,
    modes: &[Option<Mode>],
    table: &Table,
    floors: &[Option<Instruction>],
) -> Events {
    let mut builder = Builder::new(shape);
    let mut rmw = Vec::new();
    for (i, (thread, op)) in shape.ops().enumerate() {
        let list = match modes[i] {
            Some(mode) => table.compile(op.kind, mode),
            None => floors.get(i).map_or(&[][..], |floor| floor.as_slice()),
        };
        let mut access = (None, None);
        for Instruction { fence, order, scope } in list.iter().copied() {
            if fence {
                let event = builder.event(Some(thread), None, scope);
                builder.mark(SLOTS.f, event);
                let slots: &[usize] = match order {
                    Order::Acquire => &[SLOTS.acq],
                    Order::Release => &[SLOTS.rel],
                    Order::Sc => &[SLOTS.acq_rel, SLOTS.sc],
                    _ => &[SLOTS.acq_rel],
                };
                slots.iter().for_each(|slot| builder.mark(*slot, event));
                continue;
            }
            if op.kind.reads() {
                let event = builder.event(Some(thread), Some(op.location), scope);
                builder.read(event);
                let slot = match order {
                    Order::Weak => SLOTS.weak,
                    Order::Acquire | Order::AcqRel => SLOTS.acq,
                    _ => SLOTS.rlx,
                };
                builder.mark(slot, event);
                access.0 = Some(event);
            }
            if op.kind.writes() {
                let event = builder.event(Some(thread), Some(op.location), scope);
                builder.write(event);
                let slot = match order {
                    Order::Weak => SLOTS.weak,
                    Order::Release | Order::AcqRel => SLOTS.rel,
                    _ => SLOTS.rlx,
                };
                builder.mark(slot, event);
                access.1 = Some(event);
            }
        }
        rmw.extend(access.0.zip(access.1));
        builder.events.accesses.push(access);
    }
    builder.finish(&rmw)
}

impl Events {
    /// The event of a write.
    pub fn event_of(&self, writer: Writer) -> Option<usize> {
        match writer {
            Writer::Initial(location) => Some(location),
            Writer::Op(op) => self.accesses[op].1,
        }
    }

    /// The reads-from relation of a choice of sources: pairs of a writer and a reading operation.
    pub fn reads_from(&self, choice: &[(Writer, usize)]) -> Relation {
        let pairs = choice.iter().filter_map(|(w, r)| Some((self.event_of(*w)?, self.accesses[*r].0?)));
        Relation::of(self.n, pairs)
    }
}

/// All choices of sources for the reads of a shape.
pub fn choices(shape: &Shape) -> Vec<Vec<(Writer, usize)>> {
    let ops: Vec<_> = shape.ops().map(|(_, op)| op).collect();
    let mut out = vec![Vec::new()];
    for (read, op) in ops.iter().enumerate().filter(|(_, op)| op.kind.reads()) {
        let writers = ops
            .iter()
            .enumerate()
            .filter(|(w, other)| other.kind.writes() && other.location == op.location && *w != read);
        let writers: Vec<Writer> = std::iter::once(Writer::Initial(op.location.into()))
            .chain(writers.map(|(w, _)| Writer::Op(w)))
            .collect();
        out = out
            .into_iter()
            .flat_map(|choice: Vec<(Writer, usize)>| {
                writers.iter().map(move |w| choice.iter().copied().chain([(*w, read)]).collect())
            })
            .collect();
    }
    out
}
