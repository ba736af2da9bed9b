//! The program environment φ of CS §5.1.2 as the device runs it: dense decoded operations with
//! physical registers, beside the cold facts (source lines, texts, addresses before
//! transformation 6) that only reports and monitors read.

mod accesses;

use std::sync::Arc;

use serde::Serialize;
use sim_memory::vocabulary::{Scope, Semantics, WARP_LANES};

pub use self::accesses::{
    AsyncStore, BulkBytes, BulkOp, Combined, CopyOp, MbarrierOp, MbarrierPlace, MemoryOp, SharedAddress,
    TensorOp,
};
use crate::diagnostic::{Diagnostic, Source, Span};
pub use crate::isa::class::OpClass;
pub use crate::launch_bounds::LaunchBounds;
pub use crate::special_registers::{ClockRegister, SpecialRegister};

use crate::form::{BarrierKind, Beyond, Form, Geometry, ImageQuery, MipLevel, Reduction, ShflMode, VoteMode};
use crate::matrix::{MmaOp, TileElements};
use crate::wgmma::WgmmaOp;

/// A program address: the index of an operation in [`Program::ops`].
pub type Pc = u32;

/// A program address that no instruction has.
pub const NO_PC: Pc = u32::MAX;

/// A row operand: 32 lanes of 32 bits. Values below [`Row::CONST`] are rows of the warp's own
/// register block (physical registers first, then the special-register rows); from `CONST` on
/// they index [`Program::consts`]. A 64-bit value takes two consecutive rows, the first even: low
/// words, then high words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Row(pub u16);

impl Row {
    /// First constant row.
    pub const CONST: u16 = 0x8000;
    /// No operand (`_`, or a position the form does not use).
    pub const NONE: Row = Row(0x7fff);

    /// True if the operand is used.
    pub fn is_some(self) -> bool {
        self != Self::NONE
    }
}

/// A predicate operand: a predicate register of the warp, possibly negated, or a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pred(pub u16);

impl Pred {
    /// Bit that negates the predicate.
    pub const NOT: u16 = 0x8000;
    /// The constant true; `TRUE | NOT` is false. An unguarded instruction has it as its guard.
    pub const TRUE: Pred = Pred(0x7fff);
    /// No operand.
    pub const NONE: Pred = Pred(0x7ffe);

    /// Register number without the negation.
    pub fn index(self) -> usize {
        usize::from(self.0 & !Self::NOT)
    }

    /// True if the predicate is negated (`!p`).
    pub fn negated(self) -> bool {
        self.0 & Self::NOT != 0
    }

    /// True for the two constants.
    pub fn is_const(self) -> bool {
        self.0 & !Self::NOT == Self::TRUE.0
    }

    /// True if the operand is used.
    pub fn is_some(self) -> bool {
        self != Self::NONE
    }
}

/// What a texture or surface instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextureStep {
    /// `tex`.
    Sample,
    /// `tld4`.
    Gather,
    /// `suld`.
    Load,
    /// `sust`.
    Store,
    /// `sured`.
    Reduce,
    /// `txq`, `suq`, `istypep`.
    Query(ImageQuery),
}

/// A texture or surface instruction: `src[0]` is the handle of the texture or surface. Its other operands, in this
/// order, are the sample; the layer; the coordinates; the level of detail, or the derivatives along x and along y; the offsets by
/// axis; the reference value; the data, element by element; the handle of the sampler. The first four are `src[1]` to
/// `src[4]`, the others are handed over by [`OpClass::TextureOperands`] before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TextureOp {
    /// What it does.
    pub step: TextureStep,
    /// What the coordinates are.
    pub geometry: Geometry,
    /// There is a sample.
    pub samples: bool,
    /// Coordinates are integers.
    pub integer: bool,
    /// Where the mip level comes from.
    pub level: MipLevel,
    /// There are offsets.
    pub offset: bool,
    /// There is a reference value.
    pub reference: bool,
    /// There is a sampler.
    pub sampler: bool,
    /// The component that is gathered.
    pub component: u8,
    /// Results are halves: one a register, or two.
    pub halves: u8,
    /// Surfaces: what a place beyond them means, and whether x counts texels.
    pub beyond: Beyond,
    /// `.p`.
    pub formatted: bool,
    /// Operands of 64 bits, by place.
    pub wide: u16,
    /// The access to memory.
    pub memory: MemoryOp,
}

/// Operands that a texture instruction has itself.
pub const TEXTURE_OPERANDS: usize = 4;

