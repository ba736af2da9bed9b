//! The execution units of an SM: how many of each class there are, who may use them, and when
//! each takes the next operation.

use sim_frontend::chip::{SmSpec, UnitScope};
use sim_frontend::isa::UnitClass;
use sim_memory::vocabulary::Cycle;

/// Classes of units, dense.
pub const UNIT_CLASSES: usize = UnitClass::ALL.len();

/// The units of one SM.
#[derive(Clone, Debug)]
pub struct Units {
    /// First server of (class, scheduler), how many it has, and whether other schedulers use them.
    servers: Vec<(usize, usize, bool)>,
    /// Cycle from which each server takes an operation.
    free_at: Vec<Cycle>,
    schedulers: usize,
    /// The latest `free_at` of all: nothing is busy from then on.
    busy_until: Cycle,
}

impl Units {
    /// The units `spec` declares.
    pub fn new(spec: &SmSpec) -> Self {
        let schedulers = spec.schedulers as usize;
        let mut servers = Vec::new();
        let mut total = 0;
        for class in UnitClass::ALL {
            let unit = spec.units.get(class);
            let count = unit.map_or(1, |u| u.count.max(1)) as usize;
            let shared = unit.is_none_or(|u| u.per == UnitScope::Sm);
            for scheduler in 0..schedulers {
                let first = if shared { total } else { total + scheduler * count };
                servers.push((first, count, shared && schedulers > 1));
            }
            total += if shared { count } else { count * schedulers };
        }
        Self { servers, free_at: vec![0; total], schedulers, busy_until: 0 }
    }

    /// True if every unit takes an operation at `now`.
    #[inline]
    pub fn all_free(&self, now: Cycle) -> bool {
        self.busy_until <= now
    }

    /// The cycle from which a unit of `class` takes an operation of `scheduler`.
    #[inline]
    pub fn free_at(&self, class: usize, scheduler: usize) -> Cycle {
        let (first, count, _) = self.servers[class * self.schedulers + scheduler];
        self.free_at[first..first + count].iter().copied().min().unwrap_or(0)
    }

    /// Occupies a free unit of `class` for `cycles` from `now`. One cycle leaves a unit that
    /// belongs to one scheduler free for its next issue, so nothing needs recording.
    #[inline(always)]
    pub fn occupy(&mut self, class: usize, scheduler: usize, now: Cycle, cycles: u32) {
        let (first, count, shared) = self.servers[class * self.schedulers + scheduler];
        if cycles <= 1 && !shared {
            return;
        }
        let until = now + Cycle::from(cycles);
        let servers = &mut self.free_at[first..first + count];
        if let Some(server) = servers.iter_mut().min() {
            *server = until;
        }
        if until > self.busy_until {
            self.busy_until = until;
        }
    }
}
