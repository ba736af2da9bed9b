//! Workers: each owns some SMs and partitions for a whole run. Between epochs they exchange mailboxes, one
//! for each pair of workers; a single worker needs none.

use std::sync::Arc;
use std::time::Instant;

use sim_frontend::diagnostic::Diagnostic;
use sim_memory::messages::Reply;
use sim_memory::messages::Request;
use sim_memory::partition::Partition;
use sim_memory::vocabulary::{Cycle, NEVER};

use super::dispatcher::Dispatcher;
use super::exchange::Exchange;
use super::gate::Gate;
use super::pace::Pace;
use super::primitives::{self, CachePadded, Mutex};
use crate::error::{Fault, FaultKind, Location, SimError};
use crate::packet::Packet;
use crate::reconvergence::Reconvergence;
use crate::sm::{Notice, Sm, SmMessage};

/// What follows an epoch.
pub(super) enum Turn {
    /// Another epoch, which ends at this cycle.
    Until(Cycle),
    /// A liveness check, a sample or an instruction count before the next epoch.
    Look,
    /// The run is over.
    Over,
}

/// How often a worker polls the gate before it sleeps. All polls but the first few yield the core; if no
/// other thread wants it, they take some hundred microseconds together, which is longer than an epoch of a
/// large chip.
const SPINS: u32 = 400;

/// The messages from one worker's components to another's in one epoch.
#[derive(Default)]
struct Mailbox {
    /// Arrival cycle, index of the partition at its worker, sending SM, request.
    requests: Vec<(Cycle, u32, u32, Request)>,
    /// Arrival cycle, index of the SM at its worker, sending partition, reply.
    replies: Vec<(Cycle, u32, u32, Reply)>,
    /// Arrival cycle, index of the SM at its worker, sending SM, packet.
    packets: Vec<(Cycle, u32, u32, Packet)>,
}

impl Mailbox {
    fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.replies.is_empty() && self.packets.is_empty()
    }
}

/// The SMs and partitions of one worker.
pub(super) struct Worker<P> {
    sms: Vec<Sm<P>>,
    /// Partitions with their indices on the chip.
    partitions: Vec<(u32, Partition)>,
    /// For each SM and partition: its worker, and its index there.
    homes: Arc<Homes>,
    /// Outgoing mailboxes, by receiving worker.
    out: Vec<Mailbox>,
    done: Vec<(Cycle, u32, Notice)>,
    done_latency: Cycle,
    /// The next event cycle of each SM, then of each partition. Components without an event in an epoch are
    /// skipped.
    next: Vec<Cycle>,
    /// Indices in `next` of the components that ran in this epoch.
    ran: Vec<usize>,
}

#[derive(Default)]
struct Homes {
    sms: Vec<(u32, u32)>,
    partitions: Vec<(u32, u32)>,
}

impl<P: Reconvergence> Worker<P> {
    /// A single worker with all components.
    pub(super) fn new(sms: Vec<Sm<P>>, partitions: Vec<Partition>, done_latency: Cycle) -> Self {
        let here = |count: usize| (0..count as u32).map(|i| (0, i)).collect();
        let homes = Homes { sms: here(sms.len()), partitions: here(partitions.len()) };
        Self {
            sms,
            partitions: (0..).zip(partitions).collect(),
            homes: Arc::new(homes),
            out: vec![Mailbox::default()],
            done: Vec::new(),
            done_latency,
            next: Vec::new(),
            ran: Vec::new(),
        }
        .with_next_events()
    }

    /// Fills in the next event cycle of every component.
    fn with_next_events(mut self) -> Self {
        self.find_next_events();
        self
    }

    fn find_next_events(&mut self) {
        let sms = self.sms.iter().map(|sm| sm.next_event().unwrap_or(NEVER));
        let partitions = self.partitions.iter().map(|(_, p)| p.next_event().unwrap_or(NEVER));
        self.next.clear();
        self.next.extend(sms.chain(partitions));
    }

    /// Its SMs, and its partitions with their numbers. Between two epochs all that they have sent has been delivered.
    pub(super) fn parts(&self) -> (&[Sm<P>], &[(u32, Partition)]) {
        debug_assert!(self.done.is_empty() && self.out.iter().all(Mailbox::is_empty));
        (&self.sms, &self.partitions)
    }

