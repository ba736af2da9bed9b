//! Instructions on matrices, which all threads of a warp execute together: `mma`, `movmatrix`, `ldmatrix`,
//! `stmatrix` (PTX ISA "Warp Level Matrix Multiply-Accumulate Instructions").

use sim_frontend::chip::{warpgroup_work, work};
use sim_frontend::matrix::{BlockScale, Element, MmaOp, SCALE_SOURCES, TileElements};
use sim_frontend::program::{Extra, MemoryOp, Op, OpClass, Pc, Row};
use sim_memory::vocabulary::{LaneMask, WARP_LANES};

use super::access::addresses;
use super::collective::words_of;
use super::resident::{Resident, Step};
use crate::code::Code;
use crate::error::Violation;
use crate::reconvergence::{Lanes, Reconvergence};
use crate::registers::{LaneRow, read_row, write_element};
use crate::tensor::{self, Lanes32, Product, SOURCES, Scratch};

/// Rows of a matrix, and bytes of a row.
const ROWS: u32 = 8;
pub(super) const ROW_BYTES: u32 = 16;

/// The lanes whose addresses `ldmatrix` and `stmatrix` of so many matrices take: eight for each.
pub(crate) fn addressing_lanes(count: u8) -> LaneMask {
    LaneMask::MAX >> (LaneMask::BITS - (ROWS * u32::from(count)).clamp(ROWS, LaneMask::BITS))
}

impl<P: Reconvergence> Resident<P> {
    /// The lanes of `parts`, which must be all of the warp, execute an instruction on matrices.
    #[inline(never)]
    pub(super) fn matrices(
        &mut self,
        w: usize,
        code: &Code,
        parts: &[(Pc, LaneMask)],
        lanes: LaneMask,
    ) -> Result<(), Violation> {
        let Some(&(pc, _)) = parts.first() else { return Ok(()) };
        let op = &code.program.ops[pc as usize];
        if lanes != LaneMask::MAX {
            let message = format!(
                "`{}` requires all 32 threads of the warp; threads {:#010x} do not execute it",
                code.program.text(pc),
                !lanes
            );
            return Err(Violation::new("matrix", lanes, message));
        }
        match (op.class, &op.extra) {
            (OpClass::Wgmma | OpClass::SetRegisters, extra) => {
                if let Extra::Wgmma(wgmma) = extra {
                    self.tensor.count(warpgroup_work(wgmma), code.decoded[pc as usize].initiation);
                }
                self.warpgroup(w, code, op)
            }
            (OpClass::Mma, Extra::Mma(mma)) => {
                self.tensor.count(work(mma), code.decoded[pc as usize].initiation);
                self.multiply(w, code, op, mma, lanes)
            }
            (OpClass::MoveMatrix, _) => {
                let ops = || parts.iter().map(|&(pc, own)| (&code.program.ops[pc as usize], own));
                let from = words_of(&self.warps[w], code, ops(), 0);
                let to = transposed(&from);
                for (op, own) in ops() {
                    write_row(&mut self.warps[w].rows, op.dst[0], own, &to);
                }
                Ok(())
            }
            (OpClass::LoadMatrix | OpClass::StoreMatrix, Extra::Tiles { memory, count, trans, elements }) => {
                self.tiles(w, code, parts, memory, *count, (*trans, *elements))
            }
            _ => Err(Violation::new(
                "matrix",
                lanes,
                "internal error: a decoded instruction on matrices has no operands",
            )),
        }
    }

