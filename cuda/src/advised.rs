//! Advice about pages of memory of both sides, as it is kept.

use std::collections::BTreeMap;

use crate::shared::PAGE;

/// `cudaInvalidDeviceId`.
pub const NONE: i32 = -2;
/// `cudaCpuDeviceId`.
pub const HOST: i32 = -1;

/// What is known of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// It is read more than written.
    pub read_mostly: bool,
    /// Where it should be.
    pub preferred: i32,
    /// The device accesses it.
    pub accessed_by_device: bool,
    /// The host accesses it.
    pub accessed_by_host: bool,
    /// Where it was brought last.
    pub prefetched: i32,
}

/// Nothing is known of a page.
pub const UNKNOWN: Page = Page {
    read_mostly: false,
    preferred: NONE,
    accessed_by_device: false,
    accessed_by_host: false,
    prefetched: NONE,
};

/// Advice by page.
#[derive(Debug, Default)]
pub struct Advice {
    /// They.
    pub pages: BTreeMap<u64, Page>,
}

impl Advice {
    /// Memory was freed: what comes next at its addresses has no advice.
    pub fn forget(&mut self, at: u64, bytes: u64) {
        let pages: Vec<u64> =
            self.pages.range(at / PAGE..(at + bytes).div_ceil(PAGE)).map(|(page, _)| *page).collect();
        for page in pages {
            self.pages.remove(&page);
        }
    }
}
