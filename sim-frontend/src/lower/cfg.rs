//! Control-flow graphs: dominators and post-dominators (Cooper, Harvey, Kennedy 2001), natural
//! loops, reducibility.

use std::ops::Range;

use super::work::count;

/// Successor lists of a graph; node 0 is the entry.
pub type Graph = Vec<Vec<usize>>;

/// Predecessor lists.
pub fn reverse(graph: &Graph) -> Graph {
    let mut out = vec![Vec::new(); graph.len()];
    for (from, successors) in graph.iter().enumerate() {
        for &to in successors {
            // Those of one node come one after the other.
            if out[to].last() != Some(&from) {
                out[to].push(from);
            }
        }
    }
    out
}

/// Nodes reachable from `root` in reverse post-order.
pub fn reverse_post_order(graph: &Graph, root: usize) -> Vec<usize> {
    let mut seen = vec![false; graph.len()];
    let mut order = Vec::new();
    let mut open = vec![(root, 0)];
    seen[root] = true;
    while let Some((node, next)) = open.pop() {
        match graph[node].get(next) {
            Some(&to) => {
                open.push((node, next + 1));
                if !seen[to] {
                    seen[to] = true;
                    open.push((to, 0));
                }
            }
            None => order.push(node),
        }
    }
    order.reverse();
    order
}

/// Immediate dominator of each node; `None` for the root and unreachable nodes.
pub fn dominators(graph: &Graph, root: usize) -> Vec<Option<usize>> {
    let order = reverse_post_order(graph, root);
    let mut number = vec![usize::MAX; graph.len()];
    for (i, &node) in order.iter().enumerate() {
        number[node] = i;
    }
    let predecessors = reverse(graph);
    let mut idom: Vec<Option<usize>> = vec![None; graph.len()];
    idom[root] = Some(root);
    let mut shortcuts = Shortcuts { depth: vec![0; graph.len()], jump: vec![root; graph.len()] };
    let (mut changed, mut first) = (true, true);
    // Where a dominator changes after the first round, which takes a graph without structure, the ways that
    // were noted are not those of the tree any more.
    let mut steady = true;
    while changed {
        changed = false;
        for &node in &order[1..] {
            let mut new: Option<usize> = None;
            for &p in &predecessors[node] {
                count(1);
                if idom[p].is_none() {
                    continue;
                }
                new = Some(match new {
                    None => p,
                    Some(a) if steady => shortcuts.common(&idom, a, p),
                    Some(mut a) => {
                        let mut b = p;
                        while a != b {
                            count(1);
                            while number[a] > number[b] {
                                a = idom[a].unwrap_or(root);
                            }
                            while number[b] > number[a] {
                                b = idom[b].unwrap_or(root);
                            }
                        }
                        a
                    }
                });
            }
            if idom[node] != new {
                idom[node] = new;
                changed = true;
                steady &= first;
                if let Some(above) = new {
                    shortcuts.add(node, above);
                }
            }
        }
        first = false;
    }
    idom[root] = None;
    idom
}

/// Ways up a tree, so that any node above another is come to in few steps (Myers 1983).
struct Shortcuts {
    depth: Vec<u32>,
    /// By node: one further up.
    jump: Vec<usize>,
}

impl Shortcuts {
    /// A node below `above`, which is in the tree.
    fn add(&mut self, node: usize, above: usize) {
        self.depth[node] = self.depth[above] + 1;
        // Two jumps of one length make one of twice the length and a step.
        let (one, two) = (self.jump[above], self.jump[self.jump[above]]);
        let equal = self.depth[above] - self.depth[one] == self.depth[one] - self.depth[two];
        self.jump[node] = if equal && above != one { two } else { above };
    }

    /// The lowest node that is or lies above both.
    fn common(&self, parent: &[Option<usize>], mut a: usize, mut b: usize) -> usize {
        let up = |node: usize| parent[node].unwrap_or(node);
        if self.depth[a] < self.depth[b] {
            std::mem::swap(&mut a, &mut b);
        }
        while self.depth[a] > self.depth[b] {
            count(1);
            a = if self.depth[self.jump[a]] >= self.depth[b] { self.jump[a] } else { up(a) };
        }
        while a != b {
            count(1);
            (a, b) = match self.jump[a] == self.jump[b] {
                true => (up(a), up(b)),
                false => (self.jump[a], self.jump[b]),
            };
        }
        a
    }
}

