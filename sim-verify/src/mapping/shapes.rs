//! All shapes of programs of so many events, one of each class that differs only by the order of threads and the names of
//! locations and places.

use super::program::{Op, OpKind, Shape};
use crate::litmus::program::Place;

/// A shape that stands for its class, and the orders of its threads that leave it as it is.
#[derive(Clone, Debug)]
pub struct Class {
    /// The shape.
    pub shape: Shape,
    /// Permutations of the threads: the identity, and others where it has symmetries.
    pub symmetries: Vec<Vec<usize>>,
}

impl Class {
    /// Programs of this class that differ by more than the order of threads (Burnside's lemma).
    pub fn programs(&self) -> u64 {
        let modes: Vec<u64> = self.shape.modes().iter().map(|m| m.len() as u64).collect();
        let starts: Vec<usize> = self
            .shape
            .threads
            .iter()
            .scan(0, |start, ops| {
                let at = *start;
                *start += ops.len();
                Some(at)
            })
            .collect();
        let fixed = |permutation: &Vec<usize>| {
            // Operations that the permutation carries into each other have the same mode.
            let image = |op: usize| {
                let thread = starts.iter().rposition(|s| *s <= op).unwrap_or(0);
                starts[permutation[thread]] + op - starts[thread]
            };
            let mut seen = vec![false; modes.len()];
            let mut product = 1;
            for op in 0..modes.len() {
                if !seen[op] {
                    product *= modes[op];
                    let mut at = op;
                    while !seen[at] {
                        seen[at] = true;
                        at = image(at);
                    }
                }
            }
            product
        };
        self.symmetries.iter().map(fixed).sum::<u64>() / self.symmetries.len() as u64
    }
}

/// Calls `each` with every class of shapes of `events` events.
pub fn classes(events: usize, each: &mut dyn FnMut(Class)) {
    let mut threads = Vec::new();
    kinds(events, &mut threads, each);
}

/// Threads by the kinds of their operations, the greatest first.
fn kinds(left: usize, threads: &mut Vec<Vec<OpKind>>, each: &mut dyn FnMut(Class)) {
    if left == 0 {
        if !threads.is_empty() {
            located(threads, each);
        }
        return;
    }
    for size in 1..=left {
        sequences(size, &mut Vec::new(), &mut |sequence| {
            if threads.last().is_none_or(|last| last.as_slice() >= sequence) {
                threads.push(sequence.to_vec());
                kinds(left - size, threads, each);
                threads.pop();
            }
        });
    }
}

/// Sequences of kinds of so many events.
fn sequences(left: usize, sequence: &mut Vec<OpKind>, each: &mut dyn FnMut(&[OpKind])) {
    if left == 0 {
        each(sequence);
        return;
    }
    for kind in OpKind::ALL {
        if kind.events() <= left {
            sequence.push(kind);
            sequences(left - kind.events(), sequence, each);
            sequence.pop();
        }
    }
}

/// Locations and places for threads of these kinds.
fn located(threads: &[Vec<OpKind>], each: &mut dyn FnMut(Class)) {
    places(threads.len(), &mut |places| on_places(threads, places, each));
}

/// Classes of the shapes with threads of these kinds, the greatest first, at these places.
pub fn on_places(threads: &[Vec<OpKind>], places: &[Place], each: &mut dyn FnMut(Class)) {
    let permutations = permutations(threads);
    let accesses = threads.iter().flatten().filter(|kind| kind.accesses()).count();
    growth(accesses, &mut Vec::new(), &mut |locations| {
        let mut next = locations.iter();
        let ops = threads.iter().map(|kinds| {
            let op = |kind: &OpKind| Op {
                kind: *kind,
                location: if kind.accesses() { next.next().copied().unwrap_or(0) as u8 } else { 0 },
            };
            kinds.iter().map(op).collect()
        });
        let shape = Shape { threads: ops.collect(), places: places.to_vec() };
        if let Some(symmetries) = symmetries(&shape, &permutations) {
            each(Class { shape, symmetries });
        }
    });
}

