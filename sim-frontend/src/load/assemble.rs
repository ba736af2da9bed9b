//! Assembles the program of one entry: reachable functions are translated, registers assigned,
//! control flow injected and proved consistent, operations encoded.

mod calls;
mod encode;
mod plain;
mod shared;

use rustc_hash::{FxHashMap, FxHashSet};
use sim_memory::vocabulary::StateSpace;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use self::calls::{Calls, with_address};
use self::encode::Ready;
use self::plain::plain_order;
use self::shared::{ModuleShared, SharedVariable};
use crate::chip::AssemblerSpec;
use crate::diagnostic::{Diagnostic, Source, Span};
use crate::lower::clean_up::clean_up;
use crate::lower::fragments::{expand, has_fragments};
use crate::lower::ir::{Func, Link};
use crate::lower::linear_scan::{Choice, MAX_ROWS, TooManyRegisters, assign};
use crate::lower::spill::spill;
use crate::lower::stack_consistency;
use crate::lower::tf3_stack::{FRAME_ALIGN, layout, preserve_registers};
use crate::lower::tf6_control_flow::inject;
use crate::lower::translate::stack::MOST_ALIGN;
use crate::lower::translate::{Context, Symbol, has_calls, translate};
use crate::lower::uniform::uniform_branches;
use crate::program::{CleanUp, ControlFlow, Extra, LaunchBounds, ParamInfo, Pc, Program};
use crate::ptx::ast::{Function, Module as Ast, Storage, Variable};
use crate::ptx::parser::parse;

/// What the programs of a module are made of, but for what differs between launches.
#[derive(Debug)]
pub(super) struct Parts {
    /// By place in the module; `None` where a function is only declared.
    functions: Vec<Option<Part>>,
    /// Shared variables of the module.
    shared: ModuleShared,
    /// Functions whose address is taken.
    addressed: BTreeSet<usize>,
    /// Entries with a body, by name.
    entries: FxHashMap<Arc<str>, usize>,
    /// Variables of global and constant memory that another module would define, and where they are declared.
    undefined: FxHashMap<Arc<str>, Span>,
}

/// A variable of global or constant memory that is only declared here.
pub(super) fn is_declared_only(variable: &Variable<'_>) -> bool {
    variable.external && matches!(variable.storage, Storage::Space(StateSpace::Global | StateSpace::Const))
}

#[derive(Debug)]
struct Part {
    func: Arc<Func>,
    calls: bool,
    shared: Vec<SharedVariable>,
    params: Vec<ParamInfo>,
    param_bytes: u32,
    bounds: LaunchBounds,
}

impl Parts {
    /// Translates every function.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub(super) fn of(source: &Source, ast: &Ast<'_>) -> Result<Self, Vec<Diagnostic>> {
        let symbols = symbols(ast);
        let cx = Context { source, module: ast, symbols: &symbols, saved: 0, opcodes: RefCell::default() };
        let mut errors = Vec::new();
        let mut part = |f: usize, function: &Function<'_>| {
            let body = function.body.as_deref()?;
            let func = translate(&cx, f).map_err(|found| errors.extend(found)).ok()?;
            let mut shared = Vec::new();
            SharedVariable::of_body(body, &mut shared);
            let (params, param_bytes) = params(function);
            let bounds = bounds(function);
            Some(Part { func: Arc::new(func), calls: has_calls(body), shared, params, param_bytes, bounds })
        };
        let functions: Vec<Option<Part>> =
            ast.functions.iter().enumerate().map(|(f, function)| part(f, function)).collect();
        let addressed = with_address(ast, functions.iter().flatten().map(|part| &*part.func));
        let shared = ModuleShared::new(ast.variables.iter().filter_map(SharedVariable::of).collect());
        if !errors.is_empty() {
            errors.extend(functions.iter().flatten().flat_map(|part| part.func.refused.iter().cloned()));
            return Err(errors);
        }
        let mut entries = FxHashMap::default();
        for (f, part) in functions.iter().enumerate() {
            if let Some(part) = part.as_ref().filter(|part| part.func.entry) {
                entries.entry(Arc::clone(&part.func.name)).or_insert(f);
            }
        }
        let undefined = ast.variables.iter().filter(|variable| is_declared_only(variable));
        let undefined = undefined.map(|variable| (variable.name.into(), variable.span)).collect();
        Ok(Self { functions, shared, addressed, entries, undefined })
    }

    /// The place of an entry.
    pub(super) fn entry(&self, name: &str) -> Option<usize> {
        self.entries.get(name).copied()
    }

    /// Parameters of a function.
    pub(super) fn params(&self, function: usize) -> Option<(Vec<ParamInfo>, LaunchBounds)> {
        let part = self.functions.get(function)?.as_ref()?;
        Some((part.params.clone(), part.bounds.clone()))
    }
}

