//! warpsim: a GPU architecture simulator. Real PTX in, a cycle-level answer out.
//!
//! A [`request::Request`] says what is simulated; a [`run::Simulation`] is one whose files have been found and
//! read:
//!
//! ```
//! use warpsim::request::{Program, Request};
//! use warpsim::run::Simulation;
//!
//! let mut request = Request::new(Program::named("vecadd").expect("a workload"));
//! request.chip = Some("gtx480".to_string());
//! let simulation = Simulation::new(request).expect("it fits the chip");
//! let (report, _, stopped) = simulation.run().expect("its files are right");
//! assert!(stopped.is_none() && report.result == "pass");
//! assert!(report.device.cycles > 0);
//! ```

mod baseline;
mod chip_for;
pub mod cli;
pub mod compare;
pub mod configs;
pub mod console;
mod contents;
pub mod cuda;
pub mod device;
mod digest;
pub mod figures;
mod files;
pub mod find;
pub mod findings;
mod hex;
pub mod host;
pub mod interrupt;
mod kernels;
pub mod known;
mod listing;
mod litmus;
mod machine;
pub mod memory;
pub mod metrics;
mod npy;
pub mod program;
pub mod ptx_file;
mod reference;
pub mod report;
pub mod report_file;
pub mod request;
pub mod run;
pub mod sanitize;
mod schema;
pub mod shipped;
pub mod simulate;
pub mod study;
pub mod summary;
pub mod sweep;
mod trace;
mod validation;
mod verify;
pub mod work;
pub mod zstd;

/// The version, with the commit where it is known.
pub const VERSION: &str = env!("WARPSIM_VERSION");
