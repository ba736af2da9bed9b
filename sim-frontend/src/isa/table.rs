//! The rows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::class::OpClass;
use super::products::{MMA, WGMMA, WMMA};

/// The unit that executes an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum UnitClass {
    /// Integer, logic, comparison, move.
    Alu,
    /// Single-precision add, multiply, fused multiply-add.
    Fma,
    /// Integer multiplication.
    Imul,
    /// Double precision.
    Fp64,
    /// Conversions between types of different kind or size.
    Convert,
    /// Special functions and what is built from them.
    Sfu,
    /// Loads, stores, atomics, fences.
    LoadStore,
    /// Branches, barriers, collectives.
    Control,
    /// Products of matrices.
    Tensor,
}

impl UnitClass {
    /// All classes, in the order of their numbers.
    pub const ALL: [UnitClass; 9] = [
        UnitClass::Alu,
        UnitClass::Fma,
        UnitClass::Imul,
        UnitClass::Fp64,
        UnitClass::Convert,
        UnitClass::Sfu,
        UnitClass::LoadStore,
        UnitClass::Control,
        UnitClass::Tensor,
    ];
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The root of the opcode.
    pub root: Root,
    /// Its name in PTX.
    pub name: &'static str,
    /// One line of documentation.
    pub doc: &'static str,
    /// The unit of its integer or only forms; floating-point forms of arithmetic go to
    /// [`UnitClass::Fma`] and [`UnitClass::Fp64`].
    pub unit: UnitClass,
    /// What its instructions do, where their form does not say otherwise.
    pub class: OpClass,
    /// Least target (major * 10 + minor).
    pub min_sm: u32,
    /// Its forms, in the grammar that `isa.rs` describes; `~` before those that are parsed only.
    pub forms: &'static [&'static str],
    /// What is special about it.
    pub kind: Kind,
}

/// What is special about a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An ordinary row.
    Ordinary,
    /// It exists in the papers' dialect only.
    Papers,
    /// The program has other instructions in its place.
    Rewritten,
    /// A video instruction: its sources are elements of a word, of types of their own.
    Video {
        /// Elements of a word that it works on.
        elements: u32,
    },
}

impl Entry {
    /// True if it exists in the papers' dialect only.
    pub fn papers(&self) -> bool {
        self.kind == Kind::Papers
    }

    /// True for video instructions.
    pub fn is_video(&self) -> bool {
        matches!(self.kind, Kind::Video { .. })
    }

    /// True if lanes compute it, each its own.
    pub fn of_lanes(&self) -> bool {
        self.class == OpClass::Data && self.kind != Kind::Rewritten
    }

    /// True if some form of this root is executed.
    pub fn executed(&self) -> bool {
        self.forms.iter().any(|form| !form.starts_with('~'))
    }
}

/// Least target of a modifier, where the form without it has a lesser one.
pub fn word_target(root: Root, word: &str) -> u32 {
    let memory = matches!(root, Root::Ld | Root::St | Root::Atom | Root::Red);
    match word {
        "L2::cache_hint" | "L2::256B" => 80,
        "L2::64B" | "L2::128B" => 75,
        "weak" | "relaxed" | "acquire" | "release" | "acq_rel" if memory => 70,
        "cluster" if memory || matches!(root, Root::Fence | Root::Mbarrier) => 90,
        "cta" | "gpu" | "sys" if matches!(root, Root::Atom | Root::Red) => 60,
        "param" | "param::entry" if matches!(root, Root::Cvta | Root::Isspacep) => 70,
        "shared::cluster" if memory || matches!(root, Root::Cvta | Root::Isspacep) => 90,
        "base" | "level" | "grad" | "a1d" | "a2d" | "cube" | "acube" if root == Root::Tex => 20,
        "f16" | "f16x2" if root == Root::Tex => 53,
        _ => 0,
    }
}

macro_rules! isa {
    ($($variant:ident $name:literal $unit:ident $class:ident $min_sm:literal $doc:literal $forms:tt $($kind:ident)?;)+) => {
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
            class: OpClass::$class,
            min_sm: $min_sm,
            forms: &$forms,
            kind: isa!(@kind $($kind)?),
        }),+];
    };
    (@kind) => { Kind::Ordinary };
    (@kind papers) => { Kind::Papers };
    (@kind rewritten) => { Kind::Rewritten };
    (@kind video) => { Kind::Video { elements: 1 } };
    (@kind simd2) => { Kind::Video { elements: 2 } };
    (@kind simd4) => { Kind::Video { elements: 4 } };
}

/// Forms of `abs` and `neg`.
const SIGN: [&str; 5] = [
    "{s16 s32 s64} -> d a",
    "[ftz] {f32} -> d a",
    "@13 {f64} -> d a",
    "@53 [ftz] {f16 f16x2} -> d a",
    "@80 {bf16 bf16x2} -> d a",
];
/// Forms of `min` and `max`.
const EXTREMUM: [&str; 13] = [
    "{$int} -> d a b",
    "@90 {u16x2} -> d a b",
    "@90 [relu] {s16x2} -> d a b",
    "@90 {relu} {s32} -> d a b",
    "[ftz] {f32} -> d a b (c)",
    "@80 [ftz] {NaN} {f32} -> d a b (c)",
    "@86 [ftz] [NaN] {xorsign} {abs} {f32} -> d a b",
    "@13 {f64} -> d a b",
    "@80 [ftz] [NaN] {f16 f16x2} -> d a b",
    "@86 [ftz] [NaN] {xorsign} {abs} {f16 f16x2} -> d a b",
    "@80 [NaN] {bf16 bf16x2} -> d a b",
    "@86 [NaN] {xorsign} {abs} {bf16 bf16x2} -> d a b",
    "@100 [ftz] [NaN] {abs} {f32} -> d a b c",
];
/// Forms that many video instructions share.
const VIDEO: &str = "{u32 s32} {u32 s32} {u32 s32} [sat] -> y x x (c:dst)";
const VIDEO_SECONDARY: &str = "{u32 s32} {u32 s32} {u32 s32} [sat] {add min max} -> d x x c:dst";
const VIDEO_SHIFT: &str = "{u32 s32} {u32 s32} {u32} [sat] {clamp wrap} -> y x x (c:dst)";
const VIDEO_SHIFT_SECONDARY: &str =
    "{u32 s32} {u32 s32} {u32} [sat] {clamp wrap} {add min max} -> d x x c:dst";
const SIMD: &str = "{u32 s32} {u32 s32} {u32 s32} [sat] -> y x x c:dst";
const SIMD_ADD: &str = "{u32 s32} {u32 s32} {u32 s32} {add} -> y x x c:dst";
const SIMD_SET: &str = "{u32 s32} {u32 s32} {eq ne lt le gt ge} [add] -> y:u32 x x c:u32";

