#![allow(clippy::manual_checked_ops, reason = "division by zero has cases of its own")]

use super::file::LaneFile;
use super::*;
use crate::registers::LaneRow;
use sim_frontend::isa::{Entry, TABLE, combinations, resolve as resolve_form};
use sim_frontend::program::{Extra, MAX_SLOTS, NO_PC, Op, OpClass, Pred, Row};

/// The forms of a row that lane functions compute; `mov.v2` and `mov.v4` become moves of their elements.
pub(super) fn data_forms(row: &Entry) -> impl Iterator<Item = Vec<&'static str>> {
    let of_elements = |words: &[&str]| words.iter().any(|word| matches!(*word, "v2" | "v4" | "b128"));
    let mov = row.root == Root::Mov;
    combinations(row).into_iter().filter(move |words| !(mov && of_elements(words)))
}

pub(super) fn op() -> Op {
    Op {
        class: OpClass::Data,
        cost: 0,
        form: 0,
        guard: Pred::TRUE,
        dst: [Row(16), Row::NONE, Row::NONE, Row::NONE],
        src: [Row(0), Row(2), Row(4), Row(6), Row(8)],
        pdst: [Pred(0), Pred::NONE],
        psrc: [Pred(1), Pred(2)],
        imm: 0,
        target: NO_PC,
        extra: Extra::None,
        slots: [0; MAX_SLOTS],
        slots_used: 0,
        slots_written: 0,
    }
}

/// A cheap deterministic mixer (SplitMix64).
pub(super) fn mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[test]
fn every_data_form_of_the_table_resolves_and_all_instruction_sets_give_the_same_bits() {
    let sets = InstructionSet::available();
    let mut seed = 7;
    let mut forms = 0;
    for row in TABLE.iter().filter(|row| row.executed() && row.of_lanes()) {
        for modifiers in data_forms(row) {
            let Ok(resolved) = resolve_form(row, &modifiers, false) else { continue };
            let form = resolved.form;
            assert!(resolve(&form, InstructionSet::Baseline).is_some(), "{} {modifiers:?}", row.name);
            forms += 1;
            let specials = [
                0u32,
                1,
                0x8000_0000,
                0x7f80_0000,
                0xff80_0000,
                0x7fc0_0000,
                0x3f80_0000,
                u32::MAX,
                0x0000_0001,
                0x7f7f_ffff,
            ];
            let mut rows = vec![LaneRow([0; 32]); 20];
            for row in &mut rows {
                for value in &mut row.0 {
                    let bits = mix(&mut seed);
                    *value = if bits >> 60 < 5 { specials[(bits % 10) as usize] } else { bits as u32 };
                }
            }
            let preds = [0, mix(&mut seed) as u32, mix(&mut seed) as u32];
            let mask = mix(&mut seed) as u32;
            let mut operation = op();
            operation.imm = immediate(&form).unwrap_or(0);
            let results: Vec<_> = sets
                .iter()
                .map(|&set| {
                    let (mut rows, mut preds) = (rows.clone(), preds.to_vec());
                    let mut file = LaneFile { rows: &mut rows, consts: &[], preds: &mut preds };
                    let function = resolve(&form, set).expect("resolves for every set");
                    // SAFETY: `available` found the instruction set on this host.
                    unsafe { function(&mut file, &operation, mask) };
                    (rows, preds)
                })
                .collect();
            assert!(results.windows(2).all(|w| w[0] == w[1]), "{} {modifiers:?}", row.name);
            // Lanes outside the mask keep their values.
            for (before, after) in rows.iter().zip(&results[0].0).take(16) {
                assert_eq!(before, after, "{} {modifiers:?} wrote elsewhere", row.name);
            }
        }
    }
    assert!(forms > 1500, "{forms}");
}

