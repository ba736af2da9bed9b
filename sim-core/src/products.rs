//! Products of a warpgroup that a warp has begun (PTX ISA "wgmma.commit_group", "wgmma.wait_group"): the groups it has
//! committed them to, and when these are complete.

use std::collections::VecDeque;

use sim_frontend::program::Row;
use sim_frontend::wgmma::WARPGROUP;
use sim_memory::vocabulary::Cycle;

/// The products of one warp.
#[derive(Clone, Debug, Default, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Products {
    /// A `wgmma.fence` has come before them.
    pub fenced: bool,
    /// When the products since the last commit are complete.
    open: Cycle,
    /// The same of committed groups that nobody has waited for, the oldest first.
    groups: VecDeque<Cycle>,
    /// For each D, by its first register, when its last product began.
    starts: Vec<(Row, Cycle)>,
    /// How many have begun.
    begun: u64,
}

/// When shared memory has been read for the products of a warpgroup, which is done once for its warps.
#[derive(Clone, Debug, Default, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct GroupReads {
    /// The number of the first product below.
    first: u64,
    /// Products that some warps have begun and others have not: when they are read, and how many have.
    open: VecDeque<(Cycle, u32)>,
}

impl GroupReads {
    /// A warp of the group begins product `number`, which has been read at `read` if it is the first to do so.
    pub fn of(&mut self, number: u64, read: impl FnOnce() -> Cycle) -> Cycle {
        let place = number.saturating_sub(self.first) as usize;
        if place >= self.open.len() {
            self.open.push_back((read(), 0));
        }
        let Some((done, warps)) = self.open.get_mut(place) else { return 0 };
        *warps += 1;
        let done = *done;
        while self.open.front().is_some_and(|(_, warps)| *warps >= WARPGROUP) {
            self.open.pop_front();
            self.first += 1;
        }
        done
    }
}

impl Products {
    /// A product that is added to the same registers as an earlier one begins this much later at least.
    pub fn earliest(&self, d: Row, apart: Cycle) -> Cycle {
        self.starts.iter().find(|(row, _)| *row == d).map_or(0, |(_, start)| start + apart)
    }

    /// How many products have begun.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// A product begins at `start` and is complete at `done`.
    pub fn begin(&mut self, d: Row, start: Cycle, done: Cycle) {
        self.begun += 1;
        match self.starts.iter_mut().find(|(row, _)| *row == d) {
            Some((_, last)) => *last = start,
            None => self.starts.push((d, start)),
        }
        self.open = self.open.max(done);
    }

    /// The products since the last commit become a group.
    pub fn commit(&mut self) {
        self.groups.push_back(std::mem::take(&mut self.open));
    }

    /// When all groups but the `newest` ones are complete; nobody waits for them again.
    pub fn wait(&mut self, newest: u32) -> Cycle {
        let old = self.groups.len().saturating_sub(newest as usize);
        self.groups.drain(..old).fold(0, Cycle::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_awaited_from_the_oldest_on() {
        let mut products = Products::default();
        products.begin(Row(4), 10, 30);
        products.begin(Row(8), 10, 25);
        products.commit();
        products.begin(Row(4), 26, 50);
        products.commit();
        products.commit();
        assert_eq!(products.wait(3), 0);
        assert_eq!(products.wait(2), 30);
        assert_eq!(products.wait(2), 0, "it has been awaited");
        assert_eq!(products.wait(1), 50);
        assert_eq!(products.wait(0), 0, "a group without products is complete");
        // What is not committed is not awaited.
        products.begin(Row(4), 60, 90);
        assert_eq!(products.wait(0), 0);
        products.commit();
        assert_eq!(products.wait(0), 90);
    }

    #[test]
    fn a_product_is_read_once_for_the_warps_of_a_group() {
        let mut reads = GroupReads::default();
        assert_eq!(reads.of(0, || 18), 18);
        assert_eq!(reads.of(1, || 36), 36);
        for _ in 0..2 {
            assert_eq!(reads.of(0, || 99), 18);
        }
        assert_eq!((reads.of(1, || 99), reads.of(0, || 99)), (36, 18));
        assert_eq!((reads.first, reads.open.len()), (1, 1), "all four have begun the first");
        assert_eq!((reads.of(2, || 54), reads.of(1, || 99), reads.of(1, || 99)), (54, 36, 36));
        assert_eq!((reads.first, reads.open.len()), (2, 1));
    }

    #[test]
    fn products_that_are_added_to_the_same_registers_keep_their_distance() {
        let mut products = Products::default();
        assert_eq!(products.earliest(Row(4), 13), 0);
        products.begin(Row(4), 10, 30);
        assert_eq!((products.earliest(Row(4), 13), products.earliest(Row(5), 13)), (23, 0));
        // Those into others come in between.
        products.begin(Row(8), 14, 34);
        assert_eq!((products.earliest(Row(4), 13), products.earliest(Row(8), 13)), (23, 27));
        products.begin(Row(4), 23, 43);
        assert_eq!(products.earliest(Row(4), 13), 36);
    }
}
