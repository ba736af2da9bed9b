//! What instructions do, without time: the thread and warp rules of CS §5.3–5.5 on the resident
//! blocks of one SM. The cycle-level SM and the functional mode both run [`Resident::step`];
//! what a step leaves to them (global and local accesses) is in its [`Step`].

mod access;
mod asynchronous;
mod barriers;
mod cluster;
mod collective;
mod control;
mod mbarrier;
mod meet;
mod on_chip;
mod regroup;
mod wide;

use std::sync::Arc;

use sim_frontend::program::{ClockRegister, Extra, NO_PC, Op, OpClass, Pc, Pred, Row};
use sim_memory::address_space::Allocations;
use sim_memory::device_memory::DeviceMemory;
use sim_memory::shared::{BankLocks, BankRule};
use sim_memory::vocabulary::{Cycle, LaneMask};

pub use access::{Request, Requests, extend, from_bytes, write_element, write_loaded, write_loaded_word};
pub use asynchronous::deliver;
pub use cluster::{CLUSTER, ClusterBarrier};
pub use meet::Meeting;
pub(crate) use regroup::check_split;

use crate::barrier::{BarrierEnv, Completed};
use crate::block::Block;
use crate::by_split::BySplit;
use crate::error::Bottom;
use crate::grid::{Hot, Kernel};
use crate::lanes::InstructionSet;
use crate::lanes::file::LaneFile;
use crate::monitor::Check;
use crate::reconvergence::{Cost, Reconvergence, SplitId};
use crate::sm::stats::KernelCounts;
use crate::warp::{Warp, WarpPlace};
use crate::writes::Writes;

/// What one step did, as far as its caller must act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Results of the operation's own latency.
    Done,
    /// Results that take `latency` cycles from now and hold the unit for `occupancy`.
    DoneAfter {
        /// Cycles until the results can be read.
        latency: u32,
        /// Cycles until the unit takes the next operation.
        occupancy: u32,
    },
    /// [`Resident::requests`] holds accesses to global or local memory, in order. Part of a
    /// generic access may already have happened in shared memory.
    Access,
    /// The policy chose the next instruction.
    Control,
    /// As `Control`, where the threads had issued their indirect branch before: the policy let others
    /// go first.
    Again,
    /// The split waits at a barrier or for other lanes of a collective; it is in nobody's hands
    /// until it appears in [`Resident::touched`].
    Parked,
    /// The split sleeps for this many cycles.
    Sleep(u64),
}

/// Latencies of accesses that never leave the SM, in core cycles.
#[derive(Clone, Copy, Debug)]
pub struct LocalLatency {
    /// A conflict-free shared access.
    pub shared: u32,
    /// A shared atomic without conflicts.
    pub shared_atomic: u32,
    /// How long it locks its banks.
    pub atomic_interval: u32,
    /// A constant-cache hit of one address.
    pub constant: u32,
    /// Banks of shared memory.
    pub banks: u32,
    /// What makes lanes meet in one.
    pub bank_rule: BankRule,
}

/// Facts all SMs share while a device runs.
#[derive(Clone, Debug)]
pub struct World {
    /// Device memory.
    pub memory: Arc<DeviceMemory>,
    /// What has been allocated in it.
    pub allocations: Arc<Allocations>,
    /// Latencies of the SM's own memories.
    pub latency: LocalLatency,
    /// Lanes of a warp.
    pub warp_size: u32,
    /// Named barriers of a block.
    pub barriers: usize,
    /// Number of SMs.
    pub sms: u32,
    /// What the host has: the issue loop is compiled for it.
    pub instruction_set: InstructionSet,
    /// Kilohertz of the core clock, for `%globaltimer`.
    pub core_khz: u64,
    /// Compute capability, major * 10 + minor.
    pub compute_capability: u32,
    /// What is checked.
    pub check: Check,
    /// The workload says its results depend on the schedule.
    pub schedule_dependent: bool,
}