/// The strongly connected components of what is reachable from `root`, in topological order: each
/// with the node it is entered by first, and its members.
pub fn components(graph: &Graph, root: usize) -> Vec<(usize, Vec<usize>)> {
    let order = reverse_post_order(graph, root);
    let backward = reverse(graph);
    let mut left = vec![false; graph.len()];
    order.iter().for_each(|&node| left[node] = true);
    let mut out = Vec::new();
    for head in order {
        let mut members = Vec::new();
        let mut open = vec![head];
        while let Some(node) = open.pop() {
            if std::mem::take(&mut left[node]) {
                members.push(node);
                open.extend(&backward[node]);
            }
        }
        if !members.is_empty() {
            out.push((head, members));
        }
    }
    out
}

/// The loops of what is reachable from a root, and how they lie within one another. A loop is a strongly
/// connected component, from the node it is entered by; without the edges that lead back to that node,
/// its own components are the loops within it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoopNest {
    /// The reachable nodes, components in topological order, each of them together and likewise inside.
    pub order: Vec<usize>,
    /// Places in `order`, outer loops first: the node it is entered by, then the others.
    pub loops: Vec<Range<usize>>,
}

impl LoopNest {
    /// The loops that can be reached from `root`: in one go from the last node to the first, loops that are
    /// found standing for their nodes (Havlak 1997, with the edges into the middle of a loop put off
    /// as in Ramalingam 1999). One depth-first order serves all levels: what is entered by a node is visited
    /// between the node's beginning and its end.
    pub fn new(graph: &Graph, root: usize) -> Self {
        let order = reverse_post_order(graph, root);
        let n = graph.len();
        let tree = Tree::new(graph, root);
        // Edges into a subtree from beside it count once the subtree of both is looked at.
        let mut apart: Vec<Vec<(u32, u32)>> = vec![Vec::new(); n];
        let mut back: Vec<Vec<u32>> = vec![Vec::new(); n];
        let mut into: Vec<Vec<u32>> = vec![Vec::new(); n];
        for &from in &tree.preorder {
            for &to in &graph[from] {
                count(1);
                if tree.is_above(to, from) {
                    if to != from {
                        back[to].push(from as u32);
                    }
                } else if tree.parent[to] == from {
                    into[to].push(from as u32);
                } else {
                    apart[tree.common(from, to)].push((from as u32, to as u32));
                }
            }
        }
        // Nodes of a loop that was found stand for its head.
        let mut stands: Vec<u32> = (0..n as u32).collect();
        let mut parent = vec![u32::MAX; n];
        let mut inside = vec![u32::MAX; n];
        let mut open: Vec<u32> = Vec::new();
        let mut body: Vec<u32> = Vec::new();
        for &head in tree.preorder.iter().rev() {
            for (from, to) in std::mem::take(&mut apart[head]) {
                let to = find(&mut stands, to);
                into[to as usize].push(from);
            }
            let head = head as u32;
            inside[head as usize] = head;
            open.append(&mut back[head as usize]);
            while let Some(node) = open.pop() {
                count(1);
                let node = find(&mut stands, node);
                if std::mem::replace(&mut inside[node as usize], head) != head {
                    body.push(node);
                    open.append(&mut into[node as usize]);
                }
            }
            for node in body.drain(..) {
                stands[node as usize] = head;
                parent[node as usize] = head;
            }
        }
        // By head: what lies in its loop and in none within it, in reverse post-order.
        let mut inner: Vec<Vec<u32>> = vec![Vec::new(); n];
        let mut outside: Vec<u32> = Vec::new();
        for &node in &order {
            match inner.get_mut(parent[node] as usize) {
                Some(list) => list.push(node as u32),
                None => outside.push(node as u32),
            }
        }
        let mut nest = Self { order: Vec::with_capacity(order.len()), loops: Vec::new() };
        let mut left: Vec<(Option<usize>, std::vec::IntoIter<u32>)> = vec![(None, outside.into_iter())];
        while let Some((own, list)) = left.last_mut() {
            let Some(node) = list.next() else {
                if let Some(own) = *own {
                    nest.loops[own].end = nest.order.len();
                }
                left.pop();
                continue;
            };
            let node = node as usize;
            let place = nest.order.len();
            nest.order.push(node);
            let list = std::mem::take(&mut inner[node]);
            if !list.is_empty() {
                left.push((Some(nest.loops.len()), list.into_iter()));
                nest.loops.push(place..place);
            } else if graph[node].contains(&node) {
                nest.loops.push(place..place + 1);
            }
        }
        nest
    }
}

