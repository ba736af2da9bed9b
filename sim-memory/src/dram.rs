//! One DRAM channel: banks with row buffers, timing constraints as rows of data, and an FR-FCFS
//! scheduler. It says when a request's bytes have crossed the data bus; the bytes themselves
//! move at the micro step of the memory program. Times are cycles of the command clock.

use std::collections::VecDeque;

use crate::spec::{DramSpec, DramTiming};

/// A cycle of the command clock.
type DramCycle = u64;

/// DRAM commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    Activate,
    Precharge,
    Read,
    Write,
}
use Command::{Activate, Precharge, Read, Write};

const COMMANDS: usize = 4;

/// How far a constraint reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Bank,
    Group,
    Channel,
}
use Level::{Bank, Channel, Group};

/// After `preceding`, `following` waits `latency` cycles within one `level`.
#[derive(Clone, Copy, Debug)]
struct Constraint {
    level: Level,
    preceding: Command,
    following: Command,
    latency: u64,
}

/// The constraints of a channel.
fn constraints(t: &DramTiming, burst: u32) -> Vec<Constraint> {
    let row = |level, preceding, following, latency: u32| Constraint {
        level,
        preceding,
        following,
        latency: latency.into(),
    };
    vec![
        row(Bank, Activate, Read, t.RCD),
        row(Bank, Activate, Write, t.RCD),
        row(Bank, Activate, Precharge, t.RAS),
        row(Bank, Activate, Activate, t.RC),
        row(Bank, Precharge, Activate, t.RP),
        row(Bank, Read, Precharge, t.RTPL),
        row(Bank, Write, Precharge, t.WL + burst + t.WR),
        row(Channel, Activate, Activate, t.RRD),
        row(Channel, Read, Read, t.CCD.max(burst)),
        row(Channel, Write, Write, t.CCD.max(burst)),
        row(Group, Read, Read, t.CCDL.max(burst)),
        row(Group, Write, Write, t.CCDL.max(burst)),
        row(Channel, Read, Write, (t.CL + burst + 2).saturating_sub(t.WL)),
        row(Channel, Write, Read, t.WL + burst + t.CDLR),
    ]
}

/// A request of the scheduler's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DramRequest {
    /// Who asks; `None` for write-backs, which nobody waits for.
    pub tag: Option<u32>,
    /// Byte address in this channel.
    pub address: u64,
    /// Bursts to move.
    pub bursts: u32,
    /// A write.
    pub write: bool,
}

#[derive(Clone, Debug)]
struct BankState {
    open_row: Option<u64>,
    last: [Option<DramCycle>; COMMANDS],
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
    /// Requests that had to open it.
    pub row_misses: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Cycles of the command clock the data bus was in use.
    pub busy_cycles: u64,
}

/// One channel.
#[derive(Clone, Debug)]
pub struct DramChannel {
    spec: DramSpec,
    /// By the command that follows.
    rules: [Vec<Constraint>; COMMANDS],
    banks: Vec<BankState>,
    groups: Vec<[Option<DramCycle>; COMMANDS]>,
    channel: [Option<DramCycle>; COMMANDS],
    /// With bank and row of each.
    queue: VecDeque<(DramRequest, usize, u64)>,
    bus_free: DramCycle,
    /// Counters.
    pub stats: DramStats,
}

impl DramChannel {
    /// An idle channel with all rows closed.
    pub fn new(spec: &DramSpec) -> Self {
        let bank = BankState { open_row: None, last: [None; COMMANDS] };
        Self {
            rules: [Activate, Precharge, Read, Write].map(|command| {
                let mut all = constraints(&spec.timing, spec.burst_cycles);
                all.retain(|rule| rule.following == command);
                all
            }),
            banks: vec![bank; spec.banks as usize],
            groups: vec![[None; COMMANDS]; spec.bank_groups as usize],
            channel: [None; COMMANDS],
            queue: VecDeque::new(),
            bus_free: 0,
            stats: DramStats::default(),
            spec: spec.clone(),
        }
    }

