//! Races by their definition: every access is compared with all accesses of its line that are known, lane by lane. What
//! [`Races`] tells on random accesses and synchronization is the same, race by race, and so is what it forgets.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use sim_memory::coalescing::lines;
use sim_memory::vocabulary::{AtomicOp, ScalarType, Scope, Semantics};

use super::super::shadow::MOST_ENTRIES;
use super::*;
use crate::memory_model::clock::Clock;
use crate::memory_model::lines::{OF_CLUSTER, SHARED};
use crate::memory_model::threads::{Snapshot, Warp, agent_of_object};

/// A race: the numbers of both accesses, their lanes, the byte, the count.
type Told = (u32, u32, usize, usize, usize, u64);

struct Known {
    transfer: Transfer,
    bytes: ByteMask,
}

/// The accesses of each line, the oldest first.
struct Literal {
    lockstep: bool,
    launches: Launches,
    lines: HashMap<u64, Vec<Known>>,
    most_lines: usize,
    forgotten: u64,
}

impl Literal {
    fn precedes(&self, old: &Transfer, a: usize, new: &Transfer, b: usize) -> bool {
        if old.grid != new.grid {
            return self.launches.ordered(old.grid, new.grid);
        }
        let (point, thread) = (old.warp.point(a), new.warp.thread(b));
        point.thread == thread
            || (self.lockstep && same_warp(old, new) && old.number != new.number)
            || new.warp.knows(b, point)
    }

    /// Pairs of lanes that touch a byte of `overlap`, and that nothing orders.
    fn pairs(&self, old: &Transfer, new: &Transfer, overlap: ByteMask) -> Pairs {
        let mut found = None;
        for a in Lanes(old.lanes).map(|lane| lane as usize) {
            for b in Lanes(new.lanes).map(|lane| lane as usize) {
                let both = old.mask_of(a) & new.mask_of(b) & overlap;
                let strong = old.strong()
                    && new.strong()
                    && (old.size, old.offsets[a]) == (new.size, new.offsets[b])
                    && inclusive((old.scope, old.warp.in_cluster(a)), (new.scope, new.warp.in_cluster(b)));
                if both != 0 && !strong && !self.precedes(old, a, new, b) {
                    add(&mut found, a, b, both);
                }
            }
        }
        found
    }

    /// What all lanes know: by the launch, by a barrier of the whole block, or as the same threads did the same.
    fn known_to_all(&self, old: &Transfer, new: &Transfer) -> bool {
        if old.grid != new.grid {
            return self.launches.ordered(old.grid, new.grid);
        }
        let point = old.warp.point(0);
        let same = (old.lanes, old.size, old.offsets) == (new.lanes, new.size, new.offsets);
        new.warp.knows_block(point.thread.block, point.phase)
            || (same_warp(old, new)
                && ((self.lockstep && old.number != new.number) || (same && old.exclusive)))
    }

    fn access(&mut self, new: &Transfer, told: &mut Vec<Told>) {
        if new.kind == AccessKind::Store
            && !new.strong()
            && !new.exclusive
            && let Some((a, b, byte, count)) = Races::own_conflict(new)
        {
            told.push((new.number, new.number, a, b, byte, count));
        }
        self.make_room(new);
        let mut known = self.lines.remove(&new.line).unwrap_or_default();
        let is_over = |old: &Known| {
            let (then, now) = (old.transfer.warp.point(0), new.warp.point(0));
            then.thread.block == now.thread.block && then.phase < now.phase && now.phase != u32::MAX
        };
        // A barrier of the whole block orders them all before what follows: they race with nothing any more.
        let over = is_of_one_block(new.line) && known.iter().all(is_over);
        if over {
            assert!(known.iter().all(|old| self.pairs(&old.transfer, new, ByteMask::MAX).is_none()));
            known.clear();
        }
        for old in &mut known {
            let overlap = old.bytes & new.bytes;
            if overlap != 0 && self.stands_for(&old.transfer, new, overlap, told) {
                old.bytes &= !overlap;
            }
        }
        known.retain(|old| old.bytes != 0);
        if known.len() >= MOST_ENTRIES {
            let (now, one_stream) = (new.warp.point(0), self.launches.one_stream());
            known.retain(|old| {
                let then = old.transfer.warp.point(0);
                let met = then.thread.block == now.thread.block && then.phase < now.phase;
                let met = met && now.phase != u32::MAX && is_of_one_block(new.line);
                !(met || one_stream && old.transfer.grid < new.grid)
            });
        }
        if known.len() >= MOST_ENTRIES {
            known.remove(0);
            self.forgotten += 1;
        }
        known.push(Known { transfer: new.clone(), bytes: new.bytes });
        self.lines.insert(new.line, known);
    }

