//! Vector clocks: the events that precede a point of a thread in causality order.
//!
//! A clock has an entry for each warp of whose threads it knows events, and one for each block all of whose threads met
//! at a barrier; threads and blocks that it does not name have no event before it. Clocks share entries: most of the time
//! they differ in one, and where two have the same one a comparison of pointers says so. Old entries of a clock that
//! grows too large are dropped: the check then knows less of the order, and finds less.

use std::cmp::Ordering;
use std::sync::Arc;

use sim_memory::vocabulary::WARP_LANES;

/// Entries of a clock at most.
const MOST: usize = 2048;

/// A thread of the run: the number of its block, counted from 0 in order of their start, and its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Thread {
    /// Number of the block.
    pub block: u32,
    /// Index in the block.
    pub index: u32,
}

/// The key of a block.
fn key_of(block: u32) -> u64 {
    u64::from(block) << 16
}

impl Thread {
    /// The key of its warp.
    fn key(self) -> u64 {
        key_of(self.block) | u64::from(self.index / WARP_LANES as u32 + 1)
    }

    fn lane(self) -> usize {
        self.index as usize % WARP_LANES
    }
}

/// A point of a thread: how often the thread has released before it, and how often its block has met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// The thread.
    pub thread: Thread,
    /// Its releases so far.
    pub epoch: u32,
    /// Barriers of the whole block so far.
    pub phase: u32,
}

/// For each lane of a warp, 1 + the last epoch that is known, or 0.
type Epochs = [i32; WARP_LANES];

/// The same as a number of [`Epochs`].
fn after(epoch: u32) -> i32 {
    epoch.cast_signed().wrapping_add(1)
}

fn exceed(a: &Epochs, b: &Epochs) -> bool {
    a.iter().zip(b).fold(0, |any, (a, b)| any | u32::from(a > b)) != 0
}

fn raise(own: &mut Epochs, to: &Epochs) {
    for (own, to) in own.iter_mut().zip(to) {
        *own = (*own).max(*to);
    }
}

/// What is known of a warp, or how often a block has met.
#[derive(Clone, Debug)]
enum Known {
    /// All lanes up to the same epoch, as in [`Epochs`]; or the meetings.
    All(i32),
    /// Each lane by itself.
    Each(Arc<Epochs>),
}

impl Known {
    fn of(&self, lane: usize) -> i32 {
        match self {
            Self::All(all) => *all,
            Self::Each(each) => each[lane],
        }
    }

    /// True if it knows all that the other one knows.
    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All(own), Self::All(other)) => own >= other,
            (Self::Each(own), Self::Each(other)) => Arc::ptr_eq(own, other) || !exceed(other, own),
            (Self::All(own), Self::Each(other)) => !exceed(other, &[*own; WARP_LANES]),
            (Self::Each(own), Self::All(other)) => !exceed(&[*other; WARP_LANES], own),
        }
    }

    /// Changes the lanes one by one.
    fn update(&mut self, change: impl FnOnce(&mut Epochs)) {
        match self {
            Self::Each(each) => change(Arc::make_mut(each)),
            Self::All(all) => {
                let mut each = [*all; WARP_LANES];
                change(&mut each);
                *self = Self::Each(Arc::new(each));
            }
        }
    }

    fn join(&mut self, other: &Self) {
        if self.covers(other) {
            return;
        }
        if other.covers(self) {
            self.clone_from(other);
            return;
        }
        self.update(|own| match other {
            Self::Each(other) => raise(own, other),
            Self::All(all) => raise(own, &[*all; WARP_LANES]),
        });
    }
}

type Entry = (u64, Known);

/// A vector clock, ordered by key: the block and, within it, 0 for the block itself, then its warps. An empty one takes
/// no room.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<Vec<Entry>>>);

/// The blocks whose meetings a clock knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met {
    /// None.
    Nobody,
    /// Of one block, that many; it knows nothing of other blocks.
    Block(u32, u32),
    /// Some: look into it.
    Several,
}

