//! Mailboxes between workers: one for each sender, receiver and parity of the round. What is sent in a round
//! is received in the next. A fast sender may be one round ahead of a slow receiver, but never two, so a
//! mailbox is never used by both at once. Mailboxes are swapped instead of copied, and keep their allocation.

use super::primitives::{CachePadded, Mutex};

/// The mailboxes of a team of workers.
#[derive(Debug)]
pub(crate) struct Exchange<T> {
    /// Mailboxes by parity, sender and receiver.
    boxes: [Vec<Vec<CachePadded<Mutex<T>>>>; 2],
}

impl<T: Default> Exchange<T> {
    /// Empty mailboxes for `workers` workers.
    pub(crate) fn new(workers: usize) -> Self {
        let row = || (0..workers).map(|_| CachePadded::new(Mutex::new(T::default()))).collect();
        let all = || (0..workers).map(|_| row()).collect();
        Self { boxes: [all(), all()] }
    }

    /// Worker `me` sends `own` to worker `to` in `round`, and receives in exchange the mailbox that `to` has
    /// emptied.
    pub(crate) fn send(&self, round: u64, me: usize, to: usize, own: &mut T) {
        std::mem::swap(&mut *self.boxes[(round % 2) as usize][me][to].lock(), own);
    }

    /// Passes the mailboxes sent to `me` in the previous round to `each`, in the order of senders; `each`
    /// empties them.
    pub(crate) fn receive(&self, round: u64, me: usize, mut each: impl FnMut(&mut T)) {
        for from in &self.boxes[((round + 1) % 2) as usize] {
            each(&mut from[me].lock());
        }
    }
}
