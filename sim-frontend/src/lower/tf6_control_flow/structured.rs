//! Functions by their structure: joins, loops with breaks, and selectors of their exits.

use super::emitted::{Emitted, Item, NONE, injected, item, negate, set_predicate};
use crate::lower::cfg::{Graph, Loop, NoLoops, dominators, natural_loops, reverse, reverse_post_order};
use crate::lower::ir::{BlockId, Func, Inst, PredOperand, Terminator, Width};
use crate::lower::stack_consistency;
use crate::lower::work::count;
use crate::program::OpClass;

/// How the code emitted so far goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    /// Falls through.
    Fall,
    /// By this unconditional branch, whose target is open.
    Branch(usize),
    /// It does not continue.
    Closed,
}

/// Growth beyond which a function becomes a dispatch loop.
const GROWTH: usize = 6;
const SLACK: usize = 512;
/// Deepest recursion of emission, so that no input overflows the stack.
const MAX_DEPTH: u32 = 400;

/// Most exits of a loop with selectors, each of which nests what follows the loop.
const MAX_EXITS: usize = 1000;

struct TooLarge;

#[derive(Clone, Debug)]
struct LoopInfo {
    nodes: Vec<BlockId>,
    exits: Vec<BlockId>,
    divergent: bool,
    /// It has several exits, and calls functions.
    calls: bool,
}

#[derive(Clone, Debug)]
struct Active {
    index: usize,
    header_at: usize,
    selectors: Vec<(BlockId, PredOperand)>,
}

struct Emitter<'f> {
    func: &'f Func,
    /// The graph without back edges: node `blocks + l` is where loop `l` goes round.
    graph: Graph,
    ipdom: Vec<Option<usize>>,
    loops: Vec<LoopInfo>,
    header: Vec<Option<usize>>,
    uniform: &'f [bool],
    items: Vec<Item>,
    extra: Vec<Width>,
    /// The number of the first register of its own.
    first_extra: u32,
    notes: Vec<String>,
    budget: usize,
    /// Nodes that may still be visited: emission that goes round without emitting ends too.
    visits: usize,
    depth: u32,
    active: Vec<Active>,
}

/// Why a function cannot be emitted by its structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// A region is entered at several places.
    Irreducible,
    /// Too much would be emitted twice.
    TooLarge,
    /// The stack would grow.
    NeverMeet,
}

impl Why {
    pub(super) fn note(self, func: &Func) -> String {
        let words = match self {
            Self::Irreducible => "an irreducible region became a dispatch loop",
            Self::TooLarge => "unstructured control flow became a dispatch loop",
            Self::NeverMeet => "paths that do not reconverge were converted to a dispatch loop",
        };
        format!("{}: {words}", func.name)
    }
}

/// What `func` is from the block `entry` on, by its structure. `extra` registers have been made before.
pub(super) fn structured(
    func: &Func,
    uniform: &[bool],
    graph: &Graph,
    entry: BlockId,
    extra: u32,
) -> Result<Emitted, Why> {
    let mut size: usize = func.blocks.iter().map(|b| b.insts.len() + 1).sum();
    if entry != 0 {
        size -= func.blocks[0].insts.len();
    }
    let loops = natural_loops(graph, entry).map_err(|why| match why {
        NoLoops::Irreducible => Why::Irreducible,
        NoLoops::TooDeep => Why::TooLarge,
    })?;
    let mut emitter = Emitter::new(func, uniform, graph, &loops, size * GROWTH + SLACK, entry);
    emitter.first_extra = func.regs.len() as u32 + extra;
    emitter.region(entry, None).map_err(|TooLarge| Why::TooLarge)?;
    let Emitter { items, extra, notes, .. } = emitter;
    // Branches in a loop that some threads never leave have no post-dominator: without a token to meet at,
    // the stack would grow with every trip.
    match stack_consistency::check(&items, func.entry) {
        Ok(tokens) => Ok(Emitted { items, extra, notes, tokens: Some(tokens) }),
        Err(_) => Err(Why::NeverMeet),
    }
}