/// Most operands that are handed over before.
pub const STAGED_OPERANDS: usize = 12;

/// Facts of the rarer classes, by which [`Op`] stays small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extra {
    /// Nothing.
    None,
    /// Where threads that a branch divided meet again: each part of the warp that comes there executes it (BSYNC), and waits behind
    /// it.
    Meets,
    /// Load, store, atomic.
    Memory(MemoryOp),
    /// Barrier: kind and reduction. `src[0]` is the barrier index, `src[1]` the thread count (or `NONE`),
    /// `psrc[0]` the predicate of `.red`; the result goes to `pdst[0]` (and, or) or `dst[0]` (popc).
    Barrier {
        /// Whether it is sync, arrive or red.
        kind: BarrierKind,
        /// The reduction of `.red`.
        reduction: Option<Reduction>,
    },
    /// The barrier of a cluster: whether the thread waits, and whether an arrival comes after its
    /// accesses.
    ClusterBarrier {
        /// `.wait`.
        wait: bool,
        /// `.release`, as where nothing is written.
        releases: bool,
    },
    /// A copy.
    Copy(CopyOp),
    /// A bulk copy.
    Bulk(BulkOp),
    /// A bulk copy of a box of a tensor.
    Tensor(TensorOp),
    /// An asynchronous store or reduction.
    StoreAsync(AsyncStore),
    /// The bulk copies to global memory since the last one are a group.
    BulkCommit,
    /// Waits for all groups of bulk copies but this many newest ones; true: until they have read.
    BulkWait(u8, bool),
    /// What was copied since the last one is a group.
    CopyCommit,
    /// Waits for all groups but this many newest ones, or for all copies.
    CopyWait(Option<u8>),
    /// An arrival at an mbarrier object after the thread's copies; true: `.noinc`.
    CopyArrive(MbarrierPlace, bool),
    /// An operation on an mbarrier object.
    Mbarrier(MbarrierOp),
    /// Vote: `psrc[0]` voted; result `pdst[0]` or, for ballot, `dst[0]`; `.sync` mask `src[0]`.
    Vote {
        /// Mode.
        mode: VoteMode,
        /// `.sync`.
        sync: bool,
    },
    /// Shuffle: `dst[0]`, optional `pdst[0]`, `src[0]` value, `src[1]` b, `src[2]` c; `.sync`
    /// mask `src[3]`.
    Shuffle {
        /// Mode.
        mode: ShflMode,
        /// `.sync`.
        sync: bool,
    },
    /// Redux: `dst[0]`, `src[0]` value, `src[1]` mask.
    Redux {
        /// Operation.
        reduction: Reduction,
        /// Signed comparison for min and max.
        signed: bool,
        /// `.f32`: whether magnitudes are reduced, and whether a NaN wins.
        float: Option<(bool, bool)>,
    },
    /// Match: `dst[0]`, optional `pdst[0]`, `src[0]` value, `src[1]` mask.
    Match {
        /// `.all`.
        all: bool,
        /// 64-bit value.
        wide: bool,
    },
    /// Scope of a fence or `membar`, and its semantics: weak for a fence between proxies, which orders no other
    /// thread's accesses.
    Membar(Scope, Semantics),
    /// Clock: width and which one.
    Clock(ClockRegister),
    /// A product of matrices.
    Mma(MmaOp),
    /// A warp's part of a product of its warpgroup.
    Wgmma(WgmmaOp),
    /// `wgmma.fence`.
    WgmmaFence,
    /// The products since the last one are a group.
    WgmmaCommit,
    /// Waits for all groups of products but this many newest ones.
    WgmmaWait(u32),
    /// `setmaxnreg`: whether registers are taken, and how many a thread has then.
    SetRegisters {
        /// `.inc`.
        take: bool,
        /// Registers of a thread.
        count: u16,
    },
    /// `ldmatrix` and `stmatrix`: the access to a row, how many matrices, and whether they are transposed.
    Tiles {
        /// Each thread's address is that of 16 bytes.
        memory: MemoryOp,
        /// Registers, each that of eight rows.
        count: u8,
        /// `.trans`.
        trans: bool,
        /// What rows are made of.
        elements: TileElements,
    },
    /// A texture or surface instruction.
    Texture(TextureOp),
    /// Operands of the texture instruction that follows: those of 64 bits, by place.
    TextureOperands(u8),
}

