//! Launches: checks against the limits of the chip and the entry, and the creation of the grid (CS §5.1.2,
//! §5.7.2).

use std::sync::Arc;

use sim_frontend::chip::{InstructionCacheSpec, Needs};
use sim_frontend::diagnostic::Diagnostic;
use sim_frontend::load::Assembler;
use sim_frontend::program::{Extra, OpClass, Program};

use super::{Context, ContextOutput};
use crate::clusters::{Refused, Wanted, cluster_of};
use crate::code::{Code, Fixed};
use crate::error::SimError;
use crate::grid::Kernel;
use crate::report::KernelReport;

/// A kernel launch.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Index of the module in the context.
    pub module: usize,
    /// Name of the kernel.
    pub entry: String,
    /// Grid size in blocks.
    pub grid: [u32; 3],
    /// Block size in threads.
    pub block: [u32; 3],
    /// Dynamic shared memory per block, in bytes.
    pub dynamic_shared: u32,
    /// Stream index; kernels of one stream run in order.
    pub stream: u32,
    /// The parameter block: the bytes of all parameters at their offsets.
    pub params: Vec<u8>,
    /// True to run in functional mode, without timing.
    pub functional: bool,
    /// Blocks of a cluster by axis; where none are given, as the kernel says, or each block is a cluster.
    pub cluster: Option<[u32; 3]>,
    /// Clusters may have more blocks than every chip allows.
    pub non_portable_cluster: bool,
}

/// The resources a program needs of a chip, independent of the launch.
fn needs(program: &Program) -> Needs {
    let executed = program.ops.iter().zip(&program.info).filter(|(op, _)| op.class != OpClass::Unsupported);
    Needs {
        capability: executed.map(|(_, info)| info.min_sm).max().unwrap_or(0),
        instructions: program.ops.len() as u64,
        registers: program.registers_per_thread,
        shared: program.shared_bytes.into(),
        local: program.local_bytes.into(),
        ..Needs::default()
    }
}

impl Context {
    pub(super) fn code(&mut self, module: usize, entry: &str) -> Result<Arc<Code>, SimError> {
        let Some(loaded) = self.modules.get_mut(module) else {
            return Err(SimError::input("module", "there is no such module"));
        };
        if let Some((_, code)) = loaded.codes.iter().find(|(name, _)| name == entry) {
            return Ok(Arc::clone(code));
        }
        let flow = self.options.policy.policy.flow();
        let addresses = &loaded.addresses;
        let find = |name: &str| addresses.iter().find(|(n, _)| n == name).map(|(_, at)| *at);
        // Recursion gets what CUDA gives a thread by default.
        const STACK_BYTES: u32 = 8 << 10;
        let (registers, passes) = (self.chip.limits.max_reg_size, self.chip.assembler);
        let assembler = Assembler { stack_bytes: STACK_BYTES, registers, passes };
        let program = loaded.module.program_for(entry, &find, flow, assembler);
        let program = program.map_err(SimError::Input)?;
        let newer = self.check_program(&program)?;
        self.used_newer_isa |= newer;
        let cache = self.chip.sm.instruction_cache.as_ref();
        let code = Arc::new(Code::new(
            program,
            &self.costs,
            self.chip.tensor.as_ref(),
            Fixed {
                constant: self.chip.memory.constant.hit_latency,
                crossing: self.chip.sm.pipe_crossing,
                guard: self.chip.sm.guard_latency,
                line: cache.map_or(0, InstructionCacheSpec::instructions),
                first_line: self.lines,
            },
            self.set,
        ));
        self.lines += u64::from(code.line_count());
        self.modules[module].codes.push((entry.to_string(), Arc::clone(&code)));
        Ok(code)
    }

