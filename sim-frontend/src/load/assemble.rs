//! Assembles the program of one entry: reachable functions are translated, registers assigned,
//! control flow injected and proved consistent, operations encoded.

mod encode;

use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use sim_memory::vocabulary::StateSpace;

use crate::diagnostic::{Diagnostic, Source};
use crate::lower::ir::{Callee, Func, Inst, Operand, PredOperand, Terminator};
use crate::lower::linear_scan::{Assignment, assign};
use crate::lower::spill::spill;
use crate::lower::stack_consistency;
use crate::lower::tf3_stack::{layout, preserve_registers};
use crate::lower::tf6_control_flow::{Emitted, inject};
use crate::lower::translate::stack::MOST_ALIGN;
use crate::lower::translate::{Context, Symbol, translate};
use crate::program::{ControlFlow, OpClass, ParamInfo, Program, SpecialRegister};
use crate::ptx::ast::{Function, Init, Module as Ast, OperandKind, Statement, Storage, Variable};

/// Everything wrong with the functions of a module.
pub(super) fn check(source: &Source, ast: &Ast<'_>) -> Vec<Diagnostic> {
    let mut symbols = function_symbols(ast);
    for variable in &ast.variables {
        if let Storage::Space(space) = variable.storage {
            symbols.insert(variable.name.to_string(), Symbol::Variable(space, 0));
        }
    }
    let shared = FxHashMap::default();
    let cx = Context {
        source,
        module: ast,
        symbols: &symbols,
        shared: &shared,
        saved: 0,
        calls: true,
        stack_bytes: 0,
        texts: false,
        forms: RefCell::default(),
    };
    (0..ast.functions.len())
        .filter(|&f| ast.functions[f].body.is_some())
        .filter_map(|f| translate(&cx, f).err())
        .flatten()
        .collect()
}

fn function_symbols(ast: &Ast<'_>) -> FxHashMap<String, Symbol> {
    let mut symbols = FxHashMap::default();
    for (i, function) in ast.functions.iter().enumerate().filter(|(_, f)| !f.entry) {
        if function.body.is_some() {
            symbols.insert(function.name.to_string(), Symbol::Function(i));
        } else {
            symbols.entry(function.name.to_string()).or_insert(Symbol::Undefined);
        }
    }
    symbols
}

/// Parameters of an entry with their offsets, and the bytes of the block.
pub(super) fn params(function: &Function<'_>) -> (Vec<ParamInfo>, u32) {
    let (offsets, bytes) = layout(function.params.iter());
    let list = function
        .params
        .iter()
        .zip(offsets)
        .map(|(param, offset)| ParamInfo {
            name: param.name.to_string(),
            offset,
            size: param.bytes().unwrap_or(0) as u32,
            align: param.alignment() as u32,
            ty: param.dims.is_empty().then_some(param.ty),
        })
        .collect();
    (list, bytes)
}

/// Shared variables: those of the module and of the functions that may run.
struct Shared {
    offsets: FxHashMap<(usize, usize), u64>,
    bytes: u32,
    align: u32,
}

fn shared_layout(ast: &Ast<'_>, entry: usize, symbols: &mut FxHashMap<String, Symbol>) -> Shared {
    let mut at = 0u64;
    let mut offsets = FxHashMap::default();
    let mut place = |variable: &Variable<'_>| {
        at = at.next_multiple_of(variable.alignment());
        let offset = at;
        at += variable.bytes().unwrap_or(0);
        offset
    };
    let is_shared = |v: &Variable<'_>| v.storage == Storage::Space(StateSpace::Shared);
    let dynamic = |v: &Variable<'_>| v.external || v.dims.iter().any(Option::is_none);
    for variable in ast.variables.iter().filter(|v| is_shared(v) && !dynamic(v)) {
        let offset = place(variable);
        symbols.insert(variable.name.to_string(), Symbol::Variable(StateSpace::Shared, offset));
    }
    for (f, function) in ast.functions.iter().enumerate().filter(|(f, x)| !x.entry || *f == entry) {
        let mut list = Vec::new();
        collect_shared(function.body.as_deref().unwrap_or_default(), &mut list);
        for (i, variable) in list.into_iter().enumerate() {
            offsets.insert((f, i), place(variable));
        }
    }
    let align = ast.variables.iter().filter(|v| is_shared(v) && dynamic(v)).map(Variable::alignment).max();
    let align = align.unwrap_or(16).max(16);
    let bytes = at.next_multiple_of(align);
    for variable in ast.variables.iter().filter(|v| is_shared(v) && dynamic(v)) {
        symbols.insert(variable.name.to_string(), Symbol::Variable(StateSpace::Shared, bytes));
    }
    let has_dynamic = ast.variables.iter().any(|v| is_shared(v) && dynamic(v));
    Shared {
        offsets,
        bytes: if has_dynamic { bytes } else { at }.min(u32::MAX.into()) as u32,
        align: align as u32,
    }
}