impl<'f> Emitter<'f> {
    fn new(
        func: &'f Func,
        uniform: &'f [bool],
        graph: &Graph,
        loops: &[Loop],
        budget: usize,
        entry: BlockId,
    ) -> Self {
        let blocks = func.blocks.len();
        let mut acyclic: Graph = graph.clone();
        acyclic.extend(loops.iter().map(|_| Vec::new()));
        let mut header = vec![None; blocks + loops.len()];
        loops.iter().enumerate().for_each(|(l, natural)| header[natural.header] = Some(l));
        let mut infos = Vec::new();
        for (l, natural) in loops.iter().enumerate() {
            let inside = |b: &BlockId| natural.nodes.binary_search(b).is_ok();
            let mut exits: Vec<BlockId> = Vec::new();
            for &node in &natural.nodes {
                for &to in &graph[node] {
                    if inside(&to) {
                        continue;
                    }
                    // To the header of a loop around this one: where that loop goes round.
                    let outer = header[to].filter(|outer| loops[*outer].nodes.binary_search(&node).is_ok());
                    exits.push(outer.map_or(to, |outer| blocks + outer));
                }
                for to in &mut acyclic[node] {
                    if *to == natural.header {
                        *to = blocks + l;
                    }
                }
            }
            exits.sort_unstable();
            exits.dedup();
            acyclic[blocks + l] = exits.clone();
            let divergent = natural.nodes.iter().any(|&b| {
                matches!(func.blocks[b].end, Terminator::Branch(..) | Terminator::Indirect(..)) && !uniform[b]
            });
            let is_call = |inst: &Inst| inst.class.is_call();
            // Asked where a loop has several exits.
            let calls =
                exits.len() > 1 && natural.nodes.iter().any(|&b| func.blocks[b].insts.iter().any(is_call));
            infos.push(LoopInfo { nodes: natural.nodes.clone(), exits, divergent, calls });
        }
        let forward = without_breaks(&acyclic, loops, &infos, &header, blocks);
        let ipdom = post_dominators(&forward, func, blocks, entry);
        Self {
            func,
            graph: acyclic,
            ipdom,
            loops: infos,
            header,
            uniform,
            items: Vec::with_capacity(budget / GROWTH),
            extra: Vec::new(),
            first_extra: func.regs.len() as u32,
            notes: Vec::new(),
            budget,
            visits: 4 * budget,
            depth: 0,
            active: Vec::new(),
        }
    }

    fn push(&mut self, item: Item) -> Result<usize, TooLarge> {
        if self.items.len() >= self.budget {
            return Err(TooLarge);
        }
        self.items.push(item);
        Ok(self.items.len() - 1)
    }

    /// What was open goes on here.
    fn close(&mut self, open: Open) {
        if let Open::Branch(at) = open {
            self.items[at].target = self.items.len();
        }
    }

    /// What is open jumps to `target`, by an injected branch if it would fall through.
    fn jump(&mut self, open: Open, target: usize) -> Result<(), TooLarge> {
        match open {
            Open::Closed => {}
            Open::Branch(at) => self.items[at].target = target,
            Open::Fall => {
                self.push(injected(OpClass::Branch, PredOperand::Const(true), target))?;
            }
        }
        Ok(())
    }

    /// The innermost active loop with a break token.
    fn breaking(&self) -> Option<usize> {
        (0..self.active.len()).rev().find(|&i| self.loops[self.active[i].index].divergent)
    }

    fn leaves(&self, to: usize) -> Option<usize> {
        let at = self.breaking()?;
        let info = &self.loops[self.active[at].index];
        let around = self.func.blocks.len() + self.active[at].index;
        let blocks = self.func.blocks.len();
        // A node where a loop goes round belongs to that loop.
        let block = if to >= blocks { self.loops[to - blocks].nodes[0] } else { to };
        (to != around && info.nodes.binary_search(&block).is_err()).then_some(at)
    }

