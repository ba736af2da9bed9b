//! One DRAM channel: banks with row buffers, the constraints of its standard, refresh, and an
//! FR-FCFS scheduler. It says when a request's bytes have crossed the data bus; the bytes
//! themselves move at the micro step of the memory program. Times are cycles of the command clock.

mod standard;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::divide::Divisor;
use crate::occupancy::{Occupancy, QueueStats};
use crate::spec::DramSpec;
use standard::{COMMANDS, Held, LONGEST_WINDOW};
pub use standard::{Command, Constraint, DramTimings, Level, STANDARDS};

/// A cycle of the command clock.
type DramCycle = u64;

/// A request of the scheduler's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DramRequest {
    /// Who asks; `None` for writes, which nobody waits for.
    pub tag: Option<u32>,
    /// Byte address in this channel.
    pub address: u64,
    /// Bursts to move.
    pub bursts: u32,
    /// A write.
    pub write: bool,
}

/// A request with its place, small: a chip has thousands in its queues, and each decision reads a
/// queue from one end to the other.
#[derive(Clone, Copy, Debug)]
struct Queued {
    row: u64,
    /// Byte address in this channel.
    address: u64,
    /// Who asks.
    tag: Option<u32>,
    bursts: u16,
    /// Bursts to move still.
    left: u16,
    bank: u8,
    write: bool,
    /// Its bank opened the row for it.
    opened: bool,
}

impl Queued {
    fn bank(&self) -> usize {
        usize::from(self.bank)
    }

    fn request(&self) -> DramRequest {
        let Self { tag, address, bursts, write, .. } = *self;
        DramRequest { tag, address, bursts: bursts.into(), write }
    }
}

/// When commands may come, by place and kind: the first cycle that the constraints allow. It is
/// brought up to date with each command, which is asked about many times.
#[derive(Clone, Debug)]
struct Allowed {
    from: Vec<[DramCycle; COMMANDS]>,
    /// The last commands of each kind, latest first, where a window looks back over several; 0 is
    /// none, others are one cycle up.
    recent: Vec<[[DramCycle; LONGEST_WINDOW]; COMMANDS]>,
}

impl Allowed {
    fn new(places: usize) -> Self {
        Self { from: vec![[0; COMMANDS]; places], recent: vec![[[0; LONGEST_WINDOW]; COMMANDS]; places] }
    }

    /// A command comes at `at`. Commands are decided in the order of requests, so one may lie
    /// before those noted already.
    #[inline]
    fn note(&mut self, place: usize, command: Command, at: DramCycle, held: &Held) {
        let from = &mut self.from[place];
        for rule in &held.last {
            let from = &mut from[usize::from(rule.following)];
            *from = (at + rule.latency).max(*from);
        }
        if held.windows.is_empty() {
            return;
        }
        let recent = &mut self.recent[place][command as usize];
        let mut at = at + 1;
        for slot in recent.iter_mut() {
            if at > *slot {
                std::mem::swap(slot, &mut at);
            }
        }
        for rule in &held.windows {
            let last = recent[usize::from(rule.back)];
            if last != 0 {
                let from = &mut from[usize::from(rule.following)];
                *from = (last - 1 + rule.latency).max(*from);
            }
        }
    }
}

/// Counters of one channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct DramStats {
    /// Read requests.
    pub reads: u64,
    /// Write requests.
    pub writes: u64,
    /// Requests that found their row open.
    pub row_hits: u64,
    /// Requests that found their bank closed.
    pub row_misses: u64,
    /// Requests that found another row open in their bank.
    pub row_conflicts: u64,
    /// Changes of the data bus from reads to writes and back.
    pub turnarounds: u64,
    /// Refresh commands.
    pub refreshes: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Cycles of the command clock the data bus was in use.
    pub busy_cycles: u64,
    /// The queues of reads and writes, in cycles of the command clock.
    pub queue: QueueStats,
}

impl DramStats {
    /// Adds another channel's.
    pub fn add(&mut self, other: &Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.row_hits += other.row_hits;
        self.row_misses += other.row_misses;
        self.row_conflicts += other.row_conflicts;
        self.turnarounds += other.turnarounds;
        self.refreshes += other.refreshes;
        self.bytes += other.bytes;
        self.busy_cycles += other.busy_cycles;
        self.queue.add(&other.queue);
    }
}