    fn stands_for(&self, old: &Transfer, new: &Transfer, overlap: ByteMask, told: &mut Vec<Told>) -> bool {
        let mut ordered = self.known_to_all(old, new);
        if !writes(old) && !writes(new) {
            ordered |= same_warp(old, new)
                && old.lanes & !new.lanes == 0
                && (old.size, old.offsets) == (new.size, new.offsets);
            return ordered && (!new.strong() || old.strong());
        }
        if !ordered && !strong_pair(old, new) {
            let pairs = self.pairs(old, new, overlap);
            told.extend(pairs.map(|(a, b, byte, count)| (old.number, new.number, a, b, byte, count)));
            ordered = pairs.is_some() || !old.strong() || !new.strong();
        }
        ordered && writes(new) && (!new.strong() || (old.strong() && old.scope >= new.scope))
    }

    fn make_room(&mut self, new: &Transfer) {
        if self.lines.len() < self.most_lines || self.lines.contains_key(&new.line) {
            return;
        }
        let one_stream = self.launches.one_stream();
        self.lines.retain(|_, known| known.iter().any(|old| !one_stream || old.transfer.grid == new.grid));
        if self.lines.len() >= self.most_lines {
            self.forgotten += self.lines.drain().map(|(_, known)| known.len() as u64).sum::<u64>();
        }
    }

    fn end_block(&mut self, block: u32) {
        let of = |line: u64| (line & !(SHARED | OF_CLUSTER)) >> 24;
        self.lines.retain(|line, _| line & SHARED == 0 || of(*line) != u64::from(block));
    }
}

/// A sequence of pseudorandom numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// Two warps.
struct Block {
    grid: u32,
    phase: u32,
    warps: [Warp; 2],
}

impl Block {
    fn new(number: u32, cluster: u32, grid: u32, partial: bool) -> Self {
        let last = if partial { 0xffff } else { u32::MAX };
        let warp = |first, threads| Warp::new(number, cluster, first, threads);
        Self { grid, phase: 0, warps: [warp(0, u32::MAX), warp(32, last)] }
    }

    /// All threads meet, as the check against the memory model does it.
    fn meet(&mut self, number: u32) {
        let mut clock = Clock::default();
        for warp in &mut self.warps {
            warp.tell(warp.threads, &mut clock);
        }
        self.phase += 1;
        clock.meet(number, self.phase);
        for warp in &mut self.warps {
            warp.set_clocks(warp.threads, &clock);
        }
    }
}

/// The lanes of a random access, and where each is.
fn places(random: &mut Random, threads: LaneMask, size: u64, first: u64) -> (LaneMask, [u64; WARP_LANES]) {
    let lanes = match random.below(6) {
        0 => 1 << random.below(32),
        1 => random.below(1 << 32) as u32,
        2 => 0xffff_0000 >> (16 * random.below(2)),
        _ => u32::MAX,
    };
    let lanes = if lanes & threads == 0 { threads } else { lanes & threads };
    let room = 256 / size;
    let (shape, shift, step) = (random.below(5), random.below(room), random.one(&[2, 5, 9]));
    let place = std::array::from_fn(|lane| {
        let lane = lane as u64;
        let at = match shape {
            0 => shift,
            1 => random.below(room),
            2 => lane * step + shift,
            3 => lane,
            _ => lane + shift,
        };
        first + at % room * size
    });
    (lanes, place)
}

