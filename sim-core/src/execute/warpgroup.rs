//! `wgmma` and `setmaxnreg`: what the warps of a warpgroup do (PTX ISA "Asynchronous Warpgroup Level Matrix
//! Multiply-Accumulate Instructions").
//!
//! A warp needs its own sixteen rows of A and all of B for its sixteen rows of D, so that each works out its part by
//! itself, at the time it executes the instruction: warps of a group need not meet. Registers of D are written at once,
//! which a program that waits for its products cannot tell; how long the tensor cores take, [`Products`] says.
//!
//! [`Products`]: crate::products::Products

use sim_frontend::matrix::{Element, Matrix, MatrixShape, MmaOp};
use sim_frontend::program::{Extra, Op, Row};
use sim_frontend::wgmma::{WARPGROUP, WgmmaOp};
use sim_memory::vocabulary::{LaneMask, WARP_LANES};

use super::matrix::transposed;
use super::resident::{Resident, Step};
use crate::code::Code;
use crate::error::Violation;
use crate::monitor::Check;
use crate::reconvergence::Reconvergence;
use crate::register_pool::RegisterPool;
use crate::registers::{guard, read_row};
use crate::tensor::shared_matrix::{Descriptor, PIECE_BYTES};
use crate::tensor::{self, Lanes32, N as COLUMNS, Product, SOURCES, Scratch};

/// What stands for a register that is not read.
const NONE: Lanes32 = [0; WARP_LANES];

/// A matrix in shared memory: its descriptor, and whether pieces hold neighbours across K.
#[derive(Clone, Copy)]
struct Operand {
    descriptor: Descriptor,
    transposed: bool,
    name: char,
}

impl Operand {
    /// Addresses of the eight lines of such a [`core`](Self::core).
    fn lines(&self, of: u32, piece: u32) -> impl Iterator<Item = u64> {
        (0..8).map(move |line| match self.transposed {
            true => self.descriptor.across_k(of, 8 * piece + line),
            false => self.descriptor.along_k(8 * of + line, piece),
        })
    }

    /// Eight rows of A or columns of B from the eighth of number `of` on, by as many bytes along K: what the threads
    /// of a warp hold of them in the register of number `piece`.
    fn core(&self, memory: &[u8], of: u32, piece: u32, words: &mut Lanes32) -> Result<(), Violation> {
        for (words, at) in words.as_chunks_mut::<4>().0.iter_mut().zip(self.lines(of, piece)) {
            let found = usize::try_from(at).ok().and_then(|at| memory.get(at..at + PIECE_BYTES));
            let Some(bytes) = found else { return Err(self.outside(at, memory.len())) };
            for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *word = u32::from_le_bytes(*bytes);
            }
        }
        if self.transposed {
            *words = transposed(words);
        }
        Ok(())
    }

    #[cold]
    fn outside(&self, at: u64, size: usize) -> Violation {
        let Descriptor { start, leading, stride, .. } = self.descriptor;
        let reason = format!(
            "the descriptor of {} (start {start:#x}, leading offset {leading}, stride offset {stride}) reaches \
             {PIECE_BYTES} bytes at {at:#x}, outside the {size} bytes of the block's shared memory",
            self.name
        );
        Violation::new("env-readShared", LaneMask::MAX, reason)
    }
}

impl<P: Reconvergence> Resident<P> {
    /// All lanes of a warp execute a `wgmma` or `setmaxnreg`.
    #[inline(never)]
    pub(super) fn warpgroup(&mut self, w: usize, code: &Code, op: &Op) -> Result<(), Violation> {
        self.in_warpgroup(w)?;
        match &op.extra {
            Extra::Wgmma(wgmma) => self.warpgroup_product(w, code, op, wgmma),
            Extra::WgmmaFence => {
                self.warps[w].products_mut().fenced = true;
                Ok(())
            }
            Extra::WgmmaCommit => {
                self.warps[w].products_mut().commit();
                Ok(())
            }
            Extra::WgmmaWait(newest) => {
                let done = self.warps[w].products_mut().wait(*newest);
                self.computed = Step::Wait(done.saturating_sub(self.now + 1));
                Ok(())
            }
            Extra::SetRegisters { take, count } => self.set_registers(w, code, *take, *count),
            _ => Err(Violation::new(
                "wgmma",
                LaneMask::MAX,
                "internal error: a decoded instruction of a warpgroup has no operands",
            )),
        }
    }

