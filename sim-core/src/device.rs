//! The device (CS §5.8): a set of contexts, one of which runs at a time. The messages of CS §5.8.2 are
//! methods: each is processed at once, which is one of the orders that the thesis allows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use sim_frontend::chip::ChipSpec;
use sim_frontend::diagnostic::Source;
use sim_frontend::isa_cost::IsaCosts;

use crate::context::{Context, ContextOutput, Launch};
use crate::error::SimError;
pub use crate::options::{Delay, Options, Progress};

/// Index of a context, unique during the life of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContextId(u32);

/// A message of the device to its host (CS §5.8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceOutput {
    /// A context was created.
    Created(ContextId),
    /// A program was loaded into a context.
    Loaded {
        /// Index of the program in the context.
        program: usize,
        /// The context it was loaded into.
        context: ContextId,
    },
    /// A message from a context.
    Context(ContextId, ContextOutput),
}

/// A simulated device.
#[derive(Debug)]
pub struct Device {
    chip: Arc<ChipSpec>,
    costs: Arc<IsaCosts>,
    options: Options,
    contexts: Vec<Context>,
    next_context: u32,
    /// Bytes of global memory allocated by all contexts.
    allocated: Arc<AtomicU64>,
    outputs: Vec<DeviceOutput>,
}

impl Device {
    /// A device with the chip `chip` and no contexts.
    pub fn new(chip: Arc<ChipSpec>, costs: Arc<IsaCosts>, options: Options) -> Self {
        Self {
            chip,
            costs,
            options,
            contexts: Vec::new(),
            next_context: 0,
            allocated: Arc::new(AtomicU64::new(0)),
            outputs: Vec::new(),
        }
    }

    /// Creates an empty context, with an index that no context of this device has had [dev-create]
    /// [dio-create].
    pub fn create_context(&mut self) -> ContextId {
        let id = ContextId(self.next_context);
        self.next_context += 1;
        self.contexts.push(Context::new(
            id.0,
            Arc::clone(&self.chip),
            Arc::clone(&self.costs),
            self.options.clone(),
            Arc::clone(&self.allocated),
        ));
        self.outputs.push(DeviceOutput::Created(id));
        id
    }

    /// Destroys a context with its grids and memory, without a reply [dev-destroy] [dio-destroy].
    ///
    /// # Errors
    /// No context has this id.
    pub fn destroy_context(&mut self, id: ContextId) -> Result<(), SimError> {
        let at = self.position(id)?;
        self.contexts.remove(at);
        Ok(())
    }

    fn position(&self, id: ContextId) -> Result<usize, SimError> {
        let found = self.contexts.iter().position(|context| context.id() == id.0);
        found.ok_or_else(|| SimError::input("context", format!("the device has no context {}", id.0)))
    }

    /// The context with an id, to send messages to [dev-cin].
    ///
    /// # Errors
    /// No context has this id.
    pub fn context(&mut self, id: ContextId) -> Result<&mut Context, SimError> {
        let at = self.position(id)?;
        Ok(&mut self.contexts[at])
    }

    /// Loads a program into a context [dio-load]. A text with errors loads nothing.
    ///
    /// # Errors
    /// No context has this id, or all diagnostics of the text.
    pub fn load(&mut self, id: ContextId, source: &Source, papers: bool) -> Result<usize, SimError> {
        self.load_at(id, source, papers, &|_| None)
    }

    /// The same with variables at given places: addresses of global memory, offsets in constant memory.
    ///
    /// # Errors
    /// As [`load`](Self::load), or a place that is not free.
    pub fn load_at(
        &mut self,
        id: ContextId,
        source: &Source,
        papers: bool,
        place: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<usize, SimError> {
        let context = self.context(id)?;
        let program = context.load_module_at(source, papers, place).map_err(SimError::Input)?;
        self.outputs.push(DeviceOutput::Loaded { program, context: id });
        Ok(program)
    }

    /// Queues a launch [dev-in]. The context replies with the grid's index.
    ///
    /// # Errors
    /// No context has this id, or the launch exceeds a limit.
    pub fn launch(&mut self, id: ContextId, launch: &Launch) -> Result<u32, SimError> {
        self.context(id)?.launch(launch)
    }

    /// Runs the grids that a context has queued. Contexts never run at the same time [dev-exec].
    ///
    /// # Errors
    /// No context has this id, or the reason why the run stopped.
    pub fn synchronize(
        &mut self,
        id: ContextId,
        stop: &AtomicBool,
        progress: &Progress<'_>,
    ) -> Result<(), SimError> {
        let context = self.context(id)?;
        let result = context.synchronize(stop, progress);
        let outputs = context.outputs();
        // Messages of a context go out under its index [dev-cout].
        self.outputs.extend(outputs.into_iter().map(|output| DeviceOutput::Context(id, output)));
        result
    }

    /// Takes the messages to the host since the last call [dev-out].
    pub fn outputs(&mut self) -> Vec<DeviceOutput> {
        std::mem::take(&mut self.outputs)
    }
}
