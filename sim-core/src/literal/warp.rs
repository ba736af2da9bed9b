//! Warps (CS §5.4): votes, and the transition system →Ω, by which the threads of a warp step
//! together.

use sim_frontend::form::{BarrierKind, Reduction, ShflMode, VoteMode};
use sim_frontend::program::{Extra, Op, Pc};

use super::Stuck;
use super::crs::{self, ActiveState, ExecState, WarpState};
use super::registers::{Registers, Slot};
use super::safety;
use super::thread::{Act, BarAct, FlowAct, ProgEnv, Req, Thread};

/// `MemActΩ`: what each lane asks.
pub(super) type MemAct = Vec<(u32, Req)>;

/// `BarrierActΩ`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WarpBarAct {
    pub kind: BarrierKind,
    pub reduction: Option<Reduction>,
    pub acts: Vec<BarAct>,
}

/// `ActΩ`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WarpAct {
    Mem(MemAct),
    Bar(WarpBarAct),
}

/// ω.
#[derive(Clone, Debug)]
pub(super) struct Warp {
    pub state: WarpState,
    pub exec: ExecState,
    /// Barriers it waits for.
    pub barids: Vec<u32>,
    pub threads: Vec<Thread>,
    /// By lane, each thread's own next address (`Threadpc` of chapter 6).
    pub pcs: Vec<Option<Pc>>,
}

/// `vote`: the data word, or the Boolean as 0 or 1.
fn vote(mode: VoteMode, acts: &[(u32, bool)]) -> u32 {
    match mode {
        VoteMode::All => u32::from(acts.iter().all(|(_, p)| *p)),
        VoteMode::Any => u32::from(acts.iter().any(|(_, p)| *p)),
        VoteMode::Uni => u32::from(acts.iter().all(|(_, p)| *p == acts[0].1)),
        VoteMode::Ballot => acts.iter().fold(0, |word, (wl, p)| if *p { word | 1 << wl } else { word }),
    }
}

/// `shfl`, after its pseudo-code in the PTX manual, which the thesis leaves out.
fn shuffle(mode: ShflMode, op: &Op, acts: &[(u32, [u32; 3])]) -> Result<MemAct, Stuck> {
    let mut out = Vec::new();
    for (wl, [_, b, c]) in acts {
        let lane = *wl as i32;
        let (bval, cval, segmask) = ((b & 0x1f) as i32, (c & 0x1f) as i32, (c >> 8 & 0x1f) as i32);
        let max_lane = (lane & segmask) | (cval & !segmask);
        let min_lane = lane & segmask;
        let (mut j, inside) = match mode {
            ShflMode::Up => (lane - bval, lane - bval >= max_lane),
            ShflMode::Down => (lane + bval, lane + bval <= max_lane),
            ShflMode::Bfly => (lane ^ bval, lane ^ bval <= max_lane),
            ShflMode::Idx => {
                let j = min_lane | (bval & !segmask);
                (j, j <= max_lane)
            }
        };
        if !inside {
            j = lane;
        }
        let Some((_, [value, ..])) = acts.iter().find(|(other, _)| *other as i32 == j) else {
            return Stuck::new(
                "comm",
                format!("lane {lane} reads from lane {j}, which does not participate"),
            );
        };
        let mut writes = Vec::new();
        if op.dst[0].is_some() {
            writes.push((Slot::Word(op.dst[0].0.into()), *value));
        }
        if op.pdst[0].is_some() {
            writes.push((Slot::Predicate(op.pdst[0].index()), u32::from(inside)));
        }
        out.push((*wl, Req::Registers(writes)));
    }
    Ok(out)
}

/// What a vote or reduction leaves in a thread's register.
pub(super) fn result(op: &Op, value: u32) -> Req {
    Req::Registers(if op.dst[0].is_some() {
        vec![(Slot::Word(op.dst[0].0.into()), value)]
    } else {
        vec![(Slot::Predicate(op.pdst[0].index()), u32::from(value != 0))]
    })
}

impl Warp {
    /// `canBeScheduled`, but for blocked registers and memory barriers, which memory knows of.
    pub fn can_be_scheduled(&self) -> Result<(), Stuck> {
        if self.state != WarpState::Active {
            return Stuck::new("canBeScheduled", "the warp has completed");
        }
        if !self.barids.is_empty() {
            return Stuck::new("canBeScheduled", format!("the warp waits for barriers {:?}", self.barids));
        }
        Ok(())
    }

