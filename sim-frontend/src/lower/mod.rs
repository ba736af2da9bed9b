//! Lowering: from the syntax tree to the program environment, by the seven transformations of
//! CS §5.1.3, one file each, then [`load`](crate::load).

#[cfg(test)]
mod assembled;
pub mod balance;
mod banks;
pub mod cfg;
pub mod clean_up;
pub mod coalesce;
pub mod combine;
pub mod conditions;
pub mod constants;
pub mod convergence;
pub mod copies;
pub mod divergence;
pub mod fragments;
mod hoist;
pub mod ir;
pub mod linear_scan;
mod live_ranges;
pub mod liveness;
pub mod narrow;
pub mod parameters;
pub mod predicate;
mod rename;
pub mod scale;
pub mod schedule;
mod scratch;
pub mod select;
pub mod sink;
pub mod spill;
pub mod stack_consistency;
pub mod straighten;
pub mod tf1_validate;
pub mod tf2_fold_constants;
pub mod tf3_stack;
pub mod tf4_access_sizes;
pub mod tf5_explicit_exit;
pub mod tf6_control_flow;
pub mod tf7_unique_names;
pub mod translate;
pub mod uniform;
pub mod unmasked;
pub mod unroll;
pub mod widen;
pub(crate) mod work;
