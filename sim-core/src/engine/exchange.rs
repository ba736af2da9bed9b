//! Mailboxes between workers: one for each sender, receiver and parity of the round. What is sent
//! in a round is received in the next, so a quick sender may be one round ahead of a slow
//! receiver, never two: a box is never in two hands. Boxes are swapped, not copied, and keep
//! their room.

use super::primitives::Mutex;

/// The mailboxes of a team.
#[derive(Debug)]
pub(crate) struct Exchange<T> {
    /// By parity, sender, receiver.
    boxes: [Vec<Vec<Mutex<T>>>; 2],
}

impl<T: Default> Exchange<T> {
    /// Empty boxes for `workers`.
    pub(crate) fn new(workers: usize) -> Self {
        let row = || (0..workers).map(|_| Mutex::new(T::default())).collect();
        let all = || (0..workers).map(|_| row()).collect();
        Self { boxes: [all(), all()] }
    }

    /// `me` sends `own` to `to` in `round`, and gets the box that `to` has emptied.
    pub(crate) fn send(&self, round: u64, me: usize, to: usize, own: &mut T) {
        std::mem::swap(&mut *self.boxes[(round % 2) as usize][me][to].lock(), own);
    }

    /// `me` receives in `round` what was sent in the one before, by sender; `each` empties it.
    pub(crate) fn receive(&self, round: u64, me: usize, mut each: impl FnMut(&mut T)) {
        for from in &self.boxes[((round + 1) % 2) as usize] {
            each(&mut from[me].lock());
        }
    }
}