/// What is told and forgotten after random steps; gives how many races and accesses that is.
#[allow(clippy::too_many_lines, reason = "a list of steps")]
fn compare(seed: u64, steps: usize, lockstep: bool, streams: u32, most_lines: usize) -> [u64; 2] {
    let mut random = Random(seed);
    let launches = Launches::new((0..40).map(|grid| (grid, grid % streams)));
    let mut literal =
        Literal { lockstep, launches: launches.clone(), lines: HashMap::new(), most_lines, forgotten: 0 };
    let mut races = Races { most_lines, ..Races::new(lockstep, launches) };
    // Alone, or in clusters of two.
    let several = random.below(2) == 0;
    let cluster = |block: u32| if several { block / 2 } else { block };
    let mut blocks: Vec<Option<Block>> = (0..3).map(|i| Some(Block::new(i, cluster(i), 0, i == 1))).collect();
    let (mut grid, mut number, mut epochs) = (0, 0, [0u32; WARP_LANES]);
    let (mut expected, mut told) = (Vec::new(), Vec::new());
    let mut count = 0;
    // Programs that do mostly one thing fill the lines in their own way.
    let habit = random.below(6);
    for step in 0..steps {
        let live: Vec<u32> = (0..blocks.len() as u32).filter(|&b| blocks[b as usize].is_some()).collect();
        let at = random.one(&live);
        let w = random.below(2) as usize;
        let others = live.iter().filter(|other| **other != at).copied().collect::<Vec<_>>();
        let release = others.first().and_then(|&other| {
            let block = blocks[other as usize].as_mut()?;
            let (phase, lane) = (block.phase, random.below(16) as usize);
            (random.below(20) == 0).then(|| block.warps[w].arrive(lane, phase))
        });
        let Some(block) = &mut blocks[at as usize] else { continue };
        let phase = block.phase;
        if let Some(release) = release {
            let mut clock = release.clock;
            clock.add(release.point);
            match random.below(2) {
                0 => block.warps[w].learns(random.below(16) as usize, &clock),
                _ => {
                    // Nobody forgets.
                    block.warps[w].tell(u32::MAX, &mut clock);
                    block.warps[w].set_clocks(u32::MAX, &clock);
                }
            }
        }
        let mut agent: Option<(Arc<Snapshot>, LaneMask)> = None;
        match random.below(60) {
            0 => {
                let lanes = block.warps[w].threads & random.one(&[u32::MAX, 0xff, 0xffff]);
                block.warps[w].meet(lanes, phase);
            }
            1 | 2 if habit != 4 => block.meet(at),
            3 => {
                let lanes = block.warps[w].threads & random.one(&[u32::MAX, 0xf0f]);
                agent = Some((block.warps[w].copying(lanes, &epochs, phase), lanes));
            }
            4 => {
                let lane = random.below(16) as usize;
                block.warps[w].copied(lane, epochs[lane]);
                epochs[lane] += 1;
            }
            5 => agent = Some((block.warps[w].copying_bulk(3, agent_of_object(at, 64, 1), phase), 1)),
            6 if step % 5 == 0 => {
                blocks[at as usize] = None;
                literal.end_block(at);
                races.end_block(at);
                grid = (grid + u32::from(random.below(3) == 0)).min(39);
                let new = blocks.len() as u32;
                let of = if random.below(8) == 0 { random.below(40) as u32 } else { grid };
                blocks.push(Some(Block::new(new, cluster(new), of, random.below(3) == 0)));
                continue;
            }
            _ => {}
        }
        let threads = block.warps[w].threads;
        let size = random.one(&[4, 4, 4, 1, 2, 8, 16]);
        let atomic = AccessKind::Atomic { op: AtomicOp::Add, ty: ScalarType::B32, returns: true };
        let (mut kind, mut semantics) = match (habit, random.below(10)) {
            (0, 1..) | (_, 4..=6) => (AccessKind::Load, Semantics::Weak),
            (1, 1..) | (_, 7) => (atomic, Semantics::Relaxed),
            (_, 8) => (AccessKind::Load, Semantics::Volatile),
            (_, 9) => (AccessKind::Store, Semantics::Release),
            _ => (AccessKind::Store, Semantics::Weak),
        };
        let size = if kind == atomic && habit == 1 { 4 } else { size };
        let scope = random.one(&[Scope::Gpu, Scope::Gpu, Scope::Sys, Scope::Cta, Scope::Cluster]);
        let shared = random.below(2) == 0;
        let first = 256 * random.below(2);
        let (lanes, addresses) = places(&mut random, threads, size, first);
        let (snapshot, lanes) = match agent {
            Some((snapshot, lanes)) => {
                (kind, semantics) = (AccessKind::Store, Semantics::Weak);
                (snapshot, lanes)
            }
            None => (block.warps[w].snapshot(phase), lanes),
        };
        let mut parts = Vec::new();
        lines(&addresses, lanes, size as u32, &mut parts);
        // In a cluster, the memory of the other block is as near.
        let mates = live.iter().filter(|block| cluster(**block) == cluster(at)).copied();
        let target = random.one(&mates.collect::<Vec<_>>());
        let target = if agent_is(&snapshot, at) { at } else { target };
        let of_cluster = if several { OF_CLUSTER } else { 0 };
        let base = match shared || agent_is(&snapshot, at) {
            true => SHARED | of_cluster | u64::from(target) << 24,
            false => 4096,
        };
        for part in parts {
            number += 1;
            let new = Transfer {
                number,
                sm: 0,
                slot: w as u32,
                pc: number % 7,
                grid: block.grid,
                issued: number.into(),
                kind,
                semantics,
                scope,
                line: base + part.line,
                bytes: part.bytes,
                lanes: part.lanes,
                offsets: addresses.map(|address| (address % 128) as u8),
                size: size as u8,
                exclusive: part.bytes.count_ones() == part.lanes.count_ones() * size as u32,
                copies: None,
                warp: Arc::clone(&snapshot),
            };
            literal.access(&new, &mut expected);
            races.access(&new, |race| {
                let Race { old, old_lane, lane, byte, count } = race;
                told.push((old.number, number, old_lane, lane, byte, count));
            });
            assert_eq!(told, expected, "seed {seed}, access {number}");
            assert_eq!(races.forgotten, literal.forgotten, "seed {seed}, access {number}");
            count += told.len() as u64;
            told.clear();
            expected.clear();
        }
        assert_eq!(races.shadow.used(), literal.lines.len(), "seed {seed}, step {step}");
    }
    [count, races.forgotten]
}

/// The sequences are such that there is something to tell and to forget.
#[test]
fn san_races_are_found_in_random_sequences() {
    let found: Vec<[u64; 2]> = (0..24).map(|seed| compare(seed, 500, false, 1, MOST_LINES)).collect();
    assert!(found.iter().all(|[told, _]| *told > 0), "{found:?}");
    assert!(found.iter().any(|[_, forgotten]| *forgotten > 0), "{found:?}");
}

fn agent_is(snapshot: &Snapshot, block: u32) -> bool {
    snapshot.thread(0).block != block
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn san_races_are_those_of_the_literal_comparison(seed: u64, lockstep: bool, streams in 1u32..3) {
        compare(seed, 500, lockstep, streams, MOST_LINES);
    }

    #[test]
    fn san_races_forgets_what_the_literal_comparison_forgets(seed: u64, streams in 1u32..3, most in 2usize..9) {
        compare(seed, 250, false, streams, most);
    }
}
