//! Follows the pipeline: before each of its steps the reference must be where the pipeline is, in
//! every thread's registers, in masks, tokens and program address, and must be able to take the
//! step too.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use sim_frontend::program::{Extra, MemoryOp, Op, OpClass, Program, SpecialRegister};
use sim_memory::device_memory::DeviceMemory;
use sim_memory::vocabulary::{Cycle, LaneMask, StateSpace};

use super::Stuck;
use super::block::BlockState;
use super::crs::{self, ActiveState, DisableState};
use super::grid::{Grid, GridState};
use super::memory::{Accessor, Memory};
use super::registers::{Registers, Slot};
use super::thread::{MemBarLevel, ProgEnv, Req};
use super::warp::{Warp, result};
use crate::execute::Resident;
use crate::grid::Kernel;
use crate::instruction_set::InstructionSet;
use crate::lanes::{LaneFn, resolve};
use crate::reconvergence::crs_stack::{self, TokenType};
use crate::reconvergence::{Lanes, Reconvergence, SplitId};
use crate::scoreboard::Readiness;

thread_local! {
    static FOLLOWER: RefCell<Option<Follower>> = const { RefCell::new(None) };
}

/// Called before each step of the pipeline.
pub(crate) fn observe<P: Reconvergence>(resident: &Resident<P>, split: SplitId, now: Cycle) {
    FOLLOWER.with_borrow_mut(|follower| {
        let Some(follower) = follower.as_mut().filter(|f| f.failure.is_none()) else { return };
        if let Err(Stuck(why)) = follower.follow(resident, split, now) {
            let w = resident.warp_of(split);
            let place = resident.where_is(w, resident.policy.pc(split), resident.policy.mask(split), now);
            follower.failure = Some(format!("{why}, at {place}"));
        }
    });
}

/// True if steps are followed.
pub(crate) fn follows() -> bool {
    FOLLOWER.with_borrow(Option::is_some)
}

/// What following found.
pub(crate) struct Follower {
    /// Memory answers at once: loads are known too.
    functional: bool,
    grids: BTreeMap<u32, Run>,
    memory: Memory,
    pub steps: u64,
    /// How often each rule was applied.
    pub rules: BTreeMap<&'static str, u64>,
    /// The first step that was none of the reference.
    pub failure: Option<String>,
}

/// A grid and the registers of its threads.
struct Run {
    grid: Grid,
    dop: Vec<Option<LaneFn>>,
    files: HashMap<(u64, u32), File>,
}

/// A warp's registers.
#[derive(Default)]
struct File {
    registers: Registers,
    /// By row: lanes whose value memory or a clock is still to give.
    unknown: Vec<LaneMask>,
}

impl Follower {
    /// Follows what this thread runs from now on.
    pub fn begin(functional: bool) {
        let follower = Self {
            functional,
            grids: BTreeMap::new(),
            memory: Memory::default(),
            steps: 0,
            rules: BTreeMap::new(),
            failure: None,
        };
        FOLLOWER.set(Some(follower));
    }

    /// The host writes memory now.
    pub fn host_writes() {
        FOLLOWER.with_borrow_mut(|follower| {
            if let Some(follower) = follower {
                follower.memory.forget();
            }
        });
    }

    /// Ends it. The first step that was wrong is the error, or a grid that has not completed, or,
    /// where `after` is given, a byte of memory that is not as the reference left it.
    pub fn end(after: Option<&DeviceMemory>) -> Result<Self, String> {
        let Some(follower) = FOLLOWER.take() else { return Err("nothing was followed".into()) };
        if let Some(failure) = follower.failure {
            return Err(failure);
        }
        if let Some((id, _)) = follower.grids.iter().find(|(_, run)| run.grid.state != GridState::Completed) {
            return Err(format!("grid {id} has not completed"));
        }
        if let Some(at) = after.and_then(|after| follower.memory.differs_from(after)) {
            return Err(format!("the byte at {at:#x} is not what the reference wrote"));
        }
        Ok(follower)
    }

