//! Asking the host for memory ahead of its use. The registers of a large chip exceed a host's
//! nearer caches, and the turn of each SM is as short as an epoch: what it touches has gone by its
//! next turn. So the splits that an SM is about to issue are known two turns ahead, their warps
//! are asked for then, and the registers of their next operations one turn ahead. Nothing here
//! changes what is computed.

use sim_frontend::chip::ChipSpec;
use sim_memory::vocabulary::Cycle;

use super::Sm;
use crate::code::DecodedOp;
use crate::reconvergence::Reconvergence;
use crate::warp::Warp;

/// Registers (of 32 bits) of a chip from which on asking ahead pays: 8 MiB.
const LARGE: u64 = 1 << 20;

/// Ready splits of a scheduler that are asked for; those that wake in the epoch come on top.
const READY_EACH: usize = 8;

/// Rows of an operation that are asked for.
const ROWS: usize = 4;

/// Whether the registers of `chip` exceed what a host's nearer caches hold.
pub(super) fn pays(chip: &ChipSpec) -> bool {
    u64::from(chip.limits.reg_file_size) * u64::from(chip.limits.num_processors) > LARGE
}

/// Asks the host for a line of memory.
#[inline(always)]
fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no effect but on time, whatever its address.
        #[allow(unsafe_code, reason = "measured: see docs/performance.md")]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(at.cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Asks the host for the rows and the scoreboard of an operation.
#[inline(always)]
pub(super) fn prefetch_operands(warp: &Warp, decoded: &DecodedOp) {
    for slot in decoded.slots().iter().take(ROWS) {
        if let Some(row) = warp.rows.get(usize::from(*slot)) {
            let at = row.0.as_ptr();
            prefetch(at);
            prefetch(at.wrapping_add(16));
        }
        prefetch(warp.board.at(*slot));
    }
}

impl<P: Reconvergence> Sm<P> {
    /// Two turns ahead: finds the splits that are likely to issue before `until` and asks for
    /// their warps.
    pub fn ask_for_warps(&mut self, until: Cycle) {
        if !self.ahead {
            return;
        }
        let mut coming = std::mem::take(&mut self.coming);
        coming.clear();
        for scheduler in 0..self.schedulers {
            let last = self.scheduler_states[scheduler].picker.last();
            let words = self.live;
            let state = &self.scheduler_states[scheduler];
            // Round-robin goes on after the last one; words before it come last.
            let start = (last as usize / 64).min(words - 1);
            let below = if last == u32::MAX { 0 } else { (2u64 << (last % 64)).wrapping_sub(1) };
            let mut room = READY_EACH;
            for k in 0..=words {
                let word = (start + k) % words;
                let part = if k == 0 { !below } else { u64::MAX };
                let mut bits = state.ready_in(word) & if k == words { below } else { part };
                while bits != 0 && room != 0 {
                    let place = word as u32 * 64 + bits.trailing_zeros();
                    coming.push(self.split_at(scheduler, place));
                    bits &= bits - 1;
                    room -= 1;
                }
            }
        }
        self.wheel
            .upcoming(until, self.live, |scheduler, place| coming.push(self.split_at(scheduler, place)));
        for &split in &coming {
            let warp = std::ptr::from_ref(&self.resident.warps[self.resident.warp_of(split)]);
            prefetch(warp);
            prefetch(warp.cast::<u8>().wrapping_add(64));
            prefetch(self.resident.policy.lies_at(split));
        }
        self.coming = coming;
    }

    /// One turn ahead: asks for the operands of the splits found.
    pub fn ask_for_operands(&self) {
        for &split in &self.coming {
            let warp = &self.resident.warps[self.resident.warp_of(split)];
            if let Some(kernel) = self.resident.kernels.get(warp.kernel)
                && let Some(decoded) = kernel.code.decoded.get(self.resident.policy.pc(split) as usize)
            {
                prefetch(warp.preds.as_ptr());
                prefetch_operands(warp, decoded);
            }
        }
    }
}
