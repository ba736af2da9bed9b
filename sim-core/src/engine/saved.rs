//! The state of an engine between two epochs, as bytes, and an engine as it was then.

use std::io::{Result, Write};

use borsh::{BorshDeserialize, BorshSerialize};
use sim_memory::partition::Partition;
use sim_memory::vocabulary::Cycle;

use super::Engine;
use super::dispatcher::Dispatcher;
use super::lookout::Lookout;
use super::workers;
use crate::reconvergence::Reconvergence;
use crate::sm::Sm;

impl<P: Reconvergence> Engine<P> {
    /// The state, without what observes the run.
    ///
    /// # Errors
    /// It names what is not linked ([`sim_memory::links`]).
    pub(crate) fn save(&self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut sms: Vec<&Sm<P>> = self.workers.iter().flat_map(|worker| worker.parts().0).collect();
        sms.sort_unstable_by_key(|sm| sm.index);
        write_list(&sms, &mut out)?;
        let partitions = self.workers.iter().flat_map(|worker| worker.parts().1);
        let mut partitions: Vec<&(u32, Partition)> = partitions.collect();
        partitions.sort_unstable_by_key(|(i, _)| *i);
        let partitions: Vec<&Partition> = partitions.into_iter().map(|(_, partition)| partition).collect();
        write_list(&partitions, &mut out)?;
        let Self { workers: _, dispatcher, lookahead: _, now, lookout, next_count, saved_at, .. } = self;
        let Self { next_save: _, restored: _, sampler: _, checker: _, .. } = self;
        (dispatcher, now, lookout, next_count, saved_at).serialize(&mut out)?;
        Ok(out)
    }

    /// Makes a new engine one with this state.
    ///
    /// # Errors
    /// It is no state of such an engine, or names what is not linked.
    pub(crate) fn restore(&mut self, mut state: &[u8]) -> Result<()> {
        let state = &mut state;
        let (sms, partitions) = (Vec::<Sm<P>>::deserialize(state)?, Vec::<Partition>::deserialize(state)?);
        let read = <(Dispatcher, Cycle, Lookout, Cycle, Cycle)>::deserialize(state)?;
        let (own_sms, own_partitions) = (self.sms().count(), self.partitions().count());
        if (sms.len(), partitions.len(), state.len()) != (own_sms, own_partitions, 0) {
            return Err(std::io::Error::other("the state is that of another chip"));
        }
        workers::replace(&mut self.workers, sms, partitions);
        (self.dispatcher, self.now, self.lookout, self.next_count, self.saved_at) = read;
        self.restored = true;
        Ok(())
    }
}

/// As a vector is written.
fn write_list<T: BorshSerialize>(list: &[&T], out: &mut impl Write) -> Result<()> {
    (list.len() as u32).serialize(out)?;
    list.iter().try_for_each(|own| own.serialize(out))
}
