//! Liveness while a program runs: what is reported as stuck is stuck [live].
//!
//! From time to time the threads of a device are looked at for a while. If nothing in memory
//! changes meanwhile, nothing begins or ends, and each thread either waits for others as it did at
//! first, with the same registers, or was elsewhere and came back to an address with the registers it
//! had there, then it will go round like this for ever: what a thread does next follows from its
//! registers and from memory alone. Nor does a thread get on that has failed a test of an mbarrier object
//! which it repeats until it passes, whatever clocks it reads and counters it keeps between two tests.
//! A thread that waits now, and has got on meanwhile, proves nothing.
//! Where that cannot be said (a clock is read, a line of L1 may be stale, somebody was not seen to
//! come back) a program that does not end is a suspicion, and runs on.

use sim_frontend::program::{Extra, OpClass, Pc, Program};
use sim_memory::vocabulary::{Cycle, LaneMask, WARP_LANES};

use crate::cluster_barrier::CLUSTER;
use crate::error::{Fault, FaultKind};
use crate::execute::{Meeting, Resident};
use crate::reconvergence::{Lanes, Reconvergence, SplitId};
use crate::register_pool::RegisterPool;
use crate::registers::guard;
use crate::registers::{LaneRow, first_lane};
use crate::warp::Warp;

/// Looks before a watch ends without a verdict.
const MOST_SAMPLES: u32 = 96;
/// Looks after which threads that were not seen to come back are compared with where they are by then: the
/// watch may have begun while they were where nobody sees them again.
const RENEWAL: u32 = 8;
/// Looks after which somebody must have come back.
const FIRST_RETURNS: u32 = 24;

/// The threads of one warp as they were when the watch began or was renewed, and what they have done since.
#[derive(Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
struct Watched {
    /// Which resident, and its warp slot.
    at: (usize, usize),
    /// Threads that had not ended when the watch began.
    live: LaneMask,
    pcs: [Pc; WARP_LANES],
    depths: [usize; WARP_LANES],
    rows: Vec<LaneRow>,
    predicates: Vec<u32>,
    /// Threads that wait for others where they were, with the same registers.
    waits: LaneMask,
    /// Threads that were elsewhere since.
    moved: LaneMask,
    /// Of these, those that came back.
    returned: LaneMask,
    /// Where the threads that do not wait have been.
    seen: Vec<Pc>,
}

/// One look after another at all threads.
#[derive(Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Watch {
    /// The cycle it began; functional runs have none.
    since: Option<Cycle>,
    changes: u64,
    samples: u32,
    warps: Vec<Watched>,
}

/// The result of one observation of the threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// Nothing can be said yet.
    Open,
    /// Some thread makes progress.
    Progress,
    /// Every thread waits or has returned to an earlier state: a proof.
    Stuck,
    /// No progress, but not every thread was observed to return to an earlier state: the suspicion in words.
    Suspicious(String),
}

/// Where each thread of a warp is, and which of them wait for others.
fn places<P: Reconvergence>(resident: &Resident<P>, w: usize) -> ([Pc; WARP_LANES], LaneMask) {
    let mut pcs = [Pc::MAX; WARP_LANES];
    let mut waits = 0;
    resident.policy.threads(w, &mut |holding| {
        Lanes(holding.mask).for_each(|lane| pcs[lane as usize] = holding.pc);
        waits |= if holding.waits { holding.mask } else { 0 };
    });
    for split in resident.splits_of(w) {
        let meets = resident.meetings.iter().any(|meeting| meeting.splits.contains(&split));
        if resident.waits[split] != 0 || meets {
            waits |= resident.policy.mask(split);
        }
    }
    (pcs, waits)
}

impl<P: Reconvergence> Resident<P> {
    /// From here on branches are noted for a watch that begins.
    pub(crate) fn forget_branches(&mut self) {
        self.warps.iter_mut().for_each(|warp| (warp.branched, warp.failed) = (0, 0));
    }
}

fn depths(warp: &Warp) -> [usize; WARP_LANES] {
    std::array::from_fn(|lane| warp.shadow.depth(lane))
}

