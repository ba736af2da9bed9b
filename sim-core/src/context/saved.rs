//! The state of a timed run as bytes, and a run that goes on from it. The host does again what it did: it makes the same context,
//! the same contents of memory and the same launches. Timed runs before the one whose state was saved are passed over, and
//! so are functional ones; what all of them left is in the state.

use std::sync::Arc;

use sim_frontend::chip::ChipSpec;
use sim_memory::device_memory::PAGE_BYTES;
use sim_memory::links::Links;
use sim_memory::spec::MemorySpec;
use sim_memory::vocabulary::Cycle;

use super::{Context, Saved};
use crate::engine::Engine;
use crate::error::SimError;
use crate::grid::Kernel;
use crate::options::State;
use crate::reconvergence::Reconvergence;
use crate::state::Kernels;

/// What the bytes hold; to be changed with them.
const FORMAT: u32 = 13;

impl Context {
    /// Goes on from a state: the timed run with its number takes it over instead of beginning.
    ///
    /// # Errors
    /// It is no state that this version writes, or what the context observes is not part of it.
    pub fn resume(&mut self, bytes: &[u8]) -> Result<(), SimError> {
        if let Some(what) = self.options.unsaved() {
            return Err(SimError::input("checkpoint", format!("a saved state does not hold {what}")));
        }
        let damaged =
            |why: String| SimError::input("checkpoint", format!("the saved state cannot be read: {why}"));
        match bytes.first_chunk().map(|format| u32::from_le_bytes(*format)) {
            Some(FORMAT) => {}
            Some(other) => {
                return Err(damaged(format!("it has format {other}, this version reads format {FORMAT}")));
            }
            None => return Err(damaged("it is empty".to_string())),
        }
        let saved: Saved = borsh::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
        self.pending = Some(Box::new(saved));
        Ok(())
    }

    /// It waits for the timed run whose state it has.
    pub fn is_resuming(&self) -> bool {
        self.pending.is_some()
    }

    /// A run is passed over, as it was complete when the state was saved.
    pub(super) fn passes_over(&mut self, functional: bool) -> bool {
        let Some(saved) = &self.pending else { return false };
        let over = functional || self.runs < saved.run;
        self.runs += u32::from(over && !functional);
        over
    }

    /// What a state names.
    fn links<P: Reconvergence>(
        &self,
        parameters: &P::Parameters,
        kernels: &[(Arc<Kernel>, bool)],
        (chip, spec): &(Arc<ChipSpec>, Arc<MemorySpec>),
    ) -> Links {
        let mut links = Links::default();
        let world = self.world();
        links.add(world.instruction_set);
        links.add(world);
        links.add(Arc::clone(chip));
        links.add(Arc::clone(spec));
        links.add(spec.dram.clone());
        links.add(self.chip.clocks());
        links.add(Arc::clone(&self.memory));
        links.add(parameters.clone());
        links.add(Kernels(kernels.iter().map(|(kernel, _)| Arc::clone(kernel)).collect()));
        if let Some((programs, timings)) = &self.tables {
            links.add((**programs).clone());
            links.add(Arc::clone(timings));
        }
        links
    }

    /// The state of a run, where the engine's is `engine`.
    pub(super) fn saved(&self, cycle: Cycle, engine: Vec<u8>) -> std::io::Result<State> {
        let mut page = vec![0; PAGE_BYTES as usize];
        let mut memory = Vec::new();
        for address in self.memory.pages() {
            self.memory.read(address, &mut page);
            if page.iter().any(|byte| *byte != 0) {
                memory.push((address, page.clone()));
            }
        }
        let saved = Saved {
            format: FORMAT,
            run: self.runs,
            engine,
            memory,
            report: self.report.clone(),
            kernels: self.kernels.clone(),
            latencies: self.latencies.clone(),
            outputs: self.outputs.clone(),
            taken: self.taken,
        };
        Ok(State { run: self.runs, cycle, bytes: borsh::to_vec(&saved)? })
    }

    /// Calls `act` where what a state of a run of these kernels names is there.
    pub(super) fn linked<P: Reconvergence, R>(
        &self,
        parameters: &P::Parameters,
        kernels: &[(Arc<Kernel>, bool)],
        split: &(Arc<ChipSpec>, Arc<MemorySpec>),
        act: impl FnOnce() -> R,
    ) -> R {
        self.links::<P>(parameters, kernels, split).during(act)
    }

    /// Takes over the state, if it is one of this run: what all runs before it left, and the engine.
    pub(super) fn take_over<P: Reconvergence>(
        &mut self,
        engine: &mut Engine<P>,
        parameters: &P::Parameters,
        kernels: &[(Arc<Kernel>, bool)],
    ) -> Result<bool, SimError> {
        let Some(saved) = self.pending.take() else { return Ok(false) };
        let Saved {
            format: _,
            run: _,
            engine: bytes,
            memory,
            report,
            kernels: reports,
            latencies,
            outputs,
            taken,
        } = *saved;
        let split = self.split(kernels);
        let restored = self.linked::<P, _>(parameters, kernels, &split, || {
            engine.restore(&bytes)?;
            // What has been read is what was written, down to the order of queues.
            debug_assert!(engine.save().is_ok_and(|again| again == bytes));
            Ok::<_, std::io::Error>(())
        });
        restored.map_err(|error| {
            SimError::input("checkpoint", format!("the saved state does not fit this run: {error}"))
        })?;
        let pages: Vec<u64> = self.memory.pages().collect();
        pages.into_iter().for_each(|address| self.memory.clear(address, PAGE_BYTES));
        memory.iter().for_each(|(address, bytes)| self.memory.write(*address, bytes));
        (self.report, self.kernels, self.latencies) = (report, reports, latencies);
        (self.outputs, self.taken) = (outputs, taken);
        Ok(true)
    }
}
