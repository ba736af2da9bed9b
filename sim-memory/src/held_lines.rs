//! Records which operation holds which line, and queues the operations that wait for a line or for a way of
//! its set, in order of arrival. The queues are linked lists through the operations' slots, found by cache
//! set, so that nothing is hashed or allocated once all slots exist.

use crate::line::ByteMask;

/// The end of a list: no slot has this index.
const NOBODY: u32 = u32::MAX;

/// How many operations may share a line while others wait for it, until one of those goes on. Without a bound, loads of a loop
/// that spins could keep a line for ever from the thread that would end it.
const PASSES: u32 = 8;

/// The queue links of one operation's slot.
#[derive(Clone, Copy, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
struct Links {
    /// The line that the operation holds.
    line: u64,
    /// The next operation that holds a line of the same set.
    next_holder: u32,
    /// Operations that wait for this line.
    waiting: Queue,
    /// The next operation in the queue this one waits in.
    next: u32,
    /// The next operation that shares the line of this one.
    sharer: u32,
    /// How many operations have come to share this line while others waited for it.
    passes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
struct Queue {
    first: u32,
    last: u32,
    length: u32,
}

const EMPTY: Queue = Queue { first: NOBODY, last: NOBODY, length: 0 };

/// The lines held by operations of one cache.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct HeldLines {
    links: Vec<Links>,
    /// For each set: the first operation that holds a line of it.
    holders: Vec<u32>,
    /// For each set: operations that wait until one of its ways can be replaced.
    set_queues: Vec<Queue>,
    held: usize,
    in_set_queues: usize,
}

impl HeldLines {
    /// No held lines, for a cache of `sets` sets.
    pub fn new(sets: u64) -> Self {
        let (links, holders, set_queues) = (Vec::new(), Vec::new(), Vec::new());
        let mut lines = Self { links, holders, set_queues, held: 0, in_set_queues: 0 };
        lines.reset(sets);
        lines
    }

    /// Makes it what [`new`](Self::new) makes, in the memory it has.
    pub fn reset(&mut self, sets: u64) {
        let Self { links, holders, set_queues, held, in_set_queues } = self;
        links.clear();
        holders.clear();
        holders.resize(sets as usize, NOBODY);
        set_queues.clear();
        set_queues.resize(sets as usize, EMPTY);
        (*held, *in_set_queues) = (0, 0);
    }

    /// Provides links for operations `0..slots`.
    #[inline]
    pub fn reserve(&mut self, slots: usize) {
        if self.links.len() < slots {
            let none = Links {
                line: 0,
                next_holder: NOBODY,
                waiting: EMPTY,
                next: NOBODY,
                sharer: NOBODY,
                passes: 0,
            };
            self.links.resize(slots, none);
        }
    }

    /// The operation that holds `line`, and the number of operations that wait for it.
    #[inline]
    pub fn holder(&self, set: u64, line: u64) -> Option<(u32, u32)> {
        let mut at = self.holders[set as usize];
        while at != NOBODY {
            let links = &self.links[at as usize];
            if links.line == line {
                return Some((at, links.waiting.length));
            }
            at = links.next_holder;
        }
        None
    }

    /// Lets `slot` hold `line`, which must not be held.
    pub fn hold(&mut self, set: u64, line: u64, slot: u32) {
        debug_assert!(self.holder(set, line).is_none(), "a line has one holder");
        let head = &mut self.holders[set as usize];
        let links = &mut self.links[slot as usize];
        *links = Links { line, next_holder: *head, waiting: EMPTY, sharer: NOBODY, passes: 0, ..*links };
        *head = slot;
        self.held += 1;
    }

    /// Appends `slot` to the queue for the line that `holder` holds.
    pub fn wait(&mut self, holder: u32, slot: u32) {
        let mut queue = self.links[holder as usize].waiting;
        self.push(&mut queue, slot);
        self.links[holder as usize].waiting = queue;
    }

    /// Lets `slot` hold a line beside its holder. It is released as others are; who waits goes on when the last is.
    pub fn share(&mut self, holder: u32, slot: u32) {
        let links = &mut self.links[holder as usize];
        links.passes += u32::from(links.waiting.length > 0);
        let sharer = std::mem::replace(&mut links.sharer, slot);
        self.links[slot as usize].sharer = sharer;
    }

