//! The named barriers of a thread block (CS §5.5.1), after the functions of the thesis: barInfo and prepBar
//! check that arrivals agree, updAct and updArrCnt record and count them, endBar completes the barrier,
//! barAct and reduce compute its result, and remBar resumes the splits.

use sim_frontend::form::{BarrierKind, Reduction};
use sim_frontend::program::Pc;
use sim_memory::vocabulary::LaneMask;

use crate::error::Violation;
use crate::reconvergence::SplitId;

/// `BarrierAct`: the lanes of one split that arrive at a barrier together.
#[derive(Clone, Debug, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Arrival {
    /// Index of the barrier in its block.
    pub index: u32,
    /// Thread count operand of the instruction, if it has one.
    pub count: Option<u32>,
    /// The variant of the instruction: sync, arrive or red.
    pub kind: BarrierKind,
    /// The reduction operator of `.red`.
    pub reduction: Option<Reduction>,
    /// The split that arrives.
    pub split: SplitId,
    /// Warp slot of the split.
    pub warp: usize,
    /// Lanes that arrive.
    pub lanes: LaneMask,
    /// The predicate operand of each lane (`.red`).
    pub predicate: LaneMask,
    /// Address of the barrier instruction.
    pub pc: Pc,
    /// Number of threads to count as arrived: the warp size if whole warps arrive, else the number of lanes.
    pub counted: u32,
}

/// `Barrier`: thread count, arrival count, reduction, and the recorded arrivals.
#[derive(Clone, Debug, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
struct Barrier {
    count: Option<u32>,
    arrived: u32,
    reduction: Option<Reduction>,
    actions: Vec<Arrival>,
}

/// A function from a warp slot to its threads that have not exited.
pub type LiveOf<'a> = &'a dyn Fn(usize) -> LaneMask;

impl Barrier {
    /// True if the expected count, a multiple of the warp size, is reached when each warp whose live threads
    /// have all arrived counts as a whole warp (PTX ISA "barrier").
    fn counts_ended(&self, missing: u32, warp_size: u32, live: Option<LiveOf<'_>>) -> bool {
        let (Some(live), Some(_)) = (live, self.count) else { return false };
        let mut warps: Vec<(usize, LaneMask)> = Vec::new();
        for action in &self.actions {
            match warps.iter_mut().find(|(warp, _)| *warp == action.warp) {
                Some((_, lanes)) => *lanes |= action.lanes,
                None => warps.push((action.warp, action.lanes)),
            }
        }
        let whole = warps.iter().filter(|(warp, lanes)| live(*warp) & !lanes == 0);
        let ended: u32 = whole.map(|(_, lanes)| warp_size.saturating_sub(lanes.count_ones())).sum();
        ended >= missing
    }
}

/// A completed barrier: its arrivals and the result of its reduction.
#[derive(Clone, Debug, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Completed {
    /// Index of the barrier in its block.
    pub index: u32,
    /// All arrivals, in order.
    pub actions: Vec<Arrival>,
    /// Result of the reduction: a Boolean, or the population count.
    pub result: Option<u32>,
}

/// `BarrierEnv` χ: the named barriers of a block.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct BarrierEnv {
    barriers: Vec<Option<Barrier>>,
    /// Lanes per warp; thread counts must be multiples of it.
    warp_size: u32,
    /// Number of barriers that have arrivals and are not complete.
    begun: u32,
    /// Emptied arrival lists of completed barriers, for reuse.
    spare: Vec<Vec<Arrival>>,
}

impl BarrierEnv {
    /// `indices` barriers (NumBarrierIndices) without arrivals.
    pub fn new(indices: usize, warp_size: u32) -> Self {
        Self { barriers: vec![None; indices], warp_size, begun: 0, spare: Vec::new() }
    }

