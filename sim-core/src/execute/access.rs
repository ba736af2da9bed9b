//! Loads, stores and atomics as the threads of a split execute them (CS §5.3.2 ld, st, atom):
//! addresses, generic addressing, alignment and bounds, and the shared, constant and parameter
//! accesses that never leave the SM. What must leave it becomes a [`Request`].

use std::sync::Arc;

use sim_frontend::program::{Extra, MemoryOp, Op, OpClass, Row};
use sim_memory::address_space::{CONST_BASE, LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES};
use sim_memory::atomics;
use sim_memory::shared::conflict_degree;
use sim_memory::vocabulary::{LaneMask, StateSpace};

use super::{Resident, Step, read_row};
use crate::error::Bottom;
use crate::lanes::file::LaneRow;
use crate::reconvergence::{Lanes, Reconvergence, SplitId};

/// What a split asks of global or local memory.
#[derive(Clone, Debug)]
pub struct Request {
    /// Home warp.
    pub warp: usize,
    /// The split that runs.
    pub split: SplitId,
    /// Index of the operation in its program.
    pub pc: u32,
    /// Global or local.
    pub space: StateSpace,
    /// Lanes that access.
    pub lanes: LaneMask,
    /// Physical address of each lane.
    pub addresses: [u64; 32],
    /// Store data of each lane.
    pub data: [[u8; 16]; 32],
    /// Operands b and c of atomics.
    pub operands: [[u64; 2]; 32],
    /// Bytes each lane accesses.
    pub bytes: u32,
    /// Local memory is interleaved by words, so larger elements are accessed word by word: this
    /// is word `part` of `parts`.
    pub part: u8,
    /// How many parts the access has.
    pub parts: u8,
}

/// Most requests of one step: one to global memory and four words of local memory.
const MOST: usize = 5;

/// The requests of one step: a generic access may touch both spaces.
#[derive(Clone, Debug)]
pub struct Requests {
    list: Box<[Request; MOST]>,
    used: usize,
}

impl Default for Requests {
    fn default() -> Self {
        let empty = Request {
            warp: 0,
            split: 0,
            pc: 0,
            space: StateSpace::Global,
            lanes: 0,
            addresses: [0; 32],
            data: [[0; 16]; 32],
            operands: [[0; 2]; 32],
            bytes: 0,
            part: 0,
            parts: 1,
        };
        Self { list: Box::new(std::array::from_fn(|_| empty.clone())), used: 0 }
    }
}

impl Requests {
    /// The requests, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Request> {
        self.list[..self.used].iter()
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.used
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Request `i`.
    pub fn get(&self, i: usize) -> &Request {
        &self.list[i]
    }
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

impl<P: Reconvergence> Resident<P> {
    /// The lanes' addresses as the instruction computes them.
    fn addresses(&self, w: usize, op: &Op, facts: &MemoryOp) -> [u64; 32] {
        let warp = &self.warps[w];
        let code = &self.kernels[warp.kernel].code;
        if !op.src[0].is_some() {
            return [op.imm as u64; 32];
        }
        if facts.address_64 {
            std::array::from_fn(|lane| {
                read_element(&warp.rows, &code.consts, op.src[0], lane as u32, 64).wrapping_add_signed(op.imm)
            })
        } else {
            let row = read_row(&warp.rows, &code.consts, op.src[0]);
            std::array::from_fn(|lane| u64::from(row[lane].wrapping_add(op.imm as u32)))
        }
    }

