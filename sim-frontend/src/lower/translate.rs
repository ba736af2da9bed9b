//! From the syntax tree to blocks over virtual registers: names resolved (transformation 7),
//! operands checked (1), constants folded (2), calls and frames made explicit (3), accesses
//! sized (4), ends explicit (5).

mod asynchronous;
mod blocks;
mod call;
mod families;
mod frame;
mod instruction;
mod launch_control;
mod matrix;
mod memory;
mod operand;
pub(crate) mod stack;
mod store_bulk;
mod tensor_map;
mod texture;
mod wgmma;
mod wide;
mod wmma;

use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::num::NonZero;

use sim_memory::vocabulary::{ScalarType, StateSpace};

use self::families::{Families, Family, Members, split_number};
use super::ir::{Block, BlockId, Func, Inst, Link, PredOperand, Reg, Terminator, Width};
use super::tf3_stack::layout;
use super::tf7_unique_names::Scopes;
use super::work::count;
use crate::diagnostic::{Diagnostic, Source, Span, nearest};
use crate::form::Form;
use crate::isa::{self, Root};
use crate::program::Text;
use crate::ptx::ast::{Function, Module, NO_UNROLL, Statement, Storage, Variable};

/// What a module-scope name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symbol {
    /// A variable of a space.
    Variable(StateSpace),
    /// A function, by position in the module.
    Function(usize),
    /// A function that is declared and not defined.
    Undefined,
}

/// What an opcode of the text means.
#[derive(Clone, Debug)]
pub struct Opcode {
    /// Its row.
    pub entry: &'static isa::Entry,
    /// Its form.
    pub resolved: isa::Resolved,
    /// Its number; `None` beyond those that have one.
    pub number: Option<NonZero<u16>>,
}

/// What the functions of a module share.
pub struct Context<'m, 'a> {
    /// The text.
    pub source: &'m Source,
    /// The tree.
    pub module: &'m Module<'a>,
    /// Module-scope names.
    pub symbols: &'m FxHashMap<&'a str, Symbol>,
    /// Bytes of each function's saved registers.
    pub saved: u32,
    /// What opcodes of the text resolve to.
    pub opcodes: RefCell<FxHashMap<Box<str>, Opcode>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Local {
    Reg(Reg, ScalarType),
    /// A vector register: its first element, the number of them and their type.
    Vector(Reg, u32, ScalarType),
    /// A register of 128 bits: its lower half, which the upper one follows.
    Wide(Reg),
    /// A variable of the frame: space, offset.
    Variable(StateSpace, u64),
    /// A variable whose address differs between programs: space, link.
    Linked(StateSpace, u32),
    /// A kernel parameter at an offset.
    Param(u64),
}

pub(super) struct Translator<'m, 'a> {
    pub(super) cx: &'m Context<'m, 'a>,
    pub(super) function: usize,
    names: Scopes<'a, Local>,
    /// Names that look like members of families are declared alone.
    numbered: bool,
    families: Families<'a>,
    /// Where names and families are declared.
    declared: Scopes<'a, Span>,
    /// Sizes of .param variables.
    pub(super) bytes: Scopes<'a, u64>,
    labels: Scopes<'a, BlockId>,
    tables: Scopes<'a, Vec<(&'a str, Span)>>,
    pub(super) func: Func,
    pub(super) types: Vec<ScalarType>,
    current: Vec<Inst>,
    at: BlockId,
    /// `.pragma "nounroll"` stands in this block, and for the whole function.
    kept: bool,
    keeps_all: bool,
    /// Blocks in the order of the text.
    order: Vec<BlockId>,
    ended: bool,
    pub(super) loc: Option<(u32, u32)>,
    pub(super) errors: Vec<Diagnostic>,
    /// Offsets of locals and call parameters in order of declaration.
    places: Vec<u64>,
    next_place: usize,
    shared_seen: usize,
    pub(super) frame: u32,
    /// The line asked for last.
    line_before: Cell<u32>,
    /// Places of the links.
    link_numbers: FxHashMap<Link, u32>,
}