    fn count(&mut self, rule: &'static str) {
        *self.rules.entry(rule).or_default() += 1;
    }

    fn follow<P: Reconvergence>(
        &mut self,
        resident: &Resident<P>,
        split: SplitId,
        now: Cycle,
    ) -> Result<(), Stuck> {
        let w = resident.warp_of(split);
        let warp = &resident.warps[w];
        let kernel = &resident.kernels[warp.kernel];
        let (Some(state), Some(block)) = (resident.policy.exec_state(w), &resident.blocks[warp.block]) else {
            return Stuck::new("follow", "the policy has no token stack");
        };
        let run = self.grids.entry(kernel.grid_id).or_insert_with(|| Run::new(kernel));
        let (number, index) = (block.number, warp.index as usize);
        let program = &kernel.code.program;
        let own = &mut run.grid.blocks[number as usize];
        if own.bid != block.index {
            return Stuck::new(
                "issueBlocks",
                format!("block {number} is {:?}, not {:?}", own.bid, block.index),
            );
        }
        if own.state == BlockState::Unscheduled {
            own.issue(program.entry_pc, kernel.block, kernel.warp_size, resident.world.barriers);
        }
        let reference = &mut own.warps[index];
        agree(reference, state)?;
        let file = run.files.entry((number, warp.index)).or_default();
        if file.registers.rows.is_empty() {
            file.registers = Registers { rows: warp.rows.clone(), predicates: warp.preds.clone() };
            file.unknown = vec![0; warp.rows.len()];
            reg_lookup(program, kernel, own.bid, &own.warps[index], &file.registers)?;
        }
        file.agree(warp)?;
        // canBeScheduled: no blocked register, no memory barrier pending.
        let pc = state.pc as usize;
        let Some(decoded) = kernel.code.decoded.get(pc) else {
            return Stuck::new("canBeScheduled", format!("there is no instruction {pc}"));
        };
        if warp.board.readiness(decoded.slots(), state.active, now) != Readiness::At(now) {
            return Stuck::new("canBeScheduled", "a register of the instruction is blocked");
        }
        // What it reads is there by now.
        for slot in decoded.slots() {
            if let Some(unknown) = file.unknown.get_mut(usize::from(*slot)) {
                *unknown &= !state.active;
            }
        }
        let own = &mut run.grid.blocks[number as usize];
        for thread in &mut own.warps[index].threads {
            // updMemBar
            if let Some(level) = thread.membar.take()
                && warp.outstanding.any(1 << thread.lane, level == MemBarLevel::Gl)
            {
                return Stuck::new("canBeScheduled", format!("lane {} waits for {level:?}", thread.lane));
            }
        }
        let env =
            ProgEnv { code: &kernel.code, consts: &kernel.consts, params: &kernel.params, dop: &run.dop };
        let act = run.grid.step(&env, (number as usize, index), &mut file.registers)?;
        let op = &kernel.code.ops[pc];
        let who = Accessor {
            sm: if self.functional { 0 } else { resident.sm },
            slot: w as u32,
            lane: 0,
            block: (kernel.grid_id, number),
        };
        for (lane, req) in &act.mem {
            let who = Accessor { lane: *lane, ..who };
            file.perform(op, req, who, &mut self.memory, &resident.world.memory, self.functional);
        }
        for (warp, lane, value) in act.bar {
            let waits_at = run.grid.blocks[number as usize].warps[warp].exec.pc - 1;
            let op = &kernel.code.ops[waits_at as usize];
            if let (Req::Registers(writes), Some(file)) =
                (result(op, value), run.files.get_mut(&(number, warp as u32)))
            {
                file.write(lane, &writes);
            }
        }
        let rule = thread_rule(op.class);
        act.rules.into_iter().chain(rule).for_each(|rule| self.count(rule));
        self.steps += 1;
        Ok(())
    }
}

