//! Launches: what the chip and the entry allow of them, and the grid that is made (CS §5.1.2,
//! §5.7.2).

use std::sync::Arc;

use sim_frontend::diagnostic::Diagnostic;
use sim_frontend::load::Assembler;
use sim_frontend::program::{OpClass, Program};

use super::{Context, ContextOutput, input};
use crate::error::SimError;
use crate::grid::{Code, Kernel};
use crate::report::KernelReport;

/// A launch to be queued.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Which module.
    pub module: usize,
    /// Entry.
    pub entry: String,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub dynamic_shared: u32,
    /// Stream.
    pub stream: u32,
    /// Parameter block.
    pub params: Vec<u8>,
    /// Without time.
    pub functional: bool,
}

impl Context {
    fn code(&mut self, module: usize, entry: &str) -> Result<Arc<Code>, SimError> {
        let Some(loaded) = self.modules.get_mut(module) else {
            return Err(input("module", "there is no such module"));
        };
        if let Some((_, code)) = loaded.codes.iter().find(|(name, _)| name == entry) {
            return Ok(Arc::clone(code));
        }
        let flow = self.options.policy.flow();
        let addresses = &loaded.addresses;
        let find = |name: &str| addresses.iter().find(|(n, _)| n == name).map(|(_, at)| *at);
        // Recursion gets what CUDA gives a thread by default.
        const STACK_BYTES: u32 = 8 << 10;
        let (registers, clean_up) = (self.chip.limits.max_reg_size, self.chip.assembler.clean_up);
        let assembler = Assembler { stack_bytes: STACK_BYTES, registers, clean_up };
        let program = loaded.module.program_for(entry, &find, flow, assembler);
        let program = program.map_err(SimError::Input)?;
        let newer = self.check_program(&program, module)?;
        self.used_newer_isa |= newer;
        let code = Arc::new(Code::new(program, &self.costs, self.chip.memory.constant.hit_latency, self.set));
        self.modules[module].codes.push((entry.to_string(), Arc::clone(&code)));
        Ok(code)
    }

    /// Refuses what the chip lacks: instructions, length; and what is not executed.
    fn check_program(&self, program: &Program, module: usize) -> Result<bool, SimError> {
        let chip = self.chip.capability();
        let source = self.modules[module].module.source();
        let mut newer = false;
        let mut errors = program.not_executed();
        for (pc, (op, info)) in program.ops.iter().zip(&program.info).enumerate() {
            if op.class != OpClass::Unsupported && info.min_sm > chip {
                newer = true;
                if !self.options.allow_newer_isa {
                    let (major, minor) = (info.min_sm / 10, info.min_sm % 10);
                    errors.push(
                        Diagnostic::error(
                            "isa",
                            format!(
                                "`{}` needs compute capability {major}.{minor}; {} has {}",
                                program.text(pc as u32),
                                self.chip.name,
                                self.chip.compute_capability
                            ),
                        )
                        .help("--allow-newer-isa runs it all the same")
                        .at_line(source, info.line),
                    );
                }
            }
        }
        if program.ops.len() as u64 > self.chip.limits.max_prog_size {
            errors
                .push(Diagnostic::error("MaxProgSize", "the kernel has more instructions than MaxProgSize"));
        }
        if errors.is_empty() { Ok(newer) } else { Err(SimError::Input(errors)) }
    }