fn collect_shared<'s, 'a>(body: &'s [Statement<'a>], out: &mut Vec<&'s Variable<'a>>) {
    for statement in body {
        match statement {
            Statement::Declaration(v) if v.storage == Storage::Space(StateSpace::Shared) => out.push(v),
            Statement::Block(inner) => collect_shared(inner, out),
            _ => {}
        }
    }
}

fn has_calls(body: &[Statement<'_>]) -> bool {
    body.iter().any(|statement| match statement {
        Statement::Instruction(i) => i.root == "call",
        Statement::Block(inner) => has_calls(inner),
        _ => false,
    })
}

/// A function ready to be encoded.
pub(super) struct Ready {
    pub(super) func: Arc<Func>,
    pub(super) assignment: Assignment,
    pub(super) emitted: Emitted,
}

/// Functions of the module whose address is taken, by a variable's initial value or by a body.
fn with_address(ast: &Ast<'_>) -> BTreeSet<usize> {
    fn in_init<'a>(init: &Init<'a>, found: &mut Vec<&'a str>) {
        match init {
            Init::List(list) => list.iter().for_each(|inner| in_init(inner, found)),
            Init::Value(operand) => {
                if let OperandKind::Offset { name, .. } | OperandKind::Name(name) = operand.kind {
                    found.push(name);
                }
            }
        }
    }
    fn in_body<'a>(body: &[Statement<'a>], found: &mut Vec<&'a str>) {
        for statement in body {
            match statement {
                Statement::Block(inner) => in_body(inner, found),
                Statement::Instruction(i) if i.root != "call" => {
                    found.extend(i.operands.iter().filter_map(|o| match o.kind {
                        OperandKind::Name(name) => Some(name),
                        _ => None,
                    }));
                }
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    ast.variables.iter().filter_map(|v| v.init.as_ref()).for_each(|init| in_init(init, &mut found));
    for body in ast.functions.iter().filter_map(|f| f.body.as_deref()) {
        in_body(body, &mut found);
    }
    let functions = ast.functions.iter().enumerate();
    functions
        .filter(|(_, f)| !f.entry && f.body.is_some() && found.contains(&f.name))
        .map(|(i, _)| i)
        .collect()
}

/// Functions an IR function can reach directly: called, or with their address taken.
fn callees(func: &Func) -> (BTreeSet<usize>, bool) {
    let mut out = BTreeSet::new();
    let mut indirect = false;
    for inst in func.blocks.iter().flat_map(|b| b.all()) {
        if let Callee::Function(f) = inst.callee {
            out.insert(f);
        }
        for operand in &inst.src {
            if let Operand::Function(f, _) = operand {
                out.insert(*f);
                indirect = true;
            }
        }
        indirect |= inst.class == OpClass::CallIndirect;
    }
    (out, indirect)
}

/// How a program is made to fit the registers of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fit {
    /// Registers are saved across calls, so that functions share them.
    pub(super) saves: bool,
    /// Rows a function may take; other values are spilled.
    pub(super) rows: Option<u16>,
}

