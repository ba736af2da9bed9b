//! One DRAM channel: banks with row buffers, the constraints of its standard, refresh, and an
//! FR-FCFS scheduler. It says when a request's bytes have crossed the data bus; the bytes
//! themselves move at the micro step of the memory program. Times are cycles of the command clock.

mod standard;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::occupancy::{Occupancy, QueueStats};
use crate::spec::DramSpec;
use standard::{COMMANDS, LONGEST_WINDOW};
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

/// A request with its place.
#[derive(Clone, Copy, Debug)]
struct Queued {
    request: DramRequest,
    bank: usize,
    row: u64,
    /// Its bank opened the row for it.
    opened: bool,
    /// Bursts to move still.
    left: u32,
}

/// The last commands of one kind at one place, latest first; 0 is none, others are one cycle up.
#[derive(Clone, Copy, Debug, Default)]
struct Recent([DramCycle; LONGEST_WINDOW]);

impl Recent {
    fn nth_last(&self, n: usize) -> Option<DramCycle> {
        self.0[n - 1].checked_sub(1)
    }

    /// Commands are decided in the order of requests, so one may lie before those noted already.
    fn note(&mut self, at: DramCycle) {
        let mut at = at + 1;
        for slot in &mut self.0 {
            if at > *slot {
                std::mem::swap(slot, &mut at);
            }
            if at == 0 {
                break;
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

/// One channel.
#[derive(Clone, Debug)]
pub struct DramChannel {
    spec: DramSpec,
    timings: Arc<DramTimings>,
    /// By the command that follows.
    rules: [Vec<Constraint>; COMMANDS],
    /// By bank: the open row.
    banks: Vec<Option<u64>>,
    /// Banks, then bank groups, then the channel.
    places: Vec<[Recent; COMMANDS]>,
    reads: VecDeque<Queued>,
    writes: VecDeque<Queued>,
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
    one_by_one: bool,
    /// When the next refresh is due, and how many were.
    refresh_due: DramCycle,
    refreshed: u64,
    /// By bank: when a column command could come.
    ready: Vec<Option<DramCycle>>,
    occupancy: Occupancy,
    stats: DramStats,
}

impl DramChannel {
    /// An idle channel with all rows closed.
    pub fn new(spec: &DramSpec, timings: Arc<DramTimings>) -> Self {
        use Command::{Activate, Precharge, Read, Refresh, Write};
        let (banks, groups) = (spec.banks as usize, spec.bank_groups as usize);
        let mut channel = Self {
            rules: [Activate, Precharge, Read, Write, Refresh].map(|command| {
                timings.constraints.iter().filter(|rule| rule.following == command).copied().collect()
            }),
            banks: vec![None; banks],
            places: vec![[Recent::default(); COMMANDS]; banks + groups + 1],
            reads: VecDeque::new(),
            writes: VecDeque::new(),
            draining: false,
            overtaken: [0; 2],
            wrote: false,
            bus_free: 0,
            row_miss: timings.row_miss(),
            precharge: timings.delay(Level::Bank, Precharge, Activate),
            one_by_one: timings.column_delay(Level::BankGroup) > timings.column_delay(Level::Channel),
            refresh_due: 0,
            refreshed: 0,
            ready: vec![None; banks],
            occupancy: Occupancy::default(),
            stats: DramStats::default(),
            spec: spec.clone(),
            timings,
        };
        channel.refresh_due = channel.refresh_interval().unwrap_or(DramCycle::MAX);
        channel
    }

    /// Counters.
    pub fn stats(&self) -> DramStats {
        DramStats { queue: self.occupancy.stats(), ..self.stats }
    }

    /// Queues a request.
    pub fn push(&mut self, request: DramRequest, now: DramCycle) {
        let (bank, row) = self.place(request.address);
        let queue = if request.write { &mut self.writes } else { &mut self.reads };
        queue.push_back(Queued { request, bank, row, opened: false, left: request.bursts.max(1) });
        self.occupancy.set(self.queued(), now);
    }

    /// Requests queued.
    pub fn queued(&self) -> usize {
        self.reads.len() + self.writes.len()
    }

    /// The queue of writes takes another one.
    pub fn takes_writes(&self) -> bool {
        self.writes.len() < self.spec.write_queue.entries as usize
    }

    /// Bank and row of an address. Pieces of a row go round the bank groups, so that a stream
    /// meets the shorter column delay; the bank is mixed with the low bits of the row, so that
    /// power-of-two strides do not stay in one bank.
    fn place(&self, address: u64) -> (usize, u64) {
        let groups = u64::from(self.spec.bank_groups);
        let banks = u64::from(self.spec.banks) / groups;
        let piece = u64::from(self.spec.group_interleave_bytes);
        let stripe = address / (u64::from(self.spec.row_bytes) * groups);
        let row = stripe / banks;
        let group = (address / piece + stripe) % groups;
        let bank = (stripe + row) % banks;
        ((bank * groups + group) as usize, row)
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
        while self.next_decision()? <= now {
            let served = self.serve(now);
            if served.is_some() {
                return served;
            }
        }
        None
    }

    /// One decision. Where bursts of one bank group come slower than the data bus could take
    /// them, it is about one burst, so that those of other groups fill the gaps.
    fn serve(&mut self, now: DramCycle) -> Option<(DramRequest, DramCycle)> {
        self.refresh(now);
        let limits = &self.spec.write_queue;
        let level = if self.draining { limits.low } else { limits.high };
        self.draining = self.writes.len() >= level as usize;
        let writes = self.draining || self.reads.is_empty();
        let seen = if writes { limits.entries } else { self.spec.queue };
        self.open_rows(writes, seen as usize, now);
        let late = self.overtaken[usize::from(writes)] >= self.spec.overtaking_limit;
        let chosen = if late { 0 } else { self.first_ready(writes, seen as usize, now) };
        let one_by_one = self.one_by_one;
        let entry = self.queue_mut(writes).get_mut(chosen)?;
        let Queued { request, bank, row, opened, left } = *entry;
        let bursts = if one_by_one { 1 } else { left };
        entry.left -= bursts;
        let whole = entry.left == 0;
        if whole {
            self.queue_mut(writes).remove(chosen);
            let overtaken = &mut self.overtaken[usize::from(writes)];
            *overtaken = if chosen == 0 { 0 } else { *overtaken + 1 };
            self.occupancy.set(self.queued(), now);
        }
        if self.banks[bank] != Some(row) {
            self.open(bank, row, now);
        } else if !opened && whole {
            self.stats.row_hits += 1;
        }
        let t = &self.timings;
        let (command, delay) = match request.write {
            true => (Command::Write, t.write_latency),
            false => (Command::Read, t.read_latency),
        };
        let mut start = now;
        for _ in 0..bursts {
            start = self.issue(command, bank, now);
        }
        let end = start + delay + u64::from(self.spec.burst_cycles);
        self.bus_free = self.bus_free.max(end);
        let stats = &mut self.stats;
        stats.turnarounds += u64::from(self.wrote != request.write);
        self.wrote = request.write;
        stats.bytes += u64::from(bursts) * u64::from(self.spec.burst_bytes);
        stats.busy_cycles += u64::from(bursts) * u64::from(self.spec.burst_cycles);
        if !whole {
            return None;
        }
        *if request.write { &mut stats.writes } else { &mut stats.reads } += 1;
        Some((request, end))
    }

    fn queue_mut(&mut self, writes: bool) -> &mut VecDeque<Queued> {
        if writes { &mut self.writes } else { &mut self.reads }
    }

    /// Row commands: a bank whose open row no request asks for opens that of its oldest. Commands
    /// are placed no further ahead than the scheduler looks, since those of other banks keep
    /// their distance from them: a bank in refresh waits. If none can be opened so soon and no
    /// row is open, the first that can be is.
    fn open_rows(&mut self, writes: bool, seen: usize, now: DramCycle) {
        let queue = if writes { &self.writes } else { &self.reads };
        let mut wanted = 0u64;
        let mut others = false;
        for entry in queue.iter().take(seen) {
            let open = self.banks[entry.bank] == Some(entry.row);
            wanted |= u64::from(open) << entry.bank;
            others |= !open;
        }
        if !others {
            return;
        }
        let mut open = wanted != 0;
        let mut first: Option<(DramCycle, usize)> = None;
        for place in 0..queue.len().min(seen) {
            let Queued { bank, row, .. } = self.queue_mut(writes)[place];
            if wanted >> bank & 1 == 1 {
                continue;
            }
            wanted |= 1 << bank;
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
            let (bank, row) = (entry.bank, entry.row);
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

    /// Opens a row, after closing the one that is open.
    fn open(&mut self, bank: usize, row: u64, now: DramCycle) {
        if self.banks[bank].is_some() {
            self.stats.row_conflicts += 1;
            self.issue(Command::Precharge, bank, now);
        } else {
            self.stats.row_misses += 1;
        }
        self.issue(Command::Activate, bank, now);
        self.banks[bank] = Some(row);
    }

    /// The place in its queue of the request to serve.
    fn first_ready(&mut self, writes: bool, seen: usize, now: DramCycle) -> usize {
        let command = if writes { Command::Write } else { Command::Read };
        // No column command comes before this, whatever the bank.
        let channel = self.places.len() - 1;
        let least = self.bound(command, now, |level| (level == Level::Channel).then_some(channel));
        self.ready.fill(None);
        let queue = if writes { &self.writes } else { &self.reads };
        let mut best: Option<(DramCycle, usize)> = None;
        for (place, entry) in queue.iter().take(seen).enumerate() {
            let bank = entry.bank;
            if self.banks[bank] != Some(entry.row) {
                continue;
            }
            let at = match self.ready[bank] {
                Some(at) => at,
                None => self.earliest(command, bank, now),
            };
            self.ready[bank] = Some(at);
            if best.is_none_or(|(least, _)| at < least) {
                best = Some((at, place));
            }
            if at <= least {
                break;
            }
        }
        best.map_or(0, |(_, place)| place)
    }

    /// Issues a command as early as the constraints allow, not before `now`.
    fn issue(&mut self, command: Command, bank: usize, now: DramCycle) -> DramCycle {
        let at = self.earliest(command, bank, now);
        for place in self.places_of(bank) {
            self.places[place][command as usize].note(at);
        }
        at
    }

    fn earliest(&self, command: Command, bank: usize, now: DramCycle) -> DramCycle {
        let [own, group, channel] = self.places_of(bank);
        self.bound(command, now, |level| {
            Some(match level {
                Level::Bank => own,
                Level::BankGroup => group,
                Level::Channel => channel,
            })
        })
    }

    fn bound(&self, command: Command, now: DramCycle, place: impl Fn(Level) -> Option<usize>) -> DramCycle {
        let mut at = now;
        for rule in &self.rules[command as usize] {
            let Some(place) = place(rule.level) else { continue };
            if let Some(last) = self.places[place][rule.preceding as usize].nth_last(rule.window) {
                at = at.max(last + rule.latency);
            }
        }
        at
    }

    fn places_of(&self, bank: usize) -> [usize; 3] {
        let (banks, groups) = (self.banks.len(), self.spec.bank_groups as usize);
        [bank, banks + bank % groups, banks + groups]
    }

    fn refresh_interval(&self) -> Option<DramCycle> {
        let (level, interval) = self.timings.refresh?;
        Some(if level == Level::Bank { interval / u64::from(self.spec.banks) } else { interval })
    }

    /// Does the refreshes that are due. Nothing polls: those of an idle channel are made up for
    /// at its next request, where only the last of each bank can still be felt.
    fn refresh(&mut self, now: DramCycle) {
        let (Some((level, _)), Some(interval)) = (self.timings.refresh, self.refresh_interval()) else {
            return;
        };
        if self.refresh_due > now {
            return;
        }
        let each = if level == Level::Bank { u64::from(self.spec.banks) } else { 1 };
        let due = (now - self.refresh_due) / interval + 1;
        let over = due.saturating_sub(each);
        self.refresh_due += over * interval;
        self.refreshed += over;
        self.stats.refreshes += due;
        while self.refresh_due <= now {
            let at = self.refresh_due;
            let all = 0..self.banks.len();
            let one = (self.refreshed % each) as usize;
            for bank in if level == Level::Bank { one..one + 1 } else { all } {
                if self.banks[bank].take().is_some() {
                    self.issue(Command::Precharge, bank, at);
                }
            }
            self.issue(Command::Refresh, one, at);
            self.refresh_due += interval;
            self.refreshed += 1;
        }
    }
}

#[cfg(test)]
mod tests;
