//! Logic, shifts and bit fields, bit by bit.

use sim_frontend::form::{BoolOp, FloatTest, Form, PrmtMode};
use sim_frontend::isa::Root as R;
use sim_memory::address_space::{CONST_WINDOW, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW_BYTES};
use sim_memory::vocabulary::{ScalarType as T, StateSpace};

use super::{Expected, Inputs, integer_value, width_mask};

/// The bits of a value, the lowest first.
fn list(value: u64, width: u32) -> Vec<bool> {
    (0..width).map(|i| value >> i & 1 == 1).collect()
}

fn value(bits: impl IntoIterator<Item = bool>) -> u64 {
    bits.into_iter().enumerate().fold(0, |out, (i, bit)| out | u64::from(bit) << i)
}

fn lop3(x: &Inputs) -> u64 {
    let table = x.src[3] as u8;
    value((0..32).map(|i| {
        let bit = |k: usize| (x.src[k] >> i & 1) as u8;
        table >> (bit(0) << 2 | bit(1) << 1 | bit(2)) & 1 == 1
    }))
}

pub fn expected(form: &Form, x: &Inputs) -> Option<Expected> {
    let (ty, m) = (form.ty, &form.mods);
    let width = ty.bits();
    let bits = |i: usize| list(x.src[i], width);
    let (a, b) = (x.src[0] & width_mask(ty), x.src[1] & width_mask(ty));
    let word = |i: usize| x.src[i] as u32;
    let out = |v: u64| Some(Expected::Bits(v & width_mask(ty)));
    if ty == T::Pred {
        let [p, q] = x.psrc;
        let value = match form.root {
            R::And => p && q,
            R::Or => p || q,
            R::Xor => p != q,
            R::Not => !p,
            _ => return None,
        };
        return Some(Expected::Predicates(value, None));
    }
    match form.root {
        R::And => out(a & b),
        R::Or => out(a | b),
        R::Xor => out(a ^ b),
        R::Not => out(!a),
        R::Cnot => out(u64::from(a == 0)),
        R::Shl => {
            let by = word(1) as usize;
            let from = bits(0);
            out(value((0..width as usize).map(|i| i >= by && from[i - by])))
        }
        R::Shr => {
            let by = word(1) as usize;
            let from = bits(0);
            let fill = ty.is_signed() && from[width as usize - 1];
            out(value(
                (0..width as usize).map(|i| *i.checked_add(by).and_then(|i| from.get(i)).unwrap_or(&fill)),
            ))
        }
        R::Shf => {
            let by = if m.wrap { word(2) % 32 } else { word(2).min(32) };
            let both = u128::from(word(1)) << 32 | u128::from(word(0));
            out(if m.left { ((both << by) >> 32) as u64 } else { (both >> by) as u64 })
        }
        R::Lop3 => Some(match m.bool_op {
            None => Expected::Bits(lop3(x)),
            Some(op) => {
                let any = lop3(x) != 0;
                let p = x.psrc[0];
                Expected::BitsAndPredicate(lop3(x), if op == BoolOp::And { any && p } else { any || p })
            }
        }),
        R::Prmt => {
            let bytes: Vec<u64> = (0..8)
                .map(|i| if i < 4 { x.src[0] >> (8 * i) } else { x.src[1] >> (8 * (i - 4)) } & 0xff)
                .collect();
            // The tables of the manual, most significant byte first.
            let table: [[usize; 4]; 4] = match m.prmt {
                None => {
                    let mut out = 0;
                    for i in 0..4 {
                        let selector = x.src[2] >> (4 * i) & 15;
                        let byte = bytes[(selector & 7) as usize];
                        let byte = if selector < 8 {
                            byte
                        } else if byte >> 7 == 1 {
                            0xff
                        } else {
                            0
                        };
                        out |= byte << (8 * i);
                    }
                    return Some(Expected::Bits(out));
                }
                Some(PrmtMode::F4e) => [[3, 2, 1, 0], [4, 3, 2, 1], [5, 4, 3, 2], [6, 5, 4, 3]],
                Some(PrmtMode::B4e) => [[5, 6, 7, 0], [6, 7, 0, 1], [7, 0, 1, 2], [0, 1, 2, 3]],
                Some(PrmtMode::Rc8) => [[0; 4], [1; 4], [2; 4], [3; 4]],
                Some(PrmtMode::Ecl) => [[3, 2, 1, 0], [3, 2, 1, 1], [3, 2, 2, 2], [3, 3, 3, 3]],
                Some(PrmtMode::Ecr) => [[0, 0, 0, 0], [1, 1, 1, 0], [2, 2, 1, 0], [3, 2, 1, 0]],
                Some(PrmtMode::Rc16) => [[1, 0, 1, 0], [3, 2, 3, 2], [1, 0, 1, 0], [3, 2, 3, 2]],
            };
            out(table[(x.src[2] & 3) as usize].iter().fold(0, |out, byte| out << 8 | bytes[*byte]))
        }
        R::Popc => Some(Expected::Bits(bits(0).iter().filter(|bit| **bit).count() as u64)),
        R::Clz => Some(Expected::Bits(bits(0).iter().rev().take_while(|bit| !**bit).count() as u64)),
        R::Bfind => {
            let from = bits(0);
            let sign = ty.is_signed() && from[width as usize - 1];
            let found = (0..width as usize).rev().find(|i| from[*i] != sign);
            Some(Expected::Bits(match found {
                None => 0xffff_ffff,
                Some(i) if m.shiftamt => u64::from(width) - 1 - i as u64,
                Some(i) => i as u64,
            }))
        }
        R::Brev => {
            let mut from = bits(0);
            from.reverse();
            out(value(from))
        }
        R::Fns => {
            let (mask, base, offset) = (word(0), word(1), word(2) as i32);
            let set = |i: i64| (0..32).contains(&i) && mask >> i & 1 == 1;
            let mut found = 0xffff_ffff;
            // As measured on an H100.
            if offset == i32::MIN {
                return Some(Expected::Bits(0));
            }
            if offset == 0 {
                if set(base.into()) {
                    found = base.into();
                }
            } else {
                let (mut at, mut count) = (i64::from(base), i64::from(offset).abs() - 1);
                while (0..32).contains(&at) {
                    if set(at) {
                        if count == 0 {
                            found = at as u64;
                            break;
                        }
                        count -= 1;
                    }
                    at += if offset > 0 { 1 } else { -1 };
                }
            }
            Some(Expected::Bits(found))
        }
        R::Bfe => {
            let (at, length) = ((word(1) & 0xff) as usize, (word(2) & 0xff) as usize);
            let from = bits(0);
            let last = (at + length).wrapping_sub(1).min(width as usize - 1);
            let fill = ty.is_signed() && length > 0 && from[last];
            out(value(
                (0..width as usize)
                    .map(|i| if i < length && at + i < width as usize { from[at + i] } else { fill }),
            ))
        }
        R::Bfi => {
            let (at, length) = ((word(2) & 0xff) as usize, (word(3) & 0xff) as usize);
            let (from, into) = (bits(0), bits(1));
            out(value(
                (0..width as usize).map(|i| if i >= at && i < at + length { from[i - at] } else { into[i] }),
            ))
        }
        R::Szext => {
            let by = word(1);
            let from = bits(0);
            let too_large = by >= 32 && !m.wrap;
            let by = (by % 32) as usize;
            if too_large {
                return out(a);
            }
            let fill = ty.is_signed() && by > 0 && from[by - 1];
            out(value((0..32).map(|i| if i < by { from[i] } else { fill })))
        }
        R::Bmsk => {
            let (mut at, mut length) = (u64::from(word(0)), u64::from(word(1)));
            if m.wrap {
                (at, length) = (at % 32, length % 32);
            }
            out(value((0..32).map(|i| i >= at && i < at + length)))
        }
        R::Testp => {
            let (exponent, fraction) = if ty == T::F32 {
                (a >> 23 & 0xff, a & 0x7f_ffff)
            } else {
                (a >> 52 & 0x7ff, a & 0xf_ffff_ffff_ffff)
            };
            let most = if ty == T::F32 { 0xff } else { 0x7ff };
            let yes = match m.test? {
                FloatTest::Finite => exponent != most,
                FloatTest::Infinite => exponent == most && fraction == 0,
                FloatTest::Number => exponent != most || fraction == 0,
                FloatTest::NotANumber => exponent == most && fraction != 0,
                FloatTest::Normal => exponent != most && (exponent != 0 || fraction == 0),
                FloatTest::Subnormal => exponent == 0 && fraction != 0,
            };
            Some(Expected::Predicates(yes, None))
        }
        R::Cvta => {
            let window = match m.space? {
                StateSpace::Shared => SHARED_WINDOW,
                StateSpace::Local => LOCAL_WINDOW,
                StateSpace::Const => CONST_WINDOW,
                StateSpace::Param => PARAM_WINDOW,
                _ => 0,
            };
            let (a, window) = (integer_value(a, ty), i128::from(window));
            out((if m.to { a - window } else { a + window }) as u64)
        }
        // Half a mebibyte for the block's own memory, then as much for each block of the cluster.
        R::Mapa | R::Getctarank => {
            let window = if m.shared_cluster { 0 } else { SHARED_WINDOW };
            let bits = ty.bits();
            let all = if bits == 64 { u64::MAX } else { u64::from(u32::MAX) };
            let at = (a & all).wrapping_sub(window);
            let (part, offset) = (at / (512 << 10), at as u32 % (512 << 10));
            let value = match (form.root, part) {
                (R::Mapa, _) => {
                    let rank = (x.src[1] as u32).min(30);
                    window + (u64::from(rank) + 1) * (512 << 10) + u64::from(offset)
                }
                (_, 0) => x.src[1] & u64::from(u32::MAX),
                (_, part) => (part - 1) & u64::from(u32::MAX),
            };
            Some(Expected::Bits(value & all))
        }
        R::Isspacep => {
            let inside = |window: u64| a >= window && a - window < WINDOW_BYTES;
            let yes = match m.space? {
                StateSpace::Shared if !m.shared_cluster && inside(SHARED_WINDOW) => {
                    let part = (a - SHARED_WINDOW) / (512 << 10);
                    part == 0 || part - 1 == x.src[1] & u64::from(u32::MAX)
                }
                StateSpace::Shared => inside(SHARED_WINDOW),
                StateSpace::Local => inside(LOCAL_WINDOW),
                StateSpace::Const => inside(CONST_WINDOW),
                StateSpace::Param => inside(PARAM_WINDOW),
                _ => ![SHARED_WINDOW, LOCAL_WINDOW, CONST_WINDOW, PARAM_WINDOW].into_iter().any(inside),
            };
            Some(Expected::Predicates(yes, None))
        }
        _ => None,
    }
}
