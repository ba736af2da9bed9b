//! Registers of a warp: rows of 32 lanes and predicates, and how lanes of them are read and written.

use sim_frontend::program::{MemoryOp, Op, Pred, Row};
use sim_memory::vocabulary::{LaneMask, WARP_LANES};

/// One register row: 32 lanes of 32 bits. A 64-bit value takes two, low and high words, so that a
/// lane's bits lie in its own words whatever the width: rows are reused with other widths by
/// lanes that are elsewhere in the program.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct LaneRow(pub [u32; WARP_LANES]);

/// The first of `lanes`; lane 0 of none.
#[inline(always)]
pub fn first_lane(lanes: LaneMask) -> usize {
    lanes.trailing_zeros() as usize & (WARP_LANES - 1)
}

/// The lanes for which a predicate operand is true [thr-exec-tt] [thr-exec-ff].
#[inline(always)]
pub fn guard(pred: Pred, preds: &[u32]) -> LaneMask {
    let value = if pred.is_const() { u32::MAX } else { preds.get(pred.index()).copied().unwrap_or(0) };
    if pred.negated() { !value } else { value }
}

/// Writes a predicate register in `lanes`; a sink takes nothing.
pub fn write_pred(preds: &mut [u32], pred: Pred, lanes: LaneMask, value: u32) {
    if let Some(register) = preds.get_mut(pred.index()) {
        *register = *register & !lanes | value & lanes;
    }
}

/// A row of 32-bit values, of the warp or constant.
#[inline(always)]
pub fn read_row<'a>(rows: &'a [LaneRow], consts: &'a [LaneRow], row: Row) -> &'a [u32; WARP_LANES] {
    const ZERO: [u32; WARP_LANES] = [0; WARP_LANES];
    let found = if row.0 >= Row::CONST {
        consts.get(usize::from(row.0 - Row::CONST))
    } else {
        rows.get(usize::from(row.0))
    };
    found.map_or(&ZERO, |row| &row.0)
}

/// Reads an element of a row in one lane: 64-bit rows are pairs.
#[inline]
pub fn read_element(rows: &[LaneRow], consts: &[LaneRow], row: Row, lane: u32, bits: u32) -> u64 {
    let lane = lane as usize;
    if bits <= 32 {
        return read_row(rows, consts, row)[lane].into();
    }
    let high = read_row(rows, consts, Row(row.0 + 1))[lane];
    u64::from(read_row(rows, consts, row)[lane]) | u64::from(high) << 32
}

/// Writes an element of a row in one lane.
#[inline]
pub fn write_element(rows: &mut [LaneRow], row: Row, lane: u32, value: u64, bits: u32) {
    let lane = lane as usize;
    if bits <= 32 {
        if let Some(row) = rows.get_mut(usize::from(row.0)) {
            row.0[lane] = value as u32;
        }
        return;
    }
    let first = usize::from(row.0);
    if let Some([low, high]) = rows.get_mut(first..first + 2) {
        low.0[lane] = value as u32;
        high.0[lane] = (value >> 32) as u32;
    }
}

/// The register value of a loaded element: sign- or zero-extended to the register's width.
#[inline]
pub fn extend(value: u64, op: &MemoryOp) -> u64 {
    let bits = u32::from(op.element_bytes) * 8;
    let extended =
        if op.signed && bits < 64 { ((value << (64 - bits)) as i64 >> (64 - bits)) as u64 } else { value };
    match op.reg_bits {
        64 => extended,
        bits => extended & ((1 << bits) - 1),
    }
}

/// The little-endian value of up to eight bytes.
#[inline]
pub fn from_bytes(bytes: &[u8]) -> u64 {
    let mut value = [0; 8];
    let n = bytes.len().min(8);
    value[..n].copy_from_slice(&bytes[..n]);
    u64::from_le_bytes(value)
}

/// Writes one lane's loaded bytes to the destination registers.
pub fn write_loaded(rows: &mut [LaneRow], op: &Op, facts: &MemoryOp, lane: u32, bytes: &[u8]) {
    let size = usize::from(facts.element_bytes);
    for (row, element) in op.dst.iter().zip(bytes.chunks_exact(size.max(1))) {
        if row.is_some() {
            let value = extend(from_bytes(element), facts);
            write_element(rows, *row, lane, value, facts.reg_bits.into());
        }
    }
}

/// Writes what one address holds to the destination registers of all `lanes`, which loaded it.
pub fn write_uniform(rows: &mut [LaneRow], op: &Op, facts: &MemoryOp, lanes: LaneMask, bytes: &[u8]) {
    let size = usize::from(facts.element_bytes);
    let mut write = |row: usize, value: u32| {
        let Some(row) = rows.get_mut(row) else { return };
        for lane in 0..WARP_LANES {
            row.0[lane] = if lanes >> lane & 1 == 1 { value } else { row.0[lane] };
        }
    };
    for (row, element) in op.dst.iter().zip(bytes.chunks_exact(size.max(1))) {
        if row.is_some() {
            let value = extend(from_bytes(element), facts);
            write(row.0.into(), value as u32);
            if facts.reg_bits > 32 {
                write(usize::from(row.0) + 1, (value >> 32) as u32);
            }
        }
    }
}

/// The rows of the words that an access moves between memory and `registers` as they are, and the number of words; `None`
/// where elements are narrower than words or than their registers.
#[inline(always)]
pub fn rows_of_words(registers: &[Row], facts: &MemoryOp) -> Option<([Row; 4], usize)> {
    let each = match (facts.element_bytes, facts.reg_bits) {
        (4, 32) => 1,
        (8, 64) => 2,
        _ => return None,
    };
    let words = each * usize::from(facts.vector);
    let mut rows = [Row::NONE; 4];
    for (word, to) in rows.get_mut(..words)?.iter_mut().enumerate() {
        let row = *registers.get(word / each)?;
        if row.is_some() {
            *to = Row(row.0 + (word % each) as u16);
        }
    }
    Some((rows, words))
}

/// Writes one word of a lane's loaded bytes to the part of the destination registers it belongs
/// to.
pub fn write_loaded_word(
    rows: &mut [LaneRow],
    op: &Op,
    facts: &MemoryOp,
    lane: u32,
    part: u8,
    word: [u8; 4],
) {
    let part = usize::from(part);
    match facts.element_bytes {
        8 => {
            let row = op.dst[(part / 2).min(3)];
            if row.is_some() {
                let old = read_element(rows, &[], row, lane, 64);
                let word = u64::from(u32::from_le_bytes(word));
                let value = if part.is_multiple_of(2) {
                    old & !0xffff_ffff | word
                } else {
                    old & 0xffff_ffff | word << 32
                };
                write_element(rows, row, lane, value, 64);
            }
        }
        size => {
            let each = usize::from(size).clamp(1, 4);
            for (i, element) in word.chunks_exact(each).enumerate() {
                let row = op.dst[(part * (4 / each) + i).min(3)];
                if row.is_some() {
                    write_element(rows, row, lane, extend(from_bytes(element), facts), facts.reg_bits.into());
                }
            }
        }
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