/// The resident blocks of one SM and the policy that runs them.
#[derive(Debug)]
pub struct Resident<P> {
    /// The SM.
    pub sm: u32,
    /// Shared facts.
    pub world: Arc<World>,
    /// Warp slots.
    pub warps: Vec<Warp>,
    /// Block slots.
    pub blocks: Vec<Option<Block>>,
    /// Kernels with blocks here, by index.
    pub kernels: Vec<Arc<Kernel>>,
    /// The policy.
    pub policy: P,
    /// Splits whose state changed in the last step, besides the one that ran.
    pub touched: Vec<SplitId>,
    /// What the last step did, data operations aside. It stays here rather than in a result: a
    /// result put together from parts stalls whoever reads it whole.
    pub did: Step,
    /// Accesses the last step asks for.
    pub requests: Requests,
    /// Per split: the address, before transformation 6, of the instruction it must execute next;
    /// [`NO_PC`] where that is for the shadow pcs of its lanes to say.
    pub expected: BySplit<Pc, P>,
    /// What the policy charged for the step.
    pub charge: Cost,
    /// The policy regrouped threads since they were last checked.
    changed: bool,
    /// Per split: barriers it waits at.
    pub waits: BySplit<u32, P>,
    /// Locks of the banks of shared memory, and the cycle of the step.
    locks: BankLocks,
    /// Cycles from the first to the last turn of the last step's lanes at banks that atomics lock.
    pub lock_wait: u32,
    now: Cycle,
    /// Changes of shared memory are counted, and of all memory in the functional mode.
    pub watching: bool,
    /// As counted.
    pub changes: u64,
    /// Lanes of `.sync` collectives that wait for others.
    pub meetings: Vec<Meeting>,
    /// Warps whose last thread ended in this step.
    pub ended: Vec<usize>,
    /// Room for the lanes of a barrier instruction, by barrier and count.
    groups: Vec<(u32, Option<u32>, LaneMask)>,
    /// Room for the barriers an instruction completes.
    completed: Vec<Completed>,
    pub(crate) admissions: u64,
}

impl<P: Reconvergence> Resident<P> {
    /// No blocks yet, `warp_slots` warps and `block_slots` blocks at most.
    pub fn new(sm: u32, world: Arc<World>, policy: P, warp_slots: usize, block_slots: usize) -> Self {
        let banks = world.latency.banks;
        Self {
            sm,
            world,
            warps: (0..warp_slots).map(|_| Warp::default()).collect(),
            blocks: (0..block_slots).map(|_| None).collect(),
            kernels: Vec::new(),
            policy,
            touched: Vec::new(),
            did: Step::Done,
            requests: Requests::default(),
            expected: BySplit::new(warp_slots, NO_PC),
            charge: Cost::default(),
            changed: false,
            waits: BySplit::new(warp_slots, 0),
            locks: BankLocks::new(banks),
            lock_wait: 0,
            now: 0,
            watching: false,
            changes: 0,
            meetings: Vec::new(),
            ended: Vec::new(),
            groups: Vec::new(),
            completed: Vec::new(),
            admissions: 0,
        }
    }

    /// The home warp of a split.
    #[inline]
    pub fn warp_of(&self, split: SplitId) -> usize {
        split as usize / P::SPLITS
    }

    /// Splits of a warp.
    pub fn splits_of(&self, warp: usize) -> std::ops::Range<SplitId> {
        let first = (warp * P::SPLITS) as SplitId;
        first..first + P::SPLITS as SplitId
    }

    /// A block becomes resident: the first free slots take its warps. The new splits are in
    /// [`Resident::touched`]. `None` where block or warp slots do not suffice; whoever sent the
    /// block counts them, so this is a broken rule of the simulator, not of the program.
    pub fn admit(&mut self, kernel: &Arc<Kernel>, number: u64) -> Option<usize> {
        let slot = self.blocks.iter().position(Option::is_none)?;
        let needed = kernel.warps_per_block();
        let free: Vec<usize> =
            (0..self.warps.len()).filter(|&w| !self.warps[w].resident).take(needed as usize).collect();
        if free.len() < needed as usize {
            return None;
        }
        let kernel_index =
            self.kernels.iter().position(|k| k.grid_id == kernel.grid_id).unwrap_or_else(|| {
                // Kernels without blocks here make room.
                let used = |i: usize| self.blocks.iter().flatten().any(|b| b.kernel == i);
                match (0..self.kernels.len()).find(|&i| !used(i)) {
                    Some(index) => {
                        self.kernels[index] = Arc::clone(kernel);
                        index
                    }
                    None => {
                        self.kernels.push(Arc::clone(kernel));
                        self.kernels.len() - 1
                    }
                }
            });
        let index = kernel.block_index(number);
        let [x, y, z] = kernel.block;
        self.touched.clear();
        for (i, &w) in free.iter().enumerate() {
            let place = WarpPlace {
                ctaid: index,
                index: i as u32,
                sm: (self.sm, self.world.sms),
                slot: (w as u32, self.warps.len() as u32),
            };
            let warp = &mut self.warps[w];
            warp.admit(kernel, self.world.warp_size, place);
            warp.block = slot;
            warp.kernel = kernel_index;
            warp.age = self.admissions;
            self.admissions += 1;
            let lanes = warp.threads;
            self.policy.admit(w, slot, lanes, &kernel.code.plan, &mut self.touched);
        }
        for &split in &self.touched {
            self.expected[split] = NO_PC;
            self.waits[split] = 0;
        }
        self.blocks[slot] = Some(Block {
            writes: Writes::default(),
            number,
            index,
            kernel: kernel_index,
            barriers: BarrierEnv::new(self.world.barriers, kernel.warp_size),
            shared: sim_memory::shared::SharedMemory::new(kernel.shared_bytes),
            cluster: ClusterBarrier::default(),
            live_threads: x * y * z,
            live_warps: needed,
            finished_warps: 0,
            warps: free,
        });
        Some(slot)
    }

