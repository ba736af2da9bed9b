//! What instructions do, and what that means to those who analyse and execute programs.

/// What the pipeline does with an operation; data operations carry their lane function by form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum OpClass {
    /// A data operation (dop, mov, setp, cvt, cvta, isspacep …) computed by a lane function.
    Data,
    /// Reads a changing special register (`%clock`, `%clock64`, `%globaltimer`).
    Clock,
    /// `ld` from parameters of the kernel: address = `imm` + optional register `src[0]`.
    LoadParam,
    /// `ld` (see [`Op::memory`](crate::program::Op)).
    Load,
    /// `st`.
    Store,
    /// `atom` and `red` (red has no destination).
    Atomic,
    /// `membar`, `fence`.
    Membar,
    /// `prefetch` and other hints to the caches (see [`MemoryOp::hint`](crate::program::MemoryOp::hint)).
    Hint,
    /// `cp.async` and its groups: `src[0]` and `imm` are the global address, `src[1]` is the base of
    /// the shared one, `src[2]` the bytes to read, `psrc[0]` is true where none are.
    Copy,
    /// `mbarrier`: `src[0]` and `imm` are the object's address, `src[1]` is the operand.
    Mbarrier,
    /// Textures and surfaces: `src[0]` is the handle, what follows are the first four of the operands that
    /// [`TextureOp`](crate::program::TextureOp) lists.
    Texture,
    /// The operands of the texture instruction that follows, beyond those that it has room for: up to five, `imm` is
    /// the place of the first.
    TextureOperands,
    /// Direct branch to `target`.
    Branch,
    /// Indirect branch (`brx.idx`): table `imm` of [`Program::tables`](crate::program::Program::tables), index in `src[0]`.
    BranchIndirect,
    /// Direct call of the function at `target`.
    Call,
    /// Indirect call: program address in `src[0]`.
    CallIndirect,
    /// Return from a function.
    Return,
    /// Ends a thread.
    Exit,
    /// Injected: push a sync token for `target`.
    Ssy,
    /// Injected: pop (CS →CRS sync).
    Sync,
    /// Injected: push a break token for `target`.
    PreBreak,
    /// Break: of the papers' dialect, injected, or a branch of the text that leaves a loop.
    Break,
    /// Injected: push a call token for `target`.
    PreReturn,
    /// `bar`, `barrier`.
    Barrier,
    /// `vote`, old and `.sync`.
    Vote,
    /// `shfl`, old and `.sync`.
    Shuffle,
    /// `match.sync`.
    Match,
    /// `redux.sync`.
    Redux,
    /// `elect.sync`: `dst[0]`, optional `pdst[0]`, `src[0]` mask.
    Elect,
    /// `activemask`.
    ActiveMask,
    /// `bar.warp.sync`.
    WarpSync,
    /// `mma`: a product of matrices whose fragments the threads of a warp hold (see
    /// [`MmaOp`](crate::matrix::MmaOp)).
    Mma,
    /// `wgmma`: a warp's part of a product of its warpgroup, and the groups of products (see
    /// [`WgmmaOp`](crate::wgmma::WgmmaOp)). `src[0]` is the descriptor of A, where A is in shared memory,
    /// `src[1]` that of B, `psrc[0]` says whether C is added.
    Wgmma,
    /// `setmaxnreg`: registers move between a warp and the pool of its block.
    SetRegisters,
    /// `movmatrix`: `dst[0]`, `src[0]`.
    MoveMatrix,
    /// `ldmatrix`: `src[0]` and `imm` are the address of a row.
    LoadMatrix,
    /// `stmatrix`: as `ldmatrix`, with the data from `src[1]` on.
    StoreMatrix,
    /// `nanosleep`.
    Sleep,
    /// `trap`: a fault.
    Trap,
    /// Parsed but not executed: reaching it is a fault that names it.
    Unsupported,
}

/// What an instruction of a class may do besides writing its destinations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// It may go elsewhere than to the next instruction, or pushes or pops a token.
    pub control: bool,
    /// It reads memory that other threads may write.
    pub loads: bool,
    /// It may wait for other threads.
    pub waits: bool,
    /// Its result depends on other lanes of the warp.
    pub lanes: bool,
    /// Its result may differ between the lanes of a warp where its operands do not.
    pub differs: bool,
}

impl OpClass {
    /// What its instructions may do.
    #[inline]
    pub const fn effects(self) -> Effects {
        const NONE: Effects =
            Effects { control: false, loads: false, waits: false, lanes: false, differs: false };
        match self {
            Self::Data
            | Self::Clock
            | Self::LoadParam
            | Self::Store
            | Self::Membar
            | Self::Hint
            | Self::TextureOperands
            | Self::Sleep
            | Self::Trap
            | Self::Unsupported => NONE,
            Self::Load => Effects { loads: true, ..NONE },
            Self::Copy => Effects { loads: true, ..NONE },
            // Waits at mbarrier objects are loops of tests.
            // Some operands of a texture instruction are those of the one before.
            Self::Atomic | Self::Mbarrier | Self::Texture => Effects { loads: true, differs: true, ..NONE },
            Self::Branch
            | Self::BranchIndirect
            | Self::Call
            | Self::CallIndirect
            | Self::Return
            | Self::Exit
            | Self::Ssy
            | Self::Sync
            | Self::PreBreak
            | Self::Break
            | Self::PreReturn => Effects { control: true, ..NONE },
            Self::Barrier => Effects { waits: true, lanes: true, ..NONE },
            Self::WarpSync => Effects { waits: true, ..NONE },
            Self::Vote | Self::Redux => Effects { waits: true, lanes: true, ..NONE },
            Self::Shuffle | Self::Match | Self::Elect => {
                Effects { waits: true, lanes: true, differs: true, ..NONE }
            }
            Self::ActiveMask => Effects { lanes: true, ..NONE },
            Self::Mma | Self::MoveMatrix | Self::StoreMatrix => {
                Effects { waits: true, lanes: true, differs: true, ..NONE }
            }
            Self::Wgmma => Effects { loads: true, waits: true, lanes: true, differs: true, ..NONE },
            Self::SetRegisters => Effects { waits: true, ..NONE },
            Self::LoadMatrix => Effects { loads: true, waits: true, lanes: true, differs: true, ..NONE },
        }
    }

    /// A call, direct or not.
    pub const fn is_call(self) -> bool {
        matches!(self, Self::Call | Self::CallIndirect)
    }

    /// It goes where a value says.
    pub const fn is_indirect(self) -> bool {
        matches!(self, Self::BranchIndirect | Self::CallIndirect)
    }

    /// It is of the token stack: pushes a token or pops one.
    pub const fn is_of_stack(self) -> bool {
        matches!(self, Self::Ssy | Self::Sync | Self::PreBreak | Self::Break | Self::PreReturn)
    }
}
