//! One DRAM channel: banks with row buffers, the timing constraints of its standard, refresh, and an FR-FCFS
//! scheduler. It determines when a request's bytes have crossed the data bus; the bytes themselves move in
//! the micro step of the memory program. Times are in cycles of the command clock.

mod standard;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::divide::Divisor;
use crate::links;
use crate::occupancy::{Occupancy, QueueStats};
use crate::spec::DramSpec;
use standard::{COMMANDS, Held, LONGEST_WINDOW};
pub use standard::{Command, Constraint, DramTimings, Level, STANDARDS};

/// A cycle of the command clock.
type DramCycle = u64;

/// A read or write request to the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DramRequest {
    /// Identifies the requester; `None` for writes, which have no reply.
    pub tag: Option<u32>,
    /// Byte address in this channel.
    pub address: u64,
    /// Number of bursts to transfer.
    pub bursts: u32,
    /// True for a write, false for a read.
    pub write: bool,
}

/// A queued request with its bank and row. The entry is small, because a chip has thousands of them and each
/// decision scans a queue.
#[derive(Clone, Copy, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
struct Queued {
    row: u64,
    /// Byte address in this channel.
    address: u64,
    /// Identifies the requester; `None` for writes.
    tag: Option<u32>,
    bursts: u16,
    /// Bursts still to be transferred.
    left: u16,
    bank: u8,
    write: bool,
    /// True if the row was opened for this request, so that it does not count as a row hit.
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

/// The earliest cycle the constraints allow, by place (bank, bank group, channel) and command. Updated at
/// each command, because it is read far more often.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
struct Allowed {
    from: Vec<[DramCycle; COMMANDS]>,
    /// The most recent commands of each kind, latest first, for constraints with a window over several. Each
    /// entry is the cycle plus one; 0 means none.
    recent: Vec<[[DramCycle; LONGEST_WINDOW]; COMMANDS]>,
}

impl Allowed {
    fn new(places: usize) -> Self {
        Self { from: vec![[0; COMMANDS]; places], recent: vec![[[0; LONGEST_WINDOW]; COMMANDS]; places] }
    }

    /// Records a command at cycle `at`. Commands are decided in request order, so it may precede commands
    /// that are already recorded.
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

/// Request, row buffer and bus counters of one channel.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    serde::Serialize,
    borsh::BorshSerialize,
    borsh::BorshDeserialize,
)]
pub struct DramStats {
    /// Read requests served.
    pub reads: u64,
    /// Write requests served.
    pub writes: u64,
    /// Row hits: requests that found their row open.
    pub row_hits: u64,
    /// Row misses: requests that found their bank closed.
    pub row_misses: u64,
    /// Row conflicts: requests that found another row open in their bank.
    pub row_conflicts: u64,
    /// Bus turnarounds: changes of the data bus between reads and writes.
    pub turnarounds: u64,
    /// Refresh commands issued.
    pub refreshes: u64,
    /// Bytes transferred over the data bus.
    pub bytes: u64,
    /// Cycles of the command clock in which the data bus was in use.
    pub busy_cycles: u64,
    /// Occupancy of the read and write queues, in cycles of the command clock.
    pub queue: QueueStats,
}

impl DramStats {
    /// Adds the counters of another channel.
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

/// One DRAM channel with its banks, queues and scheduler.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct DramChannel {
    #[borsh(serialize_with = "links::named", deserialize_with = "links::linked")]
    spec: DramSpec,
    #[borsh(serialize_with = "links::named", deserialize_with = "links::linked")]
    timings: Arc<DramTimings>,
    /// For each bank: the open row.
    banks: Vec<Option<u64>>,
    /// For each bank: the index of its bank group among the places of `allowed`.
    groups: Vec<usize>,
    /// Earliest command cycles: of banks, then of bank groups, then of the channel.
    allowed: Allowed,
    /// Divisors that split an address into bank group, bank and row.
    pieces: Divisor,
    stripes: Divisor,
    by_groups: Divisor,
    by_banks: Divisor,
    /// The scheduler's queues, in order of arrival. They are short, and read far more often than changed.
    reads: Vec<Queued>,
    writes: Vec<Queued>,
    /// Reads that wait for room in the scheduler's queue.
    backlog: VecDeque<Queued>,
    /// For reads and for writes, by bank: how many are queued, and how many of them find their row open.
    counts: [Vec<[u32; 2]>; 2],
    /// For reads and for writes, a mask of banks: `hits` those with requests to their open row, `shut` those
    /// whose requests all need another row.
    hits: [u64; 2],
    shut: [u64; 2],
    /// The write queue is being drained: writes have priority.
    draining: bool,
    /// Requests served since draining began or ended; the first begin waits for none.
    batch: u32,
    /// For reads and for writes: how many requests were served before the oldest one.
    overtaken: [u32; 2],
    /// True if the last burst on the data bus was a write.
    wrote: bool,
    bus_free: DramCycle,
    row_miss: DramCycle,
    /// Cycles from precharge to activate.
    precharge: DramCycle,
    /// True if consecutive bursts within one bank group need a longer distance than across groups.
    slow_groups: bool,
    /// The level a refresh applies to, and the interval between two refreshes.
    refreshes: Option<(Level, DramCycle)>,
    /// The cycle at which the next refresh is due.
    refresh_due: DramCycle,
    /// For each bank group: the earliest cycle of a column command.
    ready: Vec<DramCycle>,
    /// For each bank group: a mask of its banks.
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
            batch: u32::MAX,
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