    fn multiply(
        &mut self,
        w: usize,
        code: &Code,
        op: &Op,
        mma: &MmaOp,
        lanes: LaneMask,
    ) -> Result<(), Violation> {
        let Some(arithmetic) = &self.world.tensor else {
            return Err(Violation::new("matrix", lanes, "the chip has no tensor cores"));
        };
        let wide = mma.matrix.types[1] == Element::F64;
        let registers = mma.registers();
        let fragments = code.program.fragments(mma);
        let rows = &self.warps[w].rows;
        let mut sources = [&[0; WARP_LANES]; SOURCES];
        let each = 1 + usize::from(wide);
        if fragments.is_empty() || fragments.len() * each > SOURCES {
            let reason = "internal error: a decoded product of matrices lacks operands";
            return Err(Violation::new("matrix", lanes, reason));
        }
        for (i, row) in fragments.iter().enumerate() {
            sources[i * each] = read_row(rows, &code.consts, *row);
            if wide {
                sources[i * each + 1] = read_row(rows, &code.consts, Row(row.0.wrapping_add(1)));
            }
        }
        let sources = &mut sources[..fragments.len() * each];
        let mut selectors = [[0; WARP_LANES]; SCALE_SOURCES];
        if let Some(scale) = mma.matrix.scale {
            let (_, own) = sources.split_at_mut(sources.len().saturating_sub(SCALE_SOURCES));
            for (to, from) in selectors.iter_mut().zip(own.iter()) {
                *to = **from;
            }
            scale_selectors(scale, &mut selectors)?;
            for (to, from) in own.iter_mut().zip(&selectors) {
                *to = from;
            }
        }
        let form = code.program.forms.get(usize::from(op.form));
        let product = Product {
            op: mma,
            arithmetic,
            rounding: form.and_then(|form| form.mods.rounding),
            warp: true,
            keeps_a: false,
            registers,
            sources,
        };
        let mut scratch = self.scratch.take().unwrap_or_else(Scratch::new);
        tensor::multiply(&mut scratch, self.world.instruction_set, &product);
        let results = &scratch.results;
        let rows = &mut self.warps[w].rows;
        for (i, to) in op.dst.iter().enumerate().take(registers[0]) {
            let at = usize::from(to.0);
            if wide {
                if let Some(pair) = rows.get_mut(at..at + 2) {
                    pair.copy_from_slice(&results[2 * i..2 * i + 2]);
                }
            } else if let Some(row) = rows.get_mut(at) {
                *row = results[i];
            }
        }
        self.scratch = Some(scratch);
        Ok(())
    }

    /// `ldmatrix`, `stmatrix`: lane `i` gives the address of row `i % 8` of matrix `i / 8`; thread `4 * g + t` has
    /// the words `t` of rows `g`, or of the transposed matrices. Bytes have their own way to be transposed.
    fn tiles(
        &mut self,
        w: usize,
        code: &Code,
        parts: &[(Pc, LaneMask)],
        memory: &MemoryOp,
        count: u8,
        (trans, elements): (bool, TileElements),
    ) -> Result<(), Violation> {
        let load = code.program.ops[parts[0].0 as usize].class == OpClass::LoadMatrix;
        let addressing = addressing_lanes(count);
        let mut at = [0; WARP_LANES];
        for &(pc, own) in parts {
            let op = &code.program.ops[pc as usize];
            let of_part =
                addresses(self.world.instruction_set, &self.warps[w], code, op, memory.address_64, own);
            Lanes(own).for_each(|lane| at[lane as usize] = of_part[lane as usize]);
        }
        self.to_shared(w, memory.space, ROW_BYTES.into(), addressing, &mut at)?;
        // The others stand at the first one's.
        let first = at[0];
        Lanes(!addressing).for_each(|lane| at[lane as usize] = first);
        let warp = &mut self.warps[w];
        let Some(block) = self.blocks[warp.block].as_mut() else {
            return Err(Violation::new("env-readShared", addressing, "the block is not resident"));
        };
        let bytes = block.shared.bytes_mut();
        let halves = elements == TileElements::Halves;
        let ops = || parts.iter().map(|&(pc, own)| (&code.program.ops[pc as usize], own));
        for matrix in 0..usize::from(count) {
            let own = |row: usize| at[8 * matrix + row] as usize;
            if load {
                let mut words = [0; WARP_LANES];
                if halves {
                    for (row, words) in words.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                        let from = own(row);
                        for (word, bytes) in words.iter_mut().zip(bytes[from..from + 16].as_chunks::<4>().0) {
                            *word = u32::from_le_bytes(*bytes);
                        }
                    }
                    if trans {
                        words = transposed(&words);
                    }
                } else {
                    // Two registers share sixteen rows that are transposed.
                    let first = if trans { 16 * (matrix / 2) } else { 8 * matrix };
                    let row = |row| as_bytes(elements, &bytes[at[first + row] as usize..][..16]);
                    words = if trans { columns(row, matrix % 2) } else { words_of_rows(row) };
                }
                for (op, lanes) in ops() {
                    write_row(&mut warp.rows, op.dst[matrix], lanes, &words);
                }
            } else {
                let mut words = words_of(warp, code, ops(), 1 + matrix);
                if trans {
                    words = if halves { transposed(&words) } else { rows_of_bytes(&words) };
                }
                for (row, words) in words.as_chunks::<4>().0.iter().enumerate() {
                    let to = own(row);
                    for (word, bytes) in words.iter().zip(bytes[to..to + 16].as_chunks_mut::<4>().0) {
                        let word = word.to_le_bytes();
                        self.changes += u64::from(self.watching && *bytes != word);
                        *bytes = word;
                    }
                }
            }
        }
        let latencies = &self.world.latency;
        // Eight rows of sixteen bytes a turn, where no two of them lie in one bank.
        let turns = latencies.bank_rule.turns(&at, addressing, ROW_BYTES).max(1);
        let latency = latencies.of_turns(turns, addressing.count_ones().div_ceil(8));
        self.computed = Step::DoneAfter { latency, occupancy: turns * latencies.turn, turns };
        Ok(())
    }
}

