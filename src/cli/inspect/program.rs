//! `inspect FILE.ptx`: what became of a kernel. Its control-flow graph with dominators, loops and
//! branches, the decoded program with physical registers and injected instructions, memory by space,
//! and how many blocks an SM holds.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use sim_frontend::chip::ChipSpec;
use sim_frontend::dependence::divergence;
use sim_frontend::diagnostic::Diagnostic;
use sim_frontend::isa_cost::IsaCosts;
use sim_frontend::load::{Assembler, Module};
use sim_frontend::lower::cfg::{Graph, Loop, NoLoops, dominators, natural_loops, reverse};
use sim_frontend::program::{ControlFlow, Extra, OpClass, Pc, Pred, Program, Row};
use sim_frontend::program_flow::{ends_block, successors};

use super::InspectArgs;
use super::STACK_BYTES;
use crate::console::{complain, status, table};
use crate::request::Setting;

/// Runs the command for a file.
pub fn program(file: &Path, args: &InspectArgs) -> u8 {
    match inspect(file, args) {
        Ok((text, refused)) => {
            print!("{text}");
            complain(&refused);
            if refused.is_empty() { status::DONE } else { status::BAD_INPUT }
        }
        Err(errors) => {
            complain(&errors);
            status::BAD_INPUT
        }
    }
}

/// The text, and why the kernel that is asked for cannot run.
fn inspect(file: &Path, args: &InspectArgs) -> Result<(String, Vec<Diagnostic>), Vec<Diagnostic>> {
    let source = crate::configs::read(file).map_err(|error| vec![error])?;
    let chip = args.chip.clone().unwrap_or_else(|| crate::chip_for::chip_of_program(&source));
    let set: Vec<Setting> = args
        .set
        .iter()
        .map(|text| Setting::parse(text))
        .collect::<Result<_, _>>()
        .map_err(|error| vec![error])?;
    let set: Vec<(&str, &str)> = set.iter().map(|s| (s.key.as_str(), s.value.as_str())).collect();
    let (chip, costs) = crate::configs::chip(&chip, &set)?;
    let module = Module::build(&source, false)?;
    let entries: Vec<&str> = match &args.entry {
        Some(entry) => vec![entry],
        None => module.entries().collect(),
    };
    let addresses = super::addresses(&module);
    let (mut out, mut refused) = (String::new(), Vec::new());
    for entry in entries {
        let (registers, passes) = (chip.limits.max_reg_size, chip.assembler);
        let assembler = Assembler { stack_bytes: STACK_BYTES, registers, passes };
        let program = match module.program_for(entry, &addresses, ControlFlow::Injected, assembler) {
            Ok(program) => program,
            Err(errors) if args.entry.is_some() => return Err(errors),
            Err(errors) => {
                cannot_run(&mut out, args, entry, &errors);
                continue;
            }
        };
        let not_executed = program.not_executed();
        if !not_executed.is_empty() {
            cannot_run(&mut out, args, entry, &not_executed);
            if args.entry.is_some() {
                refused = not_executed;
            }
        }
        let plain = program.base.as_deref().unwrap_or(&program);
        let graphs: Vec<FunctionGraph> =
            (0..plain.functions.len()).map(|f| FunctionGraph::new(plain, f)).collect();
        if args.graphviz {
            graphviz(&mut out, plain, &graphs);
            continue;
        }
        summary(&mut out, &program, &chip, &costs, args.block);
        memory(&mut out, plain);
        loops(&mut out, plain, &graphs);
        branches(&mut out, plain, &graphs);
        listing(&mut out, &program, plain, &graphs);
    }
    Ok((out, refused))
}

/// Says why; in a graph's text as comments.
fn cannot_run(out: &mut String, args: &InspectArgs, entry: &str, reasons: &[Diagnostic]) {
    let comment = if args.graphviz { "// " } else { "" };
    let _ = writeln!(out, "{comment}kernel {entry} cannot run:");
    for reason in reasons {
        let _ = writeln!(out, "{comment}  {reason}");
    }
    out.push('\n');
}

/// A basic block of the plain program.
struct Block {
    first: Pc,
    /// One past its last instruction.
    end: Pc,
}

/// The control-flow graph of one function; the last node of `post` is where it is left.
struct FunctionGraph {
    name: String,
    blocks: Vec<Block>,
    graph: Graph,
    /// By block: those that lead to it.
    from: Graph,
    idom: Vec<Option<usize>>,
    ipdom: Vec<Option<usize>>,
    /// Loops that a block lies in; none known where the graph has no natural loops.
    depth: Option<Vec<usize>>,
    loops: Result<Vec<Loop>, NoLoops>,
}

