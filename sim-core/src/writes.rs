//! The writes of a block that are not yet performed for the device. A release or fence of device
//! scope is cumulative: it orders not only its thread's writes, but also those that its thread has
//! observed (PTX ISA "Causality order"). Threads of one block observe each other's writes in L1
//! before L2 has them, so such an operation waits for every write its block has begun until then.

use std::collections::VecDeque;

/// Writes are numbered in the order they begin.
#[derive(Debug, Default, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Writes {
    /// All writes before this one are performed.
    first: u64,
    /// Of the writes from `first` on: performed.
    performed: VecDeque<bool>,
    /// Warps that wait, each with the number of writes it waits for.
    waiting: Vec<(usize, u64)>,
}

impl Writes {
    /// A write begins; its number.
    pub fn begin(&mut self) -> u64 {
        self.performed.push_back(false);
        self.first + self.performed.len() as u64 - 1
    }

    /// The number of writes begun so far, which is what an operation that comes now waits for.
    pub fn begun(&self) -> u64 {
        self.first + self.performed.len() as u64
    }

    /// The first `count` writes are performed.
    pub fn are_performed(&self, count: u64) -> bool {
        count <= self.first
    }

    /// Warp `warp` waits until the first `count` writes are performed.
    pub fn wait(&mut self, warp: usize, count: u64) {
        self.waiting.push((warp, count));
    }

    /// Write `number` is performed; the warps whose wait ends go to `wake`.
    pub fn end(&mut self, number: u64, mut wake: impl FnMut(usize)) {
        if let Some(performed) = self.performed.get_mut((number - self.first) as usize) {
            *performed = true;
        }
        let first = self.first;
        while self.performed.front() == Some(&true) {
            self.performed.pop_front();
            self.first += 1;
        }
        if self.first != first {
            let first = self.first;
            self.waiting.retain(|&(warp, count)| {
                let waits = count > first;
                if !waits {
                    wake(warp);
                }
                waits
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Writes;

    #[test]
    fn a_wait_ends_with_the_last_write_before_it_and_no_later_one() {
        let mut writes = Writes::default();
        let (a, b) = (writes.begin(), writes.begin());
        let count = writes.begun();
        writes.wait(7, count);
        let c = writes.begin();
        let mut woken = Vec::new();
        writes.end(b, |warp| woken.push(warp));
        assert!(woken.is_empty() && !writes.are_performed(count), "write {a} is under way");
        writes.end(a, |warp| woken.push(warp));
        assert_eq!(woken, [7], "write {c} began later");
        assert!(writes.are_performed(count) && !writes.are_performed(writes.begun()));
        writes.end(c, |warp| woken.push(warp));
        assert_eq!(woken, [7]);
        assert!(writes.are_performed(writes.begun()));
    }
}