fn run(text: &str, a: u64, b: u64, c: u64) -> u64 {
    let mut words = text.split('.');
    let row = words.next().and_then(sim_frontend::isa::entry).expect("a root");
    let form =
        resolve_form(row, &words.collect::<Vec<_>>(), false).unwrap_or_else(|e| panic!("{text} {e:?}")).form;
    let mut rows = vec![LaneRow([0; 32]); 20];
    let put = |rows: &mut Vec<LaneRow>, at: usize, value: u64, wide: bool| {
        if wide {
            rows[at] = LaneRow([value as u32; 32]);
            rows[at + 1] = LaneRow([(value >> 32) as u32; 32]);
        } else {
            rows[at] = LaneRow([value as u32; 32]);
        }
    };
    let wide = form.ty.bits() == 64;
    put(&mut rows, 0, a, wide);
    let narrow_b = matches!(form.root, Root::Shl | Root::Shr | Root::Bfe);
    put(&mut rows, 2, b, wide && !narrow_b);
    put(&mut rows, 4, c, (wide && form.root != Root::Bfe) || form.dst.bits() == 64);
    let mut preds = vec![0, 0, 0];
    let mut file = LaneFile { rows: &mut rows, consts: &[], preds: &mut preds };
    let function = resolve(&form, InstructionSet::detect()).expect("resolves");
    let op = Op { imm: immediate(&form).unwrap_or(0), ..op() };
    // SAFETY: `detect` found the instruction set on this host.
    unsafe { function(&mut file, &op, u32::MAX) };
    if form.root == Root::Setp {
        return u64::from(preds[0] & 1);
    }
    let low = u64::from(rows[16].0[0]);
    if form.dst.bits() == 64 { low | u64::from(rows[17].0[0]) << 32 } else { low }
}

#[test]
fn integers_by_wide_arithmetic() {
    let mut seed = 1;
    for _ in 0..300 {
        let (a, b, c) = (mix(&mut seed), mix(&mut seed), mix(&mut seed));
        let (ua, ub, uc) = (a as u32, b as u32, c as u32);
        let (sa, sb) = (i128::from(ua as i32), i128::from(ub as i32));
        assert_eq!(run("mul.hi.s32", a, b, 0), u64::from(((sa * sb) >> 32) as u32));
        assert_eq!(run("mul.wide.s32", a, b, 0), (sa * sb) as u64);
        assert_eq!(run("mul.hi.u64", a, b, 0), ((u128::from(a) * u128::from(b)) >> 64) as u64);
        assert_eq!(
            run("mad.lo.u32", a, b, c),
            u64::from((u128::from(ua) * u128::from(ub) + u128::from(uc)) as u32)
        );
        assert_eq!(run("mad.wide.u32", a, b, c), (u128::from(ua) * u128::from(ub) + u128::from(c)) as u64);
        assert_eq!(
            run("add.sat.s32", a, b, 0),
            u64::from((sa + sb).clamp(i32::MIN.into(), i32::MAX.into()) as u32)
        );
        assert_eq!(run("sub.u16", a, b, 0), (a.wrapping_sub(b) & 0xffff));
        if ub != 0 {
            assert_eq!(run("div.u32", a, b, 0), u64::from(ua / ub));
            assert_eq!(run("rem.s32", a, b, 0), u64::from((sa % sb) as u32));
        }
        assert_eq!(run("setp.lt.s64", a, b, 0), u64::from((a as i64) < b as i64));
        assert_eq!(run("min.s16", a, b, 0), u64::from((a as i16).min(b as i16) as u16));
    }
}

/// What the manual leaves open.
#[test]
fn results_of_an_h100() {
    let cases = [
        ("rem.s32", 0x2257_de32, 0, 0, 0xffff_ffff),
        ("rem.u32", 7, 0, 0, 0xffff_ffff),
        ("rem.u64", 7, 0, 0, u64::MAX),
        ("fns.b32", 0x6ec4_0787, 3, 0x8000_0000, 0),
        ("fns.b32", 0xffff_ffff, 0x26, 0x8000_0000, 0),
        ("fma.rn.oob.f16x2", 0xb03f_7ff7, 0xfff7_0000, 0xfc00_7bff, 0),
        ("fma.rn.oob.bf16x2", 0x7fff_7ff7, 0x3f80_3f80, 0x3f80_3f80, 0x7fff_0000),
    ];
    for (text, a, b, c, expected) in cases {
        assert_eq!(run(text, a, b, c), expected, "{text} {a:#x} {b:#x} {c:#x}");
    }
}