    /// Checks an arrival as barInfo does: the index exists, and the count is valid for a barrier [bar-info].
    fn info(&self, arrival: &Arrival) -> Result<(), Violation> {
        if arrival.index as usize >= self.barriers.len() {
            let last = self.barriers.len().saturating_sub(1);
            return Err(Violation::new(
                "bar-info",
                arrival.lanes,
                format!("barrier index {} is out of range: the last one is {last}", arrival.index),
            ));
        }
        if let Some(count) = arrival.count
            && (count == 0 || !count.is_multiple_of(self.warp_size))
        {
            return Err(Violation::new(
                "bar-info",
                arrival.lanes,
                format!(
                    "thread count {count} of barrier {} is not a positive multiple of the warp \
                     size {}",
                    arrival.index, self.warp_size
                ),
            ));
        }
        if arrival.kind == BarrierKind::Arrive && arrival.count.is_none() {
            return Err(Violation::new(
                "bar-info",
                arrival.lanes,
                format!("bar.arrive at barrier {} requires a thread count", arrival.index),
            ));
        }
        Ok(())
    }

    /// Finds or creates the barrier as prepBar does; contradictory arrivals are `⊥` [bar-prep]. An arrival
    /// without a count stands for `live_threads`, and agrees with an arrival that states this number.
    fn prepare(&mut self, arrival: &Arrival, live_threads: u32) -> Result<&mut Barrier, Violation> {
        let Self { spare, begun, .. } = self;
        let barrier = self.barriers[arrival.index as usize].get_or_insert_with(|| {
            *begun += 1;
            Barrier {
                count: arrival.count,
                arrived: 0,
                reduction: arrival.reduction,
                actions: spare.pop().unwrap_or_default(),
            }
        });
        if barrier.count != arrival.count {
            let number = |count: Option<u32>| count.unwrap_or(live_threads);
            if number(barrier.count) != number(arrival.count) {
                let in_words = |count: Option<u32>| match count {
                    Some(count) => format!("thread count {count}"),
                    None => format!("no thread count, which means {live_threads}"),
                };
                return Err(Violation::new(
                    "bar-prep",
                    arrival.lanes,
                    format!(
                        "barrier {} is already in use with {}; this arrival specifies {}",
                        arrival.index,
                        in_words(barrier.count),
                        in_words(arrival.count)
                    ),
                ));
            }
            // In whichever order they come, the number that is written stands.
            barrier.count = barrier.count.or(arrival.count);
        }
        if barrier.reduction != arrival.reduction {
            return Err(Violation::new(
                "bar-prep",
                arrival.lanes,
                format!(
                    "barrier {}: bar.red is combined with another barrier instruction or with a different reduction in \
                     the same barrier phase",
                    arrival.index
                ),
            ));
        }
        Ok(barrier)
    }

    /// updBar: records the arrival (updAct) [bar-updAct] and counts it (updArrCnt) [bar-arrCnt].
    /// `live_threads` is the expected count of a barrier without a stated one [bar-upd].
    ///
    /// # Errors
    /// `⊥` if arrivals contradict each other.
    pub fn arrive(
        &mut self,
        arrival: Arrival,
        live_threads: u32,
        live: Option<LiveOf<'_>>,
    ) -> Result<Option<Completed>, Violation> {
        self.info(&arrival)?;
        let index = arrival.index;
        let barrier = self.prepare(&arrival, live_threads)?;
        barrier.arrived += arrival.counted;
        barrier.actions.push(arrival);
        Ok(self.end(index, live_threads, live))
    }

    /// endBar: completes the barrier and frees its index if enough threads have arrived [bar-end].
    fn end(&mut self, index: u32, live_threads: u32, live: Option<LiveOf<'_>>) -> Option<Completed> {
        let slot = &mut self.barriers[index as usize];
        let barrier = slot.as_ref()?;
        let missing = barrier.count.unwrap_or(live_threads).saturating_sub(barrier.arrived);
        if missing > 0 && !barrier.counts_ended(missing, self.warp_size, live) {
            return None;
        }
        let Barrier { reduction, actions, .. } = slot.take()?;
        self.begun -= 1;
        let result = reduction.map(|reduction| reduce(reduction, &actions));
        Some(Completed { index, actions, result })
    }