    pub(super) fn sms(&mut self) -> impl Iterator<Item = &mut Sm<P>> {
        self.sms.iter_mut()
    }

    pub(super) fn partitions(&mut self) -> impl Iterator<Item = (u32, &mut Partition)> {
        self.partitions.iter_mut().map(|(i, partition)| (*i, partition))
    }

    /// The cycle of the first event of any of its components.
    pub(super) fn next_event(&mut self) -> Option<Cycle> {
        self.next.iter().copied().min().filter(|next| *next != NEVER)
    }

    /// Runs the worker's components through the epoch; returns the first fault in the order (cycle, source)
    /// [grid-exec].
    pub(super) fn run(&mut self, end: Cycle) -> Option<Box<Fault>> {
        let mut first: Option<Box<Fault>> = None;
        let mut keep = |fault: Box<Fault>| {
            let place = |fault: &Fault| (fault.place.cycle, fault.place.sm);
            if first.as_ref().is_none_or(|other| place(&fault) < place(other)) {
                first = Some(fault);
            }
        };
        let Self { sms, partitions, next, ran, .. } = self;
        ran.clear();
        ran.extend((0..next.len()).filter(|&i| next[i] < end));
        let count = sms.len();
        for (turn, &i) in ran.iter().enumerate() {
            // What the SMs of the next turns touch is on its way while this one runs.
            if let Some(sm) = ran.get(turn + 2).and_then(|&i| sms.get_mut(i)) {
                sm.ask_for_warps(end);
            }
            if let Some(sm) = ran.get(turn + 1).and_then(|&i| sms.get(i)) {
                sm.ask_for_operands();
            }
            if let Some(sm) = sms.get_mut(i) {
                if let Err(fault) = sm.run(end) {
                    keep(fault);
                }
                next[i] = sm.next_event().unwrap_or(NEVER);
            } else if let Some((_, partition)) = partitions.get_mut(i - count) {
                if let Err(fault) = partition.advance(end) {
                    keep(partition_fault(&fault, end));
                }
                next[i] = partition.next_event().unwrap_or(NEVER);
            }
        }
        first
    }

    /// Collects the messages that the components sent in the epoch, by receiver. Returns the cycle of the
    /// next event, including arrivals. Completed blocks are appended to `done`.
    fn collect(&mut self) -> Option<Cycle> {
        let mut next = self.next_event().unwrap_or(NEVER);
        let Self { sms, partitions, homes, out, done, done_latency, ran, .. } = self;
        let count = sms.len();
        for &i in ran.iter() {
            if let Some(sm) = sms.get_mut(i) {
                let from = sm.index;
                sm.take_requests(|at, to, request| {
                    next = next.min(at);
                    let (worker, place) = homes.partitions[to as usize];
                    out[worker as usize].requests.push((at, place, from, request));
                });
                sm.take_packets(|(at, to, packet)| {
                    next = next.min(at);
                    let (worker, place) = homes.sms[to as usize];
                    out[worker as usize].packets.push((at, place, from, packet));
                });
                sm.take_notices(|notice| done.push((notice.at + *done_latency, from, notice)));
            } else if let Some((from, partition)) = partitions.get_mut(i - count) {
                partition.take_replies(|at, to, reply| {
                    next = next.min(at);
                    let (worker, place) = homes.sms[to as usize];
                    out[worker as usize].replies.push((at, place, *from, reply));
                });
            }
        }
        (next != NEVER).then_some(next)
    }

    /// Delivers a mailbox to the worker's components. They sort messages by (cycle, source); messages of one
    /// source are in order within a mailbox.
    fn deliver(&mut self, mail: &mut Mailbox) {
        let Self { sms, partitions, next, .. } = self;
        let (of_sms, of_partitions) = next.split_at_mut(sms.len());
        for (at, place, from, request) in mail.requests.drain(..) {
            arrives(at, place, from, request, partitions, of_partitions);
        }
        for (at, place, from, reply) in mail.replies.drain(..) {
            answers(at, place, from, reply, sms, of_sms);
        }
        for (at, place, from, packet) in mail.packets.drain(..) {
            sms[place as usize].deliver_packet(at, from, packet);
            of_sms[place as usize] = at.min(of_sms[place as usize]);
        }
    }

