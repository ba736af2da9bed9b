//! The resident blocks of an SM: what the instructions of their warps work on.

use std::collections::BTreeMap;
use std::sync::Arc;

use sim_frontend::chip::TensorArithmetic;
use sim_frontend::program::{NO_PC, Pc};
use sim_frontend::workload::UndefinedValues;
use sim_memory::address_space::Allocations;
use sim_memory::device_memory::DeviceMemory;
use sim_memory::hundredths::Hundredths;
use sim_memory::observation::{Event, ObjectAction};
use sim_memory::shared::{BankLocks, BankRule};
use sim_memory::vocabulary::{Cycle, LaneMask};

use super::constant_cache::ConstantCache;
use super::meet::Meeting;
use super::request::Requests;
use crate::barrier::{BarrierEnv, Completed};
use crate::block::Block;
use crate::bulk::Job;
use crate::by_split::BySplit;
use crate::cluster_barrier::ClusterBarrier;
use crate::code::DecodedOp;
use crate::grid::Kernel;
use crate::instruction_set::InstructionSet;
use crate::lookups::Lookups;
use crate::monitor::Check;
use crate::packet::Packet;
use crate::reconvergence::{Cost, Reconvergence, SplitId};
use crate::registers::first_lane;
use crate::tensor::Scratch;
use crate::tensor_counts::TensorCounts;
use crate::tensor_map::BYTES;
use crate::texture::Bindings;
use crate::warp::{Tracked, Warp, WarpPlace};
use crate::writes::Writes;

/// What one step did, as far as its caller must act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub enum Step {
    /// Results of the operation's own latency.
    Done,
    /// Results that take `latency` cycles from now and hold the unit for `occupancy`.
    DoneAfter {
        /// Cycles until the results can be read.
        latency: u32,
        /// Cycles until the unit takes the next operation.
        occupancy: u32,
        /// Turns that the banks needed, or cycles that the constant cache did.
        turns: u32,
    },
    /// [`Resident::requests`] holds accesses to global or local memory, in order. Part of a
    /// generic access may already have happened in shared memory.
    Access,
    /// The policy chose the next instruction.
    Control,
    /// As `Control`, where the threads had issued their indirect branch before: the policy let others
    /// go first.
    Again,
    /// The split waits at a barrier or for other lanes of a collective; no scheduler considers it
    /// until it appears in [`Resident::touched`].
    Parked,
    /// The warp has begun its part of a product of its warpgroup.
    Product {
        /// Cycles for which shared memory is read for the warps of the group together.
        shared: u32,
    },
    /// The split waits this many cycles for products.
    Wait(u64),
    /// The split sleeps for this many cycles.
    Sleep(u64),
}

/// Latencies of accesses that never leave the SM, in core cycles.
#[derive(Clone, Copy, Debug)]
pub struct LocalLatency {
    /// A conflict-free shared access.
    pub shared: u32,
    /// What each further turn of lanes that conflict adds to it.
    pub conflict: u32,
    /// How long the banks are in use in a turn.
    pub turn: u32,
    /// A shared atomic without conflicts.
    pub shared_atomic: u32,
    /// How long it locks its banks.
    pub atomic_interval: u32,
    /// A constant-cache hit of one address.
    pub constant: u32,
    /// The same of an address in a register.
    pub indexed: u32,
    /// Each further address of a constant access.
    pub address_interval: Hundredths,
    /// Banks of shared memory.
    pub banks: u32,
    /// Which lanes conflict in a bank.
    pub bank_rule: BankRule,
}

impl LocalLatency {
    /// What a constant access of so many addresses is: it takes its latency, and each address behind the first its interval.
    #[inline]
    pub fn of_constant(&self, addresses: u32) -> Step {
        self.of_lines(self.constant, addresses, 0)
    }

    /// The latency of a load or store of shared memory that takes `turns` at the banks, where it would take `least` without conflicts.
    #[inline(always)]
    pub fn of_turns(&self, turns: u32, least: u32) -> u32 {
        let conflicts = turns.saturating_sub(least.max(1));
        let others = turns.saturating_sub(1) - conflicts;
        self.shared + others * self.turn + conflicts * self.conflict.max(self.turn)
    }

    /// The same of a latency, where some of the addresses take so many hundredths of a cycle more.
    #[inline]
    pub fn of_lines(&self, latency: u32, addresses: u32, missing: u64) -> Step {
        let more = self.address_interval.times(addresses.saturating_sub(1)) + missing;
        let more = Hundredths::cycle(more) as u32;
        Step::DoneAfter { latency: latency + more, occupancy: 1 + more, turns: 1 + more }
    }
}

/// Facts all SMs share while a device runs.
#[derive(Clone, Debug)]
pub struct World {
    /// Global memory of the device.
    pub memory: Arc<DeviceMemory>,
    /// Textures, surfaces and samplers by handle.
    pub textures: Arc<Bindings>,
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
    /// Run-time checks.
    pub check: Check,
    /// What becomes of values that PTX leaves undefined, unless nothing is checked.
    pub undefined: UndefinedValues,
    /// The registers that each thread has written are known.
    pub track_registers: bool,
    /// How tensor cores add, where the chip has any.
    pub tensor: Option<TensorArithmetic>,
    /// The workload says its results depend on the schedule.
    pub schedule_dependent: bool,
}