/// What names at module scope mean.
fn symbols<'a>(ast: &Ast<'a>) -> FxHashMap<&'a str, Symbol> {
    let mut symbols = FxHashMap::default();
    for (i, function) in ast.functions.iter().enumerate().filter(|(_, f)| !f.entry) {
        if function.body.is_some() {
            symbols.insert(function.name, Symbol::Function(i));
        } else {
            symbols.entry(function.name).or_insert(Symbol::Undefined);
        }
    }
    for variable in &ast.variables {
        if let Storage::Space(space) = variable.storage {
            symbols.insert(variable.name, Symbol::Variable(space));
        }
    }
    symbols
}

/// Parameters of an entry with their offsets, and the bytes of the block.
fn params(function: &Function<'_>) -> (Vec<ParamInfo>, u32) {
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

/// How a program is made to fit the registers of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fit {
    /// Registers are saved across calls, so that functions share them.
    pub(super) saves: bool,
    /// Rows a function may take; other values are spilled.
    pub(super) rows: Option<u16>,
    /// Registers beyond which no program is made, since another way to fit is left to try.
    pub(super) most: Option<u32>,
}

/// What a program is made for.
pub(super) struct Request<'r> {
    pub(super) source: &'r Source,
    pub(super) papers: bool,
    /// KeySpan of the entry.
    pub(super) entry: usize,
    /// Addresses of variables of global and constant memory.
    pub(super) address: &'r dyn Fn(&str) -> Option<u64>,
    pub(super) flow: ControlFlow,
    pub(super) stack_bytes: u32,
    pub(super) passes: AssemblerSpec,
}

/// The functions of a request, before they are made to fit.
pub(super) struct Reached<'p> {
    shared: shared::Layout<'p>,
    /// With their places in the module, the entry first.
    functions: Vec<(usize, Arc<Func>)>,
    /// Some of them call by address.
    indirect: bool,
    cleaned: Option<CleanUp>,
}

impl<'p> Reached<'p> {
    /// The functions that a request's entry reaches.
    ///
    /// # Errors
    /// Those that are refused, and names that have no address.
    pub(super) fn of(parts: &'p Parts, request: &Request<'_>) -> Result<Self, Vec<Diagnostic>> {
        let mut reached = Self {
            shared: shared::layout(parts, request.entry),
            functions: Vec::new(),
            indirect: false,
            cleaned: request.passes.clean_up.then(CleanUp::default),
        };
        reached.functions = reached.follow(parts, request, |_, func| Ok(Arc::clone(func)))?;
        Ok(reached)
    }

    /// The registers that the bounds of the entry leave a thread. Where `setmaxnreg` moves them, code may use more.
    pub(super) fn most_registers(&self, bounds: &LaunchBounds) -> Option<u32> {
        let moves = self.functions.iter().any(|(_, func)| func.moves_registers());
        bounds.most_registers().filter(|_| !moves)
    }

    /// They could save registers across calls: there are several, and none can be called while it runs.
    pub(super) fn can_save(&self) -> bool {
        self.functions.len() > 1 && !self.indirect && Calls::new(&self.functions).callers_first().is_some()
    }

    /// The same functions with room for `saved` bytes in their frames.
    fn with_room(
        &mut self,
        parts: &Parts,
        request: &Request<'_>,
        saved: u32,
    ) -> Result<Vec<(usize, Arc<Func>)>, Vec<Diagnostic>> {
        // Calls depend on where the frame ends. Frames with room for registers are rare, so that the tree
        // is not kept for them.
        let ast = parse(request.source, request.papers)?;
        let symbols = symbols(&ast);
        let opcodes = RefCell::default();
        let cx = Context { source: request.source, module: &ast, symbols: &symbols, saved, opcodes };
        self.follow(parts, request, |f, _| Ok(Arc::new(translate(&cx, f)?)))
    }

