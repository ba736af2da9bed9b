//! Chip files: every constant and parameter of a GPU, checked before anything is built.

pub mod cluster;
mod footprint;
pub mod instruction_cache;
pub mod needs;
mod occupancy;
pub mod tensor;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_memory::programs::Protocol;
use sim_memory::shared::BankRule;
use sim_memory::spec::{Clocks, MemorySpec};
use sim_memory::vocabulary::Scope;

use crate::diagnostic::{Diagnostic, Source};
use crate::isa::UnitClass;
use crate::yaml::tree::Tree;
use crate::yaml::{key_span, read_checked};

pub use cluster::{ClusterSpec, TmaSpec};
pub use instruction_cache::InstructionCacheSpec;
pub use needs::Needs;
pub use occupancy::BlockNeeds;
pub use tensor::{TensorArithmetic, TensorSpec, TensorType, warpgroup_work, work};

/// A chip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChipSpec {
    /// Version of this format: 1.
    #[schemars(range(min = 1, max = 1))]
    pub schema: u32,
    /// Name of the chip.
    pub name: String,
    /// Description in one line.
    pub description: String,
    /// Compute capability, `"2.0"`.
    pub compute_capability: String,
    /// Cost table in `configs/isa`.
    pub isa: String,
    /// Reconvergence policy, unless another one is requested.
    pub default_policy: String,
    /// Warp scheduler, unless another one is requested.
    pub default_scheduler: String,
    /// Global constants (CS fig. 3.2).
    pub limits: Limits,
    /// Clock frequencies by domain.
    pub clocks: ClockSpec,
    /// Transformations of PTX before it runs.
    #[serde(default)]
    pub assembler: AssemblerSpec,
    /// Schedulers, functional units and latencies of an SM.
    pub sm: SmSpec,
    /// Tensor cores, where there are any.
    #[serde(default)]
    pub tensor: Option<TensorSpec>,
    /// Clusters of blocks, where there are any.
    #[serde(default)]
    pub cluster: Option<ClusterSpec>,
    /// The unit of bulk copies.
    #[serde(default)]
    pub tma: TmaSpec,
    /// Dispatch of blocks to SMs.
    pub dispatch: DispatchSpec,
    /// The memory environment.
    pub memory: MemorySpec,
}

/// The global constants of CS fig. 3.2, by their names there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
pub struct Limits {
    /// Blocks of a grid.
    #[schemars(range(min = 1, max = 9_223_372_036_854_775_807u64))]
    pub max_blocks_per_grid: u64,
    /// Threads of a block.
    #[schemars(range(min = 1, max = 2048))]
    pub max_threads_per_block: u32,
    /// Grid size by axis, in blocks.
    #[schemars(inner(range(min = 1, max = 2_147_483_647)))]
    pub max_grid_size: [u32; 3],
    /// Block size by axis, in threads.
    #[schemars(inner(range(min = 1, max = 2048)))]
    pub max_block_size: [u32; 3],
    /// Lanes of a warp.
    #[schemars(range(min = 1, max = 32))]
    pub warp_size: u32,
    /// Blocks resident on an SM.
    #[schemars(range(min = 1, max = 2048))]
    pub max_resident_blocks: u32,
    /// Threads resident on an SM.
    #[schemars(range(min = 1, max = 2048))]
    pub max_resident_threads: u32,
    /// Named barriers of a block.
    #[schemars(range(min = 1, max = 32))]
    pub num_barrier_indices: u32,
    /// Number of SMs.
    #[schemars(range(min = 1, max = 1023))]
    pub num_processors: u32,
    /// CUDA cores of an SM.
    #[schemars(range(min = 1, max = 4096))]
    pub num_cores: u32,
    /// Warps an SM can issue in one cycle.
    #[schemars(range(min = 1, max = 8))]
    pub num_con_warps: u32,
    /// Grids that run at the same time.
    #[schemars(range(min = 1, max = 4096))]
    pub num_con_kernels: u32,
    /// Instructions of a kernel.
    #[schemars(range(min = 1, max = 4_294_967_294u64))]
    pub max_prog_size: u64,
    /// 32-bit registers of a thread.
    #[schemars(range(min = 1, max = 1024))]
    pub max_reg_size: u32,
    /// Bytes of one memory operation.
    #[schemars(range(min = 128, max = 128))]
    pub max_mem_op_size: u32,
    /// Banks of shared memory.
    #[schemars(range(min = 16, max = 32))]
    pub shared_mem_banks: u32,
    /// Bytes of global memory.
    #[schemars(range(min = 1, max = 1_099_243_192_320u64))]
    pub global_mem_size: u64,
    /// Bytes of local memory of a thread.
    #[schemars(range(min = 0, max = 524_288))]
    pub local_mem_size: u64,
    /// Bytes of constant memory.
    #[schemars(range(min = 0, max = 1_073_741_824))]
    pub const_mem_size: u64,
    /// Bytes of shared memory of an SM.
    #[schemars(range(min = 0, max = 1_048_576))]
    pub shared_mem_size: u32,
    /// 32-bit registers of an SM.
    #[schemars(range(min = 1, max = 1_048_576))]
    pub reg_file_size: u32,
    /// Bytes of L2, all slices.
    #[serde(rename = "Level2CacheSize")]
    #[schemars(range(min = 0, max = 1_099_511_627_776u64))]
    pub level2_cache_size: u64,
    /// Bytes of L1 of an SM.
    #[serde(rename = "Level1CacheSize")]
    #[schemars(range(min = 0, max = 1_048_576))]
    pub level1_cache_size: u64,
}