    /// Re-evaluates the barriers after threads have exited. A barrier without a count waits for the remaining
    /// live threads only, as in hardware (according to the thesis its own rule does not). A barrier with a
    /// count is re-evaluated where threads arrive individually, since they wait only for the live threads of
    /// their warp.
    pub fn reevaluate(&mut self, live_threads: u32, live: Option<LiveOf<'_>>) -> Vec<Completed> {
        debug_assert_eq!(self.begun as usize, self.open().count());
        if self.begun == 0 {
            return Vec::new();
        }
        let waits = |count: &Option<u32>| count.is_none() || live.is_some();
        let waiting: Vec<u32> = self.open().filter(|(.., count)| waits(count)).map(|(i, ..)| i).collect();
        waiting.into_iter().filter_map(|index| self.end(index, live_threads, live)).collect()
    }

    /// Returns the arrival list of a completed barrier for reuse.
    pub fn recycle(&mut self, mut actions: Vec<Arrival>) {
        actions.clear();
        self.spare.push(actions);
    }

    /// The barriers in use: index, threads arrived, threads expected (`None`: all live threads).
    pub fn open(&self) -> impl Iterator<Item = (u32, u32, Option<u32>)> {
        self.barriers
            .iter()
            .enumerate()
            .filter_map(|(i, b)| b.as_ref().map(|b| (i as u32, b.arrived, b.count)))
    }
}

