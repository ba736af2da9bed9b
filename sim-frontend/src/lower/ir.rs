//! Functions between the syntax tree and the program: basic blocks of instructions over virtual
//! registers.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::sync::Arc;

use crate::diagnostic::Diagnostic;
use crate::form::Form;
use crate::isa::Root;
use crate::program::{Extra, OpClass, SpecialRegister, Text};

use super::work::count;

/// A virtual register.
pub type Reg = u32;
/// A basic block of a function.
pub type BlockId = usize;

/// Width of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// A predicate.
    Pred,
    /// 16 bits, zero-extended in a 32-bit row.
    Half,
    /// 32 bits.
    Word,
    /// 64 bits: an aligned pair.
    Pair,
}

impl Width {
    /// 32-bit registers that it takes.
    pub fn words(self) -> u32 {
        match self {
            Self::Pred => 0,
            Self::Half | Self::Word => 1,
            Self::Pair => 2,
        }
    }
}

/// A row operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// None, or a sink.
    None,
    /// A register.
    Reg(Reg),
    /// A constant in every lane; wide ones take a pair.
    Const {
        /// Its bits.
        bits: u64,
        /// 64 bits.
        wide: bool,
    },
    /// A parameter of the entry; wide ones take a pair.
    Parameter {
        /// Its place, in bytes.
        offset: u32,
        /// 64 bits.
        wide: bool,
    },
    /// A special register that is constant for a thread.
    Special(SpecialRegister),
    /// The program address of a function.
    Function(usize, bool),
    /// What a link of the function becomes, plus a number.
    Link {
        /// Index into [`Func::links`].
        link: u32,
        /// Added bytes.
        addend: i64,
        /// 64 bits.
        wide: bool,
    },
}

impl Operand {
    /// An immediate, or in constant memory: an instruction of machine code has room for one of these.
    pub fn is_constant(&self) -> bool {
        matches!(self, Self::Const { .. } | Self::Parameter { .. }) || self.is_size()
    }

    /// The size of a block or grid, which lies in constant memory beside the parameters.
    pub fn is_size(&self) -> bool {
        use SpecialRegister::{NctaidX, NctaidY, NctaidZ, NtidX, NtidY, NtidZ};
        matches!(self, Self::Special(NtidX | NtidY | NtidZ | NctaidX | NctaidY | NctaidZ))
    }
}

/// A number that is known when a program is made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Link {
    /// The address of a variable of the module, or of global or constant memory of a function.
    Variable(Box<str>),
    /// The address of a shared variable of the function: its place among them.
    Shared(usize),
    /// Bytes of the stack that `alloca` gives out.
    StackBytes,
}

/// A predicate operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PredOperand {
    /// None, or a sink.
    None,
    /// A constant.
    Const(bool),
    /// A predicate, negated or not.
    Reg(Reg, bool),
}

/// Where a called function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callee {
    /// Not a call.
    None,
    /// A function of the module.
    Function(usize),
}

/// An instruction.
#[derive(Clone, Debug)]
pub struct Inst {
    /// What the pipeline does.
    pub class: OpClass,
    /// Its form.
    pub form: Form,
    /// The number among the opcodes of the module, if it stands there as it is written.
    pub opcode: Option<NonZero<u16>>,
    /// Guard predicate.
    pub guard: PredOperand,
    /// Nobody reads what lanes have whose guard is false: a guarded write is all there is to the value.
    pub fresh: bool,
    /// Destinations.
    pub dst: [Operand; 4],
    /// Sources.
    pub src: [Operand; 5],
    /// Sources besides those: fragments of matrices.
    pub fragments: Vec<Operand>,
    /// Destinations besides those: D of a `wgmma`.
    pub results: Vec<Operand>,
    /// Predicate destinations.
    pub pdst: [PredOperand; 2],
    /// Predicate sources.
    pub psrc: [PredOperand; 2],
    /// Address offset or immediate.
    pub imm: i64,
    /// Facts by class.
    pub extra: Extra,
    /// Called function.
    pub callee: Callee,
    /// Line of the text.
    pub line: u32,
    /// What listings show.
    pub text: Text,
    /// Source line of the CUDA program.
    pub loc: Option<(u32, u32)>,
    /// Minimum target (major * 10 + minor).
    pub min_sm: u32,
    /// Why it is not executed.
    pub unsupported: Option<Arc<str>>,
    /// `.uni`.
    pub uniform_hint: bool,
}