impl Watched {
    fn new<P: Reconvergence>(resident: &Resident<P>, at: (usize, usize)) -> Self {
        let warp = &resident.warps[at.1];
        let (pcs, waits) = places(resident, at.1);
        Self {
            at,
            live: warp.live(),
            pcs,
            depths: depths(warp),
            rows: warp.rows.clone(),
            predicates: warp.preds.clone(),
            waits,
            moved: 0,
            returned: 0,
            seen: Vec::new(),
        }
    }

    fn look<P: Reconvergence>(&mut self, resident: &Resident<P>) {
        let warp = &resident.warps[self.at.1];
        let (pcs, waits) = places(resident, self.at.1);
        let (mut back, mut still) = (0u32, 0u32);
        for lane in Lanes(warp.live() & waits) {
            still |= u32::from(pcs[lane as usize] == self.pcs[lane as usize]) << lane;
        }
        // A thread that has executed a branch was elsewhere, or its branch leads to itself: often nobody
        // looks while it is.
        self.moved |= warp.branched;
        let ops = &resident.kernels[warp.kernel].code.program.ops;
        for lane in Lanes(warp.live() & !waits) {
            let (l, bit) = (lane as usize, 1 << lane);
            // A branch to itself that its guard takes is never left, and changes no register.
            let itself = ops.get(pcs[l] as usize).is_some_and(|op| {
                op.class == OpClass::Branch && op.target == pcs[l] && guard(op.guard, &warp.preds) & bit != 0
            });
            self.returned |= if itself { bit } else { 0 };
            if !self.seen.contains(&pcs[l]) {
                self.seen.push(pcs[l]);
            }
            if pcs[l] != self.pcs[l] {
                self.moved |= bit;
            } else if self.moved & !self.returned & bit != 0 {
                back |= bit;
            }
        }
        self.returned |= warp.failed & warp.live();
        let mut same = back | still;
        if same != 0 {
            for (old, new) in self.rows.iter().zip(&warp.rows) {
                for lane in 0..WARP_LANES {
                    same &= !(u32::from(old.0[lane] != new.0[lane]) << lane);
                }
            }
            for (old, new) in self.predicates.iter().zip(&warp.preds) {
                same &= !(old ^ new);
            }
            let depths = depths(warp);
            same = Lanes(same)
                .filter(|lane| depths[*lane as usize] == self.depths[*lane as usize])
                .fold(0u32, |mask, lane| mask | 1 << lane);
        }
        self.waits = still & same;
        self.returned |= back & same;
    }

    /// From here on the threads that are not settled are compared with how they are now.
    fn renew<P: Reconvergence>(&mut self, resident: &mut Resident<P>) {
        let lanes = self.unsettled(resident);
        if lanes == 0 {
            return;
        }
        let (pcs, waits) = places(resident, self.at.1);
        let warp = &mut resident.warps[self.at.1];
        let depths = depths(warp);
        for lane in Lanes(lanes) {
            let l = lane as usize;
            (self.pcs[l], self.depths[l]) = (pcs[l], depths[l]);
            for (old, new) in self.rows.iter_mut().zip(&warp.rows) {
                old.0[l] = new.0[l];
            }
        }
        for (old, new) in self.predicates.iter_mut().zip(&warp.preds) {
            *old = *old & !lanes | *new & lanes;
        }
        self.waits |= waits & lanes;
        self.moved &= !lanes;
        warp.branched &= !lanes;
    }

    /// Threads that neither wait nor were seen to go round.
    fn unsettled<P: Reconvergence>(&self, resident: &Resident<P>) -> LaneMask {
        resident.warps[self.at.1].live() & !self.waits & !self.returned
    }
}