    fn deliver_dispatched(&mut self, mail: &mut Vec<(u32, Cycle, SmMessage)>) {
        for (sm, at, message) in mail.drain(..) {
            let (_, place) = self.homes.sms[sm as usize];
            self.sms[place as usize].deliver(at, message);
            let next = &mut self.next[place as usize];
            *next = at.min(*next);
        }
    }

    /// With a single worker: delivers the dispatcher's messages to the SMs.
    pub(super) fn deliver_own(&mut self, dispatched: &mut Vec<(u32, Cycle, SmMessage)>) {
        self.deliver_dispatched(dispatched);
    }

    /// With a single worker: delivers the components' messages to each other and to the dispatcher.
    pub(super) fn post(&mut self, dispatcher: &mut Vec<(Cycle, u32, Notice)>) -> Option<Cycle> {
        let Self { sms, partitions, next, done_latency, ran, out, .. } = self;
        let count = sms.len();
        // Packets go from one SM to another.
        let packets = &mut out[0].packets;
        let (of_sms, of_partitions) = next.split_at_mut(count);
        // Messages are large: they go from where they were made to where they are kept, without a
        // mailbox between.
        for &i in ran.iter() {
            if let Some(sm) = sms.get_mut(i) {
                let from = sm.index;
                sm.take_requests(|at, to, request| arrives(at, to, from, request, partitions, of_partitions));
                sm.take_packets(|(at, to, packet)| packets.push((at, to, from, packet)));
                sm.take_notices(|notice| dispatcher.push((notice.at + *done_latency, from, notice)));
            } else if let Some((from, partition)) = partitions.get_mut(i - count) {
                partition.take_replies(|at, to, reply| answers(at, to, *from, reply, sms, of_sms));
            }
        }
        for (at, to, from, packet) in packets.drain(..) {
            sms[to as usize].deliver_packet(at, from, packet);
            of_sms[to as usize] = at.min(of_sms[to as usize]);
        }
        self.next_event()
    }
}

/// Delivers a request of SM `from` to the partition at index `place`, and schedules an event at `at`.
#[inline]
fn arrives(
    at: Cycle,
    place: u32,
    from: u32,
    request: Request,
    partitions: &mut [(u32, Partition)],
    next: &mut [Cycle],
) {
    partitions[place as usize].1.deliver(at, from, request);
    next[place as usize] = at.min(next[place as usize]);
}

/// Delivers a reply of partition `from` to the SM at index `place`, and schedules an event at `at`.
#[inline]
fn answers<P: Reconvergence>(
    at: Cycle,
    place: u32,
    from: u32,
    reply: Reply,
    sms: &mut [Sm<P>],
    next: &mut [Cycle],
) {
    sms[place as usize].deliver_reply(at, from, reply);
    next[place as usize] = at.min(next[place as usize]);
}

/// One worker with these components in the place of all.
pub(super) fn replace<P: Reconvergence>(
    workers: &mut Vec<Worker<P>>,
    sms: Vec<Sm<P>>,
    partitions: Vec<Partition>,
) {
    let done_latency = workers.first().map_or(0, |worker| worker.done_latency);
    *workers = vec![Worker::new(sms, partitions, done_latency)];
}

/// Makes workers whose components have come to rest what they were at first; the components stay with them.
pub(super) fn reset<P: Reconvergence>(
    workers: &mut [Worker<P>],
    mut reset_sm: impl FnMut(&mut Sm<P>),
    mut reset_partition: impl FnMut(usize, &mut Partition),
) {
    for worker in workers {
        worker.sms.iter_mut().for_each(&mut reset_sm);
        worker.partitions.iter_mut().for_each(|(i, partition)| reset_partition(*i as usize, partition));
        worker.find_next_events();
        let Worker { sms: _, partitions: _, homes: _, out, done, done_latency: _, next: _, ran } = worker;
        for mail in out {
            mail.requests.clear();
            mail.replies.clear();
            mail.packets.clear();
        }
        done.clear();
        ran.clear();
    }
}