impl Inst {
    /// A data instruction of this form without operands, lines and texts.
    pub fn blank(form: Form, guard: PredOperand) -> Self {
        Self {
            class: OpClass::Data,
            form,
            opcode: None,
            guard,
            fresh: false,
            dst: [Operand::None; 4],
            src: [Operand::None; 5],
            fragments: Vec::new(),
            results: Vec::new(),
            pdst: [PredOperand::None; 2],
            psrc: [PredOperand::None; 2],
            imm: 0,
            extra: Extra::None,
            callee: Callee::None,
            line: 0,
            text: Text::Made(""),
            loc: None,
            min_sm: 10,
            unsupported: None,
            uniform_hint: false,
        }
    }
}

/// How a block ends.
#[derive(Clone, Debug)]
pub enum Terminator {
    /// Goes on at a block; with the `bra` that says so, if one is written.
    Jump(Option<Box<Inst>>, BlockId),
    /// A guarded `bra`: taken, next.
    Branch(Box<Inst>, BlockId, BlockId),
    /// `brx.idx`.
    Indirect(Box<Inst>, Vec<BlockId>),
    /// An unguarded `ret` or `exit`.
    End(Box<Inst>),
}

/// A basic block.
#[derive(Clone, Debug)]
pub struct Block {
    /// Instructions that do not end it; guarded `ret` and `exit` are among them.
    pub insts: Vec<Inst>,
    /// How it ends.
    pub end: Terminator,
    /// A loop that begins here is not unrolled (`.pragma "nounroll"`).
    pub kept: bool,
}

/// A function.
#[derive(Clone, Debug)]
pub struct Func {
    /// Name of the function.
    pub name: Arc<str>,
    /// True for a kernel.
    pub entry: bool,
    /// Blocks; the first is the function's entry.
    pub blocks: Vec<Block>,
    /// Width of each register.
    pub regs: Vec<Width>,
    /// By register: a uniform register of the warp holds it, and none of the thread. Shorter than `regs` where no more do.
    pub uniform: Vec<bool>,
    /// Bytes of the parameters of a kernel.
    pub param_bytes: u32,
    /// Bytes of its stack frame.
    pub frame_bytes: u32,
    /// The register that holds the base of the stack frame, if it has one.
    pub stack_base: Option<Reg>,
    /// The register that counts the bytes of `alloca`, if the function has one.
    pub taken: Option<Reg>,
    /// Numbers that operands stand for and that differ between programs.
    pub links: Vec<Link>,
    /// Functions of the module that it calls, or whose address it takes.
    pub callees: BTreeSet<usize>,
    /// Those whose address it takes.
    pub addressed: BTreeSet<usize>,
    /// It calls by address, or takes an address.
    pub indirect: bool,
    /// The register of the carry.
    pub carry: Option<Reg>,
    /// Written in the papers' dialect with its own control-flow instructions.
    pub injected_by_hand: bool,
    /// Why no kernel that reaches it can run; its instructions are incomplete then.
    pub refused: Vec<Diagnostic>,
}

impl Func {
    /// A new register, of the thread or a uniform one.
    pub fn register(&mut self, width: Width, uniform: bool) -> Reg {
        let reg = self.regs.len();
        self.regs.push(width);
        if uniform {
            self.uniform.resize(reg, false);
            self.uniform.push(true);
        }
        reg as Reg
    }

    /// Registers that calls and frames read and write without naming them.
    pub fn fixed(&self) -> [Option<Reg>; 3] {
        [self.stack_base, self.taken, self.carry]
    }

    /// By block: how many ways lead to it, the one into the function among them.
    pub fn ways_in(&self) -> Vec<u32> {
        let mut ways_in = vec![0u32; self.blocks.len()];
        ways_in[0] = 1;
        for block in &self.blocks {
            count(1);
            block.for_successors(|to| ways_in[to] = ways_in[to].saturating_add(1));
        }
        ways_in
    }