/// What a node of a loop that was found stands for.
fn find(stands: &mut [u32], node: u32) -> u32 {
    let mut at = node;
    while stands[at as usize] != at {
        count(1);
        let next = stands[at as usize];
        stands[at as usize] = stands[next as usize];
        at = stands[at as usize];
    }
    at
}

/// A rooted tree over nodes of a graph.
struct Tree {
    parent: Vec<usize>,
    /// Nodes, parents before their children, each subtree together.
    preorder: Vec<usize>,
    /// By node: its place in `preorder`, and the place behind its subtree.
    span: Vec<(u32, u32)>,
    up: Shortcuts,
}

impl Tree {
    /// The tree of a depth-first search, the one that [`reverse_post_order`] makes.
    fn new(graph: &Graph, root: usize) -> Self {
        let n = graph.len();
        let mut tree = Self {
            parent: vec![usize::MAX; n],
            preorder: Vec::new(),
            span: vec![(u32::MAX, 0); n],
            up: Shortcuts { depth: vec![0; n], jump: vec![root; n] },
        };
        let mut open = vec![(root, 0)];
        tree.enter(root, None);
        while let Some((node, next)) = open.pop() {
            match graph[node].get(next) {
                Some(&to) => {
                    open.push((node, next + 1));
                    if tree.span[to].0 == u32::MAX {
                        tree.enter(to, Some(node));
                        open.push((to, 0));
                    }
                }
                None => tree.span[node].1 = tree.preorder.len() as u32,
            }
        }
        tree
    }

    fn enter(&mut self, node: usize, parent: Option<usize>) {
        self.span[node].0 = self.preorder.len() as u32;
        self.preorder.push(node);
        let Some(parent) = parent else { return };
        self.parent[node] = parent;
        self.up.add(node, parent);
    }

    /// True if `above` is `node` or lies above it.
    fn is_above(&self, above: usize, node: usize) -> bool {
        let (first, end) = self.span[above];
        (first..end).contains(&self.span[node].0)
    }

    /// The lowest node above both.
    fn common(&self, a: usize, b: usize) -> usize {
        let mut at = a;
        while !self.is_above(at, b) {
            count(1);
            let far = self.up.jump[at];
            at = if self.is_above(far, b) { self.parent[at] } else { far };
        }
        at
    }
}

/// True if `a` dominates `b` by the immediate dominators.
pub fn dominates(idom: &[Option<usize>], a: usize, b: usize) -> bool {
    let mut at = Some(b);
    while let Some(node) = at {
        if node == a {
            return true;
        }
        at = idom[node];
    }
    false
}

/// A natural loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// Its header.
    pub header: usize,
    /// Its nodes, sorted, the header among them.
    pub nodes: Vec<usize>,
}

/// Loops within loops, by their places in a list that [`natural_loops`] made; [`NO_LOOP`] for none.
pub struct Around {
    /// By node: the innermost loop around it.
    pub node: Vec<usize>,
    /// By loop: the next one around it.
    pub inner: Vec<usize>,
}

/// Outside of all loops.
pub const NO_LOOP: usize = usize::MAX;

impl Around {
    /// Those of a graph of `n` nodes.
    pub fn new(loops: &[Loop], n: usize) -> Self {
        let mut around = Self { node: vec![NO_LOOP; n], inner: vec![NO_LOOP; loops.len()] };
        // Inner loops come first.
        let mut last = vec![NO_LOOP; n];
        for (l, own) in loops.iter().enumerate() {
            for &node in &own.nodes {
                count(1);
                match std::mem::replace(&mut last[node], l) {
                    NO_LOOP => around.node[node] = l,
                    within => around.inner[within] = l,
                }
            }
        }
        around
    }
}

/// Which nodes dominate which.
pub struct Dominance {
    /// Nodes that are reachable from the root, in reverse post-order.
    pub order: Vec<usize>,
    /// By node: its place in `order`; `usize::MAX` where it is unreachable.
    pub number: Vec<usize>,
    /// Immediate dominators.
    pub idom: Vec<Option<usize>>,
    /// By node: its place among the nodes when those that one dominates stand behind it, and how many they
    /// are, itself included.
    span: Vec<(usize, usize)>,
    shortcuts: Shortcuts,
}