/// Numbers in the order of their first occurrence: each is at most one above those before it.
fn growth(count: usize, numbers: &mut Vec<usize>, each: &mut dyn FnMut(&[usize])) {
    if numbers.len() == count {
        each(numbers);
        return;
    }
    for number in 0..=numbers.iter().max().map_or(0, |m| m + 1) {
        numbers.push(number);
        growth(count, numbers, each);
        numbers.pop();
    }
}

/// Places of threads: GPUs, and CTAs within each.
pub fn places(threads: usize, each: &mut dyn FnMut(&[Place])) {
    growth(threads, &mut Vec::new(), &mut |gpus| {
        growth(threads, &mut Vec::new(), &mut |ctas| {
            // CTAs divide GPUs: threads of one CTA are on one GPU.
            let nested = (0..threads).all(|a| (0..a).all(|b| ctas[a] != ctas[b] || gpus[a] == gpus[b]));
            if nested {
                let place = |(gpu, cta): (&usize, &usize)| Place {
                    gpu: *gpu as u32,
                    cluster: None,
                    cta: *cta as u32,
                };
                each(&gpus.iter().zip(ctas).map(place).collect::<Vec<_>>());
            }
        });
    });
}

/// Permutations of threads that have the same kinds; the identity is the first.
fn permutations(threads: &[Vec<OpKind>]) -> Vec<Vec<usize>> {
    let mut out = Vec::new();
    fn extend(threads: &[Vec<OpKind>], chosen: &mut Vec<usize>, out: &mut Vec<Vec<usize>>) {
        if chosen.len() == threads.len() {
            out.push(chosen.clone());
            return;
        }
        for next in 0..threads.len() {
            if !chosen.contains(&next) && threads[next] == threads[chosen.len()] {
                chosen.push(next);
                extend(threads, chosen, out);
                chosen.pop();
            }
        }
    }
    extend(threads, &mut Vec::new(), &mut out);
    out
}

/// The permutations that leave a shape as it is; none if another order of its threads gives a smaller shape, which
/// stands for the class then.
fn symmetries(shape: &Shape, permutations: &[Vec<usize>]) -> Option<Vec<Vec<usize>>> {
    let mut out = Vec::new();
    for permutation in permutations {
        match permuted(shape, permutation).cmp(shape) {
            std::cmp::Ordering::Less => return None,
            std::cmp::Ordering::Equal => out.push(permutation.clone()),
            std::cmp::Ordering::Greater => {}
        }
    }
    Some(out)
}

/// A shape with its threads in another order, its locations and places numbered by first occurrence.
pub fn permuted(shape: &Shape, order: &[usize]) -> Shape {
    let mut names: Vec<u8> = Vec::new();
    let mut number = |location: u8| {
        names.iter().position(|n| *n == location).unwrap_or_else(|| {
            names.push(location);
            names.len() - 1
        }) as u8
    };
    let threads = order
        .iter()
        .map(|t| {
            let op =
                |op: &Op| Op { location: if op.kind.accesses() { number(op.location) } else { 0 }, ..*op };
            shape.threads[*t].iter().map(op).collect()
        })
        .collect();
    let (mut gpus, mut ctas): (Vec<u32>, Vec<(u32, u32)>) = (Vec::new(), Vec::new());
    let places = order.iter().map(|t| {
        let Place { gpu, cta, .. } = shape.places[*t];
        let index = |found: Option<usize>, len: usize| found.unwrap_or(len) as u32;
        let g = index(gpus.iter().position(|known| *known == gpu), gpus.len());
        if g as usize == gpus.len() {
            gpus.push(gpu);
        }
        let c = index(ctas.iter().position(|known| *known == (gpu, cta)), ctas.len());
        if c as usize == ctas.len() {
            ctas.push((gpu, cta));
        }
        Place { gpu: g, cluster: None, cta: c }
    });
    Shape { threads, places: places.collect() }
}