    /// Takes out blocks that nothing leads to.
    pub fn remove_blocks(&mut self, gone: &[bool]) {
        let mut left = 0;
        let number: Vec<BlockId> = gone
            .iter()
            .map(|gone| {
                left += usize::from(!gone);
                left - 1
            })
            .collect();
        let mut gone = gone.iter();
        self.blocks.retain(|_| gone.next() == Some(&false));
        self.blocks.iter_mut().for_each(|block| block.end.for_targets_mut(|to| *to = number[*to]));
    }

    /// True if `setmaxnreg` moves registers between the warps of a block.
    pub fn moves_registers(&self) -> bool {
        self.blocks.iter().flat_map(Block::all).any(|inst| inst.class == OpClass::SetRegisters)
    }

    /// 32-bit registers of a thread that a register takes.
    pub fn words(&self, reg: Reg) -> u32 {
        if self.is_uniform(reg) { 0 } else { self.regs[reg as usize].words() }
    }

    /// True if the value of a register lies in a uniform register.
    pub fn is_uniform(&self, reg: Reg) -> bool {
        self.uniform.get(reg as usize).copied().unwrap_or(false)
    }

    /// Sets [`callees`](Self::callees), [`addressed`](Self::addressed) and
    /// [`indirect`](Self::indirect) by the instructions.
    pub fn find_callees(&mut self) {
        for inst in self.blocks.iter().flat_map(Block::all) {
            if let Callee::Function(f) = inst.callee {
                self.callees.insert(f);
            }
            for operand in inst.sources() {
                if let Operand::Function(f, _) = operand {
                    self.callees.insert(*f);
                    self.addressed.insert(*f);
                    self.indirect = true;
                }
            }
            self.indirect |= inst.class == OpClass::CallIndirect;
        }
    }

    /// Puts the numbers in: `value` of each link.
    ///
    /// # Errors
    /// The first link that has none.
    pub fn link(&mut self, value: impl Fn(&Link) -> Option<u64>) -> Result<(), Link> {
        let values: Result<Vec<u64>, Link> =
            self.links.drain(..).map(|link| value(&link).ok_or(link)).collect();
        let values = values?;
        if !values.is_empty() {
            self.blocks.iter_mut().flat_map(Block::all_mut).for_each(|inst| inst.link(&values));
        }
        Ok(())
    }
}

impl Terminator {
    /// Calls `each` with the blocks that may follow.
    pub fn for_targets_mut(&mut self, mut each: impl FnMut(&mut BlockId)) {
        match self {
            Self::Jump(_, to) => each(to),
            Self::Branch(_, taken, next) => [taken, next].into_iter().for_each(each),
            Self::Indirect(_, targets) => targets.iter_mut().for_each(each),
            Self::End(_) => {}
        }
    }

    /// The instruction that ends the block, if one is written.
    pub fn inst_mut(&mut self) -> Option<&mut Inst> {
        match self {
            Self::Jump(inst, _) => inst.as_deref_mut(),
            Self::Branch(inst, ..) | Self::Indirect(inst, _) | Self::End(inst) => Some(inst),
        }
    }
}

impl Block {
    /// Blocks that may follow it.
    pub fn successors(&self) -> Vec<BlockId> {
        match &self.end {
            Terminator::Jump(_, to) => vec![*to],
            Terminator::Branch(_, taken, next) => vec![*taken, *next],
            Terminator::Indirect(_, targets) => targets.clone(),
            Terminator::End(_) => Vec::new(),
        }
    }

    /// Calls `each` with the successors.
    pub fn for_successors(&self, mut each: impl FnMut(BlockId)) {
        match &self.end {
            Terminator::Jump(_, to) => each(*to),
            Terminator::Branch(_, taken, next) => {
                each(*taken);
                each(*next);
            }
            Terminator::Indirect(_, targets) => targets.iter().copied().for_each(each),
            Terminator::End(_) => {}
        }
    }

    /// The instruction that ends it, if one is written.
    pub fn last(&self) -> Option<&Inst> {
        match &self.end {
            Terminator::Jump(inst, _) => inst.as_deref(),
            Terminator::Branch(inst, ..) | Terminator::Indirect(inst, _) | Terminator::End(inst) => {
                Some(inst)
            }
        }
    }