/// Clock domains in megahertz; fractions of a kilohertz are not kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClockSpec {
    /// SMs, interconnect and L2.
    #[schemars(range(min = 0.001, max = 100_000.0))]
    pub core_mhz: f64,
    /// DRAM's command clock.
    #[schemars(range(min = 0.001, max = 100_000.0))]
    pub dram_mhz: f64,
}

/// Transformations of PTX before it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AssemblerSpec {
    /// Propagates copies, folds additions of constants into addresses and removes dead code, as NVIDIA's
    /// assembler does. Without it the program runs as it is written, whatever the other keys say.
    #[serde(default)]
    pub clean_up: bool,
    /// 32-bit and 64-bit parameters are operands of data operations, not loaded first, and so are constants of 64-bit sums.
    #[serde(default)]
    pub parameters: bool,
    /// How many immediates and words of constant memory an instruction has room for.
    #[serde(default)]
    pub constant_operands: ConstantOperands,
    /// Integers of 64 bits of which only the low word is read are 32-bit ones: addresses of shared, local and constant memory, and
    /// what is cut to 32 bits.
    #[serde(default)]
    pub narrow: bool,
    /// Operations of three inputs are made of two of two inputs: additions, logic, comparisons with a predicate; additions take
    /// in shifts and extensions.
    #[serde(default)]
    pub three_inputs: bool,
    /// Multiplications take in additions and shifts; those of twice the width in other basic blocks too.
    #[serde(default)]
    pub multiply_add: bool,
    /// Branches around at most so many instructions of machine code become guards of theirs; around two fewer where all threads of a
    /// warp go the same way, and around 20 with loads from global memory, or with others behind that can be executed beside them.
    #[serde(default)]
    #[schemars(range(min = 0, max = 64))]
    pub predicate: u32,
    /// Instructions that need nothing of what lies between a branch and where its ways meet again are executed in front of it.
    #[serde(default)]
    pub hoist: bool,
    /// Loops of one basic block that count by a constant are unrolled, where they are short and `.pragma "nounroll"` does not
    /// forbid it.
    #[serde(default)]
    pub unroll: bool,
    /// Loads of neighbouring words of shared memory are one load, where the address is known to be aligned.
    #[serde(default)]
    pub wide_loads: bool,
    /// Accesses of shared memory multiply the register of their address by 4, 8 or 16 (compute capability 7.0 to 8.9).
    #[serde(default)]
    pub scaled_addresses: bool,
    /// `wmma.load` of A and B in shared memory is `ldmatrix`, where rows of 16 bytes are loaded or halves are transposed
    /// (compute capability 7.5).
    #[serde(default)]
    pub load_matrix: bool,
    /// Additions and shifts are multiplications where the integer lanes have more to do than the multipliers.
    #[serde(default)]
    pub balance: bool,
    /// Instructions of a basic block are ordered by how much time depends on them, as long as registers are found: loads come
    /// early.
    #[serde(default)]
    pub schedule: bool,
    /// Atomics on integers, of which all threads of a warp name one address, are one operation of the warp.
    #[serde(default)]
    pub combine_atomics: CombineAtomics,
    /// Loads without an effect in front of the first `cp.async` of each basic block: NVIDIA's assembler writes three from 8.0 on.
    #[serde(default)]
    #[schemars(range(min = 0, max = 16))]
    pub loads_before_copies: u32,
    /// Where threads that a branch divides meet again there is a barrier, which takes an instruction there and one in front of the
    /// branch: BSSY and BSYNC from 7.0 on, SSY and SYNC before. Policies that inject instructions of their own have none besides.
    #[serde(default)]
    pub convergence_barriers: bool,
    /// Addresses that are a product of parameters and immediates with a sum are computed in uniform registers (compute capability 7.5).
    #[serde(default)]
    pub uniform_addresses: bool,
    /// Instructions that a kernel begins with besides its own: NVIDIA's assembler loads the stack pointer, and from 8.0 on a
    /// descriptor of global memory.
    #[serde(default)]
    #[schemars(range(min = 0, max = 16))]
    pub prologue: u32,
    /// Instructions that a kernel that names variables of shared memory begins with besides: from 9.0 on NVIDIA's assembler computes where
    /// they lie from the rank of the block in its cluster.
    #[serde(default)]
    #[schemars(range(min = 0, max = 16))]
    pub shared_window: u32,
    /// Registers of a thread are chosen by banks, even and odd ones: single words that are read together with a pair lie in odd
    /// registers, as long as an SM is full of warps (compute capability 7.0). With `clean_up` alone registers are counted that the
    /// programs of divisions, square roots and products hold, as before 7.0, where products are made of parts of 16 bits.
    #[serde(default)]
    pub register_banks: bool,
    /// 32-bit registers of a thread with which an SM is full of warps: orders of instructions keep to it. NVIDIA's assembler keeps to 64
    /// for 7.5, to 40 for 8.6, 8.9 and 12.0, to 32 for the others that ship; 0 stands for 32.
    #[serde(default)]
    #[schemars(range(min = 0, max = 255))]
    pub full_registers: u32,
    /// 32-bit registers that a thread has besides those that its program names.
    #[serde(default)]
    #[schemars(range(min = 0, max = 64))]
    pub reserved_registers: u32,
    /// 32-bit values of a thread that are held elsewhere, as those that all threads of a warp share are in uniform registers: with
    /// so many more than `full_registers` live, orders of instructions are tried too.
    #[serde(default)]
    #[schemars(range(min = 0, max = 64))]
    pub uniform_registers: u32,
}