    /// Emits from `n` until `stop`.
    fn region(&mut self, n: usize, stop: Option<usize>) -> Result<Open, TooLarge> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(TooLarge);
        }
        let saved = self.active.len();
        let open = self.region_inner(n, stop);
        self.active.truncate(saved);
        self.depth -= 1;
        open
    }

    fn region_inner(&mut self, mut n: usize, stop: Option<usize>) -> Result<Open, TooLarge> {
        let blocks = self.func.blocks.len();
        let mut open = Open::Fall;
        loop {
            self.visits = self.visits.checked_sub(1).ok_or(TooLarge)?;
            count(1 + self.active.len());
            if Some(n) == stop || open == Open::Closed {
                return Ok(open);
            }
            if let Some(at) = self.leaves(n) {
                // Beyond the loop: every thread that comes here breaks.
                self.close(open);
                self.leave(at, n, PredOperand::Const(true), None)?;
                return Ok(Open::Closed);
            }
            if n >= blocks {
                // A loop without divergence goes round.
                let header = self.active.iter().rev().find(|a| a.index == n - blocks);
                let target = header.map_or(NONE, |a| a.header_at);
                self.jump(open, target)?;
                return Ok(Open::Closed);
            }
            self.close(open);
            if let Some(l) = self.header[n]
                && !self.active.iter().any(|a| a.index == l)
            {
                if !self.loops[l].divergent {
                    self.active.push(Active { index: l, header_at: self.items.len(), selectors: Vec::new() });
                } else {
                    open = self.divergent_loop(n, l)?;
                    if self.loops[l].exits.is_empty() {
                        return Ok(Open::Closed);
                    }
                    let after = blocks + l;
                    if self.loops[l].exits.len() == 1 {
                        n = self.loops[l].exits[0];
                        continue;
                    }
                    let join = self.ipdom[after];
                    match join {
                        Some(join) if open != Open::Closed => {
                            n = join;
                            continue;
                        }
                        _ => return Ok(open),
                    }
                }
            }
            (n, open) = match self.block(n)? {
                Some(next) => next,
                None => return Ok(Open::Closed),
            };
        }
    }

    /// Emits one block and what its end opens; gives where to go on.
    fn block(&mut self, n: BlockId) -> Result<Option<(usize, Open)>, TooLarge> {
        let func = self.func;
        let block = &func.blocks[n];
        for (i, inst) in block.insts.iter().enumerate() {
            if inst.class.is_call() {
                let call = self.items.len() + 1;
                self.push(injected(OpClass::PreReturn, inst.guard, call + 1))?;
            }
            self.push(item((n, i), func))?;
        }
        let last = block.insts.len();
        match &block.end {
            Terminator::End(_) => {
                self.push(item((n, last), func))?;
                Ok(None)
            }
            Terminator::Jump(inst, _) => {
                let to = self.graph[n][0];
                if inst.is_none() {
                    return Ok(Some((to, Open::Fall)));
                }
                let at = self.push(item((n, last), func))?;
                Ok(Some((to, Open::Branch(at))))
            }
            Terminator::Branch(inst, ..) => {
                let (taken, next) = (self.graph[n][0], self.graph[n][1]);
                match (self.leaves(taken), self.leaves(next)) {
                    (Some(at), None) => {
                        self.leave(at, taken, inst.guard, Some((n, last, false)))?;
                        Ok(Some((next, Open::Fall)))
                    }
                    (None, Some(at)) => {
                        self.leave(at, next, negate(inst.guard), Some((n, last, true)))?;
                        Ok(Some((taken, Open::Fall)))
                    }
                    _ => self.fork((n, last), &[taken], next, self.uniform[n], self.ipdom[n]),
                }
            }
            Terminator::Indirect(..) => {
                let mut targets = self.graph[n].clone();
                let Some(first) = targets.first().copied() else { return Ok(None) };
                let all = targets.clone();
                targets.sort_unstable();
                targets.dedup();
                self.indirect((n, last), &all, &targets, first)
            }
        }
    }

    /// A two-way branch: the path that falls through, then the taken one, then `sync`.
    fn fork(
        &mut self,
        source: (BlockId, usize),
        taken: &[usize],
        next: usize,
        uniform: bool,
        join: Option<usize>,
    ) -> Result<Option<(usize, Open)>, TooLarge> {
        let mut branch = item(source, self.func);
        self.paths(&mut branch, taken[0], next, uniform, join)
    }

    fn paths(
        &mut self,
        branch: &mut Item,
        taken: usize,
        next: usize,
        uniform: bool,
        join: Option<usize>,
    ) -> Result<Option<(usize, Open)>, TooLarge> {
        let tokens = !uniform && join.is_some();
        let ssy = match tokens {
            true => Some(self.push(injected(OpClass::Ssy, PredOperand::Const(true), NONE))?),
            false => None,
        };
        branch.reconverges = uniform || tokens;
        let at = self.push(branch.clone())?;
        let fall = self.region(next, join)?;
        let skip = self.skip(fall, Some(taken) != join)?;
        self.items[at].target = self.items.len();
        let other = self.region(taken, join)?;
        self.join(skip, other, ssy, join)
    }

    /// After the first of two paths: a branch over the second, if there is one.
    fn skip(&mut self, open: Open, needed: bool) -> Result<Open, TooLarge> {
        match open {
            Open::Fall if needed => {
                Ok(Open::Branch(self.push(injected(OpClass::Branch, PredOperand::Const(true), NONE))?))
            }
            open => Ok(open),
        }
    }

    /// Where two paths meet: `sync`, if a token was pushed.
    fn join(
        &mut self,
        first: Open,
        second: Open,
        ssy: Option<usize>,
        join: Option<usize>,
    ) -> Result<Option<(usize, Open)>, TooLarge> {
        let Some(join) = join else {
            return Ok(None);
        };
        self.close(first);
        self.close(second);
        match ssy {
            Some(ssy) => {
                let at = self.push(injected(OpClass::Sync, PredOperand::Const(true), NONE))?;
                self.items[ssy].target = at + 1;
            }
            None if first == Open::Closed && second == Open::Closed => return Ok(None),
            None => {}
        }
        Ok(Some((join, Open::Fall)))
    }

    fn indirect(
        &mut self,
        source: (BlockId, usize),
        all: &[usize],
        distinct: &[usize],
        _first: usize,
    ) -> Result<Option<(usize, Open)>, TooLarge> {
        let join = self.ipdom[source.0];
        let uniform = self.uniform[source.0];
        let ssy = match join.filter(|_| !uniform) {
            Some(_) => Some(self.push(injected(OpClass::Ssy, PredOperand::Const(true), NONE))?),
            None => None,
        };
        let mut branch = item(source, self.func);
        branch.reconverges = uniform || ssy.is_some();
        let at = self.push(branch)?;
        let mut places = Vec::new();
        let mut opens = Vec::new();
        for (i, &target) in distinct.iter().enumerate() {
            places.push(self.items.len());
            let open = self.region(target, join)?;
            // A path that is empty still needs a place to go.
            let open = match open {
                Open::Fall => self.skip(open, i + 1 < distinct.len())?,
                open => open,
            };
            opens.push(open);
        }
        self.items[at].targets =
            all.iter().map(|t| distinct.iter().position(|d| d == t).map_or(NONE, |i| places[i])).collect();
        for open in &opens {
            self.close(*open);
        }
        let any = opens.iter().find(|o| **o != Open::Closed).copied().unwrap_or(Open::Closed);
        self.join(any, Open::Closed, ssy, join)
    }

    /// Lanes for which `guard` holds leave the active loop `at` for `to`: selectors, then `brk`.
    fn leave(
        &mut self,
        at: usize,
        to: usize,
        guard: PredOperand,
        source: Option<(BlockId, usize, bool)>,
    ) -> Result<(), TooLarge> {
        let Active { index, selectors, .. } = self.active[at].clone();
        // A call in the loop may have come back here and left its own choice behind.
        let calls = self.loops[index].calls;
        for (exit, selector) in selectors {
            if calls || exit == to {
                self.push(set_predicate(selector, PredOperand::Const(exit == to), guard))?;
            }
        }
        match source {
            Some((block, position, inverted)) => {
                let mut branch = item((block, position), self.func);
                branch.class = OpClass::Break;
                branch.guard = guard;
                branch.inverted = inverted;
                self.push(branch)?;
            }
            None => {
                self.push(injected(OpClass::Break, guard, NONE))?;
            }
        }
        Ok(())
    }

    /// A loop with divergent branches: `preBrk`, body, the exits behind it.
    fn divergent_loop(&mut self, header: BlockId, l: usize) -> Result<Open, TooLarge> {
        let exits = self.loops[l].exits.clone();
        if exits.len() > MAX_EXITS {
            return Err(TooLarge);
        }
        let base = self.first_extra;
        let mut selectors = Vec::new();
        if exits.len() > 1 {
            let note =
                format!("{}: a loop with {} exits uses selector registers", self.func.name, exits.len());
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        for &exit in exits.iter().skip(1) {
            let selector = PredOperand::Reg(base + self.extra.len() as u32, false);
            self.extra.push(Width::Pred);
            self.push(set_predicate(selector, PredOperand::Const(false), PredOperand::Const(true)))?;
            selectors.push((exit, selector));
        }
        // Nothing breaks out of a loop that has no exit.
        let pre = match exits.is_empty() {
            true => None,
            false => Some(self.push(injected(OpClass::PreBreak, PredOperand::Const(true), NONE))?),
        };
        let around = self.func.blocks.len() + l;
        let header_at = self.items.len();
        self.active.push(Active { index: l, header_at, selectors: selectors.clone() });
        let body = self.region(header, Some(around))?;
        self.jump(body, header_at)?;
        self.active.pop();
        let Some(pre) = pre else { return Ok(Open::Closed) };
        self.items[pre].target = self.items.len();
        if exits.len() == 1 {
            return Ok(Open::Fall);
        }
        let join = self.ipdom[around];
        self.dispatch_exits(&selectors, exits[0], join)
    }

    /// Behind a loop with several exits: each thread goes where its selector says.
    fn dispatch_exits(
        &mut self,
        selectors: &[(BlockId, PredOperand)],
        last: BlockId,
        join: Option<usize>,
    ) -> Result<Open, TooLarge> {
        let Some(((exit, selector), rest)) = selectors.split_first() else {
            return self.region(last, join);
        };
        if let Some(at) = self.leaves(*exit) {
            self.leave(at, *exit, *selector, None)?;
            return self.dispatch_exits(rest, last, join);
        }
        let ssy = match join {
            Some(_) => Some(self.push(injected(OpClass::Ssy, PredOperand::Const(true), NONE))?),
            None => None,
        };
        let mut branch = injected(OpClass::Branch, *selector, NONE);
        branch.reconverges = join.is_some();
        let at = self.push(branch)?;
        let fall = self.dispatch_exits(rest, last, join)?;
        let skip = self.skip(fall, Some(*exit) != join)?;
        self.items[at].target = self.items.len();
        let other = self.region(*exit, join)?;
        Ok(match self.join(skip, other, ssy, join)? {
            Some((_, open)) => open,
            None => Open::Closed,
        })
    }
}

