//! A warp: the registers of its threads as structure of arrays, its scoreboard, and what its
//! threads still have outstanding (CS §5.4). A thread keeps its registers with its home warp
//! and lane, whatever split it runs in.

use sim_frontend::program::SpecialRegister;
use sim_memory::vocabulary::LaneMask;

use crate::copies::Copies;
use crate::grid::Kernel;
use crate::lanes::file::LaneRow;
use crate::monitor::Shadow;
use crate::reconvergence::Lanes;
use crate::scoreboard::Scoreboard;

/// Accesses of each lane that are not finished yet, at two levels.
#[derive(Clone, Debug, Default)]
pub struct Outstanding {
    /// Not yet performed for the thread's block (`bar`, `membar.cta` wait for these).
    pub block: [u16; 32],
    /// Not yet performed for the device (`membar.gl`, `membar.sys` wait for these).
    pub device: [u16; 32],
    /// Sum over `device`: a quick test for none at all.
    pub total: u32,
    /// Of `device`, those that are volatile.
    pub volatile: [u8; 32],
}

impl Outstanding {
    /// Lanes begin an access.
    #[inline]
    pub fn begin(&mut self, lanes: LaneMask) {
        for lane in 0..32 {
            let one = (lanes >> lane & 1) as u16;
            self.block[lane] += one;
            self.device[lane] += one;
        }
        self.total += lanes.count_ones();
    }

    /// The access of these lanes is performed at block level.
    #[inline]
    pub fn end_block(&mut self, lanes: LaneMask) {
        for lane in 0..32 {
            self.block[lane] -= (lanes >> lane & 1) as u16;
        }
    }

    /// The access of these lanes is performed for the device.
    #[inline]
    pub fn end_device(&mut self, lanes: LaneMask) {
        for lane in 0..32 {
            self.device[lane] -= (lanes >> lane & 1) as u16;
        }
        self.total -= lanes.count_ones();
    }

    /// The access that these lanes begin is volatile.
    pub fn begin_volatile(&mut self, lanes: LaneMask) {
        Lanes(lanes).for_each(|lane| self.volatile[lane as usize] += 1);
    }

    /// The volatile access of these lanes is performed for the device.
    pub fn end_volatile(&mut self, lanes: LaneMask) {
        Lanes(lanes).for_each(|lane| self.volatile[lane as usize] -= 1);
    }

    /// True if one of `lanes` has a volatile access under way: its next one comes after it, while
    /// those of other threads are not comparable [mem-priority].
    pub fn any_volatile(&self, lanes: LaneMask) -> bool {
        self.total != 0 && Lanes(lanes).any(|lane| self.volatile[lane as usize] != 0)
    }

    /// True if one of `lanes` has an access outstanding at this level [link-updMemBar].
    pub fn any(&self, lanes: LaneMask, device: bool) -> bool {
        let counts = if device { &self.device } else { &self.block };
        self.total != 0 && Lanes(lanes).any(|lane| counts[lane as usize] != 0)
    }
}

/// One warp slot of an SM. What every issue reads comes first, in two cache lines of the host.
#[derive(Debug, Default)]
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
    /// Threads that have arrived at the barrier of their cluster and not waited there yet.
    pub cluster_arrived: LaneMask,
    /// Of these, the parity of the phase they arrived in.
    pub cluster_parity: LaneMask,
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
        self.rows.clear();
        self.rows.resize(usize::from(program.registers) + program.specials.len(), LaneRow([0; 32]));
        self.preds.clear();
        self.preds.resize(usize::from(program.predicates), 0);
        self.board.reset(usize::from(program.registers) + usize::from(program.predicates));
        self.outstanding = Outstanding::default();
        self.copies = None;
        self.cluster_arrived = 0;
        self.shadow.start(self.threads, program.info[program.entry_pc as usize].base_pc);
        for &(row, register) in &program.specials {
            let values = special(register, kernel, first, place);
            if let Some(row) = self.rows.get_mut(usize::from(row.0)) {
                row.0 = values;
            }
        }
    }

    /// Its asynchronous copies.
    pub fn copies_mut(&mut self) -> &mut Copies {
        self.copies.get_or_insert_default()
    }

    /// No access is under way.
    pub fn drained(&self) -> bool {
        self.outstanding.total == 0 && self.copies.as_ref().is_none_or(|copies| copies.drained())
    }

    /// Threads that have not ended.
    pub fn live(&self) -> LaneMask {
        self.threads & !self.exited
    }
}

/// The value of a special register in every lane [link-regLookup].
fn special(register: SpecialRegister, kernel: &Kernel, first_thread: u32, place: WarpPlace) -> [u32; 32] {
    use SpecialRegister as S;
    let [bx, by, bz] = kernel.block;
    let warps = (bx * by * bz).div_ceil(kernel.warp_size);
    let per_lane = |f: &dyn Fn(u32) -> u32| std::array::from_fn(|lane| f(lane as u32));
    let thread = |lane: u32| first_thread + lane;
    match register {
        S::TidX => per_lane(&|lane| thread(lane) % bx),
        S::TidY => per_lane(&|lane| thread(lane) / bx % by),
        S::TidZ => per_lane(&|lane| thread(lane) / bx / by),
        S::LaneId => per_lane(&|lane| lane),
        S::LanemaskEq => per_lane(&|lane| 1 << lane),
        S::LanemaskLt => per_lane(&|lane| (1 << lane) - 1),
        S::LanemaskLe => per_lane(&|lane| u32::MAX >> (31 - lane)),
        S::LanemaskGt => per_lane(&|lane| !(u32::MAX >> (31 - lane))),
        S::LanemaskGe => per_lane(&|lane| !((1 << lane) - 1)),
        S::NtidX => [bx; 32],
        S::NtidY => [by; 32],
        S::NtidZ => [bz; 32],
        S::CtaidX => [place.ctaid[0]; 32],
        S::CtaidY => [place.ctaid[1]; 32],
        S::CtaidZ => [place.ctaid[2]; 32],
        S::NctaidX => [kernel.grid[0]; 32],
        S::NctaidY => [kernel.grid[1]; 32],
        S::NctaidZ => [kernel.grid[2]; 32],
        S::WarpId => [place.slot.0; 32],
        S::NwarpId => [place.slot.1.max(warps); 32],
        S::SmId => [place.sm.0; 32],
        S::NsmId => [place.sm.1; 32],
        S::GridId => [kernel.grid_id; 32],
        S::DynamicSmemSize => [kernel.dynamic_shared; 32],
        S::TotalSmemSize => [kernel.shared_bytes; 32],
        S::LocalBytes => [kernel.local_bytes; 32],
        S::Envreg => [0; 32],
    }
}