/// What an instruction has room for besides registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConstantOperands {
    /// As many constants as PTX names.
    #[default]
    Any,
    /// One immediate or parameter; others are moved to registers first, within the loop that reads them (compute capability 5.0).
    One,
    /// As `one`, but parameters and the sizes of blocks and grids are loaded to uniform registers, or to those of the thread beside an immediate (9.0).
    Loaded,
}

/// What the operands of the threads of a warp are combined with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CombineAtomics {
    /// Nothing: each thread performs its own.
    #[default]
    None,
    /// Equal operands are counted, others are shuffled where all threads of the warp take part.
    Shuffles,
    /// As `shuffles`, but with `redux` where the old value is not used (compute capability 8.0).
    Redux,
}

impl AssemblerSpec {
    /// Every pass.
    pub const ALL: Self = Self {
        clean_up: true,
        parameters: true,
        constant_operands: ConstantOperands::One,
        narrow: true,
        three_inputs: true,
        multiply_add: true,
        predicate: 8,
        hoist: true,
        unroll: true,
        wide_loads: true,
        scaled_addresses: true,
        load_matrix: true,
        balance: true,
        schedule: true,
        combine_atomics: CombineAtomics::Redux,
        loads_before_copies: 3,
        convergence_barriers: true,
        uniform_addresses: false,
        prologue: 0,
        shared_window: 0,
        register_banks: true,
        full_registers: 32,
        reserved_registers: 0,
        uniform_registers: 16,
    };

    /// 32-bit registers of a thread with which an SM is full of warps.
    pub fn full(&self) -> u32 {
        if self.full_registers == 0 { 32 } else { self.full_registers }
    }
}

/// Who shares a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnitScope {
    /// Each scheduler has its own.
    Scheduler,
    /// All schedulers of the SM share them.
    Sm,
}

/// Units of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnitSpec {
    /// Number of units (lanes that operate side by side).
    #[schemars(range(min = 0, max = 128))]
    pub count: u32,
    /// For each scheduler, or for the SM.
    pub per: UnitScope,
    /// Another class that these units also serve; it has the same count.
    #[serde(default)]
    pub with: Option<UnitClass>,
}

