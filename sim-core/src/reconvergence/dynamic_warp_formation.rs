//! Dynamic warp formation (Fung et al. 2007): no stack; threads of all warps of an SM that stand at
//! one address form warps anew at each issue, each in its own lane. Which address issues is one of
//! five schedulers' choice.

use sim_frontend::program::{NO_PC, Pc};

use super::ReadyAddress;
use super::parameters::{Value, parameters};
use super::paths::{Group, NONE, Paths};
use super::rules::{Event, Rules};

/// The paper's schedulers, in the order of the parameter's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// The address of most threads, until no thread is at it.
    DMaj,
    /// The address of fewest threads.
    DMin,
    /// The address whose threads wait longest.
    DTime,
    /// The address with most branches open.
    DPdPri,
    /// The least address.
    DPC,
}

impl Scheduler {
    const ALL: [Self; 5] = [Self::DMaj, Self::DMin, Self::DTime, Self::DPdPri, Self::DPC];
}

impl Value for Scheduler {
    const WORDS: &'static [&'static str] = &["DMaj", "DMin", "DTime", "DPdPri", "DPC"];

    fn of(number: u32) -> Self {
        Self::ALL[number as usize]
    }

    fn number(self) -> u32 {
        self as u32
    }
}

parameters! {
    /// Parameters of `dynamic_warp_formation`.
    pub struct Parameters {
        scheduler: Scheduler = 0, 0..=4,
            "which PC issues: DMaj most threads, DMin fewest, DTime oldest, DPdPri most open branches, DPC lowest";
    }
}

/// Threads of all warps form warps.
#[derive(Debug)]
pub struct DynamicWarpFormation {
    scheduler: Scheduler,
    /// DMaj stays with an address while threads are there.
    current: Option<(usize, Pc)>,
}

impl DynamicWarpFormation {
    /// The policy of one SM.
    pub fn new(parameters: Parameters) -> Self {
        Self { scheduler: parameters.scheduler, current: None }
    }
}

impl Rules for DynamicWarpFormation {
    fn save(&self) -> std::io::Result<Vec<u8>> {
        borsh::to_vec(&self.current)
    }

    fn restore(&mut self, saved: &[u8]) -> std::io::Result<()> {
        self.current = borsh::from_slice(saved)?;
        Ok(())
    }

    fn diverged(&mut self, paths: &mut Paths, slot: usize, _pc: Pc, groups: &[Group], _join: Option<Pc>) {
        paths.scatter(slot, groups, NONE);
    }

    fn settle(&mut self, paths: &mut Paths, _event: Event, _slot: usize) {
        paths.merge(|_, _| true);
        paths.enable_only(|_, _| true);
        for slot in paths.running() {
            paths.slots[slot].stop = match paths.used().count() {
                1 => NO_PC,
                _ => paths.next_meeting(slot, |_, _| true),
            };
        }
    }

    fn forms_warps(&self) -> bool {
        true
    }

    fn prefers(&mut self, places: &[ReadyAddress]) -> Option<usize> {
        let best = |key: &dyn Fn(&ReadyAddress) -> u64| {
            // Ties go to the kernel and address that come first.
            (0..places.len()).min_by_key(|&i| (key(&places[i]), places[i].kernel, places[i].pc))
        };
        match self.scheduler {
            Scheduler::DMaj => {
                let stays = places.iter().position(|place| Some((place.kernel, place.pc)) == self.current);
                let chosen = stays.or_else(|| best(&|place| u64::MAX - u64::from(place.threads)));
                self.current = chosen.map(|i| (places[i].kernel, places[i].pc));
                chosen
            }
            Scheduler::DMin => best(&|place| u64::from(place.threads)),
            Scheduler::DTime => best(&|place| place.since),
            Scheduler::DPdPri => best(&|place| u64::MAX - u64::from(place.nesting)),
            Scheduler::DPC => best(&|place| u64::from(place.pc)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scheduler_prefers_what_its_name_says() {
        let place = |pc, threads, since, nesting| ReadyAddress { kernel: 0, pc, threads, since, nesting };
        // The oldest has neither the most threads nor the fewest.
        let places = [place(50, 9, 4, 1), place(40, 3, 3, 0), place(30, 5, 1, 2), place(20, 7, 2, 3)];
        for (name, preferred) in [("DMaj", 50), ("DMin", 40), ("DTime", 30), ("DPdPri", 20), ("DPC", 20)] {
            let number = Parameters::TABLE[0].parse(name).expect("a scheduler");
            let mut rules = DynamicWarpFormation::new(Parameters { scheduler: Scheduler::of(number) });
            let chosen = rules.prefers(&places).map(|i| places[i].pc);
            assert_eq!(chosen, Some(preferred), "{name}");
        }
    }
}
