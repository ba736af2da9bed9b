//! Where policies regroup threads, and what is checked there: each thread is where its own control
//! flow is, and in exactly one place.

use sim_frontend::program::{NO_PC, Pc};
use sim_memory::vocabulary::LaneMask;

use super::resident::Resident;
use crate::code::DecodedOp;
use crate::error::Violation;
use crate::monitor::Check;
use crate::reconvergence::{Cost, Lanes, Reconvergence, SplitId};
use crate::registers::guard;
use crate::warp::Warp;

impl<P: Reconvergence> Resident<P> {
    /// The split goes on to the next instruction, where its policy may have a say.
    pub(super) fn advance(&mut self, split: SplitId, w: usize) -> Result<(), Violation> {
        if self.policy.advance(split) { self.arrived(split, w) } else { Ok(()) }
    }

    /// A data operation brought the split to an address where its policy has a say.
    ///
    /// # Errors
    /// A violated check.
    #[inline(never)]
    pub(crate) fn stopped(&mut self, split: SplitId, w: usize) -> Result<(), Violation> {
        self.touched.clear();
        self.charge = Cost::default();
        self.arrived(split, w)?;
        self.check_threads(w)
    }

    /// The split is at an address where its policy joins threads or chooses others.
    fn arrived(&mut self, split: SplitId, w: usize) -> Result<(), Violation> {
        self.hold_shadows(w, None);
        let cost = self.policy.arrived(split, &mut self.touched);
        self.charge.add(cost);
        self.regrouped(split);
        self.give_way(split);
        Ok(())
    }

    /// The split waits at a barrier or collective.
    pub(crate) fn park(&mut self, split: SplitId, w: usize) {
        self.hold_shadows(w, None);
        self.policy.parked(split, &mut self.touched);
        self.regrouped(split);
    }

    /// The step of `split` is over: where no path of its warp could issue any more, threads that wait
    /// for others of it go on without them.
    pub(crate) fn give_way(&mut self, split: SplitId) {
        if P::SPLITS > 1 && self.policy.give_way(split, &mut self.touched) {
            self.regrouped(split);
        }
    }

    /// What a parked split waited for has happened.
    pub(crate) fn resume(&mut self, split: SplitId) {
        self.hold_shadows(self.warp_of(split), None);
        self.policy.resumed(split, &mut self.touched);
        self.regrouped(split);
        if !self.touched.contains(&split) {
            self.touched.push(split);
        }
    }

    /// The lanes `done` of a split that waits for memory have their data; true if the policy
    /// divided it, with the splits that changed in [`Resident::touched`].
    ///
    /// # Errors
    /// A violated check.
    pub(crate) fn divide(&mut self, split: SplitId, done: LaneMask, idle: bool) -> Result<bool, Violation> {
        let w = self.warp_of(split);
        self.touched.clear();
        self.hold_shadows(w, None);
        let Some(cost) = self.policy.memory(split, done, idle, &mut self.touched) else { return Ok(false) };
        self.charge = cost;
        self.regrouped(split);
        self.check_threads(w)?;
        Ok(true)
    }

    /// Before the policy regroups threads: each thread's own address is that of the split it ran
    /// straight on in, counted here instruction by instruction. `done`: a split whose threads'
    /// addresses its control instruction sets itself.
    pub(crate) fn hold_shadows(&mut self, w: usize, done: Option<SplitId>) {
        if !matches!(self.world.check, Check::Safety | Check::Registers) || (P::SPLITS == 1 && done.is_some())
        {
            return;
        }
        if P::FORMS_WARPS && self.policy.spans_blocks() {
            let block = self.warps[w].block;
            for other in 0..self.warps.len() {
                if self.warps[other].resident && self.warps[other].block == block {
                    self.hold_shadows_of(other, done);
                }
            }
        } else {
            self.hold_shadows_of(w, done);
        }
    }

    fn hold_shadows_of(&mut self, w: usize, done: Option<SplitId>) {
        let first = self.splits_of(w).start;
        for own in Lanes(self.policy.in_use(w)) {
            let split = first + own;
            let expected = self.expected[split];
            if expected != NO_PC && Some(split) != done {
                self.warps[w].shadow.set(self.policy.mask(split), expected);
            }
        }
    }

