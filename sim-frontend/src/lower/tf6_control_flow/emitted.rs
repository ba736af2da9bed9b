//! What transformation 6 gives: operations in their order, with the control-flow instructions it injects.

use crate::form::Form;
use crate::isa::Root;
use crate::lower::ir::{BlockId, Func, Inst, PredOperand, Width};
use crate::program::OpClass;
use sim_memory::vocabulary::ScalarType;

/// The target of an operation that has none.
pub const NONE: usize = usize::MAX;

/// One emitted operation.
#[derive(Clone, Debug)]
pub struct Item {
    /// The source instruction it stands for: block and position (`insts.len()` is the end).
    pub source: Option<(BlockId, usize)>,
    /// Class, where it is not the source's.
    pub class: OpClass,
    /// Guard, where it is not the source's.
    pub guard: PredOperand,
    /// Where it goes, as an index of items.
    pub target: usize,
    /// Targets of an indirect branch.
    pub targets: Vec<usize>,
    /// The guard is the negation of the source's.
    pub inverted: bool,
    /// An injected data operation.
    pub data: Option<Box<Inst>>,
    /// A sync token was pushed for this branch, or it needs none.
    pub reconverges: bool,
}

/// The emitted function.
#[derive(Clone, Debug, Default)]
pub struct Emitted {
    /// Operations in their order.
    pub items: Vec<Item>,
    /// Registers beyond the function's own, which distinguish the exits of loops.
    pub extra: Vec<Width>,
    /// What a reader should know.
    pub notes: Vec<String>,
    /// Most tokens of a frame, where its stack has been found consistent already.
    pub tokens: Option<u32>,
}

pub(super) fn item(source: (BlockId, usize), func: &Func) -> Item {
    let block = &func.blocks[source.0];
    let inst = block.insts.get(source.1).or(block.last());
    Item {
        source: Some(source),
        class: inst.map_or(OpClass::Data, |i| i.class),
        guard: inst.map_or(PredOperand::Const(true), |i| i.guard),
        target: NONE,
        targets: Vec::new(),
        inverted: false,
        data: None,
        reconverges: true,
    }
}

pub(super) fn injected(class: OpClass, guard: PredOperand, target: usize) -> Item {
    Item {
        source: None,
        class,
        guard,
        target,
        targets: Vec::new(),
        inverted: false,
        data: None,
        reconverges: true,
    }
}

pub(super) fn negate(pred: PredOperand) -> PredOperand {
    match pred {
        PredOperand::Reg(reg, not) => PredOperand::Reg(reg, !not),
        PredOperand::Const(value) => PredOperand::Const(!value),
        PredOperand::None => PredOperand::None,
    }
}

/// `mov.pred to, value` as an injected operation.
pub(super) fn set_predicate(to: PredOperand, value: PredOperand, guard: PredOperand) -> Item {
    let mut inst = Inst::blank(Form::plain(Root::Mov, ScalarType::Pred), guard);
    inst.pdst[0] = to;
    inst.psrc[0] = value;
    Item { data: Some(Box::new(inst)), ..injected(OpClass::Data, guard, NONE) }
}