/// Distributes the components among `threads` workers in round-robin order; partitions in the opposite order,
/// so that a worker with one more SM has one partition less.
pub(super) fn deal<P: Reconvergence>(workers: &mut Vec<Worker<P>>, threads: usize) {
    if workers.len() == threads {
        return;
    }
    let done_latency = workers.first().map_or(0, |worker| worker.done_latency);
    let (mut sms, mut partitions) = (Vec::new(), Vec::new());
    for worker in workers.drain(..) {
        sms.extend(worker.sms);
        partitions.extend(worker.partitions);
    }
    sms.sort_unstable_by_key(|sm: &Sm<P>| sm.index);
    partitions.sort_unstable_by_key(|(index, _)| *index);
    let mut homes = Homes::default();
    for i in 0..sms.len() {
        homes.sms.push(((i % threads) as u32, (i / threads) as u32));
    }
    for i in 0..partitions.len() {
        homes.partitions.push(((threads - 1 - i % threads) as u32, (i / threads) as u32));
    }
    let homes = Arc::new(homes);
    workers.extend((0..threads).map(|_| Worker {
        sms: Vec::new(),
        partitions: Vec::new(),
        homes: Arc::clone(&homes),
        out: (0..threads).map(|_| Mailbox::default()).collect(),
        done: Vec::new(),
        done_latency,
        next: Vec::new(),
        ran: Vec::new(),
    }));
    for sm in sms {
        workers[homes.sms[sm.index as usize].0 as usize].sms.push(sm);
    }
    for (i, partition) in partitions {
        workers[homes.partitions[i as usize].0 as usize].partitions.push((i, partition));
    }
    *workers = workers.drain(..).map(Worker::with_next_events).collect();
}

/// State that the workers of a run share. Each entry is locked once per epoch and pair, by one of the two at
/// a time.
struct Shared {
    gate: Gate,
    /// The end cycle of the open epoch.
    end: CachePadded<primitives::AtomicU64>,
    mail: Exchange<Mailbox>,
    /// True if a worker's thread panicked; the scope propagates the panic.
    died: primitives::AtomicBool,
    /// For each worker: messages from the dispatcher.
    dispatched: Vec<CachePadded<Mutex<Vec<(u32, Cycle, SmMessage)>>>>,
    /// For each worker: the outcome of its epoch, for the leader.
    results: Vec<CachePadded<Mutex<Outcome>>>,
}

#[derive(Default)]
struct Outcome {
    next: Option<Cycle>,
    fault: Option<Box<Fault>>,
    done: Vec<(Cycle, u32, Notice)>,
}

/// Several workers, each on a thread of its own.
pub(super) struct Team<'t, P> {
    workers: &'t mut [Worker<P>],
    delay: Option<&'t (dyn Fn(usize) + Sync)>,
}

impl<'t, P: Reconvergence> Team<'t, P> {
    pub(super) fn new(workers: &'t mut [Worker<P>], delay: Option<&'t (dyn Fn(usize) + Sync)>) -> Self {
        Self { workers, delay }
    }

