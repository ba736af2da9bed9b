//! Asynchronous copies from global to shared memory (PTX ISA "cp.async"): a warp's copies in flight, the
//! groups its lanes have committed them to, and the arrivals at mbarrier objects that wait for them.

use sim_memory::port::AccessId;
use sim_memory::vocabulary::{LaneMask, WARP_LANES};

use crate::reconvergence::Lanes;

/// The bulk copy that an access is part of. It is issued by one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Bulk {
    /// The lane of the thread.
    pub lane: u32,
    /// The shared address of the mbarrier object that tracks it.
    pub object: u64,
    /// Number of bytes of this access.
    pub bytes: u32,
    /// Address of the copy instruction.
    pub pc: u32,
    /// Where its bytes go.
    pub to: BulkTo,
    /// As that of the job.
    pub parity: Option<u8>,
}

/// Where the bytes of an access of a bulk copy go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub enum BulkTo {
    /// To the shared memory of the block.
    Here,
    /// To the shared memory of the blocks of these ranks; they land in between.
    Ranks(u32),
    /// To global memory: number of the copy among those of the warp.
    Global(u64),
    /// Into L2.
    Cache,
    /// To the unit of bulk copies: they are the tensor map that it has asked for by this number.
    Map(u64),
}

/// A part of a bulk copy that is over.
#[derive(Clone, Debug, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Over {
    /// Which one.
    pub bulk: Bulk,
    /// Its pieces.
    pub lanes: LaneMask,
    /// Where each piece goes, and its bytes.
    pub to: [[u64; 2]; WARP_LANES],
    /// The bytes that landed.
    pub landed: Option<Box<[[u8; 16]; WARP_LANES]>>,
}

/// A bulk copy to global memory.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
struct Put {
    number: u64,
    lane: u32,
    /// Groups that its thread had committed when it issued the copy.
    group: u32,
    /// Accesses in flight.
    in_flight: u32,
    /// More are to come.
    unread: bool,
}

/// An asynchronous copy by some lanes of a warp.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Copy {
    /// The access that fetches the bytes.
    pub access: AccessId,
    /// Lanes whose bytes have not yet arrived.
    pending: LaneMask,
    /// For each lane: the number of groups it had committed when it issued the copy.
    group: [u32; WARP_LANES],
    /// For each lane: the shared address, and the number of bytes read from global memory; the rest is
    /// zero-filled.
    pub to: [[u64; 2]; WARP_LANES],
    /// The bulk copy it is part of, if any. A bulk copy belongs to no group, and its lanes are pieces of 16
    /// bytes.
    bulk: Option<Bulk>,
    lanes: LaneMask,
    /// The bytes of a bulk copy to other blocks, as they arrive.
    pub landed: Option<Box<[[u8; 16]; WARP_LANES]>>,
}

/// A pending `cp.async.mbarrier.arrive` of a lane whose copies are in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Arrival {
    /// The lane that executed it.
    pub lane: u32,
    /// The shared address of the mbarrier object.
    pub address: u64,
    /// Address of the instruction.
    pub pc: u32,
    /// It waits for the lane's copies among the first `before` copies of the warp.
    before: u64,
}

impl Copy {
    /// Bytes of a piece, where it is of a bulk copy.
    pub fn piece(&self, lane: u32) -> Option<usize> {
        self.bulk.map(|_| self.to[lane as usize][1] as usize)
    }

    /// The threads that wait for the copy; none for a bulk copy.
    fn of_threads(&self) -> LaneMask {
        if self.bulk.is_some() { 0 } else { self.pending }
    }
}

/// The asynchronous copies of one warp.
#[derive(Clone, Debug, Default, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Copies {
    /// The copies in flight with their numbers, in issue order.
    under_way: Vec<(u64, Copy)>,
    begun: u64,
    committed: [u32; WARP_LANES],
    arrivals: Vec<Arrival>,
    /// Parts of bulk copies that are over but not yet counted.
    counted: Vec<Over>,
    /// Bulk copies whose accesses are still to be made.
    held: u32,
    /// Bulk copies to global memory, in issue order.
    puts: Vec<Put>,
    puts_begun: u64,
    puts_committed: [u32; WARP_LANES],
}

