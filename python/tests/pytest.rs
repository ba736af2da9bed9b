//! Runs the tests of the package, `python/tests`, with pytest, on the module as the workspace's tests build it.
//!
//! `WARPSIM_PYTHON` names a Python (3.11 or later) that has numpy and pytest; without it, `python3` is tried. Where neither
//! has them the tests are skipped, which is printed. A name as the first argument selects tests, as `-k` of pytest does.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::{env, fs};

/// The name of the module in the package: with the stable ABI.
const MODULE: &str = "_warpsim.abi3.so";
/// What pytest returns where no test was selected.
const NONE_SELECTED: i32 = 5;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let named = env::var("WARPSIM_PYTHON").ok();
    let python = named.as_deref().unwrap_or("python3");
    let needs = "import sys, numpy, pytest; sys.exit(sys.version_info < (3, 11))";
    let found = Command::new(python).args(["-c", needs]).output();
    if !found.is_ok_and(|output| output.status.success()) {
        assert!(named.is_none(), "WARPSIM_PYTHON: {python} is no Python 3.11 or later with numpy and pytest");
        println!("skipped: WARPSIM_PYTHON does not name a Python with numpy and pytest");
        return ExitCode::SUCCESS;
    }
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let package = staged();
    let mut pytest = Command::new(python);
    // -P: the folder that cargo runs tests in has the package without its module.
    pytest.args(["-P", "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]).arg(tests);
    if let Some(name) = arguments.iter().find(|argument| !argument.starts_with('-')) {
        pytest.args(["-k", name]);
    }
    let status = pytest.env("PYTHONPATH", package).env("PYTHONDONTWRITEBYTECODE", "1").status();
    match status.expect("pytest starts").code() {
        Some(0 | NONE_SELECTED) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// A folder with the package: its files in Python, and the module that lies beside this program.
fn staged() -> std::path::PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
    let package = folder.join("warpsim");
    let _ = fs::remove_dir_all(&package);
    fs::create_dir_all(&package).expect("a folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("warpsim");
    for entry in fs::read_dir(source).expect("the package").map(|entry| entry.expect("an entry")) {
        let name = entry.file_name();
        if entry.path().is_file() && !name.to_string_lossy().ends_with(".so") {
            fs::copy(entry.path(), package.join(&name)).expect("a copy");
        }
    }
    let own = env::current_exe().expect("this program");
    let module = own.with_file_name(format!("{DLL_PREFIX}_warpsim{DLL_SUFFIX}"));
    fs::copy(&module, package.join(MODULE)).unwrap_or_else(|error| panic!("{}: {error}", module.display()));
    folder
}
