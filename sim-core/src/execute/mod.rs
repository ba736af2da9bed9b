//! What instructions do, in both modes: the thread and warp rules of CS §5.3–5.5 on the resident
//! blocks of one SM. The cycle-level SM and the functional mode both run [`Resident::step`];
//! what a step leaves to them (global and local accesses) is in its [`Step`].

mod access;
mod asynchronous;
mod barriers;
mod bulk;
mod cancel;
mod cluster;
mod collective;
mod constant_cache;
mod control;
mod matrix;
mod mbarrier;
mod meet;
mod observe;
mod observe_cluster;
mod on_chip;
mod regroup;
mod remote;
mod request;
mod resident;
mod shared_words;
mod straight;
mod tensor_copy;
mod texture;
mod warpgroup;
pub(crate) mod wide;

use std::sync::Arc;

use sim_frontend::program::{ClockRegister, Extra, Op, OpClass, Pc, Pred, Row};
use sim_memory::vocabulary::{Cycle, LaneMask};

pub(crate) use access::{addresses, write_wide};
pub use asynchronous::deliver;
pub(crate) use asynchronous::shared_addresses;
pub(crate) use collective::{Members, sync_mask};
pub(crate) use constant_cache::ConstantCache;
pub(crate) use matrix::addressing_lanes;
pub use meet::Meeting;
pub(crate) use regroup::check_split;
pub use request::{Request, Requests};
pub use resident::{LocalLatency, Resident, Step, UndefinedReads, World};
use shared_words::Words;

use crate::block::Block;
use crate::code::{Code, DecodedOp};
use crate::error::Violation;
use crate::grid::Kernel;
use crate::instruction_set::InstructionSet;
use crate::lanes::file::LaneFile;
use crate::monitor::Check;
use crate::reconvergence::{Cost, Reconvergence, SplitId};
use crate::registers::{first_lane, guard, read_row, write_element};
use crate::warp::Warp;

/// What a step has executed, and what it worked on: a data operation, a load or store of one word a lane in shared memory, or
/// a direct branch of threads that stay together.
pub struct Executed<'r> {
    /// Its warp.
    pub warp: &'r mut Warp,
    /// The index of the warp.
    pub w: usize,
    /// The blocks of the SM.
    pub blocks: &'r [Option<Block>],
    /// Its kernel.
    pub kernel: &'r Kernel,
    /// The operation.
    pub decoded: &'r DecodedOp,
    /// Lanes of the split.
    pub mask: LaneMask,
    /// Of these, those that executed it; of a branch, those that take the branch of the source.
    pub exec: LaneMask,
    /// What it comes to for the time.
    pub timing: Timing,
}

/// What an operation that a step has executed comes to for the time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timing {
    /// Where a branch has led.
    pub jump: Option<Pc>,
    /// It brought the split to where its policy has a say.
    pub arrived: bool,
    /// Cycles until its results can be read.
    pub latency: u32,
    /// Cycles until its unit takes the next operation.
    pub occupancy: u32,
    /// Its turns at the banks of shared memory; 0 where it accessed none.
    pub turns: u32,
    /// Cycles beyond the first of them.
    pub more: u32,
}

/// What a mode does with a data operation that a step has executed. A trait, as closures cannot be inlined
/// always: the issue loop is compiled for the host's instruction set.
pub trait Issuer {
    /// What it makes of it.
    type Issued;

    /// The time of the step, which only other operations ask for.
    fn now(&self) -> Cycle;

