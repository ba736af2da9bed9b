//! The memory environment of CS chapter 4: addresses, bytes, caches, memory programs, DRAM.
//!
//! This crate knows no PTX, and no warps beyond lane masks. To act on registers it calls
//! [`RegisterPort`](port::RegisterPort), which the device implements.

pub mod access;
pub mod address_space;
pub mod atomics;
pub mod cache;
pub mod coalescing;
pub mod device_memory;
mod divide;
pub mod dram;
mod event_queue;
pub mod fault;
mod held_lines;
pub mod hundredths;
pub mod line;
pub mod links;
pub mod mapping;
pub mod messages;
pub mod observation;
pub mod occupancy;
pub mod partition;
pub mod port;
pub mod priority;
pub mod programs;
pub mod recent_lines;
pub mod shared;
pub mod sm_memory;
pub mod soft_float;
pub mod spec;
pub mod tlb;
pub mod vocabulary;
