//! What references see, and what they give.

use std::fmt;

use sim_frontend::workload::{HostBuffer, Params};

/// What a reference sees: first contents of the buffers, parameters.
pub struct Inputs<'a> {
    /// Makes the first contents of a buffer by its name: made where they are read, since large
    /// buffers that stay would double what a run keeps in memory.
    pub buffers: &'a dyn Fn(&str) -> Result<HostBuffer, ReferenceError>,
    /// Parameters by name.
    pub params: &'a Params,
}

/// A reference cannot be computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceError(pub String);

impl fmt::Display for ReferenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A reference.
pub type Reference = fn(&Inputs<'_>) -> Result<HostBuffer, ReferenceError>;

impl Inputs<'_> {
    /// A parameter as a count.
    pub fn count(&self, name: &str) -> Result<usize, ReferenceError> {
        Ok(self.number(name)? as usize)
    }

    /// A parameter.
    pub fn number(&self, name: &str) -> Result<f64, ReferenceError> {
        self.params
            .get(name)
            .map(|value| value.as_f64())
            .ok_or_else(|| ReferenceError(format!("no parameter `{name}`")))
    }

    /// A buffer.
    pub fn buffer(&self, name: &str) -> Result<HostBuffer, ReferenceError> {
        (self.buffers)(name)
    }

    /// A buffer of f32.
    pub fn f32s(&self, name: &str) -> Result<Vec<f32>, ReferenceError> {
        self.buffer(name)?.as_f32().ok_or_else(|| ReferenceError(format!("`{name}` is not f32")))
    }

    /// A buffer of i32 or u32.
    pub fn i32s(&self, name: &str) -> Result<Vec<i32>, ReferenceError> {
        self.buffer(name)?.as_i32().ok_or_else(|| ReferenceError(format!("`{name}` is not 32 bits wide")))
    }

    /// A buffer of u32.
    pub fn u32s(&self, name: &str) -> Result<Vec<u32>, ReferenceError> {
        self.buffer(name)?.as_u32().ok_or_else(|| ReferenceError(format!("`{name}` is not u32")))
    }

    /// A buffer of f64.
    pub fn f64s(&self, name: &str) -> Result<Vec<f64>, ReferenceError> {
        self.buffer(name)?.as_f64().ok_or_else(|| ReferenceError(format!("`{name}` is not f64")))
    }
}