    /// Queues a launch in stream order: the grid gets an index that no other grid of the context
    /// has [cio-start], is made with all its blocks unscheduled [sched-newGrid] and joins the
    /// context's grids [ctx-start] [ctx-in].
    ///
    /// # Errors
    /// The launch breaks a limit of the chip or does not fit the entry; it is named.
    pub fn launch(&mut self, launch: &Launch) -> Result<u32, SimError> {
        let code = self.code(launch.module, &launch.entry)?;
        let program = &code.program;
        let limits = &self.chip.limits;
        let entry = &launch.entry;
        let threads: u64 = launch.block.iter().map(|n| u64::from(*n)).product();
        let blocks: u128 = launch.grid.iter().map(|n| u128::from(*n)).product();
        let refuse =
            |limit: &str, message: String| Err(input("launch", format!("{entry}: {message} ({limit})")));
        for (axis, name) in ["x", "y", "z"].iter().enumerate() {
            if launch.grid[axis] == 0 {
                return refuse("MaxGridSize", format!("the grid has no blocks in {name}, it must have one"));
            }
            if launch.grid[axis] > limits.max_grid_size[axis] {
                return refuse(
                    "MaxGridSize",
                    format!(
                        "the grid has {} blocks in {name}, at most {} are allowed",
                        launch.grid[axis], limits.max_grid_size[axis]
                    ),
                );
            }
            if launch.block[axis] > limits.max_block_size[axis] {
                return refuse(
                    "MaxBlockSize",
                    format!(
                        "the block has {} threads in {name}, at most {} are allowed",
                        launch.block[axis], limits.max_block_size[axis]
                    ),
                );
            }
        }
        if threads == 0 || threads > u64::from(limits.max_threads_per_block) {
            return refuse(
                "MaxThreadsPerBlock",
                format!("the block has {threads} threads, 1 to {} are allowed", limits.max_threads_per_block),
            );
        }
        if blocks > u128::from(limits.max_blocks_per_grid) {
            return refuse("MaxBlocksPerGrid", format!("the grid has {blocks} blocks"));
        }
        if let Some(required) = program.bounds.required
            && required != launch.block
        {
            return refuse(
                ".reqntid",
                format!("the kernel requires blocks of {required:?} threads, not {:?}", launch.block),
            );
        }
        if let Some(max) = program.bounds.max
            && threads > max.iter().map(|n| u64::from(*n)).product()
        {
            return refuse(
                ".maxntid",
                format!("the kernel allows blocks of {max:?} threads, not {:?}", launch.block),
            );
        }
        if launch.params.len() != program.param_bytes as usize {
            return refuse(
                "parameters",
                format!(
                    "{} bytes of parameters are given, the kernel has {}",
                    launch.params.len(),
                    program.param_bytes
                ),
            );
        }
        if program.registers_per_thread > limits.max_reg_size {
            return refuse(
                "MaxRegSize",
                format!(
                    "a thread needs {} registers, {} are allowed",
                    program.registers_per_thread, limits.max_reg_size
                ),
            );
        }
        let shared = u64::from(program.shared_bytes) + u64::from(launch.dynamic_shared);
        let most = self.chip.shared_of_block();
        if shared > u64::from(most) {
            return refuse(
                "SharedMemSize",
                format!(
                    "a block needs {shared} bytes of shared memory; on {} it can have {most}",
                    self.chip.name
                ),
            );
        }
        let local = u64::from(program.local_bytes);
        if local > limits.local_mem_size {
            return refuse(
                "LocalMemSize",
                format!(
                    "a thread needs {local} bytes of local memory, {} are allowed",
                    limits.local_mem_size
                ),
            );
        }
        let needs = self.chip.block_needs(threads as u32, program.registers_per_thread, shared as u32);
        let (resident, by) = self.chip.occupancy(needs);
        if resident == 0 {
            return refuse(
                "RegFileSize",
                format!(
                    "a block needs {} registers and {} bytes of shared memory, more than an SM has: {by}",
                    needs.registers, needs.shared
                ),
            );
        }
        let kernel = Kernel {
            grid_id: self.next_grid,
            grid: launch.grid,
            block: launch.block,
            warp_size: limits.warp_size,
            dynamic_shared: launch.dynamic_shared,
            shared_bytes: shared as u32,
            local_bytes: program.local_bytes,
            consts: code.constant_rows(&launch.params),
            params: launch.params.clone(),
            stream: launch.stream,
            name: entry.as_str().into(),
            code: Arc::clone(&code),
        };
        self.next_grid += 1;
        self.kernels.push(KernelReport {
            name: entry.clone(),
            grid_id: kernel.grid_id,
            stream: kernel.stream,
            grid: kernel.grid,
            block: kernel.block,
            functional: launch.functional,
            registers_per_thread: program.registers_per_thread,
            shared_bytes: kernel.shared_bytes,
            resident_blocks: resident,
            occupancy_limit: by.to_string(),
            notes: program.notes.clone(),
            clean_up: program.clean_up,
            ..KernelReport::default()
        });
        let grid_id = kernel.grid_id;
        self.queue.push((Arc::new(kernel), launch.functional));
        self.outputs.push(ContextOutput::Started(grid_id));
        Ok(grid_id)
    }
}