/// One channel.
#[derive(Clone, Debug)]
pub struct DramChannel {
    spec: DramSpec,
    timings: Arc<DramTimings>,
    /// By bank: the open row.
    banks: Vec<Option<u64>>,
    /// By bank: the place of its group.
    groups: Vec<usize>,
    /// Banks, then bank groups, then the channel.
    allowed: Allowed,
    /// How an address splits.
    pieces: Divisor,
    stripes: Divisor,
    by_groups: Divisor,
    by_banks: Divisor,
    /// In the order they came. They are short, and read far more often than changed.
    reads: Vec<Queued>,
    writes: Vec<Queued>,
    /// Reads before the scheduler's queue.
    backlog: VecDeque<Queued>,
    /// Of reads and of writes, by bank: how many are queued, and how many find their row open.
    counts: [Vec<[u32; 2]>; 2],
    /// Of reads and of writes: banks with requests that find their row open, and with others only.
    hits: [u64; 2],
    shut: [u64; 2],
    /// Writes go before reads until few are left.
    draining: bool,
    /// Reads, writes: how many went before the oldest.
    overtaken: [u32; 2],
    /// The data bus last wrote.
    wrote: bool,
    bus_free: DramCycle,
    row_miss: DramCycle,
    /// From precharge to activate.
    precharge: DramCycle,
    /// Bursts of one bank group come slower than those of several.
    slow_groups: bool,
    /// What a refresh reaches, and the cycles between two of them.
    refreshes: Option<(Level, DramCycle)>,
    /// When the next refresh is due.
    refresh_due: DramCycle,
    /// By bank group: when a column command could come.
    ready: Vec<DramCycle>,
    /// By bank group: its banks.
    members: Vec<u64>,
    occupancy: Occupancy,
    stats: DramStats,
}

impl DramChannel {
    /// An idle channel with all rows closed.
    pub fn new(spec: &DramSpec, timings: Arc<DramTimings>) -> Self {
        use Command::{Activate, Precharge};
        let (banks, groups) = (spec.banks as usize, spec.bank_groups as usize);
        let refreshes = timings.refresh.map(|(level, interval)| match level {
            // Each bank once an interval.
            Level::Bank => (level, interval / u64::from(spec.banks)),
            _ => (level, interval),
        });
        Self {
            banks: vec![None; banks],
            groups: (0..banks).map(|bank| banks + bank % groups).collect(),
            allowed: Allowed::new(banks + groups + 1),
            pieces: Divisor::new(u64::from(spec.group_interleave_bytes)),
            stripes: Divisor::new(u64::from(spec.row_bytes) * u64::from(spec.bank_groups)),
            by_groups: Divisor::new(u64::from(spec.bank_groups)),
            by_banks: Divisor::new(u64::from(spec.banks / spec.bank_groups)),
            reads: Vec::new(),
            writes: Vec::new(),
            backlog: VecDeque::new(),
            counts: [vec![[0; 2]; banks], vec![[0; 2]; banks]],
            hits: [0; 2],
            shut: [0; 2],
            draining: false,
            overtaken: [0; 2],
            wrote: false,
            bus_free: 0,
            row_miss: timings.row_miss(),
            precharge: timings.delay(Level::Bank, Precharge, Activate),
            slow_groups: timings.column_delay(Level::BankGroup) > timings.column_delay(Level::Channel),
            refresh_due: refreshes.map_or(DramCycle::MAX, |(_, interval)| interval),
            refreshes,
            ready: vec![0; groups],
            members: (0..groups)
                .map(|group| (group..banks).step_by(groups).fold(0, |all, bank| all | 1 << bank))
                .collect(),
            occupancy: Occupancy::default(),
            stats: DramStats::default(),
            spec: spec.clone(),
            timings,
        }
    }

    /// Counters.
    pub fn stats(&self) -> DramStats {
        DramStats { queue: self.occupancy.stats(), ..self.stats }
    }