impl Watch {
    /// Begins a watch of all `residents`, memory having changed `changes` times by now.
    pub fn begin<'r, P: Reconvergence + 'r>(
        residents: impl Iterator<Item = &'r Resident<P>>,
        changes: u64,
        now: Option<Cycle>,
    ) -> Self {
        let mut warps = Vec::new();
        for (i, resident) in residents.enumerate() {
            let live = (0..resident.warps.len())
                .filter(|&w| resident.warps[w].resident && resident.warps[w].live() != 0);
            warps.extend(live.map(|w| Watched::new(resident, (i, w))));
        }
        Self { since: now, changes, samples: 0, warps }
    }

    /// The cycle it began; 0 in functional runs.
    pub fn since(&self) -> Cycle {
        self.since.unwrap_or(0)
    }

    /// Cycles until the next look: no period of a loop divides them all.
    pub fn gap(&self) -> Cycle {
        1021 + 74 * Cycle::from(self.samples)
    }

    /// After a look that says nothing yet: threads that were not seen to come back get another chance.
    pub fn renew<'r, P: Reconvergence + 'r>(&mut self, residents: impl Iterator<Item = &'r mut Resident<P>>) {
        if !self.samples.is_multiple_of(RENEWAL) {
            return;
        }
        let mut warps = self.warps.iter_mut().peekable();
        for (i, resident) in residents.enumerate() {
            while let Some(watched) = warps.next_if(|watched| watched.at.0 == i) {
                watched.renew(resident);
            }
        }
    }

    /// Looks at the threads. `changes` counts all that changed so far; `open` names what may still
    /// happen, so that nothing is proved.
    pub fn look<P: Reconvergence>(
        &mut self,
        residents: &[&Resident<P>],
        changes: u64,
        open: Option<String>,
    ) -> Look {
        if changes != self.changes {
            return Look::Progress;
        }
        self.samples += 1;
        for watched in &mut self.warps {
            let resident = residents[watched.at.0];
            let warp = &resident.warps[watched.at.1];
            // A thread that has ended since got on, and its last accesses may still be under way.
            if !warp.resident || warp.live() != watched.live {
                return Look::Progress;
            }
            watched.look(resident);
        }
        let left = self.warps.iter().find(|watched| watched.unsettled(residents[watched.at.0]) != 0);
        if self.samples >= 4 && left.is_none() {
            let undecided =
                || self.warps.iter().find_map(|watched| undecided(residents[watched.at.0], watched.at.1));
            return match open.or_else(undecided) {
                None => Look::Stuck,
                Some(_) if self.samples < MOST_SAMPLES => Look::Open,
                Some(why) => Look::Suspicious(self.suspicion(&why)),
            };
        }
        match left {
            Some(_) if self.samples == FIRST_RETURNS && self.warps.iter().all(|w| w.returned == 0) => {
                Look::Progress
            }
            Some(watched) if self.samples >= MOST_SAMPLES => {
                let lanes = watched.unsettled(residents[watched.at.0]);
                let who =
                    residents[watched.at.0].where_is(watched.at.1, watched.pcs[first_lane(lanes)], lanes, 0);
                // Only where others do go round is a thread that does not one to suspect.
                if self.warps.iter().any(|w| w.returned != 0) {
                    let why =
                        format!("lanes {lanes:#x} were not observed to return to an earlier state ({who})");
                    Look::Suspicious(self.suspicion(&why))
                } else {
                    Look::Progress
                }
            }
            _ => Look::Open,
        }
    }

    fn suspicion(&self, why: &str) -> String {
        format!(
            "memory has not changed{} and threads loop (possible livelock); not proved: {why}",
            self.since_when()
        )
    }

    fn since_when(&self) -> String {
        self.since.map_or_else(|| " for some time".to_string(), |cycle| format!(" since cycle {cycle}"))
    }

