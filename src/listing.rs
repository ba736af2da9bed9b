//! The text of a program beside the counts of its lines: its PTX, and what it was compiled from.

use std::path::Path;

use serde::Serialize;
use sim_frontend::diagnostic::Source;
use sim_frontend::ptx::parser::parse;

use crate::files;

/// A file with its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Text {
    /// Number of the `.file`; 0 for the PTX.
    pub index: u32,
    /// Its name.
    pub file: String,
    /// Its text.
    pub text: String,
}

/// The texts of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listing {
    /// The PTX.
    pub ptx: Text,
    /// The sources its `.file` directives name, as far as they lie beside the PTX: a program names
    /// no other file of the host into a report.
    pub sources: Vec<Text>,
}

impl Listing {
    /// That of a PTX file in a folder.
    pub fn of(ptx: &Source, folder: &Path) -> Self {
        let name = |path: &str| {
            Path::new(path).file_name().map_or(path.to_string(), |name| name.to_string_lossy().into_owned())
        };
        let files = parse(ptx, false).map(|module| module.files).unwrap_or_default();
        let read = |(index, path): (u32, &str)| {
            let file = name(path);
            let text = files::read_text(&folder.join(&file)).ok()?;
            Some(Text { index, file, text })
        };
        let sources = files.into_iter().filter_map(read).collect();
        Self { ptx: Text { index: 0, file: name(&ptx.name), text: ptx.text.to_string() }, sources }
    }
}