/// What an instruction has read of values that PTX leaves undefined.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct UndefinedReads {
    /// The kernel of the instruction.
    #[borsh(serialize_with = "crate::state::write_kernel", deserialize_with = "crate::state::read_kernel")]
    pub kernel: Arc<Kernel>,
    /// Lanes that have read them, summed over issues.
    pub lanes: u64,
}

/// The resident blocks of one SM and the policy that runs them.
#[derive(Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Resident<P> {
    /// Number of the SM.
    pub sm: u32,
    /// Facts shared by all SMs.
    #[borsh(serialize_with = "sim_memory::links::named", deserialize_with = "sim_memory::links::linked")]
    pub world: Arc<World>,
    /// Warp slots.
    pub warps: Vec<Warp>,
    /// Barriers since they were last taken, while memory is observed.
    #[borsh(skip)]
    pub observed: Option<Vec<Event>>,
    /// What stays on the SM is observed too.
    pub on_chip: bool,
    /// Number of the next packet, or copy that waits for its tensor map, that is observed.
    pub(super) tickets: u32,
    /// While an operation on mbarrier objects is observed: its address, and what it does.
    pub(super) object_action: (Pc, ObjectAction),
    /// Block slots.
    pub blocks: Vec<Option<Block>>,
    /// Kernels with blocks here, by index.
    #[borsh(serialize_with = "crate::state::write_kernels", deserialize_with = "crate::state::read_kernels")]
    pub kernels: Vec<Arc<Kernel>>,
    /// The reconvergence policy of the SM.
    pub policy: P,
    /// Splits whose state changed in the last step, besides the one that ran.
    pub touched: Vec<SplitId>,
    /// What the last step did, data operations aside. It stays here rather than in a result: a
    /// result put together from parts stalls whoever reads it whole.
    pub outcome: Step,
    /// Accesses the last step asks for.
    pub requests: Requests,
    /// Packets to blocks of clusters that are still to be sent.
    pub outgoing: Vec<Packet>,
    /// Bulk copies that are still to be made.
    pub jobs: Vec<Job>,
    /// Tensor maps that have arrived for them, by the numbers of their accesses.
    pub maps: Vec<(u64, [u8; BYTES])>,
    /// Lookups of textures under way.
    pub lookups: Lookups,
    /// Per split: the address, before transformation 6, of the instruction it must execute next;
    /// [`NO_PC`] where that is for the shadow pcs of its lanes to say.
    pub expected: BySplit<Pc, P>,
    /// What the policy charged for the step.
    pub charge: Cost,
    /// The policy regrouped threads since they were last checked.
    pub(super) changed: bool,
    /// Per split: barriers it waits at.
    pub waits: BySplit<u32, P>,
    /// Locks of the banks of shared memory, and the cycle of the step.
    pub(super) locks: BankLocks,
    /// Cycles from the first to the last turn of the last step's lanes at banks that atomics lock.
    pub lock_wait: u32,
    pub(super) now: Cycle,
    /// Changes of shared memory are counted, and of all memory in the functional mode.
    pub watching: bool,
    /// Number of counted changes of memory.
    pub changes: u64,
    /// Lanes of `.sync` collectives that wait for others.
    pub meetings: Vec<Meeting>,
    /// Warps whose last thread ended in this step.
    pub ended: Vec<usize>,
    /// Room for the lanes of a barrier instruction, by barrier and count.
    pub(super) groups: Vec<(u32, Option<u32>, LaneMask)>,
    /// Room for the barriers an instruction completes.
    pub(super) completed: Vec<Completed>,
    pub(crate) admissions: u64,
    /// What the last collective did.
    pub(super) computed: Step,
    /// Values that PTX leaves undefined, as they are counted: by grid and instruction.
    pub undefined: BTreeMap<(u32, Pc), UndefinedReads>,
    /// What tensor cores did.
    pub tensor: TensorCounts,
    /// Room for products of matrices, once there has been one.
    #[borsh(skip)]
    pub(super) scratch: Option<Box<Scratch>>,
    /// Of constant memory, where constants take their time.
    pub(crate) constants: Option<Box<ConstantCache>>,
    /// Warp slots as `%nwarpid` gives them.
    slots: u32,
}

impl<P: Reconvergence> Resident<P> {
    /// No blocks yet, `warp_slots` warps and `block_slots` blocks at most.
    pub fn new(sm: u32, world: Arc<World>, policy: P, warp_slots: usize, block_slots: usize) -> Self {
        let banks = world.latency.banks;
        Self {
            sm,
            world,
            warps: (0..warp_slots).map(|_| Warp::default()).collect(),
            observed: None,
            on_chip: false,
            tickets: 0,
            object_action: (NO_PC, ObjectAction::Count),
            blocks: (0..block_slots).map(|_| None).collect(),
            kernels: Vec::new(),
            policy,
            touched: Vec::new(),
            outcome: Step::Done,
            requests: Requests::default(),
            outgoing: Vec::new(),
            jobs: Vec::new(),
            maps: Vec::new(),
            lookups: Lookups::default(),
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
            computed: Step::Done,
            undefined: BTreeMap::new(),
            tensor: TensorCounts::default(),
            scratch: None,
            constants: None,
            slots: warp_slots as u32,
        }
    }