    /// The fault of a device that is stuck: who goes round where, who waits where.
    pub fn stuck<P: Reconvergence>(&self, residents: &[&Resident<P>], now: Cycle) -> Box<Fault> {
        const MOST: usize = 4;
        let spins = |watched: &&Watched| watched.returned & !watched.waits != 0;
        let mut order: Vec<&Watched> = self.warps.iter().collect();
        order.sort_by_key(|watched| !spins(watched));
        let mut words = Vec::new();
        for watched in order.iter().take(MOST) {
            words.push(in_words(watched, residents[watched.at.0]));
        }
        if order.len() > MOST {
            words.push(format!("and {} more warps", order.len() - MOST));
        }
        let first = order.first().map(|watched| {
            let lanes = if spins(watched) { watched.returned & !watched.waits } else { watched.waits };
            let pc = watched.pcs[first_lane(lanes)];
            residents[watched.at.0].where_is(watched.at.1, pc, lanes, now)
        });
        Box::new(Fault {
            kind: FaultKind::Livelock,
            rule: "live".into(),
            message: format!(
                "no thread can make progress: memory is unchanged{}, and every thread waits, has returned to an \
                 earlier state (same PC and registers), or repeats a test of an mbarrier object that fails: {}",
                self.since_when(),
                words.join("; ")
            ),
            place: first.unwrap_or_else(|| residents[0].where_is(0, 0, 0, now)),
        })
    }
}