/// Translates a function.
///
/// # Errors
/// Everything that is wrong with it.
pub fn translate(cx: &Context<'_, '_>, function: usize) -> Result<Func, Vec<Diagnostic>> {
    let ast = &cx.module.functions[function];
    let mut t = Translator {
        cx,
        function,
        names: Scopes::default(),
        numbered: false,
        families: Families::default(),
        declared: Scopes::default(),
        bytes: Scopes::default(),
        labels: Scopes::default(),
        tables: Scopes::default(),
        func: Func {
            name: ast.name.into(),
            entry: ast.entry,
            param_bytes: if ast.entry { layout(ast.params.iter()).1 } else { 0 },
            blocks: Vec::new(),
            regs: Vec::new(),
            uniform: Vec::new(),
            frame_bytes: 0,
            stack_base: None,
            taken: None,
            links: Vec::new(),
            callees: BTreeSet::new(),
            addressed: BTreeSet::new(),
            indirect: false,
            carry: None,
            injected_by_hand: false,
            refused: Vec::new(),
        },
        types: Vec::new(),
        current: Vec::new(),
        at: 0,
        kept: false,
        keeps_all: cx.module.keeps_loops || ast.bounds.iter().any(|(name, _)| *name == NO_UNROLL),
        order: vec![0],
        ended: false,
        loc: None,
        errors: Vec::new(),
        places: Vec::new(),
        next_place: 0,
        shared_seen: 0,
        frame: 0,
        line_before: Cell::new(0),
        link_numbers: FxHashMap::default(),
    };
    // Where functions can be called, frames move.
    if !ast.entry || has_calls(ast.body.as_deref().unwrap_or_default()) {
        let base = t.fresh(ScalarType::U32);
        t.func.stack_base = Some(base);
    }
    t.func.blocks.push(t.placeholder());
    t.parameters(ast);
    let body = ast.body.as_deref().unwrap_or_default();
    t.plan_frame(ast, body);
    t.statements(body);
    if !t.ended {
        t.end_implicitly();
    }
    t.give_back();
    if !t.errors.is_empty() {
        // Then everything that is wrong is told.
        t.errors.append(&mut t.func.refused);
        return Err(t.errors);
    }
    t.renumber();
    t.func.frame_bytes = t.frame;
    t.func.find_callees();
    Ok(t.func)
}

pub(super) fn width(ty: ScalarType) -> Width {
    match ty.bits() {
        1 => Width::Pred,
        2..=16 => Width::Half,
        17..=32 => Width::Word,
        _ => Width::Pair,
    }
}

impl<'m, 'a> Translator<'m, 'a> {
    fn placeholder(&self) -> Block {
        Block { insts: Vec::new(), end: Terminator::Jump(None, 0), kept: false }
    }

    pub(super) fn fresh(&mut self, ty: ScalarType) -> Reg {
        self.func.regs.push(width(ty));
        self.types.push(ty);
        (self.func.regs.len() - 1) as Reg
    }

    pub(super) fn error(&mut self, span: Span, code: &'static str, message: impl Into<String>) {
        if self.errors.len() < 100 {
            self.errors.push(Diagnostic::error(code, message).at(span, "").in_source(self.cx.source));
        }
    }

    pub(super) fn help(&mut self, words: String) {
        if let Some(last) = self.errors.last_mut() {
            last.help.get_or_insert(words);
        }
    }

    /// The error reported since there were `before` is about a form that is not known here: it stops the
    /// kernels that reach this function, not the module.
    pub(super) fn refuse_since(&mut self, before: usize) {
        let found = self.errors.drain(before.min(self.errors.len())..);
        self.func.refused.extend(found);
    }

    fn parameters(&mut self, ast: &Function<'a>) {
        let (offsets, _) = layout(ast.params.iter());
        if ast.entry {
            for (param, offset) in ast.params.iter().zip(offsets) {
                let _ = self.declare(param.name, Local::Param(offset.into()));
                let _ = self.declared.declare(param.name, param.span);
            }
            return;
        }
        let (offsets, _) = layout(ast.returns.iter().chain(&ast.params));
        for (param, offset) in ast.returns.iter().chain(&ast.params).zip(offsets) {
            let local = match param.storage {
                Storage::Register => Local::Reg(self.fresh(param.ty), param.ty),
                Storage::Space(_) => Local::Variable(StateSpace::Param, offset.into()),
            };
            let _ = self.declare(param.name, local);
            let _ = self.declared.declare(param.name, param.span);
        }
        // Parameters in registers are fetched from the frame.
        let (offsets, _) = layout(ast.returns.iter().chain(&ast.params));
        let base = self.func.stack_base;
        for (param, offset) in ast.params.iter().zip(offsets.into_iter().skip(ast.returns.len())) {
            if let Some(Local::Reg(reg, ty)) = self.names.find(param.name).copied() {
                let like = self.blank_like(param.span);
                let (load, test) = self.load_from_frame(&like, base, offset, reg, ty);
                self.push(load);
                self.current.extend(test);
            }
        }
    }

