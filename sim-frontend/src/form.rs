//! A *form* is one fully resolved shape of an instruction: root, types, modifiers. The table in
//! [`isa`](crate::isa) resolves text to forms; lane functions, cost tables and the printer are
//! selected by them.

use sim_memory::priority::Priority;
use sim_memory::vocabulary::{AtomicOp, CacheOp, ScalarType, Scope, Semantics, StateSpace};

use crate::isa::table::Root;
use crate::matrix::Matrix;
use crate::tensor_map::MapField;

/// Rounding of a result (PTX ISA "Rounding Modifiers").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are the PTX modifiers")]
pub enum Rounding {
    Rn,
    Rs,
    Rna,
    Rz,
    Rm,
    Rp,
    Rni,
    Rzi,
    Rmi,
    Rpi,
}

/// Comparison operators of `setp` and `set`; the `u` forms are true when an operand is NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are the PTX modifiers")]
pub enum CmpOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Lo,
    Ls,
    Hi,
    Hs,
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    Num,
    Nan,
}

/// How `setp`/`set` combine the comparison with their predicate operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are the PTX modifiers")]
pub enum BoolOp {
    And,
    Or,
    Xor,
}

/// Which part of a product `mul`, `mad` and the 24-bit forms keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are the PTX modifiers")]
pub enum Half {
    Lo,
    Hi,
    Wide,
}

/// `.approx` and `.full` of `div`, `rcp`, `sqrt`, `sin` …
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are the PTX modifiers")]
pub enum Accuracy {
    Approx,
    Full,
}

/// `vote` modes (CS §5.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are the PTX modifiers")]
pub enum VoteMode {
    All,
    Any,
    Uni,
    Ballot,
}

/// `shfl` modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are the PTX modifiers")]
pub enum ShflMode {
    Up,
    Down,
    Bfly,
    Idx,
}

/// `prmt` modes; the generic form has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are the PTX modifiers")]
pub enum PrmtMode {
    F4e,
    B4e,
    Rc8,
    Ecl,
    Ecr,
    Rc16,
}

/// Properties `testp` asks for; zeros count as normal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are the PTX modifiers")]
pub enum FloatTest {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}

/// The secondary operation of a video instruction, with its third source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are the PTX modifiers")]
pub enum VideoSecondary {
    Add,
    Min,
    Max,
}

/// Which part of an operand a video instruction takes (PTX ISA "Scalar Video Instructions",
/// "SIMD Video Instructions"). Four bits a lane of the result: scalar instructions have one,
/// which is 0 for the word, 1 to 4 for `.b0` to `.b3`, 5 and 6 for `.h0` and `.h1`; a source of
/// a SIMD instruction has one for each part, which counts the parts of a, then those of b; a
/// destination of a SIMD instruction is a mask of its parts.
pub type VideoSelect = u16;

/// What a video instruction does besides its types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Video {
    /// Parts of the destination, a and b.
    pub select: [VideoSelect; 3],
    /// `.add`, `.min`, `.max` with c.
    pub secondary: Option<VideoSecondary>,
    /// `vmad`: a minus stands before a, b, c.
    pub negate: [bool; 3],
    /// `vmad`: `.shr7`, `.shr15`; 0 where there is none.
    pub scale: u8,
    /// `vmad.po`.
    pub plus_one: bool,
}

/// What a `cp.async` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are the PTX modifiers")]
pub enum CopyStep {
    Copy,
    CommitGroup,
    WaitGroup,
    WaitAll,
    /// `.mbarrier.arrive`.
    Arrive,
    /// `.bulk`: a copy of many bytes by one thread.
    Bulk,
    /// `.bulk.commit_group`.
    BulkCommit,
    /// `.bulk.wait_group`.
    BulkWait,
    /// `st.async` and `red.async`.
    Store,
}

/// How a bulk copy of a tensor goes through it (PTX ISA "Tiled mode", "im2col mode").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TensorMode {
    /// `.tile`: a box.
    #[default]
    Tile,
    /// `.tile::gather4`, `.tile::scatter4`: four rows of two dimensions.
    Four,
    /// `.im2col`, `.im2col_no_offs`: pixels of a bounding box.
    Im2col,
    /// `.im2col::w`: pixels along W, and those of a halo behind them.
    W,
    /// `.im2col::w::128`: 128 pixels along W, a halo behind each 32.
    W128,
}

