//! Shadow program counters: each thread's own pc on the control flow before transformation 6,
//! advanced only from guard values and the targets written in the source, never from the
//! policy's next pc. The safety property says every active thread's own pc is the split's pc.

use sim_frontend::program::{NO_PC, Pc};
use sim_memory::vocabulary::{LaneMask, WARP_LANES};

use crate::reconvergence::{Lanes, Targets};

/// How much is checked while a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Check {
    /// Nothing; to measure what checking costs.
    Off,
    /// Control flow, changes of mask, merges.
    #[default]
    Safety,
    /// The same, and for sanitizers the registers that each thread has written.
    Registers,
    /// Every issue, and every other invariant there is.
    Full,
}

impl Check {
    /// All levels, the weakest first.
    const ALL: [Self; 3] = [Self::Off, Self::Safety, Self::Full];

    /// Its name in reports and options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Safety | Self::Registers => "safety",
            Self::Full => "full",
        }
    }

    /// The one of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|check| check.name() == name)
    }
}

/// The shadow pcs of one warp. A lane's shadow is the address of the next instruction of its own
/// thread as of the last change of control; in straight-line code it stands at the run's start.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Shadow {
    pcs: [Pc; WARP_LANES],
    returns: Vec<Vec<Pc>>,
    /// Each thread's own tokens, where a program in the papers' dialect pushes them itself: the
    /// thread goes on at the address of the one it takes off.
    tokens: Vec<Vec<OwnToken>>,
}

/// A token of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct OwnToken {
    /// Pushed by `preBrk`, else by `ssy`.
    pub breaks: bool,
    /// Where the thread goes on.
    pub target: Pc,
    /// Calls the thread was in.
    depth: usize,
}

impl Default for Shadow {
    fn default() -> Self {
        Self { pcs: [NO_PC; WARP_LANES], returns: Vec::new(), tokens: Vec::new() }
    }
}

impl Shadow {
    /// All of `lanes` start at `entry`.
    pub fn start(&mut self, lanes: LaneMask, entry: Pc) {
        self.pcs = [NO_PC; WARP_LANES];
        self.set(lanes, entry);
        self.returns.iter_mut().for_each(Vec::clear);
        self.tokens.iter_mut().for_each(Vec::clear);
    }

    /// `lanes` push a token of their own at `pc`.
    pub fn push_token(&mut self, lanes: LaneMask, pc: Pc, breaks: bool, target: Pc) {
        self.tokens.resize_with(WARP_LANES, Vec::new);
        for lane in Lanes(lanes) {
            let depth = self.returns.get(lane as usize).map_or(0, Vec::len);
            self.tokens[lane as usize].push(OwnToken { breaks, target, depth });
        }
        self.set(lanes, pc + 1);
    }

    /// `lanes` of `active` go where their topmost token of this function says: any for `sync`,
    /// one of `preBrk` for `break`. The first lane without one is the error.
    ///
    /// # Errors
    /// A lane has no such token.
    pub fn take_token(&mut self, active: LaneMask, lanes: LaneMask, pc: Pc, breaks: bool) -> Result<(), u32> {
        self.set(active & !lanes, pc + 1);
        for lane in Lanes(lanes) {
            let depth = self.returns.get(lane as usize).map_or(0, Vec::len);
            let own = self.tokens.get_mut(lane as usize).ok_or(lane)?;
            loop {
                let token = own.pop().filter(|token| token.depth >= depth).ok_or(lane)?;
                if token.depth == depth && (token.breaks || !breaks) {
                    self.pcs[lane as usize] = token.target;
                    break;
                }
            }
        }
        Ok(())
    }

    /// The threads' own pcs.
    pub fn pcs(&self) -> &[Pc; WARP_LANES] {
        &self.pcs
    }

    /// The first of `lanes` whose own pc is not `pc`, with its pc [safe-act].
    #[inline]
    pub fn disagrees(&self, lanes: LaneMask, pc: Pc) -> Option<(u32, Pc)> {
        let mut differ = 0u32;
        for lane in 0..WARP_LANES {
            differ |= u32::from(self.pcs[lane] != pc) << lane;
        }
        let wrong = differ & lanes;
        if wrong == 0 {
            return None;
        }
        let lane = wrong.trailing_zeros();
        Some((lane, self.pcs[lane as usize]))
    }

    /// The threads of `lanes` come to `pc`.
    #[inline]
    pub fn set(&mut self, lanes: LaneMask, pc: Pc) {
        // Most warps go one way.
        if lanes == LaneMask::MAX {
            self.pcs = [pc; WARP_LANES];
            return;
        }
        if lanes == 0 {
            return;
        }
        for lane in 0..WARP_LANES {
            if lanes >> lane & 1 == 1 {
                self.pcs[lane] = pc;
            }
        }
    }

    /// A branch or call at `pc`: `lanes` take it, the rest of `active` goes on.
    #[inline]
    pub fn branch(&mut self, active: LaneMask, lanes: LaneMask, pc: Pc, targets: &Targets<'_>, call: bool) {
        self.set(active & !lanes, pc + 1);
        match targets {
            Targets::One(target) => self.set(lanes, *target),
            Targets::PerLane(targets) => {
                for lane in Lanes(lanes) {
                    self.pcs[lane as usize] = targets[lane as usize];
                }
            }
        }
        if call {
            self.returns.resize_with(WARP_LANES, Vec::new);
            for lane in Lanes(lanes) {
                self.returns[lane as usize].push(pc + 1);
            }
        }
    }

    /// `lanes` return from their function. False where one is in none.
    pub fn ret(&mut self, active: LaneMask, lanes: LaneMask, pc: Pc) -> bool {
        self.set(active & !lanes, pc + 1);
        for lane in Lanes(lanes) {
            let target = self.returns.get_mut(lane as usize).and_then(Vec::pop);
            let Some(target) = target else { return false };
            self.pcs[lane as usize] = target;
        }
        true
    }

    /// `lanes` have ended.
    pub fn exit(&mut self, active: LaneMask, lanes: LaneMask, pc: Pc) {
        self.set(active & !lanes, pc + 1);
        self.set(lanes, NO_PC);
    }

    /// Calls a thread is in.
    pub fn depth(&self, lane: usize) -> usize {
        self.returns.get(lane).map_or(0, Vec::len)
    }

    /// The thread's own pc.
    pub fn pc(&self, lane: u32) -> Pc {
        self.pcs[lane as usize & (WARP_LANES - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn safe_act_each_thread_follows_its_own_branch() {
        let mut shadow = Shadow::default();
        shadow.start(0b1111, 0);
        shadow.branch(0b1111, 0b0011, 4, &Targets::One(20), false);
        assert_eq!(shadow.disagrees(0b0011, 20), None);
        assert_eq!(shadow.disagrees(0b1100, 5), None);
        assert_eq!(shadow.disagrees(0b0111, 20), Some((2, 5)));
        // A lane outside the mask never matters.
        assert_eq!(shadow.disagrees(0, 999), None);
    }

    #[test]
    fn calls_return_to_their_own_caller() {
        let mut shadow = Shadow::default();
        shadow.start(0b11, 0);
        shadow.branch(0b01, 0b01, 3, &Targets::One(50), true);
        shadow.branch(0b10, 0b10, 9, &Targets::One(50), true);
        assert!(shadow.ret(0b11, 0b11, 60));
        assert_eq!((shadow.pc(0), shadow.pc(1)), (4, 10));
        assert!(!shadow.ret(0b01, 0b01, 60));
    }
}