/// The source lines of addresses, as `3-5, 9`.
fn lines(program: &Program, pcs: impl Iterator<Item = Pc>) -> String {
    let mut lines: Vec<u32> =
        pcs.filter_map(|pc| program.info.get(pc as usize)).map(|i| i.line).filter(|l| *l != 0).collect();
    lines.sort_unstable();
    lines.dedup();
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for line in lines {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 >= line => *last = line,
            _ => runs.push((line, line)),
        }
    }
    let runs: Vec<String> =
        runs.iter().map(|(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") }).collect();
    runs.join(", ")
}

/// What the threads of a warp do, in words.
fn in_words<P: Reconvergence>(watched: &Watched, resident: &Resident<P>) -> String {
    let warp = &resident.warps[watched.at.1];
    let program = &resident.kernels[warp.kernel].code.program;
    let block = resident.blocks[warp.block].as_ref().map_or([0; 3], |block| block.index);
    let mut parts = Vec::new();
    let spins = watched.returned & !watched.waits;
    if spins != 0 {
        let at = lines(program, watched.seen.iter().copied());
        let noun = if at.contains([',', '-']) { "lines" } else { "line" };
        parts.push(format!("lanes {spins:#x} loop at {noun} {at}"));
    }
    let at_barrier = at_barrier(resident, watched.at.1);
    let others = watched.waits & warp.live() & !at_barrier;
    for (mask, how) in [(at_barrier, "wait at a barrier"), (others, "wait for other threads of their warp")] {
        if mask != 0 {
            let at = lines(program, Lanes(mask).map(|lane| watched.pcs[lane as usize]));
            parts.push(format!("lanes {mask:#x} {how}, resuming at line {at}"));
        }
    }
    format!("block {block:?} warp {}: {}", warp.index, parts.join(", "))
}

/// Why the next step of a thread may depend on more than its registers and memory, in a warp that has threads which neither
/// wait at a barrier nor repeat a test that fails.
fn undecided<P: Reconvergence>(resident: &Resident<P>, w: usize) -> Option<String> {
    let warp = &resident.warps[w];
    if warp.live() & !warp.failed & !at_barrier(resident, w) == 0 {
        return None;
    }
    if !resident.policy.waits_for_threads_only(w) {
        return Some("the policy releases waiting threads after a timeout".into());
    }
    let program = &resident.kernels[warp.kernel].code.program;
    program.ops.iter().find_map(|op| match (op.class, &op.extra) {
        (OpClass::Clock | OpClass::Sleep, _) => Some(format!("kernel {} reads a clock", program.entry)),
        (OpClass::Vote, Extra::Vote { sync: false, .. })
        | (OpClass::Shuffle, Extra::Shuffle { sync: false, .. })
        | (OpClass::ActiveMask, _)
            if !P::WHOLE_WARP =>
        {
            Some(format!("kernel {} depends on which threads are converged", program.entry))
        }
        _ => None,
    })
}

/// Threads of a warp that wait at a barrier of their block or cluster.
fn at_barrier<P: Reconvergence>(resident: &Resident<P>, w: usize) -> LaneMask {
    let waiting = resident.splits_of(w).filter(|split| resident.waits[*split] != 0);
    waiting.fold(0, |mask, split| mask | resident.policy.mask(split))
}

/// What threads at a `setmaxnreg` wait for, in words.
fn waits_for_registers<P: Reconvergence>(resident: &Resident<P>, meeting: &Meeting) -> Option<String> {
    let warp = &resident.warps[meeting.warp];
    let (pc, _) = meeting.parts.first()?;
    let code = &resident.kernels[warp.kernel].code;
    let Extra::SetRegisters { count, .. } = code.program.ops.get(*pc as usize)?.extra else { return None };
    let pool = resident.blocks.get(warp.block)?.as_ref()?.registers.as_deref();
    let begins = RegisterPool::granted(code.program.entry_registers?);
    let (own, free) = pool.map_or((begins, 0), |pool| (pool.of(warp.index as usize), pool.free()));
    let all_here = meeting.mask & warp.live() & !meeting.arrived == 0;
    all_here.then(|| {
        format!(
            "waits for registers: {count} for each thread of a warp that has {own}, where the block's warps have given \
             back {free} and no more will be"
        )
    })
}

/// What a blocked split waits for, in words: the barrier, who has arrived, where the others are.
pub fn waits_in_words<P: Reconvergence>(resident: &Resident<P>, split: SplitId) -> String {
    let warp = &resident.warps[resident.warp_of(split)];
    let bits = resident.waits[split];
    let Some(block) = resident.blocks.get(warp.block).and_then(Option::as_ref).filter(|_| bits != 0) else {
        let meeting = resident.meetings.iter().find(|meeting| meeting.splits.contains(&split));
        return meeting.map_or("waits".into(), |meeting| {
            if let Some(words) = waits_for_registers(resident, meeting) {
                return words;
            }
            let absent = meeting.mask & warp.live() & !meeting.arrived;
            format!(
                "waits at a warp-collective instruction with member mask {:#x} for lanes {absent:#x}, which never arrive",
                meeting.mask
            )
        });
    };
    let index = bits.trailing_zeros();
    if index == CLUSTER {
        return "waits at the cluster barrier, where live threads have not arrived".into();
    }
    let whole = (P::WHOLE_WARP && resident.world.compute_capability < 70).then_some(resident.world.warp_size);
    let open = block.barriers.open().find(|(other, ..)| *other == index);
    let (arrived, awaited) = open.map_or((0, 0), |(_, arrived, count)| {
        (arrived, count.unwrap_or_else(|| block.barrier_default(whole)))
    });
    let mut others = Vec::new();
    let mut ended = 0;
    for &w in &block.warps {
        let other = &resident.warps[w];
        ended += (other.threads & other.exited).count_ones();
        let program = &resident.kernels[other.kernel].code.program;
        for s in resident.splits_of(w) {
            let mask = resident.policy.mask(s);
            let elsewhere = resident.waits[s] >> index & 1 == 0 && mask != 0;
            if elsewhere && others.len() < 4 {
                let at = lines(program, std::iter::once(resident.policy.pc(s)));
                let at_barrier = resident.waits[s];
                let how = if at_barrier != 0 {
                    format!("waits at barrier {}", at_barrier.trailing_zeros())
                } else {
                    "is".into()
                };
                others.push(format!("warp {} lanes {mask:#x} {how}, line {at}", other.index));
            }
        }
    }
    let others = if others.is_empty() { String::new() } else { format!("; {}", others.join("; ")) };
    let counted = open.is_some_and(|(.., count)| count.is_some()) && whole.is_none();
    let rule = if counted {
        "; arrivals at a barrier with a thread count are counted by warp: a warp arrives when all its threads that have not exited have arrived"
    } else {
        ""
    };
    format!(
        "waits at barrier {index} of its block, where {arrived} of {awaited} threads have arrived and no remaining thread can arrive: {ended} threads of the block have exited{others}{rule}"
    )
}
