//! Decisions in terms of the program: lines, threads, words.

use std::path::Path;
use std::sync::Arc;

use sim_core::grid::Kernel;
use sim_frontend::program::Program;
use sim_frontend::ptx::parser::parse;
use sim_verify::sync::agents::{Barrier, Does, NONE, Use};
use sim_verify::sync::decide::Recycling;
use sim_verify::sync::object::Misuse;
use sim_verify::sync::phases::{Phases, Wrong};
use sim_verify::sync::program::{Access, Programs, Queue};
use sim_verify::sync::races::{Point, Race};
use sim_verify::sync::{Decision, Measures, Verdict, View};

use super::report::{Act, Finding, Kind, Needed, Place, ViewVerdict};
use super::told;

/// A verdict by a view.
pub type Judgement = ViewVerdict;

/// Operations that are told of one by one.
const MOST: usize = 16;

/// Places of a kernel's program.
pub struct Lines {
    kernel: Arc<Program>,
    /// By number: the files that it was compiled from.
    files: Vec<(u32, String)>,
    block: [u32; 3],
    warp_size: u32,
}

/// The last part of a path.
fn base(path: &str) -> String {
    Path::new(path).file_name().map_or(path.to_string(), |name| name.to_string_lossy().into_owned())
}

impl Lines {
    /// Those of a kernel.
    pub fn new(kernel: &Kernel) -> Self {
        let program = Arc::clone(&kernel.code.program);
        let files = parse(&program.source, program.papers).map(|module| module.files).unwrap_or_default();
        let files = files.into_iter().map(|(number, path)| (number, base(path))).collect();
        Self { kernel: program, files, block: kernel.block, warp_size: kernel.warp_size }
    }

    /// That of an address of the program.
    pub fn place(&self, pc: u32) -> Place {
        self.of_plain(&self.kernel, pc)
    }

    /// That of an address of another form of the program.
    pub fn of_plain(&self, program: &Program, pc: u32) -> Place {
        let info = program.info.get(pc as usize);
        let source = info.and_then(|info| info.loc).and_then(|(file, line)| {
            let (_, name) = self.files.iter().find(|(number, _)| *number == file)?;
            Some(format!("{name}:{line}"))
        });
        Place {
            file: base(&program.source.name),
            line: info.map_or(0, |info| info.line),
            instruction: program.text(pc),
            source,
        }
    }

    fn thread(&self, number: u32) -> [u32; 3] {
        let [x, y, _] = self.block.map(|n| n.max(1));
        [number % x, number / x % y, number / x / y]
    }

    fn act(&self, number: u32, threads: u32, does: String, pc: u32) -> Act {
        Act {
            thread: self.thread(number),
            warp: number / self.warp_size,
            threads,
            rank: None,
            does,
            barrier: None,
            generation: None,
            address: None,
            bytes: None,
            place: self.place(pc),
        }
    }
}

/// What is not decided.
pub fn unknown(view: View, reason: &str, place: Option<Place>) -> Judgement {
    let reason = match &place {
        Some(place) => format!("{reason}, at {}", place.text()),
        None => reason.to_string(),
    };
    let needed = needed(&Measures::default());
    let (findings, left_open) = (Vec::new(), Vec::new());
    ViewVerdict { view, verdict: Kind::Unknown, findings, reason: Some(reason), left_open, needed }
}

fn needed(m: &Measures) -> Needed {
    Needed {
        threads: m.threads,
        groups: m.agents,
        barriers: m.barriers,
        generations: m.generations,
        dynamic_barriers: m.dynamic_barriers,
        barrier_operations: m.operations,
        accesses: m.accesses,
        bytes: m.bytes,
        pairs: m.pairs,
    }
}

impl ViewVerdict {
    /// The same with one finding that the run itself made.
    pub fn replaced(self, kind: &'static str, message: &str, place: Option<Place>) -> Self {
        let at = place.map(|place| format!("at {}", place.text()));
        let finding = Finding {
            kind,
            message: message.to_string(),
            count: 1,
            acts: Vec::new(),
            schedule: Vec::new(),
            schedule_before: 0,
            why: at.into_iter().collect(),
        };
        Self { verdict: Kind::Finding, findings: vec![finding], reason: None, left_open: Vec::new(), ..self }
    }
}

/// What waits for groups.
fn wait_of(queue: Queue) -> &'static str {
    match queue {
        Queue::Copies => "cp.async.wait_group",
        Queue::Stores => "cp.async.bulk.wait_group",
        Queue::Products => "wgmma.wait_group",
    }
}

