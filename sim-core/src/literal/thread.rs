//! Threads (CS §5.3): transition systems →Θ, what an instruction means to a thread that executes
//! it, and →Θe, whether it does.

use sim_frontend::form::BarrierKind;
use sim_frontend::program::{Extra, MemoryOp, Op, OpClass, Pc, Row};
use sim_memory::vocabulary::{Scope, StateSpace};

use super::Stuck;
use super::crs::ActiveState;
use super::registers::{Registers, Slot};
use crate::code::Code;
use crate::lanes::LaneFn;
use crate::registers::LaneRow;

/// `FlowAct`: control flow is the warp's business; lanes say what they executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FlowAct {
    Sync,
    Break(u32),
    Return(u32),
    Exit(u32),
    Ssy(Pc),
    PreRet(Pc),
    PreBrk(Pc),
    Bra(u32, Pc),
    Call(u32, Pc),
}

/// `Req`: what a thread asks of memory or of its registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Req {
    /// `LdReq`; destination and size are the instruction's.
    Load { space: StateSpace, address: u64 },
    /// `StReq`.
    Store { space: StateSpace, address: u64, bytes: Vec<u8> },
    /// `AtomicReq`.
    Atomic { space: StateSpace, address: u64, b: u64, c: Option<u64> },
    /// `RegReq`.
    Registers(Vec<(Slot, u32)>),
    /// A register that takes what the device's clocks say.
    Clock,
}

/// `BarrierActΘ`, with the warp and lane that its memory information names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BarAct {
    pub barid: u32,
    pub count: Option<u32>,
    pub predicate: Option<bool>,
    pub lane: u32,
}

/// `ActΘ`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Flow(FlowAct),
    Mem(Req),
    Vote(bool),
    Bar(BarAct),
    /// `shfl`, which the thesis leaves out: value, b and c of this lane.
    Shuffle([u32; 3]),
}

/// `MemBarLevel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemBarLevel {
    Cta,
    Gl,
}

/// What threads read: the instruction environment of one program.
pub(super) struct ProgEnv<'a> {
    pub code: &'a Code,
    /// Constants and parameters, each in all lanes.
    pub consts: &'a [LaneRow],
    pub params: &'a [u8],
    /// `dop` by instruction.
    pub dop: &'a [Option<LaneFn>],
}

/// θ.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    pub tid: [u32; 3],
    pub lane: u32,
    /// κ: the functions whose variables it can see, innermost last; the entry is not among them.
    pub calls: Vec<Pc>,
    pub membar: Option<MemBarLevel>,
}

impl Thread {
    /// →Θe: (Exectt) where the warp has the thread active and its guard holds, else (Execff).
    pub fn exec(
        &mut self,
        env: &ProgEnv<'_>,
        pc: Pc,
        active: ActiveState,
        registers: &mut Registers,
    ) -> Result<Option<Act>, Stuck> {
        let Some(op) = env.code.ops.get(pc as usize) else {
            return Stuck::new("Exectt", format!("there is no instruction {pc}"));
        };
        if active == ActiveState::Active && registers.truth(op.guard, self.lane) {
            self.step(env, pc, op, registers)
        } else {
            Ok(None)
        }
    }

    /// The function whose variables the thread sees must be the one it executes.
    fn sees(&self, env: &ProgEnv<'_>, pc: Pc) -> Result<(), Stuck> {
        let program = &env.code.program;
        let entry = self.calls.last().copied().unwrap_or(program.entry_pc);
        let own = program.functions.iter().find(|function| function.entry_pc == entry);
        match own {
            Some(function) if (function.entry_pc..function.end_pc).contains(&pc) => Ok(()),
            _ => Stuck::new("Exectt", format!("the thread called {entry} and executes {pc}")),
        }
    }