#[test]
fn shifts_fields_and_bits_by_the_manual() {
    let cases = [
        ("shl.b32", 1, 32, 0, 0),
        ("shr.s32", 0x8000_0000, 40, 0, 0xffff_ffff),
        ("shr.u64", 1 << 63, 63, 0, 1),
        ("bfe.u32", 0xdead_beef, 8, 8, 0xbe),
        ("bfe.s32", 0x0000_8000, 8, 8, 0xffff_ff80),
        ("bfe.s32", 0x8000_0000, 40, 8, 0xffff_ffff),
        ("bfe.u64", 0xff00, 8, 64, 0xff),
        ("sad.u32", 3, 10, 100, 107),
        ("sad.u32", 0, u64::from(u32::MAX), 2, 1),
        ("sad.s32", 0xffff_fff0, 0x10, 1, 0x21),
        ("sad.s32", 0x8000_0000, 0x7fff_ffff, 0, 0xffff_ffff),
        ("sad.u16", 1, 0xffff, 0xf, 0xd),
        ("sad.s16", 0xffff, 1, 5, 7),
        ("sad.u64", 1 << 40, 1, 1, 1 << 40),
        ("sad.s64", u64::MAX, 1, 1 << 63, (1 << 63) + 2),
        ("popc.b32", 0xf0f0, 0, 0, 8),
        ("clz.b32", 0, 0, 0, 32),
        ("brev.b32", 1, 0, 0, 0x8000_0000),
        ("bfind.u32", 0x10, 0, 0, 4),
        ("bfind.s32", 0xffff_ffff, 0, 0, 0xffff_ffff),
        ("bfind.shiftamt.u32", 0x10, 0, 0, 27),
        ("prmt.b32", 0x3322_1100, 0x7766_5544, 0x7531, 0x7755_3311),
        ("prmt.b32", 0x8012_34ff, 0, 0x0009, 0xffff_ff00),
        ("mul24.lo.u32", 0x0100_0003, 5, 0, 15),
        ("shf.l.wrap.b32", 0x8000_0000, 1, 1, 3),
        ("abs.s32", 0x8000_0000, 0, 0, 0x8000_0000),
        ("cnot.b32", 0, 0, 0, 1),
    ];
    for (text, a, b, c, expected) in cases {
        assert_eq!(run(text, a, b, c), expected, "{text} {a:#x} {b} {c}");
    }
}

#[test]
fn floats_and_special_values() {
    let f = |x: f32| u64::from(x.to_bits());
    let d = |x: f64| x.to_bits();
    let cases = [
        ("add.f32", f(1.5), f(2.25), 0, f(3.75)),
        ("add.f32", f(f32::INFINITY), f(f32::NEG_INFINITY), 0, 0x7fff_ffff),
        ("add.sat.f32", f(0.75), f(0.75), 0, f(1.0)),
        ("mul.ftz.f32", 0x0080_0000, f(0.5), 0, 0),
        (
            "fma.rn.f32",
            f(1.0 + f32::EPSILON),
            f(1.0 - f32::EPSILON),
            f(-1.0),
            f(-f32::EPSILON * f32::EPSILON),
        ),
        ("fma.rz.f32", f(1.0), f(1.0), f(2f32.powi(-30)), f(1.0)),
        ("add.rp.f32", f(1.0), f(2f32.powi(-30)), 0, f(1.0 + f32::EPSILON)),
        ("min.f32", f(f32::NAN), f(3.0), 0, f(3.0)),
        ("min.f32", f(0.0), f(-0.0), 0, f(-0.0)),
        ("max.f32", f(-0.0), f(0.0), 0, f(0.0)),
        ("sqrt.rn.f32", f(2.0), 0, 0, f(std::f32::consts::SQRT_2)),
        ("rsqrt.approx.f32", f(4.0), 0, 0, f(0.5)),
        ("ex2.approx.f32", f(3.0), 0, 0, f(8.0)),
        ("lg2.approx.f32", f(0.125), 0, 0, f(-3.0)),
        ("lg2.approx.f32", f(0.0), 0, 0, f(f32::NEG_INFINITY)),
        ("rcp.rn.f32", f(-0.0), 0, 0, f(f32::NEG_INFINITY)),
        ("div.rn.f64", d(1.0), d(3.0), 0, d(1.0 / 3.0)),
        ("neg.f64", d(1.0), 0, 0, d(-1.0)),
        ("setp.ltu.f32", f(f32::NAN), f(1.0), 0, 1),
        ("setp.ne.f32", f(f32::NAN), f(1.0), 0, 0),
        ("setp.neu.f32", f(f32::NAN), f(1.0), 0, 1),
        ("copysign.f32", f(-1.0), f(2.0), 0, f(-2.0)),
    ];
    for (text, a, b, c, expected) in cases {
        assert_eq!(run(text, a, b, c), expected, "{text}");
    }
}

#[test]
fn fused_multiply_add_without_the_instruction() {
    let mut seed = 3;
    for _ in 0..20_000 {
        let pick = |seed: &mut u64| {
            let bits = mix(seed);
            // Exponents near each other, so that sums cancel.
            f32::from_bits((bits as u32 & 0x807f_ffff) | (100 + (bits >> 32) as u32 % 56) << 23)
        };
        let (a, b, c) = (pick(&mut seed), pick(&mut seed), pick(&mut seed));
        assert_eq!(super::float::fma32(false, a, b, c).to_bits(), a.mul_add(b, c).to_bits(), "{a} {b} {c}");
    }
}