    /// The facts of the split's next instruction.
    #[inline]
    pub fn next_hot(&self, split: SplitId) -> Option<&Hot> {
        let warp = &self.warps[self.warp_of(split)];
        self.kernels[warp.kernel].code.hot.get(self.policy.pc(split) as usize)
    }

    /// Runs the next instruction of `split` at `now` [thr-dop] [thr-mov] [thr-setp] and counts it.
    /// `None`: a data operation, which does nothing beyond its lanes; [`Resident::touched`] is that
    /// of an older step then.
    ///
    /// # Errors
    /// `⊥`, a fault of the program, or a violated check; the split has not advanced.
    #[inline(always)]
    pub fn step(
        &mut self,
        split: SplitId,
        now: Cycle,
        counts: &mut KernelCounts,
    ) -> Result<Option<Step>, Bottom> {
        #[cfg(test)]
        crate::literal::observe(self, split, now);
        let w = self.warp_of(split);
        let pc = self.policy.pc(split);
        let mask = self.policy.mask(split);
        let warp = &mut self.warps[w];
        let kernel = &*self.kernels[warp.kernel];
        let code = &*kernel.code;
        let Some(hot) = code.hot.get(pc as usize) else {
            return Err(Bottom::new("cfc-addr", mask, format!("there is no instruction {pc}")));
        };
        let exec = mask & guard(hot.guard, &warp.preds);
        if self.world.check != Check::Off {
            check_split(warp, &mut self.expected[split], hot, pc, mask, self.world.check)?;
        }
        if let Some(lane) = hot.lane {
            let mut file = LaneFile { rows: &mut warp.rows, consts: &kernel.consts, preds: &mut warp.preds };
            // SAFETY: `Code::new` resolved the function for an instruction set that
            // `InstructionSet::detect` (or the caller's choice among `available`) found on this
            // host.
            #[allow(unsafe_code, reason = "lane functions carry target features")]
            unsafe {
                lane(&mut file, &code.ops[pc as usize], exec);
            }
            counts.count(hot, [exec.count_ones(), mask.count_ones()]);
            if self.policy.advance(split) {
                self.stopped(split, w)?;
                self.did = Step::Done;
                return Ok(Some(Step::Done));
            }
            return Ok(None);
        }
        self.step_rare(split, w, pc, mask, exec, now)?;
        let hot = &self.kernels[self.warps[w].kernel].code.hot[pc as usize];
        let lanes = [exec.count_ones(), mask.count_ones()];
        counts.count(hot, lanes);
        if hot.inverted || self.did == Step::Again {
            counts.correct(hot, self.did == Step::Again, lanes);
        }
        Ok(Some(self.did))
    }