impl Clock {
    fn entries(&self) -> &[Entry] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }

    fn entries_mut(&mut self) -> &mut Vec<Entry> {
        Arc::make_mut(self.0.get_or_insert_default())
    }

    fn get(&self, key: u64) -> Option<&Known> {
        let entries = self.entries();
        entries.binary_search_by_key(&key, |entry| entry.0).ok().map(|i| &entries[i].1)
    }

    /// The blocks whose meetings it knows, in short.
    pub fn met(&self) -> Met {
        match self.entries() {
            [] => Met::Nobody,
            [(key, Known::All(phase))] if key & 0xffff == 0 => {
                Met::Block((key >> 16) as u32, phase.cast_unsigned())
            }
            _ => Met::Several,
        }
    }

    /// True if `point` is before this clock.
    pub fn knows(&self, point: Point) -> bool {
        let entries = self.entries();
        if entries.is_empty() {
            return false;
        }
        let first = entries.partition_point(|entry| entry.0 < key_of(point.thread.block));
        // The entry of a block precedes those of its warps.
        let own = &entries[first..];
        let Some((key, known)) = own.first() else { return false };
        if *key == key_of(point.thread.block) && known.of(0).cast_unsigned() > point.phase {
            return true;
        }
        let key = point.thread.key();
        let known = own.binary_search_by_key(&key, |entry| entry.0).ok().map(|i| &own[i].1);
        known.is_some_and(|known| known.of(point.thread.lane()) >= after(point.epoch))
    }

    /// How often it knows a block to have met.
    pub fn meetings(&self, block: u32) -> u32 {
        self.get(key_of(block)).map_or(0, |known| known.of(0).cast_unsigned())
    }

    /// True if all threads of the warp of a thread are known up to this epoch.
    pub fn knows_warp(&self, thread: Thread, epoch: u32) -> bool {
        match self.get(thread.key()) {
            Some(Known::All(all)) => *all >= after(epoch),
            Some(Known::Each(each)) => each.iter().all(|known| *known >= after(epoch)),
            None => false,
        }
    }

    /// True if one look shows that both are the same.
    pub fn is(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            _ => false,
        }
    }

    /// Adds what a thread has done up to a release.
    pub fn add(&mut self, point: Point) {
        if !self.knows(point) {
            let (lane, epoch) = (point.thread.lane(), after(point.epoch));
            self.update(point.thread.key(), |known| {
                known.update(|each| each[lane] = each[lane].max(epoch));
            });
        }
    }

    /// Adds what threads of a warp have done up to a release of each, in the order of the threads. They are all its
    /// threads if the warp is `whole`.
    pub fn add_warp(&mut self, points: &[Point], whole: bool) {
        let Some(first) = points.first() else { return };
        let key = first.thread.key();
        let (mut one, mut same) = (true, true);
        for point in points {
            one &= point.thread.key() == key;
            same &= point.epoch == first.epoch;
        }
        if !one {
            points.iter().for_each(|point| self.add(*point));
            return;
        }
        let (meetings, own) = (self.meetings(first.thread.block), self.get(key));
        let knows = |point: &Point| {
            let lane = point.thread.lane();
            meetings > point.phase || own.is_some_and(|own| own.of(lane) >= after(point.epoch))
        };
        if points.iter().all(knows) {
            return;
        }
        if whole && same {
            self.update(key, |known| known.join(&Known::All(after(first.epoch))));
            return;
        }
        let mut epochs = [0; WARP_LANES];
        for point in points.iter().filter(|point| !knows(point)) {
            epochs[point.thread.lane()] = after(point.epoch);
        }
        self.update(key, |known| known.update(|own| raise(own, &epochs)));
    }

    /// All threads of a block have met for the `phase`-th time; what was known of each of them follows.
    pub fn meet(&mut self, block: u32, phase: u32) {
        let of_threads = |key: u64| key >> 16 == u64::from(block) && key & 0xffff != 0;
        if self.entries().iter().any(|entry| of_threads(entry.0)) {
            self.entries_mut().retain(|entry| !of_threads(entry.0));
        }
        self.update(key_of(block), |known| known.join(&Known::All(phase.cast_signed())));
    }

    /// Changes the entry of a key, which is made where there is none. The lowest one is dropped if there is no room.
    fn update(&mut self, key: u64, change: impl FnOnce(&mut Known)) {
        let entries = self.entries_mut();
        let mut at = entries.partition_point(|entry| entry.0 < key);
        if entries.get(at).is_none_or(|entry| entry.0 != key) {
            if entries.len() >= MOST {
                if at == 0 {
                    return;
                }
                entries.remove(0);
                at -= 1;
            }
            entries.insert(at, (key, Known::All(0)));
        }
        change(&mut entries[at].1);
    }

    /// True if it knows all that another clock knows.
    pub fn covers(&self, other: &Self) -> bool {
        if self.is(other) {
            return true;
        }
        let (own, other) = (self.entries(), other.entries());
        if other.len() > own.len() {
            return false;
        }
        if other.len() * 8 < own.len() {
            return other.iter().all(|(key, known)| self.get(*key).is_some_and(|own| own.covers(known)));
        }
        let mut rest = own.iter();
        other.iter().all(|(key, known)| {
            rest.find(|entry| entry.0 >= *key).is_some_and(|entry| entry.0 == *key && entry.1.covers(known))
        })
    }

    /// Adds all that another clock knows.
    pub fn join(&mut self, other: &Self) {
        if other.0.is_none() || self.is(other) {
            return;
        }
        if !self.covers(other) {
            self.join_more(other);
        }
    }

    /// Adds what another clock knows, which is more.
    pub fn join_more(&mut self, other: &Self) {
        if other.covers(self) {
            self.0.clone_from(&other.0);
            return;
        }
        let (a, b) = (self.entries(), other.entries());
        let mut out = Vec::with_capacity(a.len() + b.len());
        let (mut i, mut j) = (0, 0);
        while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
            match x.0.cmp(&y.0) {
                Ordering::Less => {
                    out.push(x.clone());
                    i += 1;
                }
                Ordering::Greater => {
                    out.push(y.clone());
                    j += 1;
                }
                Ordering::Equal => {
                    let mut known = x.1.clone();
                    known.join(&y.1);
                    out.push((x.0, known));
                    (i, j) = (i + 1, j + 1);
                }
            }
        }
        out.extend_from_slice(&a[i..]);
        out.extend_from_slice(&b[j..]);
        trim(&mut out);
        self.0 = Some(Arc::new(out));
    }
}