pub(super) fn program(
    source: &Source,
    ast: &Ast<'_>,
    entry: usize,
    mut symbols: FxHashMap<String, Symbol>,
    flow: ControlFlow,
    stack_bytes: u32,
    Fit { saves, rows }: Fit,
) -> Result<Arc<Program>, Vec<Diagnostic>> {
    symbols.extend(function_symbols(ast));
    let shared = shared_layout(ast, entry, &mut symbols);
    let calls = has_calls(ast.functions[entry].body.as_deref().unwrap_or_default());
    let mut saved = 0;
    let (functions, recursive, saves) = loop {
        let cx = Context {
            source,
            module: ast,
            symbols: &symbols,
            shared: &shared.offsets,
            saved,
            calls,
            stack_bytes: stack_bytes.next_multiple_of(MOST_ALIGN as u32),
            texts: true,
            forms: RefCell::default(),
        };
        let mut functions: Vec<(usize, Func)> = Vec::new();
        let mut open = vec![entry];
        let mut indirect = false;
        while let Some(f) = open.pop() {
            if functions.iter().any(|(g, _)| *g == f) {
                continue;
            }
            let func = translate(&cx, f)?;
            let (next, any) = callees(&func);
            if any && !indirect {
                // It may call whatever has its address in memory or in a register somewhere.
                open.extend(with_address(ast));
            }
            indirect |= any;
            open.extend(next.into_iter().rev());
            functions.push((f, func));
        }
        let recursive = indirect || is_cyclic(&functions);
        if !recursive && !saves && rows.is_none() {
            break (callers_first(functions), false, false);
        }
        // Values that find no register, and registers live across calls, lie in the frames, which
        // must have room for them.
        let mut most = 0;
        for (_, func) in &mut functions {
            let at = func.frame_bytes - saved.next_multiple_of(16);
            let first_row = if calls { 2 } else { 0 };
            let mut spilled = 0;
            // One that cannot do with so few stays as it is, and is refused by its number of them.
            if let Some((fitting, bytes)) = rows.and_then(|rows| spill(func, rows, first_row, at)) {
                (*func, spilled) = (fitting, bytes);
            }
            let kept = if recursive || saves { preserve_registers(func, at + spilled) } else { 0 };
            most = most.max(spilled + kept);
        }
        if most <= saved {
            break (functions, recursive, recursive || saves);
        }
        saved = most;
    };
    let mut notes = Vec::new();
    if let Some(rows) = rows {
        notes.push(format!(
            "values that find no room in {rows} registers are kept in local memory, {saved} bytes a frame"
        ));
    }
    let bases = register_bases(&functions, saves, calls);
    let allocates = functions.iter().any(|(_, func)| func.taken.is_some());
    let mut plain = Vec::new();
    let mut injected = Vec::new();
    let mut max_tokens = 0;
    let (mut next_row, mut next_pred) = (FxHashMap::default(), FxHashMap::default());
    for ((f, func), callers) in functions.iter().zip(&bases) {
        let start_row = callers.iter().filter_map(|c| next_row.get(c)).copied().max().unwrap_or(0);
        let start_pred = callers.iter().filter_map(|c| next_pred.get(c)).copied().max().unwrap_or(0);
        let first_row: u16 = if calls || allocates { 2u16.max(start_row) } else { 0 };
        let mut assignment = assign(func, first_row.next_multiple_of(2), start_pred).map_err(|_| {
            vec![Diagnostic::error(
                "registers",
                format!("`{}` needs more registers than operands can name", func.name),
            )]
        })?;
        if let Some(base) = func.stack_base {
            assignment.place[base as usize] = Some(0);
        }
        if let Some(taken) = func.taken {
            assignment.place[taken as usize] = Some(1);
        }
        let uniform = uniform_branches(func);
        let emitted = inject(func, &uniform);
        let by_hand = func.injected_by_hand;
        match stack_consistency::check(&emitted.items, func.entry) {
            Ok(depth) => max_tokens = max_tokens.max(depth),
            Err(error) if by_hand => notes.push(format!("{}: [{}] {}", func.name, error.rule, error.reason)),
            Err(error) => {
                let message = format!(
                    "control flow of `{}` could not be made consistent: [{}] {} (operation {})",
                    func.name, error.rule, error.reason, error.at
                );
                return Err(vec![Diagnostic::error("control-flow", message).in_source(source)]);
            }
        }
        notes.extend(emitted.notes.iter().cloned());
        next_row.insert(*f, assignment.rows + emitted.extra.len() as u16 * 2);
        next_pred.insert(*f, assignment.preds + emitted.extra.len() as u16);
        let shared = Arc::new(func.clone());
        let emitted_plain = plain_order(func);
        plain.push(Ready {
            func: Arc::clone(&shared),
            assignment: assignment.clone(),
            emitted: emitted_plain,
        });
        injected.push(Ready { func: shared, assignment, emitted });
    }
    let numbers: Vec<usize> = functions.iter().map(|(f, _)| *f).collect();
    let mut local_bytes = if recursive { stack_bytes } else { frame_need(&functions, 0) };
    if allocates {
        let align = MOST_ALIGN as u32;
        local_bytes = local_bytes.next_multiple_of(align).saturating_add(stack_bytes.next_multiple_of(align));
    }
    let (param_list, param_bytes) = params(&ast.functions[entry]);
    let facts = encode::Facts {
        source,
        numbers: &numbers,
        params: param_list,
        param_bytes,
        shared_bytes: shared.bytes,
        dynamic_shared_align: shared.align,
        local_bytes,
        recursive,
        bounds: super::bounds(&ast.functions[entry]),
        notes,
        max_tokens,
    };
    let base = Arc::new(encode::encode(&facts, &plain, ControlFlow::Plain, None)?);
    if flow == ControlFlow::Plain {
        return Ok(base);
    }
    Ok(Arc::new(encode::encode(&facts, &injected, ControlFlow::Injected, Some(base))?))
}