    /// Queues a request. Reads that find the scheduler's queue full wait before it, in order.
    pub fn push(&mut self, request: DramRequest, now: DramCycle) {
        let (bank, row) = self.place(request.address);
        let DramRequest { tag, address, bursts, write } = request;
        // A request is a part of a line, and a line has no more bursts than bytes.
        let bursts = u16::try_from(bursts.max(1)).unwrap_or(u16::MAX);
        let bank = bank as u8;
        let entry = Queued { row, address, tag, bursts, left: bursts, bank, write, opened: false };
        if !request.write && self.reads.len() >= self.spec.queue as usize {
            self.backlog.push_back(entry);
        } else {
            self.enter(entry);
        }
        self.occupancy.set(self.queued() as u64, now);
    }

    fn enter(&mut self, entry: Queued) {
        let write = entry.write;
        let open = u32::from(self.banks[entry.bank()] == Some(entry.row));
        self.queue_mut(write).push(entry);
        self.count(write, entry.bank(), |[queued, hits]| [queued + 1, hits + open]);
    }

    /// Number of requests in the queues.
    pub fn queued(&self) -> usize {
        self.reads.len() + self.writes.len() + self.backlog.len()
    }

    /// The queue of writes takes another one.
    pub fn takes_writes(&self) -> bool {
        self.writes.len() < self.spec.write_queue.entries as usize
    }

    /// Bank and row of an address. Pieces of a row go round the bank groups, so that a stream
    /// meets the shorter column delay; the bank is mixed with the low bits of the row, so that
    /// power-of-two strides do not stay in one bank.
    fn place(&self, address: u64) -> (usize, u64) {
        let (piece, _) = self.pieces.divide(address);
        let (stripe, _) = self.stripes.divide(address);
        let (row, _) = self.by_banks.divide(stripe);
        let (_, group) = self.by_groups.divide(piece + stripe);
        let (_, bank) = self.by_banks.divide(stripe + row);
        ((bank * self.by_groups.by() + group) as usize, row)
    }

    /// The first cycle at which the scheduler chooses again; `None` without requests.
    pub fn next_decision(&self) -> Option<DramCycle> {
        // It commits so far ahead of the bus that a row can be opened meanwhile.
        (self.queued() > 0).then(|| self.bus_free.saturating_sub(self.row_miss))
    }

    /// Chooses one request at `now` by FR-FCFS: banks open the rows that the oldest requests ask
    /// for once none asks for the row they have open; of the requests whose row is open, the one
    /// whose data can move first is served, the oldest of equals. Writes wait until their queue
    /// is high or no read waits. Gives the request with the cycle its last byte has crossed the
    /// bus.
    pub fn choose(&mut self, now: DramCycle) -> Option<(DramRequest, DramCycle)> {
        if self.next_decision()? > now {
            return None;
        }
        // What holds until a request leaves its queue: bursts of the same cycle find it done.
        self.refresh(now);
        let limits = &self.spec.write_queue;
        let level = if self.draining { limits.low } else { limits.high };
        self.draining = self.writes.len() >= level as usize;
        let writes = self.draining || self.reads.is_empty();
        self.open_rows(writes, now);
        while self.bus_free.saturating_sub(self.row_miss) <= now {
            let served = self.serve(writes, now);
            if served.is_some() {
                return served;
            }
        }
        None
    }

    /// One decision. Where bursts of one bank group come slower than the data bus could take
    /// them, it is about one burst, so that those of other groups fill the gaps.
    fn serve(&mut self, writes: bool, now: DramCycle) -> Option<(DramRequest, DramCycle)> {
        let kind = usize::from(writes);
        let late = self.overtaken[kind] >= self.spec.overtaking_limit;
        let chosen = if late { 0 } else { self.first_ready(writes, now) };
        let entry = *self.queue_mut(writes).get(chosen)?;
        if self.banks[entry.bank()] != Some(entry.row) {
            self.open(entry.bank(), entry.row, now);
            self.queue_mut(writes)[chosen].opened = true;
        }
        let t = &self.timings;
        let (command, delay) = match writes {
            true => (Command::Write, t.write_latency),
            false => (Command::Read, t.read_latency),
        };
        let delay = delay + u64::from(self.spec.burst_cycles);
        self.stats.turnarounds += u64::from(self.wrote != writes);
        self.wrote = writes;
        if self.slow_groups && entry.left > 1 {
            self.queue_mut(writes)[chosen].left -= 1;
            let end = self.issue(command, entry.bank(), now) + delay;
            self.moved(1, end);
            return None;
        }
        let entry = self.take(writes, chosen, now);
        self.overtaken[kind] = if chosen == 0 { 0 } else { self.overtaken[kind] + 1 };
        let mut end = now;
        for _ in 0..entry.left {
            end = self.issue(command, entry.bank(), now) + delay;
        }
        self.moved(entry.left.into(), end);
        Some((entry.request(), end))
    }