impl FunctionGraph {
    fn new(program: &Program, index: usize) -> Self {
        let function = &program.functions[index];
        let range = function.entry_pc..function.end_pc;
        let mut leaders: Vec<Pc> = vec![range.start];
        for pc in range.clone() {
            let op = &program.ops[pc as usize];
            let (to, _) = successors(program, pc, &range);
            if ends_block(program, pc) || matches!(op.class, OpClass::Branch | OpClass::BranchIndirect) {
                leaders.extend(to);
                leaders.push(pc + 1);
            }
        }
        leaders.retain(|pc| range.contains(pc));
        leaders.sort_unstable();
        leaders.dedup();
        let ends = leaders.iter().skip(1).copied().chain([range.end]);
        let blocks: Vec<Block> = leaders.iter().zip(ends).map(|(&first, end)| Block { first, end }).collect();
        let block_at = |pc: Pc| leaders.partition_point(|first| *first <= pc).saturating_sub(1);
        let leave = blocks.len();
        let mut graph: Graph = Vec::new();
        let mut with_leave: Graph = Vec::new();
        for block in &blocks {
            let (to, leaves) = successors(program, block.end - 1, &range);
            let to: Vec<usize> = to.into_iter().map(block_at).collect();
            graph.push(to.clone());
            with_leave.push(to.into_iter().chain(leaves.then_some(leave)).collect());
        }
        with_leave.push(Vec::new());
        let idom = dominators(&graph, 0);
        let ipdom = dominators(&reverse(&with_leave), leave);
        let loops = natural_loops(&graph, 0);
        let depth = loops.as_ref().ok().map(|loops| {
            let mut depth = vec![0; blocks.len()];
            loops.iter().flat_map(|one| &one.nodes).for_each(|b| depth[*b] += 1);
            depth
        });
        let from = reverse(&graph);
        Self { name: function.name.to_string(), blocks, graph, from, idom, ipdom, depth, loops }
    }

    fn post_dominator(&self, block: usize) -> Option<usize> {
        self.ipdom[block].filter(|join| *join < self.blocks.len())
    }

    fn block_of(&self, pc: Pc) -> usize {
        self.blocks.partition_point(|block| block.first <= pc).saturating_sub(1)
    }
}

fn summary(out: &mut String, program: &Program, chip: &ChipSpec, costs: &IsaCosts, block: Option<u32>) {
    let bounds = &program.bounds;
    let product = |axes: Option<[u32; 3]>| axes.map(|axes| axes.iter().product::<u32>());
    let threads = block.or(product(bounds.required)).or(product(bounds.max)).unwrap_or(256);
    let injected = program.info.iter().filter(|info| info.injected).count();
    let _ = writeln!(
        out,
        "kernel {}: {} instructions, {injected} more injected; {} registers and {} predicates per thread; {} bytes \
         of shared memory, {} of local memory, {} of parameters{}",
        program.entry,
        program.ops.len() - injected,
        program.registers_per_thread,
        program.predicates,
        program.shared_bytes,
        program.local_bytes,
        program.param_bytes,
        if program.recursive { "; recursive" } else { "" },
    );
    let written = program.ops.iter().zip(&program.info).filter(|(_, info)| !info.injected);
    let operations: u64 = written
        .filter_map(|(op, _)| {
            let form = program.forms.get(usize::from(op.form))?;
            Some(u64::from(costs.cost(form).machine_operations) + u64::from(op.extra.more_operations()))
        })
        .sum();
    let _ = writeln!(out, "machine operations by the cost table {}: {operations}", chip.isa);
    for note in &program.notes {
        let _ = writeln!(out, "note: {note}");
    }
    let needs = chip.block_needs(threads, program.registers_per_thread, program.shared_bytes);
    let (blocks, limit) = chip.occupancy(needs);
    let most = chip.limits.max_resident_threads / chip.limits.warp_size.max(1);
    let warps = blocks.saturating_mul(needs.warps).min(most);
    let _ = writeln!(
        out,
        "{} with blocks of {threads} threads: {blocks} blocks per SM, {warps} of {most} warps, limited by {limit}\n",
        chip.name
    );
}

fn memory(out: &mut String, program: &Program) {
    let mut counts: BTreeMap<(String, String), (usize, u32)> = BTreeMap::new();
    for op in &program.ops {
        let Extra::Memory(facts) = op.extra else { continue };
        let what = format!("{:?}", op.class).to_lowercase();
        let space = format!("{:?}", facts.space).to_lowercase();
        let (count, bytes) = counts.entry((space, what)).or_default();
        *count += 1;
        *bytes += u32::from(facts.element_bytes) * u32::from(facts.vector.max(1));
    }
    let params = program.ops.iter().filter(|op| op.class == OpClass::LoadParam).count();
    let mut list = table(&["space", "access", "instructions", "bytes per thread"]);
    for ((space, what), (count, bytes)) in counts.iter().filter(|((_, what), _)| what != "loadparam") {
        list.add_row([space.clone(), what.clone(), count.to_string(), bytes.to_string()]);
    }
    if params > 0 {
        list.add_row(["param".to_string(), "load".to_string(), params.to_string(), String::new()]);
    }
    let _ = writeln!(out, "{list}\n");
}

