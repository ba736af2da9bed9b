//! What has to be performed before an operation issues.

use sim_memory::vocabulary::LaneMask;

use crate::block::Block;
use crate::code::Drain;
use crate::warp::Warp;

/// Accesses of `mask` have to be performed before.
#[inline]
pub fn drains(warp: &Warp, blocks: &[Option<Block>], drain: Drain, mask: LaneMask) -> bool {
    match drain {
        Drain::None | Drain::Fragments => false,
        Drain::Block => warp.outstanding.any(mask, false),
        Drain::Device => {
            let writes = blocks.get(warp.block).and_then(Option::as_ref).map(|block| &block.writes);
            warp.outstanding.any(mask, true)
                || writes.is_some_and(|writes| {
                    !writes.are_performed(warp.awaited_writes.unwrap_or_else(|| writes.begun()))
                })
        }
        Drain::Volatile => warp.outstanding.any_volatile(mask) || warp.outstanding.any_acquire(mask),
        Drain::Acquires => warp.outstanding.any_acquire(mask),
        Drain::Puts(newest, read) => {
            warp.copies.as_ref().is_some_and(|copies| copies.awaits_puts(mask, newest, read))
        }
        Drain::Copies(newest) => warp.copies.as_ref().is_some_and(|copies| copies.awaits(mask, newest)),
    }
}
