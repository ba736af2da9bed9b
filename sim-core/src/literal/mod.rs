//! Chapter 5 of CS written down literally: lists, case distinctions and side conditions as they
//! are printed, for reading. Nothing here is fast, knows of time, or shares code with the pipeline.
//! [`follow`] sees to it that each step of the pipeline is a step of this.
//!
//! Two things are parameters of the chapter and come from elsewhere: the abstract function `dop`,
//! which is a lane function on one lane, and what memory gives to a load, which is chapter 4's.

mod barrier;
mod block;
mod crs;
mod follow;
mod grid;
mod host;
mod memory;
mod registers;
mod safety;
mod tests;
mod thread;
mod warp;

pub(crate) use follow::{Follower, follows, observe};

/// No rule applies: the rule whose side condition failed, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stuck(String);

impl Stuck {
    fn new<T>(rule: &str, why: impl Into<String>) -> Result<T, Self> {
        Err(Self(format!("({rule}) {}", why.into())))
    }
}