/// The acyclic graph without the edges by which threads break out of divergent loops: they wait
/// for the loop's end, so nothing inside waits for them. A node all of whose edges are breaks
/// counts as going round.
fn without_breaks(
    graph: &Graph,
    loops: &[Loop],
    infos: &[LoopInfo],
    header: &[Option<usize>],
    blocks: usize,
) -> Graph {
    let mut out = graph.clone();
    for (l, natural) in loops.iter().enumerate().filter(|(l, _)| infos[*l].divergent) {
        let inside = |b: usize| natural.nodes.binary_search(&b).is_ok();
        let around = |node: usize| node >= blocks && inside(loops[node - blocks].header);
        let inner = natural.nodes.iter().filter_map(|b| header[*b]).filter(|inner| *inner != l);
        for node in natural.nodes.iter().copied().chain(inner.map(|inner| blocks + inner)) {
            count(out[node].len());
            out[node].retain(|to| inside(*to) || around(*to));
            if out[node].is_empty() {
                out[node].push(blocks + l);
            }
        }
    }
    out
}

/// Post-dominators of the acyclic graph. Only the last block in the text that ends threads, and
/// loops that nothing leaves, count as the end: a path that ends early need not be waited for.
fn post_dominators(graph: &Graph, func: &Func, blocks: usize, entry: BlockId) -> Vec<Option<usize>> {
    let n = graph.len();
    let end = n;
    let mut forward: Graph = graph.clone();
    forward.push(Vec::new());
    let reachable = reverse_post_order(graph, entry);
    let main = reachable
        .iter()
        .copied()
        .filter(|&b| b < blocks && matches!(func.blocks[b].end, Terminator::End(_)))
        .max();
    if let Some(main) = main {
        forward[main].push(end);
    }
    for node in blocks..n {
        if graph[node].is_empty() {
            forward[node].push(end);
        }
    }
    // Loops whose exits all end early: going round is their end.
    let backward = reverse(&forward);
    let mut meets = vec![false; n + 1];
    for node in reverse_post_order(&backward, end) {
        meets[node] = true;
    }
    for node in blocks..n {
        if !meets[node] {
            forward[node].push(end);
        }
    }
    let backward = reverse(&forward);
    dominators(&backward, end).into_iter().map(|d| d.filter(|d| *d != end)).take(n).collect()
}
