//! Video instructions, as the manual's pseudo-code has them.

use sim_frontend::form::{CmpOp, Form, VideoSecondary};
use sim_frontend::isa::Root as R;
use sim_memory::vocabulary::ScalarType as T;

use super::{Inputs, integer_value};

/// The types of a byte, half or word with a sign or without.
fn sized(bits: u32, signed: bool) -> T {
    match (bits, signed) {
        (8, false) => T::U8,
        (8, true) => T::S8,
        (16, false) => T::U16,
        (16, true) => T::S16,
        (_, false) => T::U32,
        (_, true) => T::S32,
    }
}

fn range(bits: u32, signed: bool) -> (i128, i128) {
    if signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

fn primary(form: &Form, a: i128, b: i128) -> Option<i128> {
    let m = &form.mods;
    Some(match form.root {
        R::Vadd | R::Vadd2 | R::Vadd4 => a + b,
        R::Vsub | R::Vsub2 | R::Vsub4 => a - b,
        R::Vavrg2 | R::Vavrg4 => {
            if a + b >= 0 {
                (a + b + 1) >> 1
            } else {
                (a + b) >> 1
            }
        }
        R::Vabsdiff | R::Vabsdiff2 | R::Vabsdiff4 => (a - b).abs(),
        R::Vmin | R::Vmin2 | R::Vmin4 => a.min(b),
        R::Vmax | R::Vmax2 | R::Vmax4 => a.max(b),
        R::Vshl | R::Vshr => {
            let by = if m.wrap { b & 0x1f } else { b.min(32) };
            if form.root == R::Vshl { a << by } else { a >> by }
        }
        R::Vset | R::Vset2 | R::Vset4 => i128::from(match m.cmp? {
            CmpOp::Eq => a == b,
            CmpOp::Ne => a != b,
            CmpOp::Lt => a < b,
            CmpOp::Le => a <= b,
            CmpOp::Gt => a > b,
            CmpOp::Ge => a >= b,
            _ => return None,
        }),
        _ => return None,
    })
}

pub fn expected(form: &Form, x: &Inputs) -> Option<u32> {
    let m = &form.mods;
    let signed = [form.dst, m.a_type.unwrap_or(form.ty), form.ty].map(|ty| ty == T::S32);
    let [a, b, c] = [0, 1, 2].map(|i| x.src[i] as u32);
    let lanes = match form.root {
        R::Vadd2 | R::Vsub2 | R::Vavrg2 | R::Vabsdiff2 | R::Vmin2 | R::Vmax2 | R::Vset2 => 2,
        R::Vadd4 | R::Vsub4 | R::Vavrg4 | R::Vabsdiff4 | R::Vmin4 | R::Vmax4 | R::Vset4 => 4,
        _ => 1,
    };
    if lanes > 1 {
        let bits = 32 / lanes;
        let mut parts: Vec<u32> = (0..lanes).map(|i| a >> (bits * i)).collect();
        parts.extend((0..lanes).map(|i| b >> (bits * i)));
        let mut sum = i128::from(c);
        let mut out = 0u32;
        for i in 0..lanes {
            let pick = |select: u16, signed: bool| {
                integer_value(parts[usize::from(select >> (4 * i) & 15)].into(), sized(bits, signed))
            };
            let mut t =
                primary(form, pick(m.video.select[1], signed[1]), pick(m.video.select[2], signed[2]))?;
            if m.sat {
                let (least, most) = range(bits, signed[0]);
                t = t.clamp(least, most);
            }
            let all = u32::MAX >> (32 - bits);
            if m.video.select[0] >> i & 1 == 1 {
                sum += t;
                out |= (t as u32 & all) << (bits * i);
            } else {
                out |= c & all << (bits * i);
            }
        }
        return Some(if m.video.secondary.is_some() { sum as u32 } else { out });
    }
    let pick = |value: u32, select: u16, signed: bool| match select {
        0 => integer_value(value.into(), sized(32, signed)),
        1..=4 => integer_value((value >> (8 * (select - 1))).into(), sized(8, signed)),
        _ => integer_value((value >> (16 * (select - 5))).into(), sized(16, signed)),
    };
    let (ta, tb) = (pick(a, m.video.select[1], signed[1]), pick(b, m.video.select[2], signed[2]));
    if form.root == R::Vmad {
        let [na, nb, nc] = m.video.negate;
        let final_signed = signed[1] || signed[2] || na != nb || nc;
        let extended = integer_value(c.into(), sized(32, final_signed));
        let product = if na != nb { -(ta * tb) } else { ta * tb };
        // A negated c is complemented as a word, extended, and one is added.
        let third = if m.video.plus_one {
            extended + 1
        } else if na != nb {
            extended
        } else if nc {
            integer_value((!c).into(), sized(32, final_signed)) + 1
        } else {
            extended
        };
        let value = (product + third) >> m.video.scale;
        let (least, most) = range(32, final_signed);
        return Some(if m.sat { value.clamp(least, most) } else { value } as u32);
    }
    let mut value = primary(form, ta, tb)?;
    let (bits, at) = match m.video.select[0] {
        0 => (32, 0),
        byte @ 1..=4 => (8, 8 * (byte - 1)),
        half => (16, 16 * (half - 5)),
    };
    if m.sat {
        let (least, most) = range(bits, signed[0]);
        value = value.clamp(least, most);
    }
    let third = integer_value(c.into(), sized(32, signed[0]));
    let value = match m.video.secondary {
        None => value,
        Some(VideoSecondary::Add) => value + third,
        Some(VideoSecondary::Min) => value.min(third),
        Some(VideoSecondary::Max) => value.max(third),
    } as u32;
    let all = u32::MAX >> (32 - bits) << at;
    Some(value << at & all | c & !all)
}