    /// The lanes have executed it.
    fn executed(self, data: Executed<'_>) -> Self::Issued;
}

/// What a step was; `R`: what its caller made of an [`Executed`] operation.
pub enum Stepped<R> {
    /// Such an operation, which did nothing beyond its lanes. [`Resident::touched`] is that of an older step.
    Data(R),
    /// Such an operation, after which the policy had its say.
    Arrived(R),
    /// Any other operation, by the lanes `exec` of `mask`; what it did is in [`Resident::outcome`].
    Other {
        /// Lanes of the split.
        mask: LaneMask,
        /// Of these, those that executed it.
        exec: LaneMask,
    },
}

impl<P: Reconvergence> Resident<P> {
    /// Runs the next instruction of `split` [thr-dop] [thr-mov] [thr-setp], in both modes. A data operation, or an access of
    /// words in shared memory or a branch of threads that stay together, which nobody observes, is handed to `issuer` as soon as its
    /// lanes have executed it; any other is executed at the issuer's time.
    ///
    /// # Errors
    /// `⊥`, a fault of the program, or a violated check; the split has not advanced.
    #[inline(always)]
    pub fn step<I: Issuer>(&mut self, split: SplitId, issuer: I) -> Result<Stepped<I::Issued>, Violation> {
        #[cfg(test)]
        crate::literal::observe(self, split, issuer.now());
        let w = self.warp_of(split);
        let pc = self.policy.pc(split);
        let mask = self.policy.mask(split);
        let warp = &mut self.warps[w];
        let kernel = &*self.kernels[warp.kernel];
        let code = &*kernel.code;
        let Some(decoded) = code.decoded.get(pc as usize) else {
            return Err(Violation::new("cfc-addr", mask, format!("pc {pc} is outside the program")));
        };
        let mut exec =
            if decoded.guard == Pred::TRUE { mask } else { mask & guard(decoded.guard, &warp.preds) };
        let check = self.world.check;
        let expected = &mut self.expected[split];
        if check == Check::Safety && *expected == decoded.base_pc && !decoded.injected() {
            // In straight-line code, where most issues are.
            *expected += 1;
        } else if check != Check::Off {
            check_split(warp, expected, decoded, pc, mask, check)?;
        }
        if let Some(lane) = decoded.lane {
            let arrived = self.policy.advance(split);
            let (latency, occupancy) = (decoded.latency.into(), decoded.initiation.into());
            let timing = Timing { arrived, latency, occupancy, ..Timing::default() };
            let (blocks, warp) = (&*self.blocks, &mut *warp);
            let done = issuer.executed(Executed { warp, w, blocks, kernel, decoded, mask, exec, timing });
            // The lanes come last: no time depends on their values, and the host has little to keep over the call.
            let mut file = LaneFile { rows: &mut warp.rows, consts: &kernel.consts, preds: &mut warp.preds };
            // SAFETY: `Code::new` resolved the function for an instruction set that
            // `InstructionSet::detect` (or the caller's choice among `available`) found on this host.
            #[allow(unsafe_code, reason = "lane functions carry target features")]
            unsafe {
                lane(&mut file, &code.ops[pc as usize], exec);
            }
            return self.advanced(split, w, arrived, done);
        }
        if decoded.words() && exec != 0 && !self.watching && self.observed.is_none() {
            let world = &*self.world;
            let mut turns = 0;
            if world.latency.bank_rule.by_words()
                && let Some(block) = &mut self.blocks[warp.block]
            {
                let (memory, op) = (block.shared.bytes_mut(), &code.ops[pc as usize]);
                let (rows, banks) = (&mut *warp.rows, world.latency.banks);
                let words = Words { memory, rows, consts: &kernel.consts, op, lanes: exec, banks };
                turns = words.access(world.instruction_set);
            }
            if turns == 0 {
                self.step_other(split, w, pc, mask, exec, issuer.now())?;
                return Ok(Stepped::Other { mask, exec });
            }
            let (latency, turn) = (world.latency.of_turns(turns, 1), world.latency.turn);
            let occupancy = (turns * turn).max(decoded.initiation.into());
            let more = (turns - 1) * turn;
            let arrived = self.policy.advance(split);
            let timing = Timing { arrived, latency, occupancy, turns, more, jump: None };
            let blocks = &*self.blocks;
            let done = issuer.executed(Executed { warp, w, blocks, kernel, decoded, mask, exec, timing });
            return self.advanced(split, w, arrived, done);
        }
        let together = (exec == mask || exec == 0) && check != Check::Full && self.observed.is_none();
        if decoded.class == OpClass::Branch && !decoded.bookkeeping() && together {
            let (target, own) = match exec {
                0 => (pc + 1, decoded.base_pc + 1),
                _ => (code.ops[pc as usize].target, code.program.info[pc as usize].base_target),
            };
            if self.policy.jumped(split, target) {
                if check != Check::Off {
                    self.expected[split] = own;
                }
                // Threads of a warp formed anew have their registers elsewhere.
                if !(P::FORMS_WARPS && self.policy.forms_warps()) {
                    warp.branched |= mask;
                }
                exec = if decoded.inverted() { mask & !exec } else { exec };
                let (occupancy, jump) = (decoded.initiation.into(), Some(target));
                let timing = Timing { jump, occupancy, ..Timing::default() };
                let blocks = &*self.blocks;
                let done = issuer.executed(Executed { warp, w, blocks, kernel, decoded, mask, exec, timing });
                return Ok(Stepped::Data(done));
            }
        }
        self.step_other(split, w, pc, mask, exec, issuer.now())?;
        Ok(Stepped::Other { mask, exec })
    }