    /// `ld`, `st`, `atom`, `red` [thr-ld] [thr-st] [thr-atom].
    pub(super) fn access(
        &mut self,
        split: SplitId,
        w: usize,
        op: &Op,
        exec: LaneMask,
    ) -> Result<Step, Bottom> {
        self.requests.used = 0;
        let Extra::Memory(facts) = op.extra else {
            return Err(Bottom::new("thr-ld", exec, "a memory access without its facts"));
        };
        if exec == 0 {
            return Ok(Step::Done);
        }
        let mut addresses = self.addresses(w, op, &facts);
        let bytes = u64::from(facts.element_bytes) * u64::from(facts.vector);
        let low_bits = Lanes(exec).fold(0, |bits, lane| bits | addresses[lane as usize]);
        if low_bits & (bits_below(bytes)) != 0 {
            return Err(self.misaligned(exec, &addresses, bytes));
        }
        match facts.space {
            StateSpace::Global => self.global(split, w, op, &facts, exec, &addresses),
            StateSpace::Local => self.local(split, w, op, &facts, exec, &addresses),
            StateSpace::Shared => self.shared(w, op, &facts, exec, &addresses),
            StateSpace::Const | StateSpace::Param => self.constant(w, op, &facts, exec, &addresses),
            StateSpace::Generic => {
                let within = |base: u64| {
                    Lanes(exec)
                        .filter(|&l| addresses[l as usize].wrapping_sub(base) < WINDOW_BYTES)
                        .fold(0u32, |m, l| m | 1 << l)
                };
                let (shared, local) = (within(SHARED_WINDOW), within(LOCAL_WINDOW));
                let global = exec & !shared & !local;
                let mut step = Step::Done;
                if global != 0 {
                    step = self.global(split, w, op, &facts, global, &addresses)?;
                }
                for lane in Lanes(shared) {
                    addresses[lane as usize] -= SHARED_WINDOW;
                }
                for lane in Lanes(local) {
                    addresses[lane as usize] -= LOCAL_WINDOW;
                }
                if shared != 0 {
                    let done = self.shared(w, op, &facts, shared, &addresses)?;
                    if step == Step::Done {
                        step = done;
                    }
                }
                if local != 0 {
                    step = self.local(split, w, op, &facts, local, &addresses)?;
                }
                Ok(step)
            }
        }
    }

    fn misaligned(&self, exec: LaneMask, addresses: &[u64; 32], bytes: u64) -> Bottom {
        let lane = Lanes(exec).find(|&l| addresses[l as usize] & bits_below(bytes) != 0).unwrap_or_default();
        Bottom::new(
            "env-spaces",
            1 << lane,
            format!(
                "misaligned address {:#x}: an access of {bytes} bytes must be aligned to {bytes}",
                addresses[lane as usize]
            ),
        )
    }

    /// Accesses to global memory: inside an allocation, or a fault that names the nearest one.
    fn global(
        &mut self,
        split: SplitId,
        w: usize,
        op: &Op,
        facts: &MemoryOp,
        lanes: LaneMask,
        addresses: &[u64; 32],
    ) -> Result<Step, Bottom> {
        let bytes = u64::from(facts.element_bytes) * u64::from(facts.vector);
        let (mut least, mut most) = (u64::MAX, 0);
        for lane in Lanes(lanes) {
            least = least.min(addresses[lane as usize]);
            most = most.max(addresses[lane as usize]);
        }
        let allocations = &self.world.allocations;
        let span = most.checked_add(bytes).map(|end| end - least);
        let inside = span.is_some_and(|span| allocations.find(least, span).is_some());
        if !inside {
            for lane in Lanes(lanes) {
                let address = addresses[lane as usize];
                if allocations.find(address, bytes).is_none() {
                    let near = allocations.nearest(address).map_or(String::new(), |a| {
                        format!(
                            "; the nearest buffer is `{}` at {:#x}..{:#x}",
                            a.name, a.range.start, a.range.end
                        )
                    });
                    return Err(Bottom::new(
                        "env-readDevice",
                        1 << lane,
                        format!("address {address:#x} ({bytes} bytes) lies in no buffer{near}"),
                    ));
                }
            }
        }
        self.request(split, w, op, facts, lanes, StateSpace::Global, addresses, (0, 1));
        Ok(Step::Access)
    }

    /// Accesses to local memory: each lane's own, interleaved by lane in physical memory.
    fn local(
        &mut self,
        split: SplitId,
        w: usize,
        op: &Op,
        facts: &MemoryOp,
        lanes: LaneMask,
        addresses: &[u64; 32],
    ) -> Result<Step, Bottom> {
        let bytes = u64::from(facts.element_bytes) * u64::from(facts.vector);
        let size = u64::from(self.kernels[self.warps[w].kernel].local_bytes);
        for lane in Lanes(lanes) {
            let address = addresses[lane as usize];
            if address.checked_add(bytes).is_none_or(|end| end > size) {
                return Err(Bottom::new(
                    "env-spaces",
                    1 << lane,
                    format!("local address {address:#x} lies outside the thread's {size} bytes"),
                ));
            }
        }
        let parts = bytes.div_ceil(4).clamp(1, 4) as u8;
        for part in 0..parts {
            self.request(split, w, op, facts, lanes, StateSpace::Local, addresses, (part, parts));
        }
        Ok(Step::Access)
    }

