//! Options of `trace`.

use std::path::PathBuf;

use clap::Args;

use super::run::RunArgs;

/// Options of `trace`.
#[derive(Args, Clone, Debug)]
pub struct TraceArgs {
    /// The run.
    #[command(flatten)]
    pub run: RunArgs,
    /// Output file.
    #[arg(short = 'o', long = "output", value_name = "FILE", default_value = "trace.json")]
    pub output: PathBuf,
    /// SMs to trace in detail (warps, issues, accesses), or `all`. Blocks are traced on every SM.
    #[arg(long, value_name = "LIST", default_value = "0", value_delimiter = ',')]
    pub sms: Vec<String>,
    /// First core cycle of the trace.
    #[arg(long, value_name = "CYCLE", default_value_t = 0)]
    pub from: u64,
    /// Core cycle at which the trace ends (exclusive).
    #[arg(long, value_name = "CYCLE", default_value_t = u64::MAX, hide_default_value = true)]
    pub to: u64,
    /// Maximum number of events over all SMs; an event takes about 100 bytes.
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub events: u64,
}