    /// Refuses a program with instructions that the chip lacks or the simulator does not execute, or that is
    /// too long.
    fn check_program(&self, program: &Program) -> Result<bool, SimError> {
        let chip = self.chip.capability();
        let mut newer = false;
        let mut errors = program.not_executed();
        let needs = needs(program);
        for (pc, (op, info)) in program.ops.iter().zip(&program.info).enumerate() {
            if op.class != OpClass::Unsupported && info.min_sm > chip {
                newer = true;
                if !self.options.allow_newer_isa {
                    let (major, minor) = (info.min_sm / 10, info.min_sm % 10);
                    let error = Diagnostic::error(
                        "isa",
                        format!(
                            "`{}` needs compute capability {major}.{minor}; {} has {}",
                            program.text(pc as u32),
                            self.chip.name,
                            self.chip.compute_capability
                        ),
                    )
                    .help("--allow-newer-isa runs it anyway")
                    .needs(needs.clone());
                    errors.push(program.placed(error, info));
                }
            }
        }
        for (op, info) in program.ops.iter().zip(&program.info) {
            let tensor = self.chip.tensor.as_ref();
            let (types, cost, who, key) = match &op.extra {
                Extra::Mma(mma) => {
                    (mma.matrix.types, tensor.and_then(|tensor| tensor.cost(mma)), "", "tensor.rates")
                }
                Extra::Wgmma(wgmma) => {
                    let cost = tensor.and_then(|tensor| tensor.warpgroup_cost(wgmma));
                    (wgmma.matrix.types, cost, " by a warpgroup", "tensor.wgmma.rates")
                }
                _ => continue,
            };
            if cost.is_none() {
                let message = format!(
                    "{} has no tensor cores for products of .{} and .{}{who}",
                    self.chip.name,
                    types[1].name(),
                    types[2].name()
                );
                let help = format!("add its rate to `{key}` of the chip");
                let error = Diagnostic::error("tensor", message).help(&help);
                errors.push(program.placed(error, info));
            }
        }
        if program.ops.len() as u64 > self.chip.limits.max_prog_size {
            let message = format!(
                "the kernel has {} instructions; at most {} are allowed (MaxProgSize)",
                program.ops.len(),
                self.chip.limits.max_prog_size
            );
            errors.push(Diagnostic::error("MaxProgSize", message).needs(needs));
        }
        if errors.is_empty() { Ok(newer) } else { Err(SimError::Input(errors)) }
    }