impl Extra {
    /// The access to memory, of a load, store, atomic, hint or copy.
    #[inline]
    pub fn access(&self) -> Option<&MemoryOp> {
        match self {
            Self::Memory(facts) => Some(facts),
            Self::Copy(copy) => Some(&copy.memory),
            Self::Bulk(bulk) => Some(&bulk.memory),
            Self::Tensor(tensor) => Some(&tensor.memory),
            Self::StoreAsync(store) => Some(&store.memory),
            Self::Tiles { memory, .. } => Some(memory),
            Self::Texture(texture) => Some(&texture.memory),
            _ => None,
        }
    }

    /// How the assembler combines the threads of an atomic.
    pub fn combined(&self) -> Option<Combined> {
        self.access()?.combined
    }

    /// Machine operations that stand beside that of the instruction.
    pub fn more_operations(&self) -> u32 {
        match self {
            Self::Copy(copy) => copy.loads_before.into(),
            _ => self.combined().map_or(0, |combined| combined.operations.into()),
        }
    }
}

/// Most scoreboard slots one operation can touch.
pub const MAX_SLOTS: usize = 12;

/// One decoded operation: all the issue stage needs, in one or two cache lines.
#[derive(Clone, Debug)]
pub struct Op {
    /// What the pipeline does.
    pub class: OpClass,
    /// Unit, as an index the chip's cost table gave (see `Program::costs`).
    pub cost: u16,
    /// Index into [`Program::forms`]: selects the lane function.
    pub form: u16,
    /// Guard; [`Pred::TRUE`] if none.
    pub guard: Pred,
    /// Destination rows (four for vector loads).
    pub dst: [Row; 4],
    /// Source rows. Loads, stores, atomics: `src[0]` is the address register (or `NONE`), then
    /// the data (`st`: up to four; `atom`: b and c).
    pub src: [Row; 5],
    /// Predicate destinations (`setp p|q`; the carry of `.cc`).
    pub pdst: [Pred; 2],
    /// Predicate sources (`setp … , c`; `selp`; the carry of `addc`).
    pub psrc: [Pred; 2],
    /// Address offset of memory operations; immediate of the class.
    pub imm: i64,
    /// Target of control flow.
    pub target: Pc,
    /// Facts by class.
    pub extra: Extra,
    /// Scoreboard slots read or written; the first `slots_used` are valid. The slot of a
    /// register is its row, that of predicate `p` is `Program::registers + p`.
    pub slots: [u16; MAX_SLOTS],
    /// Number of valid slots.
    pub slots_used: u8,
    /// How many of the slots, from the front, are written.
    pub slots_written: u8,
}

/// Where the text of an operation is: listings and messages are rare, so that it is printed when
/// one is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// An instruction of the source.
    Written(Span),
    /// Made by the lowering.
    Made(&'static str),
}

/// Cold facts of an operation.
#[derive(Clone, Debug)]
pub struct OpInfo {
    /// Line of the PTX text, from 1 (0: none, injected).
    pub line: u32,
    /// What [`Program::text`] shows.
    pub text: Text,
    /// The address of this operation in the program before transformation 6; for an injected
    /// operation, that of the next one which is not.
    pub base_pc: Pc,
    /// Made by transformation 6: counts as a control instruction, invisible to shadow pcs.
    pub injected: bool,
    /// Written by hand in the papers' dialect: counts as one too, and is part of its threads'
    /// own control flow.
    pub by_hand: bool,
    /// The base address its branch or call goes to, for control flow ([`NO_PC`] otherwise).
    pub base_target: Pc,
    /// The operation's guard is the negation of the source's: it stands for a branch whose lanes
    /// that do not branch leave a loop.
    pub inverted: bool,
    /// `.uni` was written on it.
    pub uniform_hint: bool,
    /// `.loc` of the CUDA source: file index and line.
    pub loc: Option<(u32, u32)>,
    /// Index into [`Program::functions`].
    pub function: u32,
    /// Minimum compute capability (major * 10 + minor) of the instruction.
    pub min_sm: u32,
    /// Why it is not executed, for [`OpClass::Unsupported`].
    pub unsupported: Option<Arc<str>>,
}

/// The address of the function at a place of its module.
pub fn function_address(place: usize) -> u32 {
    // Below what is ever allocated, and no null pointer.
    (place as u32 + 1) * 4
}

/// A function of the module.
#[derive(Clone, Debug)]
pub struct Function {
    /// Name of the function or parameter.
    pub name: Arc<str>,
    /// What a register that holds the function's address holds: the same in every program of a
    /// module, so that tables of functions can lie in memory. No data lies there.
    pub address: u32,
    /// Address of its first instruction.
    pub entry_pc: Pc,
    /// One past the last.
    pub end_pc: Pc,
    /// Bytes of its stack frame in local memory.
    pub frame_bytes: u32,
}

