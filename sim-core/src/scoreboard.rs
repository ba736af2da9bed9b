//! The scoreboard: pending state belongs to (home warp, register): the cycle a register becomes
//! ready and the lanes concerned. A split may issue if none of its lanes meets a pending lane of
//! a register it reads or writes; splits own no tags, so they can split and merge freely.

use sim_memory::vocabulary::{Cycle, LaneMask};

/// Pending state of one register or predicate of one warp.
#[derive(Clone, Copy, Debug, Default, borsh::BorshSerialize, borsh::BorshDeserialize)]
struct Pending {
    /// Cycle at which results of fixed latency are ready.
    ready: Cycle,
    /// Lanes the cycle concerns.
    lanes: LaneMask,
    /// Lanes blocked by memory (`block` of CS §4.3); `releaseRegs` clears them.
    memory: LaneMask,
}

/// When a split's next instruction can issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// At this cycle, as far as registers are concerned.
    At(Cycle),
    /// Not before memory releases a register.
    Memory,
}

/// Slots of most operations.
pub const FEW: usize = 4;

/// The scoreboard of one warp.
#[derive(Clone, Debug, Default, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Scoreboard {
    slots: Vec<Pending>,
}

impl Scoreboard {
    /// Clears it for a program with `slots` registers and predicates. The slot behind them is never pending.
    pub fn reset(&mut self, slots: usize) {
        self.slots.clear();
        self.slots.resize(slots + 1, Pending::default());
    }

    /// Where the state of a register or predicate lies, to ask the host for it ahead of time.
    #[inline]
    pub(crate) fn at(&self, slot: u16) -> *const u8 {
        self.slots
            .get(usize::from(slot))
            .map_or(std::ptr::null(), |pending| std::ptr::from_ref(pending).cast())
    }

    /// When `lanes` may issue an instruction that touches `slots`, not before `earliest`
    /// [thr-regs].
    #[inline]
    pub fn readiness(&self, slots: &[u16], lanes: LaneMask, earliest: Cycle) -> Readiness {
        let mut at = earliest;
        let mut memory = 0;
        for &slot in slots {
            let pending = &self.slots[usize::from(slot)];
            memory |= pending.memory & lanes;
            if pending.ready > at && pending.lanes & lanes != 0 {
                at = pending.ready;
            }
        }
        if memory != 0 { Readiness::Memory } else { Readiness::At(at) }
    }

    /// As [`readiness`](Self::readiness), for the first `used` of slots; those behind them, up to [`FEW`], are such as are never pending.
    #[inline(always)]
    pub fn readiness_of<const N: usize>(
        &self,
        slots: &[u16; N],
        used: u8,
        lanes: LaneMask,
        earliest: Cycle,
    ) -> Readiness {
        const { assert!(N >= FEW) }
        let mut at = earliest;
        let mut memory = 0;
        let mut take = |slot: u16| {
            let pending = &self.slots[usize::from(slot)];
            memory |= pending.memory;
            if pending.ready > at && pending.lanes & lanes != 0 {
                at = pending.ready;
            }
        };
        // As many each time: loops that the compiler unrolls.
        for slot in &slots[..FEW / 2] {
            take(*slot);
        }
        if usize::from(used) > FEW / 2 {
            for slot in &slots[FEW / 2..FEW] {
                take(*slot);
            }
        }
        if usize::from(used) > FEW {
            slots.iter().take(used.into()).skip(FEW).for_each(|slot| take(*slot));
        }
        if memory & lanes != 0 { Readiness::Memory } else { Readiness::At(at) }
    }

    /// Those of `lanes` for which memory has not released all of `slots`.
    pub fn blocked(&self, slots: &[u16], lanes: LaneMask) -> LaneMask {
        slots.iter().fold(0, |blocked, &slot| blocked | self.slots[usize::from(slot)].memory) & lanes
    }

    /// A result of fixed latency: `slots` of `lanes` are ready at `ready`. Where an older result
    /// of other lanes is still pending, both wait for the later of the two.
    #[inline]
    pub fn write(&mut self, slots: &[u16], lanes: LaneMask, now: Cycle, ready: Cycle) {
        for &slot in slots {
            self.write_one(slot, lanes, now, ready);
        }
    }

    /// The same for one slot.
    #[inline(always)]
    pub fn write_one(&mut self, slot: u16, lanes: LaneMask, now: Cycle, ready: Cycle) {
        let pending = &mut self.slots[usize::from(slot)];
        if pending.ready <= now {
            pending.ready = ready;
            pending.lanes = lanes;
        } else {
            pending.ready = pending.ready.max(ready);
            pending.lanes |= lanes;
        }
    }

    /// Registers of a memory operation block at issue [reg-block].
    #[inline]
    pub fn block(&mut self, slots: &[u16], lanes: LaneMask) {
        for &slot in slots {
            self.slots[usize::from(slot)].memory |= lanes;
        }
    }

    /// `releaseRegs`: the registers of these lanes are free [reg-release].
    #[inline]
    pub fn release(&mut self, slots: &[u16], lanes: LaneMask) {
        for &slot in slots {
            self.slots[usize::from(slot)].memory &= !lanes;
        }
    }