/// Between which spaces a bulk copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BulkWay {
    /// From global memory to shared memory of blocks of the cluster.
    Load,
    /// From the block's shared memory to global memory; with an operation, a reduction there.
    Store,
    /// From the block's shared memory to that of a block of the cluster.
    Between,
    /// From global memory into L2.
    Prefetch,
    /// `clusterlaunchcontrol.try_cancel`: the block scheduler's answer goes to shared memory.
    Cancel {
        /// To that of all blocks of the cluster.
        everywhere: bool,
    },
}

/// What an `mbarrier` operation does besides its kind.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, borsh::BorshSerialize, borsh::BorshDeserialize,
)]
pub struct MbarrierOptions {
    /// `.expect_tx`: the operand is a number of bytes, and one arrival follows.
    pub expect_tx: bool,
    /// `.noComplete`.
    pub no_complete: bool,
    /// `.parity`: the operand is a parity, not a state.
    pub parity: bool,
}

/// What a `createpolicy` makes a policy of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are the PTX modifiers")]
pub enum PolicyStep {
    Fractional,
    Range,
    Convert,
}

/// What an `mbarrier` does.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, borsh::BorshSerialize, borsh::BorshDeserialize,
)]
#[allow(missing_docs, reason = "the names are the PTX modifiers")]
pub enum MbarrierStep {
    Init,
    Inval,
    Arrive,
    ArriveDrop,
    TestWait,
    TryWait,
    PendingCount,
    ExpectTx,
    CompleteTx,
}

/// What a `bar`/`barrier` does when it is reached (CS §5.5.1).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, borsh::BorshSerialize, borsh::BorshDeserialize,
)]
#[allow(missing_docs, reason = "the names are the PTX modifiers")]
pub enum BarrierKind {
    Sync,
    Arrive,
    Red,
    WarpSync,
}

/// Reductions of `bar.red` (CS §5.5.1 reduce) and of `redux`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, borsh::BorshSerialize, borsh::BorshDeserialize,
)]
#[allow(missing_docs, reason = "the names are the PTX modifiers")]
pub enum Reduction {
    And,
    Or,
    Xor,
    Popc,
    Add,
    Min,
    Max,
}

/// The coordinates of a texture or surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Geometry {
    /// x.
    One,
    /// x, y.
    Two,
    /// x, y, z.
    Three,
    /// A layer, and x.
    OneArray,
    /// A layer, and x, y.
    TwoArray,
    /// A direction.
    Cube,
    /// A layer of six faces, and a direction.
    CubeArray,
}

impl Geometry {
    /// Axes within a slice or volume.
    pub fn axes(self) -> usize {
        match self {
            Self::One | Self::OneArray => 1,
            Self::Three => 3,
            Self::Two | Self::TwoArray | Self::Cube | Self::CubeArray => 2,
        }
    }

    /// A layer is the first of the coordinates.
    pub fn layered(self) -> bool {
        matches!(self, Self::OneArray | Self::TwoArray | Self::CubeArray)
    }

    /// A direction selects a face.
    pub fn cube(self) -> bool {
        matches!(self, Self::Cube | Self::CubeArray)
    }

    /// Coordinates besides the layer.
    pub fn coordinates(self) -> usize {
        if self.cube() { 3 } else { self.axes() }
    }
}

/// What a place beyond a surface means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Beyond {
    /// A fault.
    Trap,
    /// The nearest place of the surface.
    Clamp,
    /// Loads give zero, stores are dropped.
    Zero,
}

/// Where the mip level of a lookup comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MipLevel {
    /// The first.
    #[default]
    Base,
    /// `.level`: an operand.
    Detail,
    /// `.grad`: derivatives.
    Gradient,
}

/// What `txq`, `suq` and `istypep` ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are the PTX modifiers")]
pub enum ImageQuery {
    Width,
    Height,
    Depth,
    ChannelDataType,
    ChannelOrder,
    NormalizedCoords,
    ForceUnnormalizedCoords,
    FilterMode,
    AddrMode(u8),
    ArraySize,
    NumMipmapLevels,
    NumSamples,
    MemoryLayout,
    /// `istypep.texref`.
    IsTexture,
    /// `istypep.samplerref`.
    IsSampler,
    /// `istypep.surfref`.
    IsSurface,
}

