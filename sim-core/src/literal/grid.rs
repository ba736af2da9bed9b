//! Grids (CS §5.6): transition system →Γ.

use super::Stuck;
use super::block::{BlockAct, BlockState, ThreadBlock};
use super::registers::Registers;
use super::thread::ProgEnv;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GridState {
    Active,
    Completed,
}

/// γ.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    pub state: GridState,
    pub blocks: Vec<ThreadBlock>,
}

impl Grid {
    /// All blocks, none of them scheduled; x runs fastest.
    pub fn start([x, y, z]: [u32; 3]) -> Self {
        let bids = (0..z).flat_map(|k| (0..y).flat_map(move |j| (0..x).map(move |i| [i, j, k])));
        let blocks = bids.map(|bid| ThreadBlock {
            bid,
            state: BlockState::Unscheduled,
            barriers: Vec::new(),
            warps: Vec::new(),
        });
        Self { state: GridState::Active, blocks: blocks.collect() }
    }

    /// A step, the schedule being one warp of one block.
    pub fn step(
        &mut self,
        env: &ProgEnv<'_>,
        (block, warp): (usize, usize),
        registers: &mut Registers,
    ) -> Result<BlockAct, Stuck> {
        if self.state != GridState::Active {
            return Stuck::new("exec", "the grid has completed");
        }
        // Rule (exec): all blocks, most of which remain idle.
        let mut act = BlockAct::default();
        for (i, b) in self.blocks.iter_mut().enumerate() {
            let scheduled = (i == block).then_some(warp);
            let done = b.step(env, scheduled, registers)?;
            if i == block {
                act = done;
            }
        }
        // Rule (compl).
        if self.blocks.iter().all(|b| b.state == BlockState::Completed) {
            self.state = GridState::Completed;
            act.rules.push("grid-compl");
        }
        Ok(act)
    }
}