/// A kernel parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamInfo {
    /// Name of the function or parameter.
    pub name: String,
    /// Byte offset in the parameter block.
    pub offset: u32,
    /// Size in bytes.
    pub size: u32,
    /// Alignment in bytes.
    pub align: u32,
    /// The scalar type, where it is not an array.
    pub ty: Option<sim_memory::vocabulary::ScalarType>,
}

/// The control flow a program was loaded with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ControlFlow {
    /// With the instructions of transformation 6, for the token stack.
    Injected,
    /// Untransformed, for every other policy.
    Plain,
}

/// What the clean-up pass of the assembler did to the functions of a program.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, borsh::BorshSerialize, borsh::BorshDeserialize,
)]
pub struct CleanUp {
    /// Instructions before the pass.
    pub before: u32,
    /// Instructions after the pass.
    pub after: u32,
    /// Jumps between blocks that are one.
    pub jumps: u32,
    /// Operands that now name what was copied.
    pub copies: u32,
    /// Addresses that took in an addition.
    pub addresses: u32,
    /// Operands that now name a parameter.
    pub parameters: u32,
    /// Operations that give 32 bits instead of 64.
    pub narrowed: u32,
    /// Branches that became guards.
    pub guarded: u32,
    /// Instructions in front of branches that were behind them.
    pub hoisted: u32,
    /// Loops that were unrolled.
    pub unrolled: u32,
    /// Operations that went into others.
    pub fused: u32,
    /// Loads that went into wider ones.
    pub loads: u32,
    /// Instructions that fill registers with constants.
    pub filled: u32,
    /// Addresses that the access multiplies.
    pub scaled: u32,
    /// Basic blocks with another order.
    pub ordered: u32,
    /// Atomics that are one operation of the warp.
    pub atomics: u32,
    /// Sums and shifts that the multipliers do.
    pub balanced: u32,
    /// Convergence barriers.
    pub barriers: u32,
}

impl CleanUp {
    /// Adds the counts of another function.
    pub fn add(&mut self, other: &Self) {
        self.before += other.before;
        self.after += other.after;
        self.jumps += other.jumps;
        self.copies += other.copies;
        self.addresses += other.addresses;
        self.parameters += other.parameters;
        self.narrowed += other.narrowed;
        self.guarded += other.guarded;
        self.hoisted += other.hoisted;
        self.unrolled += other.unrolled;
        self.fused += other.fused;
        self.loads += other.loads;
        self.filled += other.filled;
        self.scaled += other.scaled;
        self.ordered += other.ordered;
        self.balanced += other.balanced;
        self.barriers += other.barriers;
        self.atomics += other.atomics;
    }
}