/// Modifiers of texture and surface instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ImageModifiers {
    /// `.1d`, `.a2d` and the like.
    pub geometry: Option<Geometry>,
    /// `.2dms`, `.a2dms`: a sample of several is the first of the coordinates.
    pub samples: bool,
    /// `.base`, `.level`, `.grad`.
    pub level: MipLevel,
    /// The component that `tld4` gathers.
    pub component: u8,
    /// `.trap`, `.clamp`, `.zero`.
    pub beyond: Option<Beyond>,
    /// `.p`: x counts texels, and data is converted.
    pub formatted: bool,
    /// What is asked for.
    pub query: Option<ImageQuery>,
}

/// Every modifier an instruction of the table may carry besides its types. A modifier that a
/// root does not take stays at its default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the PTX modifiers")]
pub struct Modifiers {
    pub rounding: Option<Rounding>,
    pub ftz: bool,
    pub sat: bool,
    /// `add` of three operands, which only assemblers write.
    pub third: bool,
    /// `mad` by a power of two that is a sum with a shift, to the left or, of `.hi`, to the right, or with an extension (LEA), which only
    /// assemblers write.
    pub shifted: bool,
    /// `cvt` to `.tf32` whose low bits nothing reads, which only assemblers know.
    pub unmasked: bool,
    pub accuracy: Option<Accuracy>,
    pub half: Option<Half>,
    pub cmp: Option<CmpOp>,
    pub bool_op: Option<BoolOp>,
    /// `.cc`: writes the carry.
    pub cc: bool,
    /// `.uni` of `bra`, `call`, `ret`.
    pub uni: bool,
    /// `.sync` of the collectives.
    pub sync: bool,
    /// `.wrap` (false: `.clamp`) of `shf`.
    pub wrap: bool,
    /// `.l` (false: `.r`) of `shf`.
    pub left: bool,
    pub shiftamt: bool,
    /// Elements per operand: 1, `.v2` or `.v4`.
    pub vector: u8,
    pub space: Option<StateSpace>,
    /// `cvta.to.space`, or `cvta.space` when false.
    pub to: bool,
    pub cache: Option<CacheOp>,
    /// `.nc`: through the read-only data cache.
    pub non_coherent: bool,
    pub semantics: Semantics,
    pub scope: Option<Scope>,
    pub atomic: Option<AtomicOp>,
    pub vote: Option<VoteMode>,
    pub shfl: Option<ShflMode>,
    pub prmt: Option<PrmtMode>,
    pub barrier: Option<BarrierKind>,
    pub reduction: Option<Reduction>,
    /// `match.any` / `match.all`: true for all.
    pub match_all: bool,
    /// `.oob`: an operand that stands for a value beyond an array makes the result zero.
    pub out_of_bounds: bool,
    /// `.relu`: negative results become zero.
    pub relu: bool,
    /// `.satfinite`: results beyond the format become its largest finite value.
    pub satfinite: bool,
    /// `.scaled::n2::ue8m0`: values are divided or multiplied by scales.
    pub scaled: bool,
    /// `.NaN` of `min` and `max`: a NaN wins.
    pub propagate_nan: bool,
    /// `.xorsign.abs` of `min` and `max`: magnitudes are compared, signs multiplied.
    pub xorsign_abs: bool,
    /// `.abs` of `redux`: magnitudes are reduced.
    pub abs: bool,
    /// `cvt.pack`.
    pub pack: bool,
    /// Bits of the values that `cvt.pack` packs and whether they are signed, where no type of registers says it.
    pub narrow: Option<(u8, bool)>,
    /// `.L1::evict_first` and the like, `.L2::128B` and the like.
    pub level_hint: bool,
    /// `.L2::cache_hint`: the last operand is a cache policy.
    pub cache_hint: bool,
    /// `.L1::no_allocate`.
    pub no_allocate: bool,
    /// `.L2::evict_first` and the like: the eviction priority in L2.
    pub l2_priority: Option<Priority>,
    /// `createpolicy`: the second priority that is written.
    pub other_priority: Option<Priority>,
    /// `createpolicy`.
    pub policy: Option<PolicyStep>,
    /// `testp`.
    pub test: Option<FloatTest>,
    /// The type of the first source where two are written: dot products and video.
    pub a_type: Option<ScalarType>,
    /// Video instructions.
    pub video: Video,
    /// `cp.async`.
    pub copy: Option<CopyStep>,
    /// Between which spaces a bulk copy goes.
    pub bulk: Option<BulkWay>,
    /// Dimensions of a bulk copy of a tensor, 0 for other copies.
    pub tensor: u8,
    /// How a bulk copy of a tensor goes through it.
    pub tensor_mode: TensorMode,
    /// `.cta_group::2`: the mbarrier object may be the peer block's.
    pub pair: bool,
    /// `.cp_mask`: a mask says which of each 16 bytes are copied.
    pub byte_mask: bool,
    /// `.ignore_oob`: bytes at both ends may lie beyond a buffer.
    pub ignore_beyond: bool,
    /// A fence for tensor maps.
    pub map_proxy: bool,
    /// The field of `tensormap.replace`.
    pub map_field: Option<MapField>,
    /// `.read` of `cp.async.bulk.wait_group`.
    pub bulk_read: bool,
    /// `.multicast::cluster`.
    pub multicast: bool,
    /// `.noinc` of `cp.async.mbarrier.arrive`.
    pub no_inc: bool,
    pub mbarrier: Option<MbarrierStep>,
    pub mbarrier_options: MbarrierOptions,
    /// The space is written `.shared::cluster`.
    pub shared_cluster: bool,
    /// `barrier.cluster`: true for `.wait`.
    pub cluster_wait: Option<bool>,
    /// Instructions on matrices.
    pub matrix: Option<Matrix>,
    /// Textures and surfaces.
    pub image: ImageModifiers,
}