fn is_cyclic(functions: &[(usize, Func)]) -> bool {
    fn visit(
        f: usize,
        functions: &[(usize, Func)],
        path: &mut Vec<usize>,
        done: &mut BTreeSet<usize>,
    ) -> bool {
        if path.contains(&f) {
            return true;
        }
        if !done.insert(f) {
            return false;
        }
        path.push(f);
        let next =
            functions.iter().find(|(g, _)| *g == f).map(|(_, func)| callees(func).0).unwrap_or_default();
        let cyclic = next.into_iter().any(|g| visit(g, functions, path, done));
        path.pop();
        cyclic
    }
    functions.first().is_some_and(|(f, _)| visit(*f, functions, &mut Vec::new(), &mut BTreeSet::new()))
}

/// For each function, the functions whose registers it must leave alone: none where calls save
/// registers, else those that call it, which come before it.
fn register_bases(functions: &[(usize, Func)], saves: bool, calls: bool) -> Vec<Vec<usize>> {
    let calls_of: Vec<BTreeSet<usize>> = functions.iter().map(|(_, func)| callees(func).0).collect();
    let callers = |f: usize| -> Vec<usize> {
        functions
            .iter()
            .zip(&calls_of)
            .filter(|(_, calls)| calls.contains(&f))
            .map(|((g, _), _)| *g)
            .collect()
    };
    functions.iter().map(|(f, _)| if saves || !calls { Vec::new() } else { callers(*f) }).collect()
}

/// Callers before the functions they call, which do not recur; the entry stays first.
fn callers_first(functions: Vec<(usize, Func)>) -> Vec<(usize, Func)> {
    let mut left: Vec<Option<(usize, Func)>> = functions.into_iter().map(Some).collect();
    let mut out = Vec::with_capacity(left.len());
    while out.len() < left.len() {
        let called: BTreeSet<usize> = left.iter().flatten().flat_map(|(_, func)| callees(func).0).collect();
        let free = |slot: &Option<(usize, Func)>| slot.as_ref().is_some_and(|(f, _)| !called.contains(f));
        match left.iter_mut().find(|slot| free(slot)).and_then(Option::take) {
            Some(next) => out.push(next),
            // A cycle, which there is none of here.
            None => out.extend(left.iter_mut().filter_map(Option::take)),
        }
    }
    out
}