    fn statements(&mut self, body: &[Statement<'a>]) {
        for statement in body {
            if let Statement::Label(name, span) = statement {
                let block = self.func.blocks.len();
                self.func.blocks.push(self.placeholder());
                if self.labels.declare(name, block).is_err() {
                    self.error(*span, "label", format!("the label `{name}` is defined twice"));
                }
            }
            if let Statement::BranchTargets(name, targets) = statement {
                let _ = self.tables.declare(name, targets.clone());
            }
        }
        let mut counted = 0;
        for (i, statement) in body.iter().enumerate() {
            count(1);
            match statement {
                Statement::Declaration(variable) => self.declaration(variable),
                Statement::Label(name, _) => {
                    let Some(block) = self.labels.find(name).copied() else { continue };
                    if !self.ended {
                        self.finish(Terminator::Jump(None, block));
                    }
                    self.enter(block);
                }
                Statement::Instruction(instruction) => {
                    if self.ended {
                        // Nothing jumps here; it is translated for its errors and dropped later.
                        let block = self.func.blocks.len();
                        self.func.blocks.push(self.placeholder());
                        self.enter(block);
                    }
                    if self.current.is_empty() && i >= counted {
                        let own = body[i..].iter().take_while(|s| !ends_block(s)).count();
                        self.current.reserve_exact(own);
                        counted = i + own;
                    }
                    self.instruction(instruction);
                }
                Statement::Block(inner) => {
                    self.names.open();
                    self.families.open();
                    self.declared.open();
                    self.bytes.open();
                    self.labels.open();
                    self.tables.open();
                    self.statements(inner);
                    self.tables.close();
                    self.labels.close();
                    self.families.close();
                    self.declared.close();
                    self.bytes.close();
                    self.names.close();
                }
                Statement::Loc(file, line) => self.loc = Some((*file, *line)),
                Statement::KeepLoop => self.kept = true,
                Statement::BranchTargets(..) | Statement::Prototype(_) => {}
            }
        }
    }

    fn declaration(&mut self, variable: &Variable<'a>) {
        let local = match variable.storage {
            Storage::Register if variable.vector > 1 => {
                let wrong = match variable.ty {
                    ScalarType::Pred => Some("vectors of .pred are not allowed"),
                    ty if ty.bits() * variable.vector > 128 => Some("a vector must not exceed 128 bits"),
                    _ => None,
                };
                if let Some(message) = wrong {
                    return self.error(variable.span, "vector", message);
                }
                let (first, width) = (self.func.regs.len() as Reg, variable.vector);
                for _ in 0..variable.count.unwrap_or(1) * width {
                    self.fresh(variable.ty);
                }
                if let Some(count) = variable.count {
                    let members = Members::Vectors(first, width, variable.ty);
                    return self.family(variable, Family { count, members });
                }
                Local::Vector(first, width, variable.ty)
            }
            Storage::Register if variable.ty == ScalarType::B128 => {
                let first = self.func.regs.len() as Reg;
                for _ in 0..2 * variable.count.unwrap_or(1) {
                    self.fresh(ScalarType::B64);
                }
                if let Some(count) = variable.count {
                    return self.family(variable, Family { count, members: Members::Wide(first) });
                }
                Local::Wide(first)
            }
            Storage::Register => {
                if let Some(count) = variable.count {
                    let first = self.func.regs.len() as Reg;
                    for _ in 0..count {
                        self.fresh(variable.ty);
                    }
                    let members = Members::Registers(first, variable.ty);
                    return self.family(variable, Family { count, members });
                }
                Local::Reg(self.fresh(variable.ty), variable.ty)
            }
            Storage::Space(StateSpace::Shared) => {
                let link = self.link(Link::Shared(self.shared_seen));
                self.shared_seen += 1;
                Local::Linked(StateSpace::Shared, link)
            }
            Storage::Space(space @ (StateSpace::Local | StateSpace::Param)) => {
                let place = self.places.get(self.next_place).copied().unwrap_or(0);
                self.next_place += 1;
                if let Some(count) = variable.count {
                    let (stride, bytes) = (variable.stride(), variable.element_bytes());
                    let members = Members::Variables(space, place, stride, bytes);
                    return self.family(variable, Family { count, members });
                }
                let _ = self.bytes.declare(variable.name, variable.bytes().unwrap_or(0));
                Local::Variable(space, place)
            }
            Storage::Space(space @ (StateSpace::Global | StateSpace::Const)) => {
                let name = variable.inner_name(self.func.name.as_ref());
                Local::Linked(space, self.link(Link::Variable(name.into())))
            }
            Storage::Space(StateSpace::Generic) => return,
        };
        // `%r3` clashes with `%r<8>` of the same block.
        let family = split_number(variable.name).and_then(|(prefix, number)| {
            self.families.find_innermost(prefix).filter(|family| number < family.count).map(|_| prefix)
        });
        if self.declare(variable.name, local).is_err() || family.is_some() {
            let first = self.declared.find(family.unwrap_or(variable.name)).copied();
            self.error(variable.span, "name", format!("`{}` is declared twice", variable.name));
            self.also(first, "the first declaration");
        } else {
            let _ = self.declared.declare(variable.name, variable.span);
        }
    }

    fn family(&mut self, variable: &Variable<'a>, family: Family) {
        if self.families.declare(variable.name, family).is_err() {
            let first = self.declared.find(variable.name).copied();
            self.error(variable.span, "name", format!("`{}` is declared twice", variable.name));
            self.also(first, "the first declaration");
        } else {
            let _ = self.declared.declare(variable.name, variable.span);
        }
    }

    /// Bytes of a variable of the frame.
    pub(super) fn bytes_of(&self, name: &str) -> Option<u64> {
        if self.names.find(name).is_some() {
            return self.bytes.find(name).copied();
        }
        let (prefix, number) = split_number(name)?;
        match self.families.find(prefix)? {
            Family { count, members: Members::Variables(.., bytes) } if number < count => Some(bytes),
            _ => None,
        }
    }

    /// Another place that the last error is about.
    pub(super) fn also(&mut self, span: Option<Span>, words: &str) {
        if let (Some(span), Some(last)) = (span, self.errors.last_mut()) {
            last.labels.push((span, words.to_string()));
        }
    }

    /// Where a register or variable is declared.
    pub(super) fn declaration_of(&self, name: &str) -> Option<Span> {
        let family = || self.declared.find(split_number(name)?.0);
        self.declared.find(name).or_else(family).copied()
    }

    /// What a name means here [expr-V].
    pub(super) fn lookup(&self, name: &str) -> Option<Local> {
        // Most are members of families; one that is declared alone comes first.
        let only_member = !self.numbered && name.starts_with('%');
        if only_member && let Some(member) = self.member(name) {
            return Some(member);
        }
        self.names.find(name).copied().or_else(|| if only_member { None } else { self.member(name) })
    }

    fn member(&self, name: &str) -> Option<Local> {
        let (prefix, number) = split_number(name)?;
        self.families.find(prefix)?.member(number)
    }

    /// Declares a name; gives back its meaning if it is taken.
    pub(super) fn declare(&mut self, name: &'a str, local: Local) -> Result<(), Local> {
        self.numbered |= name.starts_with('%') && split_number(name).is_some();
        self.names.declare(name, local)
    }

    pub(super) fn unknown(&mut self, name: &str, span: Span) {
        self.error(span, "name", format!("`{name}` is not declared"));
        if let Some((prefix, Some(family))) =
            split_number(name).map(|(prefix, _)| (prefix, self.families.find(prefix)))
        {
            let last = family.count.saturating_sub(1);
            self.help(format!("`{prefix}<{}>` declares `{prefix}0` to `{prefix}{last}`", family.count));
            return self.also(self.declared.find(prefix).copied(), "declared here");
        }
        let near = nearest(name, self.names.names().chain(self.cx.symbols.keys().copied()));
        if let Some(near) = near {
            let words = format!("did you mean `{near}`?");
            self.help(words);
        }
    }

    /// The number of a link; each stands once.
    pub(super) fn link(&mut self, link: Link) -> u32 {
        let links = &mut self.func.links;
        *self.link_numbers.entry(link).or_insert_with_key(|link| {
            links.push(link.clone());
            links.len() as u32 - 1
        })
    }

    /// How many instructions the block has.
    pub(super) fn position(&self) -> usize {
        self.current.len()
    }

    /// Takes back those from `start` on.
    pub(super) fn pushed_since(&mut self, start: usize) -> Vec<Inst> {
        self.current.split_off(start.min(self.current.len()))
    }

    pub(super) fn push(&mut self, inst: Inst) {
        self.current.push(inst);
    }

    fn end_implicitly(&mut self) {
        let entry = self.func.entry;
        let span = self.cx.module.functions[self.function].span;
        let mut inst = self.blank_like(span);
        inst.class = super::tf5_explicit_exit::class_of_return(entry);
        inst.text = Text::Made(super::tf5_explicit_exit::implicit_end(entry));
        self.returns_to_frame(&inst);
        self.finish(Terminator::End(Box::new(inst)));
    }

    fn line(&self, span: Span) -> u32 {
        let line = self.cx.source.user_line_near(span.start, self.line_before.get());
        self.line_before.set(line);
        line
    }

    pub(super) fn blank_like(&self, span: Span) -> Inst {
        let form = Form::plain(Root::Exit, ScalarType::B32);
        Inst { line: self.line(span), loc: self.loc, ..Inst::blank(form, PredOperand::Const(true)) }
    }
}

/// No instruction of the block follows it.
fn ends_block(statement: &Statement<'_>) -> bool {
    match statement {
        Statement::Instruction(instruction) => matches!(instruction.root, "bra" | "brx" | "ret" | "exit"),
        Statement::Label(..) | Statement::Block(_) => true,
        _ => false,
    }
}

/// A call stands in it.
pub fn has_calls(body: &[Statement<'_>]) -> bool {
    body.iter().any(|statement| match statement {
        Statement::Instruction(i) => i.root == "call",
        Statement::Block(inner) => has_calls(inner),
        _ => false,
    })
}
