//! Lanes: exact execution of data operations over the 32 lanes of a warp. Each operation is a
//! loop that the compiler vectorises; it is compiled once for each instruction set of the host
//! and chosen when the program is loaded. All of them give the same bits.

mod address;
mod approx;
mod bits;
mod compare;
mod convert;
pub mod file;
mod float;
mod int;
mod mov;
#[cfg(test)]
mod oracle;
mod packed;
mod video;

use sim_frontend::form::Form;
use sim_frontend::isa::{Root, is_video};
use sim_frontend::program::Op;
use sim_memory::vocabulary::{LaneMask, ScalarType};

use file::LaneFile;

/// A lane function: computes an operation in the lanes of the mask (guard included).
///
/// # Safety
/// The host must have the instruction set the function was resolved for.
pub type LaneFn = unsafe fn(&mut LaneFile<'_>, &Op, LaneMask);

/// Instruction sets of the host that lane functions are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum InstructionSet {
    /// What every host of the target has.
    Baseline,
    /// AVX2 and FMA.
    Avx2Fma,
    /// AVX-512 F, BW, DQ, VL.
    Avx512,
}

impl InstructionSet {
    /// Those this host has, best last.
    pub fn available() -> Vec<Self> {
        let mut list = vec![Self::Baseline];
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt")
                && is_x86_feature_detected!("popcnt");
            if avx2 {
                list.push(Self::Avx2Fma);
            }
            if avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
            {
                list.push(Self::Avx512);
            }
        }
        list
    }

    /// The one used where none is asked for. AVX-512 brings nothing over AVX2 here and lowers
    /// the clock of some hosts, so AVX2 is preferred.
    pub fn detect() -> Self {
        let available = Self::available();
        if available.contains(&Self::Avx2Fma) { Self::Avx2Fma } else { Self::Baseline }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Avx2Fma => "avx2+fma",
            Self::Avx512 => "avx512",
        }
    }
}

/// One function for each instruction set.
pub(crate) type Variants = [LaneFn; 3];

/// Compiles one body for each instruction set. Inside it `FMA` says whether fused multiply-add
/// is an instruction.
macro_rules! lane {
    ($body:expr) => {{
        #[allow(dead_code, reason = "most bodies do not ask")]
        unsafe fn baseline(
            f: &mut $crate::lanes::file::LaneFile<'_>,
            op: &sim_frontend::program::Op,
            m: u32,
        ) {
            const FMA: bool = false;
            ($body)(f, op, m)
        }
        #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt"))]
        #[allow(dead_code, reason = "most bodies do not ask")]
        unsafe fn avx2(f: &mut $crate::lanes::file::LaneFile<'_>, op: &sim_frontend::program::Op, m: u32) {
            const FMA: bool = cfg!(target_arch = "x86_64");
            ($body)(f, op, m)
        }
        #[cfg_attr(
            target_arch = "x86_64",
            target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi1,bmi2,lzcnt,popcnt")
        )]
        #[allow(dead_code, reason = "most bodies do not ask")]
        unsafe fn avx512(f: &mut $crate::lanes::file::LaneFile<'_>, op: &sim_frontend::program::Op, m: u32) {
            const FMA: bool = cfg!(target_arch = "x86_64");
            ($body)(f, op, m)
        }
        Some([
            baseline as $crate::lanes::LaneFn,
            avx2 as $crate::lanes::LaneFn,
            avx512 as $crate::lanes::LaneFn,
        ])
    }};
}
pub(crate) use lane;