impl Copies {
    /// Registers a new copy.
    pub fn begin(
        &mut self,
        access: AccessId,
        lanes: LaneMask,
        to: [[u64; 2]; WARP_LANES],
        bulk: Option<Bulk>,
    ) {
        let lands = |bulk: &Bulk| matches!(bulk.to, BulkTo::Ranks(_) | BulkTo::Map(_));
        let landed = bulk.filter(lands).map(|_| Box::new([[0; 16]; WARP_LANES]));
        let copy = Copy { access, pending: lanes, group: self.committed, to, bulk, lanes, landed };
        self.under_way.push((self.begun, copy));
        self.begun += 1;
    }

    /// `cp.async.commit_group`: commits the copies that `lanes` issued since their last commit to a group.
    pub fn commit(&mut self, lanes: LaneMask) {
        Lanes(lanes).for_each(|lane| self.committed[lane as usize] += 1);
    }

    /// True if `lanes` must wait for copies in flight: for `cp.async.wait_group`, committed copies except
    /// those of the `newest` last groups of each lane; for `cp.async.wait_all` (`None`), any copy.
    pub fn awaits(&self, lanes: LaneMask, newest: Option<u8>) -> bool {
        self.under_way.iter().any(|(_, copy)| {
            Lanes(copy.of_threads() & lanes).any(|lane| {
                let (group, committed) = (copy.group[lane as usize], self.committed[lane as usize]);
                newest.is_none_or(|newest| group + u32::from(newest) < committed)
            })
        })
    }

    /// True if no copy is in flight.
    pub fn drained(&self) -> bool {
        self.under_way.is_empty() && self.held == 0
    }

    /// A bulk copy begins whose accesses come later; the number of one to global memory.
    pub fn hold(&mut self, lane: u32, to_global: bool) -> u64 {
        self.held += 1;
        if to_global {
            let group = self.puts_committed[lane as usize];
            self.puts.push(Put { number: self.puts_begun, lane, group, in_flight: 0, unread: true });
            self.puts_begun += 1;
        }
        self.puts_begun.saturating_sub(1)
    }

    /// All accesses of a bulk copy have been made; to global memory: of this one.
    pub fn let_go(&mut self, put: Option<u64>) {
        self.held -= 1;
        if let Some(put) = put.and_then(|number| self.puts.iter_mut().find(|put| put.number == number)) {
            put.unread = false;
        }
        self.puts.retain(|put| put.unread || put.in_flight > 0);
    }

    /// An access of a bulk copy to global memory is made.
    pub fn put(&mut self, number: u64) {
        if let Some(put) = self.puts.iter_mut().find(|put| put.number == number) {
            put.in_flight += 1;
        }
    }

    /// An access of a bulk copy to global memory is performed.
    pub fn put_is_over(&mut self, number: u64) {
        if let Some(put) = self.puts.iter_mut().find(|put| put.number == number) {
            put.in_flight -= 1;
        }
        self.puts.retain(|put| put.unread || put.in_flight > 0);
    }

    /// `cp.async.bulk.commit_group`.
    pub fn commit_puts(&mut self, lanes: LaneMask) {
        Lanes(lanes).for_each(|lane| self.puts_committed[lane as usize] += 1);
    }

    /// True if `lanes` must wait at `cp.async.bulk.wait_group`: for committed copies except those of the `newest` last
    /// groups of each lane; until they have `read` their sources.
    pub fn awaits_puts(&self, lanes: LaneMask, newest: u8, read: bool) -> bool {
        self.puts.iter().any(|put| {
            lanes >> put.lane & 1 == 1
                && put.group + u32::from(newest) < self.puts_committed[put.lane as usize]
                && (put.unread || !read)
        })
    }

    /// The copy that an access belongs to.
    pub fn of_mut(&mut self, access: AccessId) -> Option<&mut Copy> {
        self.under_way.iter_mut().find(|(_, copy)| copy.access == access).map(|(_, copy)| copy)
    }

    /// The copy that an access belongs to.
    pub fn of(&self, access: AccessId) -> Option<&Copy> {
        self.under_way.iter().find(|(_, copy)| copy.access == access).map(|(_, copy)| copy)
    }

