//! Every data form of the table against the oracle, for every instruction set of this host.

use sim_frontend::form::Form;
use sim_frontend::isa::{Root, TABLE, is_video, resolve as resolve_form};
use sim_frontend::lower::tf1_validate;
use sim_memory::vocabulary::ScalarType as T;

use super::{Bound, Expected, Inputs, expected};
use crate::instruction_set::InstructionSet;
use crate::lanes::file::LaneFile;
use crate::lanes::tests::{data_forms, mix, op};
use crate::lanes::{immediate, resolve};
use crate::registers::LaneRow;
use sim_frontend::program::Pred;

/// Values of a type that matter often, and any.
fn pick(ty: T, seed: &mut u64) -> u64 {
    let bits = mix(seed);
    let of = |list: &[u64], bits: u64| list[(bits >> 8) as usize % list.len()];
    match ty {
        T::F32 | T::Tf32 | T::F32x2 => {
            let one = |bits: u64| match bits % 8 {
                0..3 => of(
                    &[
                        0,
                        1,
                        0x8000_0000,
                        0x7f80_0000,
                        0xff80_0000,
                        0x7fc0_0000,
                        0x3f80_0000,
                        0xbf80_0000,
                        0x7f7f_ffff,
                        0x0080_0000,
                        0x8000_0001,
                        0x007f_ffff,
                        0x7e80_0000,
                        0x7f00_0001,
                        0x4b00_0001,
                        0x3eff_ffff,
                        0x477f_f000,
                        0x4380_0000,
                        0x43e0_0000,
                        0x38ff_e000,
                    ],
                    bits,
                ),
                3..5 => (bits >> 32 & 0x80ff_ffff) | (110 + (bits >> 8) % 40) << 23,
                5 => u64::from(((bits >> 32) as i32 as f32 / 65536.0).to_bits()),
                _ => bits >> 32,
            };
            one(bits) << 32 | one(mix(seed)) & 0xffff_ffff
        }
        T::F64 => match bits % 8 {
            0..3 => of(
                &[
                    0,
                    1,
                    1 << 63,
                    0x7ff << 52,
                    0xfff << 52,
                    0x7ff8 << 48,
                    0x3ff << 52,
                    0xbff << 52,
                    u64::MAX >> 12 | 0x7fe << 52,
                    1 << 52,
                    u64::MAX >> 12,
                    0x3690_0000_0000_0001,
                    0x47ef_ffff_f000_0000,
                ],
                bits,
            ),
            3..6 => (bits & 0x800f_ffff_ffff_ffff) | (980 + (bits >> 20) % 90) << 52,
            _ => bits,
        },
        T::F16 | T::F16x2 | T::Bf16 | T::Bf16x2 | T::E4m3x2 | T::E5m2x2 => {
            let one = |bits: u64| match bits % 8 {
                0..3 => of(
                    &[0, 1, 0x8000, 0x7c00, 0xfc00, 0x7e00, 0x7f80, 0xff80, 0x3c00, 0x3f80, 0x7bff, 0x0400, 0x83ff, 0x007f, 0x7ff7, 0xfff7],
                    bits,
                ),
                3..6 => (bits >> 32 & 0x83ff) | ((0x2c00 + (bits >> 8) % 0x2000) & 0x7c00),
                _ => bits >> 48,
            } & 0xffff;
            one(bits) << 16 | one(mix(seed))
        }
        _ => match bits % 8 {
            0 => (bits >> 8) % 72,
            1 => 0u64.wrapping_sub((bits >> 8) % 5),
            2 => 1u64.rotate_left((bits >> 8) as u32),
            3 => (1u64 << (bits >> 8 & 63)).wrapping_sub(1),
            4 => ((bits >> 8) % 40) | 0xffff_ffff_0000_0000,
            // Windows of the generic address space begin at such addresses.
            5 => (bits >> 8 & 0xf) << 24 | bits & 0xff,
            _ => bits,
        },
    }
}

fn near(bits: u64, wanted: &Bound) -> bool {
    let Bound { value, relative, absolute, format } = wanted;
    let got = match format.precision {
        24 => f64::from(f32::from_bits(bits as u32)),
        53 => f64::from_bits(bits),
        _ => super::convert::half_to_double(*format, bits),
    };
    if value.is_nan() || got.is_nan() {
        // A double whose lower half is cut off keeps the upper half of the canonical NaN.
        let canonical = bits == format.nan() || bits == format.nan() & 0xffff_ffff_0000_0000;
        return value.is_nan() && canonical;
    }
    let largest = match format.precision {
        24 => f64::from(f32::MAX),
        53 => f64::MAX,
        11 => 65504.0,
        _ => f64::from(f32::from_bits(0x7f7f_0000)),
    };
    let clamped = |x: f64| x.clamp(-largest, largest);
    (clamped(got) - clamped(*value)).abs() <= absolute.max(relative * clamped(*value).abs())
        && (*value != 0.0 || got.is_sign_negative() == value.is_sign_negative())
}

