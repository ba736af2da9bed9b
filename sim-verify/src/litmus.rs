//! Litmus tests in the format that herd and Dat3M use for PTX.
//!
//! ```text
//! PTX NAME
//! "what it is about"          any number of strings and of lines KEY=VALUE
//! { x=0; P0:r0=0; y @ constant aliases x; P1:r2=&x; }
//! P0@cta 0,gpu 0       | P1@cta 1,gpu 0       ;
//! st.relaxed.gpu x, 1  | ld.acquire.gpu r0, x ;
//! exists (P1:r0 == 1)
//! ```

mod condition;
pub mod facts;
mod instruction;
mod parser;
pub mod program;
mod question;
mod words;

use sim_frontend::diagnostic::{Diagnostic, Source};

pub use condition::{Atom, Condition, Quantifier};
pub use program::Test;

impl Test {
    /// Reads a test.
    ///
    /// # Errors
    /// The text is not a litmus test for PTX.
    pub fn parse(name: &str, text: &str) -> Result<Self, Diagnostic> {
        parser::parse(&Source::new(name, text))
    }
}

#[cfg(test)]
mod tests;
