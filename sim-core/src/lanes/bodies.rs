//! Bodies of lane functions: each is compiled once for each instruction set of the host.

use sim_frontend::program::Op;
use sim_memory::vocabulary::LaneMask;

use super::file::LaneFile;
use crate::registers::each;

/// A lane function: computes an operation in the lanes of the mask (guard included).
///
/// # Safety
/// The host must have the instruction set the function was resolved for.
pub type LaneFn = unsafe fn(&mut LaneFile<'_>, &Op, LaneMask);

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
            baseline as $crate::lanes::bodies::LaneFn,
            avx2 as $crate::lanes::bodies::LaneFn,
            avx512 as $crate::lanes::bodies::LaneFn,
        ])
    }};
}
pub(crate) use lane;

/// One function of two values for all integer types.
macro_rules! int2 {
    ($ty:expr, |$a:ident, $b:ident| $e:expr) => {
        match $ty {
            sim_memory::vocabulary::ScalarType::S16 => {
                $crate::lanes::bodies::lane!(|f: &mut $crate::lanes::file::LaneFile<'_>,
                                              op: &sim_frontend::program::Op,
                                              m| {
                    $crate::lanes::bodies::bin32(f, op, m, |a, b| {
                        let ($a, $b) = (a as i16, b as i16);
                        ($e) as u16 as u32
                    })
                })
            }
            sim_memory::vocabulary::ScalarType::U16 | sim_memory::vocabulary::ScalarType::B16 => {
                $crate::lanes::bodies::lane!(|f: &mut $crate::lanes::file::LaneFile<'_>,
                                              op: &sim_frontend::program::Op,
                                              m| {
                    $crate::lanes::bodies::bin32(f, op, m, |a, b| {
                        let ($a, $b) = (a as u16, b as u16);
                        ($e) as u16 as u32
                    })
                })
            }
            sim_memory::vocabulary::ScalarType::S32 => {
                $crate::lanes::bodies::lane!(|f: &mut $crate::lanes::file::LaneFile<'_>,
                                              op: &sim_frontend::program::Op,
                                              m| {
                    $crate::lanes::bodies::bin32(f, op, m, |a, b| {
                        let ($a, $b) = (a as i32, b as i32);
                        ($e) as u32
                    })
                })
            }
            sim_memory::vocabulary::ScalarType::U32 | sim_memory::vocabulary::ScalarType::B32 => {
                $crate::lanes::bodies::lane!(|f: &mut $crate::lanes::file::LaneFile<'_>,
                                              op: &sim_frontend::program::Op,
                                              m| {
                    $crate::lanes::bodies::bin32(f, op, m, |a, b| {
                        let ($a, $b) = (a, b);
                        ($e) as u32
                    })
                })
            }
            sim_memory::vocabulary::ScalarType::S64 => {
                $crate::lanes::bodies::lane!(|f: &mut $crate::lanes::file::LaneFile<'_>,
                                              op: &sim_frontend::program::Op,
                                              m| {
                    $crate::lanes::bodies::bin64(f, op, m, |a, b| {
                        let ($a, $b) = (a as i64, b as i64);
                        ($e) as u64
                    })
                })
            }
            sim_memory::vocabulary::ScalarType::U64 | sim_memory::vocabulary::ScalarType::B64 => {
                $crate::lanes::bodies::lane!(|f: &mut $crate::lanes::file::LaneFile<'_>,
                                              op: &sim_frontend::program::Op,
                                              m| {
                    $crate::lanes::bodies::bin64(f, op, m, |a, b| {
                        let ($a, $b) = (a, b);
                        ($e) as u64
                    })
                })
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
                $crate::lanes::bodies::lane!(|f: &mut $crate::lanes::file::LaneFile<'_>,
                                              op: &sim_frontend::program::Op,
                                              m| {
                    $crate::lanes::bodies::un32(f, op, m, |a| {
                        let $a = a as i16;
                        ($e) as u16 as u32
                    })
                })
            }
            sim_memory::vocabulary::ScalarType::U16 | sim_memory::vocabulary::ScalarType::B16 => {
                $crate::lanes::bodies::lane!(|f: &mut $crate::lanes::file::LaneFile<'_>,
                                              op: &sim_frontend::program::Op,
                                              m| {
                    $crate::lanes::bodies::un32(f, op, m, |a| {
                        let $a = a as u16;
                        ($e) as u16 as u32
                    })
                })
            }
            sim_memory::vocabulary::ScalarType::S32 => {
                $crate::lanes::bodies::lane!(|f: &mut $crate::lanes::file::LaneFile<'_>,
                                              op: &sim_frontend::program::Op,
                                              m| {
                    $crate::lanes::bodies::un32(f, op, m, |a| {
                        let $a = a as i32;
                        ($e) as u32
                    })
                })
            }
            sim_memory::vocabulary::ScalarType::U32 | sim_memory::vocabulary::ScalarType::B32 => {
                $crate::lanes::bodies::lane!(|f: &mut $crate::lanes::file::LaneFile<'_>,
                                              op: &sim_frontend::program::Op,
                                              m| {
                    $crate::lanes::bodies::un32(f, op, m, |a| {
                        let $a = a;
                        ($e) as u32
                    })
                })
            }
            sim_memory::vocabulary::ScalarType::S64 => {
                $crate::lanes::bodies::lane!(|f: &mut $crate::lanes::file::LaneFile<'_>,
                                              op: &sim_frontend::program::Op,
                                              m| {
                    $crate::lanes::bodies::un64(f, op, m, |a| {
                        let $a = a as i64;
                        ($e) as u64
                    })
                })
            }
            sim_memory::vocabulary::ScalarType::U64 | sim_memory::vocabulary::ScalarType::B64 => {
                $crate::lanes::bodies::lane!(|f: &mut $crate::lanes::file::LaneFile<'_>,
                                              op: &sim_frontend::program::Op,
                                              m| {
                    $crate::lanes::bodies::un64(f, op, m, |a| {
                        let $a = a;
                        ($e) as u64
                    })
                })
            }
            _ => None,
        }
    };
}
pub(crate) use {int1, int2};

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