struct Teller<'a> {
    decision: &'a Decision,
    programs: &'a Programs,
    lines: &'a Lines,
}

/// Tells a decision.
pub fn judge(decision: &mut Decision, programs: &Programs, lines: &Lines, view: View) -> Judgement {
    let needed = needed(&decision.measures);
    let intervals: Vec<Option<[(u32, u32); 2]>> = match &decision.verdict {
        Verdict::Races(races) => {
            let pairs: Vec<(Point, Point)> = races.iter().map(|race| (race.first, race.second)).collect();
            let at = |p: Point| (p.agent, p.operations);
            let both = |(a, b): (Point, Point)| {
                Some([decision.between(at(a), b.agent)?, decision.between(at(b), a.agent)?])
            };
            pairs.into_iter().map(both).collect()
        }
        _ => Vec::new(),
    };
    let teller = Teller { decision, programs, lines };
    let mut reason = None;
    let findings = match &decision.verdict {
        Verdict::Verified => Vec::new(),
        Verdict::Unknown(beyond) => {
            let place = (beyond.site != NONE).then(|| lines.place(beyond.site));
            return unknown(view, &beyond.reason, place);
        }
        Verdict::Deadlock { waiting } => vec![teller.deadlock(waiting)],
        Verdict::CountMismatch { earlier, later } => {
            vec![teller.simple(
                "count_mismatch",
                "thread counts of one use of a barrier differ",
                &[*earlier, *later],
            )]
        }
        Verdict::TooMany { earlier, later } => {
            let mut uses: Vec<Use> = earlier.iter().copied().take(MOST).collect();
            uses.push(*later);
            vec![teller.simple("too_many", "more threads arrive at a barrier than it expects", &uses)]
        }
        Verdict::Misuse { what, earlier, later } => vec![teller.misuse(*what, earlier, *later)],
        Verdict::Phases(found) => found.iter().map(|one| teller.phases(one)).collect(),
        Verdict::NotAwaited(found) => found.iter().map(|u| teller.not_awaited(*u)).collect(),
        Verdict::Recycling(found) => found.iter().map(|one| teller.recycling(one)).collect(),
        Verdict::Races(races) => {
            races.iter().zip(intervals).map(|(race, between)| teller.race(race, between)).collect()
        }
    };
    let verdict = if findings.is_empty() { Kind::Verified } else { Kind::Finding };
    let left_open = teller.left_open();
    if verdict == Kind::Finding {
        reason = None;
    }
    ViewVerdict { view, verdict, findings, reason, left_open, needed }
}