    /// The warp is one of four whole ones, of which the first has a number that is a multiple of four.
    fn in_warpgroup(&self, w: usize) -> Result<(), Violation> {
        let warp = &self.warps[w];
        let first = warp.index / WARPGROUP * WARPGROUP;
        let Some(block) = self.blocks[warp.block].as_ref() else {
            return Err(Violation::new("wgmma", LaneMask::MAX, "the block is not resident"));
        };
        let whole = |index: u32| {
            let mate = block.warps.get(index as usize).and_then(|&w| self.warps.get(w));
            mate.is_some_and(|mate| mate.threads == LaneMask::MAX)
        };
        if warp.threads == LaneMask::MAX && (first..first + WARPGROUP).all(whole) {
            return Ok(());
        }
        let reason = format!(
            "warp {} is not in a warpgroup: all 128 threads of warps {first} to {} must execute the instruction, and the \
             block does not have them",
            warp.index,
            first + WARPGROUP - 1
        );
        Err(Violation::new("wgmma", LaneMask::MAX, reason))
    }

    /// The value of a descriptor, which is the same in all threads.
    fn descriptor(&self, w: usize, code: &Code, row: Row, name: char) -> Result<Descriptor, Violation> {
        let half = |row| read_row(&self.warps[w].rows, &code.consts, row);
        let (low, high) = (half(row), half(Row(row.0.wrapping_add(1))));
        let bits = u64::from(low[0]) | u64::from(high[0]) << 32;
        let difference = |words: &Lanes32| words.iter().fold(0, |all, word| all | (word ^ words[0]));
        if difference(low) | difference(high) != 0 && self.world.check != Check::Off {
            let differs = |lane: usize| low[lane] != low[0] || high[lane] != high[0];
            let other = (0..WARP_LANES).fold(0, |all, lane| all | LaneMask::from(differs(lane)) << lane);
            let reason = format!("the descriptor of {name} differs from that of the warp's first thread");
            return Err(Violation::new("wgmma", other, reason));
        }
        Ok(Descriptor::of(bits))
    }