/// Drops the entries of the oldest blocks.
fn trim(entries: &mut Vec<Entry>) {
    if entries.len() > MOST {
        let over = entries.len() - MOST;
        entries.drain(..over);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn point(block: u32, index: u32, epoch: u32, phase: u32) -> Point {
        Point { thread: Thread { block, index }, epoch, phase }
    }

    #[test]
    fn a_clock_knows_what_was_released_to_it() {
        let mut clock = Clock::default();
        assert!(!clock.knows(point(0, 0, 0, 0)));
        clock.add(point(0, 3, 1, 0));
        assert!(clock.knows(point(0, 3, 1, 0)) && clock.knows(point(0, 3, 0, 0)));
        assert!(!clock.knows(point(0, 3, 2, 0)) && !clock.knows(point(0, 2, 0, 0)));
        let mut other = Clock::default();
        other.add(point(1, 0, 4, 0));
        other.join(&clock);
        assert!(other.knows(point(0, 3, 1, 0)) && other.knows(point(1, 0, 4, 0)));
        assert!(!clock.knows(point(1, 0, 0, 0)));
    }

    #[test]
    fn a_block_that_met_is_one_entry() {
        let mut clock = Clock::default();
        for index in 0..4 {
            clock.add(point(7, index, 0, 0));
        }
        clock.meet(7, 1);
        assert_eq!(clock.entries().len(), 1);
        assert!(clock.knows(point(7, 900, 5, 0)));
        assert!(!clock.knows(point(7, 0, 0, 1)));
    }

    #[test]
    fn what_it_knows_of_meetings_is_said_in_short() {
        let mut clock = Clock::default();
        assert_eq!(clock.met(), Met::Nobody);
        clock.meet(7, 2);
        assert_eq!(clock.met(), Met::Block(7, 2));
        assert_eq!([7, 6].map(|block| clock.meetings(block)), [2, 0]);
        clock.add_warp(&[point(7, 1, 4, 2), point(7, 3, 0, 2)], false);
        assert_eq!(clock.met(), Met::Several);
        assert!(clock.knows(point(7, 1, 4, 2)) && !clock.knows(point(7, 3, 1, 2)));
        assert!(clock.knows(point(7, 3, 0, 2)) && !clock.knows(point(7, 2, 0, 2)));
        let mut thread = Clock::default();
        thread.add(point(7, 1, 4, 0));
        assert_eq!(thread.met(), Met::Several);
        assert!(clock.covers(&thread) && !thread.covers(&clock));
    }

    #[test]
    fn a_warp_that_released_together_is_one_entry() {
        let points: Vec<Point> = (32..64).map(|index| point(3, index, 5, 0)).collect();
        let mut clock = Clock::default();
        clock.add_warp(&points, true);
        assert_eq!(clock.entries().len(), 1);
        assert!(points.iter().all(|point| clock.knows(*point)));
        assert!(!clock.knows(point(3, 32, 6, 0)) && !clock.knows(point(3, 31, 0, 0)));
        let thread = |index| Thread { block: 3, index };
        assert!(clock.knows_warp(thread(40), 5));
        assert!(!clock.knows_warp(thread(40), 6) && !clock.knows_warp(thread(31), 0));
        // Not all of its threads, or not the same release.
        for (points, whole) in
            [(points.clone(), false), ([&points[1..], &[point(3, 70, 6, 0)]].concat(), true)]
        {
            let mut clock = Clock::default();
            clock.add_warp(&points, whole);
            assert!(!clock.knows(point(3, 40, 6, 0)) && !clock.knows(point(3, 31, 0, 0)));
            assert!(points.iter().all(|point| clock.knows(*point)) && !clock.knows(point(3, 80, 0, 0)));
        }
        clock.meet(3, 1);
        assert_eq!(clock.met(), Met::Block(3, 1));
    }

    /// What clocks know by definition: the last epoch of each thread, and how often each block has met.
    #[derive(Clone, Default)]
    struct Literal {
        epochs: BTreeMap<(u32, u32), u32>,
        phases: BTreeMap<u32, u32>,
    }

    impl Literal {
        fn knows(&self, point: Point) -> bool {
            let Thread { block, index } = point.thread;
            self.phases.get(&block).is_some_and(|phase| *phase > point.phase)
                || self.epochs.get(&(block, index)).is_some_and(|epoch| *epoch >= point.epoch)
        }

        fn add(&mut self, point: Point) {
            if !self.knows(point) {
                self.epochs.insert((point.thread.block, point.thread.index), point.epoch);
            }
        }

        fn join(&mut self, other: &Self) {
            for (thread, epoch) in &other.epochs {
                let known = self.epochs.entry(*thread).or_default();
                *known = (*known).max(*epoch);
            }
            for (block, phase) in &other.phases {
                let known = self.phases.entry(*block).or_default();
                *known = (*known).max(*phase);
            }
        }

        fn meet(&mut self, block: u32, phase: u32) {
            self.epochs.retain(|(of, _), _| *of != block);
            let known = self.phases.entry(block).or_default();
            *known = (*known).max(phase);
        }
    }

    proptest::proptest! {
        #[test]
        fn clocks_know_what_they_know_by_definition(
            steps in proptest::collection::vec(
                (0usize..3, 0u8..6, 0u32..2, 0u32..70, 0u32..5, 0u32..4, 0usize..3), 1..60,
            ),
        ) {
            let mut clocks: [(Clock, Literal); 3] = Default::default();
            for (at, what, block, index, epoch, phase, other) in steps {
                let (other, (clock, literal)) = (clocks[other].clone(), &mut clocks[at]);
                match what {
                    0 => {
                        clock.add(point(block, index, epoch, phase));
                        literal.add(point(block, index, epoch, phase));
                    }
                    1 | 2 => {
                        let first = index / 32 * 32;
                        let same = what == 1;
                        let points: Vec<Point> = (first..first + 32)
                            .filter(|index| same || index % 3 != 0)
                            .map(|index| point(block, index, if same { epoch } else { (epoch + index) % 4 }, phase))
                            .collect();
                        // A whole warp is known up to its release, whatever is known of it by a barrier.
                        let new = points.iter().any(|point| !literal.knows(*point));
                        clock.add_warp(&points, same);
                        for own in points {
                            if same && new {
                                let known = literal.epochs.entry((block, own.thread.index)).or_default();
                                *known = (*known).max(own.epoch);
                            } else {
                                literal.add(own);
                            }
                        }
                    }
                    3 | 4 => {
                        proptest::prop_assert!(!clock.covers(&other.0) || other.1.epochs.iter().all(
                            |((block, index), epoch)| clock.knows(point(*block, *index, *epoch, u32::MAX)),
                        ));
                        clock.join(&other.0);
                        literal.join(&other.1);
                        proptest::prop_assert!(clock.covers(&other.0));
                    }
                    _ => {
                        clock.meet(block, phase);
                        literal.meet(block, phase);
                    }
                }
                for block in 0..2 {
                    for index in 0..96 {
                        for (epoch, phase) in [(0, u32::MAX), (1, u32::MAX), (2, 9), (3, 9), (4, 9), (9, 0), (9, 2)] {
                            let at = point(block, index, epoch, phase);
                            proptest::prop_assert_eq!(clock.knows(at), literal.knows(at), "{:?}", at);
                        }
                        let own = (index / 32 * 32..index / 32 * 32 + 32).map(|i| point(block, i, 2, u32::MAX));
                        let all = own.clone().all(|at| literal.knows(at));
                        proptest::prop_assert_eq!(clock.knows_warp(point(block, index, 0, 0).thread, 2), all);
                    }
                }
            }
        }
    }

    #[test]
    fn the_oldest_blocks_are_forgotten() {
        let mut clock = Clock::default();
        for block in 0..MOST as u32 + 10 {
            clock.add(point(block, 0, 0, 0));
        }
        assert_eq!(clock.entries().len(), MOST);
        assert!(!clock.knows(point(9, 0, 0, 0)) && clock.knows(point(10, 0, 0, 0)));
    }
}