    /// A run begins in which nothing has happened here yet, nor in the last one.
    pub(crate) fn enter(&mut self, world: &Arc<World>) {
        self.world = Arc::clone(world);
        (self.observed, self.on_chip, self.watching) = (None, false, false);
    }

    /// Makes it, with no block resident, what [`new`](Self::new) makes, in the memory it has.
    pub(crate) fn reset(&mut self, new: &Arc<World>, fresh: P) {
        debug_assert!(self.blocks.iter().all(Option::is_none), "all blocks have ended");
        // All fields, so that a new one is not forgotten. Requests are written before they are read.
        let Self {
            sm: _,
            world,
            warps,
            observed,
            on_chip,
            tickets,
            object_action,
            blocks,
            kernels,
            policy,
            touched,
            outcome,
            requests,
            outgoing,
            jobs,
            maps,
            lookups,
            expected,
            charge,
            changed,
            waits,
            locks,
            lock_wait,
            now,
            watching,
            changes,
            meetings,
            ended,
            groups,
            completed,
            admissions,
            computed,
            undefined,
            tensor,
            scratch: _,
            constants,
            slots: _,
        } = self;
        *world = Arc::clone(new);
        // The others are as they were made.
        warps.iter_mut().filter(|warp| warp.threads != 0).for_each(Warp::reset);
        (*observed, *on_chip, *tickets, *object_action) = (None, false, 0, (NO_PC, ObjectAction::Count));
        blocks.fill_with(|| None);
        kernels.clear();
        *policy = fresh;
        touched.clear();
        *outcome = Step::Done;
        requests.clear();
        outgoing.clear();
        jobs.clear();
        maps.clear();
        lookups.reset();
        expected.fill(NO_PC);
        (*charge, *changed) = (Cost::default(), false);
        waits.fill(0);
        locks.reset();
        (*lock_wait, *now, *watching, *changes) = (0, 0, false, 0);
        meetings.clear();
        ended.clear();
        groups.clear();
        completed.clear();
        *admissions = 0;
        *computed = Step::Done;
        undefined.clear();
        *tensor = TensorCounts::default();
        if let Some(constants) = constants {
            constants.clear();
        }
    }

    /// Warp and block slots grow to these numbers, for [`Functional`](crate::functional::Functional), which begins with
    /// those of one SM; `%nwarpid` stays what it is.
    pub(crate) fn grow(&mut self, warps: usize, blocks: usize) {
        self.warps.resize_with(warps, Warp::default);
        self.blocks.resize_with(blocks, || None);
        self.policy.grow(warps);
        self.expected.grow(warps, NO_PC);
        self.waits.grow(warps, 0);
    }

    /// Sets the number of warp slots that `%nwarpid` gives.
    pub(crate) fn set_slots(&mut self, slots: usize) {
        self.slots = slots as u32;
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
                slot: (w as u32, self.slots),
            };
            let warp = &mut self.warps[w];
            warp.admit(kernel, self.world.warp_size, place);
            warp.tracked = match self.world.track_registers {
                true => Tracked::new(&kernel.code, warp.threads),
                false => None,
            };
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
            registers: None,
            product_reads: Vec::new(),
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
    pub fn next_decoded(&self, split: SplitId) -> Option<&DecodedOp> {
        let warp = &self.warps[self.warp_of(split)];
        self.kernels[warp.kernel].code.decoded.get(self.policy.pc(split) as usize)
    }

    /// The place of an instruction, for messages.
    pub fn where_is(&self, w: usize, pc: Pc, lanes: LaneMask, cycle: Cycle) -> crate::error::Location {
        let warp = &self.warps[w];
        let kernel = self.kernels.get(warp.kernel);
        let info = kernel.and_then(|k| k.code.program.info.get(pc as usize));
        crate::error::Location {
            kernel: kernel.map_or_else(|| "".into(), |k| Arc::clone(&k.name)),
            block: self.blocks.get(warp.block).and_then(Option::as_ref).map_or([0; 3], |b| b.index),
            thread: kernel.map_or([0; 3], |k| {
                let [x, y, _] = k.block.map(|n| n.max(1));
                let thread = warp.index * k.warp_size + first_lane(lanes) as u32;
                [thread % x, thread / x % y, thread / x / y]
            }),
            warp: warp.index,
            lane: first_lane(lanes) as u32,
            pc,
            file: kernel.map_or_else(|| "".into(), |k| Arc::clone(&k.code.program.source.name)),
            line: info.map_or(0, |i| i.line),
            instruction: kernel.map_or_else(|| "".into(), |k| k.code.program.text(pc).into()),
            sm: self.sm,
            cycle,
        }
    }
}
