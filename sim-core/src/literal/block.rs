//! Thread blocks (CS §5.5): transition system →B.

use super::Stuck;
use super::barrier::{BarWrites, BarrierEnv, end_bar, upd_bar};
use super::crs::WarpState;
use super::registers::Registers;
use super::safety::theorem_1;
use super::thread::ProgEnv;
use super::warp::{MemAct, Warp, WarpAct};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockState {
    Unscheduled,
    Active,
    Completed,
}

/// β.
#[derive(Clone, Debug)]
pub(super) struct ThreadBlock {
    pub bid: [u32; 3],
    pub state: BlockState,
    pub barriers: BarrierEnv,
    pub warps: Vec<Warp>,
}

/// `ActB`, and the rules that were applied.
#[derive(Debug, Default)]
pub(super) struct BlockAct {
    pub mem: MemAct,
    pub bar: BarWrites,
    pub rules: Vec<&'static str>,
}

impl ThreadBlock {
    /// `issueBlocks` makes the block active with all its warps.
    pub fn issue(&mut self, entry: u32, size: [u32; 3], warp_size: u32, barriers: usize) {
        let threads: u32 = size.iter().product();
        self.state = BlockState::Active;
        self.barriers = vec![None; barriers];
        self.warps = (0..threads.div_ceil(warp_size))
            .map(|n| {
                let first = n * warp_size;
                Warp::start(entry, first, (threads - first).min(warp_size), warp_size, size)
            })
            .collect();
    }

    /// A step, the schedule being one warp or none.
    pub fn step(
        &mut self,
        env: &ProgEnv<'_>,
        scheduled: Option<usize>,
        registers: &mut Registers,
    ) -> Result<BlockAct, Stuck> {
        let mut out = BlockAct::default();
        // Rule (idle).
        if self.state != BlockState::Active {
            return match scheduled {
                None => Ok(out),
                Some(_) => Stuck::new("idle", format!("block {:?} is {:?}", self.bid, self.state)),
            };
        }
        let Some(w) = scheduled else { return Ok(out) };
        // Rule (exec).
        let warp_size = self.warps[w].threads.len() as u32;
        self.warps[w].can_be_scheduled()?;
        let (rule, act) = self.warps[w].step(env, registers)?;
        theorem_1(&self.warps[w].exec, &self.warps[w].pcs)?;
        out.rules.push(rule);
        let active = self.warps.iter().filter(|warp| warp.state == WarpState::Active).count() as u32;
        match act {
            Some(WarpAct::Mem(mem)) => out.mem = mem,
            Some(WarpAct::Bar(bar)) => {
                self.barriers =
                    upd_bar(std::mem::take(&mut self.barriers), active * warp_size, w, &bar, warp_size)?;
            }
            None => {}
        }
        // Rule (endBar), as often as it applies.
        while let Some(writes) = end_bar(&mut self.barriers, &mut self.warps, active * warp_size) {
            out.bar.extend(writes);
            out.rules.push("endbar");
        }
        // Rule (compl).
        if self.warps.iter().all(|warp| warp.state == WarpState::Completed) {
            self.state = BlockState::Completed;
            out.rules.push("block-compl");
        }
        Ok(out)
    }
}
