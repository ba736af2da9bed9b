//! What tensor cores did.

use std::collections::BTreeMap;

use serde::Serialize;
use sim_frontend::chip::TensorType;

/// Products of matrices on one SM.
#[derive(Clone, Debug, Default, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct TensorCounts {
    /// Multiply-adds by type, in the order of [`TensorType::ALL`].
    multiply_adds: [u64; TensorType::ALL.len()],
    /// Core cycles for which products hold tensor cores, summed over these.
    busy_cycles: u64,
}

impl TensorCounts {
    /// A warp's product, or its part of one, holds a tensor core for so many cycles.
    pub fn count(&mut self, (ty, multiply_adds): (TensorType, u32), cycles: u16) {
        self.multiply_adds[ty as usize] += u64::from(multiply_adds);
        self.busy_cycles += u64::from(cycles);
    }

    /// Adds them to those of a report; `unit_cycles` are the core cycles with a resident warp, by the tensor cores of the SM.
    pub fn add_to(&self, report: &mut Option<TensorReport>, unit_cycles: u64) {
        if self.busy_cycles == 0 {
            return;
        }
        let sum = report.get_or_insert_default();
        sum.busy_cycles += self.busy_cycles;
        sum.active_cycles += unit_cycles;
        for (ty, count) in TensorType::ALL.into_iter().zip(self.multiply_adds).filter(|(_, count)| *count > 0)
        {
            sum.multiply_adds += count;
            *sum.by_type.entry(ty.name()).or_default() += count;
        }
    }
}

/// What tensor cores did, over the SMs that had products.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, borsh::BorshSerialize, borsh::BorshDeserialize)]
pub struct TensorReport {
    /// Multiply-adds of products; of sparse ones, of the elements that are stored.
    pub multiply_adds: u64,
    /// These by type, as chip files name it; types that did not occur are left out.
    #[borsh(deserialize_with = "crate::state::read_names")]
    pub by_type: BTreeMap<&'static str, u64>,
    /// Core cycles for which products held tensor cores, summed over these.
    pub busy_cycles: u64,
    /// Core cycles with a resident warp, summed over tensor cores.
    pub active_cycles: u64,
}
