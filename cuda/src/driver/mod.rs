//! CUDA's driver API: what programs call that do not use the runtime, and what the runtime calls that nvcc links
//! statically. Devices, memory, modules, launches, streams and events are those of the runtime API: its functions here
//! check contexts and handles, and pass on.

#[macro_use]
pub mod call;

pub mod arrays;
pub mod batches;
pub mod captures;
pub mod context;
pub mod device;
pub mod entries;
pub mod errors;
pub mod graph_nodes;
pub mod graph_parameters;
pub mod graphs;
pub mod integrity;
pub mod jit;
pub mod launch;
pub mod link;
pub mod linker;
pub mod memory;
pub mod modules;
pub mod nvjitlink;
pub mod pointers;
pub mod pools;
pub mod state;
pub mod stream_values;
pub mod streams;
pub mod tables;
pub mod tensor_maps;
pub mod unsupported;
pub mod virtual_memory;