    /// Queues a request.
    pub fn push(&mut self, request: DramRequest) {
        let (bank, row) = self.place(request.address);
        self.queue.push_back((request, bank, row));
    }

    /// Requests queued.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Bank and row of an address: rows are spread over the banks, the bank mixed with the low
    /// bits of the row so that power-of-two strides do not stay in one bank.
    fn place(&self, address: u64) -> (usize, u64) {
        let banks = u64::from(self.spec.banks);
        let page = address / u64::from(self.spec.row_bytes);
        let row = page / banks;
        (((page + row) % banks) as usize, row)
    }

    /// How far ahead of the bus the scheduler commits: enough to open a row meanwhile.
    fn window(&self) -> u64 {
        let t = &self.spec.timing;
        u64::from(t.RP + t.RCD + t.CL)
    }

    /// The first cycle at which the scheduler chooses again; `None` without requests.
    pub fn next_decision(&self) -> Option<DramCycle> {
        (!self.queue.is_empty()).then(|| self.bus_free.saturating_sub(self.window()))
    }

    /// Chooses one request at `now` by FR-FCFS: the oldest whose row is open, else the oldest.
    /// Gives it with the cycle its last byte has crossed the bus.
    pub fn choose(&mut self, now: DramCycle) -> Option<(DramRequest, DramCycle)> {
        if self.next_decision()? > now {
            return None;
        }
        let seen = self.queue.len().min(self.spec.queue as usize);
        let mut queue = self.queue.iter().take(seen);
        let open = queue.position(|(_, bank, row)| self.banks[*bank].open_row == Some(*row));
        let (request, bank, row) = self.queue.remove(open.unwrap_or(0))?;
        if self.banks[bank].open_row == Some(row) {
            self.stats.row_hits += 1;
        } else {
            self.stats.row_misses += 1;
            if self.banks[bank].open_row.is_some() {
                self.issue(Precharge, bank, now);
            }
            self.issue(Activate, bank, now);
            self.banks[bank].open_row = Some(row);
        }
        let command = if request.write { Write } else { Read };
        let t = &self.spec.timing;
        let delay = u64::from(if request.write { t.WL } else { t.CL } + self.spec.burst_cycles);
        let mut end = now;
        for _ in 0..request.bursts.max(1) {
            end = self.issue(command, bank, now) + delay;
        }
        self.bus_free = self.bus_free.max(end);
        let bursts = u64::from(request.bursts.max(1));
        self.stats.bytes += bursts * u64::from(self.spec.burst_bytes);
        self.stats.busy_cycles += bursts * u64::from(self.spec.burst_cycles);
        if request.write {
            self.stats.writes += 1;
        } else {
            self.stats.reads += 1;
        }
        Some((request, end))
    }

