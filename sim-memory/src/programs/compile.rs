//! Compiles memory programs to instructions that are assigned to a *room*: L1 and register operations run in
//! the SM; L2 and DRAM operations and `atomOp` run in the partition that owns the address. Control changes
//! rooms at a `yield`. After the last partition operation of a micro step only register operations and `end`
//! may follow; they run when the reply arrives.

use super::ast::{BExp, LineColumn, OpExp, Room, Stm};

/// One compiled instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Performs an operation on caches, memory or registers.
    Op(OpExp),
    /// Ends the micro step.
    Yield,
    /// Ends the program.
    End,
    /// Jumps to an instruction if the condition is false.
    Unless(BExp, u16),
    /// Jumps to an instruction.
    Jump(u16),
}

/// A program that the compiler refuses because it would get stuck.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {reason}")]
pub struct CompileError {
    /// Line of the program text, from 1.
    pub line: u32,
    /// Column of the program text, from 1.
    pub column: u32,
    /// The reason, as text for the user.
    pub reason: String,
}

/// A compiled instruction, and what holds where execution comes to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompiledStep {
    /// The instruction.
    pub instruction: Instruction,
    /// The room in which execution continues from it.
    room: Room,
    /// An operation on L1 may still follow, so that the line stays held.
    pub touches_l1: bool,
    /// Execution in the SM leaves for the partition here.
    pub leaves_sm: bool,
    /// Execution in the partition leaves for the SM here: a tail of register operations runs when the reply arrives.
    pub leaves_partition: bool,
}

impl CompiledStep {
    /// One that runs in the SM without caches.
    fn on_chip(instruction: Instruction) -> Self {
        Self { instruction, room: Room::Sm, touches_l1: false, leaves_sm: false, leaves_partition: false }
    }
}

/// A compiled program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryProgram {
    /// The instructions, from the entry at index 0.
    pub code: Vec<CompiledStep>,
    /// True if the program brings lines into L1, so that whole sectors of L1 are fetched.
    pub fills_l1: bool,
}

fn is_register(op: OpExp) -> bool {
    matches!(op, OpExp::ReleaseRegs | OpExp::WriteToRegs)
}

fn room_of_condition(condition: &BExp) -> Option<Room> {
    match condition {
        BExp::True | BExp::False => None,
        BExp::Not(inner) => room_of_condition(inner),
        BExp::And(a, b) | BExp::Or(a, b) => room_of_condition(a).or(room_of_condition(b)),
        BExp::IsCachedL1 => Some(Room::Sm),
        BExp::IsCachedL2 => Some(Room::Partition),
    }
}

impl MemoryProgram {
    /// Compiles and checks a program for global and local memory.
    ///
    /// # Errors
    /// The first path without `end`, change of room inside a micro step, or operation that is not one of
    /// global and local memory, with its line.
    pub fn compile(statements: &[Stm]) -> Result<Self, CompileError> {
        let mut code = Vec::new();
        let mut lines = Vec::new();
        emit(statements, &mut code, &mut lines);
        if code.len() >= usize::from(u16::MAX) {
            return Err(CompileError { line: 1, column: 1, reason: "the program is too long".into() });
        }
        let mut program = Self {
            fills_l1: code.contains(&Instruction::Op(OpExp::ReserveL1)),
            code: code.into_iter().map(CompiledStep::on_chip).collect(),
        };
        program.check(&lines)?;
        for step in &mut program.code {
            step.leaves_sm = step.room == Room::Partition
                && matches!(step.instruction, Instruction::Op(_) | Instruction::Unless(..));
            step.leaves_partition = step.room == Room::Sm
                && match &step.instruction {
                    Instruction::Op(_) => true,
                    // Constant conditions belong to no room: they are evaluated wherever they occur.
                    Instruction::Unless(condition, _) => !matches!(condition, BExp::True | BExp::False),
                    Instruction::Yield | Instruction::Jump(_) | Instruction::End => false,
                };
        }
        Ok(program)
    }

    /// Compiles and checks a program for shared or constant memory or for registers: all of it runs in the
    /// SM, without caches.
    ///
    /// # Errors
    /// The first path without `end`, or operation on a cache, with its line.
    pub fn compile_on_chip(statements: &[Stm]) -> Result<Self, CompileError> {
        let (mut code, mut lines) = (Vec::new(), Vec::new());
        emit(statements, &mut code, &mut lines);
        let allowed = |op: &OpExp| {
            use OpExp as O;
            matches!(op, O::ReadMem | O::WriteMem | O::AtomOp | O::Lock | O::Unlock) || is_register(*op)
        };
        let n = code.len();
        let code = code.into_iter().map(CompiledStep::on_chip).collect();
        let program = Self { fills_l1: false, code };
        for at in 0..n {
            let (line, column) = lines.get(at).copied().unwrap_or((1, 1));
            let error = |reason: &str| Err(CompileError { line, column, reason: reason.to_string() });
            match &program.code[at].instruction {
                Instruction::Op(op) if !allowed(op) => {
                    return error("shared and constant memory have no cache");
                }
                Instruction::Unless(condition, _) if room_of_condition(condition).is_some() => {
                    return error("shared and constant memory have no cache");
                }
                _ if program.successors(at).into_iter().flatten().any(|next| next >= n) => {
                    return error("a path ends without `end`");
                }
                _ => {}
            }
        }
        if n == 0 {
            return Err(CompileError { line: 1, column: 1, reason: "a path ends without `end`".into() });
        }
        Ok(program)
    }

