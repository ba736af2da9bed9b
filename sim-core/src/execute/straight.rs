//! Straight runs in the functional mode: data operations and accesses of words in shared memory that follow one another.
//! [`Resident::step`] does the same one by one; here what all of them need is looked up once.

use sim_frontend::program::{Pc, Pred};

use super::resident::Resident;
use super::shared_words::Words;
use crate::counts::KernelCounts;
use crate::lanes::file::LaneFile;
use crate::monitor::Check;
use crate::reconvergence::{Reconvergence, SplitId};
use crate::registers::guard;
use crate::warp::Warp;

impl<P: Reconvergence> Resident<P> {
    /// Executes instructions of `split`, a split of warp `w`, as long as they are data operations or, if `words` says so, loads
    /// and stores of one word a lane in shared memory; `most` at most. Gives their number, and counts them. The next one is for
    /// [`step`](Self::step): it is another one, or faults, or comes to where the policy has a say, or its check asks for more
    /// than that the split goes straight on.
    #[inline(always)]
    pub(crate) fn straight(
        &mut self,
        split: SplitId,
        w: usize,
        most: u64,
        words: bool,
        counts: &mut KernelCounts,
    ) -> u64 {
        #[cfg(test)]
        if crate::literal::follows() {
            return 0;
        }
        let world = &*self.world;
        let safe = match world.check {
            Check::Off => false,
            Check::Safety => true,
            Check::Registers | Check::Full => return 0,
        };
        let (pc, mask, stop) = (self.policy.pc(split), self.policy.mask(split), self.policy.stop(split));
        let Warp { rows, preds, kernel, block, .. } = &mut self.warps[w];
        let kernel = &*self.kernels[*kernel];
        let code = &*kernel.code;
        let expected = &mut self.expected[split];
        let Some((decoded, ops)) = code.straight(pc) else { return 0 };
        if safe && *expected != decoded[0].base_pc {
            return 0;
        }
        // The policy has a say behind the last operation before its address.
        let before_stop = if stop > pc { u64::from(stop - pc) - 1 } else { u64::MAX };
        let most = most.min(before_stop).min(decoded.len() as u64) as usize;
        let words = words && !self.watching && self.observed.is_none() && world.latency.bank_rule.by_words();
        // Without memory each access lies outside of it.
        let memory = match &mut self.blocks[*block] {
            Some(block) if words => block.shared.bytes_mut(),
            _ => &mut [],
        };
        let (set, banks) = (world.instruction_set, world.latency.banks);
        let mut file = LaneFile { rows, consts: &kernel.consts, preds };
        let (mut done, mut idle) = (0, 0);
        while done < most {
            let (decoded, op) = (&decoded[done], &ops[done]);
            let mut exec = mask;
            if decoded.guard != Pred::TRUE {
                exec &= guard(decoded.guard, file.preds);
            }
            if let Some(lane) = decoded.lane {
                // SAFETY: as in `step`.
                #[allow(unsafe_code, reason = "lane functions carry target features")]
                unsafe {
                    lane(&mut file, op, exec);
                }
            } else {
                if exec == 0 {
                    break;
                }
                let LaneFile { rows, consts, .. } = &mut file;
                let words = Words { memory: &mut *memory, rows, consts, op, lanes: exec, banks };
                if words.access(set) == 0 {
                    break;
                }
            }
            if exec != mask {
                idle += (mask & !exec).count_ones();
            }
            done += 1;
        }
        if done > 0 {
            if safe {
                *expected += done as Pc;
            }
            self.policy.advance_by(split, done as Pc);
            let (done, lanes) = (done as u64, u64::from(mask.count_ones()));
            counts.warp_instructions += done;
            counts.thread_instructions += done * lanes - u64::from(idle);
            counts.active_lanes += done * lanes;
            counts.machine_instructions += code.machine_operations(pc, done as Pc);
        }
        done as u64
    }
}
