//! A flat memory, for what chapter 5 takes from chapter 4: every access is performed as it is
//! issued, lane by lane.

use std::collections::HashMap;

use sim_frontend::program::{MemoryOp, Op};
use sim_memory::address_space::{
    CONST_BASE, CONST_WINDOW, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW_BYTES, local_physical,
};
use sim_memory::device_memory::DeviceMemory;
use sim_memory::vocabulary::{AtomicOp, ScalarType, StateSpace};

use super::registers::Slot;
use super::thread::loaded;

/// The space and address that a generic address means.
pub(super) fn resolve(space: StateSpace, address: u64) -> (StateSpace, u64) {
    let within = |base: u64| (base..base + WINDOW_BYTES).contains(&address);
    match space {
        StateSpace::Generic if within(SHARED_WINDOW) => (StateSpace::Shared, address - SHARED_WINDOW),
        StateSpace::Generic if within(LOCAL_WINDOW) => (StateSpace::Local, address - LOCAL_WINDOW),
        StateSpace::Generic if within(CONST_WINDOW) => (StateSpace::Const, address - CONST_WINDOW),
        StateSpace::Generic if within(PARAM_WINDOW) => (StateSpace::Param, address - PARAM_WINDOW),
        StateSpace::Generic => (StateSpace::Global, address),
        _ => (space, address),
    }
}

/// Whose access it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accessor {
    pub sm: u32,
    /// Warp slot of the SM.
    pub slot: u32,
    pub lane: u32,
    /// Grid and block.
    pub block: (u32, u64),
}

/// Bytes that were written, by physical address; shared ones by block.
#[derive(Debug, Default)]
pub(super) struct Memory {
    device: HashMap<u64, u8>,
    shared: HashMap<((u32, u64), u64), u8>,
}

impl Memory {
    fn physical(who: Accessor, space: StateSpace, address: u64) -> u64 {
        match space {
            StateSpace::Local => local_physical(who.sm, who.slot, who.lane, address),
            StateSpace::Const => address.wrapping_add(CONST_BASE),
            _ => address,
        }
    }

    /// A byte; what was never written is as the host left it, and zero in shared memory.
    fn byte(&self, initial: &DeviceMemory, who: Accessor, space: StateSpace, address: u64) -> u8 {
        if space == StateSpace::Shared {
            return self.shared.get(&(who.block, address)).copied().unwrap_or(0);
        }
        let at = Self::physical(who, space, address);
        self.device.get(&at).copied().unwrap_or_else(|| {
            let mut one = [0];
            initial.read(at, &mut one);
            one[0]
        })
    }

    pub fn read(
        &self,
        initial: &DeviceMemory,
        who: Accessor,
        space: StateSpace,
        address: u64,
        n: usize,
    ) -> Vec<u8> {
        (0..n as u64).map(|i| self.byte(initial, who, space, address + i)).collect()
    }

    pub fn write(&mut self, who: Accessor, space: StateSpace, address: u64, bytes: &[u8]) {
        for (i, byte) in bytes.iter().enumerate() {
            let address = address + i as u64;
            if space == StateSpace::Shared {
                self.shared.insert((who.block, address), *byte);
            } else {
                self.device.insert(Self::physical(who, space, address), *byte);
            }
        }
    }

    /// An atomic: writes, and gives what it leaves in the destination.
    pub fn atomic(
        &mut self,
        initial: &DeviceMemory,
        who: Accessor,
        op: &Op,
        facts: &MemoryOp,
        (space, address): (StateSpace, u64),
        (b, c): (u64, Option<u64>),
    ) -> Vec<(Slot, u32)> {
        let Some((operation, ty)) = facts.atomic else { return Vec::new() };
        let size = usize::from(facts.element_bytes);
        let bytes = self.read(initial, who, space, address, size);
        let old = number(&bytes);
        let new = match (space, operation, ty) {
            (StateSpace::Global, AtomicOp::Add, ScalarType::F32) => {
                flush(aop(operation, ty, flush(old), flush(b), 0))
            }
            _ => aop(operation, ty, old, b, c.unwrap_or(0)),
        };
        self.write(who, space, address, &new.to_le_bytes()[..size]);
        loaded(op, facts, &bytes)
    }

    /// Where it differs from what the device ended with: global addresses only.
    pub fn differs_from(&self, after: &DeviceMemory) -> Option<u64> {
        let mut global: Vec<_> =
            self.device.iter().filter(|(at, _)| **at < sim_memory::address_space::LOCAL_PHYSICAL).collect();
        global.sort_unstable();
        global.into_iter().find_map(|(&at, &byte)| {
            let mut one = [0];
            after.read(at, &mut one);
            (one[0] != byte).then_some(at)
        })
    }

    /// The host may have written since.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// A subnormal single as a zero of its sign.
fn flush(bits: u64) -> u64 {
    if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits }
}

/// `aop` on the low bits of the type.
fn aop(op: AtomicOp, ty: ScalarType, old: u64, b: u64, c: u64) -> u64 {
    let bits = ty.bits();
    let keep = |v: u64| if bits >= 64 { v } else { v & ((1 << bits) - 1) };
    let signed = |v: u64| {
        let v = i128::from(keep(v));
        if v >= 1 << (bits - 1) { v - (1 << bits) } else { v }
    };
    let value = |v: u64| if ty.is_signed() { signed(v) } else { i128::from(keep(v)) };
    let (old, b, c) = (keep(old), keep(b), keep(c));
    match (op, ty) {
        (AtomicOp::Add, ScalarType::F32) => {
            let sum = f32::from_bits(old as u32) + f32::from_bits(b as u32);
            u64::from(if sum.is_nan() { 0x7fff_ffff } else { sum.to_bits() })
        }
        (AtomicOp::Add, ScalarType::F64) => (f64::from_bits(old) + f64::from_bits(b)).to_bits(),
        (AtomicOp::Add, _) => keep((u128::from(old) + u128::from(b)) as u64),
        (AtomicOp::And, _) => old & b,
        (AtomicOp::Or, _) => old | b,
        (AtomicOp::Xor, _) => old ^ b,
        (AtomicOp::Exch, _) => b,
        (AtomicOp::Cas, _) => {
            if old == b {
                c
            } else {
                old
            }
        }
        (AtomicOp::Inc, _) => {
            if old >= b {
                0
            } else {
                old + 1
            }
        }
        (AtomicOp::Dec, _) => {
            if old == 0 || old > b {
                b
            } else {
                old - 1
            }
        }
        (AtomicOp::Min, _) => {
            if value(b) < value(old) {
                b
            } else {
                old
            }
        }
        (AtomicOp::Max, _) => {
            if value(b) > value(old) {
                b
            } else {
                old
            }
        }
    }
}