    /// Makes it idle with all rows closed, as [`new`](Self::new) makes it.
    pub fn reset(&mut self) {
        // All fields, so that a new one is not forgotten. Those that the chip alone decides stay.
        let Self {
            spec: _,
            timings: _,
            banks,
            groups: _,
            allowed,
            pieces: _,
            stripes: _,
            by_groups: _,
            by_banks: _,
            reads,
            writes,
            backlog,
            counts,
            hits,
            shut,
            draining,
            batch,
            overtaken,
            wrote,
            bus_free,
            row_miss: _,
            precharge: _,
            slow_groups: _,
            refreshes,
            refresh_due,
            ready,
            members: _,
            occupancy,
            stats,
        } = self;
        banks.fill(None);
        allowed.from.fill([0; COMMANDS]);
        allowed.recent.fill([[0; LONGEST_WINDOW]; COMMANDS]);
        reads.clear();
        writes.clear();
        backlog.clear();
        counts.iter_mut().for_each(|counts| counts.fill([0; 2]));
        (*hits, *shut, *overtaken) = ([0; 2], [0; 2], [0; 2]);
        (*draining, *batch, *wrote, *bus_free) = (false, u32::MAX, false, 0);
        *refresh_due = refreshes.map_or(DramCycle::MAX, |(_, interval)| interval);
        ready.fill(0);
        (*occupancy, *stats) = (Occupancy::default(), DramStats::default());
    }

    /// The counters so far.
    pub fn stats(&self) -> DramStats {
        DramStats { queue: self.occupancy.stats(), ..self.stats }
    }

    /// Queues a request. Reads that find the scheduler's queue full wait in a backlog, in order.
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

    /// Number of requests queued, the backlog included.
    pub fn queued(&self) -> usize {
        self.reads.len() + self.writes.len() + self.backlog.len()
    }

    /// True if the write queue has room.
    pub fn takes_writes(&self) -> bool {
        self.writes.len() < self.spec.write_queue.entries as usize
    }

    /// Bank and row of an address. Consecutive pieces of a row are interleaved over the bank groups, so that
    /// a stream meets the shorter column delay. The bank is mixed with the low bits of the row, so that
    /// power-of-two strides spread over the banks.
    fn place(&self, address: u64) -> (usize, u64) {
        let (piece, _) = self.pieces.divide(address);
        let (stripe, _) = self.stripes.divide(address);
        let (row, _) = self.by_banks.divide(stripe);
        let (_, group) = self.by_groups.divide(piece + stripe);
        let (_, bank) = self.by_banks.divide(stripe + row);
        ((bank * self.by_groups.by() + group) as usize, row)
    }

    /// The first cycle at which the scheduler makes its next decision; `None` without requests.
    pub fn next_decision(&self) -> Option<DramCycle> {
        // It commits so far ahead of the bus that a row can be opened meanwhile.
        (self.queued() > 0).then(|| self.bus_free.saturating_sub(self.row_miss))
    }

    /// Chooses one request at `now` by FR-FCFS. A bank opens the row of its oldest request once no request
    /// needs the row it has open. Among the requests whose row is open, the one whose data can be transferred
    /// first is served; on a tie, the oldest. Writes wait until their queue reaches its high mark or no read
    /// is queued; then as many are served as lie between the marks, and as many reads before the next. Returns
    /// the request with the cycle at which its last byte has crossed the bus.
    pub fn choose(&mut self, now: DramCycle) -> Option<(DramRequest, DramCycle)> {
        if self.next_decision()? > now {
            return None;
        }
        // What holds until a request leaves its queue: bursts of the same cycle find it done.
        self.refresh(now);
        let limits = &self.spec.write_queue;
        let (full, length) = (self.batch >= limits.high - limits.low, self.writes.len() as u32);
        let drains =
            if self.draining { length >= limits.low && !full } else { length >= limits.high && full };
        if drains != self.draining {
            (self.draining, self.batch) = (drains, 0);
        }
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

    /// One decision. If bursts within a bank group need a longer distance than the data bus, it covers one
    /// burst only, so that bursts of other groups fill the gaps.
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

    /// Records bursts on the data bus, the last of which ends at `end`.
    fn moved(&mut self, bursts: u32, end: DramCycle) {
        self.bus_free = self.bus_free.max(end);
        self.stats.bytes += u64::from(bursts) * u64::from(self.spec.burst_bytes);
        self.stats.busy_cycles += u64::from(bursts) * u64::from(self.spec.burst_cycles);
    }

    /// Removes a request from its queue.
    fn take(&mut self, writes: bool, place: usize, now: DramCycle) -> Queued {
        let entry = self.queue_mut(writes).remove(place);
        self.stats.row_hits += u64::from(!entry.opened);
        *if writes { &mut self.stats.writes } else { &mut self.stats.reads } += 1;
        self.batch = self.batch.saturating_add(1);
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

    /// Row commands: a bank whose open row no request needs opens the row of its oldest request. A command is
    /// not placed further ahead than the scheduler's lookahead, because commands of other banks must keep
    /// their distance from it: a bank in refresh waits. If no bank can open so soon and no needed row is
    /// open, the bank that can open first does.
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

    /// The earliest cycle at which a bank can activate another row.
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

    /// Sets the open row of a bank and recounts its row hits.
    fn has_open(&mut self, bank: usize, row: Option<u64>) {
        self.banks[bank] = row;
        for writes in [false, true] {
            let queue = if writes { &self.writes } else { &self.reads };
            let mine = queue.iter().filter(|entry| entry.bank() == bank && row == Some(entry.row));
            let hits = mine.count() as u32;
            self.count(writes, bank, |[queued, _]| [queued, hits]);
        }
    }

    /// Opens a row, after a precharge if another row is open.
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

    /// The queue index of the request to serve next.
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

    /// Issues a command at the earliest cycle from `now` on that the constraints allow.
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

    /// Performs the refreshes that are due. An idle channel is not polled: its refreshes are caught up at its
    /// next request, when only the last one of each bank still has an effect.
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