/// The parts of operands that a video form may name.
pub(super) fn with_parts(form: &mut Form, seed: &mut u64) {
    let bits = mix(seed);
    let root = form.root;
    let lanes = match root {
        _ if root >= Root::Vadd4 => 4,
        _ if root >= Root::Vadd2 => 2,
        _ => 1,
    };
    let video = &mut form.mods.video;
    if lanes == 1 {
        let part = |at: u32| (bits >> at) as u16 % 7;
        let whole = video.secondary.is_some() || root == Root::Vmad;
        video.select = [if whole { 0 } else { part(0) }, part(8), part(16)];
        if root == Root::Vmad && !video.plus_one {
            video.negate = [bits >> 40 & 1 == 1, bits >> 41 & 1 == 1, bits >> 42 & 1 == 1];
        }
        return;
    }
    let mask = (1 << lanes) - 1;
    let source = |at: u32| {
        (0..lanes).fold(0, |out, i| out | ((bits >> (at + 3 * i)) as u16 % (2 * lanes as u16)) << (4 * i))
    };
    video.select = [((bits as u16 & mask).max(1)), source(8), source(24)];
}

#[test]
fn every_data_form_computes_what_the_oracle_says_with_every_instruction_set() {
    let sets = InstructionSet::available();
    let mut seed = 2026;
    let (mut forms, mut values) = (0, 0);
    let mut wrong: Vec<(&str, String)> = Vec::new();
    for row in TABLE.iter().filter(|row| row.executed() && row.of_lanes()) {
        for modifiers in data_forms(row) {
            let Ok(resolved) = resolve_form(row, &modifiers, false) else { continue };
            let mut form = resolved.form;
            if tf1_validate::modifiers(&form).is_err() {
                continue;
            }
            forms += 1;
            for _ in 0..if is_video(row.root) { 6 } else { 3 } {
                if is_video(row.root) {
                    with_parts(&mut form, &mut seed);
                }
                // 16-bit values live zero-extended.
                let register = if form.root == Root::Slct {
                    form.dst.bits()
                } else if form.root == Root::Cvt {
                    form.src_reg.into()
                } else {
                    form.ty.bits()
                };
                let mask = if register == 16 { 0xffff } else { u64::MAX };
                let mut rows = vec![LaneRow([0; 32]); 20];
                let mut inputs = [Inputs { src: [0; 5], psrc: [false; 2] }; 32];
                let preds = [0, mix(&mut seed) as u32, mix(&mut seed) as u32, 0];
                for (lane, input) in inputs.iter_mut().enumerate() {
                    for k in 0..5 {
                        let third = k == 2 && form.root == Root::Slct;
                        let value = pick(form.ty, &mut seed) & if third { u64::MAX } else { mask };
                        rows[2 * k].0[lane] = value as u32;
                        rows[2 * k + 1].0[lane] = (value >> 32) as u32;
                        input.src[k] = value;
                    }
                    input.psrc = [preds[1] >> lane & 1 == 1, preds[2] >> lane & 1 == 1];
                }
                let mut operation = op();
                operation.pdst = [Pred(0), Pred(3)];
                operation.imm = immediate(&form).unwrap_or(0);
                for &set in &sets {
                    let (mut rows, mut preds) = (rows.clone(), preds.to_vec());
                    let mut file = LaneFile { rows: &mut rows, consts: &[], preds: &mut preds };
                    let function =
                        resolve(&form, set).unwrap_or_else(|| panic!("{} {modifiers:?}", row.name));
                    // SAFETY: `available` found the instruction set on this host.
                    unsafe { function(&mut file, &operation, u32::MAX) };
                    for (lane, input) in inputs.iter().enumerate() {
                        let wanted = expected(&form, input)
                            .unwrap_or_else(|| panic!("the oracle lacks {} {modifiers:?}", row.name));
                        let wide = form.dst.bits() == 64
                            || form.root == Root::Cvt && form.dst_reg == 64
                            || form.root == Root::Createpolicy;
                        let low = u64::from(rows[16].0[lane]);
                        let bits = if wide { low | u64::from(rows[17].0[lane]) << 32 } else { low };
                        let p = |i: usize| preds[i] >> lane & 1 == 1;
                        let agrees = match wanted {
                            Expected::Bits(value) => bits == value,
                            Expected::BitsAndPredicate(value, q) => bits == value && p(0) == q,
                            Expected::Predicates(q, r) => p(0) == q && r.is_none_or(|r| p(3) == r),
                            Expected::Near(bound) => near(bits, &bound),
                            Expected::NearPair(low, high) => {
                                near(bits & 0xffff, &low) && near(bits >> 16, &high)
                            }
                        };
                        if !agrees && wrong.last().is_none_or(|(name, _)| *name != row.name) {
                            let opcode = format!("{}.{}", row.name, modifiers.join("."));
                            let words = format!(
                                "{opcode} {:?} with {}: {:#x?} gives {bits:#x}, predicates {} {}; {wanted:#x?}",
                                form.mods.video,
                                set.name(),
                                input.src,
                                p(0),
                                p(3)
                            );
                            wrong.push((row.name, words));
                        }
                        values += 1;
                    }
                }
            }
        }
    }
    let list: Vec<String> = wrong.into_iter().map(|(_, words)| words).collect();
    assert!(list.is_empty(), "{}", list.join("\n"));
    assert!(forms > 2900 && values > 200_000, "{forms} forms, {values} values");
}