    /// Issues a command as early as the constraints allow, not before `now`.
    fn issue(&mut self, command: Command, bank: usize, now: DramCycle) -> DramCycle {
        let group = bank % self.groups.len();
        let mut at = now;
        for rule in &self.rules[command as usize] {
            let last = match rule.level {
                Bank => &self.banks[bank].last,
                Group => &self.groups[group],
                Channel => &self.channel,
            };
            if let Some(last) = last[rule.preceding as usize] {
                at = at.max(last + rule.latency);
            }
        }
        self.banks[bank].last[command as usize] = Some(at);
        for last in [&mut self.groups[group], &mut self.channel] {
            let slot = &mut last[command as usize];
            *slot = Some(slot.map_or(at, |before| before.max(at)));
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gddr5() -> DramSpec {
        DramSpec {
            banks: 16,
            bank_groups: 4,
            row_bytes: 2048,
            burst_bytes: 32,
            burst_cycles: 2,
            latency: 0,
            queue: 64,
            timing: DramTiming {
                CCD: 2,
                CCDL: 3,
                RRD: 6,
                RCD: 12,
                RAS: 28,
                RP: 12,
                RC: 40,
                CL: 12,
                WL: 4,
                CDLR: 5,
                WR: 12,
                RTPL: 2,
            },
        }
    }

    fn read(tag: u32, address: u64) -> DramRequest {
        DramRequest { tag: Some(tag), address, bursts: 1, write: false }
    }

    /// Serves everything; (tag, end) in order of service.
    fn serve(channel: &mut DramChannel) -> Vec<(u32, u64)> {
        let mut out = Vec::new();
        while let Some(at) = channel.next_decision() {
            if let Some((request, end)) = channel.choose(at) {
                out.push((request.tag.unwrap_or(u32::MAX), end));
            }
        }
        out
    }

    #[test]
    fn a_closed_bank_takes_rcd_cl_and_the_burst() {
        let mut channel = DramChannel::new(&gddr5());
        channel.push(read(1, 0));
        assert_eq!(serve(&mut channel), vec![(1, 12 + 12 + 2)]);
    }

    #[test]
    fn an_open_row_takes_the_column_delay_and_another_row_the_whole_cycle() {
        let mut channel = DramChannel::new(&gddr5());
        channel.push(read(1, 0));
        channel.push(read(2, 64));
        // CCDL after the first read of the same bank group.
        assert_eq!(serve(&mut channel), vec![(1, 26), (2, 26 + 3)]);
        // The same bank, another row: precharge waits for RAS, activate for RP and RC.
        let same_bank = 2048 * 16 * 16;
        channel.push(read(3, same_bank));
        assert_eq!(serve(&mut channel), vec![(3, 40 + 12 + 12 + 2)]);
        assert_eq!((channel.stats.row_hits, channel.stats.row_misses), (1, 2));
    }

    #[test]
    fn each_constraint_holds_exactly() {
        // (first command, second command, same bank) → least distance.
        let t = gddr5().timing;
        let cases = [
            (Activate, Read, true, t.RCD),
            (Activate, Precharge, true, t.RAS),
            (Activate, Activate, true, t.RC),
            (Precharge, Activate, true, t.RP),
            (Activate, Activate, false, t.RRD),
            (Read, Read, true, t.CCDL),
            (Read, Read, false, t.CCD),
            (Write, Read, false, t.WL + 2 + t.CDLR),
            (Read, Write, false, t.CL + 2 + 2 - t.WL),
            (Write, Precharge, true, t.WL + 2 + t.WR),
            (Read, Precharge, true, t.RTPL),
        ];
        for (first, second, same_bank, distance) in cases {
            let mut channel = DramChannel::new(&gddr5());
            let start = channel.issue(first, 0, 100);
            let bank = if same_bank { 0 } else { 1 };
            let at = channel.issue(second, bank, 100);
            assert_eq!(at - start, u64::from(distance), "{first:?} {second:?} {same_bank}");
            // Asked later than the constraint, it does not wait.
            let mut channel = DramChannel::new(&gddr5());
            channel.issue(first, 0, 100);
            let late = 100 + u64::from(distance) + 1;
            assert_eq!(channel.issue(second, bank, late), late);
        }
    }

    #[test]
    fn row_hits_overtake() {
        let mut channel = DramChannel::new(&gddr5());
        channel.push(read(1, 0));
        channel.push(read(2, 2048 * 16 * 16));
        channel.push(read(3, 32));
        let order: Vec<u32> = serve(&mut channel).into_iter().map(|(tag, _)| tag).collect();
        assert_eq!(order, vec![1, 3, 2]);
    }

    #[test]
    fn a_stream_reaches_the_bandwidth_of_its_bank_groups() {
        let mut channel = DramChannel::new(&gddr5());
        for i in 0..4096u64 {
            channel.push(read(i as u32, i * 32));
        }
        let end = serve(&mut channel).last().map_or(0, |(_, end)| *end);
        // One burst each CCDL cycles within a row, each CCD cycles where the row (64 bursts) and
        // with it the bank group changes; opening the first row comes before.
        let rows = 4096 / 64;
        let exact = 12 + 12 + 2 + (4096 - rows) * 3 + (rows - 1) * 2;
        assert!(end.abs_diff(exact) <= exact / 100, "{end} for {exact}");
    }
}
