//! The execution units of an SM: how many of each class there are, who may use them, and when
//! each takes the next operation.

use sim_frontend::chip::{SmSpec, UnitScope};
use sim_frontend::isa::UnitClass;
use sim_memory::vocabulary::Cycle;

use super::scheduler::MAX_SCHEDULERS;

/// Classes of units, dense.
pub const UNIT_CLASSES: usize = UnitClass::ALL.len();

/// The sets of splits by unit class, as `unit_of` says: all of the first class.
pub(super) const OF_FIRST_CLASS: [u64; UNIT_CLASSES] = {
    let mut sets = [0; UNIT_CLASSES];
    sets[0] = u64::MAX;
    sets
};

/// The units of one SM.
#[derive(Clone, Debug)]
pub struct Units {
    /// First server of (class, scheduler), how many it has, and whether other schedulers use them.
    servers: Vec<(usize, usize, bool)>,
    /// Classes whose servers others use.
    shared: u32,
    /// By class: the classes that have the same servers, it too.
    same: [u32; UNIT_CLASSES],
    /// Cycle from which each server takes an operation.
    server_free: Vec<Cycle>,
    schedulers: usize,
    /// State of the units as each scheduler sees it, by scheduler.
    of: Box<[OfScheduler; MAX_SCHEDULERS]>,
}

/// What one scheduler sees of the units.
#[derive(Clone, Copy, Debug, Default)]
struct OfScheduler {
    /// By class: the cycle from which one of its servers takes an operation.
    free: [Cycle; UNIT_CLASSES],
    /// The latest of `free`; nothing it may use is busy from then on.
    busy_until: Cycle,
}

impl Units {
    /// The units `spec` declares.
    pub fn new(spec: &SmSpec) -> Self {
        let schedulers = spec.schedulers as usize;
        let mut servers = vec![(0, 0, false); UNIT_CLASSES * schedulers];
        let mut total = 0;
        // Classes that are others' units have their servers.
        let owner = |class: UnitClass| spec.units.get(class).and_then(|unit| unit.with).unwrap_or(class);
        let same = UnitClass::ALL.map(|class| {
            let others =
                UnitClass::ALL.iter().enumerate().filter(|(_, other)| owner(**other) == owner(class));
            others.fold(0, |set, (i, _)| set | 1 << i)
        });
        for class in UnitClass::ALL {
            if owner(class) != class {
                continue;
            }
            let unit = spec.units.get(class);
            let count = unit.map_or(1, |u| u.count.max(1)) as usize;
            let shared = unit.is_none_or(|u| u.per == UnitScope::Sm);
            for other in UnitClass::ALL.iter().filter(|other| owner(**other) == class) {
                for scheduler in 0..schedulers {
                    let first = if shared { total } else { total + scheduler * count };
                    servers[*other as usize * schedulers + scheduler] =
                        (first, count, shared && schedulers > 1);
                }
            }
            total += if shared { count } else { count * schedulers };
        }
        let of_others = |class: &usize| servers[class * schedulers].2;
        Self {
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
    pub fn free(&self, scheduler: usize) -> &[Cycle; UNIT_CLASSES] {
        &self.of[scheduler % MAX_SCHEDULERS].free
    }

    /// A second operation, of `class`, finds a unit at `now` beside one of class `first` that has just
    /// taken one: what takes one cycle of units that belong to one scheduler leaves no trace in `free`.
    pub fn beside(&self, scheduler: usize, first: usize, class: usize, now: Cycle) -> bool {
        let count = self.servers[class * self.schedulers + scheduler].1;
        self.of[scheduler % MAX_SCHEDULERS].free[class] <= now
            && (self.same[first] >> class & 1 == 0 || count > 1)
    }

    /// Occupies a free unit of `class` for `cycles` from `now`. One cycle leaves a unit that
    /// belongs to one scheduler free for its next issue, so nothing needs recording.
    #[inline(always)]
    pub fn occupy(&mut self, class: usize, scheduler: usize, now: Cycle, cycles: u32) {
        if cycles <= 1 && self.shared >> class & 1 == 0 {
            return;
        }
        let (first, count, shared) = self.servers[class * self.schedulers + scheduler];
        let until = now + Cycle::from(cycles);
        let servers = &mut self.server_free[first..first + count];
        let free = if let [server] = servers {
            *server = until;
            until
        } else {
            if let Some(server) = servers.iter_mut().min() {
                *server = until;
            }
            servers.iter().copied().min().unwrap_or(0)
        };
        let users = if shared { 0..self.schedulers } else { scheduler..scheduler + 1 };
        let others = self.same[class] & !(1 << class);
        for own in &mut self.of[users] {
            own.free[class] = free;
            let mut classes = others;
            while classes != 0 {
                own.free[classes.trailing_zeros() as usize] = free;
                classes &= classes - 1;
            }
            own.busy_until = free.max(own.busy_until);
        }
    }
}