/// The units of an SM by class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct UnitTable(BTreeMap<UnitClass, UnitSpec>);

impl UnitTable {
    /// `count` units of the SM serve both classes.
    pub fn share(&mut self, class: UnitClass, with: UnitClass, count: u32) {
        let unit = |with| UnitSpec { count, per: UnitScope::Sm, with };
        self.set(with, unit(None));
        self.set(class, unit(Some(with)));
    }

    /// These are the units of a class.
    pub fn set(&mut self, class: UnitClass, unit: UnitSpec) {
        self.0.insert(class, unit);
    }

    /// How many units of a class an SM of so many schedulers has.
    pub fn of_sm(&self, class: UnitClass, schedulers: u32) -> u32 {
        self.get(class).map_or(0, |unit| match unit.per {
            UnitScope::Scheduler => unit.count * schedulers,
            UnitScope::Sm => unit.count,
        })
    }

    /// The units of a class, if the chip has any.
    pub fn get(&self, class: UnitClass) -> Option<&UnitSpec> {
        self.0.get(&class)
    }
}

/// What registers are allocated to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RegisterAllocation {
    /// Each warp, from the part of the register file that its scheduler has (2.x and later).
    #[default]
    Warp,
    /// A whole block, whose warps count as an even number (1.x).
    Block,
}

fn one() -> u32 {
    1
}

/// Most warp schedulers that an SM may have. The engine's arrays have so many places.
pub const MAX_SCHEDULERS: usize = 8;

/// An SM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SmSpec {
    /// Warp schedulers; warp `w` belongs to scheduler `w % schedulers`.
    #[schemars(range(min = 1, max = MAX_SCHEDULERS))]
    pub schedulers: u32,
    /// Maximum number of instructions of one warp that a scheduler issues in a cycle: 1 or 2. Two are
    /// issued if the second one does not depend on a pending result and has a free unit.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 2))]
    pub issue_width: u32,
    /// Registers are allocated in multiples of this.
    #[schemars(range(min = 1, max = 65_536))]
    pub register_unit: u32,
    /// What registers are allocated to.
    #[serde(default)]
    pub register_allocation: RegisterAllocation,
    /// Bytes of shared memory that the system reserves in each block.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_048_576))]
    pub shared_reserved: u32,
    /// Maximum shared memory of a block in bytes. Default: all of the SM's.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_048_576))]
    pub shared_of_block: Option<u32>,
    /// Shared memory is allocated to blocks in multiples of this many bytes.
    #[schemars(range(min = 1, max = 1_048_576))]
    pub shared_unit: u32,
    /// Core cycles from a branch to the next issue of its split.
    #[schemars(range(min = 0, max = 100_000))]
    pub branch_latency: u32,
    /// Core cycles from the last arrival at a barrier to the next issue.
    #[schemars(range(min = 0, max = 100_000))]
    pub barrier_latency: u32,
    /// Core cycles that each arrival of a warp at a barrier takes, one after the other in an SM.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1000))]
    pub barrier_interval: u32,
    /// Core cycles that a result of the integer lanes (`alu`) takes longer to an operation of the multipliers (`fma`, `imul`),
    /// and the other way round.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1000))]
    pub pipe_crossing: u32,
    /// Core cycles that a predicate takes longer to a guard, a branch, or an operation of another unit than `alu`, `fma` and
    /// `imul`, than to arithmetic that reads it as an operand.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1000))]
    pub guard_latency: u32,
    /// Core cycles that a fence takes once the writes that it waits for are performed.
    #[serde(default)]
    pub fence: FenceSpec,
    /// Instruction caches; none: every instruction is there.
    #[serde(default)]
    pub instruction_cache: Option<InstructionCacheSpec>,
    /// Functional units by class.
    pub units: UnitTable,
}

/// Core cycles of fences, and of releases at a barrier of a cluster, by scope, besides those for which they wait for writes.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    borsh::BorshSerialize,
    borsh::BorshDeserialize,
)]
#[serde(deny_unknown_fields)]
pub struct FenceSpec {
    /// Of the block.
    #[schemars(range(min = 0, max = 100_000))]
    pub block: u32,
    /// Of the cluster and the device.
    #[schemars(range(min = 0, max = 100_000))]
    pub device: u32,
    /// Of the system.
    #[schemars(range(min = 0, max = 100_000))]
    pub system: u32,
    /// Of a fence of the cluster or device at least, from where its thread comes to it: what it takes where there is nothing to wait for.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100_000))]
    pub device_least: u32,
}

