//! Where a file has what it says.

use std::fmt;

use crate::diagnostic::Span;

/// Where a file has something. It is no part of what is simulated: places are all equal.
#[derive(Clone, Copy, Default)]
pub struct KeySpan(pub Option<Span>);

impl PartialEq for KeySpan {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for KeySpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("_")
    }
}
