//! Asynchronous copies from global to shared memory (PTX ISA "cp.async"): those of a warp that are
//! under way, the groups its lanes put them into, and the arrivals at mbarrier objects that wait
//! for them.

use sim_memory::port::AccessId;
use sim_memory::vocabulary::{LaneMask, WARP_LANES};

use crate::reconvergence::Lanes;

/// A bulk copy that an access is part of: a thread's, counted by an mbarrier object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bulk {
    /// The thread's lane.
    pub lane: u32,
    /// The shared address of the object.
    pub object: u64,
    /// The bytes of this access.
    pub bytes: u32,
    /// Address of the instruction.
    pub pc: u32,
}

/// A copy of some lanes.
#[derive(Clone, Debug)]
pub struct Copy {
    /// The access that brings its bytes.
    pub access: AccessId,
    /// Lanes whose bytes have not arrived.
    pending: LaneMask,
    /// By lane: the groups it had committed when it began the copy.
    group: [u32; WARP_LANES],
    /// By lane: the shared address and the bytes that are read; the rest is zeros.
    pub to: [[u64; 2]; WARP_LANES],
    /// It is part of a bulk copy, which has no groups; its lanes are pieces then.
    bulk: Option<Bulk>,
}

/// `cp.async.mbarrier.arrive` of a lane whose copies are under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Lane that issued the copy.
    pub lane: u32,
    /// The shared address of the object.
    pub address: u64,
    /// Address of the instruction.
    pub pc: u32,
    /// It waits for the lane's copies among this many first ones of the warp.
    before: u64,
}

impl Copy {
    /// The threads that wait for it.
    fn of_threads(&self) -> LaneMask {
        if self.bulk.is_some() { 0 } else { self.pending }
    }
}

/// The asynchronous copies of a warp.
#[derive(Clone, Debug, Default)]
pub struct Copies {
    /// In order of issue, by number.
    under_way: Vec<(u64, Copy)>,
    begun: u64,
    committed: [u32; WARP_LANES],
    arrivals: Vec<Arrival>,
    /// Parts of bulk copies that have arrived and are still to be counted.
    counted: Vec<Bulk>,
}

impl Copies {
    /// A copy begins.
    pub fn begin(
        &mut self,
        access: AccessId,
        lanes: LaneMask,
        to: [[u64; 2]; WARP_LANES],
        bulk: Option<Bulk>,
    ) {
        let copy = Copy { access, pending: lanes, group: self.committed, to, bulk };
        self.under_way.push((self.begun, copy));
        self.begun += 1;
    }

    /// `cp.async.commit_group`: what these lanes began since their last one is a group.
    pub fn commit(&mut self, lanes: LaneMask) {
        Lanes(lanes).for_each(|lane| self.committed[lane as usize] += 1);
    }

    /// Whether copies of one of `lanes` are under way: `cp.async.wait_group`, other than those of its
    /// `newest` last groups and of none, or `cp.async.wait_all`, any.
    pub fn awaits(&self, lanes: LaneMask, newest: Option<u8>) -> bool {
        self.under_way.iter().any(|(_, copy)| {
            Lanes(copy.of_threads() & lanes).any(|lane| {
                let (group, committed) = (copy.group[lane as usize], self.committed[lane as usize]);
                newest.is_none_or(|newest| group + u32::from(newest) < committed)
            })
        })
    }

    /// No access is under way.
    pub fn drained(&self) -> bool {
        self.under_way.is_empty()
    }

    /// The copy of an access.
    pub fn of(&self, access: AccessId) -> Option<&Copy> {
        self.under_way.iter().find(|(_, copy)| copy.access == access).map(|(_, copy)| copy)
    }

    /// The bytes of these lanes have arrived.
    pub fn arrived(&mut self, access: AccessId, lanes: LaneMask) {
        if let Some((_, copy)) = self.under_way.iter_mut().find(|(_, copy)| copy.access == access) {
            copy.pending &= !lanes;
        }
    }

    /// The access has ended: its name may become another's.
    pub fn end(&mut self, access: AccessId) {
        if let Some(at) = self.under_way.iter().position(|(_, copy)| copy.access == access) {
            self.counted.extend(self.under_way.remove(at).1.bulk);
        }
    }

    /// The next part of a bulk copy whose bytes are to be counted.
    pub fn arrived_bulk(&mut self) -> Option<Bulk> {
        (!self.counted.is_empty()).then(|| self.counted.remove(0))
    }

    /// A lane arrives at an object once its copies so far have arrived.
    pub fn arrive_later(&mut self, lane: u32, address: u64, pc: u32) {
        self.arrivals.push(Arrival { lane, address, pc, before: self.begun });
    }

    /// The next arrival whose copies have all arrived, in order of issue.
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
        let bulk = Bulk { lane: 3, object: 8, bytes: 512, pc: 1 };
        copies.begin(4, u32::MAX, [[0; 2]; 32], Some(bulk));
        copies.commit(u32::MAX);
        assert!(!copies.awaits(u32::MAX, None) && !copies.awaits(u32::MAX, Some(0)));
        assert!(!copies.drained());
        copies.arrived(4, u32::MAX);
        assert_eq!(copies.arrived_bulk(), None);
        copies.end(4);
        assert_eq!((copies.arrived_bulk(), copies.arrived_bulk()), (Some(bulk), None));
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