impl Modifiers {
    /// None: one element per operand.
    pub fn plain() -> Self {
        Self { vector: 1, ..Self::default() }
    }
}

/// One fully resolved instruction shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Form {
    /// The opcode root, from the table.
    pub root: Root,
    /// The type of the result; equals `ty` for instructions that name one type. For `mul.wide`
    /// and `mad.wide` it is the double-width type.
    pub dst: ScalarType,
    /// The (last written) type: of the operands, and of the source in `cvt`, `set`, `slct`.
    /// Instructions without a type have [`ScalarType::B32`].
    pub ty: ScalarType,
    /// Storage width in bits (16, 32 or 64) of the destination register where it may exceed the
    /// type (`cvt`, `ld`), else the width of `dst` rounded up to a register.
    pub dst_reg: u8,
    /// The same for the (first) source register (`cvt`, `st`).
    pub src_reg: u8,
    /// The modifiers.
    pub mods: Modifiers,
}

impl Form {
    /// `root.type` without modifiers.
    pub fn plain(root: Root, ty: ScalarType) -> Self {
        let bits = register_bits(ty);
        Self { root, dst: ty, ty, dst_reg: bits, src_reg: bits, mods: Modifiers::plain() }
    }

    /// It reads the rank of the thread's block as a last source, which is not written.
    pub fn asks_for_rank(&self) -> bool {
        let own = self.mods.space == Some(StateSpace::Shared) && !self.mods.shared_cluster;
        self.root == Root::Getctarank || self.root == Root::Isspacep && own
    }

    /// Eight words, or four elements of 64 bits.
    pub fn is_of_256_bits(&self) -> bool {
        self.ty.bits() >= 32 && u32::from(self.mods.vector) * self.ty.bits() == 256
    }

    /// `setp.cmp.type`.
    pub fn compare(cmp: CmpOp, ty: ScalarType) -> Self {
        let mods = Modifiers { cmp: Some(cmp), ..Modifiers::plain() };
        Self { mods, ..Self::plain(Root::Setp, ty) }
    }

    /// True for forms of one opcode as it is written that are equal: what operands decide is
    /// compared, which are types, widths of registers, parts of vectors and of video operands.
    pub fn same_of_opcode(&self, other: &Self) -> bool {
        let by_operands = |form: &Self| (form.dst, form.ty, form.dst_reg, form.src_reg, form.mods.vector);
        by_operands(self) == by_operands(other) && self.mods.video == other.mods.video
    }
}

/// Bits of the register that holds a value of a type.
pub fn register_bits(ty: ScalarType) -> u8 {
    match ty.bits() {
        0..=16 => 16,
        17..=32 => 32,
        _ => 64,
    }
}
