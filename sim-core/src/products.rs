//! Products of a warpgroup that a warp has begun (PTX ISA "wgmma.commit_group", "wgmma.wait_group"): the groups it has
//! committed them to, and when these are complete.

use std::collections::VecDeque;

use sim_frontend::program::Row;
use sim_memory::vocabulary::Cycle;

/// The products of one warp.
#[derive(Clone, Debug, Default)]
pub struct Products {
    /// A `wgmma.fence` has come before them.
    pub fenced: bool,
    /// When the products since the last commit are complete.
    open: Cycle,
    /// The same of committed groups that nobody has waited for, the oldest first.
    groups: VecDeque<Cycle>,
    /// The first register of D of the last product, and when it began to be added to.
    last: Option<(Row, Cycle)>,
}

impl Products {
    /// A product that is added to the same registers as the last one begins this much later at least.
    pub fn earliest(&self, d: Row, apart: Cycle) -> Cycle {
        self.last.filter(|(row, _)| *row == d).map_or(0, |(_, start)| start + apart)
    }

    /// A product begins at `start` and is complete at `done`.
    pub fn begin(&mut self, d: Row, start: Cycle, done: Cycle) {
        self.last = Some((d, start));
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
    fn products_that_are_added_to_the_same_registers_keep_their_distance() {
        let mut products = Products::default();
        assert_eq!(products.earliest(Row(4), 13), 0);
        products.begin(Row(4), 10, 30);
        assert_eq!((products.earliest(Row(4), 13), products.earliest(Row(5), 13)), (23, 0));
    }
}