impl Teller<'_> {
    /// An address in the shared memory of its block, and the block's rank in a cluster of several.
    fn place_of(&self, address: u32) -> (u32, Option<u32>) {
        match self.programs.blocks {
            Some(blocks) => (address % blocks.bytes.max(1), Some(address / blocks.bytes.max(1))),
            None => (address, None),
        }
    }

    fn of_rank(&self, rank: u32) -> String {
        self.programs.blocks.map_or(String::new(), |_| format!(" of block {rank} of the cluster"))
    }

    /// The address of an mbarrier object, in words.
    fn address(&self, address: u32) -> String {
        let (at, rank) = self.place_of(address);
        format!("{at:#x}{}", rank.map_or(String::new(), |rank| self.of_rank(rank)))
    }

    fn act(&self, number: u32, threads: u32, does: String, pc: u32) -> Act {
        let Some(blocks) = self.programs.blocks else { return self.lines.act(number, threads, does, pc) };
        let act = self.lines.act(number % blocks.threads.max(1), threads, does, pc);
        Act { rank: Some(self.programs.block_of(number)), ..act }
    }

    /// A barrier by its number, in words.
    fn barrier(&self, node: u32) -> (String, Option<u32>, u32) {
        let (Some(agents), Some(trace)) = (&self.decision.agents, &self.decision.trace) else {
            return (String::new(), None, 0);
        };
        let Some(node) = trace.nodes.get(node as usize) else { return (String::new(), None, 0) };
        match agents.barriers[node.barrier as usize] {
            Barrier::Named { block, number } => {
                (format!("barrier {number}{}", self.of_rank(block)), Some(number), node.generation)
            }
            Barrier::Lanes(_, mask) => (format!("lanes {mask:#010x}"), None, node.generation),
            Barrier::Object(at) => (format!("mbarrier {}", self.address(at)), None, node.phase.1),
            Barrier::Cluster => ("cluster barrier".into(), None, node.generation),
            Barrier::Event(_) => ("an atomic operation".into(), None, node.generation),
        }
    }

    /// What an operation of a barrier does.
    fn use_of(&self, u: Use) -> Act {
        let Some(agents) = &self.decision.agents else {
            return self.act(0, 0, String::new(), 0);
        };
        let agent = &agents.list[u.agent as usize];
        let first = agents.first_thread(self.programs, u.agent);
        let (name, barrier, generation) = self.barrier(u.node);
        let Some(op) = agent.ops.get(u.op as usize) else {
            return self.act(first, agent.threads, "returns".into(), 0);
        };
        if op.does != Does::Meets {
            let object = match agents.barriers.get(op.barrier as usize) {
                Some(Barrier::Object(at)) => format!("mbarrier {}", self.address(*at)),
                _ => String::new(),
            };
            let phase = (u.node != NONE).then_some(generation);
            let act = self.act(first, agent.threads, told::does(op.does, &object, phase), op.site);
            return Act { generation: phase, ..act };
        }
        let verb = if op.waits { "waits at" } else { "arrives at" };
        let count = op.count.map_or("all threads of its block".to_string(), |n| format!("{n} threads"));
        let count = if barrier.is_some() { format!(" for {count}") } else { String::new() };
        let does = format!("{verb} {name}, use {generation},{count}");
        let act = self.act(first, agent.threads, does.trim_end_matches(',').to_string(), op.site);
        Act { barrier, generation: Some(generation), ..act }
    }

    fn simple(&self, kind: &'static str, message: &str, uses: &[Use]) -> Finding {
        let schedule = self.schedule();
        Finding {
            kind,
            message: message.to_string(),
            count: 1,
            acts: uses.iter().map(|u| self.use_of(*u)).collect(),
            schedule_before: schedule.1,
            schedule: schedule.0,
            why: Vec::new(),
        }
    }

    /// The last steps of the execution, and how many come before them.
    fn schedule(&self) -> (Vec<Act>, u64) {
        let (Some(agents), Some(trace)) = (&self.decision.agents, &self.decision.trace) else {
            return (Vec::new(), 0);
        };
        let before = trace.schedule.len().saturating_sub(MOST);
        let mut at = vec![0u32; agents.list.len()];
        let mut out = Vec::new();
        for (number, &agent) in trace.schedule.iter().enumerate() {
            let op = at[agent as usize];
            at[agent as usize] += 1;
            if number >= before {
                let node = trace.node_of[agent as usize][op as usize];
                out.push(self.use_of(Use { agent, op, node }));
            }
        }
        (out, before as u64)
    }

    fn deadlock(&self, waiting: &[Use]) -> Finding {
        let mut finding =
            self.simple("deadlock", "threads wait forever", &waiting[..waiting.len().min(MOST)]);
        let Some(trace) = &self.decision.trace else { return finding };
        let Some(agents) = &self.decision.agents else { return finding };
        let mut nodes: Vec<u32> = waiting.iter().map(|u| u.node).collect();
        nodes.dedup();
        for node in nodes.into_iter().take(MOST) {
            let (name, _, generation) = self.barrier(node);
            let of = &trace.nodes[node as usize];
            if let Some(object) = trace.objects.get(of.phase.0 as usize) {
                finding.why.push(told::left(&name, generation, object.state.left()));
                continue;
            }
            let came: u32 = of.parts.iter().map(|(agent, _)| agents.list[*agent as usize].counted).sum();
            let wants = of.count.map_or("all threads that have not returned".to_string(), |n| n.to_string());
            finding.why.push(format!("{name}, use {generation}: {came} of {wants} have arrived"));
        }
        let returned: u32 = agents
            .list
            .iter()
            .zip(&trace.node_of)
            .enumerate()
            .filter(|(a, (agent, nodes))| {
                nodes.len() == agent.ops.len() && !waiting.iter().any(|u| u.agent as usize == *a)
            })
            .map(|(_, (agent, _))| agent.threads)
            .sum();
        finding.why.push(format!("threads that have returned: {returned}"));
        finding
    }

    fn misuse(&self, what: Misuse, earlier: &[Use], later: Use) -> Finding {
        let mut uses: Vec<Use> = earlier.iter().rev().copied().take(MOST).rev().collect();
        uses.push(later);
        let (kind, message) = told::misuse(what);
        self.simple(kind, message, &uses)
    }

    fn phases(&self, found: &Phases) -> Finding {
        let (kind, message, why) = told::wrong(found.wrong);
        let mut finding = Finding {
            count: found.count,
            schedule: Vec::new(),
            schedule_before: 0,
            ..self.simple(kind, message, &[found.first, found.second])
        };
        finding.why.push(why.into());
        if found.wrong == Wrong::WaitsLate {
            finding.why.push(
                "phases are told by their parity, so that the wait would then be for another one".into(),
            );
        }
        finding
    }

    fn not_awaited(&self, u: Use) -> Finding {
        let finding = self.simple(
            "copy_not_awaited",
            "a copy may be in flight when its thread ends: nobody waits for it",
            &[u],
        );
        let why = match self.group_of(u) {
            None => "the copy is committed to no group".to_string(),
            Some(_) => format!("no {} behind it waits for its group", wait_of(self.queue_of(u.agent, u.op))),
        };
        let bulk = self.op(u.agent, u.op).is_some_and(|op| matches!(op.does, Does::CopiesBulk(_)));
        let why = if bulk { "nobody waits for the phase that counts its bytes".to_string() } else { why };
        Finding { why: vec![why], schedule: Vec::new(), schedule_before: 0, ..finding }
    }

    fn op(&self, agent: u32, op: u32) -> Option<&sim_verify::sync::agents::Op> {
        self.decision.agents.as_ref()?.list.get(agent as usize)?.ops.get(op as usize)
    }

    /// The queue of a copy.
    fn queue_of(&self, agent: u32, op: u32) -> Queue {
        match self.op(agent, op).map(|op| op.does) {
            Some(Does::Copies(queue)) => queue,
            _ => Queue::Copies,
        }
    }

    /// The commit behind a copy.
    fn group_of(&self, copy: Use) -> Option<u32> {
        let agents = self.decision.agents.as_ref()?;
        let ops = &agents.list[copy.agent as usize].ops;
        let queue = self.queue_of(copy.agent, copy.op);
        let commits = |op: &u32| ops[*op as usize].does == Does::Commits(queue);
        (copy.op..ops.len() as u32).find(commits)
    }

    /// Who waits for a copy first, if the accesses of a race are not ordered because it is in flight.
    fn in_flight(&self, point: Point) -> Option<String> {
        let agents = self.decision.agents.as_ref()?;
        let agent = &agents.list[point.agent as usize];
        let copy = agent.ops.get(point.operations as usize)?;
        let place = |op: u32| {
            let place = self.lines.place(agent.ops[op as usize].site);
            format!("{}:{}", place.file, place.line)
        };
        let rest = point.operations..agent.ops.len() as u32;
        if let Does::CopiesBulk(_) = copy.does {
            let (name, _, phase) = self.barrier(
                self.decision.trace.as_ref()?.node_of[point.agent as usize][point.operations as usize],
            );
            return Some(format!("its bytes are written when phase {phase} of {name} is complete"));
        }
        let queue = self.queue_of(point.agent, point.operations);
        let arrives = |op: &u32| matches!(agent.ops[*op as usize].does, Does::ArrivesLater(_));
        let waits = |op: &u32| {
            let op = &agent.ops[*op as usize];
            op.does == Does::Awaits(queue) && op.number > copy.number
        };
        let waited =
            rest.clone().find(waits).map(|op| format!("its thread waits for it first at {}", place(op)));
        let arrived = rest.clone().find(arrives).map(|op| format!("an arrival follows it, of {}", place(op)));
        let group = rest.clone().find(|op| agent.ops[*op as usize].does == Does::Commits(queue));
        let any = rest.clone().find(|op| agent.ops[*op as usize].does == Does::Awaits(queue));
        Some(waited.or(arrived).unwrap_or_else(|| match (group, any) {
            (None, _) => "it is committed to no group, and its thread never waits for it".into(),
            (Some(group), None) => {
                format!("it is committed at {}, and its thread never waits for a group behind it", place(group))
            }
            (Some(_), Some(any)) => format!(
                "its thread never waits for it: that at {} leaves the newest groups in flight, of which it is one",
                place(any)
            ),
        }))
    }

    fn recycling(&self, found: &Recycling) -> Finding {
        let (name, _, generation) = self.barrier(found.earlier.node);
        let why = format!(
            "no chain of barriers makes the second wait until use {generation} of {name} is complete: it can arrive in its place, or while \
             it is full"
        );
        Finding {
            kind: "unsafe_recycling",
            message: format!("{name} is used again before its earlier use is certain to be complete"),
            count: found.count,
            acts: vec![self.use_of(found.earlier), self.use_of(found.later)],
            schedule: Vec::new(),
            schedule_before: 0,
            why: vec![why],
        }
    }

    fn access(&self, point: Point) -> Act {
        let (from, rank) = self.place_of(point.range.start);
        let to = u64::from(from) + u64::from(point.range.bytes) - 1;
        let of = rank.map_or(String::new(), |rank| self.of_rank(rank));
        let does = format!("{} shared bytes {from:#x} to {to:#x}{of}", point.access.verb());
        let act = self.act(point.thread, 1, does, point.site);
        Act { address: Some(from), bytes: Some(point.range.bytes), ..act }
    }

    fn race(&self, race: &Race, between: Option<[(u32, u32); 2]>) -> Finding {
        let mut why = Vec::new();
        if let Some([of_first, of_second]) = between {
            why.push(self.around(race.first, race.second, of_first, "second", "first"));
            why.push(self.around(race.second, race.first, of_second, "first", "second"));
        }
        let copies = |point: &Point| matches!(point.access, Access::Copy | Access::Source);
        let at = |point: Point| (point.agent, point.operations);
        if !copies(&race.first) && self.decision.executes_before(at(race.first), at(race.second)) {
            why.push(
                "the first comes before the second in all interleavings, by collectives or relaxed operations that order no \
                 memory: by the memory model its effect need not be visible in that order"
                    .into(),
            );
        }
        let message = match (race.on_object, copies(&race.first) || copies(&race.second)) {
            (true, _) => {
                "bytes of a valid mbarrier object are accessed by something else than its operations"
            }
            (_, true) if race.first.access == Access::Source || race.second.access == Access::Source => {
                "shared bytes are written while an asynchronous copy or a product may be reading them"
            }
            (_, true) => "shared bytes are accessed while an asynchronous copy may be writing them",
            _ => "two threads access the same shared bytes, one of them writes, and no barrier orders them",
        };
        why.dedup();
        if race.on_object {
            why.clear();
        }
        for (point, which) in [(race.first, "first"), (race.second, "second")] {
            if let (true, Some(words)) = (copies(&point), self.in_flight(point)) {
                why.push(format!("of the {which}, which goes on beside its thread: {words}"));
            }
        }
        Finding {
            kind: if race.on_object { "barrier_misuse" } else { "race" },
            message: message.into(),
            count: race.count,
            acts: vec![self.access(race.first), self.access(race.second)],
            schedule: Vec::new(),
            schedule_before: 0,
            why,
        }
    }

    /// Which operations of `other` are ordered with an access: why this is not enough.
    fn around(&self, point: Point, other: Point, (from, to): (u32, u32), whose: &str, which: &str) -> String {
        let (Some(agents), Some(trace)) = (&self.decision.agents, &self.decision.trace) else {
            return String::new();
        };
        if point.thread == other.thread {
            return "they are of one thread, which goes on while its copies and products are in flight"
                .into();
        }
        if point.agent == other.agent && agents.list[point.agent as usize].ordered {
            return format!("the {which} access and the other are of one instruction of one warp");
        }
        let ops = &agents.list[other.agent as usize].ops;
        let name = |number: u32| {
            let op = number.checked_sub(1).filter(|op| (*op as usize) < ops.len())?;
            let node = trace.node_of[other.agent as usize][op as usize];
            let (name, _, generation) = self.barrier(node);
            let place = self.lines.place(ops[op as usize].site);
            let word = if ops[op as usize].does == Does::Meets { "use" } else { "phase" };
            let name = match name.as_str() {
                "" => "operation".into(),
                _ => format!("{name}, {word} {generation}"),
            };
            Some(format!("{name} ({}:{})", place.file, place.line))
        };
        let before = name(from).map_or("nothing".to_string(), |op| format!("only what precedes its {op}"));
        if agents.extended {
            return format!("of the {whose} thread, {before} is ordered before the {which} access");
        }
        let after = name(to).map_or("nothing".to_string(), |op| format!("only what follows its {op}"));
        format!("of the {whose} thread, {before} is ordered before the {which} access, and {after} after it")
    }

    fn left_open(&self) -> Vec<Act> {
        let nodes: Vec<u32> = self.decision.left_open().take(MOST).collect();
        let Some(trace) = &self.decision.trace else { return Vec::new() };
        let first = |node: u32| {
            let &(agent, op) = trace.nodes[node as usize].parts.first()?;
            let act = self.use_of(Use { agent, op, node });
            Some(Act { does: format!("{}, which no thread completes", act.does), ..act })
        };
        nodes.into_iter().filter_map(first).collect()
    }
}