    /// The warp's memory action: the addresses, data and operands of the lanes that access
    /// [warp-mem].
    #[allow(clippy::too_many_arguments, reason = "the facts of one access")]
    fn request(
        &mut self,
        split: SplitId,
        w: usize,
        op: &Op,
        facts: &MemoryOp,
        lanes: LaneMask,
        space: StateSpace,
        addresses: &[u64; 32],
        (part, parts): (u8, u8),
    ) {
        let pc = self.policy.pc(split);
        let warp = &self.warps[w];
        let code = &self.kernels[warp.kernel].code;
        let request = &mut self.requests.list[self.requests.used];
        self.requests.used += 1;
        request.warp = w;
        request.split = split;
        request.pc = pc;
        request.space = space;
        request.lanes = lanes;
        request.addresses = addresses.map(|a| a.wrapping_add(4 * u64::from(part)));
        request.part = part;
        request.parts = parts;
        let whole = u32::from(facts.element_bytes) * u32::from(facts.vector);
        request.bytes = if parts > 1 { 4 } else { whole };
        let bits = u32::from(facts.reg_bits);
        match op.class {
            OpClass::Store => {
                let size = usize::from(facts.element_bytes);
                for lane in Lanes(lanes) {
                    for (i, row) in op.src[1..].iter().take(facts.vector.into()).enumerate() {
                        let value = read_element(&warp.rows, &code.consts, *row, lane, bits);
                        request.data[lane as usize][i * size..][..size]
                            .copy_from_slice(&value.to_le_bytes()[..size]);
                    }
                    let from = 4 * usize::from(part);
                    request.data[lane as usize].copy_within(from.., 0);
                }
            }
            OpClass::Atomic => {
                for lane in Lanes(lanes) {
                    for (i, row) in op.src[1..3].iter().enumerate() {
                        request.operands[lane as usize][i] = if row.is_some() {
                            read_element(&warp.rows, &code.consts, *row, lane, bits)
                        } else {
                            0
                        };
                    }
                }
            }
            _ => {}
        }
    }

    /// Accesses to shared memory happen at once: the SM's load-store unit processes them in
    /// issue order, so this equals running their programs to completion.
    fn shared(
        &mut self,
        w: usize,
        op: &Op,
        facts: &MemoryOp,
        lanes: LaneMask,
        addresses: &[u64; 32],
    ) -> Result<Step, Bottom> {
        let warp = &mut self.warps[w];
        let code = Arc::clone(&self.kernels[warp.kernel].code);
        let Some(block) = self.blocks[warp.block].as_mut() else {
            return Err(Bottom::new("env-readShared", lanes, "the block is not resident"));
        };
        let bytes = usize::from(facts.element_bytes) * usize::from(facts.vector);
        let outside = |lane: u32, size: u64| {
            Bottom::new(
                "env-readShared",
                1 << lane,
                format!(
                    "shared address {:#x} ({bytes} bytes) lies outside the block's {size} bytes",
                    addresses[lane as usize]
                ),
            )
        };
        let size = block.shared.len() as u64;
        let bits = u32::from(facts.reg_bits);
        for lane in Lanes(lanes) {
            let address = addresses[lane as usize];
            if address.checked_add(bytes as u64).is_none_or(|end| end > size) {
                return Err(outside(lane, size));
            }
        }
        let memory = block.shared.bytes_mut();
        match op.class {
            OpClass::Load if bytes == 4 && bits == 32 => {
                if let Some(row) = warp.rows.get_mut(usize::from(op.dst[0].0)) {
                    for lane in Lanes(lanes) {
                        let at = addresses[lane as usize] as usize;
                        let value = from_bytes(&memory[at..at + 4]);
                        row.0[lane as usize] = value as u32;
                    }
                }
            }
            OpClass::Load => {
                for lane in Lanes(lanes) {
                    let at = addresses[lane as usize] as usize;
                    write_loaded(&mut warp.rows, op, facts, lane, &memory[at..at + bytes]);
                }
            }
            OpClass::Store => {
                let each = usize::from(facts.element_bytes);
                for lane in Lanes(lanes) {
                    let at = addresses[lane as usize] as usize;
                    for (i, row) in op.src[1..].iter().take(facts.vector.into()).enumerate() {
                        let value = read_element(&warp.rows, &code.consts, *row, lane, bits);
                        memory[at + i * each..][..each].copy_from_slice(&value.to_le_bytes()[..each]);
                    }
                }
            }
            _ => {
                let Some((operation, ty)) = facts.atomic else {
                    return Err(Bottom::new("thr-atom", lanes, "an atomic without its operation"));
                };
                for lane in Lanes(lanes) {
                    let at = addresses[lane as usize] as usize;
                    let operand = |row: Row| match row.is_some() {
                        true => read_element(&warp.rows, &code.consts, row, lane, bits),
                        false => 0,
                    };
                    let (b, c) = (operand(op.src[1]), operand(op.src[2]));
                    let old = from_bytes(&memory[at..at + bytes]);
                    let new = atomics::apply(operation, ty, old, b, c);
                    memory[at..at + bytes].copy_from_slice(&new.to_le_bytes()[..bytes]);
                    if op.dst[0].is_some() {
                        write_element(&mut warp.rows, op.dst[0], lane, extend(old, facts), bits);
                    }
                }
            }
        }
        let latencies = &self.world.latency;
        let degree = conflict_degree(addresses, lanes, bytes as u32, latencies.banks);
        let latency = if op.class == OpClass::Atomic {
            // Each lane that meets another's address runs the locked sequence again.
            let same = most_at_one_address(addresses, lanes);
            latencies.shared_atomic * same.max(1)
        } else {
            latencies.shared
        };
        Ok(Step::DoneAfter { latency: latency + degree.saturating_sub(1), occupancy: degree.max(1) })
    }