    /// Bursts have their place on the data bus, the last of them until `end`.
    fn moved(&mut self, bursts: u32, end: DramCycle) {
        self.bus_free = self.bus_free.max(end);
        self.stats.bytes += u64::from(bursts) * u64::from(self.spec.burst_bytes);
        self.stats.busy_cycles += u64::from(bursts) * u64::from(self.spec.burst_cycles);
    }

    /// Takes a request out of its queue.
    fn take(&mut self, writes: bool, place: usize, now: DramCycle) -> Queued {
        let entry = self.queue_mut(writes).remove(place);
        self.stats.row_hits += u64::from(!entry.opened);
        *if writes { &mut self.stats.writes } else { &mut self.stats.reads } += 1;
        let hit = u32::from(self.banks[entry.bank()] == Some(entry.row));
        self.count(writes, entry.bank(), |[queued, hits]| [queued - 1, hits - hit]);
        if !writes && let Some(next) = self.backlog.pop_front() {
            self.enter(next);
        }
        self.occupancy.set(self.queued() as u64, now);
        entry
    }

    fn queue_mut(&mut self, writes: bool) -> &mut Vec<Queued> {
        if writes { &mut self.writes } else { &mut self.reads }
    }

    /// Row commands: a bank whose open row no request asks for opens that of its oldest. Commands
    /// are placed no further ahead than the scheduler looks, since those of other banks keep
    /// their distance from them: a bank in refresh waits. If none can be opened so soon and no
    /// row is open, the first that can be is.
    fn open_rows(&mut self, writes: bool, now: DramCycle) {
        let mut shut = self.shut[usize::from(writes)];
        if shut == 0 {
            return;
        }
        let mut open = self.hits[usize::from(writes)] != 0;
        let queue = if writes { &self.writes } else { &self.reads };
        let mut first: Option<(DramCycle, usize)> = None;
        for place in 0..queue.len() {
            let entry = self.queue_mut(writes)[place];
            let (bank, row) = (entry.bank(), entry.row);
            if shut >> bank & 1 == 0 {
                continue;
            }
            shut &= !(1 << bank);
            let at = self.opening(bank, now);
            if at <= now + self.row_miss {
                self.queue_mut(writes)[place].opened = true;
                self.open(bank, row, now);
                open = true;
            } else if first.is_none_or(|(least, _)| at < least) {
                first = Some((at, place));
            }
        }
        if let (false, Some((_, place))) = (open, first) {
            let entry = &mut self.queue_mut(writes)[place];
            entry.opened = true;
            let (bank, row) = (entry.bank(), entry.row);
            self.open(bank, row, now);
        }
    }

    /// When a bank can activate another row.
    fn opening(&self, bank: usize, now: DramCycle) -> DramCycle {
        let activate = self.earliest(Command::Activate, bank, now);
        if self.banks[bank].is_none() {
            return activate;
        }
        activate.max(self.earliest(Command::Precharge, bank, now) + self.precharge)
    }

    fn count(&mut self, writes: bool, bank: usize, change: impl Fn([u32; 2]) -> [u32; 2]) {
        let kind = usize::from(writes);
        let count = &mut self.counts[kind][bank];
        *count = change(*count);
        let (hits, shut) = (count[1] > 0, count[0] > 0 && count[1] == 0);
        self.hits[kind] = self.hits[kind] & !(1 << bank) | u64::from(hits) << bank;
        self.shut[kind] = self.shut[kind] & !(1 << bank) | u64::from(shut) << bank;
    }