    /// After it: lanes are compared with their own address at the next instruction.
    pub(crate) fn regrouped(&mut self, split: SplitId) {
        if self.world.check != Check::Off {
            self.changed = true;
            self.expected[split] = NO_PC;
            for &other in &self.touched {
                self.expected[other] = NO_PC;
            }
        }
    }

    /// Each live thread is in exactly one split or waits in exactly one place [safe-split]; with
    /// every check on, where it is its own address [safe-inact], and the policy's own invariants
    /// hold.
    pub(crate) fn check_threads(&mut self, w: usize) -> Result<(), Violation> {
        let check = self.world.check;
        if check == Check::Off {
            return Ok(());
        }
        let warp = &self.warps[w];
        let (held, twice) = self.policy.held(w);
        let live = warp.live();
        if twice != 0 {
            return Err(Violation::new(
                "safe-split",
                twice,
                "these threads belong to two warp splits at once",
            ));
        }
        if held != live {
            let (lost, dead) = (live & !held, held & !live);
            let which = if lost != 0 { lost } else { dead };
            let reason =
                if lost != 0 { "no split contains these threads" } else { "a split contains exited threads" };
            return Err(Violation::new("safe-split", which, format!("{reason} ({which:#x})")));
        }
        if check == Check::Full
            && let Some((lane, own, pc)) = self.astray(w)
        {
            return Err(Violation::new(
                "safe-inact",
                1 << lane,
                format!("lane {lane} resumes at pc {pc}, but its own control flow is at pc {own}"),
            ));
        }
        if check == Check::Full && live != 0 { self.policy.invariants(w) } else { Ok(()) }
    }

    /// The first of the threads that wait where their own address is not: lane, own address, and
    /// where it waits to go on.
    fn astray(&self, w: usize) -> Option<(u32, Pc, Pc)> {
        let warp = &self.warps[w];
        let info = &self.kernels.get(warp.kernel)?.code.program.info;
        let mut astray = None;
        self.policy.threads(w, &mut |holding| {
            if holding.waits && astray.is_none() {
                let own = info.get(holding.pc as usize).filter(|info| !info.injected);
                let differs = own.and_then(|info| warp.shadow.disagrees(holding.mask, info.base_pc));
                astray = differs.map(|(lane, own)| (lane, own, holding.pc));
            }
        });
        astray
    }
}

/// Compares shadow pcs where the check asks for it, and keeps them in straight-line code.
#[inline]
pub(crate) fn check_split(
    warp: &mut Warp,
    expected: &mut Pc,
    decoded: &DecodedOp,
    pc: Pc,
    mask: LaneMask,
    check: Check,
) -> Result<(), Violation> {
    let base = decoded.base_pc;
    if *expected == NO_PC {
        if decoded.injected() {
            // Invisible to the threads: their own addresses stand.
            return Ok(());
        }
        if let Some((lane, own)) = warp.shadow.disagrees(mask, base) {
            return Err(violation(mask, lane, own, base));
        }
    } else {
        if decoded.injected() {
            // The straight line that ended here is the threads' own.
            warp.shadow.set(mask, *expected);
            *expected = NO_PC;
            return Ok(());
        }
        if *expected != base {
            return Err(strayed(mask, *expected, base, pc));
        }
        if check == Check::Full
            && let Some((lane, own)) = warp.shadow.disagrees(mask, base)
        {
            return Err(violation(mask, lane, own, base));
        }
    }
    *expected = base + 1;
    if check > Check::Safety {
        if check == Check::Full && !decoded.control() {
            warp.shadow.set(mask, base + 1);
        }
        if let Some(tracked) = &mut warp.tracked {
            tracked.execute(pc, mask, guard(decoded.guard, &warp.preds));
        }
    }
    Ok(())
}

#[cold]
fn strayed(mask: LaneMask, expected: Pc, base: Pc, pc: Pc) -> Violation {
    Violation::new(
        "safe-act",
        mask,
        format!(
            "the policy executes instruction {base} (at {pc}; before transformation 6) for active mask \
             {mask:#010x}, but the control flow of its threads continues at {expected}"
        ),
    )
}

#[cold]
fn violation(mask: LaneMask, lane: u32, own: Pc, base: Pc) -> Violation {
    Violation::new(
        "safe-act",
        1 << lane,
        format!(
            "the policy executes instruction {base} (before transformation 6) for lane {lane} of active mask \
             {mask:#010x}, but the lane's own control flow is at {own}"
        ),
    )
}