    /// All instructions in order.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Inst> {
        self.insts.iter_mut().chain(self.end.inst_mut())
    }

    /// All instructions in order.
    pub fn all(&self) -> impl Iterator<Item = &Inst> {
        self.insts.iter().chain(self.last())
    }
}

impl Inst {
    /// Puts the numbers of links in: that of an address without a base goes to its offset.
    fn link(&mut self, values: &[u64]) {
        for operand in &mut self.fragments {
            if let Operand::Link { link, addend, wide } = *operand {
                let bits = values.get(link as usize).copied().unwrap_or(0).wrapping_add_signed(addend);
                *operand = Operand::Const { bits, wide };
            }
        }
        for slot in 0..self.src.len() {
            let Operand::Link { link, addend, wide } = self.src[slot] else { continue };
            let value = values.get(link as usize).copied().unwrap_or(0).wrapping_add_signed(addend);
            let beside = |offset: &mut i32| *offset = offset.saturating_add(value.min(1 << 30) as i32);
            self.src[slot] = Operand::None;
            match (&mut self.extra, slot) {
                (
                    Extra::Memory(_)
                    | Extra::Tiles { .. }
                    | Extra::Copy(_)
                    | Extra::Bulk(_)
                    | Extra::Mbarrier(_)
                    | Extra::CopyArrive(..),
                    0,
                ) => self.imm = self.imm.wrapping_add(value as i64),
                (Extra::Tensor(tensor), 1) => beside(&mut tensor.to.offset),
                (Extra::Tensor(tensor), 3) => beside(&mut tensor.object.offset),
                (Extra::StoreAsync(_), 0) => self.imm = self.imm.wrapping_add(value as i64),
                (Extra::StoreAsync(store), 4) => beside(&mut store.object.offset),
                (Extra::Copy(copy), 1) => beside(&mut copy.to.offset),
                (Extra::Bulk(bulk), 1) => beside(&mut bulk.to.offset),
                (Extra::Bulk(bulk), 3) => beside(&mut bulk.object.offset),
                _ if self.class == OpClass::Trap => {
                    let reason = self.unsupported.as_deref().unwrap_or_default();
                    self.unsupported = Some(reason.replace("{}", &value.to_string()).into());
                }
                _ => self.src[slot] = Operand::Const { bits: value, wide },
            }
        }
    }

    /// It writes or reads the carry, which it does not name.
    pub fn carries(&self) -> bool {
        self.form.mods.cc || matches!(self.form.root, Root::Addc | Root::Subc | Root::Madc)
    }

    /// All sources.
    #[inline]
    pub fn sources(&self) -> impl Iterator<Item = &Operand> {
        self.src.iter().chain(&self.fragments)
    }

    /// All destinations but predicates.
    #[inline]
    pub fn destinations(&self) -> impl Iterator<Item = &Operand> {
        self.dst.iter().chain(&self.results)
    }

    /// Lanes whose guard is false may keep what is in its destinations.
    pub fn keeps(&self) -> bool {
        self.guard != PredOperand::Const(true) && !self.fresh
    }

    /// Registers it reads, each for itself: rows, predicates, guard; a guarded write reads its
    /// destination too, since lanes whose guard is false keep the old value.
    #[inline]
    pub fn for_reads(&self, mut each: impl FnMut(Reg)) {
        if self.keeps() {
            self.for_writes(&mut each);
        }
        for operand in self.sources() {
            if let Operand::Reg(reg) = operand {
                each(*reg);
            }
        }
        for pred in self.psrc.iter().chain([&self.guard]) {
            if let PredOperand::Reg(reg, _) = pred {
                each(*reg);
            }
        }
    }

    /// Registers it writes, each for itself.
    #[inline]
    pub fn for_writes(&self, mut each: impl FnMut(Reg)) {
        for operand in self.destinations() {
            if let Operand::Reg(reg) = operand {
                each(*reg);
            }
        }
        for pred in &self.pdst {
            if let PredOperand::Reg(reg, _) = pred {
                each(*reg);
            }
        }
    }
}