    /// Records that the bytes of `lanes` have arrived.
    pub fn arrived(&mut self, access: AccessId, lanes: LaneMask) {
        if let Some((_, copy)) = self.under_way.iter_mut().find(|(_, copy)| copy.access == access) {
            copy.pending &= !lanes;
        }
    }

    /// Removes the copy of an access, whose id may be reused now.
    pub fn end(&mut self, access: AccessId) {
        if let Some(at) = self.under_way.iter().position(|(_, copy)| copy.access == access) {
            let Copy { bulk, lanes, to, landed, .. } = self.under_way.remove(at).1;
            self.counted.extend(bulk.map(|bulk| Over { bulk, lanes, to, landed }));
        }
    }

    /// Takes the next part of a bulk copy that has arrived and must be counted.
    pub fn arrived_bulk(&mut self) -> Option<Over> {
        (!self.counted.is_empty()).then(|| self.counted.remove(0))
    }

    /// Registers an arrival of a lane at an mbarrier object after its copies so far.
    pub fn arrive_later(&mut self, lane: u32, address: u64, pc: u32) {
        self.arrivals.push(Arrival { lane, address, pc, before: self.begun });
    }

    /// Takes the next arrival whose copies have all arrived, in issue order.
    pub fn due(&mut self) -> Option<Arrival> {
        let waits = |arrival: &Arrival| {
            let older = self.under_way.iter().take_while(|(number, _)| *number < arrival.before);
            older.into_iter().any(|(_, copy)| copy.of_threads() >> arrival.lane & 1 == 1)
        };
        let place = self.arrivals.iter().position(|arrival| !waits(arrival))?;
        Some(self.arrivals.remove(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_waits_for_its_own_older_groups() {
        let mut copies = Copies::default();
        copies.begin(7, 0b11, [[0; 2]; 32], None);
        copies.commit(0b01);
        assert!(copies.awaits(0b01, Some(0)));
        assert!(!copies.awaits(0b01, Some(1)), "its newest group may be under way");
        assert!(!copies.awaits(0b10, Some(0)), "lane 1 has committed nothing");
        assert!(copies.awaits(0b10, None));
        copies.begin(9, 0b01, [[0; 2]; 32], None);
        copies.commit(0b11);
        assert!(copies.awaits(0b01, Some(1)) && !copies.awaits(0b10, Some(1)));
        copies.arrived(7, 0b01);
        assert!(!copies.awaits(0b01, Some(1)) && copies.awaits(0b01, Some(0)));
        copies.arrived(9, 0b01);
        assert!(!copies.awaits(0b01, None) && copies.awaits(0b10, None));
        copies.end(9);
        copies.end(7);
        assert!(copies.drained());
    }

    #[test]
    fn threads_do_not_wait_for_bulk_copies_and_their_bytes_are_counted() {
        let mut copies = Copies::default();
        let bulk = Bulk { to: BulkTo::Here, lane: 3, object: 8, bytes: 512, pc: 1, parity: None };
        copies.begin(4, u32::MAX, [[0; 2]; 32], Some(bulk));
        copies.commit(u32::MAX);
        assert!(!copies.awaits(u32::MAX, None) && !copies.awaits(u32::MAX, Some(0)));
        assert!(!copies.drained());
        copies.arrived(4, u32::MAX);
        assert_eq!(copies.arrived_bulk(), None);
        copies.end(4);
        assert_eq!(copies.arrived_bulk().map(|over| over.bulk), Some(bulk));
        assert_eq!(copies.arrived_bulk(), None);
    }

    #[test]
    fn an_arrival_is_due_after_the_copies_before_it() {
        let mut copies = Copies::default();
        copies.begin(1, 0b11, [[0; 2]; 32], None);
        copies.arrive_later(0, 64, 5);
        copies.arrive_later(1, 64, 5);
        copies.begin(2, 0b11, [[0; 2]; 32], None);
        assert_eq!(copies.due(), None);
        copies.arrived(2, 0b11);
        assert_eq!(copies.due(), None);
        copies.arrived(1, 0b10);
        assert_eq!(copies.due().map(|arrival| arrival.lane), Some(1));
        assert_eq!(copies.due(), None);
        copies.arrived(1, 0b01);
        assert_eq!(copies.due().map(|arrival| (arrival.lane, arrival.address)), Some((0, 64)));
    }
}