    /// Queues a launch in stream order. The grid gets an index that is unique in the context [cio-start], is
    /// created with all its blocks unscheduled [sched-newGrid], and joins the context's grids [ctx-start]
    /// [ctx-in].
    ///
    /// # Errors
    /// The launch exceeds a limit of the chip or does not match the entry; the diagnostic names which.
    pub fn launch(&mut self, launch: &Launch) -> Result<u32, SimError> {
        let code = self.code(launch.module, &launch.entry)?;
        let program = &code.program;
        let limits = &self.chip.limits;
        let entry = &launch.entry;
        let threads: u64 = launch.block.iter().map(|n| u64::from(*n)).product();
        let blocks: u128 = launch.grid.iter().map(|n| u128::from(*n)).product();
        let shared = u64::from(program.shared_bytes) + u64::from(launch.dynamic_shared);
        let refuse = |limit: &str, message: String| {
            Err(SimError::input("launch", format!("{entry}: {message} ({limit})")))
        };
        // What another chip may allow.
        let beyond = |limit: &str, message: String| {
            let needs = Needs { grid: launch.grid, block: launch.block, shared, ..needs(program) };
            let error = Diagnostic::error("launch", format!("{entry}: {message} ({limit})")).needs(needs);
            Err(SimError::Input(vec![error]))
        };
        for (axis, name) in ["x", "y", "z"].iter().enumerate() {
            if launch.grid[axis] == 0 {
                return refuse("MaxGridSize", format!("the grid size in {name} is 0; the minimum is 1"));
            }
            if launch.grid[axis] > limits.max_grid_size[axis] {
                return beyond(
                    "MaxGridSize",
                    format!(
                        "the grid has {} blocks in {name}; at most {} are allowed",
                        launch.grid[axis], limits.max_grid_size[axis]
                    ),
                );
            }
            if launch.block[axis] > limits.max_block_size[axis] {
                return beyond(
                    "MaxBlockSize",
                    format!(
                        "the block has {} threads in {name}; at most {} are allowed",
                        launch.block[axis], limits.max_block_size[axis]
                    ),
                );
            }
        }
        let most = limits.max_threads_per_block;
        let count = || format!("the block has {threads} threads; 1 to {most} are allowed");
        if threads == 0 {
            return refuse("MaxThreadsPerBlock", count());
        }
        if threads > u64::from(most) {
            return beyond("MaxThreadsPerBlock", count());
        }
        if blocks > u128::from(limits.max_blocks_per_grid) {
            let most = limits.max_blocks_per_grid;
            return beyond(
                "MaxBlocksPerGrid",
                format!("the grid has {blocks} blocks; at most {most} are allowed"),
            );
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
                format!("the kernel allows blocks of at most {max:?} threads, not {:?}", launch.block),
            );
        }
        if launch.params.len() != program.param_bytes as usize {
            return refuse(
                "parameters",
                format!(
                    "{} bytes of parameters are given, but the kernel takes {}",
                    launch.params.len(),
                    program.param_bytes
                ),
            );
        }
        if program.registers_per_thread > limits.max_reg_size {
            return beyond(
                "MaxRegSize",
                format!(
                    "a thread needs {} registers; at most {} are allowed",
                    program.registers_per_thread, limits.max_reg_size
                ),
            );
        }
        let most = self.chip.shared_of_block();
        if shared > u64::from(most) {
            return beyond(
                "SharedMemSize",
                format!(
                    "a block needs {shared} bytes of shared memory; the limit on {} is {most} bytes",
                    self.chip.name
                ),
            );
        }
        let local = u64::from(program.local_bytes);
        if local > limits.local_mem_size {
            return beyond(
                "LocalMemSize",
                format!(
                    "a thread needs {local} bytes of local memory; at most {} are allowed",
                    limits.local_mem_size
                ),
            );
        }
        let of_a_block = self.chip.block_needs(threads as u32, program.registers_per_thread, shared as u32);
        let (resident, by) = self.chip.occupancy(of_a_block);
        if resident == 0 {
            return beyond(
                "RegFileSize",
                format!(
                    "a block needs {} registers and {} bytes of shared memory, more than an SM has: {by}",
                    of_a_block.registers, of_a_block.shared
                ),
            );
        }
        let cluster = self.cluster_of(launch, program, resident)?;
        let kernel = Kernel {
            cluster: cluster.unwrap_or([1; 3]),
            explicit_cluster: cluster.is_some(),
            grid_id: self.next_grid,
            grid: launch.grid,
            block: launch.block,
            warp_size: limits.warp_size,
            dynamic_shared: launch.dynamic_shared,
            shared_bytes: shared as u32,
            local_bytes: program.local_bytes,
            consts: code.constant_rows(&launch.params),
            params: launch.params.clone(),
            workspace: self.workspace,
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

    /// Blocks of a cluster by axis, where the kernel or the launch gives them. `resident` blocks fit an SM.
    fn cluster_of(
        &self,
        launch: &Launch,
        program: &Program,
        resident: u32,
    ) -> Result<Option<[u32; 3]>, SimError> {
        let wanted = Wanted {
            grid: launch.grid,
            cluster: launch.cluster,
            non_portable: launch.non_portable_cluster,
            resident,
            shared: program.shared_bytes.saturating_add(launch.dynamic_shared),
        };
        cluster_of(&self.chip, &program.bounds, &wanted).map_err(|Refused { limit, message }| {
            SimError::input("launch", format!("{}: {message} ({limit})", launch.entry))
        })
    }
}
