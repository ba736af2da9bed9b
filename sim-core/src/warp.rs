//! A warp: the registers of its threads as structure of arrays, its scoreboard, and what its
//! threads still have outstanding (CS §5.4). A thread keeps its registers with its home warp
//! and lane, whatever split it runs in.

use std::sync::Arc;

use sim_frontend::program::SpecialRegister;
use sim_memory::vocabulary::{Cycle, LaneMask, WARP_LANES};

use crate::code::Code;
use crate::copies::Copies;
use crate::grid::Kernel;
use crate::lookups::Staged;
use crate::monitor::Shadow;
use crate::products::Products;
use crate::registers::LaneRow;
use crate::scoreboard::Scoreboard;

/// A small number for each lane, as planes of bits: lane `l`'s is bit `l` of them all, the least
/// significant plane first. Lanes count together, so that most changes end after a plane or two.
#[derive(Clone, Copy, Debug, Default, borsh::BorshSerialize, borsh::BorshDeserialize)]
struct LaneCounts([LaneMask; 16]);

impl LaneCounts {
    /// One more for each of `lanes`.
    #[inline]
    fn add(&mut self, lanes: LaneMask) {
        let mut carry = lanes;
        for plane in &mut self.0 {
            if carry == 0 {
                return;
            }
            (*plane, carry) = (*plane ^ carry, *plane & carry);
        }
        debug_assert_eq!(carry, 0, "a lane has fewer than 65,536 accesses under way");
    }

    /// One less for each of `lanes`, which have one.
    #[inline]
    fn remove(&mut self, lanes: LaneMask) {
        let mut borrow = lanes;
        for plane in &mut self.0 {
            if borrow == 0 {
                return;
            }
            (*plane, borrow) = (*plane ^ borrow, !*plane & borrow);
        }
        debug_assert_eq!(borrow, 0, "an access ends once");
    }

    /// Lanes whose number is not 0.
    #[inline]
    fn some(&self) -> LaneMask {
        self.0.iter().fold(0, |some, plane| some | plane)
    }
}

/// Accesses of each lane that are not finished yet, at two levels.
#[derive(Clone, Debug, Default, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Outstanding {
    /// Not yet performed for the thread's block (`bar`, `membar.cta` wait for these).
    block: LaneCounts,
    /// Not yet performed for the device (`membar.gl`, `membar.sys` wait for these).
    device: LaneCounts,
    /// Of `device`, those that are volatile.
    volatile: LaneCounts,
    /// Of `block`, those that acquire.
    acquires: LaneCounts,
}

impl Outstanding {
    /// Lanes begin an access.
    #[inline]
    pub fn begin(&mut self, lanes: LaneMask) {
        self.block.add(lanes);
        self.device.add(lanes);
    }

    /// The access of these lanes is performed at block level.
    #[inline]
    pub fn end_block(&mut self, lanes: LaneMask) {
        self.block.remove(lanes);
    }

    /// The access of these lanes is performed for the device.
    #[inline]
    pub fn end_device(&mut self, lanes: LaneMask) {
        self.device.remove(lanes);
    }

    /// The access that these lanes begin is volatile.
    pub fn begin_volatile(&mut self, lanes: LaneMask) {
        self.volatile.add(lanes);
    }

    /// The volatile access of these lanes is performed for the device.
    pub fn end_volatile(&mut self, lanes: LaneMask) {
        self.volatile.remove(lanes);
    }

    /// The access that these lanes begin acquires.
    pub fn begin_acquire(&mut self, lanes: LaneMask) {
        self.acquires.add(lanes);
    }

    /// These lanes have the value that they acquired with.
    pub fn end_acquire(&mut self, lanes: LaneMask) {
        self.acquires.remove(lanes);
    }

    /// True if one of `lanes` has an acquire under way: what follows it in program order is
    /// performed after it.
    pub fn any_acquire(&self, lanes: LaneMask) -> bool {
        self.acquires.some() & lanes != 0
    }

    /// True if one of `lanes` has a volatile access under way: its next one comes after it, while
    /// those of other threads are not comparable [mem-priority].
    pub fn any_volatile(&self, lanes: LaneMask) -> bool {
        self.volatile.some() & lanes != 0
    }

    /// True if one of `lanes` has an access outstanding at this level [link-updMemBar].
    pub fn any(&self, lanes: LaneMask, device: bool) -> bool {
        let counts = if device { &self.device } else { &self.block };
        counts.some() & lanes != 0
    }

    /// No access is under way.
    pub fn none(&self) -> bool {
        self.device.some() == 0
    }
}