impl FenceSpec {
    /// Those of a scope.
    pub fn of(&self, scope: Scope) -> u32 {
        match scope {
            Scope::Cta => self.block,
            Scope::Cluster | Scope::Gpu => self.device,
            Scope::Sys => self.system,
        }
    }

    /// Of a fence whose thread has waited so many cycles for accesses since it came to it.
    pub fn behind(&self, scope: Scope, waited: u64) -> u32 {
        let least = match scope {
            Scope::Cluster | Scope::Gpu => self.device_least,
            Scope::Cta | Scope::Sys => 0,
        };
        let left = u64::from(least).saturating_sub(waited);
        self.of(scope).max(u32::try_from(left).unwrap_or(least))
    }
}

/// Block dispatch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DispatchSpec {
    /// Core cycles for a message from the dispatcher to an SM.
    #[schemars(range(min = 1, max = 100_000))]
    pub latency: u32,
    /// Core cycles for a message from an SM to the dispatcher.
    #[schemars(range(min = 1, max = 100_000))]
    pub done_latency: u32,
    /// Blocks dispatched in a core cycle.
    #[schemars(range(min = 1, max = 1024))]
    pub blocks_per_cycle: u32,
    /// Core cycles at least from one block that an SM takes to the next, once a block has ended there. No bound where it is 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100_000))]
    pub replacement_interval: u32,
    /// Core cycles from a launch to its first dispatch.
    #[schemars(range(min = 0, max = 10_000_000))]
    pub launch_latency: u32,
}

