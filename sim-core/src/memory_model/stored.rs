//! What threads have stored to shared memory that other proxies may read; see [`proxies`](super::proxies).

use sim_frontend::form::BulkWay;
use sim_frontend::program::{Extra, Program};
use sim_memory::line::ByteMask;

use super::lines::Transfer;

/// What threads have stored to a line.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    /// Fences of the cluster before.
    pub fences: u32,
    /// The bytes since.
    pub bytes: ByteMask,
    /// The last access.
    pub last: Transfer,
}

/// True if asynchronous operations of a program read shared memory.
pub(super) fn reads_shared(program: &Program) -> bool {
    let copies = |way: BulkWay| matches!(way, BulkWay::Store | BulkWay::Between);
    program.ops.iter().any(|op| match &op.extra {
        Extra::Bulk(facts) => copies(facts.way),
        Extra::Tensor(facts) => copies(facts.way),
        Extra::Wgmma(_) => true,
        _ => false,
    })
}