    /// The bank has this row open now.
    fn has_open(&mut self, bank: usize, row: Option<u64>) {
        self.banks[bank] = row;
        for writes in [false, true] {
            let queue = if writes { &self.writes } else { &self.reads };
            let mine = queue.iter().filter(|entry| entry.bank() == bank && row == Some(entry.row));
            let hits = mine.count() as u32;
            self.count(writes, bank, |[queued, _]| [queued, hits]);
        }
    }

    /// Opens a row, after closing the one that is open.
    fn open(&mut self, bank: usize, row: u64, now: DramCycle) {
        if self.banks[bank].is_some() {
            self.stats.row_conflicts += 1;
            self.issue(Command::Precharge, bank, now);
        } else {
            self.stats.row_misses += 1;
        }
        self.issue(Command::Activate, bank, now);
        self.has_open(bank, Some(row));
    }

    /// The place in its queue of the request to serve.
    fn first_ready(&mut self, writes: bool, now: DramCycle) -> usize {
        let command = if writes { Command::Write } else { Command::Read };
        // What holds for all, then for the groups with open rows that are asked for.
        let all = self.bound(command, self.banks.len() + self.ready.len(), now);
        let hits = self.hits[usize::from(writes)];
        let mut least = DramCycle::MAX;
        for group in 0..self.ready.len() {
            if hits & self.members[group] != 0 {
                let at = self.bound(command, self.banks.len() + group, all);
                self.ready[group] = at;
                least = least.min(at);
            }
        }
        let queue = if writes { &self.writes } else { &self.reads };
        let mut best: Option<(DramCycle, usize)> = None;
        for (place, entry) in queue.iter().enumerate() {
            let bank = entry.bank();
            if hits >> bank & 1 == 0 {
                continue;
            }
            let of_group = self.ready[self.groups[bank] - self.banks.len()];
            if self.banks[bank] != Some(entry.row) || best.is_some_and(|(at, _)| at <= of_group) {
                continue;
            }
            let at = self.bound(command, bank, of_group);
            if at <= least {
                return place;
            }
            if best.is_none_or(|(best, _)| at < best) {
                best = Some((at, place));
            }
        }
        best.map_or(0, |(_, place)| place)
    }

    /// Issues a command as early as the constraints allow, not before `now`.
    fn issue(&mut self, command: Command, bank: usize, now: DramCycle) -> DramCycle {
        let at = self.earliest(command, bank, now);
        let rules = &self.timings.rules.preceding[command as usize];
        for (place, held) in self.places_of(bank).into_iter().zip(rules) {
            self.allowed.note(place, command, at, held);
        }
        at
    }

    fn earliest(&self, command: Command, bank: usize, now: DramCycle) -> DramCycle {
        self.places_of(bank).into_iter().fold(now, |at, place| self.bound(command, place, at))
    }

    /// The first cycle from `at` on that the constraints of one place allow.
    #[inline]
    fn bound(&self, command: Command, place: usize, at: DramCycle) -> DramCycle {
        at.max(self.allowed.from[place][command as usize])
    }

    #[inline]
    fn places_of(&self, bank: usize) -> [usize; 3] {
        [bank, self.groups[bank], self.banks.len() + self.ready.len()]
    }

    /// Does the refreshes that are due. Nothing polls: those of an idle channel are made up for
    /// at its next request, where only the last of each bank can still be felt.
    fn refresh(&mut self, now: DramCycle) {
        let Some((level, interval)) = self.refreshes.filter(|_| self.refresh_due <= now) else { return };
        let each = if level == Level::Bank { self.banks.len() as u64 } else { 1 };
        let due = (now - self.refresh_due) / interval + 1;
        let over = due.saturating_sub(each);
        self.refresh_due += over * interval;
        self.stats.refreshes += over;
        while self.refresh_due <= now {
            // Banks take turns.
            let one = (self.stats.refreshes % each) as usize;
            let banks = if level == Level::Bank { one..one + 1 } else { 0..self.banks.len() };
            for bank in banks {
                if self.banks[bank].is_some() {
                    self.issue(Command::Precharge, bank, self.refresh_due);
                    self.has_open(bank, None);
                }
            }
            self.issue(Command::Refresh, one, self.refresh_due);
            self.refresh_due += interval;
            self.stats.refreshes += 1;
        }
    }
}

#[cfg(test)]
mod tests;