    /// An operation has been executed that only advanced its split.
    #[inline(always)]
    fn advanced<R>(
        &mut self,
        split: SplitId,
        w: usize,
        arrived: bool,
        done: R,
    ) -> Result<Stepped<R>, Violation> {
        if arrived {
            self.stopped(split, w)?;
            return Ok(Stepped::Arrived(done));
        }
        Ok(Stepped::Data(done))
    }

    /// Everything but data operations, after the checks; what it did is in [`Resident::outcome`].
    ///
    /// # Errors
    /// As [`step`](Self::step).
    #[inline(always)]
    pub fn step_other(
        &mut self,
        split: SplitId,
        w: usize,
        pc: Pc,
        mask: LaneMask,
        exec: LaneMask,
        now: Cycle,
    ) -> Result<(), Violation> {
        match self.world.instruction_set {
            InstructionSet::Baseline => self.step_other_baseline(split, w, pc, mask, exec, now),
            // SAFETY: the set is one that `InstructionSet::available` found on this host, and
            // both sets hold these features.
            #[allow(unsafe_code, reason = "addresses and words of 32 lanes are vectors")]
            InstructionSet::Avx2Fma | InstructionSet::Avx512 => unsafe {
                self.step_other_avx2(split, w, pc, mask, exec, now)
            },
        }
    }

    /// [`step_beside_kernels`](Self::step_beside_kernels), compiled once for each policy: issue loops that had it inline were six times
    /// as long.
    #[inline(never)]
    fn step_other_baseline(
        &mut self,
        split: SplitId,
        w: usize,
        pc: Pc,
        mask: LaneMask,
        exec: LaneMask,
        now: Cycle,
    ) -> Result<(), Violation> {
        self.step_beside_kernels(split, w, pc, mask, exec, now)
    }

    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt"))]
    #[inline(never)]
    #[allow(unsafe_code, reason = "callers must have the features")]
    unsafe fn step_other_avx2(
        &mut self,
        split: SplitId,
        w: usize,
        pc: Pc,
        mask: LaneMask,
        exec: LaneMask,
        now: Cycle,
    ) -> Result<(), Violation> {
        self.step_beside_kernels(split, w, pc, mask, exec, now)
    }

