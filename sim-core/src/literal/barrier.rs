//! The barriers of a block (CS §5.5.1).

use sim_frontend::form::{BarrierKind, Reduction};

use super::Stuck;
use super::thread::BarAct;
use super::warp::{Warp, WarpBarAct};

/// How many threads a barrier waits for. The default is the threads of the warps that are active
/// when it is looked at, not when it was begun: a completed warp counts as arrived, as the thesis
/// says hardware has it. A count that is written stands from then on (DEVIATIONS.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadCnt {
    Given(u32),
    ActiveWarps,
}

/// `Barrier`; the acts with the number of their warp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Barrier {
    pub count: ThreadCnt,
    pub arrived: u32,
    pub reduction: Option<Reduction>,
    pub acts: Vec<(usize, BarAct)>,
}

/// χ.
pub(super) type BarrierEnv = Vec<Option<Barrier>>;

type BarInfo = (u32, Option<u32>, BarrierKind, Option<Reduction>);

/// `barInfo`: each barrier once, or ⊥ where actions contradict each other.
fn bar_info(wact: &WarpBarAct) -> Result<Vec<BarInfo>, Stuck> {
    let mut infos: Vec<BarInfo> = Vec::new();
    for act in &wact.acts {
        let info = (act.barid, act.count, wact.kind, wact.reduction);
        match infos.iter().find(|other| other.0 == info.0) {
            Some(other) if *other == info => {}
            Some(_) => return Stuck::new("barInfo", format!("barrier {} with two counts", act.barid)),
            None => infos.push(info),
        }
    }
    Ok(infos)
}

/// `prepBar`.
fn prep_bar(
    mut env: BarrierEnv,
    active_threads: u32,
    infos: &[BarInfo],
    warp_size: u32,
) -> Result<BarrierEnv, Stuck> {
    for (barid, count, kind, reduction) in infos {
        let Some(barrier) = env.get_mut(*barid as usize) else {
            return Stuck::new("prepBar", format!("there is no barrier {barid}"));
        };
        if count.is_some_and(|count| count % warp_size != 0) {
            return Stuck::new("prepBar", "the thread count is no multiple of the warp size");
        }
        match barrier {
            None => {
                let count = count.map_or(ThreadCnt::ActiveWarps, ThreadCnt::Given);
                *barrier = Some(Barrier { count, arrived: 0, reduction: *reduction, acts: Vec::new() });
            }
            Some(begun) => {
                let counts_agree = count.is_none_or(|count| match begun.count {
                    ThreadCnt::Given(begun) => begun == count,
                    ThreadCnt::ActiveWarps => active_threads == count,
                });
                let kinds_agree =
                    begun.reduction == *reduction && (reduction.is_none() || *kind == BarrierKind::Red);
                if !counts_agree || !kinds_agree {
                    return Stuck::new("prepBar", format!("barrier {barid} was begun otherwise"));
                }
                if let Some(count) = *count {
                    begun.count = ThreadCnt::Given(count);
                }
            }
        }
    }
    Ok(env)
}

/// `updAct`.
fn upd_act(mut env: BarrierEnv, warp: usize, wact: &WarpBarAct) -> BarrierEnv {
    for act in &wact.acts {
        if let Some(Some(barrier)) = env.get_mut(act.barid as usize) {
            barrier.acts.push((warp, act.clone()));
        }
    }
    env
}

/// `updArrCnt`: by whole warps.
fn upd_arr_cnt(mut env: BarrierEnv, wact: &WarpBarAct, warp_size: u32) -> BarrierEnv {
    for (barid, barrier) in env.iter_mut().enumerate() {
        if let Some(barrier) = barrier
            && wact.acts.iter().any(|act| act.barid as usize == barid)
        {
            barrier.arrived += warp_size;
        }
    }
    env
}

/// `updBar`.
pub(super) fn upd_bar(
    env: BarrierEnv,
    active_threads: u32,
    warp: usize,
    wact: &WarpBarAct,
    warp_size: u32,
) -> Result<BarrierEnv, Stuck> {
    let infos = bar_info(wact)?;
    let env = prep_bar(env, active_threads, &infos, warp_size)?;
    Ok(upd_arr_cnt(upd_act(env, warp, wact), wact, warp_size))
}

/// `reduce`.
fn reduce(reduction: Reduction, acts: &[(usize, BarAct)]) -> u32 {
    let mut predicates = acts.iter().filter_map(|(_, act)| act.predicate);
    match reduction {
        Reduction::And => u32::from(predicates.all(|p| p)),
        Reduction::Or => u32::from(predicates.any(|p| p)),
        _ => predicates.filter(|p| *p).count() as u32,
    }
}

/// What a barrier that ends writes: value by warp and lane.
pub(super) type BarWrites = Vec<(usize, u32, u32)>;

/// `barAct`.
fn bar_act(barrier: &Barrier) -> BarWrites {
    let Some(reduction) = barrier.reduction else { return Vec::new() };
    let value = reduce(reduction, &barrier.acts);
    barrier.acts.iter().map(|(warp, act)| (*warp, act.lane, value)).collect()
}

/// `remBar`.
fn rem_bar(barid: u32, warps: &mut [Warp]) {
    for warp in warps {
        warp.barids.retain(|other| *other != barid);
    }
}

/// `endBar`: one barrier that has its threads.
pub(super) fn end_bar(env: &mut BarrierEnv, warps: &mut [Warp], active_threads: u32) -> Option<BarWrites> {
    for barid in 0..env.len() {
        let Some(barrier) = &env[barid] else { continue };
        let count = match barrier.count {
            ThreadCnt::Given(count) => count,
            ThreadCnt::ActiveWarps => active_threads,
        };
        if barrier.arrived >= count {
            let writes = bar_act(barrier);
            env[barid] = None;
            rem_bar(barid as u32, warps);
            return Some(writes);
        }
    }
    None
}