/// One warp slot of an SM. What every issue reads comes first, in two cache lines of the host.
#[derive(Debug, Default, borsh::BorshSerialize, borsh::BorshDeserialize)]
#[repr(C, align(64))]
pub struct Warp {
    /// Index of its kernel in the SM's table.
    pub kernel: usize,
    /// Registers, then the special-register rows.
    pub rows: Vec<LaneRow>,
    /// Predicate registers, one bit a lane.
    pub preds: Vec<u32>,
    /// Pending registers.
    pub board: Scoreboard,
    /// Lanes that are threads (the last warp of a block may have fewer).
    pub threads: LaneMask,
    /// Threads that have ended.
    pub exited: LaneMask,
    /// A block's warp lives here.
    pub resident: bool,
    /// Warp in the block.
    pub index: u32,
    /// Block slot of the SM.
    pub block: usize,
    /// Unfinished accesses.
    pub outstanding: Outstanding,
    /// Shadow pcs.
    pub shadow: Shadow,
    /// Order of admission on this SM, for the schedulers.
    pub age: u64,
    /// Asynchronous copies, once there has been one.
    pub copies: Option<Box<Copies>>,
    /// Threads that have executed a direct branch since the last watch of liveness began.
    pub branched: LaneMask,
    /// Threads that since then have failed a test of an mbarrier object which they repeat until it passes.
    pub failed: LaneMask,
    /// Threads that wait to issue their indirect branch once more.
    pub again: LaneMask,
    /// Threads that have arrived at the barrier of their cluster and not waited there yet.
    pub cluster_arrived: LaneMask,
    /// Of these, the parity of the phase they arrived in.
    pub cluster_parity: LaneMask,
    /// The number of its block's writes that a fence or release of device scope waits for.
    pub awaited_writes: Option<u64>,
    /// Since when one of its splits has waited for accesses at a fence.
    pub at_fence: Option<Cycle>,
    /// The registers that its threads have written, for sanitizers.
    #[borsh(skip)]
    pub tracked: Option<Box<Tracked>>,
    /// Products of its warpgroup, once there has been one.
    pub products: Option<Box<Products>>,
    /// Operands handed over to the next texture instruction, once there has been one with so many.
    pub staged: Option<Box<Staged>>,
}

/// The registers that the threads of a warp have written, of those that may be read before.
#[derive(Debug)]
pub struct Tracked {
    code: Arc<Code>,
    threads: LaneMask,
    /// By number of the register.
    written: Vec<LaneMask>,
    /// Registers that not all threads have written.
    open: usize,
    /// Instructions that read others, with their lanes.
    pub found: Vec<(u32, LaneMask)>,
}

impl Tracked {
    /// Those of a warp that starts; none where its program cannot read what it has not written.
    pub fn new(code: &Arc<Code>, threads: LaneMask) -> Option<Box<Self>> {
        let open = code.exposed.registers;
        let (code, written) = (Arc::clone(code), vec![0; open]);
        (open > 0).then(|| Box::new(Self { code, threads, written, open, found: Vec::new() }))
    }

    /// Lanes execute an instruction, those for which its guard is false only the guard.
    #[inline]
    pub fn execute(&mut self, pc: u32, lanes: LaneMask, guard: LaneMask) {
        let place = self.code.exposed.places.get(pc as usize);
        if let (Some(&place @ 1..), true) = (place, self.open > 0) {
            self.execute_exposed(place as usize - 1, pc, lanes, guard);
        }
    }

    #[cold]
    #[inline(never)]
    fn execute_exposed(&mut self, place: usize, pc: u32, lanes: LaneMask, guard: LaneMask) {
        let op = &self.code.program.exposed[place];
        let exec = lanes & guard;
        let unwritten = |wrong, reg: &u32| wrong | !self.written[*reg as usize];
        let mut wrong = exec & op.reads.iter().fold(0, unwritten);
        wrong |= lanes & op.guard.iter().fold(0, unwritten);
        for &reg in &op.writes {
            let written = &mut self.written[reg as usize];
            let before = *written & self.threads;
            *written |= exec;
            self.open -= usize::from(before != self.threads && *written & self.threads == self.threads);
        }
        if wrong != 0 {
            self.found.push((pc, wrong));
        }
    }
}

/// Where a warp is made: what the special registers say.
#[derive(Clone, Copy, Debug)]
pub struct WarpPlace {
    /// Block index.
    pub ctaid: [u32; 3],
    /// Warp in the block.
    pub index: u32,
    /// SM and number of SMs.
    pub sm: (u32, u32),
    /// Warp slot on the SM and number of slots.
    pub slot: (u32, u32),
}