/// First and last line of some blocks.
fn lines<'b>(program: &Program, blocks: impl Iterator<Item = &'b Block>) -> String {
    let lines: Vec<u32> = blocks
        .flat_map(|block| block.first..block.end)
        .map(|pc| program.info[pc as usize].line)
        .filter(|line| *line > 0)
        .collect();
    format!("{}–{}", lines.iter().min().unwrap_or(&0), lines.iter().max().unwrap_or(&0))
}

fn loops(out: &mut String, program: &Program, graphs: &[FunctionGraph]) {
    let mut list = table(&["loop", "function", "lines", "blocks", "depth"]);
    let mut any = false;
    for one in graphs {
        let Some(depth) = &one.depth else {
            let why = match one.loops {
                Err(NoLoops::TooDeep) => "has loops nested too deeply to list their blocks",
                _ => "is irreducible: one of its loops has more than one entry",
            };
            let _ = writeln!(out, "`{}` {why}", one.name);
            continue;
        };
        let mut found: Vec<&Loop> = one.loops.iter().flatten().collect();
        found.sort_by_key(|l| l.header);
        for l in found {
            any = true;
            let blocks: Vec<String> = l.nodes.iter().map(|b| format!("B{b}")).collect();
            list.add_row([
                format!("B{}", l.header),
                one.name.clone(),
                lines(program, l.nodes.iter().map(|b| &one.blocks[*b])),
                blocks.join(" "),
                depth[l.header].to_string(),
            ]);
        }
    }
    if any {
        let _ = writeln!(out, "{list}\n");
    }
}

fn branches(out: &mut String, program: &Program, graphs: &[FunctionGraph]) {
    let diverges = divergence(program);
    let mut list = table(&["line", "branch", "divergence", "reconverges"]);
    let mut any = false;
    for (pc, diverges) in diverges.iter().enumerate() {
        let Some(diverges) = diverges else { continue };
        any = true;
        let info = &program.info[pc];
        let Some(graph) = graphs.get(info.function as usize) else { continue };
        let join = graph.post_dominator(graph.block_of(pc as Pc));
        let meets = join.map_or("at the function exit".to_string(), |b| {
            format!("at line {} (B{b})", program.info[graph.blocks[b].first as usize].line)
        });
        list.add_row([
            info.line.to_string(),
            program.text(pc as Pc),
            if *diverges { "may diverge" } else { "uniform" }.to_string(),
            meets,
        ]);
    }
    if any {
        let _ = writeln!(out, "{list}\n");
    }
}

/// A row operand: a register, special register or constant.
fn row_name(program: &Program, row: Row) -> String {
    if row.0 >= Row::CONST {
        if let Some((_, offset)) = program.parameter_rows.iter().find(|(at, _)| *at == row.0 - Row::CONST) {
            return format!("[{offset}]");
        }
        let value = program.consts.get(usize::from(row.0 - Row::CONST)).map_or(0, |lanes| lanes[0]);
        return format!("{value:#x}");
    }
    match program.specials.iter().find(|(at, _)| *at == row) {
        Some((_, special)) => format!("{special:?}"),
        None => format!("r{}", row.0),
    }
}

fn pred_name(pred: Pred) -> String {
    match (pred.is_const(), pred.negated()) {
        (true, negated) => (!negated).to_string(),
        (false, negated) => format!("{}p{}", if negated { "!" } else { "" }, pred.index()),
    }
}

/// Physical operands: what is written ← what is read.
fn operands(program: &Program, pc: Pc) -> String {
    let op = &program.ops[pc as usize];
    let rows = |list: &[Row]| -> Vec<String> {
        list.iter().filter(|row| row.is_some()).map(|row| row_name(program, *row)).collect()
    };
    let preds = |list: &[Pred]| -> Vec<String> {
        list.iter().filter(|pred| pred.is_some()).map(|pred| pred_name(*pred)).collect()
    };
    let mut written = rows(&op.dst);
    written.extend(preds(&op.pdst));
    let mut read = match op.extra {
        // The address, then what is stored.
        Extra::Memory(facts) => {
            let times = match facts.scale {
                0 => String::new(),
                scale => format!(".X{}", 1 << scale),
            };
            let base = op.src[0].is_some().then(|| row_name(program, op.src[0]) + &times);
            let address = match (base, op.imm) {
                (Some(base), 0) => format!("[{base}]"),
                (Some(base), offset) => format!("[{base}{offset:+}]"),
                (None, offset) => format!("[{offset}]"),
            };
            let mut list = vec![address];
            list.extend(rows(&op.src[1..]));
            list
        }
        _ => rows(&op.src),
    };
    read.extend(preds(&op.psrc));
    if op.guard != Pred::TRUE {
        read.push(format!("if {}", pred_name(op.guard)));
    }
    match (written.is_empty(), read.is_empty()) {
        (true, true) => String::new(),
        (true, false) => read.join(", "),
        _ => format!("{} ← {}", written.join(", "), read.join(", ")),
    }
}

