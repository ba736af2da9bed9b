//! The rows.

use super::{Entry, UnitClass};

macro_rules! isa {
    ($($variant:ident $name:literal $unit:ident $min_sm:literal $doc:literal [$($form:literal),* $(,)?] $($papers:ident)?;)+) => {
        /// Opcode roots, in the order of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "the table documents each")]
        pub enum Root { $($variant),+ }

        /// The instruction set.
        pub const TABLE: &[Entry] = &[$(Entry {
            root: Root::$variant,
            name: $name,
            doc: $doc,
            unit: UnitClass::$unit,
            min_sm: $min_sm,
            forms: &[$($form),*],
            papers: isa!(@papers $($papers)?),
        }),+];
    };
    (@papers papers) => { true };
    (@papers) => { false };
}

isa! {
    // Integer and floating-point arithmetic.
    Add "add" Alu 10 "Adds." [
        "[sat] {s32} -> d a b", "{u16 u32 u64 s16 s64} -> d a b", "{cc} {u32 s32 u64 s64} -> d a b",
        "[rn rz rm rp] [ftz] [sat] {f32} -> d a b", "[rn rz rm rp] {f64} -> d a b",
    ];
    Sub "sub" Alu 10 "Subtracts." [
        "[sat] {s32} -> d a b", "{u16 u32 u64 s16 s64} -> d a b", "{cc} {u32 s32 u64 s64} -> d a b",
        "[rn rz rm rp] [ftz] [sat] {f32} -> d a b", "[rn rz rm rp] {f64} -> d a b",
    ];
    Addc "addc" Alu 10 "Adds with the carry of the condition code." ["[cc] {u32 s32 u64 s64} -> d a b"];
    Subc "subc" Alu 10 "Subtracts with the borrow of the condition code." ["[cc] {u32 s32 u64 s64} -> d a b"];
    Mul "mul" Imul 10 "Multiplies; keeps the low or high half, or the double-width product." [
        "{lo hi} {u16 u32 u64 s16 s32 s64} -> d a b", "{wide} {u16 u32 s16 s32} -> d a b",
        "[rn rz rm rp] [ftz] [sat] {f32} -> d a b", "[rn rz rm rp] {f64} -> d a b",
    ];
    Mad "mad" Imul 10 "Multiplies and adds." [
        "{hi} {sat} {s32} -> d a b c", "{lo hi} {u16 u32 u64 s16 s32 s64} -> d a b c",
        "{wide} {u16 u32 s16 s32} -> d a b c", "{lo hi} {cc} {u32 s32 u64 s64} -> d a b c",
        "[rn rz rm rp] [ftz] [sat] {f32} -> d a b c", "[rn rz rm rp] {f64} -> d a b c",
    ];
    Madc "madc" Imul 20 "Multiplies and adds with the carry." ["{lo hi} [cc] {u32 s32 u64 s64} -> d a b c"];
    Mul24 "mul24" Imul 10 "Multiplies 24-bit values." ["{lo hi} {u32 s32} -> d a b"];
    Mad24 "mad24" Imul 10 "Multiplies 24-bit values and adds." ["{hi} {sat} {s32} -> d a b c", "{lo hi} {u32 s32} -> d a b c"];
    Div "div" Sfu 10 "Divides." [
        "{u16 u32 u64 s16 s32 s64} -> d a b", "{approx full} [ftz] {f32} -> d a b",
        "{rn rz rm rp} [ftz] {f32} -> d a b", "{rn rz rm rp} {f64} -> d a b", "[ftz] {f32 f64} -> d a b",
    ];
    Rem "rem" Sfu 10 "The remainder of integer division." ["{u16 u32 u64 s16 s32 s64} -> d a b"];
    Abs "abs" Alu 10 "The absolute value." ["{s16 s32 s64} -> d a", "[ftz] {f32} -> d a", "{f64} -> d a"];
    Neg "neg" Alu 10 "Negates." ["{s16 s32 s64} -> d a", "[ftz] {f32} -> d a", "{f64} -> d a"];
    Min "min" Alu 10 "The lesser value." ["{u16 u32 u64 s16 s32 s64} -> d a b", "[ftz] {f32} -> d a b", "{f64} -> d a b"];
    Max "max" Alu 10 "The greater value." ["{u16 u32 u64 s16 s32 s64} -> d a b", "[ftz] {f32} -> d a b", "{f64} -> d a b"];
    Popc "popc" Alu 20 "Counts one bits." ["{b32 b64} -> d:u32 a"];
    Clz "clz" Alu 20 "Counts leading zeros." ["{b32 b64} -> d:u32 a"];
    Bfind "bfind" Alu 20 "The most significant bit that is not a sign bit." ["[shiftamt] {u32 u64 s32 s64} -> d:u32 a"];
    Brev "brev" Alu 20 "Reverses bits." ["{b32 b64} -> d a"];
    Bfe "bfe" Alu 20 "Extracts a bit field." ["{u32 u64 s32 s64} -> d a b:u32 c:u32"];
    Bfi "bfi" Alu 20 "Inserts a bit field." ["{b32 b64} -> d a b c:u32 e:u32"];
    Fma "fma" Fma 13 "Fused multiply-add." ["{rn rz rm rp} [ftz] [sat] {f32} -> d a b c", "{rn rz rm rp} {f64} -> d a b c"];
    Rcp "rcp" Sfu 10 "The reciprocal." [
        "{approx} [ftz] {f32} -> d a", "{rn rz rm rp} [ftz] {f32} -> d a", "{approx} {ftz} {f64} -> d a",
        "{rn rz rm rp} {f64} -> d a", "[ftz] {f32} -> d a",
    ];
    Sqrt "sqrt" Sfu 10 "The square root." [
        "{approx} [ftz] {f32} -> d a", "{rn rz rm rp} [ftz] {f32} -> d a", "{rn rz rm rp} {f64} -> d a", "[ftz] {f32} -> d a",
    ];
    Rsqrt "rsqrt" Sfu 10 "The reciprocal of the square root." ["{approx} [ftz] {f32 f64} -> d a"];
    Sin "sin" Sfu 10 "The sine." ["[approx] [ftz] {f32} -> d a"];
    Cos "cos" Sfu 10 "The cosine." ["[approx] [ftz] {f32} -> d a"];
    Lg2 "lg2" Sfu 10 "The binary logarithm." ["[approx] [ftz] {f32} -> d a"];
    Ex2 "ex2" Sfu 10 "Two to the power." ["[approx] [ftz] {f32} -> d a"];
    Copysign "copysign" Alu 20 "The magnitude of b with the sign of a." ["{f32 f64} -> d a b"];
    // Comparison and selection.
    Setp "setp" Alu 10 "Compares into predicates." [
        "{eq ne lt le gt ge lo ls hi hs} {b16 b32 b64 u16 u32 u64 s16 s32 s64} -> q|q a b", "{eq ne lt le gt ge lo ls hi hs} {and or xor} {b16 b32 b64 u16 u32 u64 s16 s32 s64} -> q|q a b p",
        "{eq ne lt le gt ge equ neu ltu leu gtu geu num nan} [ftz] {f32 f64} -> q|q a b", "{eq ne lt le gt ge equ neu ltu leu gtu geu num nan} {and or xor} [ftz] {f32 f64} -> q|q a b p",
    ];
    Set "set" Alu 10 "Compares into a register." [
        "{eq ne lt le gt ge lo ls hi hs} {u32 s32 f32} {b16 b32 b64 u16 u32 u64 s16 s32 s64} -> d a b", "{eq ne lt le gt ge lo ls hi hs} {and or xor} {u32 s32 f32} {b16 b32 b64 u16 u32 u64 s16 s32 s64} -> d a b p",
        "{eq ne lt le gt ge equ neu ltu leu gtu geu num nan} [ftz] {u32 s32 f32} {f32 f64} -> d a b", "{eq ne lt le gt ge equ neu ltu leu gtu geu num nan} {and or xor} [ftz] {u32 s32 f32} {f32 f64} -> d a b p",
    ];
    Selp "selp" Alu 10 "Selects by a predicate." ["{b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64} -> d a b p"];
    Slct "slct" Alu 10 "Selects by a sign." ["[ftz] {b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64} {s32 f32} -> d a:dst b:dst c"];
    // Logic and shifts.
    And "and" Alu 10 "Bitwise and." ["{pred} -> q p p", "{b16 b32 b64} -> d a b"];
    Or "or" Alu 10 "Bitwise or." ["{pred} -> q p p", "{b16 b32 b64} -> d a b"];
    Xor "xor" Alu 10 "Bitwise exclusive or." ["{pred} -> q p p", "{b16 b32 b64} -> d a b"];
    Not "not" Alu 10 "Bitwise complement." ["{pred} -> q p", "{b16 b32 b64} -> d a"];
    Cnot "cnot" Alu 10 "1 for 0, else 0." ["{b16 b32 b64} -> d a"];
    Shl "shl" Alu 10 "Shifts left." ["{b16 b32 b64} -> d a b:u32"];
    Shr "shr" Alu 10 "Shifts right." ["{b16 b32 b64 u16 u32 u64 s16 s32 s64} -> d a b:u32"];
    Shf "shf" Alu 32 "Funnel shift." ["{l r} {clamp wrap} {b32} -> d a b c:u32"];
    Lop3 "lop3" Alu 50 "Any logic function of three values." ["{b32} -> d a b c e:u32"];
    Prmt "prmt" Alu 20 "Permutes bytes." ["{b32} -> d a b c", "{b32} {f4e b4e rc8 ecl ecr rc16} -> d a b c"];
    // Data movement and conversion.
    Mov "mov" Alu 10 "Moves a value, an address, or packs and unpacks vectors." [
        "{pred} -> q p", "{b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64} -> v v",
    ];
    Cvt "cvt" Convert 10 "Converts between types." [
        "[rni rzi rmi rpi rn rz rm rp] [ftz] [sat] {u8 u16 u32 u64 s8 s16 s32 s64 f16 f32 f64} {u8 u16 u32 u64 s8 s16 s32 s64 f16 f32 f64} -> d a",
    ];
    Cvta "cvta" Alu 20 "Converts between generic addresses and those of a space." [
        "[to] {const global local shared param} {u32 u64} -> d a",
    ];
    Isspacep "isspacep" Alu 20 "Tests whether a generic address lies in a space." ["{const global local shared param} -> q a:u64"];
    Ld "ld" LoadStore 10 "Loads." [
        "[weak volatile relaxed acquire] [cta cluster gpu sys] [const global local param shared shared::cta] [ca cg cs lu cv] [nc] [L2::64B L2::128B L2::256B] [v2 v4] {b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64} -> v m",
        "[global] {nc} [v2 v4] {b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64} -> v m",
    ];
    St "st" LoadStore 10 "Stores." [
        "[weak volatile relaxed release] [cta cluster gpu sys] [global local param shared shared::cta] [wb cg cs wt] [v2 v4] {b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64} -> m v",
    ];
    Prefetch "prefetch" LoadStore 20 "Brings a line to a cache." [
        "[global local] {L1 L2} -> m", "{global} {L2::evict_last L2::evict_normal} -> m",
    ];
    Atom "atom" LoadStore 11 "Reads, computes and writes in one step." [
        "[relaxed acquire release acq_rel] [cta cluster gpu sys] [global shared shared::cta] {and or xor} {b32 b64} -> d m b",
        "[relaxed acquire release acq_rel] [cta cluster gpu sys] [global shared shared::cta] {exch} {b32 b64} -> d m b",
        "[relaxed acquire release acq_rel] [cta cluster gpu sys] [global shared shared::cta] {cas} {b32 b64} -> d m b c",
        "[relaxed acquire release acq_rel] [cta cluster gpu sys] [global shared shared::cta] {add} {u32 s32 u64 f32 f64} -> d m b",
        "[relaxed acquire release acq_rel] [cta cluster gpu sys] [global shared shared::cta] {inc dec} {u32} -> d m b",
        "[relaxed acquire release acq_rel] [cta cluster gpu sys] [global shared shared::cta] {min max} {u32 s32 u64 s64} -> d m b",
    ];
    Red "red" LoadStore 12 "Computes and writes in one step." [
        "[relaxed release] [cta cluster gpu sys] [global shared shared::cta] {and or xor} {b32 b64} -> m b",
        "[relaxed release] [cta cluster gpu sys] [global shared shared::cta] {add} {u32 s32 u64 f32 f64} -> m b",
        "[relaxed release] [cta cluster gpu sys] [global shared shared::cta] {inc dec} {u32} -> m b",
        "[relaxed release] [cta cluster gpu sys] [global shared shared::cta] {min max} {u32 s32 u64 s64} -> m b",
    ];
    Membar "membar" LoadStore 10 "Waits for the thread's memory operations." ["{cta gl sys} -> "];
    Fence "fence" LoadStore 70 "Orders memory operations." ["[sc acq_rel] {cta cluster gpu sys} -> "];
    // Collectives.
    Vote "vote" Control 12 "A vote among the threads of a warp." [
        "{all any uni} {pred} -> q p", "{ballot} {b32} -> d p", "{sync} {all any uni} {pred} -> q p a:b32", "{sync} {ballot} {b32} -> d p a:b32",
        "{ballot} {sync} {b32} -> d p a:b32",
    ];
    Shfl "shfl" Control 30 "Moves values between the lanes of a warp." [
        "{up down bfly idx} {b32} -> d|q a b:u32 c:u32", "{sync} {up down bfly idx} {b32} -> d|q a b:u32 c:u32 e:b32",
    ];
    Match "match" Control 70 "Finds lanes with equal values." ["{any} {sync} {b32 b64} -> d:b32 a b:b32", "{all} {sync} {b32 b64} -> d:b32|q a b:b32"];
    Redux "redux" Control 80 "Reduces a value over lanes." ["{sync} {add min max} {u32 s32} -> d a b:b32", "{sync} {and or xor} {b32} -> d a b:b32"];
    Activemask "activemask" Control 30 "The active lanes of the warp." ["{b32} -> d"];
    // Control flow and synchronisation.
    Bra "bra" Control 10 "Branches." ["[uni] -> L"];
    Brx "brx" Control 30 "Branches through a table." ["{idx} [uni] -> a:u32 L"];
    Call "call" Control 10 "Calls a function." ["[uni] -> *"];
    Ret "ret" Control 10 "Returns from a function." ["[uni] -> "];
    Exit "exit" Control 10 "Ends the thread." [" -> "];
    Bar "bar" Control 10 "A barrier of the thread block." [
        "[warp] {sync} -> a:u32 (b:u32)", "[cta] {sync} -> a:u32 (b:u32)", "[cta] {arrive} -> a:u32 b:u32",
        "[cta] {red} {popc} {u32} -> d a:u32 (b:u32) p", "[cta] {red} {and or} {pred} -> q a:u32 (b:u32) p",
    ];
    Barrier "barrier" Control 10 "A barrier of the thread block." [
        "[cta] {sync} [aligned] -> a:u32 (b:u32)", "[cta] {arrive} [aligned] -> a:u32 b:u32",
        "[cta] {red} {popc} [aligned] {u32} -> d a:u32 (b:u32) p", "[cta] {red} {and or} [aligned] {pred} -> q a:u32 (b:u32) p",
    ];
    Nanosleep "nanosleep" Control 70 "Sleeps." ["{u32} -> a"];
    Trap "trap" Control 10 "Stops the program with a fault." [" -> "];
    // The instructions that transformation 6 injects; the papers write them.
    Ssy "ssy" Control 10 "Pushes a sync token." [" -> L"] papers;
    Sync "sync" Control 10 "Pops a token." [" -> "] papers;
    PreBrk "preBrk" Control 10 "Pushes a break token." [" -> L"] papers;
    Brk "brk" Control 10 "Leaves a loop." [" -> "] papers;
    PreRet "preRet" Control 10 "Pushes a call token." [" -> (L)"] papers;
    // Parsed, not executed.
    Sad "sad" Alu 10 "Sum of absolute differences." ["{u16 u32 u64 s16 s32 s64} -> d a b c"];
    Testp "testp" Alu 20 "Tests a property of a floating-point value." [];
    Tanh "tanh" Sfu 75 "The hyperbolic tangent." [];
    Fns "fns" Alu 30 "The n-th set bit." [];
    Szext "szext" Alu 70 "Extends a sign." [];
    Bmsk "bmsk" Alu 70 "Makes a bit mask." [];
    Dp2a "dp2a" Imul 61 "Dot product of two." [];
    Dp4a "dp4a" Imul 61 "Dot product of four." [];
    Ldu "ldu" LoadStore 20 "Loads uniform data." [];
    Prefetchu "prefetchu" LoadStore 20 "Prefetches uniform data." ["{L1} -> m"];
    Applypriority "applypriority" LoadStore 80 "Sets an eviction priority." ["[global] {L2::evict_normal} -> m e:u32"];
    Discard "discard" LoadStore 80 "Drops a line." ["[global] {L2} -> m e:u32"];
    Createpolicy "createpolicy" Alu 80 "Makes a cache policy." [];
    Cp "cp" LoadStore 80 "Copies asynchronously." [];
    Mbarrier "mbarrier" LoadStore 80 "Barrier objects in memory." [];
    Tex "tex" LoadStore 10 "Reads a texture." [];
    Tld4 "tld4" LoadStore 20 "Gathers from a texture." [];
    Txq "txq" LoadStore 20 "Queries a texture." [];
    Istypep "istypep" Alu 30 "Queries an opaque type." [];
    Suld "suld" LoadStore 20 "Loads from a surface." [];
    Sust "sust" LoadStore 20 "Stores to a surface." [];
    Sured "sured" LoadStore 20 "Reduces on a surface." [];
    Suq "suq" LoadStore 20 "Queries a surface." [];
    Wmma "wmma" Fma 70 "Warp matrix multiply." [];
    Mma "mma" Fma 70 "Matrix multiply." [];
    Wgmma "wgmma" Fma 90 "Warp-group matrix multiply." [];
    Tcgen05 "tcgen05" Fma 100 "Fifth-generation tensor core operations." [];
    Ldmatrix "ldmatrix" LoadStore 75 "Loads matrices." [];
    Stmatrix "stmatrix" LoadStore 90 "Stores matrices." [];
    Movmatrix "movmatrix" Alu 75 "Transposes a matrix." [];
    Mapa "mapa" Alu 90 "Maps a shared address to another block." [];
    Getctarank "getctarank" Alu 90 "The rank of the block that owns an address." [];
    Elect "elect" Control 90 "Elects one thread." [];
    Griddepcontrol "griddepcontrol" Control 90 "Controls dependent grids." [];
    Setmaxnreg "setmaxnreg" Control 90 "Changes the register count." [];
    Alloca "alloca" Alu 52 "Allocates stack." [];
    Stacksave "stacksave" Alu 52 "Saves the stack pointer." [];
    Stackrestore "stackrestore" Alu 52 "Restores the stack pointer." [];
    Brkpt "brkpt" Control 11 "A breakpoint." [];
    Pmevent "pmevent" Control 10 "A performance monitor event." [];
    Multimem "multimem" LoadStore 90 "Operations on multicast addresses." [];
    Tensormap "tensormap" LoadStore 90 "Changes a tensor map." [];
    Vadd "vadd" Alu 20 "Video addition." [];
    Vsub "vsub" Alu 20 "Video subtraction." [];
    Vabsdiff "vabsdiff" Alu 20 "Video absolute difference." [];
    Vmin "vmin" Alu 20 "Video minimum." [];
    Vmax "vmax" Alu 20 "Video maximum." [];
    Vshl "vshl" Alu 20 "Video shift left." [];
    Vshr "vshr" Alu 20 "Video shift right." [];
    Vmad "vmad" Alu 20 "Video multiply-add." [];
    Vset "vset" Alu 20 "Video comparison." [];
    Vadd2 "vadd2" Alu 30 "SIMD video addition of halves." [];
    Vsub2 "vsub2" Alu 30 "SIMD video subtraction of halves." [];
    Vavrg2 "vavrg2" Alu 30 "SIMD video average of halves." [];
    Vabsdiff2 "vabsdiff2" Alu 30 "SIMD video absolute difference of halves." [];
    Vmin2 "vmin2" Alu 30 "SIMD video minimum of halves." [];
    Vmax2 "vmax2" Alu 30 "SIMD video maximum of halves." [];
    Vset2 "vset2" Alu 30 "SIMD video comparison of halves." [];
    Vadd4 "vadd4" Alu 30 "SIMD video addition of bytes." [];
    Vsub4 "vsub4" Alu 30 "SIMD video subtraction of bytes." [];
    Vavrg4 "vavrg4" Alu 30 "SIMD video average of bytes." [];
    Vabsdiff4 "vabsdiff4" Alu 30 "SIMD video absolute difference of bytes." [];
    Vmin4 "vmin4" Alu 30 "SIMD video minimum of bytes." [];
    Vmax4 "vmax4" Alu 30 "SIMD video maximum of bytes." [];
    Vset4 "vset4" Alu 30 "SIMD video comparison of bytes." [];
}