/// A row of a register that is not written.
const NO_VALUES: LaneRow = LaneRow([0; WARP_LANES]);
/// Rows that are filled at once.
const PIECE: usize = 8;

impl Warp {
    /// Makes the slot the home of warp `place.index` of a block. Threads of consecutive ids in
    /// ascending lanes (CS §5.7.1 warp formation).
    pub fn admit(&mut self, kernel: &Kernel, warp_size: u32, place: WarpPlace) {
        let program = &kernel.code.program;
        let [bx, by, bz] = kernel.block;
        let threads = bx * by * bz;
        let first = place.index * warp_size;
        let count = threads.saturating_sub(first).min(warp_size);
        self.threads = if count >= 32 { u32::MAX } else { (1 << count) - 1 };
        self.resident = true;
        self.index = place.index;
        self.exited = 0;
        let rows = usize::from(program.registers) + program.specials.len();
        self.rows.truncate(rows);
        // Piece by piece: beyond 2 KiB the C library fills memory by string instructions, which begin slowly.
        self.rows.chunks_mut(PIECE).for_each(|rows| rows.fill(NO_VALUES));
        self.rows.resize(rows, NO_VALUES);
        self.preds.clear();
        self.preds.resize(usize::from(program.predicates), 0);
        self.board.reset(usize::from(program.registers) + usize::from(program.predicates));
        self.outstanding = Outstanding::default();
        self.copies = None;
        self.products = None;
        self.staged = None;
        self.cluster_arrived = 0;
        self.awaited_writes = None;
        self.at_fence = None;
        self.again = 0;
        self.shadow.start(self.threads, program.info[program.entry_pc as usize].base_pc);
        for &(row, register) in &program.specials {
            let values = special(register, kernel, first, place);
            if let Some(row) = self.rows.get_mut(usize::from(row.0)) {
                row.0 = values;
            }
        }
    }

    /// Makes it a slot in which no warp has been, in the memory it has.
    pub(crate) fn reset(&mut self) {
        let Self { rows, preds, board, .. } = std::mem::take(self);
        *self = Self { rows, preds, board, ..Self::default() };
        self.rows.clear();
        self.preds.clear();
        self.board.reset(0);
    }

    /// Its asynchronous copies.
    pub fn copies_mut(&mut self) -> &mut Copies {
        self.copies.get_or_insert_default()
    }

    /// Its products.
    pub fn products_mut(&mut self) -> &mut Products {
        self.products.get_or_insert_default()
    }

    /// No access is under way.
    pub fn drained(&self) -> bool {
        self.outstanding.none() && self.copies.as_ref().is_none_or(|copies| copies.drained())
    }

    /// Threads that have not ended.
    pub fn live(&self) -> LaneMask {
        self.threads & !self.exited
    }
}