/// `reduce` over the predicates of the threads that arrived [bar-reduce]. barAct writes the result to each of
/// them [bar-barAct].
fn reduce(reduction: Reduction, actions: &[Arrival]) -> u32 {
    match reduction {
        Reduction::And => u32::from(actions.iter().all(|a| a.predicate & a.lanes == a.lanes)),
        Reduction::Or => u32::from(actions.iter().any(|a| a.predicate & a.lanes != 0)),
        _ => actions.iter().map(|a| (a.predicate & a.lanes).count_ones()).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(index: u32, count: Option<u32>, warp: usize) -> Arrival {
        Arrival {
            index,
            count,
            kind: BarrierKind::Sync,
            reduction: None,
            split: warp as SplitId,
            warp,
            lanes: u32::MAX,
            predicate: 0,
            pc: 7,
            counted: 32,
        }
    }

    #[test]
    fn bar_info_refuses_indices_and_counts_that_no_barrier_has() {
        let mut env = BarrierEnv::new(16, 32);
        for (index, count) in [(16, None), (0, Some(33)), (0, Some(0))] {
            let error = env.arrive(arrival(index, count, 0), 64, None).expect_err("refused");
            assert_eq!(error.rule, "bar-info");
        }
        let arrive = Arrival { kind: BarrierKind::Arrive, ..arrival(0, None, 0) };
        assert_eq!(env.arrive(arrive, 64, None).expect_err("refused").rule, "bar-info");
    }

    #[test]
    fn bar_prep_refuses_contradictions() {
        let mut env = BarrierEnv::new(16, 32);
        assert_eq!(env.arrive(arrival(1, Some(96), 0), 128, None), Ok(None));
        let error = env.arrive(arrival(1, Some(64), 1), 128, None).expect_err("another count");
        assert_eq!(error.rule, "bar-prep");
        let red =
            Arrival { reduction: Some(Reduction::And), kind: BarrierKind::Red, ..arrival(1, Some(96), 1) };
        assert_eq!(env.arrive(red, 128, None).expect_err("a reduction").rule, "bar-prep");
    }

    #[test]
    fn bar_prep_compares_the_counts_of_arrives() {
        let mut env = BarrierEnv::new(16, 32);
        let arrive = |count| Arrival { kind: BarrierKind::Arrive, ..arrival(2, Some(count), 0) };
        assert_eq!(env.arrive(arrive(96), 128, None), Ok(None));
        assert_eq!(env.arrive(arrive(64), 128, None).expect_err("another count").rule, "bar-prep");
        assert_eq!(
            env.arrive(arrival(2, Some(64), 1), 128, None).expect_err("another count").rule,
            "bar-prep"
        );
        // Nothing of what was refused has arrived.
        assert_eq!(env.arrive(arrive(96), 128, None), Ok(None));
        assert!(env.arrive(arrival(2, Some(96), 2), 128, None).is_ok_and(|done| done.is_some()));
        // An arrive at a barrier that a sync began.
        assert_eq!(env.arrive(arrival(2, Some(64), 1), 128, None), Ok(None));
        assert_eq!(env.arrive(arrive(96), 128, None).expect_err("another count").rule, "bar-prep");
    }

    #[test]
    fn bar_prep_an_arrival_without_a_count_agrees_with_the_number_it_stands_for() {
        for counts in [[None, Some(64)], [Some(64), None]] {
            let mut env = BarrierEnv::new(16, 32);
            assert_eq!(env.arrive(arrival(0, counts[0], 0), 64, None), Ok(None));
            assert_eq!(
                env.clone().arrive(arrival(0, counts[1], 1), 96, None).expect_err("96").rule,
                "bar-prep"
            );
            let done = env.clone().arrive(arrival(0, counts[1], 1), 64, None).expect("they agree");
            assert_eq!(done.expect("complete").actions.len(), 2, "{counts:?}");
        }
        // The number that is written stands when threads exit.
        for counts in [[None, Some(96)], [Some(96), None]] {
            let mut env = BarrierEnv::new(16, 32);
            assert_eq!(env.arrive(arrival(0, counts[0], 0), 96, None), Ok(None));
            assert_eq!(env.arrive(arrival(0, counts[1], 1), 96, None), Ok(None));
            assert!(env.reevaluate(64, None).is_empty(), "{counts:?}");
            assert_eq!(env.open().collect::<Vec<_>>(), vec![(0, 64, Some(96))], "{counts:?}");
        }
    }

    #[test]
    fn bar_upd_bar_updact_bar_arrcnt_count_warps_until_bar_end() {
        let mut env = BarrierEnv::new(16, 32);
        assert_eq!(env.arrive(arrival(0, None, 0), 96, None), Ok(None));
        assert_eq!(env.arrive(arrival(0, None, 1), 96, None), Ok(None));
        assert_eq!(env.open().collect::<Vec<_>>(), vec![(0, 64, None)]);
        let done = env.arrive(arrival(0, None, 2), 96, None).expect("no contradiction");
        let warps: Vec<usize> = done.expect("complete").actions.iter().map(|a| a.warp).collect();
        assert_eq!(warps, vec![0, 1, 2]);
        // The index is free again.
        assert_eq!(env.arrive(arrival(0, Some(64), 0), 96, None), Ok(None));
    }

    #[test]
    fn bar_reduce_bar_baract_and_or_popc() {
        for (reduction, expected) in [(Reduction::And, 0), (Reduction::Or, 1), (Reduction::Popc, 32 + 3)] {
            let mut env = BarrierEnv::new(16, 32);
            let red = |warp, predicate| Arrival {
                kind: BarrierKind::Red,
                reduction: Some(reduction),
                predicate,
                ..arrival(3, None, warp)
            };
            assert_eq!(env.arrive(red(0, u32::MAX), 64, None), Ok(None));
            let done = env.arrive(red(1, 0b111), 64, None).expect("agrees").expect("complete");
            assert_eq!(done.result, Some(expected), "{reduction:?}");
        }
    }

    #[test]
    fn bar_rem_exits_complete_a_barrier_without_a_count() {
        let mut env = BarrierEnv::new(16, 32);
        assert_eq!(env.arrive(arrival(0, None, 0), 64, None), Ok(None));
        assert_eq!(env.arrive(arrival(1, Some(64), 0), 64, None), Ok(None));
        let done = env.reevaluate(32, None);
        assert_eq!(done.iter().map(|c| c.index).collect::<Vec<_>>(), vec![0]);
    }

    #[test]
    fn bar_arrcnt_a_warp_counts_whole_once_its_other_threads_have_ended() {
        let mut env = BarrierEnv::new(16, 32);
        let one = |warp| Arrival { lanes: 1, counted: 1, ..arrival(1, Some(64), warp) };
        let all_live = |_: usize| u32::MAX;
        assert_eq!(env.arrive(one(0), 64, Some(&all_live)), Ok(None));
        assert_eq!(env.arrive(one(1), 64, Some(&all_live)), Ok(None));
        let half_ended = |warp: usize| if warp == 0 { 1 } else { 0b11 };
        assert!(env.reevaluate(3, Some(&half_ended)).is_empty());
        assert_eq!(env.reevaluate(2, Some(&|_| 1)).len(), 1);
        // One of two lanes alone is no barrier of two warps.
        assert_eq!(env.arrive(one(0), 64, Some(&|_| 1)), Ok(None));
    }
}
