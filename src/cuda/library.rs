//! The library that is loaded into programs.

use std::path::PathBuf;
use std::sync::OnceLock;

use sim_frontend::diagnostic::Diagnostic;

use crate::digest::hash;
use crate::program;

/// The variable that names the library.
const LIBRARY: &str = "WARPSIM_CUDA_LIB";
/// Its file name.
const LIBRARY_NAME: &str = "libwarpsim_cuda.so";

/// Where it lies, and the digest of its contents: it has the simulator that runs in programs.
///
/// # Errors
/// It is not there or cannot be read, with the way out.
pub fn find() -> Result<(PathBuf, &'static str), Vec<Diagnostic>> {
    static DIGEST: OnceLock<String> = OnceLock::new();
    let wrong = |message: String| {
        let help = format!(
            "`cargo build --release` builds it beside the command; {LIBRARY} names it where it lies elsewhere"
        );
        vec![Diagnostic::error("cuda", message).help(help)]
    };
    let named = std::env::var_os(LIBRARY).map(PathBuf::from);
    let beside = || {
        let program = program::file().ok()?;
        let folder = program.parent()?;
        // Tests are one folder below.
        let places = [folder.join(LIBRARY_NAME), folder.join("..").join("lib").join(LIBRARY_NAME)];
        places.into_iter().find(|path| path.is_file())
    };
    let path = match named {
        Some(path) => path,
        None => beside().ok_or_else(|| wrong(format!("{LIBRARY_NAME} is not beside the command")))?,
    };
    let unread = |error: std::io::Error| wrong(format!("{}: {error}", path.display()));
    let path = path.canonicalize().map_err(unread)?;
    if let Some(digest) = DIGEST.get() {
        return Ok((path, digest));
    }
    let bytes = std::fs::read(&path).map_err(unread)?;
    Ok((path, DIGEST.get_or_init(|| hash(&[&bytes]))))
}
