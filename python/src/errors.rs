//! What goes wrong, as exceptions: those of `warpsim/errors.py`.

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use serde_json::{Value, json};
use sim_core::error::{Location, SimError};
use sim_frontend::diagnostic::Diagnostic;

/// What went wrong where no Python is.
pub enum Wrong {
    /// Bad input.
    Input(Vec<Diagnostic>),
    /// What stopped a simulation.
    Stopped(SimError),
    /// Words without a place.
    Words(String),
}

impl From<Vec<Diagnostic>> for Wrong {
    fn from(errors: Vec<Diagnostic>) -> Self {
        Self::Input(errors)
    }
}

impl From<SimError> for Wrong {
    fn from(error: SimError) -> Self {
        match error {
            SimError::Input(errors) => Self::Input(errors),
            other => Self::Stopped(other),
        }
    }
}

impl From<String> for Wrong {
    fn from(words: String) -> Self {
        Self::Words(words)
    }
}

/// A diagnostic as its attributes.
fn attributes(error: &Diagnostic) -> Value {
    let position = || {
        let (source, (span, _)) = (error.source.as_ref()?, error.labels.first()?);
        let (line, column) = source.position(span.start);
        Some((source.name.to_string(), line, column))
    };
    let (file, line, column) = match position() {
        Some((file, line, column)) => (Some(file), Some(line), Some(column)),
        None => (None, None, None),
    };
    json!({
        "code": error.code, "message": error.message, "help": error.help, "file": file, "line": line,
        "column": column, "text": error.render(),
    })
}

impl Wrong {
    /// The exception.
    pub fn raised(self, py: Python<'_>) -> PyErr {
        let (function, facts) = match self {
            Self::Input(errors) => ("of_input", errors.iter().map(attributes).collect()),
            Self::Words(words) => ("of_words", Value::String(words)),
            Self::Stopped(SimError::Interrupted) => return PyKeyboardInterrupt::new_err("interrupted"),
            Self::Stopped(error) => ("of_stop", stopped(&error)),
        };
        let made = py
            .import("warpsim.errors")
            .and_then(|errors| errors.getattr(function)?.call1((facts.to_string(),)));
        match made {
            Ok(error) => PyErr::from_value(error),
            Err(error) => error,
        }
    }
}

/// What stopped a simulation, as attributes.
fn stopped(error: &SimError) -> Value {
    let place = |place: Option<&Location>| serde_json::to_value(place).unwrap_or_default();
    let text = error.to_string();
    match error {
        SimError::Stopped(fault) => json!({
            "text": text, "kind": fault.kind, "rule": fault.rule, "message": fault.message,
            "place": place(Some(&fault.place)),
        }),
        SimError::MaxCycles { place: at, .. } | SimError::MaxInstructions { place: at, .. } => {
            json!({"text": text, "kind": "limit", "message": text, "place": place(at.as_deref())})
        }
        _ => json!({"text": text, "kind": "limit", "message": text, "place": null}),
    }
}
