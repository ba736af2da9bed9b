//! The execution units of an SM: how many of each class there are, who may use them, and when
//! each takes the next operation.

use std::ops::Range;

use sim_frontend::chip::{SmSpec, UnitScope};
use sim_frontend::isa::UnitClass;
use sim_memory::vocabulary::Cycle;

use super::scheduler::MAX_SCHEDULERS;

/// Classes of units, dense.
const UNIT_CLASSES: usize = UnitClass::ALL.len();
/// Room for them: a power of two, so that the remainder of a class is an index without a check.
pub(super) const ROOM: usize = UNIT_CLASSES.next_power_of_two();

/// The sets of splits by unit class, as `unit_of` says: all of the first class.
pub(super) const OF_FIRST_CLASS: [u64; ROOM] = {
    let mut sets = [0; ROOM];
    sets[0] = u64::MAX;
    sets
};

/// The servers of a class that a scheduler uses.
#[derive(Clone, Copy, Debug, Default, borsh::BorshSerialize, borsh::BorshDeserialize)]
struct Servers {
    first: usize,
    count: usize,
    /// Other schedulers use them.
    shared: bool,
}

/// The units of one SM.
#[derive(Clone, Debug, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct Units {
    /// By scheduler and class.
    servers: Box<[[Servers; ROOM]; MAX_SCHEDULERS]>,
    /// Classes whose servers others use.
    shared: u32,
    /// Classes that have one server, which no other class uses.
    alone: u32,
    /// By class: the classes that have the same servers, it too.
    same: [u32; ROOM],
    /// Cycle from which each server takes an operation.
    server_free: Vec<Cycle>,
    schedulers: usize,
    /// State of the units as each scheduler sees it, by scheduler.
    of: Box<[OfScheduler; MAX_SCHEDULERS]>,
}

/// What one scheduler sees of the units.
#[derive(Clone, Copy, Debug, Default, borsh::BorshSerialize, borsh::BorshDeserialize)]
#[repr(align(256))]
struct OfScheduler {
    /// By class: the cycle from which one of its servers takes an operation.
    free: [Cycle; ROOM],
    /// The latest of `free`; nothing it may use is busy from then on.
    busy_until: Cycle,
    /// Until then it issues the machine instructions of one operation: none of `free` comes before.
    issuing: Cycle,
}

impl OfScheduler {
    /// The first unit of `class` is free from this cycle on.
    #[inline(always)]
    fn occupy(&mut self, class: usize, free: Cycle) {
        self.free[class % ROOM] = free.max(self.issuing);
        self.busy_until = free.max(self.busy_until);
    }

    /// Nothing is issued before this cycle.
    fn issue_until(&mut self, until: Cycle) {
        self.issuing = until;
        self.busy_until = until.max(self.busy_until);
        self.free.iter_mut().for_each(|free| *free = until.max(*free));
    }
}

impl Units {
    /// The units `spec` declares.
    pub fn new(spec: &SmSpec) -> Self {
        let schedulers = spec.schedulers as usize;
        let mut servers = Box::new([[Servers::default(); ROOM]; MAX_SCHEDULERS]);
        let mut total = 0;
        // Classes that are others' units have their servers.
        let units = UnitClass::ALL.map(|class| spec.units.get(class));
        let mut owners = UnitClass::ALL.map(|class| class as usize);
        for (owner, unit) in owners.iter_mut().zip(&units) {
            *owner = unit.and_then(|unit| unit.with).map_or(*owner, |with| with as usize);
        }
        let mut same = [0u32; ROOM];
        for (class, unit) in units.iter().enumerate() {
            let set = (0..UNIT_CLASSES).filter(|other| owners[*other] == class);
            let set = set.fold(0, |set, other| set | 1 << other);
            if set == 0 {
                continue;
            }
            let count = unit.as_ref().map_or(1, |u| u.count.max(1)) as usize;
            let shared = unit.as_ref().is_none_or(|u| u.per == UnitScope::Sm);
            for other in (0..UNIT_CLASSES).filter(|other| set >> other & 1 == 1) {
                same[other] = set;
                for (scheduler, servers) in servers.iter_mut().enumerate().take(schedulers) {
                    let first = if shared { total } else { total + scheduler * count };
                    servers[other] = Servers { first, count, shared: shared && schedulers > 1 };
                }
            }
            total += if shared { count } else { count * schedulers };
        }
        let of_others = |class: &usize| servers[0][*class].shared;
        let alone = |class: &usize| servers[0][*class].count == 1 && same[*class].is_power_of_two();
        Self {
            alone: (0..UNIT_CLASSES).filter(alone).fold(0, |set, class| set | 1 << class),
            shared: (0..UNIT_CLASSES).filter(of_others).fold(0, |set, class| set | 1 << class),
            servers,
            same,
            server_free: vec![0; total],
            schedulers,
            of: Box::new([OfScheduler::default(); MAX_SCHEDULERS]),
        }
    }