/// The value of a special register in every lane [link-regLookup].
fn special(
    register: SpecialRegister,
    kernel: &Kernel,
    first_thread: u32,
    place: WarpPlace,
) -> [u32; WARP_LANES] {
    use SpecialRegister as S;
    let [bx, by, bz] = kernel.block;
    let warps = (bx * by * bz).div_ceil(kernel.warp_size);
    let per_lane = |f: &dyn Fn(u32) -> u32| std::array::from_fn(|lane| f(lane as u32));
    match register {
        S::TidX => thread_index(kernel.block, first_thread, 0),
        S::TidY => thread_index(kernel.block, first_thread, 1),
        S::TidZ => thread_index(kernel.block, first_thread, 2),
        S::LaneId => per_lane(&|lane| lane),
        S::LanemaskEq => per_lane(&|lane| 1 << lane),
        S::LanemaskLt => per_lane(&|lane| (1 << lane) - 1),
        S::LanemaskLe => per_lane(&|lane| u32::MAX >> (31 - lane)),
        S::LanemaskGt => per_lane(&|lane| !(u32::MAX >> (31 - lane))),
        S::LanemaskGe => per_lane(&|lane| !((1 << lane) - 1)),
        S::NtidX => [bx; WARP_LANES],
        S::NtidY => [by; WARP_LANES],
        S::NtidZ => [bz; WARP_LANES],
        S::CtaidX => [place.ctaid[0]; WARP_LANES],
        S::CtaidY => [place.ctaid[1]; WARP_LANES],
        S::CtaidZ => [place.ctaid[2]; WARP_LANES],
        S::NctaidX => [kernel.grid[0]; WARP_LANES],
        S::NctaidY => [kernel.grid[1]; WARP_LANES],
        S::NctaidZ => [kernel.grid[2]; WARP_LANES],
        S::WarpId => [place.slot.0; WARP_LANES],
        S::NwarpId => [place.slot.1.max(warps); WARP_LANES],
        S::SmId => [place.sm.0; WARP_LANES],
        S::NsmId => [place.sm.1; WARP_LANES],
        S::GridId => [kernel.grid_id; WARP_LANES],
        S::DynamicSmemSize => [kernel.dynamic_shared; WARP_LANES],
        S::TotalSmemSize => [kernel.shared_bytes; WARP_LANES],
        S::LocalBytes => [kernel.local_bytes; WARP_LANES],
        S::WorkspaceHigh => [(kernel.workspace >> 32) as u32; WARP_LANES],
        S::WorkspaceLow => [kernel.workspace as u32; WARP_LANES],
        S::ClusterIdX => [place.ctaid[0] / kernel.cluster[0]; WARP_LANES],
        S::ClusterIdY => [place.ctaid[1] / kernel.cluster[1]; WARP_LANES],
        S::ClusterIdZ => [place.ctaid[2] / kernel.cluster[2]; WARP_LANES],
        S::NclusterIdX => [kernel.grid[0] / kernel.cluster[0]; WARP_LANES],
        S::NclusterIdY => [kernel.grid[1] / kernel.cluster[1]; WARP_LANES],
        S::NclusterIdZ => [kernel.grid[2] / kernel.cluster[2]; WARP_LANES],
        S::ClusterCtaidX => [place.ctaid[0] % kernel.cluster[0]; WARP_LANES],
        S::ClusterCtaidY => [place.ctaid[1] % kernel.cluster[1]; WARP_LANES],
        S::ClusterCtaidZ => [place.ctaid[2] % kernel.cluster[2]; WARP_LANES],
        S::ClusterNctaidX => [kernel.cluster[0]; WARP_LANES],
        S::ClusterNctaidY => [kernel.cluster[1]; WARP_LANES],
        S::ClusterNctaidZ => [kernel.cluster[2]; WARP_LANES],
        S::ClusterCtarank => [kernel.rank(place.ctaid); WARP_LANES],
        S::ClusterNctarank => [kernel.cluster_size(); WARP_LANES],
        S::IsExplicitCluster => [kernel.explicit_cluster.into(); WARP_LANES],
    }
}

/// `%tid` along one axis in every lane, x fastest: consecutive threads count on from the first, so
/// that only it is divided.
fn thread_index([bx, by, _]: [u32; 3], first: u32, axis: usize) -> [u32; WARP_LANES] {
    let mut at = [first % bx, first / bx % by, first / bx / by];
    std::array::from_fn(|_| {
        let own = at[axis];
        at[0] += 1;
        if at[0] == bx {
            (at[0], at[1]) = (0, at[1] + 1);
            if at[1] == by {
                (at[1], at[2]) = (0, at[2] + 1);
            }
        }
        own
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::reconvergence::Lanes;

    proptest! {
        #[test]
        fn tid_counts_x_first(bx in 1u32..40, by in 1u32..9, first in 0u32..2000) {
            for (axis, value) in [
                (0, (|t, x, _| t % x) as fn(u32, u32, u32) -> u32),
                (1, |t, x, y| t / x % y),
                (2, |t, x, y| t / x / y),
            ] {
                let expected: [u32; 32] = std::array::from_fn(|lane| value(first + lane as u32, bx, by));
                prop_assert_eq!(thread_index([bx, by, 1], first, axis), expected);
            }
        }

        /// Against a number a lane.
        #[test]
        fn lanes_count_their_accesses(steps in proptest::collection::vec((any::<u32>(), any::<bool>()), 1..200)) {
            let mut counts = LaneCounts::default();
            let mut literal = [0u32; 32];
            for (lanes, add) in steps {
                if add {
                    counts.add(lanes);
                    Lanes(lanes).for_each(|lane| literal[lane as usize] += 1);
                } else {
                    let some = Lanes(lanes).filter(|lane| literal[*lane as usize] > 0);
                    let lanes = some.fold(0, |all, lane| all | 1 << lane);
                    counts.remove(lanes);
                    Lanes(lanes).for_each(|lane| literal[lane as usize] -= 1);
                }
                let some = (0..32).filter(|lane| literal[*lane] > 0).fold(0, |all, lane| all | 1u32 << lane);
                prop_assert_eq!(counts.some(), some);
            }
        }
    }
}