    /// →Ω; with the action comes the name of the rule, of →CRS where control flow is concerned.
    pub fn step(
        &mut self,
        env: &ProgEnv<'_>,
        registers: &mut Registers,
    ) -> Result<(&'static str, Option<WarpAct>), Stuck> {
        let pc = self.exec.pc;
        let mut acts = Vec::new();
        for (thread, active) in self.threads.iter_mut().zip(&self.exec.active) {
            let act = thread.exec(env, pc, *active, registers)?;
            if *active == ActiveState::Active {
                self.pcs[thread.lane as usize] = safety::branch(pc, &self.exec.stack, act.as_ref())?;
            }
            acts.extend(act.map(|act| (thread.lane, act)));
        }
        let op = &env.code.ops[pc as usize];
        let (mut flows, mut mem, mut votes, mut bars, mut shuffles) =
            (vec![], vec![], vec![], vec![], vec![]);
        for (wl, act) in acts {
            match act {
                Act::Flow(flow) => flows.push(flow),
                Act::Mem(req) => mem.push((wl, req)),
                Act::Vote(predicate) => votes.push((wl, predicate)),
                Act::Bar(bar) => bars.push(bar),
                Act::Shuffle(values) => shuffles.push((wl, values)),
            }
        }
        // Rule (comm), by the function of this name.
        let comm = match op.extra {
            Extra::Vote { mode, .. } if !votes.is_empty() => {
                let value = vote(mode, &votes);
                let writes = votes.iter().map(|(wl, _)| (*wl, result(op, value)));
                Some(("vote", Vec::new(), WarpAct::Mem(writes.collect())))
            }
            Extra::Shuffle { mode, .. } if !shuffles.is_empty() => {
                Some(("shfl", Vec::new(), WarpAct::Mem(shuffle(mode, op, &shuffles)?)))
            }
            Extra::Barrier { kind, reduction } if !bars.is_empty() => {
                let mut barids: Vec<u32> = bars.iter().map(|bar| bar.barid).collect();
                barids.sort_unstable();
                barids.dedup();
                if kind == BarrierKind::Arrive {
                    barids.clear();
                }
                let rule = match kind {
                    BarrierKind::Arrive => "bararrive",
                    BarrierKind::Red => "barred",
                    _ => "barsync",
                };
                Some((rule, barids, WarpAct::Bar(WarpBarAct { kind, reduction, acts: bars })))
            }
            _ => None,
        };
        if let Some((rule, barids, act)) = comm {
            self.exec.pc += 1;
            self.barids = barids;
            return Ok((rule, Some(act)));
        }
        // Rule (mem).
        if !mem.is_empty() {
            self.exec.pc += 1;
            return Ok(("mem", Some(WarpAct::Mem(mem))));
        }
        // Rule (bra).
        let (rule, state, exec) = crs::step(self.exec.clone(), &flows)?;
        if rule == "calltarget" {
            // By (call) as printed each of these threads has entered its function, and will enter
            // it once more when it comes back to the call: one that stays behind has not called.
            for (thread, (before, now)) in
                self.threads.iter_mut().zip(self.exec.active.iter().zip(&exec.active))
            {
                if *before == ActiveState::Active
                    && *now == ActiveState::Inactive
                    && flows.iter().any(|flow| matches!(flow, FlowAct::Call(wl, _) if *wl == thread.lane))
                {
                    thread.calls.pop();
                }
            }
        }
        safety::reset(&mut self.pcs, &flows, pc, &self.exec.active, &exec.active);
        self.state = state;
        self.exec = exec;
        Ok((rule, None))
    }

    /// A warp of `count` threads from `first` on at the entry; dummy threads fill it.
    pub fn start(entry: u32, first: u32, count: u32, warp_size: u32, block: [u32; 3]) -> Self {
        let [x, y, _] = block;
        let exists = |wl: u32| wl < count;
        let by_lane = |wl: u32| {
            let id = first + wl;
            Thread { tid: [id % x, id / x % y, id / x / y], lane: wl, calls: Vec::new(), membar: None }
        };
        use crs::DisableState as D;
        Self {
            state: WarpState::Active,
            exec: ExecState {
                pc: entry,
                active: (0..warp_size)
                    .map(|wl| if exists(wl) { ActiveState::Active } else { ActiveState::Inactive })
                    .collect(),
                disabled: (0..warp_size).map(|wl| if exists(wl) { D::Enabled } else { D::Exit }).collect(),
                stack: [].into(),
            },
            pcs: (0..warp_size).map(|wl| exists(wl).then_some(entry)).collect(),
            barids: Vec::new(),
            threads: (0..warp_size).map(by_lane).collect(),
        }
    }
}
