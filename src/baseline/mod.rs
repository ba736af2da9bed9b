//! `warpsim baseline`: a suite of runs whose simulated figures must stay what they are, and whose
//! host speed must stay near what it was.

mod check;
mod history;
mod record;
mod suite;

pub use check::check;
pub use history::history;
pub use record::record;