    /// All units take an operation from the first cycle on.
    pub fn reset(&mut self) {
        self.server_free.fill(0);
        self.of.fill(OfScheduler::default());
    }

    /// True if every unit `scheduler` may use takes an operation at `now`.
    #[inline(always)]
    pub fn all_free(&self, scheduler: usize, now: Cycle) -> bool {
        self.of[scheduler % MAX_SCHEDULERS].busy_until <= now
    }

    /// By class: the cycle from which a unit takes an operation of `scheduler`.
    #[inline(always)]
    pub fn free(&self, scheduler: usize) -> &[Cycle; ROOM] {
        &self.of[scheduler % MAX_SCHEDULERS].free
    }

    /// A second operation, of `class`, finds a unit at `now` beside one of class `first` that has just
    /// taken one: what takes one cycle of units that belong to one scheduler leaves no trace in `free`.
    pub fn beside(&self, scheduler: usize, first: usize, class: usize, now: Cycle) -> bool {
        let count = self.servers[scheduler % MAX_SCHEDULERS][class % ROOM].count;
        self.of[scheduler % MAX_SCHEDULERS].free[class] <= now
            && (self.same[first] >> class & 1 == 0 || count > 1)
    }

    /// Classes of which a unit that no other scheduler uses takes an operation at `now`.
    #[inline(always)]
    pub fn own(&self, scheduler: usize, now: Cycle) -> u32 {
        if self.all_free(scheduler, now) { !self.shared } else { self.own_free(scheduler, now) }
    }

    /// As [`own`](Self::own), where a unit is busy.
    #[inline(never)]
    fn own_free(&self, scheduler: usize, now: Cycle) -> u32 {
        let free = self.free(scheduler).iter().enumerate();
        !self.shared & free.fold(0, |set, (class, free)| set | u32::from(*free <= now) << class)
    }

    /// Occupies a free unit of `class` for `cycles` from `now`. One cycle leaves a unit that
    /// belongs to one scheduler free for its next issue, so nothing needs recording.
    #[inline(always)]
    pub fn occupy(&mut self, class: usize, scheduler: usize, now: Cycle, cycles: u32) {
        if cycles <= 1 && self.shared >> class & 1 == 0 {
            return;
        }
        let until = now + Cycle::from(cycles);
        if self.alone >> class & 1 == 0 {
            self.occupy_servers(class, scheduler, until);
        } else if self.shared >> class & 1 == 0 {
            self.of[scheduler % MAX_SCHEDULERS].occupy(class, until);
        } else {
            self.occupy_for_all(class, until);
        }
    }

    /// A scheduler issues the machine instructions of an operation, one a cycle from `now` on.
    #[inline(always)]
    pub fn issue(&mut self, scheduler: usize, now: Cycle, machine_operations: u16) {
        if machine_operations > 1 {
            self.issue_several(scheduler, now + Cycle::from(machine_operations));
        }
    }

    /// As [`issue`](Self::issue), for more than one.
    #[inline(never)]
    fn issue_several(&mut self, scheduler: usize, until: Cycle) {
        self.of[scheduler % MAX_SCHEDULERS].issue_until(until);
    }

    /// Occupies the only unit of `class`, which all schedulers use, until this cycle.
    #[inline(never)]
    fn occupy_for_all(&mut self, class: usize, until: Cycle) {
        self.of.iter_mut().take(self.schedulers).for_each(|own| own.occupy(class, until));
    }

    /// Occupies a free unit of `class` until this cycle.
    #[inline(never)]
    fn occupy_servers(&mut self, class: usize, scheduler: usize, until: Cycle) {
        let Servers { first, count, shared } = self.servers[scheduler % MAX_SCHEDULERS][class % ROOM];
        let free = if count == 1 {
            self.server_free[first] = until;
            until
        } else {
            self.occupy_one_of(first..first + count, until)
        };
        // Most classes have servers of their own.
        let others = self.same[class % ROOM] & !(1 << (class % ROOM));
        let users = if shared { 0..self.schedulers } else { scheduler..scheduler + 1 };
        for user in users {
            let own = &mut self.of[user % MAX_SCHEDULERS];
            own.occupy(class, free);
            let mut classes = others;
            while classes != 0 {
                own.free[classes.trailing_zeros() as usize % ROOM] = free.max(own.issuing);
                classes &= classes - 1;
            }
        }
    }

