//! A CUDA program that a C compiler builds, and running it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::{command, text};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The program and the library that the workspace's tests build.
pub fn built() -> Option<(PathBuf, PathBuf)> {
    let own = std::env::current_exe().expect("this test");
    let folders = [own.as_path(), Path::new(env!("CARGO_BIN_EXE_warpsim"))]
        .map(|path| path.parent().expect("a folder"));
    let library =
        folders.map(|folder| folder.join("libwarpsim_cuda.so")).into_iter().find(|path| path.is_file());
    let Some(library) = library else {
        eprintln!("skipped: libwarpsim_cuda.so is not built: cargo test --workspace");
        return None;
    };
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("launches-{}", std::process::id()));
    if !program.exists() {
        let other =
            tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a file").into_temp_path();
        let mut cc = Command::new("cc");
        cc.arg("-w").arg("-o").arg(&other).arg(format!("{ROOT}/tests/programs/launches.c")).arg("-ldl");
        match cc.output() {
            Ok(output) => assert!(output.status.success(), "{}", text(&output.stderr)),
            Err(_) => {
                eprintln!("skipped: there is no C compiler");
                return None;
            }
        }
        // Tests that run at the same time build it once each; the last name stands.
        other.persist(&program).expect("it is renamed");
    }
    Some((program, library))
}

/// Runs the command, which finds the library.
pub fn ran(library: &Path, words: &[&str]) -> Output {
    command(words).env("WARPSIM_CUDA_LIB", library).output().expect("the command starts")
}

/// What it printed, where it succeeded.
pub fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}