    /// What of `wanted`, by a load, is fetched by none of those that hold the line of `holder`. `of` gives the bytes of an operation,
    /// and whether it is a load. Nothing where one that holds the line is none, where somebody waits for one of these bytes,
    /// so that accesses to a byte keep their order, or where [`PASSES`] operations have passed those that wait. `before_loads`: loads
    /// of a byte need not keep their order.
    pub fn left(
        &self,
        holder: u32,
        wanted: ByteMask,
        before_loads: bool,
        of: impl Fn(u32) -> (ByteMask, bool),
    ) -> ByteMask {
        let Links { waiting, passes, .. } = self.links[holder as usize];
        let (mut left, mut at) = (if passes == PASSES { 0 } else { wanted }, holder);
        while left != 0 && at != NOBODY {
            let (bytes, loads) = of(at);
            left &= if loads { !bytes } else { 0 };
            at = self.links[at as usize].sharer;
        }
        at = waiting.first;
        while left != 0 && at != NOBODY {
            let (bytes, loads) = of(at);
            left = if bytes & wanted == 0 || loads && before_loads { left } else { 0 };
            at = self.links[at as usize].next;
        }
        left
    }

    /// Releases the line of `slot`. If no other holds it, the first waiting operation becomes the holder and is returned.
    pub fn release(&mut self, set: u64, line: u64, slot: u32) -> Option<u32> {
        let Some((holder, _)) = self.holder(set, line) else {
            debug_assert!(false, "a line that is released has a holder");
            return None;
        };
        if holder != slot {
            let mut at = holder;
            while at != NOBODY {
                let next = self.links[at as usize].sharer;
                if next == slot {
                    self.links[at as usize].sharer = self.links[slot as usize].sharer;
                    return None;
                }
                at = next;
            }
            debug_assert!(false, "who releases a line holds it");
            return None;
        }
        let Links { line, next_holder, waiting, sharer, passes, .. } = self.links[slot as usize];
        let heir = (waiting.first != NOBODY && sharer == NOBODY).then_some(waiting.first);
        let replacement = match heir {
            _ if sharer != NOBODY => {
                let links = &mut self.links[sharer as usize];
                (links.line, links.next_holder, links.waiting, links.passes) =
                    (line, next_holder, waiting, passes);
                sharer
            }
            Some(heir) => {
                let after = self.links[heir as usize].next;
                let rest = Queue {
                    first: after,
                    last: if after == NOBODY { NOBODY } else { waiting.last },
                    length: waiting.length - 1,
                };
                let links = &mut self.links[heir as usize];
                *links = Links { line, next_holder, waiting: rest, next: NOBODY, sharer: NOBODY, passes: 0 };
                heir
            }
            None => {
                self.held -= 1;
                next_holder
            }
        };
        // The link that led here leads on.
        let mut at = self.holders[set as usize];
        if at == slot {
            self.holders[set as usize] = replacement;
        } else {
            while at != NOBODY {
                let links = &mut self.links[at as usize];
                if links.next_holder == slot {
                    links.next_holder = replacement;
                    break;
                }
                at = links.next_holder;
            }
        }
        heir
    }

    /// Appends `slot` to the queue for a way of `set`.
    pub fn wait_for_set(&mut self, set: u64, slot: u32) {
        let mut queue = self.set_queues[set as usize];
        self.push(&mut queue, slot);
        self.set_queues[set as usize] = queue;
        self.in_set_queues += 1;
    }

    /// Wakes the operations that wait for a way of `set`: they are pushed on the stack `runnable` in reverse,
    /// so that the first to wait is popped first.
    #[inline]
    pub fn wake_set(&mut self, set: u64, runnable: &mut Vec<u32>) {
        if self.in_set_queues == 0 {
            return;
        }
        let queue = std::mem::replace(&mut self.set_queues[set as usize], EMPTY);
        let violation = runnable.len();
        let mut at = queue.first;
        while at != NOBODY {
            runnable.push(at);
            at = std::mem::replace(&mut self.links[at as usize].next, NOBODY);
        }
        runnable[violation..].reverse();
        self.in_set_queues -= queue.length as usize;
    }

    /// Number of lines held.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Number of operations that wait for a way.
    pub fn waiting_for_sets(&self) -> usize {
        self.in_set_queues
    }