    /// Everything but data operations, after the checks; what it did is in [`Resident::did`].
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn step_rare(
        &mut self,
        split: SplitId,
        w: usize,
        pc: Pc,
        mask: LaneMask,
        exec: LaneMask,
        now: Cycle,
    ) -> Result<(), Bottom> {
        // The kernels step aside meanwhile: their code is read while all else changes.
        let kernels = std::mem::take(&mut self.kernels);
        let step = match self.world.instruction_set {
            InstructionSet::Baseline => self.step_by_class(&kernels, split, w, pc, mask, exec, now),
            // SAFETY: the set is one that `InstructionSet::available` found on this host, and
            // both sets hold these features.
            #[allow(unsafe_code, reason = "addresses and words of 32 lanes are vectors")]
            InstructionSet::Avx2Fma | InstructionSet::Avx512 => unsafe {
                self.step_by_class_avx2(&kernels, split, w, pc, mask, exec, now)
            },
        };
        self.kernels = kernels;
        step?;
        if std::mem::take(&mut self.changed) {
            self.check_threads(w)?;
        }
        Ok(())
    }

    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt"))]
    #[allow(unsafe_code, reason = "callers must have the features")]
    unsafe fn step_by_class_avx2(
        &mut self,
        kernels: &[Arc<Kernel>],
        split: SplitId,
        w: usize,
        pc: Pc,
        mask: LaneMask,
        exec: LaneMask,
        now: Cycle,
    ) -> Result<(), Bottom> {
        self.step_by_class(kernels, split, w, pc, mask, exec, now)
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
    ) -> Result<(), Bottom> {
        self.touched.clear();
        self.charge = Cost::default();
        self.now = now;
        let kernel = &*kernels[self.warps[w].kernel];
        let code = &*kernel.code;
        let op = &code.program.ops[pc as usize];
        use OpClass as C;
        self.did = Step::Done;
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
                self.did = self.control(kernels, split, w, pc, mask, exec, code)?;
                return Ok(());
            }
            C::Load | C::Store | C::Atomic => self.access(kernel, w, pc, op, exec)?,
            C::LoadParam => self.load_param(kernel, w, op, exec)?,
            C::Hint => self.hint(kernel, w, pc, op, exec),
            C::Copy => self.copy(code, w, pc, op, exec)?,
            C::Mbarrier => self.mbarrier(code, w, op, exec)?,
            C::Membar => {}
            C::Clock => {
                self.clock(w, op, exec, now);
            }
            C::Barrier => {
                self.did = self.barrier(kernels, split, w, pc, op, exec)?;
                return Ok(());
            }
            C::Vote | C::Shuffle | C::Match | C::Redux | C::Elect | C::WarpSync | C::ActiveMask => {
                self.did = self.collective(kernels, split, w, pc, op, mask, exec)?;
                return Ok(());
            }
            C::Sleep => {
                let nanoseconds = match op.src[0].is_some() {
                    true => self.lane_u32(w, code, op.src[0], exec),
                    false => op.imm as u32,
                };
                let cycles = u128::from(nanoseconds) * u128::from(self.world.core_khz) / 1_000_000;
                self.advance(split, w)?;
                self.did = Step::Sleep(if exec == 0 { 0 } else { cycles as u64 });
                return Ok(());
            }
            C::Trap if exec != 0 => {
                let info = &code.program.info[pc as usize];
                if let Some(reason) = &info.unsupported {
                    return Err(Bottom::new("trap", exec, reason.to_string()));
                }
                let name = code.program.text(pc);
                let name = name.rsplit(' ').next().unwrap_or("trap");
                return Err(Bottom::new("trap", exec, format!("the program executed `{name}`")));
            }
            C::Unsupported if exec != 0 => {
                let reason = code.program.info[pc as usize].unsupported.as_deref();
                return Err(Bottom::new(
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
    fn lane_u32(&self, w: usize, code: &crate::grid::Code, row: Row, lanes: LaneMask) -> u32 {
        let lane = (lanes.trailing_zeros() & 31) as usize;
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
            access::write_element(rows, op.dst[0], lane, value, if wide { 64 } else { 32 });
        }
    }
}

/// The lanes for which a predicate operand is true [thr-exec-tt] [thr-exec-ff].
#[inline(always)]
pub fn guard(pred: Pred, preds: &[u32]) -> LaneMask {
    let value = if pred.is_const() { u32::MAX } else { preds.get(pred.index()).copied().unwrap_or(0) };
    if pred.negated() { !value } else { value }
}

/// Writes a predicate register in `lanes`; a sink takes nothing.
pub fn write_pred(preds: &mut [u32], pred: Pred, lanes: LaneMask, value: u32) {
    if let Some(register) = preds.get_mut(pred.index()) {
        *register = *register & !lanes | value & lanes;
    }
}

/// A row of 32-bit values, of the warp or constant.
#[inline(always)]
pub fn read_row<'a>(
    rows: &'a [crate::lanes::file::LaneRow],
    consts: &'a [crate::lanes::file::LaneRow],
    row: Row,
) -> &'a [u32; 32] {
    const ZERO: [u32; 32] = [0; 32];
    let found = if row.0 >= Row::CONST {
        consts.get(usize::from(row.0 - Row::CONST))
    } else {
        rows.get(usize::from(row.0))
    };
    found.map_or(&ZERO, |row| &row.0)
}

impl<P: Reconvergence> Resident<P> {
    /// The place of an instruction, for messages.
    pub fn where_is(&self, w: usize, pc: Pc, lanes: LaneMask, cycle: Cycle) -> crate::error::Place {
        let warp = &self.warps[w];
        let kernel = self.kernels.get(warp.kernel);
        let info = kernel.and_then(|k| k.code.program.info.get(pc as usize));
        crate::error::Place {
            kernel: kernel.map_or_else(|| "".into(), |k| Arc::clone(&k.name)),
            block: self.blocks.get(warp.block).and_then(Option::as_ref).map_or([0; 3], |b| b.index),
            thread: kernel.map_or([0; 3], |k| {
                let [x, y, _] = k.block.map(|n| n.max(1));
                let thread = warp.index * k.warp_size + lanes.trailing_zeros() % 32;
                [thread % x, thread / x % y, thread / x / y]
            }),
            warp: warp.index,
            lane: lanes.trailing_zeros() % 32,
            pc,
            file: kernel.map_or_else(|| "".into(), |k| Arc::clone(&k.code.program.source.name)),
            line: info.map_or(0, |i| i.line),
            instruction: kernel.map_or_else(|| "".into(), |k| k.code.program.text(pc).into()),
            sm: self.sm,
            cycle,
        }
    }
}