impl Dominance {
    /// The dominators of what is reachable from `root`.
    pub fn new(graph: &Graph, root: usize) -> Self {
        let idom = dominators(graph, root);
        let order = reverse_post_order(graph, root);
        let mut number = vec![usize::MAX; graph.len()];
        let mut span = vec![(0, 1); graph.len()];
        for (i, &node) in order.iter().enumerate() {
            number[node] = i;
        }
        // Dominators come first.
        for &node in order.iter().rev() {
            if let Some(above) = idom[node] {
                span[above].1 += span[node].1;
            }
        }
        let mut next: Vec<usize> = vec![1; graph.len()];
        for &node in &order {
            if let Some(above) = idom[node] {
                span[node].0 = next[above];
                next[above] += span[node].1;
                next[node] = span[node].0 + 1;
            }
        }
        let mut shortcuts = Shortcuts { depth: vec![0; graph.len()], jump: vec![root; graph.len()] };
        for &node in &order {
            if let Some(above) = idom[node] {
                shortcuts.add(node, above);
            }
        }
        Self { order, number, idom, span, shortcuts }
    }

    /// The nearest node that dominates both, which are reachable.
    pub fn common(&self, a: usize, b: usize) -> usize {
        self.shortcuts.common(&self.idom, a, b)
    }

    /// True if `a` dominates `b`, both reachable.
    pub fn dominates(&self, a: usize, b: usize) -> bool {
        let (first, count) = self.span[a];
        (first..first + count).contains(&self.span[b].0)
    }

    /// How many nodes a node dominates, itself included.
    pub fn count(&self, node: usize) -> usize {
        self.span[node].1
    }

    /// By node: the sum of `values` over the nodes that it dominates.
    pub fn sums(&self, mut values: Vec<i64>) -> Vec<i64> {
        for &node in self.order.iter().rev() {
            if let Some(above) = self.idom[node] {
                values[above] += values[node];
            }
        }
        values
    }
}

/// Why there are no natural loops to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoLoops {
    /// A back edge's target does not dominate its source.
    Irreducible,
    /// Nodes lie in more than 400 loops on average: their lists grow with the square of the graph.
    TooDeep,
}

/// Most loops that nodes lie in on average.
const DEEPEST: usize = 400;