fn listing(out: &mut String, program: &Program, plain: &Program, graphs: &[FunctionGraph]) {
    let mut header = None;
    for (pc, (op, info)) in program.ops.iter().zip(&program.info).enumerate() {
        let function = info.function as usize;
        if let Some(found) = program.functions.get(function).filter(|f| f.entry_pc as usize == pc) {
            let _ = writeln!(out, "{}:", found.name);
        }
        // An injected operation belongs to the block of the next one that is not.
        if let Some(graph) = graphs.get(function)
            && (info.base_pc as usize) < plain.ops.len()
        {
            let block = graph.block_of(info.base_pc);
            if header != Some((function, block)) {
                header = Some((function, block));
                let _ = writeln!(out, "{}", block_header(graph, block));
            }
        }
        let target =
            if op.target < program.ops.len() as Pc { format!(" → {}", op.target) } else { String::new() };
        let text = match op.class {
            _ if info.injected => format!("+ {}", program.text(pc as Pc)),
            // A branch that leaves a loop breaks.
            OpClass::Break if !info.by_hand => format!("+ brk for {}", program.text(pc as Pc)),
            _ => program.text(pc as Pc),
        };
        let line = if info.line > 0 { info.line.to_string() } else { String::new() };
        let combined = match op.extra.combined() {
            Some(combined) if combined.whole => "  one operation where all threads of the warp take part",
            Some(_) => "  one operation of the warp",
            None => "",
        };
        let _ = writeln!(
            out,
            "{}",
            format!(
                "{pc:>6} {line:>6}  {:<48} {}{combined}",
                format!("{text}{target}"),
                operands(program, pc as Pc)
            )
            .trim_end()
        );
    }
    out.push('\n');
}

fn block_header(graph: &FunctionGraph, block: usize) -> String {
    let names = |list: &[usize]| list.iter().map(|b| format!("B{b}")).collect::<Vec<_>>().join(" ");
    let mut parts = Vec::new();
    let mut part = |what: &str, list: &[usize]| {
        if !list.is_empty() {
            parts.push(format!("{what} {}", names(list)));
        }
    };
    part("from", &graph.from[block]);
    part("to", &graph.graph[block]);
    part("dominated by", graph.idom[block].as_slice());
    part("post-dominated by", graph.post_dominator(block).as_slice());
    let depth = graph.depth.as_ref().map_or(0, |depth| depth[block]);
    if depth > 0 {
        parts.push(format!("in {depth} loop{}", if depth > 1 { "s" } else { "" }));
    }
    format!("  B{block}: {}", parts.join("; ")).trim_end_matches([' ', ':']).to_string() + ":"
}

/// The graphs in the language of Graphviz: solid edges are jumps, dashed ones lead to the
/// post-dominator where the paths of a divergent branch meet.
fn graphviz(out: &mut String, program: &Program, graphs: &[FunctionGraph]) {
    let diverges = divergence(program);
    let _ = writeln!(out, "digraph \"{}\" {{\n  node [shape=box, fontname=monospace];", program.entry);
    for (f, graph) in graphs.iter().enumerate() {
        let _ = writeln!(out, "  subgraph cluster_{f} {{\n    label=\"{}\";", graph.name);
        for (b, block) in graph.blocks.iter().enumerate() {
            let text: String = (block.first..block.end)
                .map(|pc| {
                    let info = &program.info[pc as usize];
                    format!(
                        "{}  {}\\l",
                        info.line,
                        program.text(pc).replace('\\', "\\\\").replace('"', "\\\"")
                    )
                })
                .collect();
            let _ = writeln!(out, "    b{f}_{b} [label=\"B{b}\\n{text}\"];");
        }
        for (b, block) in graph.blocks.iter().enumerate() {
            for to in &graph.graph[b] {
                let _ = writeln!(out, "    b{f}_{b} -> b{f}_{to};");
            }
            if diverges[block.end as usize - 1] == Some(true)
                && let Some(join) = graph.post_dominator(b)
            {
                let _ = writeln!(out, "    b{f}_{b} -> b{f}_{join} [style=dashed, constraint=false];");
            }
        }
        let _ = writeln!(out, "  }}");
    }
    let _ = writeln!(out, "}}");
}