/// The bytes and threads that hold the scales of A and B are those that there are, the same for all threads; of their
/// registers sixteen bits count.
fn scale_selectors(scale: BlockScale, sources: &mut [Lanes32; SCALE_SOURCES]) -> Result<(), Violation> {
    let bytes = scale.first_bytes();
    let places = [
        (1, "byte-id-a", bytes),
        (2, "thread-id-a", &[0, 1]),
        (4, "byte-id-b", bytes),
        (5, "thread-id-b", &[0, 1, 2, 3]),
    ];
    for (place, name, allowed) in places {
        let Some(row) = sources.get_mut(place) else { continue };
        row.iter_mut().for_each(|value| *value &= 0xffff);
        let differ =
            (0..WARP_LANES).filter(|lane| row[*lane] != row[0]).fold(0, |mask, lane| mask | 1 << lane);
        if differ != 0 {
            let message = format!("{name} differs from that of the other threads of the warp");
            return Err(Violation::new("matrix", differ, message));
        }
        if !allowed.contains(&row[0]) {
            let list: Vec<String> = allowed.iter().map(ToString::to_string).collect();
            let message = format!("{name} is {}; it must be {}", row[0], list.join(" or "));
            return Err(Violation::new("matrix", LaneMask::MAX, message));
        }
    }
    Ok(())
}

/// A row of sixteen bytes, elements of fewer bits each in the low bits of one.
fn as_bytes(elements: TileElements, row: &[u8]) -> [u8; 16] {
    let width = match elements {
        TileElements::Halves | TileElements::Bytes => 8,
        TileElements::Six => 6,
        TileElements::Four => 4,
    };
    std::array::from_fn(|i| {
        let (first, shift) = (i * width / 8, i * width % 8);
        let pair = |at: usize| u32::from(row.get(at).copied().unwrap_or(0));
        ((pair(first) | pair(first + 1) << 8) >> shift & ((1 << width) - 1)) as u8
    })
}

/// A register of sixteen rows of bytes that are transposed: thread `4 * g + t` has of columns `g` and `g + 8` the bytes
/// of two rows from `4 * t` on, in its other register those of the next two.
fn columns(row: impl Fn(usize) -> [u8; 16], register: usize) -> [u32; WARP_LANES] {
    let rows: [[u8; 16]; 16] = std::array::from_fn(row);
    std::array::from_fn(|lane| {
        let (g, first) = (lane / 4, 4 * (lane % 4) + 2 * register);
        u32::from_le_bytes([rows[first][g], rows[first + 1][g], rows[first][g + 8], rows[first + 1][g + 8]])
    })
}

/// The words of eight rows.
fn words_of_rows(row: impl Fn(usize) -> [u8; 16]) -> [u32; WARP_LANES] {
    let rows: [[u8; 16]; 8] = std::array::from_fn(row);
    std::array::from_fn(|lane| u32::from_le_bytes(rows[lane / 4].as_chunks::<4>().0[lane % 4]))
}

/// Eight rows of sixteen bytes, by words: row `2 * t` and the next one have the bytes of threads `4 * g + t` in columns `g`
/// and `g + 8`.
fn rows_of_bytes(words: &[u32; WARP_LANES]) -> [u32; WARP_LANES] {
    let byte = |row: usize, column: usize| {
        let lane = 4 * (column % 8) + row / 2;
        words[lane] >> (8 * (row % 2 + 2 * (column / 8))) & 0xff
    };
    std::array::from_fn(|word| {
        let (row, first) = (word / 4, 4 * (word % 4));
        (0..4).fold(0, |out, i| out | byte(row, first + i) << (8 * i))
    })
}

/// The matrix of halves whose rows are the columns of the one whose words `4 * g + t` are those of row `g`.
pub(super) fn transposed(words: &[u32; WARP_LANES]) -> [u32; WARP_LANES] {
    let half = |row: usize, column: usize| words[4 * row + column / 2] >> (16 * (column % 2)) & 0xffff;
    std::array::from_fn(|lane| {
        let (row, column) = (lane / 4, 2 * (lane % 4));
        half(column, row) | half(column + 1, row) << 16
    })
}

fn write_row(rows: &mut [LaneRow], to: Row, lanes: LaneMask, words: &[u32; WARP_LANES]) {
    for lane in Lanes(lanes) {
        write_element(rows, to, lane, words[lane as usize].into(), 32);
    }
}