isa! {
    // Integer and floating-point arithmetic.
    Add "add" Alu Data 10 "Adds." [
        "[sat] {s32} -> d a b", "{u16 u32 u64 s16 s64} -> d a b", "{cc} {u32 s32 u64 s64} -> d a b", "@90 {u16x2 s16x2} -> d a b",
        "[$rnd] [ftz] [sat] {f32} -> d a b", "@13 [$rnd] {f64} -> d a b", "@100 [$rnd] [ftz] {f32x2} -> d a b",
        "@53 [rn] [ftz] [sat] {f16 f16x2} -> d a b", "@90 [rn] {bf16 bf16x2} -> d a b",
        "@100 [$rnd] [sat] {f32} {f16 bf16} -> d a:b16 b:f32",
    ];
    Sub "sub" Alu Data 10 "Subtracts." [
        "[sat] {s32} -> d a b", "{u16 u32 u64 s16 s64} -> d a b", "{cc} {u32 s32 u64 s64} -> d a b",
        "[$rnd] [ftz] [sat] {f32} -> d a b", "@13 [$rnd] {f64} -> d a b", "@100 [$rnd] [ftz] {f32x2} -> d a b",
        "@53 [rn] [ftz] [sat] {f16 f16x2} -> d a b", "@90 [rn] {bf16 bf16x2} -> d a b",
        "@100 [$rnd] [sat] {f32} {f16 bf16} -> d a:b16 b:f32",
    ];
    Addc "addc" Alu Data 10 "Adds with the carry of the condition code." ["[cc] {u32 s32 u64 s64} -> d a b"];
    Subc "subc" Alu Data 10 "Subtracts with the borrow of the condition code." ["[cc] {u32 s32 u64 s64} -> d a b"];
    Mul "mul" Imul Data 10 "Multiplies; keeps the low or high half, or the double-width product." [
        "{lo hi} {$int} -> d a b", "{wide} {u16 u32 s16 s32} -> d a b",
        "[$rnd] [ftz] [sat] {f32} -> d a b", "@13 [$rnd] {f64} -> d a b", "@100 [$rnd] [ftz] {f32x2} -> d a b",
        "@53 [rn] [ftz] [sat] {f16 f16x2} -> d a b", "@90 [rn] {bf16 bf16x2} -> d a b",
    ];
    Mad "mad" Imul Data 10 "Multiplies and adds." [
        "{hi} {sat} {s32} -> d a b c", "{lo hi} {$int} -> d a b c",
        "{wide} {u16 u32 s16 s32} -> d a b c:dst", "@20 {lo hi} {cc} {u32 s32 u64 s64} -> d a b c",
        "@20 {$rnd} [ftz] [sat] {f32} -> d a b c", "!20 [ftz] [sat] {f32} -> d a b c", "@13 {$rnd} {f64} -> d a b c",
    ];
    Madc "madc" Imul Data 20 "Multiplies and adds with the carry." ["{lo hi} [cc] {u32 s32 u64 s64} -> d a b c"];
    Mul24 "mul24" Imul Data 10 "Multiplies 24-bit values." ["{lo hi} {u32 s32} -> d a b"];
    Mad24 "mad24" Imul Data 10 "Multiplies 24-bit values and adds." ["{hi} {sat} {s32} -> d a b c", "{lo hi} {u32 s32} -> d a b c"];
    Sad "sad" Alu Data 10 "Sum of absolute differences." ["{$int} -> d a b c"];
    Div "div" Sfu Data 10 "Divides." [
        "{$int} -> d a b", "{approx full} [ftz] {f32} -> d a b",
        "@20 {$rnd} [ftz] {f32} -> d a b", "@13 {$rnd} {f64} -> d a b", "!1.4 [ftz] {f32} -> d a b", "!1.4 {f64} -> d a b",
    ];
    Rem "rem" Sfu Data 10 "The remainder of integer division." ["{$int} -> d a b"];
    Abs "abs" Alu Data 10 "The absolute value." SIGN;
    Neg "neg" Alu Data 10 "Negates." SIGN;
    Min "min" Alu Data 10 "The lesser value." EXTREMUM;
    Max "max" Alu Data 10 "The greater value." EXTREMUM;
    Fma "fma" Fma Data 13 "Fused multiply-add." [
        "@20 {$rnd} [ftz] [sat] {f32} -> d a b c", "{$rnd} {f64} -> d a b c", "@100 {$rnd} [ftz] {f32x2} -> d a b c",
        "@53 {rn} [ftz] [sat] {f16 f16x2} -> d a b c", "@80 {rn} [ftz] {relu} {f16 f16x2} -> d a b c", "@80 {rn} [relu] {bf16 bf16x2} -> d a b c",
        "@90 {rn} {oob} [relu] {f16 f16x2 bf16 bf16x2} -> d a b c", "@100 {$rnd} [sat] {f32} {f16 bf16} -> d a:b16 b:b16 c:f32",
    ];
    Rcp "rcp" Sfu Data 10 "The reciprocal." [
        "{approx} [ftz] {f32} -> d a", "@20 {$rnd} [ftz] {f32} -> d a", "@20 {approx} {ftz} {f64} -> d a",
        "@13 {$rnd} {f64} -> d a", "!1.4 [ftz] {f32} -> d a", "!1.4 {f64} -> d a",
    ];
    Sqrt "sqrt" Sfu Data 10 "The square root." [
        "{approx} [ftz] {f32} -> d a", "@20 {$rnd} [ftz] {f32} -> d a", "@13 {$rnd} {f64} -> d a", "!1.4 [ftz] {f32} -> d a", "!1.4 {f64} -> d a",
    ];
    Rsqrt "rsqrt" Sfu Data 10 "The reciprocal of the square root." ["{approx} [ftz] {f32} -> d a", "@13 {approx} [ftz] {f64} -> d a"];
    Sin "sin" Sfu Data 10 "The sine." ["{approx} [ftz] {f32} -> d a", "!1.4 [ftz] {f32} -> d a"];
    Cos "cos" Sfu Data 10 "The cosine." ["{approx} [ftz] {f32} -> d a", "!1.4 [ftz] {f32} -> d a"];
    Lg2 "lg2" Sfu Data 10 "The binary logarithm." ["{approx} [ftz] {f32} -> d a", "!1.4 [ftz] {f32} -> d a"];
    Ex2 "ex2" Sfu Data 10 "Two to the power." [
        "{approx} [ftz] {f32} -> d a", "!1.4 [ftz] {f32} -> d a", "@75 {approx} {f16 f16x2} -> d a", "@90 {approx} {ftz} {bf16 bf16x2} -> d a",
    ];
    Tanh "tanh" Sfu Data 75 "The hyperbolic tangent." ["{approx} {f32 f16 f16x2} -> d a", "@90 {approx} {bf16 bf16x2} -> d a"];
    Copysign "copysign" Alu Data 20 "The magnitude of b with the sign of a." ["{f32 f64} -> d a b"];
    Testp "testp" Alu Data 20 "Tests a property of a floating-point value." [
        "{finite infinite number notanumber normal subnormal} {f32 f64} -> q a",
    ];
    Dp4a "dp4a" Imul Data 61 "Dot product of four bytes, added to c." ["{u32 s32} {u32 s32} -> d:u32 a:b32 b:b32 c:u32"];
    Dp2a "dp2a" Imul Data 61 "Dot product of two halves and two bytes, added to c." ["{lo hi} {u32 s32} {u32 s32} -> d:u32 a:b32 b:b32 c:u32"];
    // Comparison and selection.
    Setp "setp" Alu Data 10 "Compares into predicates." [
        "{$icmp} {$words} -> q|q a b", "{$icmp} {and or xor} {$words} -> q|q a b p",
        "{$fcmp} [ftz] {f32} -> q|q a b", "{$fcmp} {and or xor} [ftz] {f32} -> q|q a b p",
        "@13 {$fcmp} {f64} -> q|q a b", "@13 {$fcmp} {and or xor} {f64} -> q|q a b p",
        "@53 {$fcmp} [ftz] {f16} -> q a b", "@53 {$fcmp} {and or xor} [ftz] {f16} -> q a b p",
        "@53 {$fcmp} [ftz] {f16x2} -> q|q a b", "@53 {$fcmp} {and or xor} [ftz] {f16x2} -> q|q a b p",
        "@90 {$fcmp} {bf16} -> q a b", "@90 {$fcmp} {and or xor} {bf16} -> q a b p",
        "@90 {$fcmp} {bf16x2} -> q|q a b", "@90 {$fcmp} {and or xor} {bf16x2} -> q|q a b p",
    ];
    Set "set" Alu Data 10 "Compares into a register." [
        "{$icmp} {u32 s32 f32} {$words} -> d a b", "{$icmp} {and or xor} {u32 s32 f32} {$words} -> d a b p",
        "{$fcmp} [ftz] {u32 s32 f32} {f32} -> d a b", "{$fcmp} {and or xor} [ftz] {u32 s32 f32} {f32} -> d a b p",
        "@13 {$fcmp} {u32 s32 f32} {f64} -> d a b", "@13 {$fcmp} {and or xor} {u32 s32 f32} {f64} -> d a b p",
        "@53 {$icmp} {f16} {$words} -> d a b", "@53 {$icmp} {and or xor} {f16} {$words} -> d a b p",
        "@53 {$fcmp} [ftz] {f16} {f32} -> d a b", "@53 {$fcmp} {and or xor} [ftz] {f16} {f32} -> d a b p",
        "@53 {$fcmp} {f16} {f64} -> d a b", "@53 {$fcmp} {and or xor} {f16} {f64} -> d a b p",
        "@90 {$icmp} {bf16} {$words} -> d a b", "@90 {$icmp} {and or xor} {bf16} {$words} -> d a b p",
        "@90 {$fcmp} {bf16} {f16 f32 f64} -> d a b", "@90 {$fcmp} {and or xor} {bf16} {f16 f32 f64} -> d a b p",
        "@53 {$fcmp} [ftz] {f16 u16 s16 u32 s32} {f16} -> d a b", "@53 {$fcmp} {and or xor} [ftz] {f16 u16 s16 u32 s32} {f16} -> d a b p",
        "@53 {$fcmp} [ftz] {f16x2 u32 s32} {f16x2} -> d a b", "@53 {$fcmp} {and or xor} [ftz] {f16x2 u32 s32} {f16x2} -> d a b p",
        "@90 {$fcmp} {bf16 u16 s16 u32 s32} {bf16} -> d a b", "@90 {$fcmp} {and or xor} {bf16 u16 s16 u32 s32} {bf16} -> d a b p",
        "@90 {$fcmp} {bf16x2 u32 s32} {bf16x2} -> d a b", "@90 {$fcmp} {and or xor} {bf16x2 u32 s32} {bf16x2} -> d a b p",
    ];
    Selp "selp" Alu Data 10 "Selects by a predicate." ["{$words f32} -> d a b p", "@13 {f64} -> d a b p"];
    Slct "slct" Alu Data 10 "Selects by a sign." ["{$words f32 f64} {s32} -> d a:dst b:dst c", "[ftz] {$words f32 f64} {f32} -> d a:dst b:dst c"];
    // Logic, shifts and bits.
    And "and" Alu Data 10 "Bitwise and." ["{pred} -> q p p", "{b16 b32 b64} -> d a b"];
    Or "or" Alu Data 10 "Bitwise or." ["{pred} -> q p p", "{b16 b32 b64} -> d a b"];
    Xor "xor" Alu Data 10 "Bitwise exclusive or." ["{pred} -> q p p", "{b16 b32 b64} -> d a b"];
    Not "not" Alu Data 10 "Bitwise complement." ["{pred} -> q p", "{b16 b32 b64} -> d a"];
    Cnot "cnot" Alu Data 10 "1 for 0, else 0." ["{b16 b32 b64} -> d a"];
    Shl "shl" Alu Data 10 "Shifts left." ["{b16 b32 b64} -> d a b:u32"];
    Shr "shr" Alu Data 10 "Shifts right." ["{$words} -> d a b:u32"];
    Shf "shf" Alu Data 32 "Funnel shift." ["{l r} {clamp wrap} {b32} -> d a b c:u32"];
    Lop3 "lop3" Alu Data 50 "Any bitwise logical function of three values." ["{b32} -> d a b c i", "@70 {and or} {b32} -> d|q a b c i p"];
    Prmt "prmt" Alu Data 20 "Permutes bytes." ["{b32} [f4e b4e rc8 ecl ecr rc16] -> d a b c"];
    Popc "popc" Alu Data 20 "Counts one bits." ["{b32 b64} -> d:u32 a"];
    Clz "clz" Alu Data 20 "Counts leading zeros." ["{b32 b64} -> d:u32 a"];
    Bfind "bfind" Alu Data 20 "The most significant bit that is not a sign bit." ["[shiftamt] {u32 u64 s32 s64} -> d:u32 a"];
    Fns "fns" Alu Data 30 "The n-th set bit from a position." ["{b32} -> d a b c:s32"];
    Brev "brev" Alu Data 20 "Reverses bits." ["{b32 b64} -> d a"];
    Bfe "bfe" Alu Data 20 "Extracts a bit field." ["{u32 u64 s32 s64} -> d a b:u32 c:u32"];
    Bfi "bfi" Alu Data 20 "Inserts a bit field." ["{b32 b64} -> d a b c:u32 e:u32"];
    Szext "szext" Alu Data 70 "Extends the sign, or zero, from a bit position." ["{clamp wrap} {u32 s32} -> d a b:u32"];
    Bmsk "bmsk" Alu Data 70 "Makes a bit mask of a position and a width." ["{clamp wrap} {b32} -> d a:u32 b:u32"];
    // Video.
    Vadd "vadd" Alu Data 20 "Video addition." [VIDEO, VIDEO_SECONDARY] video;
    Vsub "vsub" Alu Data 20 "Video subtraction." [VIDEO, VIDEO_SECONDARY] video;
    Vabsdiff "vabsdiff" Alu Data 20 "Video absolute difference." [VIDEO, VIDEO_SECONDARY] video;
    Vmin "vmin" Alu Data 20 "Video minimum." [VIDEO, VIDEO_SECONDARY] video;
    Vmax "vmax" Alu Data 20 "Video maximum." [VIDEO, VIDEO_SECONDARY] video;
    Vshl "vshl" Alu Data 20 "Video shift left." [VIDEO_SHIFT, VIDEO_SHIFT_SECONDARY] video;
    Vshr "vshr" Alu Data 20 "Video shift right." [VIDEO_SHIFT, VIDEO_SHIFT_SECONDARY] video;
    Vmad "vmad" Imul Data 20 "Video multiply-add." [
        "{u32 s32} {u32 s32} {u32 s32} [sat] [shr7 shr15] -> d n n n:dst", "{u32 s32} {u32 s32} {u32 s32} {po} [sat] [shr7 shr15] -> d x x c:dst",
    ] video;
    Vset "vset" Alu Data 20 "Video comparison." [
        "{u32 s32} {u32 s32} {eq ne lt le gt ge} -> y:u32 x x (c:u32)", "{u32 s32} {u32 s32} {eq ne lt le gt ge} {add min max} -> d:u32 x x c:u32",
    ] video;
    Vadd2 "vadd2" Alu Data 30 "SIMD video addition of halves." [SIMD, SIMD_ADD] simd2;
    Vsub2 "vsub2" Alu Data 30 "SIMD video subtraction of halves." [SIMD, SIMD_ADD] simd2;
    Vavrg2 "vavrg2" Alu Data 30 "SIMD video average of halves." [SIMD, SIMD_ADD] simd2;
    Vabsdiff2 "vabsdiff2" Alu Data 30 "SIMD video absolute difference of halves." [SIMD, SIMD_ADD] simd2;
    Vmin2 "vmin2" Alu Data 30 "SIMD video minimum of halves." [SIMD, SIMD_ADD] simd2;
    Vmax2 "vmax2" Alu Data 30 "SIMD video maximum of halves." [SIMD, SIMD_ADD] simd2;
    Vset2 "vset2" Alu Data 30 "SIMD video comparison of halves." [SIMD_SET] simd2;
    Vadd4 "vadd4" Alu Data 30 "SIMD video addition of bytes." [SIMD, SIMD_ADD] simd4;
    Vsub4 "vsub4" Alu Data 30 "SIMD video subtraction of bytes." [SIMD, SIMD_ADD] simd4;
    Vavrg4 "vavrg4" Alu Data 30 "SIMD video average of bytes." [SIMD, SIMD_ADD] simd4;
    Vabsdiff4 "vabsdiff4" Alu Data 30 "SIMD video absolute difference of bytes." [SIMD, SIMD_ADD] simd4;
    Vmin4 "vmin4" Alu Data 30 "SIMD video minimum of bytes." [SIMD, SIMD_ADD] simd4;
    Vmax4 "vmax4" Alu Data 30 "SIMD video maximum of bytes." [SIMD, SIMD_ADD] simd4;
    Vset4 "vset4" Alu Data 30 "SIMD video comparison of bytes." [SIMD_SET] simd4;
    // Data movement and conversion.
    Mov "mov" Alu Data 10 "Moves a value, an address, or packs and unpacks vectors." [
        "{pred} -> q p", "[v2 v4] {$words f32 f64} -> v v", "@70 {b128} -> d a",
    ];
    Cvt "cvt" Convert Data 10 "Converts between types." [
        "[$irnd $rnd] [ftz] [sat] {$cvt} {$cvt} -> d a",
        "@70 {rn rz} {satfinite} {f16} {f32} -> d a", "@80 {rn rz} {relu} [satfinite] {f16} {f32} -> d a", "@80 {rn rz} [relu] [satfinite] {bf16} {f32} -> d a", "@80 {f32} {bf16} -> d a", "@80 {rn rz} [relu] [satfinite] {f16x2 bf16x2} {f32} -> d a b",
        "@80 {rna} [satfinite] {tf32} {f32} -> d:b32 a", "@90 {rn rz} [relu] {tf32} {f32} -> d:b32 a", "@100 {rn rz} [relu] {satfinite} {tf32} {f32} -> d:b32 a",
        "@90 [$irnd $rnd] {bf16} {u8 u16 u32 u64 s8 s16 s32 s64 f16 bf16 f64} -> d a", "@90 [$irnd $rnd] {u8 u16 u32 u64 s8 s16 s32 s64 f16 f32 f64} {bf16} -> d a",
        "@89 {rn} {satfinite} [relu] {e4m3x2 e5m2x2} {f32} -> d:b16 a b", "@89 {rn} {satfinite} [relu] {e4m3x2 e5m2x2} {f16x2} -> d:b16 a",
        "@89 {rn} [relu] {f16x2} {e4m3x2 e5m2x2} -> d a:b16",
        "@72 {pack} {sat} {u16 s16} {s32} -> d:u32 a b", "@72 {pack} {sat} {u8 s8} {s32} {b32} -> d:u32 a:s32 b:s32 c:b32",
        "@75 {pack} {sat} {u4 s4 u2 s2} {s32} {b32} -> d:u32 a:s32 b:s32 c:b32", "@100a v8.6 {rn} {satfinite} [relu] {e2m1x2} {f32} -> d:b8 a b", "@100a v8.6 {rn} {satfinite} [relu] {e2m3x2 e3m2x2} {f32} -> d:b16 a b",
        "@100a v8.6 {rn} [relu] {f16x2} {e2m1x2} -> d a:b8", "@100a v8.6 {rn} [relu] {f16x2} {e2m3x2 e3m2x2} -> d a:b16",
        "@100a v8.6 {rz rp} [satfinite] {ue8m0x2} {f32} -> d:b16 a b", "@100a v8.6 {rz rp} [satfinite] {ue8m0x2} {bf16x2} -> d:b16 a", "@100a v8.6 {rn} {bf16x2} {ue8m0x2} -> d a:b16",
        "@100-110x v8.7 {rs} [relu] [satfinite] {f16x2 bf16x2} {f32} -> d a b c:b32", "@100-110x v8.7 {rs} [relu] {satfinite} {e4m3x4 e5m2x4 e2m3x4 e3m2x4} {f32} -> d:b32 v a:b32",
        "@100-110x v8.7 {rs} [relu] {satfinite} {e2m1x4} {f32} -> d:b16 v a:b32",
        "@100a v9.1 {rn} {satfinite} [relu] {e4m3x2 e5m2x2} {bf16x2} -> d:b16 a", "@100a v9.1 {rn} {satfinite} [relu] {e2m1x2} {f16x2 bf16x2} -> d:b8 a", "@100a v9.1 {rn} {satfinite} [relu] {e2m3x2 e3m2x2} {f16x2 bf16x2} -> d:b16 a",
        "@100a v9.2 {rn} [satfinite] [relu] {bf16x2} {e4m3x2 e5m2x2 e2m3x2 e3m2x2} -> d a:b16", "@100a v9.2 {rn} [satfinite] [relu] {scaled::n2::ue8m0} {bf16x2} {e4m3x2 e5m2x2 e2m3x2 e3m2x2} -> d a:b16 b:b16",
        "@100a v9.2 {rn} [satfinite] [relu] {bf16x2} {e2m1x2} -> d a:b8", "@100a v9.2 {rn} [satfinite] [relu] {scaled::n2::ue8m0} {bf16x2} {e2m1x2} -> d a:b8 b:b16",
        "@100x v9.1 {rn} {satfinite} [relu] {s2f6x2} {f32} -> d:b16 a b", "@100x v9.1 {rn} {satfinite} [relu] {scaled::n2::ue8m0} {s2f6x2} {f32} -> d:b16 a b c:b16",
        "@100x v9.1 {rn} {satfinite} [relu] {s2f6x2} {bf16x2} -> d:b16 a", "@100x v9.1 {rn} {satfinite} [relu] {scaled::n2::ue8m0} {s2f6x2} {bf16x2} -> d:b16 a b:b16",
        "@100x v9.1 {rn} [satfinite] [relu] {bf16x2} {s2f6x2} -> d a:b16", "@100x v9.1 {rn} [satfinite] [relu] {scaled::n2::ue8m0} {bf16x2} {s2f6x2} -> d a:b16 b:b16",
    ];
    Cvta "cvta" Alu Data 20 "Converts between generic addresses and those of a space." [
        "[to] {const global local $shared shared::cluster param param::entry} {u32 u64} -> d a",
    ];
    Isspacep "isspacep" Alu Data 20 "Tests whether a generic address lies in a space." ["{const global local $shared shared::cluster param param::entry} -> q a:u64"];
    Ld "ld" LoadStore Load 10 "Loads." [
        "[weak] [$spaces shared::cluster] [ca cg cs lu cv] [L2::cache_hint] [$prefetch] [v2 v4] {$memory} -> v m (e:b64)",
        "@70 [weak] [global] {$evict} [L2::cache_hint] [$prefetch] [v2 v4] {$memory} -> v m (e:b64)",
        "{volatile} [global $shared shared::cluster] [$prefetch] [v2 v4] {$memory} -> v m", "{volatile} {local} [v2 v4] {$memory} -> v m",
        "@70 {relaxed acquire} [$scope] [global $shared shared::cluster] [$evict] [L2::cache_hint] [$prefetch] [v2 v4] {$memory} -> v m (e:b64)",
        "@70 {mmio} {relaxed} {sys} [global] {$memory} -> v m",
        "@32 {global} [ca cg cs] {nc} [L2::cache_hint] [$prefetch] [v2 v4] {$memory} -> v m (e:b64)", "@70 {global} {nc} {$evict} [L2::cache_hint] [$prefetch] [v2 v4] {$memory} -> v m (e:b64)",
        "@70 [weak] [$spaces shared::cluster] [ca cg cs lu cv] [L2::cache_hint] [$prefetch] {b128} -> v m (e:b64)", "@70 [weak] [global] {$evict} [L2::cache_hint] [$prefetch] {b128} -> v m (e:b64)", "@70 {global} {nc} {$evict} [L2::cache_hint] [$prefetch] {b128} -> v m (e:b64)",
        "@70 {global} [ca cg cs] {nc} [L2::cache_hint] [$prefetch] {b128} -> v m (e:b64)", "@70 {volatile} [global $shared shared::cluster] [$prefetch] {b128} -> v m",
        "@70 {relaxed acquire} {$scope} [global $shared shared::cluster] [$evict] [L2::cache_hint] [$prefetch] {b128} -> v m (e:b64)", "@70 {mmio} {relaxed} {sys} [global] {b128} -> v m",
        "@100 [weak] [global] [ca cg cs lu cv] [$l2evict] [L2::cache_hint] [$prefetch] {v8} {b32 u32 s32 f32} -> v m (e:b64)", "@100 {global} [ca cg cs] {nc} [$l2evict] [L2::cache_hint] [$prefetch] {v8} {b32 u32 s32 f32} -> v m (e:b64)", "@100 [weak] [global] [ca cg cs lu cv] [$l2evict] [L2::cache_hint] [$prefetch] {v4} {b64 u64 s64 f64} -> v m (e:b64)", "@100 {global} [ca cg cs] {nc} [$l2evict] [L2::cache_hint] [$prefetch] {v4} {b64 u64 s64 f64} -> v m (e:b64)",
        "@100 [weak] [global] {$evict} [$l2evict] [L2::cache_hint] [$prefetch] {v8} {b32 u32 s32 f32} -> v m (e:b64)", "@100 {global} {nc} {$evict} [$l2evict] [L2::cache_hint] [$prefetch] {v8} {b32 u32 s32 f32} -> v m (e:b64)", "@100 [weak] [global] {$evict} [$l2evict] [L2::cache_hint] [$prefetch] {v4} {b64 u64 s64 f64} -> v m (e:b64)", "@100 {global} {nc} {$evict} [$l2evict] [L2::cache_hint] [$prefetch] {v4} {b64 u64 s64 f64} -> v m (e:b64)",
        "@100 {volatile} [global] [$l2evict] [$prefetch] {v8} {b32 u32 s32 f32} -> v m", "@100 {volatile} [global] [$l2evict] [$prefetch] {v4} {b64 u64 s64 f64} -> v m",
        "@100 {relaxed acquire} {$scope} [global] [$evict] [$l2evict] [L2::cache_hint] [$prefetch] {v8} {b32 u32 s32 f32} -> v m (e:b64)", "@100 {relaxed acquire} {$scope} [global] [$evict] [$l2evict] [L2::cache_hint] [$prefetch] {v4} {b64 u64 s64 f64} -> v m (e:b64)",
    ];
    Ldu "ldu" LoadStore Load 20 "Loads uniform data through the read-only path." ["[global] [v2 v4] {$memory} -> v m", "@70 [global] {b128} -> v m"];
    St "st" LoadStore Store 10 "Stores." [
        "[weak] [global local $shared shared::cluster param param::func] [wb cg cs wt] [L2::cache_hint] [v2 v4] {$memory} -> m v (e:b64)",
        "@70 [weak] [global] {$evict} [L2::cache_hint] [v2 v4] {$memory} -> m v (e:b64)",
        "{volatile} [global $shared shared::cluster] [v2 v4] {$memory} -> m v", "{volatile} {local} [v2 v4] {$memory} -> m v",
        "@70 {relaxed release} [$scope] [global $shared shared::cluster] [$evict] [L2::cache_hint] [v2 v4] {$memory} -> m v (e:b64)",
        "@70 {mmio} {relaxed} {sys} [global] {$memory} -> m v",
        "@70 [weak] [global local $shared shared::cluster param param::func] [wb cg cs wt] [L2::cache_hint] {b128} -> m v (e:b64)", "@70 [weak] [global] {$evict} [L2::cache_hint] {b128} -> m v (e:b64)",
        "@70 {volatile} [global $shared shared::cluster] {b128} -> m v", "@70 {relaxed release} {$scope} [global $shared shared::cluster] [$evict] [L2::cache_hint] {b128} -> m v (e:b64)",
        "@70 {mmio} {relaxed} {sys} [global] {b128} -> m v",
        "@90 {async} [weak] [shared::cluster] {mbarrier::complete_tx::bytes} [v2] {b32 u32 s32 f32 b64 u64 s64 f64} -> m v m",
        "@90 {async} [weak] [shared::cluster] {mbarrier::complete_tx::bytes} {v4} {b32 u32 s32 f32} -> m v m",
        "@100 {async} {release} {gpu sys} [global] {b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64} -> m v", "@100 {async} {mmio} {release} {sys} [global] {b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64} -> m v",
        "@100 v8.6 {bulk} [weak] [shared::cta] -> m a:u64 i",
        "@100 [weak] [global] [wb cg cs wt] [$l2evict] [L2::cache_hint] {v8} {b32 u32 s32 f32} -> m v (e:b64)", "@100 [weak] [global] [wb cg cs wt] [$l2evict] [L2::cache_hint] {v4} {b64 u64 s64 f64} -> m v (e:b64)",
        "@100 [weak] [global] {$evict} [$l2evict] [L2::cache_hint] {v8} {b32 u32 s32 f32} -> m v (e:b64)", "@100 [weak] [global] {$evict} [$l2evict] [L2::cache_hint] {v4} {b64 u64 s64 f64} -> m v (e:b64)",
        "@100 {volatile} [global] [$l2evict] {v8} {b32 u32 s32 f32} -> m v", "@100 {volatile} [global] [$l2evict] {v4} {b64 u64 s64 f64} -> m v",
        "@100 {relaxed release} {$scope} [global] [$evict] [$l2evict] [L2::cache_hint] {v8} {b32 u32 s32 f32} -> m v (e:b64)", "@100 {relaxed release} {$scope} [global] [$evict] [$l2evict] [L2::cache_hint] {v4} {b64 u64 s64 f64} -> m v (e:b64)",
    ];
    Prefetch "prefetch" LoadStore Hint 20 "Prefetches a cache line." [
        "[global local] {L1 L2} -> m", "@80 {global} {L2::evict_last L2::evict_normal} -> m", "@90 [const param] {tensormap} -> m",
    ];
    Prefetchu "prefetchu" LoadStore Hint 20 "Prefetches uniform data." ["{L1} -> m"];
    Applypriority "applypriority" LoadStore Hint 80 "Sets an eviction priority." ["[global] {L2::evict_normal} -> m e:u32"];
    Discard "discard" LoadStore Hint 80 "Discards the data of a cache line without writing it back." ["[global] {L2} -> m e:u32"];
    Createpolicy "createpolicy" Alu Data 80 "Makes a cache policy." [
        "{fractional} {L2::evict_last L2::evict_normal L2::evict_first L2::evict_unchanged} [L2::evict_first L2::evict_unchanged] {b64} -> d (a:f32)", "{cvt} {L2} {b64} -> d a",
        "{range} [global] {L2::evict_last L2::evict_normal L2::evict_first L2::evict_unchanged} [L2::evict_first L2::evict_unchanged] {b64} -> d m a:u32 b:u32",
    ];
    Atom "atom" LoadStore Atomic 11 "Atomic read-modify-write operation; returns the old value." [
        "[$ordering] [$scope] [global $shared shared::cluster] {and or xor} [L2::cache_hint] {b32 b64} -> d m b (e:b64)",
        "[$ordering] [$scope] [global $shared shared::cluster] {exch} [L2::cache_hint] {b32 b64} -> d m b (e:b64)",
        "[$ordering] [$scope] [global $shared shared::cluster] {cas} {b32 b64} -> d m b c", "@70 [$ordering] [$scope] [global $shared shared::cluster] {cas} {b16} -> d m b c",
        "[$ordering] [$scope] [global $shared shared::cluster] {add} [L2::cache_hint] {u32 s32 u64} -> d m b (e:b64)", "@20 [$ordering] [$scope] [global $shared shared::cluster] {add} [L2::cache_hint] {f32} -> d m b (e:b64)",
        "@60 [$ordering] [$scope] [global $shared shared::cluster] {add} [L2::cache_hint] {f64} -> d m b (e:b64)",
        "[$ordering] [$scope] [global $shared shared::cluster] {inc dec} [L2::cache_hint] {u32} -> d m b (e:b64)",
        "[$ordering] [$scope] [global $shared shared::cluster] {min max} [L2::cache_hint] {u32 s32} -> d m b (e:b64)", "@32 [$ordering] [$scope] [global $shared shared::cluster] {min max} [L2::cache_hint] {u64 s64} -> d m b (e:b64)",
        "@60 [$ordering] [$scope] [global $shared shared::cluster] {add} {noftz} [L2::cache_hint] {f16x2} -> d m b (e:b64)", "@70 [$ordering] [$scope] [global $shared shared::cluster] {add} {noftz} [L2::cache_hint] {f16} -> d m b (e:b64)",
        "@90 [$ordering] [$scope] [global $shared shared::cluster] {add} {noftz} [L2::cache_hint] {bf16 bf16x2} -> d m b (e:b64)",
        "@90 [$ordering] [$scope] [global] {add} [L2::cache_hint] {v2 v4} {f32} -> v m v (e:b64)", "@90 [$ordering] [$scope] [global] {add min max} {noftz} [L2::cache_hint] {v2 v4 v8} {f16 bf16} -> v m v (e:b64)", "@90 [$ordering] [$scope] [global] {add min max} {noftz} [L2::cache_hint] {v2 v4} {f16x2 bf16x2} -> v m v (e:b64)",
        "@90 [$ordering] [$scope] [global $shared shared::cluster] {exch} [L2::cache_hint] {b128} -> d m b (e:b64)", "@90 [$ordering] [$scope] [global $shared shared::cluster] {cas} {b128} -> d m b c",
    ];
    Red "red" LoadStore Atomic 11 "Atomic reduction in memory; returns no value." [
        "[relaxed release] [$scope] [global $shared shared::cluster] {and or xor} [L2::cache_hint] {b32 b64} -> m b (e:b64)",
        "[relaxed release] [$scope] [global $shared shared::cluster] {add} [L2::cache_hint] {u32 s32 u64} -> m b (e:b64)", "@20 [relaxed release] [$scope] [global $shared shared::cluster] {add} [L2::cache_hint] {f32} -> m b (e:b64)",
        "@60 [relaxed release] [$scope] [global $shared shared::cluster] {add} [L2::cache_hint] {f64} -> m b (e:b64)",
        "[relaxed release] [$scope] [global $shared shared::cluster] {inc dec} [L2::cache_hint] {u32} -> m b (e:b64)",
        "[relaxed release] [$scope] [global $shared shared::cluster] {min max} [L2::cache_hint] {u32 s32} -> m b (e:b64)", "@32 [relaxed release] [$scope] [global $shared shared::cluster] {min max} [L2::cache_hint] {u64 s64} -> m b (e:b64)",
        "@60 [relaxed release] [$scope] [global $shared shared::cluster] {add} {noftz} [L2::cache_hint] {f16x2} -> m b (e:b64)", "@70 [relaxed release] [$scope] [global $shared shared::cluster] {add} {noftz} [L2::cache_hint] {f16} -> m b (e:b64)",
        "@90 [relaxed release] [$scope] [global $shared shared::cluster] {add} {noftz} [L2::cache_hint] {bf16 bf16x2} -> m b (e:b64)",
        "@90 [relaxed release] [$scope] [global] {add} [L2::cache_hint] {v2 v4} {f32} -> m v (e:b64)", "@90 [relaxed release] [$scope] [global] {add min max} {noftz} [L2::cache_hint] {v2 v4 v8} {f16 bf16} -> m v (e:b64)", "@90 [relaxed release] [$scope] [global] {add min max} {noftz} [L2::cache_hint] {v2 v4} {f16x2 bf16x2} -> m v (e:b64)",
        "@90 {async} {relaxed} {cluster} [shared::cluster] {mbarrier::complete_tx::bytes} {inc dec} {u32} -> m b m",
        "@90 {async} {relaxed} {cluster} [shared::cluster] {mbarrier::complete_tx::bytes} {min max} {u32 s32} -> m b m",
        "@90 {async} {relaxed} {cluster} [shared::cluster] {mbarrier::complete_tx::bytes} {add} {u32 s32 u64 s64} -> m b m",
        "@90 {async} {relaxed} {cluster} [shared::cluster] {mbarrier::complete_tx::bytes} {and or xor} {b32} -> m b m",
        "@100 {async} {release} {gpu sys} [global] {inc dec} {u32} -> m b", "@100 {async} {release} {gpu sys} [global] {min max} {u32 s32} -> m b", "@100 {async} {release} {gpu sys} [global] {add} {u32 s32 u64 s64} -> m b", "@100 {async} {release} {gpu sys} [global] {and or xor} {b32} -> m b",
        "@100 {async} {mmio} {release} {sys} [global] {inc dec} {u32} -> m b", "@100 {async} {mmio} {release} {sys} [global] {min max} {u32 s32} -> m b", "@100 {async} {mmio} {release} {sys} [global] {add} {u32 s32 u64 s64} -> m b", "@100 {async} {mmio} {release} {sys} [global] {and or xor} {b32} -> m b",
    ];
    Membar "membar" LoadStore Membar 10 "Waits for the thread's memory operations." ["{cta gl} -> ", "@20 {sys} -> ", "@60 {proxy} {alias} -> "];
    Fence "fence" LoadStore Membar 70 "Orders memory operations." [
        "[sc acq_rel] {$scope} -> ", "{acquire release} {$scope} -> ", "{proxy} {alias} -> ", "@90 {proxy} {async} [global shared::cta shared::cluster] -> ", "@90 {mbarrier_init} {release} {cluster} -> ",
        "@90 {proxy} {tensormap::generic} {release} {$scope} -> ", "@90 {proxy} {tensormap::generic} {acquire} {$scope} -> m i",
        "@90 {proxy} {async::generic} {acquire} {sync_restrict::shared::cluster} {cluster} -> ", "@90 {proxy} {async::generic} {release} {sync_restrict::shared::cta} {cluster} -> ",
        "@90 {acquire} {sync_restrict::shared::cluster} {cluster} -> ", "@90 {release} {sync_restrict::shared::cta} {cluster} -> ",
    ];
    Cp "cp" LoadStore Copy 80 "Copies asynchronously." [
        "{async} {ca cg} {$shared} {global} [L2::cache_hint] [$prefetch] -> m m i (a:u32) (e:b64)",
        "{async} {commit_group} -> ", "{async} {wait_group} -> i", "{async} {wait_all} -> ", "{async} {mbarrier} {arrive} [noinc] [$shared] {b64} -> m",
        "@90 {async} {bulk} {shared::cta shared::cluster} {global} {mbarrier::complete_tx::bytes} [L2::cache_hint] -> m m a:u32 m (e:b64)",
        "@90 {async} {bulk} {shared::cluster} {global} {mbarrier::complete_tx::bytes} {multicast::cluster} [L2::cache_hint] -> m m a:u32 m b:b16 (e:b64)",
        "@90 {async} {bulk} {shared::cluster} {shared::cta} {mbarrier::complete_tx::bytes} -> m m a:u32 m",
        "@90 {async} {bulk} {global} {shared::cta} {bulk_group} [L2::cache_hint] -> m m a:u32 (e:b64)",
        "@90 {async} {bulk} {prefetch} {L2} {global} [L2::cache_hint] -> m a:u32 (e:b64)",
        "@90 {async} {bulk} {tensor} {1d 2d 3d 4d 5d} {shared::cta shared::cluster} {global} [tile] {mbarrier::complete_tx::bytes} [L2::cache_hint] -> m t m (e:b64)",
        "@90 {async} {bulk} {tensor} {1d 2d 3d 4d 5d} {shared::cluster} {global} [tile] {mbarrier::complete_tx::bytes} {multicast::cluster} [L2::cache_hint] -> m t m b:b16 (e:b64)",
        "@90 {async} {bulk} {tensor} {1d 2d 3d 4d 5d} {global} {shared::cta} [tile] {bulk_group} [L2::cache_hint] -> t m (e:b64)",
        "@90 {async} {bulk} {prefetch} {tensor} {1d 2d 3d 4d 5d} {L2} {global} [tile] [L2::cache_hint] -> t (e:b64)",
        "@90 {reduce} {async} {bulk} {tensor} {1d 2d 3d 4d 5d} {global} {shared::cta} {add min max inc dec and or xor} [tile] {bulk_group} [L2::cache_hint] -> t m (e:b64)",
        "@90 {async} {bulk} {tensor} {3d 4d 5d} {shared::cta shared::cluster} {global} {im2col} {mbarrier::complete_tx::bytes} [L2::cache_hint] -> m t m v (e:b64)",
        "@90 {async} {bulk} {tensor} {3d 4d 5d} {shared::cluster} {global} {im2col} {mbarrier::complete_tx::bytes} {multicast::cluster} [L2::cache_hint] -> m t m v b:b16 (e:b64)",
        "@90 {async} {bulk} {tensor} {3d 4d 5d} {global} {shared::cta} {im2col_no_offs} {bulk_group} [L2::cache_hint] -> t m (e:b64)",
        "@90 {async} {bulk} {prefetch} {tensor} {3d 4d 5d} {L2} {global} {im2col} [L2::cache_hint] -> t v (e:b64)",
        "@90 {reduce} {async} {bulk} {tensor} {3d 4d 5d} {global} {shared::cta} {add min max inc dec and or xor} {im2col_no_offs} {bulk_group} [L2::cache_hint] -> t m (e:b64)",
        "@90 {async} {bulk} {commit_group} -> ", "@90 {async} {bulk} {wait_group} [read] -> i",
        "@90 {reduce} {async} {bulk} {global} {shared::cta} {bulk_group} [L2::cache_hint] {and or xor} {b32 b64} -> m m a:u32 (e:b64)",
        "@90 {reduce} {async} {bulk} {global} {shared::cta} {bulk_group} [L2::cache_hint] {add} {u32 s32 u64 f32 f64} -> m m a:u32 (e:b64)",
        "@90 {reduce} {async} {bulk} {global} {shared::cta} {bulk_group} [L2::cache_hint] {add} {noftz} {f16 bf16} -> m m a:u32 (e:b64)",
        "@90 {reduce} {async} {bulk} {global} {shared::cta} {bulk_group} [L2::cache_hint] {inc dec} {u32} -> m m a:u32 (e:b64)",
        "@90 {reduce} {async} {bulk} {global} {shared::cta} {bulk_group} [L2::cache_hint] {min max} {u32 s32 u64 s64} -> m m a:u32 (e:b64)",
        "@90 {reduce} {async} {bulk} {global} {shared::cta} {bulk_group} [L2::cache_hint] {min max} {f16 bf16} -> m m a:u32 (e:b64)",
        "@90 {reduce} {async} {bulk} {shared::cluster} {shared::cta} {mbarrier::complete_tx::bytes} {and or xor} {b32} -> m m a:u32 m",
        "@90 {reduce} {async} {bulk} {shared::cluster} {shared::cta} {mbarrier::complete_tx::bytes} {add} {u32 s32 u64} -> m m a:u32 m",
        "@90 {reduce} {async} {bulk} {shared::cluster} {shared::cta} {mbarrier::complete_tx::bytes} {inc dec} {u32} -> m m a:u32 m",
        "@90 {reduce} {async} {bulk} {shared::cluster} {shared::cta} {mbarrier::complete_tx::bytes} {min max} {u32 s32} -> m m a:u32 m",
        "@100 v8.6 {async} {bulk} {tensor} {2d} {shared::cta} {global} {tile::gather4} {mbarrier::complete_tx::bytes} [L2::cache_hint] -> m t m (e:b64)",
        "@100-120a v8.6 {async} {bulk} {tensor} {2d} {shared::cluster} {global} {tile::gather4} {mbarrier::complete_tx::bytes} [L2::cache_hint] -> m t m (e:b64)",
        "@100-120a v8.6 {async} {bulk} {tensor} {2d} {shared::cta shared::cluster} {global} {tile::gather4} {mbarrier::complete_tx::bytes} {cta_group::1 cta_group::2} [L2::cache_hint] -> m t m (e:b64)",
        "@100-120a v8.6 {async} {bulk} {tensor} {2d} {shared::cluster} {global} {tile::gather4} {mbarrier::complete_tx::bytes} {multicast::cluster} [cta_group::1 cta_group::2] [L2::cache_hint] -> m t m b:b16 (e:b64)",
        "@100 v8.6 {async} {bulk} {tensor} {3d 4d 5d} {shared::cta} {global} {im2col::w} {mbarrier::complete_tx::bytes} [L2::cache_hint] -> m t m v (e:b64)",
        "@100-120a v8.6 {async} {bulk} {tensor} {3d 4d 5d} {shared::cluster} {global} {im2col::w} {mbarrier::complete_tx::bytes} [L2::cache_hint] -> m t m v (e:b64)",
        "@100-120a v8.6 {async} {bulk} {tensor} {3d 4d 5d} {shared::cta shared::cluster} {global} {im2col::w::128} {mbarrier::complete_tx::bytes} [L2::cache_hint] -> m t m v (e:b64)",
        "@100-120a v8.6 {async} {bulk} {tensor} {3d 4d 5d} {shared::cta shared::cluster} {global} {im2col im2col::w im2col::w::128} {mbarrier::complete_tx::bytes} {cta_group::1 cta_group::2} [L2::cache_hint] -> m t m v (e:b64)",
        "@100-120a v8.6 {async} {bulk} {tensor} {3d 4d 5d} {shared::cluster} {global} {im2col::w im2col::w::128} {mbarrier::complete_tx::bytes} {multicast::cluster} [cta_group::1 cta_group::2] [L2::cache_hint] -> m t m v b:b16 (e:b64)",
        "@100-120a v8.6 {async} {bulk} {tensor} {3d 4d 5d} {shared::cluster} {global} {im2col} {mbarrier::complete_tx::bytes} {multicast::cluster} {cta_group::1 cta_group::2} [L2::cache_hint] -> m t m v b:b16 (e:b64)",
        "@100-120a v8.6 {async} {bulk} {tensor} {1d 2d 3d 4d 5d} {shared::cta shared::cluster} {global} [tile] {mbarrier::complete_tx::bytes} {cta_group::1 cta_group::2} [L2::cache_hint] -> m t m (e:b64)",
        "@100-120a v8.6 {async} {bulk} {tensor} {1d 2d 3d 4d 5d} {shared::cluster} {global} [tile] {mbarrier::complete_tx::bytes} {multicast::cluster} {cta_group::1 cta_group::2} [L2::cache_hint] -> m t m b:b16 (e:b64)",
        "@100-120a v8.6 {async} {bulk} {tensor} {2d} {global} {shared::cta} {tile::scatter4} {bulk_group} [L2::cache_hint] -> t m (e:b64)",
        "@100-120a v8.6 {async} {bulk} {prefetch} {tensor} {2d} {L2} {global} {tile::gather4} [L2::cache_hint] -> t (e:b64)",
        "@100-120a v8.6 {async} {bulk} {prefetch} {tensor} {3d 4d 5d} {L2} {global} {im2col::w im2col::w::128} [L2::cache_hint] -> t v (e:b64)",
        "@100 v8.6 {async} {bulk} {global} {shared::cta} {bulk_group} [L2::cache_hint] {cp_mask} -> m m a:u32 (e:b64) b:b16",
        "@90 v9.2 {async} {bulk} {shared::cta} {global} {mbarrier::complete_tx::bytes} [L2::cache_hint] {ignore_oob} -> m m a:u32 a:u32 a:u32 m (e:b64)",
        "@90 v9.3 {async} {bulk} {weak} {shared::cta shared::cluster} {global} {mbarrier::complete_tx::bytes} [L2::cache_hint] -> m m a:u32 m (e:b64)",
        "@90 v9.3 {async} {bulk} {weak} {shared::cluster} {global} {mbarrier::complete_tx::bytes} {multicast::cluster} [L2::cache_hint] -> m m a:u32 m b:b16 (e:b64)",
        "@90 v9.3 {async} {bulk} {weak} {shared::cta} {global} {mbarrier::complete_tx::bytes} [L2::cache_hint] {ignore_oob} -> m m a:u32 a:u32 a:u32 m (e:b64)",
        "@90 v9.3 {async} {bulk} {weak} {shared::cluster} {shared::cta} {mbarrier::complete_tx::bytes} -> m m a:u32 m",
        "@90 v9.3 {async} {bulk} {weak} {global} {shared::cta} {bulk_group} [L2::cache_hint] -> m m a:u32 (e:b64)",
        "@100 v9.3 {async} {bulk} {weak} {global} {shared::cta} {bulk_group} [L2::cache_hint] {cp_mask} -> m m a:u32 (e:b64) b:b16",
        "@90 v9.3 {async} {bulk} {relaxed} {$scope} {shared::cta} {global} {mbarrier::complete_tx::bytes} [L2::cache_hint] {b128} -> m m a:u32 m (e:b64)",
        "@90-120a v9.3 {async} {bulk} {relaxed} {$scope} {shared::cluster} {global} {mbarrier::complete_tx::bytes} [L2::cache_hint] {b128} -> m m a:u32 m (e:b64)",
        "@90-120a v9.3 {async} {bulk} {relaxed} {$scope} {shared::cluster} {global} {mbarrier::complete_tx::bytes} {multicast::cluster} [L2::cache_hint] {b128} -> m m a:u32 m b:b16 (e:b64)",
        "@90 v9.3 {async} {bulk} {relaxed} {$scope} {shared::cta} {global} {mbarrier::complete_tx::bytes} [L2::cache_hint] {ignore_oob} {b128} -> m m a:u32 a:u32 a:u32 m (e:b64)",
        "@90 v9.3 {async} {bulk} {relaxed} {cta cluster} {shared::cluster} {shared::cta} {mbarrier::complete_tx::bytes} {b128} -> m m a:u32 m",
        "@90 v9.3 {async} {bulk} {relaxed} {$scope} {global} {shared::cta} {bulk_group} [L2::cache_hint] {b128} -> m m a:u32 (e:b64)",
        "@100 v9.3 {async} {bulk} {relaxed} {$scope} {global} {shared::cta} {bulk_group} [L2::cache_hint] {cp_mask} {b128} -> m m a:u32 (e:b64) b:b16",
    ];
    Mbarrier "mbarrier" LoadStore Mbarrier 80 "Operations on mbarrier objects." [
        "{init} [$shared] {b64} -> m a:u32", "{inval} [$shared] {b64} -> m", "{pending_count} {b64} -> d:b32 a",
        "{arrive arrive_drop} [$shared] {b64} -> d m (a:u32)", "{arrive arrive_drop} {release} {cta cluster} [$shared] {b64} -> d m (a:u32)", "@90 {arrive arrive_drop} {relaxed} {cta cluster} [$shared] {b64} -> d m (a:u32)",
        "{arrive arrive_drop} {noComplete} [$shared] {b64} -> d m a:u32", "{arrive arrive_drop} {noComplete} {release} {cta} [$shared] {b64} -> d m a:u32",
        "@90 {arrive arrive_drop} {expect_tx} [$shared] {b64} -> d m a:u32", "@90 {arrive arrive_drop} {expect_tx} {relaxed release} {cta cluster} [$shared] {b64} -> d m a:u32",
        "@90 {arrive arrive_drop} {shared::cluster} {b64} -> d m (a:u32)", "@90 {arrive arrive_drop} {relaxed release} {cta cluster} {shared::cluster} {b64} -> d m (a:u32)",
        "@90 {arrive arrive_drop} {expect_tx} {shared::cluster} {b64} -> d m a:u32", "@90 {arrive arrive_drop} {expect_tx} {relaxed release} {cta cluster} {shared::cluster} {b64} -> d m a:u32",
        "{test_wait} [$shared] {b64} -> q m a", "{test_wait} {acquire} {cta cluster} [$shared] {b64} -> q m a", "@90 {test_wait} {relaxed} {cta cluster} [$shared] {b64} -> q m a",
        "{test_wait} {parity} [$shared] {b64} -> q m a:u32", "{test_wait} {parity} {acquire} {cta cluster} [$shared] {b64} -> q m a:u32", "@90 {test_wait} {parity} {relaxed} {cta cluster} [$shared] {b64} -> q m a:u32",
        "@90 {try_wait} [$shared] {b64} -> q m a (b:u32)", "@90 {try_wait} {acquire} {cta cluster} [$shared] {b64} -> q m a (b:u32)", "@90 {try_wait} {relaxed} {cta cluster} [$shared] {b64} -> q m a (b:u32)",
        "@90 {try_wait} {parity} [$shared] {b64} -> q m a:u32 (b:u32)", "@90 {try_wait} {parity} {acquire} {cta cluster} [$shared] {b64} -> q m a:u32 (b:u32)", "@90 {try_wait} {parity} {relaxed} {cta cluster} [$shared] {b64} -> q m a:u32 (b:u32)",
        "@90 {expect_tx complete_tx} [shared shared::cta shared::cluster] {b64} -> m a:u32", "@90 {expect_tx complete_tx} {relaxed} {cta cluster} [shared shared::cta shared::cluster] {b64} -> m a:u32",
    ];
    Mapa "mapa" Alu Data 90 "Maps a shared address to another block of the cluster." ["[shared::cluster] {u32 u64} -> d a b:u32"];
    Getctarank "getctarank" Alu Data 90 "The rank of the block that owns an address." ["[shared::cluster] {u32 u64} -> d:u32 a"];
    Multimem "multimem" LoadStore Data 90 "Operations on multicast addresses: with one device, on its memory." [
        "{ld_reduce} [weak] [global] {add} {u32 s32 u64 f32 f64} -> v m", "{ld_reduce} [weak] [global] {min max} {u32 s32 u64 s64} -> v m",
        "{ld_reduce} [weak] [global] {and or xor} {b32 b64} -> v m", "{ld_reduce} [weak] [global] {add} {v2 v4} {f32} -> v m",
        "{ld_reduce} [weak] [global] {add} [acc::f32] [v2 v4] {f16x2 bf16x2} -> v m", "{ld_reduce} [weak] [global] {min max} [v2 v4] {f16x2 bf16x2} -> v m",
        "{ld_reduce} [weak] [global] {add} [acc::f32] {v2 v4 v8} {f16 bf16} -> v m", "{ld_reduce} [weak] [global] {min max} {v2 v4 v8} {f16 bf16} -> v m",
        "@100a {ld_reduce} [weak] [global] {add} [acc::f16] [v2 v4] {e4m3x4 e5m2x4} -> v m", "@100a {ld_reduce} [weak] [global] {min max} [v2 v4] {e4m3x4 e5m2x4} -> v m",
        "@100a {ld_reduce} [weak] [global] {add} [acc::f16] {v2 v4 v8} {e4m3x2 e5m2x2} -> v m", "@100a {ld_reduce} [weak] [global] {min max} {v2 v4 v8} {e4m3x2 e5m2x2} -> v m",
        "@100a {ld_reduce} [weak] [global] {add} [acc::f16] {v4 v8} {e4m3 e5m2} -> v m", "@100a {ld_reduce} [weak] [global] {min max} {v4 v8} {e4m3 e5m2} -> v m",
        "{ld_reduce} {relaxed acquire} {$scope} [global] {add} {u32 s32 u64 f32 f64} -> v m", "{ld_reduce} {relaxed acquire} {$scope} [global] {min max} {u32 s32 u64 s64} -> v m",
        "{ld_reduce} {relaxed acquire} {$scope} [global] {and or xor} {b32 b64} -> v m", "{ld_reduce} {relaxed acquire} {$scope} [global] {add} {v2 v4} {f32} -> v m",
        "{ld_reduce} {relaxed acquire} {$scope} [global] {add} [acc::f32] [v2 v4] {f16x2 bf16x2} -> v m", "{ld_reduce} {relaxed acquire} {$scope} [global] {min max} [v2 v4] {f16x2 bf16x2} -> v m",
        "{ld_reduce} {relaxed acquire} {$scope} [global] {add} [acc::f32] {v2 v4 v8} {f16 bf16} -> v m", "{ld_reduce} {relaxed acquire} {$scope} [global] {min max} {v2 v4 v8} {f16 bf16} -> v m",
        "@100a {ld_reduce} {relaxed acquire} {$scope} [global] {add} [acc::f16] [v2 v4] {e4m3x4 e5m2x4} -> v m", "@100a {ld_reduce} {relaxed acquire} {$scope} [global] {min max} [v2 v4] {e4m3x4 e5m2x4} -> v m",
        "@100a {ld_reduce} {relaxed acquire} {$scope} [global] {add} [acc::f16] {v2 v4 v8} {e4m3x2 e5m2x2} -> v m", "@100a {ld_reduce} {relaxed acquire} {$scope} [global] {min max} {v2 v4 v8} {e4m3x2 e5m2x2} -> v m",
        "@100a {ld_reduce} {relaxed acquire} {$scope} [global] {add} [acc::f16] {v4 v8} {e4m3 e5m2} -> v m", "@100a {ld_reduce} {relaxed acquire} {$scope} [global] {min max} {v4 v8} {e4m3 e5m2} -> v m",
        "{st} [weak] [global] {b32 b64 u32 u64 s32 s64 f32 f64 f16x2 bf16x2} -> m v", "{st} [weak] [global] {v2 v4} {f32 f16x2 bf16x2} -> m v",
        "{st} [weak] [global] {v2 v4 v8} {f16 bf16} -> m v", "@100a {st} [weak] [global] [v2 v4] {e4m3x4 e5m2x4} -> m v",
        "@100a {st} [weak] [global] {v2 v4 v8} {e4m3x2 e5m2x2} -> m v", "@100a {st} [weak] [global] {v4 v8} {e4m3 e5m2} -> m v",
        "{st} {relaxed release} {$scope} [global] {b32 b64 u32 u64 s32 s64 f32 f64 f16x2 bf16x2} -> m v", "{st} {relaxed release} {$scope} [global] {v2 v4} {f32 f16x2 bf16x2} -> m v",
        "{st} {relaxed release} {$scope} [global] {v2 v4 v8} {f16 bf16} -> m v", "@100a {st} {relaxed release} {$scope} [global] [v2 v4] {e4m3x4 e5m2x4} -> m v",
        "@100a {st} {relaxed release} {$scope} [global] {v2 v4 v8} {e4m3x2 e5m2x2} -> m v", "@100a {st} {relaxed release} {$scope} [global] {v4 v8} {e4m3 e5m2} -> m v",
        "{red} [global] {add} {u32 s32 u64 f32 f64} -> m v", "{red} [global] {min max} {u32 s32 u64 s64} -> m v",
        "{red} [global] {and or xor} {b32 b64} -> m v", "{red} [global] {add} {v2 v4} {f32} -> m v",
        "{red} [global] {add} [v2 v4] {f16x2 bf16x2} -> m v", "{red} [global] {min max} {v2 v4} {f16x2 bf16x2} -> m v", "{red} [global] {add min max} {v2 v4 v8} {f16 bf16} -> m v",
        "{red} {relaxed release} {$scope} [global] {add} {u32 s32 u64 f32 f64} -> m v", "{red} {relaxed release} {$scope} [global] {min max} {u32 s32 u64 s64} -> m v",
        "{red} {relaxed release} {$scope} [global] {and or xor} {b32 b64} -> m v", "{red} {relaxed release} {$scope} [global] {add} {v2 v4} {f32} -> m v",
        "{red} {relaxed release} {$scope} [global] {add} [v2 v4] {f16x2 bf16x2} -> m v", "{red} {relaxed release} {$scope} [global] {min max} {v2 v4} {f16x2 bf16x2} -> m v", "{red} {relaxed release} {$scope} [global] {add min max} {v2 v4 v8} {f16 bf16} -> m v",
        "v9.1 {cp} {async} {bulk} {global} {shared::cta} {bulk_group} -> m m a:u32", "@100 v9.1 {cp} {async} {bulk} {global} {shared::cta} {bulk_group} {cp_mask} -> m m a:u32 b:b16",
        "v9.1 {cp} {reduce} {async} {bulk} {global} {shared::cta} {bulk_group} {and or xor} {b32 b64} -> m m a:u32", "v9.1 {cp} {reduce} {async} {bulk} {global} {shared::cta} {bulk_group} {add} {u32 s32 u64 f32 f64} -> m m a:u32", "v9.1 {cp} {reduce} {async} {bulk} {global} {shared::cta} {bulk_group} {add} {noftz} {f16 bf16} -> m m a:u32",
        "v9.1 {cp} {reduce} {async} {bulk} {global} {shared::cta} {bulk_group} {inc dec} {u32} -> m m a:u32", "v9.1 {cp} {reduce} {async} {bulk} {global} {shared::cta} {bulk_group} {min max} {u32 s32 u64 s64 f16 bf16} -> m m a:u32",
    ] rewritten;
    Tensormap "tensormap" LoadStore Store 90 "Changes a tensor map." [
        "@90a v8.3 {replace} {tile} {global_address} [global shared::cta] {b1024} {b64} -> m b", "@90a v8.3 {replace} {tile} {rank} [global shared::cta] {b1024} {b32} -> m b",
        "@90a v8.3 {replace} {tile} {box_dim global_dim element_stride} [global shared::cta] {b1024} {b32} -> m i b", "@90a v8.3 {replace} {tile} {global_stride} [global shared::cta] {b1024} {b64} -> m i b",
        "@90a v8.3 {replace} {tile} {elemtype interleave_layout swizzle_mode fill_mode} [global shared::cta] {b1024} {b32} -> m i", "@100a v8.6 {replace} {tile} {swizzle_atomicity} [global shared::cta] {b1024} {b32} -> m i",
        "v8.3 {cp_fenceproxy} {global} {shared::cta} {tensormap::generic} {release} {$scope} {sync} {aligned} -> m m i",
    ];
    // Textures and surfaces.
    Tex "tex" LoadStore Texture 10 "Reads a texture." [
        "[base] {$flat} {v4} {u32 s32 f32 f16} {s32 f32} -> v|q t (v:s32) (e:f32)", "[base] {$flat} {v2} {f16x2} {s32 f32} -> v|q t (v:s32) (e:f32)",
        "[base] {cube acube} {v4} {u32 s32 f32 f16} {f32} -> v|q t (e:f32)", "[base] {cube acube} {v2} {f16x2} {f32} -> v|q t (e:f32)",
        "{level} {$flat} {v4} {u32 s32 f32 f16} {s32 f32} -> v|q t b (v:s32) (e:f32)", "{level} {$flat} {v2} {f16x2} {s32 f32} -> v|q t b (v:s32) (e:f32)",
        "{level} {cube acube} {v4} {u32 s32 f32 f16} {f32} -> v|q t b (e:f32)", "{level} {cube acube} {v2} {f16x2} {f32} -> v|q t b (e:f32)",
        "{grad} {$flat} {v4} {u32 s32 f32 f16} {s32 f32} -> v|q t v:f32 v:f32 (v:s32) (e:f32)", "{grad} {$flat} {v2} {f16x2} {s32 f32} -> v|q t v:f32 v:f32 (v:s32) (e:f32)",
        "{grad} {cube acube} {v4} {u32 s32 f32 f16} {f32} -> v|q t v:f32 v:f32 (e:f32)", "{grad} {cube acube} {v2} {f16x2} {f32} -> v|q t v:f32 v:f32 (e:f32)",
        "@30 [base] {2dms a2dms} {v4} {u32 s32 f32 f16} {s32} -> v|q t (v:s32)", "@30 [base] {2dms a2dms} {v2} {f16x2} {s32} -> v|q t (v:s32)",
    ];
    Tld4 "tld4" LoadStore Texture 20 "Gathers from a texture." [
        "{r g b a} {2d a2d} {v4} {u32 s32 f32} {f32} -> v|q t (v:s32) (e:f32)", "{r g b a} {cube acube} {v4} {u32 s32 f32} {f32} -> v|q t (e:f32)",
    ];
    Txq "txq" LoadStore Texture 20 "Queries a texture." [
        "{width height depth channel_data_type channel_order array_size num_mipmap_levels num_samples normalized_coords force_unnormalized_coords filter_mode addr_mode_0 addr_mode_1 addr_mode_2} {b32} -> d m",
        "@30 {level} {width height depth} {b32} -> d m a:u32",
    ];
    Istypep "istypep" Alu Texture 30 "Queries an opaque type." ["{texref samplerref surfref} -> q a:u64"];
    Suld "suld" LoadStore Texture 20 "Loads from a surface." ["{b} {$flat} [ca cg cs cv] [v2 v4] {b8 b16 b32 b64} {trap clamp zero} -> v t"];
    Sust "sust" LoadStore Texture 20 "Stores to a surface." [
        "{b} {$flat} [wb cg cs wt] [v2 v4] {b8 b16 b32 b64} {trap clamp zero} -> t v", "{p} {$flat} [wb cg cs wt] [v2 v4] {b32} {trap clamp zero} -> t v",
    ];
    Sured "sured" LoadStore Texture 20 "Reduces on a surface." [
        "{b} {add min max} {1d 2d 3d} {u32 s32 u64} {trap clamp zero} -> t a", "@50 {b} {min max} {1d 2d 3d} {s64} {trap clamp zero} -> t a",
        "{b} {and or} {1d 2d 3d} {b32} {trap clamp zero} -> t a", "{p} {add min max and or} {1d 2d 3d} {b32} {trap clamp zero} -> t a",
    ];
    Suq "suq" LoadStore Texture 20 "Queries a surface." ["{width height depth channel_data_type channel_order array_size memory_layout} {b32} -> d m"];
    // Matrices.
    Wmma "wmma" Tensor Mma 70 "Warp matrix multiply, and what loads and stores its fragments." WMMA;
    Mma "mma" Tensor Mma 70 "Matrix multiply of fragments that a warp holds." MMA;
    Wgmma "wgmma" Tensor Wgmma 90 "Products of matrices by a warpgroup, which go on while its warps execute other instructions." WGMMA;
    Tcgen05 "tcgen05" Fma Data 100 "Fifth-generation tensor core operations." [
        "~ {alloc dealloc relinquish_alloc_permit ld st wait::ld wait::st cp shift mma commit fence::before_thread_sync fence::after_thread_sync} <sp ws sync aligned cta_group::1 cta_group::2 shared::cta shared::cluster b32 b64 x1 x2 x4 x8 x16 x32 x64 x128 16x64b 16x128b 16x256b 32x32b 16x32bx2 128x256b 4x256b 128x128b 64x128b 32x128b warpx4 warpx2::02_13 warpx2::01_23 b8x16 b6x16_p32 b4x16_p64 down pack::16b unpack::16b red min max abs NaN u32 s32 f32 kind::f16 kind::tf32 kind::f8f6f4 kind::i8 kind::mxf8f6f4 kind::mxf4 kind::mxf4nvf4 block_scale scale_vec::1X scale_vec::2X scale_vec::4X block16 block32 collector::a::fill collector::a::use collector::a::lastuse collector::a::discard ashift mbarrier::arrive::one multicast::cluster spcluster> -> *",
    ];
    Ldmatrix "ldmatrix" LoadStore LoadMatrix 75 "Loads matrices from shared memory into fragments." [
        "{sync} {aligned} {m8n8} {x1 x2 x4} [trans] [$shared] {b16} -> v m",
        "@100a v8.6 {sync} {aligned} {m16n16} {x1 x2} {trans} [$shared] {b8} -> v m", "@100a v8.6 {sync} {aligned} {m16n16} {x1 x2} {trans} [$shared] {b8x16} {b6x16_p32 b4x16_p64} -> v m",
        "@100a v8.6 {sync} {aligned} {m8n16} {x1 x2 x4} [$shared] {b8x16} {b6x16_p32 b4x16_p64} -> v m",
    ];
    Stmatrix "stmatrix" LoadStore StoreMatrix 90 "Stores matrices from fragments into shared memory." [
        "{sync} {aligned} {m8n8} {x1 x2 x4} [trans] [$shared] {b16} -> m v", "@100a v8.6 {sync} {aligned} {m16n8} {x1 x2 x4} {trans} [$shared] {b8} -> m v",
    ];
    Movmatrix "movmatrix" Alu MoveMatrix 75 "Transposes a matrix whose fragments a warp holds." ["{sync} {aligned} {m8n8} {trans} {b16} -> d:b32 a:b32"];
    // Collectives.
    Vote "vote" Control Vote 12 "Votes among the threads of a warp." [
        "{all any uni} {pred} -> q p", "@20 {ballot} {b32} -> d p", "@30 {sync} {all any uni} {pred} -> q p a:b32", "@30 {sync} {ballot} {b32} -> d p a:b32",
        "@30 {ballot} {sync} {b32} -> d p a:b32",
    ];
    Shfl "shfl" Control Shuffle 30 "Moves values between the lanes of a warp." [
        "{up down bfly idx} {b32} -> d|q a b:u32 c:u32", "{sync} {up down bfly idx} {b32} -> d|q a b:u32 c:u32 e:b32",
    ];
    Match "match" Control Match 70 "Finds lanes with equal values." ["{any} {sync} {b32 b64} -> d:b32 a b:b32", "{all} {sync} {b32 b64} -> d:b32|q a b:b32"];
    Redux "redux" Control Redux 80 "Reduces a value over lanes." [
        "{sync} {add min max} {u32 s32} -> d a b:b32", "{sync} {and or xor} {b32} -> d a b:b32", "@100-110a {sync} {min max} [abs] [NaN] {f32} -> d a b:b32",
    ];
    Activemask "activemask" Control ActiveMask 30 "The active lanes of the warp." ["{b32} -> d"];
    Elect "elect" Control Elect 90 "Elects one thread." ["{sync} -> d|q a:b32"];
    // Control flow and synchronisation.
    Bra "bra" Control Branch 10 "Branches." ["[uni] -> L"];
    Brx "brx" Control BranchIndirect 30 "Branches through a table." ["{idx} [uni] -> a:u32 L"];
    Call "call" Control Call 10 "Calls a function." ["[uni] -> *"];
    Ret "ret" Control Return 10 "Returns from a function." ["[uni] -> "];
    Exit "exit" Control Exit 10 "Ends the thread." [" -> "];
    Bar "bar" Control Barrier 10 "A barrier of the thread block." [
        "@30 {warp} {sync} -> a:b32", "[cta] {sync} -> a:u32 (b:u32)", "@20 [cta] {arrive} -> a:u32 b:u32",
        "@20 [cta] {red} {popc} {u32} -> d a:u32 (b:u32) p", "@20 [cta] {red} {and or} {pred} -> q a:u32 (b:u32) p",
    ];
    Barrier "barrier" Control Barrier 30 "A barrier of the thread block." [
        "[cta] {sync} [aligned] -> a:u32 (b:u32)", "[cta] {arrive} [aligned] -> a:u32 b:u32",
        "[cta] {red} {popc} [aligned] {u32} -> d a:u32 (b:u32) p", "[cta] {red} {and or} [aligned] {pred} -> q a:u32 (b:u32) p",
        "@90 {cluster} {arrive} [release relaxed] [aligned] -> ", "@90 {cluster} {wait} [acquire] [aligned] -> ",
    ];
    Nanosleep "nanosleep" Control Sleep 70 "Suspends the thread for a time." ["{u32} -> a"];
    Trap "trap" Control Trap 10 "Stops the program with a fault." [" -> "];
    Brkpt "brkpt" Control Trap 11 "A breakpoint: with no debugger, a fault." [" -> "];
    Pmevent "pmevent" Control Data 10 "Triggers a performance monitor event, which is ignored." ["[mask] -> i"];
    Griddepcontrol "griddepcontrol" Control Data 90 "Controls the execution of dependent grids, which begin when the prerequisite grid has completed." ["{launch_dependents wait} -> "];
    Setmaxnreg "setmaxnreg" Control SetRegisters 90 "Moves registers between the warps of a warpgroup and the pool of their block." ["@90a v8.0 {inc dec} {sync} {aligned} {u32} -> i"];
    Clusterlaunchcontrol "clusterlaunchcontrol" Control Data 100 "Cancels launches of clusters of the thread's grid." [
        "v8.6 {try_cancel} {async} [shared::cta] {mbarrier::complete_tx::bytes} {b128} -> m m", "@100a v8.6 {try_cancel} {async} [shared::cta] {mbarrier::complete_tx::bytes} {multicast::cluster::all} {b128} -> m m",
        "v8.6 {query_cancel} {is_canceled} {pred} {b128} -> q a:b128", "v8.6 {query_cancel} {get_first_ctaid::x get_first_ctaid::y get_first_ctaid::z} {b32} {b128} -> d a:b128",
        "v8.6 {query_cancel} {get_first_ctaid} {v4} {b32} {b128} -> v a:b128",
    ] rewritten;
    Alloca "alloca" Alu Data 52 "Allocates stack memory." ["{u32 u64} -> d a (i)"] rewritten;
    Stacksave "stacksave" Alu Data 52 "Saves the stack pointer." ["{u32 u64} -> d"] rewritten;
    Stackrestore "stackrestore" Alu Data 52 "Restores the stack pointer." ["{u32 u64} -> a"] rewritten;
    // The instructions that transformation 6 injects; the papers write them.
    Ssy "ssy" Control Ssy 10 "Pushes a sync token." [" -> L"] papers;
    Sync "sync" Control Sync 10 "Pops a token." [" -> "] papers;
    PreBrk "preBrk" Control PreBreak 10 "Pushes a break token." [" -> L"] papers;
    Brk "brk" Control Break 10 "Leaves a loop." [" -> "] papers;
    PreRet "preRet" Control PreReturn 10 "Pushes a call token." [" -> (L)"] papers;
}
