//! How arrivals at barriers pair: threads of a CTA meet at a barrier by its number.
//!
//! With a count, a phase is complete when so many threads have arrived. Without one, the phase is that of all
//! threads of the CTA that arrive there as often: a thread that ends is not waited for.

use std::collections::{BTreeMap, BTreeSet};

/// An arrival of a thread at a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The CTA of the thread, as an index.
    pub cta: usize,
    /// The number of the barrier.
    pub id: i64,
    /// Threads that complete a phase, if it is given.
    pub quorum: Option<i64>,
    /// The thread does not wait.
    pub arrive: bool,
}

/// Phases that are complete: each the set of its arrivals, by thread and position.
pub type Phases = BTreeSet<Vec<(usize, usize)>>;

/// What came of the arrivals.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pairing {
    /// Complete phases.
    pub phases: Phases,
    /// Threads that wait for ever.
    pub waiting: BTreeSet<usize>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    /// Arrivals each thread has made.
    made: Vec<usize>,
    /// Threads that wait.
    waiting: BTreeSet<usize>,
    /// By CTA and barrier: arrivals of the phase that is not complete, and the number of complete ones.
    open: BTreeMap<(usize, i64), (Vec<(usize, usize)>, usize)>,
    phases: Phases,
}

/// All pairings of the arrivals of threads, each in its order.
pub fn pairings(threads: &[Vec<Arrival>]) -> BTreeSet<Pairing> {
    let start = State {
        made: vec![0; threads.len()],
        waiting: BTreeSet::new(),
        open: BTreeMap::new(),
        phases: Phases::new(),
    };
    let (mut out, mut seen, mut stack) = (BTreeSet::new(), BTreeSet::new(), vec![start]);
    while let Some(state) = stack.pop() {
        if !seen.insert(state.clone()) {
            continue;
        }
        let next: Vec<usize> = (0..threads.len())
            .filter(|t| !state.waiting.contains(t) && state.made[*t] < threads[*t].len())
            .collect();
        if next.is_empty() {
            out.insert(Pairing { phases: state.phases, waiting: state.waiting });
            continue;
        }
        // Arrivals without a count commute with all others.
        let sure = next.iter().find(|t| threads[**t][state.made[**t]].quorum.is_none());
        for thread in sure.map_or(&next[..], std::slice::from_ref) {
            let mut state = state.clone();
            arrive(&mut state, threads, *thread);
            stack.push(state);
        }
    }
    out
}

fn arrive(state: &mut State, threads: &[Vec<Arrival>], thread: usize) {
    let position = state.made[thread];
    let Arrival { cta, id, quorum, arrive } = threads[thread][position];
    state.made[thread] += 1;
    if !arrive {
        state.waiting.insert(thread);
    }
    let (open, complete) = state.open.entry((cta, id)).or_default();
    open.push((thread, position));
    let wanted = match quorum {
        Some(quorum) => usize::try_from(quorum).unwrap_or(0),
        None => threads
            .iter()
            .filter(|list| list.iter().filter(|a| (a.cta, a.id) == (cta, id)).count() > *complete)
            .count(),
    };
    if open.len() >= wanted {
        let mut phase = std::mem::take(open);
        *complete += 1;
        for (thread, position) in &phase {
            if !threads[*thread][*position].arrive {
                state.waiting.remove(thread);
            }
        }
        phase.sort_unstable();
        state.phases.insert(phase);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(id: i64, quorum: Option<i64>) -> Arrival {
        Arrival { cta: 0, id, quorum, arrive: false }
    }

    #[test]
    fn threads_that_arrive_as_often_meet() {
        let found = pairings(&[vec![at(0, None), at(0, None)], vec![at(0, None)], vec![at(1, None)]]);
        let phases = [vec![(0, 0), (1, 0)], vec![(0, 1)], vec![(2, 0)]];
        assert_eq!(found.len(), 1);
        let first = found.first().expect("one");
        assert_eq!(first.phases, phases.into_iter().collect());
        assert!(first.waiting.is_empty());
    }

    #[test]
    fn a_count_pairs_any_two_of_three_and_one_waits() {
        let found = pairings(&[vec![at(0, Some(2))], vec![at(0, Some(2))], vec![at(0, Some(2))]]);
        let waiting: BTreeSet<Vec<usize>> =
            found.iter().map(|p| p.waiting.iter().copied().collect()).collect();
        assert_eq!(waiting, [vec![0], vec![1], vec![2]].into_iter().collect());
        assert!(found.iter().all(|p| p.phases.len() == 1));
    }

    #[test]
    fn barriers_in_opposite_order_block() {
        let found = pairings(&[vec![at(0, None), at(1, None)], vec![at(1, None), at(0, None)]]);
        assert_eq!(found.len(), 1);
        assert_eq!(found.first().expect("one").waiting.len(), 2);
    }

    #[test]
    fn an_arrival_does_not_wait() {
        let arrive = Arrival { arrive: true, ..at(1, Some(2)) };
        let found = pairings(&[vec![arrive, at(0, Some(2))], vec![at(0, Some(2)), at(1, Some(2))]]);
        assert_eq!(found.len(), 1);
        let first = found.first().expect("one");
        assert!(first.waiting.is_empty() && first.phases.len() == 2);
    }
}