impl ChipSpec {
    /// Reads and checks a chip file.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn load(source: &Source) -> Result<Self, Vec<Diagnostic>> {
        let chip: Self = read_checked(source)?;
        let errors: Vec<Diagnostic> = chip
            .problems()
            .into_iter()
            .map(|(path, reason)| {
                let parts: Vec<&str> = path.split('.').collect();
                let diagnostic = Diagnostic::error("chip", format!("{path}: {reason}")).in_source(source);
                match key_span(source, &parts) {
                    Some(span) => diagnostic.at(span, ""),
                    None => diagnostic,
                }
            })
            .collect();
        if errors.is_empty() { Ok(chip) } else { Err(errors) }
    }

    /// The chip of a file that was read before, with other values; none where it is for [`load`](Self::load) to say
    /// what is wrong with them.
    pub fn with(file: &Tree, set: &[(&str, &str)]) -> Option<Self> {
        let chip: Self = file.with(set)?;
        chip.problems().is_empty().then_some(chip)
    }

    /// Whether this chip has what a program needs.
    pub fn has(&self, needs: &Needs) -> bool {
        let limits = &self.limits;
        let threads: u64 = needs.block.iter().map(|n| u64::from(*n)).product();
        let blocks: u128 = needs.grid.iter().map(|n| u128::from(*n)).product();
        let within =
            |sizes: &[u32; 3], most: &[u32; 3]| sizes.iter().zip(most).all(|(size, most)| size <= most);
        self.capability() >= needs.capability
            && needs.instructions <= limits.max_prog_size
            && within(&needs.grid, &limits.max_grid_size)
            && blocks <= u128::from(limits.max_blocks_per_grid)
            && within(&needs.block, &limits.max_block_size)
            && threads <= u64::from(limits.max_threads_per_block)
            && needs.registers <= limits.max_reg_size
            && needs.shared <= u64::from(self.shared_of_block())
            && needs.local <= limits.local_mem_size
            // A block of that many threads may still need more registers than an SM has.
            && (threads == 0
                || self.occupancy(self.block_needs(threads as u32, needs.registers, needs.shared as u32)).0 > 0)
    }

    /// Compute capability as major * 10 + minor.
    pub fn capability(&self) -> u32 {
        let (major, minor) = self.compute_capability.split_once('.').unwrap_or(("0", "0"));
        major.parse::<u32>().unwrap_or(0) * 10 + minor.parse::<u32>().unwrap_or(0)
    }

    /// Clocks in kilohertz.
    pub fn clocks(&self) -> Clocks {
        let khz = |mhz: f64| (mhz * 1000.0).round() as u64;
        Clocks::new(khz(self.clocks.core_mhz), khz(self.clocks.dram_mhz))
    }

    /// Bytes a second that the data buses of all DRAM channels can move.
    pub fn dram_bandwidth(&self) -> f64 {
        let dram = &self.memory.dram;
        let each = f64::from(dram.burst_bytes) / f64::from(dram.burst_cycles);
        each * self.clocks().dram_khz as f64 * 1e3 * f64::from(self.memory.partitions)
    }

    fn problems(&self) -> Vec<(String, String)> {
        let mut out: Vec<(String, String)> =
            self.memory.validate().into_iter().map(|e| (format!("memory.{}", e.path), e.reason)).collect();
        let l = &self.limits;
        let mut check = |good: bool, path: &str, reason: &str| {
            if !good {
                out.push((path.to_string(), reason.to_string()));
            }
        };
        // It is printed as it is.
        let printable = !self.name.is_empty() && !self.name.chars().any(char::is_control);
        check(printable, "name", "must be a text without control characters");
        check(self.capability() >= 10, "compute_capability", "must be written as \"major.minor\"");
        check(
            l.max_resident_threads >= l.max_threads_per_block,
            "limits.MaxResidentThreads",
            "must be at least MaxThreadsPerBlock",
        );
        check(
            l.warp_size > 0 && l.max_resident_threads.is_multiple_of(l.warp_size.max(1)),
            "limits.MaxResidentThreads",
            "must be a multiple of WarpSize",
        );
        check(
            l.max_resident_threads / l.warp_size.max(1) <= 64,
            "limits.MaxResidentThreads",
            "must be at most 64 × WarpSize",
        );
        check(
            l.num_cores > 0 && l.num_cores.is_multiple_of(self.sm.schedulers.max(1)),
            "limits.NumCores",
            "must be a positive multiple of sm.schedulers",
        );
        let banks = if self.memory.shared.banks == BankRule::HalfWarps { 16 } else { 32 };
        check(
            l.shared_mem_banks == banks,
            "limits.SharedMemBanks",
            "must match memory.shared.banks: 16 for half_warps, else 32",
        );
        check(
            u64::from(self.memory.l1.size_bytes) == l.level1_cache_size,
            "limits.Level1CacheSize",
            "must equal memory.l1.size_bytes",
        );
        if let Some(unified) = &self.memory.unified {
            check(
                unified.shared_bytes.last() == Some(&l.shared_mem_size),
                "limits.SharedMemSize",
                "must equal the largest of memory.unified.shared_bytes",
            );
        }
        check(
            u64::from(self.memory.l2.size_bytes) * u64::from(self.memory.partitions) == l.level2_cache_size,
            "limits.Level2CacheSize",
            "must equal memory.l2.size_bytes × memory.partitions",
        );
        for unit in self.sm.units.0.values() {
            if let Some(with) = unit.with {
                let other = self.sm.units.get(with);
                let same = other.is_some_and(|o| (o.count, o.per, o.with) == (unit.count, unit.per, None));
                check(
                    same,
                    "sm.units",
                    "`with` must name a unit class with the same `count` and `per` and no `with`",
                );
            }
        }
        let caches = [("memory.l1", &self.memory.l1), ("memory.l2", &self.memory.l2)];
        let uncached = self.memory.protocol == Protocol::Tesla && self.memory.programs.is_empty();
        for (path, cache) in caches {
            check(
                cache.size_bytes > 0 || uncached,
                path,
                "size_bytes may be 0 only with protocol tesla and no memory programs",
            );
        }
        check(
            self.memory.l2.size_bytes > 0 || !self.memory.copies_fill_l2,
            "memory.copies_fill_l2",
            "requires an L2 (memory.l2.size_bytes above 0)",
        );
        check(l.num_con_warps == self.sm.schedulers, "limits.NumConWarps", "must equal sm.schedulers");
        let units = self.sm.units.get(UnitClass::Tensor).is_some_and(|unit| unit.count > 0);
        check(
            self.tensor.is_none() || units,
            "tensor",
            "needs units: `tensor` in sm.units, with a count above 0",
        );
        if let Some(cluster) = &self.cluster {
            check(
                cluster.max_blocks <= cluster.max_blocks_non_portable,
                "cluster.max_blocks",
                "must be at most cluster.max_blocks_non_portable",
            );
            check(
                cluster.latency > self.memory.shared.latency + 1,
                "cluster.latency",
                "must be more than memory.shared.latency and a cycle each way",
            );
        }
        out.extend(self.tensor.iter().flat_map(TensorSpec::problems));
        out.extend(self.sm.instruction_cache.iter().flat_map(InstructionCacheSpec::problems));
        out
    }
}

#[cfg(test)]
mod tests;
