//! Control-flow graphs: dominators and post-dominators (Cooper, Harvey, Kennedy 2001), natural
//! loops, reducibility.

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
    let mut changed = true;
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
            }
        }
    }
    idom[root] = None;
    idom
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

/// The edges of a graph among `members`, but for those that lead back to `head`: what is within one
/// trip round a component.
pub fn one_trip(graph: &Graph, head: usize, members: &[usize]) -> Graph {
    let mut inside = vec![false; graph.len()];
    members.iter().for_each(|&node| inside[node] = true);
    let mut out = vec![Vec::new(); graph.len()];
    for &node in members {
        out[node] = graph[node].iter().copied().filter(|&to| inside[to] && to != head).collect();
    }
    out
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

/// The natural loops, one a header, innermost first; `None` where the graph is irreducible: a
/// back edge whose target does not dominate its source.
pub fn natural_loops(graph: &Graph) -> Option<Vec<Loop>> {
    let idom = dominators(graph, 0);
    let order = reverse_post_order(graph, 0);
    let mut number = vec![usize::MAX; graph.len()];
    for (i, &node) in order.iter().enumerate() {
        number[node] = i;
    }
    let predecessors = reverse(graph);
    // The nodes that jump back to each header.
    let mut ends: Vec<Vec<usize>> = vec![Vec::new(); graph.len()];
    let mut headers: Vec<usize> = Vec::new();
    for &node in &order {
        for &to in &graph[node] {
            if number[to] > number[node] {
                continue;
            }
            // Dominators come first.
            let mut at = node;
            while number[at] > number[to]
                && let Some(next) = idom[at]
            {
                count(1);
                at = next;
            }
            if at != to {
                return None;
            }
            if ends[to].is_empty() {
                headers.push(to);
            }
            ends[to].push(node);
        }
    }
    let mut seen = vec![usize::MAX; graph.len()];
    let mut loops: Vec<Loop> = Vec::with_capacity(headers.len());
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
        nodes.sort_unstable();
        loops.push(Loop { header, nodes });
    }
    loops.sort_by_key(|l| (l.nodes.len(), l.header));
    Some(loops)
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
        let loops = natural_loops(&graph).expect("reducible");
        assert_eq!(loops, vec![Loop { header: 1, nodes: vec![1, 2, 3, 4] }]);
        let post = dominators(&reverse(&graph), 5);
        assert_eq!(post[1], Some(4));
    }

    #[test]
    fn components_in_topological_order_and_what_is_within_them() {
        // 0 → 1 ⇄ 2 → 3 → 4 ⟲, with a loop 5 ⇄ 6 that nothing leads to.
        let graph = vec![vec![1], vec![2], vec![1, 3], vec![4], vec![4], vec![6], vec![5, 1]];
        let mut found = components(&graph, 0);
        found.iter_mut().for_each(|(_, members)| members.sort_unstable());
        assert_eq!(found, vec![(0, vec![0]), (1, vec![1, 2]), (3, vec![3]), (4, vec![4])]);
        assert_eq!(one_trip(&graph, 1, &[1, 2])[1..3], [vec![2], vec![]]);
    }

    #[test]
    fn two_entries_are_irreducible() {
        assert_eq!(natural_loops(&vec![vec![1, 2], vec![2], vec![1, 3], vec![]]), None);
    }

    proptest! {
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