    #[inline(always)]
    fn step_beside_kernels(
        &mut self,
        split: SplitId,
        w: usize,
        pc: Pc,
        mask: LaneMask,
        exec: LaneMask,
        now: Cycle,
    ) -> Result<(), Violation> {
        // The kernels step aside meanwhile: their code is read while all else changes.
        let kernels = std::mem::take(&mut self.kernels);
        if self.on_chip {
            self.observe_step(&kernels, w, pc, exec);
        }
        let step = self.step_by_class(&kernels, split, w, pc, mask, exec, now);
        // What stood in for them is empty: dropping it would be a call that does nothing.
        std::mem::forget(std::mem::replace(&mut self.kernels, kernels));
        step?;
        if std::mem::take(&mut self.changed) {
            self.check_threads(w)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn step_by_class(
        &mut self,
        kernels: &[Arc<Kernel>],
        split: SplitId,
        w: usize,
        pc: Pc,
        mask: LaneMask,
        exec: LaneMask,
        now: Cycle,
    ) -> Result<(), Violation> {
        self.touched.clear();
        self.charge = Cost::default();
        self.now = now;
        let kernel = &*kernels[self.warps[w].kernel];
        let code = &*kernel.code;
        let op = &code.program.ops[pc as usize];
        use OpClass as C;
        self.outcome = Step::Done;
        match op.class {
            C::Branch
            | C::BranchIndirect
            | C::Call
            | C::CallIndirect
            | C::Return
            | C::Exit
            | C::Ssy
            | C::Sync
            | C::PreBreak
            | C::Break
            | C::PreReturn => {
                self.outcome = self.control(kernels, split, w, pc, mask, exec, code)?;
                return Ok(());
            }
            C::Load | C::Store | C::Atomic => self.access(kernel, w, pc, op, exec)?,
            C::LoadParam => self.load_param(kernel, w, op, exec)?,
            C::Hint => self.hint(kernel, w, pc, op, exec),
            C::Copy => self.copy(kernel, w, pc, op, exec)?,
            C::Mbarrier => self.mbarrier(kernel, w, pc, op, exec)?,
            C::Texture => self.texture(code, w, pc, op, exec)?,
            C::TextureOperands => self.stage_operands(code, w, op, exec),
            C::Membar => {}
            C::Clock => {
                self.clock(w, op, exec, now);
            }
            C::Barrier => {
                self.outcome = self.barrier(kernels, split, w, pc, op, exec)?;
                return Ok(());
            }
            C::Vote
            | C::Shuffle
            | C::Match
            | C::Redux
            | C::Elect
            | C::WarpSync
            | C::ActiveMask
            | C::Mma
            | C::Wgmma
            | C::SetRegisters
            | C::MoveMatrix
            | C::LoadMatrix
            | C::StoreMatrix => {
                self.outcome = self.collective(kernels, split, w, pc, op, mask, exec)?;
                return Ok(());
            }
            C::Sleep => {
                let nanoseconds = match op.src[0].is_some() {
                    true => self.lane_u32(w, code, op.src[0], exec),
                    false => op.imm as u32,
                };
                let cycles = u128::from(nanoseconds) * u128::from(self.world.core_khz) / 1_000_000;
                self.advance(split, w)?;
                self.outcome = Step::Sleep(if exec == 0 { 0 } else { cycles as u64 });
                return Ok(());
            }
            C::Trap if exec != 0 => {
                let info = &code.program.info[pc as usize];
                if let Some(reason) = &info.unsupported {
                    return Err(Violation::new("trap", exec, reason.to_string()));
                }
                let name = code.program.text(pc);
                let name = name.rsplit(' ').next().unwrap_or("trap");
                return Err(Violation::new("trap", exec, format!("the program executed `{name}`")));
            }
            C::Unsupported if exec != 0 => {
                let reason = code.program.info[pc as usize].unsupported.as_deref();
                return Err(Violation::new(
                    "unsupported",
                    exec,
                    reason.unwrap_or("this instruction is not executed").to_string(),
                ));
            }
            C::Trap | C::Unsupported | C::Data => {}
        }
        self.advance(split, w)
    }

    /// The value of a 32-bit row in the first of `lanes`.
    fn lane_u32(&self, w: usize, code: &Code, row: Row, lanes: LaneMask) -> u32 {
        let lane = first_lane(lanes);
        read_row(&self.warps[w].rows, &code.consts, row)[lane]
    }

    fn clock(&mut self, w: usize, op: &Op, exec: LaneMask, now: Cycle) {
        let Extra::Clock(register) = op.extra else { return };
        let nanoseconds = (u128::from(now) * 1_000_000 / u128::from(self.world.core_khz.max(1))) as u64;
        let (value, wide) = match register {
            ClockRegister::Clock => (now, false),
            ClockRegister::ClockHi => (now >> 32, false),
            ClockRegister::Clock64 => (now, true),
            ClockRegister::GlobalTimer => (nanoseconds, true),
            ClockRegister::GlobalTimerLo => (nanoseconds, false),
            ClockRegister::GlobalTimerHi => (nanoseconds >> 32, false),
        };
        let rows = &mut self.warps[w].rows;
        for lane in crate::reconvergence::Lanes(exec) {
            write_element(rows, op.dst[0], lane, value, if wide { 64 } else { 32 });
        }
    }
}