/// The natural loops of what is reachable from `root`, one a header, innermost first.
///
/// # Errors
/// There are none, or too many within one another.
pub fn natural_loops(graph: &Graph, root: usize) -> Result<Vec<Loop>, NoLoops> {
    let dominance = Dominance::new(graph, root);
    let Dominance { order, number, .. } = &dominance;
    let predecessors = reverse(graph);
    // The nodes that jump back to each header.
    let mut ends: Vec<Vec<usize>> = vec![Vec::new(); graph.len()];
    let mut headers: Vec<usize> = Vec::new();
    for &node in order {
        for &to in &graph[node] {
            if number[to] > number[node] {
                continue;
            }
            count(1);
            if !dominance.dominates(to, node) {
                return Err(NoLoops::Irreducible);
            }
            if ends[to].is_empty() {
                headers.push(to);
            }
            ends[to].push(node);
        }
    }
    let mut seen = vec![usize::MAX; graph.len()];
    let mut loops: Vec<Loop> = Vec::with_capacity(headers.len());
    let mut left = DEEPEST * graph.len();
    for header in headers {
        seen[header] = header;
        let mut nodes = vec![header];
        let mut open = std::mem::take(&mut ends[header]);
        while let Some(node) = open.pop() {
            count(1);
            if std::mem::replace(&mut seen[node], header) != header {
                nodes.push(node);
                open.extend(predecessors[node].iter().filter(|p| number[**p] != usize::MAX));
            }
        }
        left = left.checked_sub(nodes.len()).ok_or(NoLoops::TooDeep)?;
        nodes.sort_unstable();
        loops.push(Loop { header, nodes });
    }
    loops.sort_by_key(|l| (l.nodes.len(), l.header));
    Ok(loops)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_diamond_and_a_loop() {
        // 0 → 1 → {2, 3} → 4 → 1, 4 → 5
        let graph = vec![vec![1], vec![2, 3], vec![4], vec![4], vec![1, 5], vec![]];
        let idom = dominators(&graph, 0);
        assert_eq!(idom, vec![None, Some(0), Some(1), Some(1), Some(1), Some(4)]);
        let loops = natural_loops(&graph, 0).expect("reducible");
        assert_eq!(loops, vec![Loop { header: 1, nodes: vec![1, 2, 3, 4] }]);
        let post = dominators(&reverse(&graph), 5);
        assert_eq!(post[1], Some(4));
    }

    #[test]
    fn components_in_topological_order() {
        // 0 → 1 ⇄ 2 → 3 → 4 ⟲, with a loop 5 ⇄ 6 that nothing leads to.
        let graph = vec![vec![1], vec![2], vec![1, 3], vec![4], vec![4], vec![6], vec![5, 1]];
        let mut found = components(&graph, 0);
        found.iter_mut().for_each(|(_, members)| members.sort_unstable());
        assert_eq!(found, vec![(0, vec![0]), (1, vec![1, 2]), (3, vec![3]), (4, vec![4])]);
    }

    /// The loops by their definition: components, then those of each without the edges back to its head.
    fn nest_by_definition(graph: &Graph, root: usize, nest: &mut LoopNest) {
        for (head, members) in components(graph, root) {
            let place = nest.order.len();
            if members.len() == 1 {
                nest.order.push(head);
                if graph[head].contains(&head) {
                    nest.loops.push(place..place + 1);
                }
                continue;
            }
            nest.loops.push(place..place + members.len());
            let inside = |to: &usize| members.contains(to) && *to != head;
            let mut trip: Graph = vec![Vec::new(); graph.len()];
            members
                .iter()
                .for_each(|&node| trip[node] = graph[node].iter().copied().filter(inside).collect());
            nest_by_definition(&trip, head, nest);
        }
    }

    #[test]
    fn loops_nest_without_recursion() {
        // Each node goes on and back to all that came before it, but for the first: 50,000 levels.
        let n = 50_000;
        let graph: Graph = (0..n).map(|i| if i + 1 < n { vec![i + 1, i / 2] } else { vec![i / 2] }).collect();
        let nest = LoopNest::new(&graph, 0);
        assert_eq!(nest.order, (0..n).collect::<Vec<_>>());
        assert_eq!(nest.loops.len(), n / 2);
        let graph: Graph =
            (0..2 * n).map(|i| if i < n { vec![i + 1] } else { vec![i + 1, 2 * n - i] }).collect();
        let graph: Graph = graph.into_iter().chain([vec![]]).collect();
        assert_eq!(LoopNest::new(&graph, 0).loops.len(), n);
    }

    #[test]
    fn two_entries_are_irreducible() {
        let graph = vec![vec![1, 2], vec![2], vec![1, 3], vec![]];
        assert_eq!(natural_loops(&graph, 0), Err(NoLoops::Irreducible));
    }

    proptest! {
        #[test]
        fn loops_nest_by_definition(edges in prop::collection::vec((0usize..12, 0usize..12), 0..40)) {
            let mut graph = vec![Vec::new(); 12];
            for (a, b) in edges {
                graph[a].push(b);
            }
            let mut defined = LoopNest::default();
            nest_by_definition(&graph, 0, &mut defined);
            prop_assert_eq!(LoopNest::new(&graph, 0), defined);
        }

        /// Against the definition: a dominates b when b cannot be reached without a.
        #[test]
        fn dominators_by_definition(edges in prop::collection::vec((0usize..8, 0usize..8), 0..20)) {
            let mut graph = vec![Vec::new(); 8];
            for (a, b) in edges {
                graph[a].push(b);
            }
            let idom = dominators(&graph, 0);
            let reach = |without: usize| {
                let mut cut = graph.clone();
                if without != usize::MAX {
                    cut[without].clear();
                    cut.iter_mut().for_each(|s| s.retain(|t| *t != without));
                }
                if without == 0 { Vec::new() } else { reverse_post_order(&cut, 0) }
            };
            let all = reach(usize::MAX);
            for &b in &all {
                for &a in &all {
                    let defined = a == b || !reach(a).contains(&b);
                    prop_assert_eq!(dominates(&idom, a, b), defined, "{} {}", a, b);
                }
            }
        }
    }
}