    fn push(&mut self, queue: &mut Queue, slot: u32) {
        self.links[slot as usize].next = NOBODY;
        if queue.last == NOBODY {
            queue.first = slot;
        } else {
            self.links[queue.last as usize].next = slot;
        }
        queue.last = slot;
        queue.length += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn who_shares_a_line_holds_it_until_the_last_releases_it() {
        let mut lines = HeldLines::new(2);
        lines.reserve(8);
        lines.hold(0, 4, 0);
        lines.hold(0, 6, 7);
        lines.share(0, 2);
        lines.share(0, 3);
        // Each of them fetches the byte of its number.
        let left = |lines: &HeldLines, wanted| lines.left(0, wanted, false, |slot| (1 << slot, true));
        assert_eq!((left(&lines, 0b11111), left(&lines, 0b1101)), (0b10010, 0));
        assert_eq!(lines.left(0, 0b11111, false, |slot| (0, slot != 2)), 0, "one is no load");
        lines.wait(0, 1);
        assert_eq!(
            (left(&lines, 0b11000), left(&lines, 0b10010)),
            (0b10000, 0),
            "who waits is passed, but not for its bytes"
        );
        let before = |loads| lines.left(0, 0b10010, true, |slot| (1 << slot, slot != 1 || loads));
        assert_eq!((before(true), before(false)), (0b10010, 0), "loads may pass loads, but no store");
        // One in the middle, the holder, and the last.
        assert_eq!(lines.release(0, 4, 2), None);
        assert_eq!(lines.release(0, 4, 0), None);
        assert_eq!((lines.holder(0, 4), lines.holder(0, 6)), (Some((3, 1)), Some((7, 0))));
        lines.wait(3, 5);
        lines.share(3, 6);
        assert_eq!(lines.release(0, 4, 3), None);
        assert_eq!(lines.release(0, 4, 6), Some(1));
        assert_eq!(lines.holder(0, 4), Some((1, 1)));
        assert_eq!((lines.release(0, 4, 1), lines.release(0, 4, 5)), (Some(5), None));
        assert_eq!((lines.held(), lines.release(0, 6, 7), lines.held()), (1, None, 0));
    }

    #[test]
    fn those_that_wait_for_a_line_are_passed_by_so_many() {
        let mut lines = HeldLines::new(1);
        lines.reserve(4);
        let left = |lines: &HeldLines| lines.left(lines.holder(0, 4).unwrap().0, 8, false, |_| (1, true));
        lines.hold(0, 4, 0);
        // Who shares a line for which nobody waits passes nobody.
        lines.share(0, 2);
        assert_eq!(lines.release(0, 4, 2), None);
        lines.wait(0, 1);
        // One holds the line and the other comes, in turn: the line is never free.
        let (mut here, mut next) = (0, 2);
        for passed in 0..PASSES {
            assert_eq!(left(&lines), 8, "{passed} have passed");
            lines.share(here, next);
            assert_eq!(lines.release(0, 4, here), None);
            (here, next) = (next, here);
        }
        assert_eq!(left(&lines), 0);
        assert_eq!(lines.release(0, 4, here), Some(1));
        assert_eq!(left(&lines), 8, "the next holder is shared as the first was");
    }

    proptest! {
        /// The lists behave as maps of queues do.
        #[test]
        fn lines_are_held_first_come_first_served(steps in proptest::collection::vec((0u8..4, 0u64..6), 1..200)) {
            let set_of = |line: u64| line % 3;
            let mut lines = HeldLines::new(3);
            let mut literal: BTreeMap<u64, (u32, VecDeque<u32>)> = BTreeMap::new();
            let mut sets: BTreeMap<u64, VecDeque<u32>> = BTreeMap::new();
            for (slot, (step, line)) in steps.into_iter().enumerate() {
                let slot = slot as u32;
                lines.reserve(slot as usize + 1);
                match step {
                    0 | 1 => match lines.holder(set_of(line), line) {
                        Some((holder, waiting)) => {
                            let (expected, queue) = literal.get_mut(&line).expect("held");
                            prop_assert_eq!((holder, waiting), (*expected, queue.len() as u32));
                            queue.push_back(slot);
                            lines.wait(holder, slot);
                        }
                        None => {
                            prop_assert!(literal.insert(line, (slot, VecDeque::new())).is_none());
                            lines.hold(set_of(line), line, slot);
                        }
                    },
                    2 => {
                        if let Some((holder, mut queue)) = literal.remove(&line) {
                            let heir = queue.pop_front();
                            prop_assert_eq!(lines.release(set_of(line), line, holder), heir);
                            if let Some(heir) = heir {
                                literal.insert(line, (heir, queue));
                            }
                        }
                    }
                    _ if line < 3 => {
                        lines.wait_for_set(line, slot);
                        sets.entry(line).or_default().push_back(slot);
                    }
                    _ => {
                        let mut runnable = vec![7];
                        lines.wake_set(line - 3, &mut runnable);
                        let expected: Vec<u32> =
                            sets.remove(&(line - 3)).unwrap_or_default().into_iter().rev().collect();
                        prop_assert_eq!(&runnable[1..], expected.as_slice());
                    }
                }
                prop_assert_eq!(lines.held(), literal.len());
                prop_assert_eq!(lines.waiting_for_sets(), sets.values().map(VecDeque::len).sum::<usize>());
            }
        }
    }
}