    fn warpgroup_product(
        &mut self,
        w: usize,
        code: &Code,
        op: &Op,
        wgmma: &WgmmaOp,
    ) -> Result<(), Violation> {
        let wrong = |reason: &str| Err(Violation::new("wgmma", LaneMask::MAX, reason));
        let Some(arithmetic) = self.world.tensor else { return wrong("the chip has no tensor cores") };
        let check = self.world.check != Check::Off;
        if check && !self.warps[w].products.as_ref().is_some_and(|products| products.fenced) {
            return wrong(
                "no wgmma.fence has been executed before the warp's first wgmma.mma_async, which may see other values in \
                 its registers: the result is undefined in PTX; `--check off` ignores it",
            );
        }
        let adds = guard(op.psrc[0], &self.warps[w].preds);
        if check && adds != 0 && adds != LaneMask::MAX {
            let reason = "scale-d differs from that of the other threads of the warp";
            return Err(Violation::new("wgmma", !adds, reason));
        }
        let rank = self.warps[w].index % WARPGROUP;
        let operand = |descriptor, transposed, name| Operand { descriptor, transposed, name };
        let of_a = match wgmma.shared_a {
            true => Some(operand(self.descriptor(w, code, op.src[0], 'A')?, wgmma.transposed[0], 'A')),
            false => None,
        };
        let of_b = operand(self.descriptor(w, code, op.src[1], 'B')?, wgmma.transposed[1], 'B');

        let [d, a, ..] = wgmma.registers();
        let [read, written] = code.program.wgmma_rows(wgmma);
        let matrix = tile(&wgmma.matrix);
        let mma = MmaOp::new(matrix, wgmma.selector, None);
        let registers = mma.registers();
        let [d_tile, a_tile, b_tile, c_tile, e_tile, _] = registers;
        let tiles = usize::from(wgmma.matrix.shape.n) / COLUMNS;
        let used = a_tile + b_tile + c_tile + e_tile;
        if written.len() != d || d != tiles * d_tile || used > SOURCES {
            return wrong("internal error: a decoded product of matrices lacks operands");
        }

        let mut scratch = self.scratch.take().unwrap_or_else(Scratch::new);
        let warp = &self.warps[w];
        let memory = self.blocks[warp.block].as_ref().map_or(&[][..], |block| block.shared.bytes());
        let register = |row: &Row| read_row(&warp.rows, &code.consts, *row);
        // Pieces of A, and of B for each tile anew.
        let mut pieces = std::mem::take(&mut scratch.pieces);
        pieces.resize(a_tile + b_tile, NONE);
        for (i, to) in pieces[..a_tile].iter_mut().enumerate() {
            match &of_a {
                // Registers alternate between the upper and the lower eight rows.
                Some(of_a) => of_a.core(memory, 2 * rank + i as u32 % 2, i as u32 / 2, to)?,
                None => *to = *register(&read[i]),
            }
            if wgmma.negated {
                negate(to, wgmma.matrix.types[1]);
            }
        }
        let sums = if adds != 0 { read.get(a..a + d).unwrap_or_default() } else { &[] };
        let mut out = std::mem::take(&mut scratch.wide);
        out.clear();
        for column in 0..tiles {
            for piece in 0..b_tile {
                of_b.core(memory, column as u32, piece as u32, &mut pieces[a_tile + piece])?;
            }
            let mut sources = [&NONE; SOURCES];
            for (to, piece) in sources.iter_mut().zip(&pieces) {
                *to = piece;
            }
            for i in 0..c_tile {
                sources[a_tile + b_tile + i] = sums.get(column * c_tile + i).map_or(&NONE, register);
            }
            if e_tile > 0 {
                sources[used - 1] = read.last().map_or(&NONE, register);
            }
            let product = Product {
                op: &mma,
                arithmetic: &arithmetic,
                rounding: None,
                warp: false,
                keeps_a: column > 0,
                registers,
                sources: &sources[..used],
            };
            tensor::multiply(&mut scratch, self.world.instruction_set, &product);
            out.extend_from_slice(&scratch.results[..d_tile]);
        }
        // Written last: one that D names twice is a sum of a later tile.
        let rows = &mut self.warps[w].rows;
        for (to, result) in written.iter().zip(&out) {
            if let Some(row) = rows.get_mut(usize::from(to.0)) {
                *row = *result;
            }
        }
        (scratch.wide, scratch.pieces) = (out, pieces);
        self.scratch = Some(scratch);
        self.computed = Step::Product { shared: shared_cycles(wgmma, self.world.latency.banks) };
        Ok(())
    }