    /// From the entry to what is called, each function made by `make`, linked and cleaned up.
    fn follow(
        &mut self,
        parts: &Parts,
        request: &Request<'_>,
        make: impl Fn(usize, &Arc<Func>) -> Result<Arc<Func>, Vec<Diagnostic>>,
    ) -> Result<Vec<(usize, Arc<Func>)>, Vec<Diagnostic>> {
        let shared = &self.shared;
        let mut functions: Vec<(usize, Arc<Func>)> = Vec::new();
        let mut open = vec![request.entry];
        let mut seen = FxHashSet::default();
        let mut indirect = false;
        let mut refused = Vec::new();
        let mut cleaned = request.passes.clean_up.then(CleanUp::default);
        let entry = parts.functions.get(request.entry).and_then(Option::as_ref);
        let bound = entry.and_then(|part| part.bounds.most_registers());
        while let Some(f) = open.pop() {
            let Some(part) = parts.functions.get(f).and_then(Option::as_ref) else { continue };
            if !seen.insert(f) {
                continue;
            }
            refused.extend(part.func.refused.iter().cloned());
            let mut func = make(f, &part.func)?;
            let of_module = |name: &str| shared.module.contains_key(name);
            let has_shared = func.links.iter().any(|link| match link {
                Link::Variable(name) => of_module(name),
                Link::Shared(_) => true,
                Link::StackBytes => false,
            });
            if !func.links.is_empty() {
                let stack_bytes = request.stack_bytes.next_multiple_of(MOST_ALIGN as u32);
                let value = |link: &Link| match link {
                    Link::Variable(name) => {
                        shared.module.get(&**name).copied().or_else(|| (request.address)(name))
                    }
                    Link::Shared(place) => shared.functions.get(&(f, *place)).copied(),
                    Link::StackBytes => Some(stack_bytes.into()),
                };
                Arc::make_mut(&mut func).link(value).map_err(|link| {
                    let name = if let Link::Variable(name) = &link { name } else { "a variable" };
                    let error = match parts.undefined.get(name) {
                        Some(span) => {
                            let message = format!(
                                "`{}` refers to `{name}`, which this module declares but does not define",
                                part.func.name
                            );
                            Diagnostic::error("extern", message)
                                .at(*span, "")
                                .help("modules are not linked: define it without `.extern`")
                        }
                        None => {
                            let message =
                                format!("`{name}`, which `{}` refers to, has no address", part.func.name);
                            Diagnostic::error("name", message)
                        }
                    };
                    vec![error.in_source(request.source)]
                })?;
            }
            if has_fragments(&func) {
                let tiles = request.passes.clean_up && request.passes.load_matrix;
                expand(Arc::make_mut(&mut func), tiles);
            }
            if let Some(cleaned) = &mut cleaned {
                let most = bound.filter(|_| !func.moves_registers()).unwrap_or(u32::MAX);
                let most = most.saturating_sub(request.passes.reserved_registers);
                // Where transformation 6 injects instructions, those are in the place of the barriers.
                let barriers = request.passes.convergence_barriers && request.flow == ControlFlow::Plain;
                let passes = AssemblerSpec { convergence_barriers: barriers, ..request.passes };
                cleaned.add(&clean_up(Arc::make_mut(&mut func), passes, most, has_shared));
            }
            if func.indirect && !indirect {
                // It may call whatever has its address in memory or in a register somewhere.
                open.extend(&parts.addressed);
            }
            indirect |= func.indirect;
            open.extend(func.callees.iter().rev());
            functions.push((f, func));
        }
        if !refused.is_empty() {
            return Err(refused);
        }
        (self.indirect, self.cleaned) = (indirect, cleaned);
        Ok(functions)
    }
}