    fn successors(&self, at: usize) -> [Option<usize>; 2] {
        match &self.code[at].instruction {
            Instruction::End => [None, None],
            Instruction::Jump(to) => [Some(usize::from(*to)), None],
            Instruction::Unless(_, to) => [Some(at + 1), Some(usize::from(*to))],
            _ => [Some(at + 1), None],
        }
    }

    fn check(&mut self, lines: &[LineColumn]) -> Result<(), CompileError> {
        let n = self.code.len();
        let error = |at: usize, reason: &str| CompileError {
            line: lines.get(at).map_or(1, |place| place.0),
            column: lines.get(at).map_or(1, |place| place.1),
            reason: reason.to_string(),
        };
        // Programs have no loops, so one pass from the back settles what may follow.
        for at in (0..n).rev() {
            let mut l1 = match &self.code[at].instruction {
                Instruction::Op(op) => op.room() == Room::Sm && !is_register(*op),
                Instruction::Unless(condition, _) => room_of_condition(condition) == Some(Room::Sm),
                _ => false,
            };
            for next in self.successors(at).into_iter().flatten() {
                if next >= n {
                    return Err(error(at, "a path ends without `end`"));
                }
                l1 |= self.code[next].touches_l1;
            }
            self.code[at].touches_l1 = l1;
            let next = self.code.get(at + 1).map_or(Room::Sm, |next| next.room);
            self.code[at].room = match &self.code[at].instruction {
                Instruction::Op(op) => op.room(),
                Instruction::Unless(condition, _) => room_of_condition(condition).unwrap_or(next),
                Instruction::Jump(to) => self.code[usize::from(*to)].room,
                // Reached inside a micro step: stays where it is; as the start of one: where the
                // next operation runs.
                Instruction::Yield => next,
                Instruction::End => Room::Sm,
            };
        }
        // Inside a micro step: SM operations may not lead to partition ones, and after a
        // partition operation only a tail of register operations and `end` leads back.
        for at in 0..n {
            let here = match &self.code[at].instruction {
                Instruction::Op(op) => op.room(),
                Instruction::Unless(condition, _) => {
                    let Some(room) = room_of_condition(condition) else { continue };
                    room
                }
                _ => continue,
            };
            if let Instruction::Op(OpExp::Lock | OpExp::Unlock) = self.code[at].instruction {
                return Err(error(at, "bank locks are allowed only in programs of shared memory"));
            }
            for next in self.within_micro_step(at) {
                match &self.code[next].instruction {
                    Instruction::Op(op) => {
                        let there = op.room();
                        if here == Room::Sm && there == Room::Partition {
                            return Err(error(
                                next,
                                "this step executes in the memory partition: it must be preceded by a `yield`",
                            ));
                        }
                        if here == Room::Partition && there == Room::Sm && !is_register(*op) {
                            return Err(error(
                                next,
                                "this step executes in the SM: it must be preceded by a `yield`",
                            ));
                        }
                    }
                    Instruction::Unless(condition, _)
                        if room_of_condition(condition).is_some_and(|room| room != here) =>
                    {
                        return Err(error(
                            next,
                            "this condition is evaluated in the other of SM and memory partition: it must be preceded by a `yield`",
                        ));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// The instructions that may follow `at` within the same micro step.
    fn within_micro_step(&self, at: usize) -> Vec<usize> {
        let mut seen = Vec::new();
        let mut open: Vec<usize> = self.successors(at).into_iter().flatten().collect();
        while let Some(next) = open.pop() {
            if seen.contains(&next) {
                continue;
            }
            seen.push(next);
            if !matches!(self.code[next].instruction, Instruction::Yield | Instruction::End) {
                open.extend(self.successors(next).into_iter().flatten());
            }
        }
        seen
    }
}

fn emit(statements: &[Stm], code: &mut Vec<Instruction>, lines: &mut Vec<LineColumn>) {
    for statement in statements {
        match statement {
            Stm::Nop => {}
            Stm::Yield => push(code, lines, Instruction::Yield, (0, 0)),
            Stm::End => push(code, lines, Instruction::End, (0, 0)),
            Stm::Op(op, line) => push(code, lines, Instruction::Op(*op), *line),
            Stm::If(condition, then, otherwise, line) => {
                let test = code.len();
                push(code, lines, Instruction::Unless(condition.clone(), 0), *line);
                emit(then, code, lines);
                if otherwise.is_empty() {
                    code[test] = Instruction::Unless(condition.clone(), code.len() as u16);
                } else {
                    let skip = code.len();
                    push(code, lines, Instruction::Jump(0), *line);
                    code[test] = Instruction::Unless(condition.clone(), code.len() as u16);
                    emit(otherwise, code, lines);
                    code[skip] = Instruction::Jump(code.len() as u16);
                }
            }
        }
    }
}

fn push(
    code: &mut Vec<Instruction>,
    lines: &mut Vec<LineColumn>,
    instruction: Instruction,
    place: LineColumn,
) {
    let last = lines.last().copied().unwrap_or((1, 1));
    code.push(instruction);
    lines.push(if place == (0, 0) { last } else { place });
}