/// One function of two values for all integer types.
macro_rules! int2 {
    ($ty:expr, |$a:ident, $b:ident| $e:expr) => {
        match $ty {
            sim_memory::vocabulary::ScalarType::S16 => {
                $crate::lanes::lane!(|f: &mut $crate::lanes::file::LaneFile<'_>,
                                      op: &sim_frontend::program::Op,
                                      m| $crate::lanes::bin32(
                    f,
                    op,
                    m,
                    |a, b| {
                        let ($a, $b) = (a as i16, b as i16);
                        ($e) as u16 as u32
                    }
                ))
            }
            sim_memory::vocabulary::ScalarType::U16 | sim_memory::vocabulary::ScalarType::B16 => {
                $crate::lanes::lane!(|f: &mut $crate::lanes::file::LaneFile<'_>,
                                      op: &sim_frontend::program::Op,
                                      m| $crate::lanes::bin32(
                    f,
                    op,
                    m,
                    |a, b| {
                        let ($a, $b) = (a as u16, b as u16);
                        ($e) as u16 as u32
                    }
                ))
            }
            sim_memory::vocabulary::ScalarType::S32 => {
                $crate::lanes::lane!(|f: &mut $crate::lanes::file::LaneFile<'_>,
                                      op: &sim_frontend::program::Op,
                                      m| $crate::lanes::bin32(
                    f,
                    op,
                    m,
                    |a, b| {
                        let ($a, $b) = (a as i32, b as i32);
                        ($e) as u32
                    }
                ))
            }
            sim_memory::vocabulary::ScalarType::U32 | sim_memory::vocabulary::ScalarType::B32 => {
                $crate::lanes::lane!(|f: &mut $crate::lanes::file::LaneFile<'_>,
                                      op: &sim_frontend::program::Op,
                                      m| $crate::lanes::bin32(
                    f,
                    op,
                    m,
                    |a, b| {
                        let ($a, $b) = (a, b);
                        ($e) as u32
                    }
                ))
            }
            sim_memory::vocabulary::ScalarType::S64 => {
                $crate::lanes::lane!(|f: &mut $crate::lanes::file::LaneFile<'_>,
                                      op: &sim_frontend::program::Op,
                                      m| $crate::lanes::bin64(
                    f,
                    op,
                    m,
                    |a, b| {
                        let ($a, $b) = (a as i64, b as i64);
                        ($e) as u64
                    }
                ))
            }
            sim_memory::vocabulary::ScalarType::U64 | sim_memory::vocabulary::ScalarType::B64 => {
                $crate::lanes::lane!(|f: &mut $crate::lanes::file::LaneFile<'_>,
                                      op: &sim_frontend::program::Op,
                                      m| $crate::lanes::bin64(
                    f,
                    op,
                    m,
                    |a, b| {
                        let ($a, $b) = (a, b);
                        ($e) as u64
                    }
                ))
            }
            _ => None,
        }
    };
}

/// One function of a value for all integer types.
macro_rules! int1 {
    ($ty:expr, |$a:ident| $e:expr) => {
        match $ty {
            sim_memory::vocabulary::ScalarType::S16 => {
                $crate::lanes::lane!(|f: &mut $crate::lanes::file::LaneFile<'_>,
                                      op: &sim_frontend::program::Op,
                                      m| $crate::lanes::un32(
                    f,
                    op,
                    m,
                    |a| {
                        let $a = a as i16;
                        ($e) as u16 as u32
                    }
                ))
            }
            sim_memory::vocabulary::ScalarType::U16 | sim_memory::vocabulary::ScalarType::B16 => {
                $crate::lanes::lane!(|f: &mut $crate::lanes::file::LaneFile<'_>,
                                      op: &sim_frontend::program::Op,
                                      m| $crate::lanes::un32(
                    f,
                    op,
                    m,
                    |a| {
                        let $a = a as u16;
                        ($e) as u16 as u32
                    }
                ))
            }
            sim_memory::vocabulary::ScalarType::S32 => {
                $crate::lanes::lane!(|f: &mut $crate::lanes::file::LaneFile<'_>,
                                      op: &sim_frontend::program::Op,
                                      m| $crate::lanes::un32(
                    f,
                    op,
                    m,
                    |a| {
                        let $a = a as i32;
                        ($e) as u32
                    }
                ))
            }
            sim_memory::vocabulary::ScalarType::U32 | sim_memory::vocabulary::ScalarType::B32 => {
                $crate::lanes::lane!(|f: &mut $crate::lanes::file::LaneFile<'_>,
                                      op: &sim_frontend::program::Op,
                                      m| $crate::lanes::un32(
                    f,
                    op,
                    m,
                    |a| {
                        let $a = a;
                        ($e) as u32
                    }
                ))
            }
            sim_memory::vocabulary::ScalarType::S64 => {
                $crate::lanes::lane!(|f: &mut $crate::lanes::file::LaneFile<'_>,
                                      op: &sim_frontend::program::Op,
                                      m| $crate::lanes::un64(
                    f,
                    op,
                    m,
                    |a| {
                        let $a = a as i64;
                        ($e) as u64
                    }
                ))
            }
            sim_memory::vocabulary::ScalarType::U64 | sim_memory::vocabulary::ScalarType::B64 => {
                $crate::lanes::lane!(|f: &mut $crate::lanes::file::LaneFile<'_>,
                                      op: &sim_frontend::program::Op,
                                      m| $crate::lanes::un64(
                    f,
                    op,
                    m,
                    |a| {
                        let $a = a;
                        ($e) as u64
                    }
                ))
            }
            _ => None,
        }
    };
}
pub(crate) use {int1, int2};

/// The lane function that moves one word or two, whatever their type.
pub fn mov_words(words: u32, isa: InstructionSet) -> Option<LaneFn> {
    mov::words(words).map(|variants| variants[isa as usize])
}