    /// True if any of `lanes` of `slots` waits for memory or a result after `now`.
    pub fn pending(&self, slots: &[u16], lanes: LaneMask, now: Cycle) -> bool {
        self.readiness(slots, lanes, now) != Readiness::At(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_of_other_splits_do_not_wait() {
        let mut board = Scoreboard::default();
        board.reset(4);
        board.write(&[1], 0x0f, 10, 19);
        assert_eq!(board.readiness(&[1], 0xf0, 11), Readiness::At(11));
        assert_eq!(board.readiness(&[1], 0x01, 11), Readiness::At(19));
        assert_eq!(board.readiness(&[2, 1], 0x01, 19), Readiness::At(19));
    }

    #[test]
    fn reg_block_holds_until_reg_release_of_each_lane() {
        let mut board = Scoreboard::default();
        board.reset(2);
        board.block(&[0], 0b11);
        assert_eq!(board.readiness(&[0], 0b01, 5), Readiness::Memory);
        board.release(&[0], 0b01);
        assert_eq!(board.readiness(&[0], 0b01, 5), Readiness::At(5));
        assert_eq!(board.readiness(&[0], 0b10, 5), Readiness::Memory);
        board.release(&[0], 0b10);
        assert!(!board.pending(&[0], 0b11, 5));
    }

    #[test]
    fn an_expired_result_does_not_delay_a_new_one_of_other_lanes() {
        let mut board = Scoreboard::default();
        board.reset(1);
        board.write(&[0], 0b01, 0, 9);
        board.write(&[0], 0b10, 9, 18);
        assert_eq!(board.readiness(&[0], 0b01, 10), Readiness::At(10));
        board.write(&[0], 0b01, 10, 12);
        // Still pending for another lane: the later cycle holds for both.
        assert_eq!(board.readiness(&[0], 0b01, 11), Readiness::At(18));
    }

    #[test]
    fn slots_behind_those_used_are_never_pending() {
        for slots in 0..12u16 {
            let mut board = Scoreboard::default();
            board.reset(slots.into());
            (0..slots).for_each(|slot| board.write_one(slot, u32::MAX, 0, 10 + Cycle::from(slot)));
            for used in 0..=slots as u8 {
                let padded: [u16; 12] =
                    std::array::from_fn(|i| if i < used.into() { i as u16 } else { slots });
                let expected = board.readiness(&padded[..used.into()], 0b10, 5);
                assert_eq!(board.readiness_of(&padded, used, 0b10, 5), expected, "{used} of {slots}");
                assert_eq!(expected, Readiness::At(if used == 0 { 5 } else { 9 + Cycle::from(used) }));
                // The last of them waits for memory, for one lane.
                if let Some(last) = slots.checked_sub(1).filter(|last| *last < used.into()) {
                    board.block(&[last], 0b10);
                    assert_eq!(board.readiness_of(&padded, used, 0b10, 5), Readiness::Memory);
                    assert_eq!(board.readiness_of(&padded, used, 0b01, 5), expected);
                    board.release(&[last], 0b10);
                }
            }
        }
    }

    /// Program 4.6 (`writeToRegs; yield; releaseRegs; end;`) literally: every result in flight is
    /// an instance that blocks its register until it releases it.
    #[derive(Default)]
    struct Literal(Vec<(u16, LaneMask, Cycle)>);

    impl Literal {
        fn ready(&self, slots: &[u16], lanes: LaneMask, earliest: Cycle) -> Cycle {
            let touching = self.0.iter().filter(|(slot, l, _)| slots.contains(slot) && l & lanes != 0);
            touching.map(|(.., at)| *at).fold(earliest, Cycle::max)
        }
    }

    proptest::proptest! {
        /// A fixed-latency result needs no instance: for a warp that issues as one, and for
        /// splits that take turns, the scoreboard gives the cycle the instances give; where
        /// splits of one warp have results of one register in flight at once it may wait longer.
        #[test]
        fn reg_block_equals_prog_listing46_for_fixed_latencies(
            ops in proptest::collection::vec((0u16..4, 0u16..4, 1u64..20, 1u32..8), 1..60),
            whole in proptest::bool::ANY,
        ) {
            let mut board = Scoreboard::default();
            board.reset(4);
            let mut literal = Literal::default();
            let mut now = 0;
            for (to, from, latency, lanes) in ops {
                let lanes = if whole { u32::MAX } else { lanes };
                let slots = [to, from];
                let Readiness::At(at) = board.readiness(&slots, lanes, now) else { panic!("no memory") };
                let by_instances = literal.ready(&slots, lanes, now);
                proptest::prop_assert!(at >= by_instances);
                // Results of other lanes that were in flight together with one of these.
                let alone = literal.0.iter().all(|(slot, l, _)| !slots.contains(slot) || *l == lanes);
                if whole || alone {
                    proptest::prop_assert_eq!(at, by_instances);
                }
                board.write(&[to], lanes, at, at + latency);
                literal.0.push((to, lanes, at + latency));
                now = at + 1;
            }
        }
    }
}
