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
    /// The trace.
    #[arg(short = 'o', long = "output", value_name = "FILE", default_value = "trace.json")]
    pub output: PathBuf,
    /// SMs whose warps, issues and accesses are in it, or `all`; there are blocks of every SM.
    #[arg(long, value_name = "LIST", default_value = "0", value_delimiter = ',')]
    pub sms: Vec<String>,
    /// First core cycle of it.
    #[arg(long, value_name = "CYCLE", default_value_t = 0)]
    pub from: u64,
    /// The first core cycle behind it.
    #[arg(long, value_name = "CYCLE", default_value_t = u64::MAX, hide_default_value = true)]
    pub to: u64,
    /// Most events, all SMs together; an event takes some 100 bytes of the file.
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub events: u64,
}