/// The lane function of a form; `None` where it is no data operation that is executed.
pub fn resolve(form: &Form, isa: InstructionSet) -> Option<LaneFn> {
    use Root as R;
    let variants: Option<Variants> = match form.root {
        R::Mov => mov::resolve(form),
        // Nothing that a thread can see: no counters, no dependent grids, registers stay as they are.
        R::Pmevent | R::Griddepcontrol | R::Setmaxnreg => lane!(|_: &mut file::LaneFile<'_>, _: &Op, _| {}),
        // Each block is a cluster of its own, of rank 0.
        R::Getctarank => lane!(|f: &mut file::LaneFile<'_>, op: &Op, m| f.w32(op.dst[0], m, [0; 32])),
        // A policy is opaque; which lines it prefers is not modelled.
        R::Createpolicy => lane!(|f: &mut file::LaneFile<'_>, op: &Op, m| f.w64(op.dst[0], m, [0; 32])),
        R::Cvt => convert::resolve(form),
        R::Cvta | R::Isspacep => address::resolve(form),
        _ if is_video(form.root) => video::resolve(form),
        _ if packed::handles(form) => packed::resolve(form),
        R::Setp | R::Set | R::Selp | R::Slct | R::Testp => compare::resolve(form),
        R::Sin | R::Cos | R::Lg2 | R::Ex2 | R::Rsqrt | R::Tanh => approx::resolve(form),
        R::And
        | R::Or
        | R::Xor
        | R::Not
        | R::Cnot
        | R::Shl
        | R::Shr
        | R::Shf
        | R::Lop3
        | R::Prmt
        | R::Popc
        | R::Clz
        | R::Bfind
        | R::Fns
        | R::Brev
        | R::Bfe
        | R::Bfi
        | R::Szext
        | R::Bmsk => bits::resolve(form),
        _ if matches!(form.ty, ScalarType::F32 | ScalarType::F64) => float::resolve(form),
        _ => int::resolve(form),
    };
    variants.map(|variants| variants[isa as usize])
}

/// What a lane function finds in the immediate of its operation, where a form has so many
/// modifiers that one function serves many forms.
pub fn immediate(form: &Form) -> Option<i64> {
    match form.root {
        Root::Cvt => Some(convert::encode(form)),
        _ if is_video(form.root) => Some(video::encode(form)),
        _ if packed::handles(form) => Some(packed::encode(form)),
        Root::Set => Some(compare::yes(form)),
        _ => None,
    }
}

/// An array lane by lane: a plain loop, which takes on the caller's instruction set;
/// `std::array::from_fn` is compiled on its own, for what every host has.
#[inline(always)]
pub(crate) fn each<T: Copy + Default, const N: usize>(mut f: impl FnMut(usize) -> T) -> [T; N] {
    let mut out = [T::default(); N];
    for i in 0..N {
        out[i] = f(i);
    }
    out
}

/// Maps 32-bit lanes.
#[inline(always)]
pub(crate) fn un32(f: &mut LaneFile<'_>, op: &Op, m: u32, g: impl Fn(u32) -> u32) {
    let a = f.r32(op.src[0]);
    f.w32(op.dst[0], m, each(|i| g(a[i])));
}

/// Maps pairs of 32-bit lanes.
#[inline(always)]
pub(crate) fn bin32(f: &mut LaneFile<'_>, op: &Op, m: u32, g: impl Fn(u32, u32) -> u32) {
    let (a, b) = (f.r32(op.src[0]), f.r32(op.src[1]));
    f.w32(op.dst[0], m, each(|i| g(a[i], b[i])));
}

/// Maps triples of 32-bit lanes.
#[inline(always)]
pub(crate) fn tri32(f: &mut LaneFile<'_>, op: &Op, m: u32, g: impl Fn(u32, u32, u32) -> u32) {
    let (a, b, c) = (f.r32(op.src[0]), f.r32(op.src[1]), f.r32(op.src[2]));
    f.w32(op.dst[0], m, each(|i| g(a[i], b[i], c[i])));
}

/// Maps 64-bit lanes.
#[inline(always)]
pub(crate) fn un64(f: &mut LaneFile<'_>, op: &Op, m: u32, g: impl Fn(u64) -> u64) {
    let a = f.r64(op.src[0]);
    f.w64(op.dst[0], m, each(|i| g(a[i])));
}

/// Maps pairs of 64-bit lanes.
#[inline(always)]
pub(crate) fn bin64(f: &mut LaneFile<'_>, op: &Op, m: u32, g: impl Fn(u64, u64) -> u64) {
    let (a, b) = (f.r64(op.src[0]), f.r64(op.src[1]));
    f.w64(op.dst[0], m, each(|i| g(a[i], b[i])));
}

/// Maps triples of 64-bit lanes.
#[inline(always)]
pub(crate) fn tri64(f: &mut LaneFile<'_>, op: &Op, m: u32, g: impl Fn(u64, u64, u64) -> u64) {
    let (a, b, c) = (f.r64(op.src[0]), f.r64(op.src[1]), f.r64(op.src[2]));
    f.w64(op.dst[0], m, each(|i| g(a[i], b[i], c[i])));
}

#[cfg(test)]
mod tests;