fn frame_need(functions: &[(usize, Func)], index: usize) -> u32 {
    let (_, func) = &functions[index];
    let deeper = callees(func)
        .0
        .into_iter()
        .filter_map(|f| functions.iter().position(|(g, _)| *g == f))
        .map(|i| frame_need(functions, i))
        .max()
        .unwrap_or(0);
    // Parameters of calls to functions that are not defined here lie behind the frame too.
    func.frame_bytes.saturating_add(deeper).saturating_add(if func.stack_base.is_some() { 64 } else { 0 })
}

/// Blocks in the order of the text.
fn plain_order(func: &Func) -> Emitted {
    use crate::lower::tf6_control_flow::{Item, NONE};
    let mut starts = Vec::new();
    let mut n = 0;
    for block in &func.blocks {
        starts.push(n);
        n += block.all().count();
    }
    let mut items = Vec::with_capacity(n);
    for (b, block) in func.blocks.iter().enumerate() {
        for (i, inst) in block.all().enumerate() {
            let mut item = Item {
                source: Some((b, i)),
                class: inst.class,
                guard: inst.guard,
                target: NONE,
                targets: Vec::new(),
                inverted: false,
                data: None,
                reconverges: true,
            };
            if i == block.insts.len() {
                match &block.end {
                    Terminator::Jump(_, to) | Terminator::Branch(_, to, _) => item.target = starts[*to],
                    Terminator::Indirect(_, targets) => {
                        item.targets = targets.iter().map(|t| starts[*t]).collect()
                    }
                    Terminator::End(_) => {}
                }
            } else if matches!(item.class, OpClass::Ssy | OpClass::PreBreak | OpClass::PreReturn) {
                item.target = starts.get(inst.imm as usize).copied().unwrap_or(NONE);
            }
            items.push(item);
        }
    }
    Emitted { items, ..Emitted::default() }
}

/// For each block, whether its branch is the same for all threads of a warp: its condition is a
/// register with one definition from constants, parameters and block-uniform special registers,
/// through registers of the same kind.
fn uniform_branches(func: &Func) -> Vec<bool> {
    let n = func.regs.len();
    let mut definitions: Vec<Vec<&Inst>> = vec![Vec::new(); n];
    for inst in func.blocks.iter().flat_map(|b| b.all()) {
        for reg in inst.writes() {
            definitions[reg as usize].push(inst);
        }
    }
    let mut uniform = vec![false; n];
    let operand = |o: &Operand, uniform: &[bool]| match o {
        Operand::None | Operand::Const { .. } | Operand::Function(..) => true,
        Operand::Special(s) => !matches!(
            s,
            SpecialRegister::TidX
                | SpecialRegister::TidY
                | SpecialRegister::TidZ
                | SpecialRegister::LaneId
                | SpecialRegister::LanemaskEq
                | SpecialRegister::LanemaskGe
                | SpecialRegister::LanemaskGt
                | SpecialRegister::LanemaskLe
                | SpecialRegister::LanemaskLt
        ),
        Operand::Reg(reg) => uniform[*reg as usize],
    };
    let pred = |p: &PredOperand, uniform: &[bool]| match p {
        PredOperand::Reg(reg, _) => uniform[*reg as usize],
        _ => true,
    };
    loop {
        let mut changed = false;
        for reg in 0..n {
            if uniform[reg] || definitions[reg].len() != 1 {
                continue;
            }
            let inst = definitions[reg][0];
            let pure = matches!(inst.class, OpClass::Data | OpClass::LoadParam)
                && inst.guard == PredOperand::Const(true);
            if pure
                && inst.src.iter().all(|o| operand(o, &uniform))
                && inst.psrc.iter().all(|p| pred(p, &uniform))
            {
                uniform[reg] = true;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    func.blocks
        .iter()
        .map(|block| match &block.end {
            Terminator::Branch(inst, ..) => pred(&inst.guard, &uniform),
            Terminator::Indirect(inst, _) => {
                inst.guard == PredOperand::Const(true) && operand(&inst.src[0], &uniform)
            }
            _ => true,
        })
        .collect()
}