    /// What a warp's part of a product reads of shared memory: addresses and numbers of bytes, in their order.
    ///
    /// # Errors
    /// What its threads say of a descriptor differs.
    pub(crate) fn product_reads(
        &self,
        w: usize,
        code: &Code,
        op: &Op,
        wgmma: &WgmmaOp,
    ) -> Result<Vec<(u64, u32)>, Violation> {
        let mma = MmaOp::new(tile(&wgmma.matrix), wgmma.selector, None);
        let [_, a_tile, b_tile, ..] = mma.registers();
        let rank = self.warps[w].index % WARPGROUP;
        let mut lines = Vec::new();
        if wgmma.shared_a {
            let descriptor = self.descriptor(w, code, op.src[0], 'A')?;
            let of_a = Operand { descriptor, transposed: wgmma.transposed[0], name: 'A' };
            (0..a_tile as u32).for_each(|i| lines.extend(of_a.lines(2 * rank + i % 2, i / 2)));
        }
        let descriptor = self.descriptor(w, code, op.src[1], 'B')?;
        let of_b = Operand { descriptor, transposed: wgmma.transposed[1], name: 'B' };
        for column in 0..usize::from(wgmma.matrix.shape.n) / COLUMNS {
            (0..b_tile as u32).for_each(|piece| lines.extend(of_b.lines(column as u32, piece)));
        }
        lines.sort_unstable();
        lines.dedup();
        let mut ranges: Vec<(u64, u32)> = Vec::new();
        for at in lines {
            match ranges.last_mut() {
                Some((start, bytes)) if *start + u64::from(*bytes) == at => *bytes += PIECE_BYTES as u32,
                _ => ranges.push((at, PIECE_BYTES as u32)),
            }
        }
        Ok(ranges)
    }

    /// True if an instruction that takes registers has to wait until others are given back.
    pub(super) fn lacks_registers(&self, w: usize, code: &Code, op: &Op) -> bool {
        let Extra::SetRegisters { take: true, count } = op.extra else { return false };
        let warp = &self.warps[w];
        let Some(registers) = code.program.entry_registers else { return false };
        let Some(block) = self.blocks[warp.block].as_ref() else { return false };
        match &block.registers {
            Some(pool) => !pool.has(warp.index as usize, count),
            None => count > RegisterPool::granted(registers),
        }
    }

    fn set_registers(&mut self, w: usize, code: &Code, take: bool, count: u16) -> Result<(), Violation> {
        // The assembler leaves it out where it does not know how many a thread begins with.
        let Some(registers) = code.program.entry_registers else { return Ok(()) };
        let warp = &self.warps[w];
        let index = warp.index as usize;
        let Some(block) = self.blocks[warp.block].as_mut() else { return Ok(()) };
        let warps = block.warps.len();
        let pool = block.registers.get_or_insert_with(|| Box::new(RegisterPool::new(warps, registers)));
        let own = pool.of(index);
        if take && count < own || !take && count > own {
            let (name, than) = if take { ("inc", "less") } else { ("dec", "more") };
            let reason = format!(
                "setmaxnreg.{name} asks for {count} registers a thread, {than} than the {own} that the warp has"
            );
            return Err(Violation::new("setmaxnreg", LaneMask::MAX, reason));
        }
        if !pool.set(index, count) {
            let reason = "internal error: registers are taken that nobody has given back";
            return Err(Violation::new("setmaxnreg", LaneMask::MAX, reason));
        }
        self.changes += u64::from(self.watching && count != own);
        Ok(())
    }
}

/// The part of a warp's product that is worked out at once.
fn tile(part: &Matrix) -> Matrix {
    Matrix { shape: MatrixShape { n: COLUMNS as u16, ..part.shape }, ..*part }
}

/// Cycles for which shared memory is read for a product of a warpgroup: A where it lies there, and B.
fn shared_cycles(wgmma: &WgmmaOp, banks: u32) -> u32 {
    let [of_a, of_b] = wgmma.k_bytes().map(|bytes| bytes as u32);
    let shape = wgmma.matrix.shape;
    let a = if wgmma.shared_a { WARPGROUP * u32::from(shape.m) * of_a } else { 0 };
    (a + u32::from(shape.n) * of_b).div_ceil(4 * banks.max(1))
}

/// Changes the sign of all elements.
fn negate(words: &mut Lanes32, ty: Element) {
    let signs = match ty {
        Element::F16 | Element::Bf16 => 0x8000_8000,
        Element::E4m3 | Element::E5m2 => 0x8080_8080,
        _ => 0x8000_0000,
    };
    words.iter_mut().for_each(|word| *word ^= signs);
}