    /// Runs epochs, the first of which ends at `end`, until `turn` returns something else.
    pub(super) fn run(
        self,
        end: Cycle,
        dispatcher: &mut Dispatcher,
        mut turn: impl FnMut(Option<Cycle>, &mut Dispatcher) -> Result<Turn, SimError>,
    ) -> Result<Turn, SimError> {
        let count = self.workers.len();
        // More workers than cores would spin in each other's way.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let shared = Shared {
            gate: Gate::new(count - 1, if count <= cores { SPINS } else { 0 }),
            end: CachePadded::new(primitives::AtomicU64::new(end)),
            mail: Exchange::new(count),
            died: primitives::AtomicBool::new(false),
            dispatched: (0..count).map(|_| CachePadded::default()).collect(),
            results: (0..count).map(|_| CachePadded::default()).collect(),
        };
        let delay = self.delay;
        let workers = self.workers;
        let Some((leader, followers)) = (*workers).split_first_mut() else { return Ok(Turn::Over) };
        let homes = Arc::clone(&leader.homes);
        // Each locked once an epoch, by its thread or by the leader that works alone.
        let followers: Vec<CachePadded<Mutex<&mut Worker<P>>>> =
            followers.iter_mut().map(|worker| CachePadded::new(Mutex::new(worker))).collect();
        let mut pace = Pace::new();
        let mut round = 1;
        let result = std::thread::scope(|scope| {
            let shared = &shared;
            for (i, worker) in followers.iter().enumerate() {
                let name = format!("worker {}", i + 1);
                let body = move || {
                    let mut last = 0;
                    while let Some(round) = shared.gate.enter(last) {
                        let _arrival = Arrival(shared);
                        worker.lock().epoch(i + 1, round, shared, delay);
                        last = round;
                    }
                };
                let started = std::thread::Builder::new().name(name).spawn_scoped(scope, body);
                if let Err(error) = started {
                    shared.gate.open(u64::MAX, true);
                    let message =
                        format!("a worker thread could not be started: {error}; use fewer --threads");
                    return Err(SimError::Input(vec![Diagnostic::error("threads", message)]));
                }
            }
            // Followers leave even where the leader's turn panics.
            let _over = Over(&shared.gate);
            loop {
                for (sm, at, message) in dispatcher.outbox.drain(..) {
                    let (worker, _) = homes.sms[sm as usize];
                    shared.dispatched[worker as usize].lock().push((sm, at, message));
                }
                if pace.is_together(round) {
                    shared.gate.open(round, false);
                    let begun = Instant::now();
                    leader.epoch(0, round, shared, delay);
                    let done = Instant::now();
                    shared.gate.all_arrived();
                    pace.waited(round, done - begun, done.elapsed());
                } else {
                    leader.epoch(0, round, shared, delay);
                    for (i, worker) in followers.iter().enumerate() {
                        worker.lock().epoch(i + 1, round, shared, delay);
                    }
                }
                if shared.died.load(primitives::Ordering::SeqCst) {
                    return Ok(Turn::Over);
                }
                let (mut next, mut fault): (Option<Cycle>, Option<Box<Fault>>) = (None, None);
                for result in &shared.results {
                    let mut result = result.lock();
                    next = [next, result.next.take()].into_iter().flatten().min();
                    dispatcher.inbox.append(&mut result.done);
                    if let Some(other) = result.fault.take() {
                        let place = |fault: &Fault| (fault.place.cycle, fault.place.sm);
                        if fault.as_ref().is_none_or(|first| place(&other) < place(first)) {
                            fault = Some(other);
                        }
                    }
                }
                if let Some(fault) = fault {
                    return Err(SimError::Stopped(fault));
                }
                match turn(next, dispatcher)? {
                    Turn::Until(end) => shared.end.store(end, primitives::Ordering::Relaxed),
                    other => return Ok(other),
                }
                round += 1;
            }
        });
        // What was sent in the last round is for the next team's first.
        for (me, worker) in workers.iter_mut().enumerate() {
            shared.mail.receive(round + 1, me, |mail| worker.deliver(mail));
        }
        result
    }
}

/// Reports a follower's arrival when it is dropped, even if its part panicked.
struct Arrival<'s>(&'s Shared);

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.died.store(true, primitives::Ordering::SeqCst);
        }
        self.0.gate.arrive();
    }
}

/// Ends the followers' work when it is dropped, even if the leader panics.
struct Over<'g>(&'g Gate);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.open(u64::MAX, true);
    }
}

impl<P: Reconvergence> Worker<P> {
    /// Performs a worker's part of an epoch.
    fn epoch(&mut self, me: usize, round: u64, shared: &Shared, delay: Option<&(dyn Fn(usize) + Sync)>) {
        let hold_up = || {
            if let Some(delay) = delay {
                delay(me);
            }
        };
        let end = shared.end.load(primitives::Ordering::Relaxed);
        hold_up();
        self.deliver_dispatched(&mut shared.dispatched[me].lock());
        shared.mail.receive(round, me, |mail| self.deliver(mail));
        hold_up();
        let fault = self.run(end);
        let next = self.collect();
        hold_up();
        for (to, own) in self.out.iter_mut().enumerate() {
            shared.mail.send(round, me, to, own);
        }
        let mut result = shared.results[me].lock();
        result.next = next;
        result.fault = fault;
        result.done.append(&mut self.done);
        hold_up();
    }
}

fn partition_fault(fault: &sim_memory::fault::MemoryFault, end: Cycle) -> Box<Fault> {
    Box::new(Fault {
        kind: FaultKind::Fault,
        rule: fault.rule.to_string(),
        message: format!("{} at {:#x}", fault.reason, fault.address),
        place: Location {
            kernel: "".into(),
            block: [0; 3],
            thread: [0; 3],
            warp: 0,
            lane: 0,
            pc: 0,
            file: "".into(),
            line: 0,
            instruction: "".into(),
            sm: u32::MAX,
            cycle: end,
        },
    })
}