impl Run {
    fn new(kernel: &Arc<Kernel>) -> Self {
        let program = &kernel.code.program;
        let resolved: Vec<_> =
            program.forms.iter().map(|form| resolve(form, InstructionSet::Baseline)).collect();
        let dop = program.ops.iter().map(|op| resolved.get(usize::from(op.form)).copied().flatten());
        Self { grid: Grid::start(kernel.grid), dop: dop.collect(), files: HashMap::new() }
    }
}

impl File {
    /// The registers are what the pipeline's are, but for those that memory was to give: these are
    /// taken over.
    fn agree(&mut self, warp: &crate::warp::Warp) -> Result<(), Stuck> {
        let own = &mut self.registers;
        for (row, (mine, theirs)) in own.rows.iter_mut().zip(&warp.rows).enumerate() {
            if mine == theirs {
                continue;
            }
            for lane in 0..32u32 {
                let (mine, theirs) = (&mut mine.0[lane as usize], theirs.0[lane as usize]);
                if self.unknown[row] >> lane & 1 == 1 {
                    *mine = theirs;
                } else if *mine != theirs {
                    return Stuck::new(
                        "registers",
                        format!("row {row} of lane {lane} is {theirs:#x}, {mine:#x} by the reference"),
                    );
                }
            }
        }
        if let Some(p) = (0..warp.preds.len()).find(|p| own.predicates[*p] != warp.preds[*p]) {
            let (mine, theirs) = (own.predicates[p], warp.preds[p]);
            return Stuck::new(
                "registers",
                format!("predicate {p} is {theirs:#x}, {mine:#x} by the reference"),
            );
        }
        Ok(())
    }

    fn write(&mut self, lane: u32, writes: &[(Slot, u32)]) {
        for (slot, value) in writes {
            self.registers.write(*slot, lane, *value);
        }
    }

    /// The environment takes an action: at once, or, where time passes, by what the pipeline's
    /// registers say later.
    fn perform(
        &mut self,
        op: &Op,
        req: &Req,
        who: Accessor,
        memory: &mut Memory,
        initial: &DeviceMemory,
        functional: bool,
    ) {
        let at_once =
            |space: StateSpace| functional || matches!(space, StateSpace::Shared | StateSpace::Const);
        let facts = match &op.extra {
            Extra::Memory(facts) => Some(facts),
            _ => None,
        };
        match (req, facts) {
            (Req::Registers(writes), _) => self.write(who.lane, writes),
            (Req::Load { space, address }, Some(facts)) if at_once(*space) => {
                let size = usize::from(facts.element_bytes) * usize::from(facts.vector);
                let bytes = memory.read(initial, who, *space, *address, size);
                self.write(who.lane, &super::thread::loaded(op, facts, &bytes));
            }
            (Req::Store { space, address, bytes }, _) => memory.write(who, *space, *address, bytes),
            (Req::Atomic { space, address, b, c }, Some(facts)) => {
                let writes = memory.atomic(initial, who, op, facts, (*space, *address), (*b, *c));
                if at_once(*space) {
                    self.write(who.lane, &writes);
                } else {
                    self.await_rows(op, Some(facts), who.lane);
                }
            }
            _ => self.await_rows(op, facts, who.lane),
        }
    }

    fn await_rows(&mut self, op: &Op, facts: Option<&MemoryOp>, lane: u32) {
        let wide = facts.is_none_or(|facts| facts.reg_bits == 64);
        for row in op.dst.iter().filter(|row| row.is_some()).map(|row| usize::from(row.0)) {
            for row in row..=row + usize::from(wide) {
                if let Some(unknown) = self.unknown.get_mut(row) {
                    *unknown |= 1 << lane;
                }
            }
        }
    }
}

