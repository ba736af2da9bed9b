//! Aborting grids (CS §5.7.3 abort). Memory accesses of an aborted grid that are in flight are not cancelled:
//! they are performed, and the slots of its blocks are freed after that.

use sim_memory::vocabulary::Cycle;

use super::Context;
use crate::error::SimError;

impl Context {
    /// Aborts a grid at core cycle `at` of the next timed run; at cycle 0 the grid never starts. The request
    /// is consumed without a reply [cio-abort].
    ///
    /// # Errors
    /// No grid of that index is queued, or a functional grid is to be aborted at a cycle other than 0.
    pub fn abort(&mut self, grid: u32, at: Cycle) -> Result<(), SimError> {
        let Some(position) = self.queue.iter().position(|(kernel, _)| kernel.grid_id == grid) else {
            return Err(SimError::input("abort", format!("the context has no pending grid {grid}")));
        };
        if at == 0 {
            self.queue.remove(position);
            self.kernels[grid as usize].aborted = true;
            return Ok(());
        }
        if self.queue[position].1 {
            return Err(SimError::input(
                "abort",
                format!("grid {grid} runs functionally, without cycles: abort it at cycle 0 or not at all"),
            ));
        }
        self.aborts.push((grid, at));
        Ok(())
    }
}