    /// →Θ.
    fn step(
        &mut self,
        env: &ProgEnv<'_>,
        pc: Pc,
        op: &Op,
        registers: &mut Registers,
    ) -> Result<Option<Act>, Stuck> {
        use OpClass as C;
        self.sees(env, pc)?;
        let (code, lane) = (env.code, self.lane);
        let word = |registers: &Registers, row: Row| registers.value(code, row, lane, 32) as u32;
        Ok(Some(match op.class {
            // (dop), (mov), (setp)
            C::Data => {
                let Some(function) = env.dop[pc as usize] else {
                    return Stuck::new("dop", "an operation without a meaning");
                };
                Act::Mem(Req::Registers(registers.dop(env.consts, function, op, lane)))
            }
            C::Clock => Act::Mem(Req::Clock),
            C::Branch => Act::Flow(FlowAct::Bra(lane, op.target)),
            C::BranchIndirect => {
                let index = word(registers, op.src[0]);
                Act::Flow(FlowAct::Bra(lane, indirect(code, op, index)?))
            }
            C::Call => {
                self.calls.push(op.target);
                Act::Flow(FlowAct::Call(lane, op.target))
            }
            C::CallIndirect => {
                let target = indirect(code, op, word(registers, op.src[0]))?;
                self.calls.push(target);
                Act::Flow(FlowAct::Call(lane, target))
            }
            C::Return => {
                if self.calls.pop().is_none() {
                    return Stuck::new("return", "there is no variable environment to leave");
                }
                Act::Flow(FlowAct::Return(lane))
            }
            C::Exit => Act::Flow(FlowAct::Exit(lane)),
            C::Ssy => Act::Flow(FlowAct::Ssy(op.target)),
            C::PreBreak => Act::Flow(FlowAct::PreBrk(op.target)),
            C::PreReturn => Act::Flow(FlowAct::PreRet(op.target)),
            C::Sync => Act::Flow(FlowAct::Sync),
            C::Break => Act::Flow(FlowAct::Break(lane)),
            C::Vote => Act::Vote(registers.truth(op.psrc[0], lane)),
            C::Shuffle => Act::Shuffle([0, 1, 2].map(|i| word(registers, op.src[i]))),
            C::Membar => {
                let cta = matches!(op.extra, Extra::Membar(Scope::Cta, _));
                self.membar = Some(if cta { MemBarLevel::Cta } else { MemBarLevel::Gl });
                return Ok(None);
            }
            C::Barrier => {
                let Extra::Barrier { kind, .. } = op.extra else {
                    return Stuck::new("barsync", "a barrier without its kind");
                };
                // (barsync), (barred); (bararrive) waits for nothing.
                if kind != BarrierKind::Arrive {
                    self.membar = Some(MemBarLevel::Cta);
                }
                let barid = registers.optional(code, op.src[0], lane, 32).map_or(op.imm as u32, |v| v as u32);
                let count = registers.optional(code, op.src[1], lane, 32).map(|v| v as u32);
                let predicate = (kind == BarrierKind::Red).then(|| registers.truth(op.psrc[0], lane));
                Act::Bar(BarAct { barid, count, predicate, lane })
            }
            C::LoadParam => {
                // As written: lane functions find whole parameters among a launch's constants.
                let op = &code.program.ops[pc as usize];
                let Extra::Memory(facts) = &op.extra else { return Stuck::new("ld", "no facts") };
                parameter(env, op, facts, address(code, op, facts, registers, lane))?
            }
            C::Load | C::Store | C::Atomic => {
                let Extra::Memory(facts) = &op.extra else { return Stuck::new("ld", "no facts") };
                let (space, address) =
                    super::memory::resolve(facts.space, address(code, op, facts, registers, lane));
                let bits = u32::from(facts.reg_bits);
                Act::Mem(match op.class {
                    C::Load if space == StateSpace::Param => {
                        return Ok(Some(parameter(env, op, facts, address)?));
                    }
                    C::Load => Req::Load { space, address },
                    C::Store => {
                        let size = usize::from(facts.element_bytes);
                        let data = op.src[1..].iter().take(facts.vector.into());
                        let bytes = data.flat_map(|row| {
                            registers.value(code, *row, lane, bits).to_le_bytes().into_iter().take(size)
                        });
                        Req::Store { space, address, bytes: bytes.collect() }
                    }
                    _ => Req::Atomic {
                        space,
                        address,
                        b: registers.optional(code, op.src[1], lane, bits).unwrap_or(0),
                        c: registers.optional(code, op.src[2], lane, bits),
                    },
                })
            }
            C::Hint | C::Sleep => return Ok(None),
            other => return Stuck::new("Exectt", format!("{other:?} is no instruction of the thesis")),
        }))
    }
}

/// What a load of a kernel's parameters writes.
fn parameter(env: &ProgEnv<'_>, op: &Op, facts: &MemoryOp, address: u64) -> Result<Act, Stuck> {
    let size = usize::from(facts.element_bytes) * usize::from(facts.vector);
    let at = address as usize;
    match env.params.get(at..at + size) {
        Some(bytes) => Ok(Act::Mem(Req::Registers(loaded(op, facts, bytes)))),
        None => Stuck::new("ld", format!("there is no parameter at {at}")),
    }
}

/// Where an indirect branch or call goes: an entry of the table it names, or the address itself.
fn indirect(code: &Code, op: &Op, value: u32) -> Result<Pc, Stuck> {
    if op.class == OpClass::BranchIndirect && op.imm >= 0 {
        let table = &code.program.tables[op.imm as usize];
        return match table.get(value as usize) {
            Some(target) => Ok(*target),
            None => Stuck::new("bra", format!("index {value} of {} targets", table.len())),
        };
    }
    if op.class == OpClass::BranchIndirect {
        return Ok(value);
    }
    match code.program.functions.iter().find(|function| function.address == value) {
        Some(function) => Ok(function.entry_pc),
        None => Stuck::new("call", format!("{value:#x} is not the address of a function")),
    }
}

fn address(code: &Code, op: &Op, facts: &MemoryOp, registers: &Registers, lane: u32) -> u64 {
    let Some(base) = registers.optional(code, op.src[0], lane, if facts.address_64 { 64 } else { 32 }) else {
        return op.imm as u64;
    };
    let sum = (base << facts.scale).wrapping_add(op.imm as u64);
    if facts.address_64 { sum } else { sum & 0xffff_ffff }
}

/// The registers that a load of these bytes writes: elements extended to the registers' width.
pub(super) fn loaded(op: &Op, facts: &MemoryOp, bytes: &[u8]) -> Vec<(Slot, u32)> {
    let size = usize::from(facts.element_bytes);
    let mut writes = Vec::new();
    for (row, element) in op.dst.iter().zip(bytes.chunks(size)).filter(|(row, _)| row.is_some()) {
        let negative = facts.signed && element[size - 1] >= 0x80;
        let mut wide = [if negative { 0xff } else { 0 }; 8];
        wide[..size].copy_from_slice(element);
        let [low, high] =
            [0, 4].map(|i| u32::from_le_bytes([wide[i], wide[i + 1], wide[i + 2], wide[i + 3]]));
        let row = usize::from(row.0);
        match facts.reg_bits {
            64 => writes.extend([(Slot::Word(row), low), (Slot::Word(row + 1), high)]),
            16 => writes.push((Slot::Word(row), low & 0xffff)),
            8 => writes.push((Slot::Word(row), low & 0xff)),
            _ => writes.push((Slot::Word(row), low)),
        }
    }
    writes
}