/// A kernel made ready to run: everything reachable from one entry.
#[derive(Clone, Debug)]
pub struct Program {
    /// Name of the entry.
    pub entry: Arc<str>,
    /// Which control flow the operations have.
    pub control_flow: ControlFlow,
    /// The operations; the entry starts at [`Program::entry_pc`].
    pub ops: Vec<Op>,
    /// Cold facts, one for each operation.
    pub info: Vec<OpInfo>,
    /// First instruction of the entry.
    pub entry_pc: Pc,
    /// The distinct forms; [`Op::form`] indexes them.
    pub forms: Vec<Form>,
    /// Constant rows, each value repeated over 32 lanes (64-bit values: two rows).
    pub consts: Vec<[u32; WARP_LANES]>,
    /// Constant rows that hold a word of the parameters: row, and offset of the word in bytes. A launch fills them.
    pub parameter_rows: Vec<(u16, u32)>,
    /// Rows of physical registers (64-bit values take an aligned pair).
    pub registers: u16,
    /// Predicate registers, the carry among them.
    pub predicates: u16,
    /// 32-bit registers per thread as occupancy counts them, before rounding by the chip.
    pub registers_per_thread: u32,
    /// The registers that a thread begins with where `setmaxnreg` changes them later; none where it does not.
    pub entry_registers: Option<u32>,
    /// Special registers used: row and which; rows lie at `registers..registers + specials`.
    pub specials: Vec<(Row, SpecialRegister)>,
    /// Functions, the entry first.
    pub functions: Vec<Function>,
    /// Tables of indirect branches: program addresses.
    pub tables: Vec<Vec<Pc>>,
    /// Kernel parameters in order.
    pub params: Vec<ParamInfo>,
    /// Bytes of the parameter block.
    pub param_bytes: u32,
    /// Static shared memory in bytes; dynamic shared memory starts at this offset, aligned.
    pub shared_bytes: u32,
    /// Alignment of dynamic shared memory, at least 16.
    pub dynamic_shared_align: u32,
    /// Local memory per thread in bytes: declared depots and the deepest known call chain
    /// (recursion: the chip's limit).
    pub local_bytes: u32,
    /// True if a call chain can recur.
    pub recursive: bool,
    /// Calls a thread can be in at a time; `u32::MAX` where none can recur. A frame takes
    /// [`FRAME_ALIGN`](crate::lower::tf3_stack::FRAME_ALIGN) bytes of the thread's stack at least.
    pub deepest_call: u32,
    /// What the kernel says of its launches.
    pub bounds: LaunchBounds,
    /// Notes of the lowering for the report: irreducible regions, selector registers.
    pub notes: Vec<String>,
    /// What the clean-up pass did, where it ran.
    pub clean_up: Option<CleanUp>,
    /// Most tokens one thread's control flow can have on the stack in one call frame.
    pub max_tokens: u32,
    /// The same entry with untransformed control flow, by which shadow pcs run
    /// (`None` where this program is itself plain).
    pub base: Option<Arc<Program>>,
    /// The text it comes from.
    pub source: Source,
    /// In the papers' dialect.
    pub papers: bool,
    /// Rows of the fragments that `mma` reads: A, B, C, metadata and scales, one operation after the other.
    pub fragments: Vec<Row>,
    /// Slots that operations touch and that do not fit into them; of each those come first that it writes.
    pub more_slots: Vec<u16>,
    /// Operations of the entry on registers that it may read before it writes them, in the order of their addresses.
    pub exposed: Vec<Exposed>,
}

/// What an operation does with registers that may be read before they are written, each by a number of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exposed {
    /// Address of the operation.
    pub pc: Pc,
    /// The registers that it reads.
    pub reads: Vec<u32>,
    /// Its guard predicate.
    pub guard: Option<u32>,
    /// Those that it writes.
    pub writes: Vec<u32>,
}

impl Program {
    /// Slots of an operation that do not fit into it; those come first that it writes.
    pub fn more_slots(&self, op: &Op) -> &[u16] {
        let (first, count) = match op.extra {
            Extra::Mma(MmaOp { slots: (first, count), .. }) => (first as usize, usize::from(count)),
            Extra::Wgmma(WgmmaOp { slots: (first, count), .. }) => (first as usize, usize::from(count)),
            _ => return &[],
        };
        self.more_slots.get(first..first + count).unwrap_or_default()
    }

    /// Rows of the fragments that an `mma` reads, A first.
    #[inline]
    pub fn fragments(&self, mma: &MmaOp) -> &[Row] {
        let [_, a, b, c, e, scales] = mma.registers();
        let first = mma.rows as usize;
        self.fragments.get(first..first + a + b + c + e + scales).unwrap_or_default()
    }

    /// The operations for which it cannot run: those that are parsed and checked only.
    pub fn not_executed(&self) -> Vec<Diagnostic> {
        let operations = self.ops.iter().zip(&self.info).filter(|(op, _)| op.class == OpClass::Unsupported);
        operations
            .filter_map(|(_, info)| {
                let reason = info.unsupported.as_ref()?;
                Some(self.placed(Diagnostic::error("unsupported", reason.to_string()), info))
            })
            .collect()
    }

    /// Puts a diagnostic at the instruction of the text that an operation stands for.
    pub fn placed(&self, error: Diagnostic, info: &OpInfo) -> Diagnostic {
        match info.text {
            Text::Written(span) if info.line > 0 => error.at(span, "").in_source(&self.source),
            _ => error.at_line(&self.source, info.line),
        }
    }

    /// An operation as the instruction of the text that it stands for, printed in one manner; those
    /// of the device runtime name their function, since their lines are not the user's.
    pub fn text(&self, pc: Pc) -> String {
        let Some(info) = self.info.get(pc as usize) else { return String::new() };
        let written = match info.text {
            Text::Made(text) => return text.to_string(),
            Text::Written(span) => crate::ptx::print::written(&self.source, span, self.papers),
        };
        match self.functions.get(info.function as usize).filter(|_| info.line == 0) {
            Some(function) => format!("{}: {written}", function.name),
            None => written,
        }
    }
}