    /// Occupies the one of several servers that is free first: the cycle from which one of them takes an operation.
    #[inline(never)]
    fn occupy_one_of(&mut self, servers: Range<usize>, until: Cycle) -> Cycle {
        let servers = &mut self.server_free[servers];
        if let Some(server) = servers.iter_mut().min() {
            *server = until;
        }
        servers.iter().copied().min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use sim_frontend::chip::{ChipSpec, UnitSpec};
    use sim_frontend::diagnostic::Source;

    use super::*;

    const CLASSES: [UnitClass; 3] = [UnitClass::Alu, UnitClass::Fma, UnitClass::Sfu];
    const SCHEDULERS: usize = 2;

    /// Units by their definition: a list of servers for each class that has its own, of the SM or of a scheduler.
    struct Literal {
        spec: SmSpec,
        busy: BTreeMap<(UnitClass, usize), Vec<Cycle>>,
    }

    impl Literal {
        fn servers(&mut self, class: UnitClass, scheduler: usize) -> &mut Vec<Cycle> {
            let unit = self.spec.units.get(class).expect("a unit");
            let whose = if unit.per == UnitScope::Sm { 0 } else { scheduler };
            let count = unit.count as usize;
            self.busy.entry((unit.with.unwrap_or(class), whose)).or_insert_with(|| vec![0; count])
        }
    }

    proptest! {
        /// From when on a class takes an operation of a scheduler is what its servers say, whether they are one or several,
        /// shared by schedulers or by classes, and not before the scheduler has issued the machine instructions of its last one.
        #[test]
        fn units_equal_their_definition(
            counts in (1u32..4, 1u32..4), per_sm in any::<(bool, bool)>(), fma_with_alu in any::<bool>(),
            operations in proptest::collection::vec((0usize..3, 0usize..SCHEDULERS, 1u32..9, 0u64..3, 1u16..5), 1..60),
        ) {
            let text = include_str!("../../../configs/chips/gtx480.yaml");
            let mut spec = ChipSpec::load(&Source::new("gtx480.yaml", text)).expect("a chip").sm;
            spec.schedulers = SCHEDULERS as u32;
            let scope = |sm: bool| if sm { UnitScope::Sm } else { UnitScope::Scheduler };
            let unit = |count, sm, with| UnitSpec { count, per: scope(sm), with };
            let with = fma_with_alu.then_some(UnitClass::Alu);
            let fma = if fma_with_alu { unit(counts.0, per_sm.0, with) } else { unit(counts.1, per_sm.1, None) };
            spec.units.set(UnitClass::Alu, unit(counts.0, per_sm.0, None));
            spec.units.set(UnitClass::Fma, fma);
            spec.units.set(UnitClass::Sfu, unit(counts.1, per_sm.1, None));
            let mut units = Units::new(&spec);
            let mut literal = Literal { spec, busy: BTreeMap::new() };
            let (mut now, mut issued) = (0, [0; SCHEDULERS]);
            for (class, scheduler, cycles, pause, instructions) in operations {
                now += pause;
                let class = CLASSES[class];
                if units.free(scheduler)[class as usize] <= now {
                    units.occupy(class as usize, scheduler, now, cycles);
                    let server = literal.servers(class, scheduler).iter_mut().find(|free| **free <= now);
                    *server.expect("a free server") = now + Cycle::from(cycles);
                    units.issue(scheduler, now, instructions);
                    // One is over when the scheduler issues next.
                    issued[scheduler] = if instructions > 1 { now + Cycle::from(instructions) } else { 0 };
                }
                for (scheduler, class) in (0..SCHEDULERS).flat_map(|s| CLASSES.map(|class| (s, class))) {
                    let free = literal.servers(class, scheduler).iter().copied().min().expect("a server");
                    let shared = literal.spec.units.get(class).is_some_and(|unit| unit.per == UnitScope::Sm);
                    // A cycle of what belongs to one scheduler is over when that issues next.
                    let next = if shared { now } else { now + 1 };
                    let free = free.max(issued[scheduler]);
                    prop_assert_eq!(units.free(scheduler)[class as usize].max(next), free.max(next), "{:?}", class);
                }
                for scheduler in 0..SCHEDULERS {
                    // What is of one scheduler, and free.
                    let own = |class: UnitClass| {
                        let unit = units.free(scheduler)[class as usize] <= now;
                        unit && literal.spec.units.get(class).is_some_and(|unit| unit.per == UnitScope::Scheduler)
                    };
                    let found = CLASSES.map(|class| units.own(scheduler, now) >> class as usize & 1 == 1);
                    prop_assert_eq!(found, CLASSES.map(own));
                }
                // Whoever shares nothing issues once a cycle.
                now += 1;
            }
        }
    }
}