    /// Loads from constant memory: bytes that no thread writes, so they are read at once; each
    /// distinct address costs a turn of the constant cache.
    fn constant(
        &mut self,
        w: usize,
        op: &Op,
        facts: &MemoryOp,
        lanes: LaneMask,
        addresses: &[u64; 32],
    ) -> Result<Step, Bottom> {
        if op.class != OpClass::Load {
            return Err(Bottom::new("env-writeDevice", lanes, "threads do not write constant memory"));
        }
        let bytes = u64::from(facts.element_bytes) * u64::from(facts.vector);
        let world = Arc::clone(&self.world);
        let warp = &mut self.warps[w];
        let mut buffer = [0u8; 16];
        let mut distinct = 0;
        let mut last = None;
        for lane in Lanes(lanes) {
            let address = addresses[lane as usize];
            if last != Some(address) {
                let physical = address.wrapping_add(CONST_BASE);
                if world.allocations.find(physical, bytes).is_none() {
                    return Err(Bottom::new(
                        "env-readDevice",
                        1 << lane,
                        format!("constant address {address:#x} ({bytes} bytes) lies in no variable"),
                    ));
                }
                world.memory.read(physical, &mut buffer[..bytes as usize]);
                distinct +=
                    u32::from(!Lanes(lanes & ((1 << lane) - 1)).any(|l| addresses[l as usize] == address));
                last = Some(address);
            }
            write_loaded(&mut warp.rows, op, facts, lane, &buffer[..bytes as usize]);
        }
        Ok(Step::DoneAfter {
            latency: world.latency.constant + distinct.saturating_sub(1),
            occupancy: distinct.max(1),
        })
    }

    /// `ld.param` of a kernel: the parameter block lies in constant memory.
    pub(super) fn load_param(&mut self, w: usize, op: &Op, exec: LaneMask) -> Result<Step, Bottom> {
        let Extra::Memory(facts) = op.extra else {
            return Err(Bottom::new("thr-ld", exec, "a memory access without its facts"));
        };
        let bytes = usize::from(facts.element_bytes) * usize::from(facts.vector);
        let addresses = self.addresses(w, op, &facts);
        let warp = &mut self.warps[w];
        let kernel = &self.kernels[warp.kernel];
        let (mut distinct, mut last) = (0, None);
        for lane in Lanes(exec) {
            let at = addresses[lane as usize];
            let found = usize::try_from(at).ok().and_then(|at| kernel.params.get(at..at.checked_add(bytes)?));
            let Some(found) = found else {
                return Err(Bottom::new(
                    "env-readDevice",
                    1 << lane,
                    format!(
                        "parameter offset {at} ({bytes} bytes) lies outside the kernel's {} bytes",
                        kernel.params.len()
                    ),
                ));
            };
            distinct += u32::from(last != Some(at));
            last = Some(at);
            write_loaded(&mut warp.rows, op, &facts, lane, found);
        }
        Ok(Step::DoneAfter {
            latency: self.world.latency.constant + distinct.saturating_sub(1),
            occupancy: distinct.max(1),
        })
    }
}

/// The low bits that must be zero in an address aligned to `bytes`.
fn bits_below(bytes: u64) -> u64 {
    bytes.next_power_of_two() - 1
}

/// The most lanes that share one address.
fn most_at_one_address(addresses: &[u64; 32], lanes: LaneMask) -> u32 {
    Lanes(lanes)
        .map(|lane| Lanes(lanes).filter(|&l| addresses[l as usize] == addresses[lane as usize]).count())
        .max()
        .unwrap_or(0) as u32
}