/// The reference's execution state is the pipeline's.
fn agree(warp: &Warp, state: &crs_stack::ExecState) -> Result<(), Stuck> {
    let bits = |mask: &crs::ActiveMask| {
        (0..mask.len()).filter(|wl| mask[*wl] == ActiveState::Active).fold(0u32, |bits, wl| bits | 1 << wl)
    };
    let own = &warp.exec;
    if own.pc != state.pc {
        return Stuck::new("crs", format!("the warp is at {}, {} by the reference", state.pc, own.pc));
    }
    let active = bits(&own.active);
    if active != state.active {
        return Stuck::new("crs", format!("active mask {:#x}, {active:#x} by the reference", state.active));
    }
    for (wl, disabled) in own.disabled.iter().enumerate() {
        let is = |mask: LaneMask| mask >> wl & 1 == 1;
        let theirs = match () {
            () if is(state.disabled.break_) => DisableState::Break,
            () if is(state.disabled.return_) => DisableState::Return,
            () if is(state.disabled.exit) => DisableState::Exit,
            () => DisableState::Enabled,
        };
        if *disabled != theirs {
            return Stuck::new("crs", format!("lane {wl} is {theirs:?}, {disabled:?} by the reference"));
        }
    }
    let kind = |kind: &TokenType| match kind {
        TokenType::Sync => crs::TokenType::Sync,
        TokenType::Diverge => crs::TokenType::Diverge,
        TokenType::Call => crs::TokenType::Call,
        TokenType::Break => crs::TokenType::Break,
    };
    let theirs: Vec<_> = state.stack.iter().rev().map(|t| (kind(&t.kind), t.mask, t.pc)).collect();
    let mine: Vec<_> = own.stack.iter().map(|(kind, mask, pc)| (*kind, bits(mask), *pc)).collect();
    if mine != theirs {
        return Stuck::new("crs", format!("tokens {theirs:?}, {mine:?} by the reference"));
    }
    Ok(())
}

/// The special registers of a thread say where it is.
fn reg_lookup(
    program: &Program,
    kernel: &Kernel,
    bid: [u32; 3],
    warp: &Warp,
    registers: &Registers,
) -> Result<(), Stuck> {
    use SpecialRegister as S;
    for (row, register) in &program.specials {
        for thread in &warp.threads {
            let expected = match register {
                S::TidX => thread.tid[0],
                S::TidY => thread.tid[1],
                S::TidZ => thread.tid[2],
                S::NtidX => kernel.block[0],
                S::NtidY => kernel.block[1],
                S::NtidZ => kernel.block[2],
                S::CtaidX => bid[0],
                S::CtaidY => bid[1],
                S::CtaidZ => bid[2],
                S::NctaidX => kernel.grid[0],
                S::NctaidY => kernel.grid[1],
                S::NctaidZ => kernel.grid[2],
                S::LaneId => thread.lane,
                S::LanemaskEq => 1 << thread.lane,
                S::LanemaskLt => (0..thread.lane).map(|l| 1 << l).sum(),
                S::LanemaskGe => (thread.lane..32).map(|l| 1 << l).sum(),
                _ => continue,
            };
            let found = registers.rows[usize::from(row.0)].0[thread.lane as usize];
            if found != expected {
                return Stuck::new("regLookup", format!("{register:?} of lane {} is {found}", thread.lane));
            }
        }
    }
    // Dummy threads are the only inactive ones (warp formation).
    let inactive =
        Lanes(u32::MAX).filter(|wl| warp.exec.active.get(*wl as usize) == Some(&ActiveState::Inactive));
    let threads: u32 = kernel.block.iter().product();
    for wl in inactive {
        let [x, y, z] = warp.threads[wl as usize].tid;
        if (z * kernel.block[1] + y) * kernel.block[0] + x < threads {
            return Stuck::new("warp formation", format!("lane {wl} is a thread and does not run"));
        }
    }
    Ok(())
}

/// The thread rule of an instruction; those of →CRS and the hierarchy are counted where they apply.
fn thread_rule(class: OpClass) -> Option<&'static str> {
    use OpClass as C;
    Some(match class {
        C::Data => "thr-dop",
        C::Membar => "thr-membar",
        C::Atomic => "thr-atom",
        C::Store => "thr-st",
        C::Load | C::LoadParam => "thr-ld",
        _ => return None,
    })
}
