//! CUDA's runtime API and driver API on a simulated device. A program that loads CUDA's runtime or its driver as a
//! shared library is given this one instead; `warpsim cuda` sees to that. How it works and what it supports:
//! `docs/cuda.md`.
//!
//! Every function of the C interface enters by [`call::enter`]: one lock, no panic that crosses the interface, errors
//! kept as CUDA keeps them.

#![allow(non_snake_case, reason = "the names are CUDA's")]
#![allow(unsafe_code, reason = "the interface is C's")]
#![allow(clippy::missing_safety_doc, reason = "what pointers must be is in CUDA's manual")]

#[macro_use]
pub mod call;
#[macro_use]
pub mod driver;

pub mod advice;
pub mod advised;
pub mod arrays;
pub mod boxes;
pub mod captures;
pub mod checkpoint;
pub mod closed;
pub mod conditions;
pub mod device;
pub mod entry_points;
pub mod error;
pub mod errors;
pub mod event;
pub mod events;
pub mod fatbin;
pub mod graph;
pub mod graph_blocks;
pub mod graph_memory;
pub mod graph_nodes;
pub mod graph_parameters;
pub mod graph_use;
pub mod graphs;
pub mod images;
pub mod ipc;
pub mod launch;
pub mod libraries;
pub mod limits;
pub mod mappings;
pub mod memory;
pub mod occupancy;
pub mod one_device;
pub mod pointers;
pub mod pool_list;
pub mod pools;
pub mod properties;
pub mod record;
pub mod register;
pub mod registry;
pub mod runtime;
pub mod shared;
pub mod stream_attributes;
pub mod stream_list;
pub mod streams;
pub mod symbols;
pub mod textures;
pub mod unsupported;
pub mod user_objects;
pub mod virtual_memory;