/// The program of an entry; `None` where it takes more registers than `fit.most`.
///
/// # Errors
/// What the lowering cannot do.
pub(super) fn program(
    parts: &Parts,
    request: &Request<'_>,
    reached: &mut Reached<'_>,
    fit: Fit,
) -> Result<Option<Arc<Program>>, Vec<Diagnostic>> {
    let Request { source, papers, entry, flow, stack_bytes, .. } = *request;
    let Fit { saves, rows, most: most_registers } = fit;
    let too_many = |rows: u16| most_registers.is_some_and(|most| u32::from(rows) > most);
    let Some(part) = parts.functions.get(entry).and_then(Option::as_ref) else {
        let message = "the entry was not translated".to_string();
        return Err(vec![Diagnostic::error("entry", message).in_source(source)]);
    };
    let unnamed = |func: &Func| {
        let message = format!("`{}` needs too many registers", func.name);
        let mut error = Diagnostic::error("registers", message).in_source(source);
        error.help = Some(format!(
            "the limit is {MAX_ROWS} 32-bit registers (a 64-bit register takes two) and as many predicates; split it into several kernels or functions"
        ));
        vec![error]
    };
    let calls = part.calls;
    let choice = choice(&request.passes, most_registers);
    let mut saved = 0u32;
    let mut functions = reached.functions.clone();
    let (functions, recursive, saves) = loop {
        let order = if reached.indirect { None } else { Calls::new(&functions).callers_first() };
        let recursive = order.is_none();
        if let Some(order) = order.filter(|_| !saves && rows.is_none()) {
            let mut left: Vec<_> = functions.into_iter().map(Some).collect();
            let functions = order.into_iter().filter_map(|place| left[place].take()).collect();
            break (functions, false, false);
        }
        // Values that find no register, and registers live across calls, lie in the frames, which
        // must have room for them.
        let mut most = 0;
        for (_, func) in &mut functions {
            let at = func.frame_bytes - saved.next_multiple_of(FRAME_ALIGN);
            let first_row = if calls || func.taken.is_some() { 2 } else { 0 };
            let mut spilled = 0;
            // One that cannot do with so few stays as it is, and is refused by its number of them.
            if let Some((fitting, bytes)) =
                rows.and_then(|rows| spill(func, rows, first_row, at, request.passes.clean_up))
            {
                (*func, spilled) = (Arc::new(fitting), bytes);
            }
            let kept = match recursive || saves {
                true => preserve_registers(Arc::make_mut(func), at + spilled),
                false => 0,
            };
            most = most.max(spilled + kept);
        }
        if most <= saved {
            break (functions, recursive, recursive || saves);
        }
        saved = most;
        if functions.iter().all(|(_, func)| func.stack_base.is_none()) {
            // Nothing lies behind a frame that no call moves: it only becomes longer.
            for (_, func) in &mut functions {
                let func = Arc::make_mut(func);
                func.frame_bytes = func.frame_bytes.saturating_add(saved.next_multiple_of(FRAME_ALIGN));
            }
            break (functions, recursive, recursive || saves);
        }
        functions = reached.with_room(parts, request, saved)?;
    };
    let shared = &reached.shared;
    let mut notes: Vec<String> = rows.map(|rows| limited(rows, saved)).into_iter().collect();
    let graph = Calls::new(&functions);
    let allocates = functions.iter().any(|(_, func)| func.taken.is_some());
    let mut plain = Vec::new();
    let mut injected = Vec::new();
    let mut max_tokens = 0;
    // By function: registers and predicates that those it calls must leave alone.
    let mut next: Vec<(u16, u16)> = Vec::with_capacity(functions.len());
    for ((_, func), callers) in functions.iter().zip(&graph.callers) {
        // Where calls save registers, functions share them. Otherwise callers come before those they call.
        let callers = if saves || !calls { &[] } else { callers.as_slice() };
        let start_row = callers.iter().map(|c| next[*c].0).max().unwrap_or(0);
        let start_pred = callers.iter().map(|c| next[*c].1).max().unwrap_or(0);
        let first_row: u16 = if calls || allocates { 2u16.max(start_row) } else { 0 };
        let mut assignment = match assign(func, first_row.next_multiple_of(2), start_pred, choice) {
            Ok(assignment) => assignment,
            Err(TooManyRegisters) if too_many(MAX_ROWS) => return Ok(None),
            // Functions that share registers need fewer.
            Err(TooManyRegisters) if !callers.is_empty() => {
                return program(parts, request, reached, Fit { saves: true, ..fit });
            }
            Err(TooManyRegisters) => return Err(unnamed(func)),
        };
        if let Some(base) = func.stack_base {
            assignment.place[base as usize] = Some(0);
        }
        if let Some(taken) = func.taken {
            assignment.place[taken as usize] = Some(1);
        }
        if too_many(assignment.of_values()) {
            return Ok(None);
        }
        let uniform = uniform_branches(func);
        let emitted = inject(func, &uniform);
        let by_hand = func.injected_by_hand;
        match emitted.tokens.map_or_else(|| stack_consistency::check(&emitted.items, func.entry), Ok) {
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
        let taken = encode::taken(&assignment, &emitted);
        // Uniform registers are none of a thread's.
        let of_values = taken.0 - assignment.all_rows() + u32::from(assignment.of_values());
        if too_many(of_values.min(MAX_ROWS.into()) as u16) {
            return Ok(None);
        }
        if taken.0.max(taken.1) > MAX_ROWS.into() {
            return Err(unnamed(func));
        }
        next.push((taken.0 as u16, taken.1 as u16));
        plain.push(Ready {
            func: Arc::clone(func),
            assignment: assignment.clone(),
            emitted: plain_order(func),
        });
        injected.push(Ready { func: Arc::clone(func), assignment, emitted });
    }
    let numbers: Vec<usize> = functions.iter().map(|(f, _)| *f).collect();
    let mut local_bytes = match graph.callers_first() {
        Some(order) if !recursive => graph.frame_need(&functions, &order),
        _ => stack_bytes,
    };
    if allocates {
        let align = MOST_ALIGN as u32;
        local_bytes = local_bytes.next_multiple_of(align).saturating_add(stack_bytes.next_multiple_of(align));
    }
    let facts = encode::Facts {
        source,
        papers,
        numbers: &numbers,
        params: part.params.clone(),
        param_bytes: part.param_bytes,
        shared_bytes: shared.bytes,
        dynamic_shared_align: shared.align,
        local_bytes,
        recursive,
        // The shortest frame still holds a return address on hardware.
        deepest_call: if recursive { stack_bytes / FRAME_ALIGN } else { u32::MAX },
        bounds: part.bounds.clone(),
        notes,
        clean_up: reached.cleaned,
        passes: request.passes,
        shared_rows: saves || !calls,
        max_tokens,
    };
    let mut base = encode::encode(&facts, &plain, ControlFlow::Plain, None)?;
    let repeated = crate::waits::repeated(&base);
    mark_repeated(&mut base, &repeated);
    let base = Arc::new(base);
    if flow == ControlFlow::Plain {
        return Ok(Some(base));
    }
    let mut program = encode::encode(&facts, &injected, ControlFlow::Injected, Some(base))?;
    mark_repeated(&mut program, &repeated);
    Ok(Some(Arc::new(program)))
}

/// How registers are chosen where a thread may have so many besides those that are reserved.
fn choice(passes: &AssemblerSpec, most: Option<u32>) -> Choice {
    let most = most.unwrap_or(u32::MAX).min(MAX_ROWS.into());
    // As many as an SM is full of warps with, or fewer where the kernel may have fewer.
    let full = passes.full().saturating_sub(passes.reserved_registers).min(most) as u16;
    let most = most as u16;
    match (passes.clean_up, passes.register_banks) {
        (false, _) => Choice::Lowest,
        (true, false) => Choice::WithPrograms { most },
        (true, true) => Choice::ByBanks { full, most },
    }
}

/// How a program came to use this many registers.
fn limited(rows: u16, saved: u32) -> String {
    match saved {
        0 => format!(
            "limited to {rows} registers: instructions are moved nearer to where their results are used"
        ),
        _ => format!("limited to {rows} registers: {saved} bytes per frame are spilled to local memory"),
    }
}

/// Marks the tests of mbarrier objects at these addresses of the plain program.
fn mark_repeated(program: &mut Program, repeated: &[Pc]) {
    for (op, info) in program.ops.iter_mut().zip(&program.info) {
        if let Extra::Mbarrier(facts) = &mut op.extra {
            facts.repeats = repeated.contains(&info.base_pc);
        }
    }
}

/// The performance-tuning directives of a function.
fn bounds(function: &Function<'_>) -> LaunchBounds {
    let mut bounds = LaunchBounds::default();
    for (name, values) in &function.bounds {
        let at = |i: usize| values.get(i).map_or(1, |v| u32::try_from(*v).unwrap_or(u32::MAX));
        match *name {
            "reqntid" => bounds.required = Some([at(0), at(1), at(2)]),
            "maxntid" => bounds.max = Some([at(0), at(1), at(2)]),
            "minnctapersm" => bounds.min_blocks = Some(at(0)),
            "maxnreg" => bounds.max_registers = Some(at(0)),
            "reqnctapercluster" => bounds.cluster = Some([at(0), at(1), at(2)]),
            "explicitcluster" => bounds.explicit_cluster = true,
            "maxclusterrank" => bounds.max_cluster = Some(at(0)),
            _ => {}
        }
    }
    bounds
}
