//! What does a launch cost besides its kernel, through CUDA's runtime? A program that nvcc compiles, whose shared `cudart` is
//! the simulator's, launches empty kernels, timed and functional, then kernels with work among copies and events. The last
//! lines say red or green; red is exit status 1.
//!
//!     cargo build --release -p warpsim-cuda && cargo bench --bench cuda_launch
//!
//! `WARPSIM_NVCC` names nvcc where it is not on the path.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Microseconds that a launch may cost besides its kernel.
const MOST: f64 = 50.0;
/// Percent of the time of a program that may be spent outside of the simulation of its kernels.
const SHARE: f64 = 2.0;
/// Programs of each kind that run; the fastest counts.
const RUNS: usize = 5;

/// Compiles the program.
fn compiled(folder: &Path) -> Result<PathBuf, String> {
    let compiler = std::env::var_os("WARPSIM_NVCC").map_or_else(|| PathBuf::from("nvcc"), PathBuf::from);
    let program = folder.join("launches");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/cuda/launches.cu");
    let mut compile = Command::new(&compiler);
    compile.args(["-cudart", "shared", "-std=c++17", "-gencode", "arch=compute_75,code=compute_75", "-o"]);
    let compiled = compile.arg(&program).arg(source).output();
    let compiled =
        compiled.map_err(|error| format!("{}: {error}; WARPSIM_NVCC names nvcc", compiler.display()))?;
    if compiled.status.success() {
        Ok(program)
    } else {
        Err(String::from_utf8_lossy(&compiled.stderr).into_owned())
    }
}

/// Runs the program: the seconds that it measured, and those that its kernels were simulated meanwhile.
fn ran(program: &Path, options: &[&str], arguments: &[&str]) -> Result<(f64, f64), String> {
    let command = Path::new(env!("CARGO_BIN_EXE_warpsim"));
    let library = command.with_file_name("libwarpsim_cuda.so");
    if !library.is_file() {
        return Err(format!("{} is not built: cargo build --release -p warpsim-cuda", library.display()));
    }
    let pace = program.with_file_name("pace");
    let _ = std::fs::remove_file(&pace);
    let mut run = Command::new(command);
    run.arg("cuda").args(options).args(["--chip", "rtx2080ti", "--"]).arg(program).args(arguments);
    run.env("WARPSIM_CUDA_LIB", library).env("WARPSIM_CUDA_PACE", &pace);
    let output = run.output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let seconds = said.lines().find_map(|line| line.strip_prefix("seconds ")?.parse().ok());
    let Some(seconds) = seconds.filter(|_| output.status.success()) else {
        return Err(format!("the program failed: {said}{}", String::from_utf8_lossy(&output.stderr)));
    };
    let pace = std::fs::read_to_string(&pace).map_err(|error| format!("{}: {error}", pace.display()))?;
    let pace: Vec<f64> = pace.lines().filter_map(|line| line.parse().ok()).collect();
    // The first launch comes before what is measured.
    match pace[..] {
        [first, .., last] => Ok((seconds, last - first)),
        _ => Err("the runtime wrote down no time of simulation".into()),
    }
}

/// The smallest of several measurements.
fn least(measured: impl Fn() -> Result<f64, String>) -> Result<f64, String> {
    (0..RUNS).try_fold(f64::INFINITY, |least, _| Ok(least.min(measured()?)))
}

/// Prints whether launches cost as little as they may.
fn judge(folder: &Path) -> Result<bool, String> {
    let program = compiled(folder)?;
    let mut green = true;
    let mut verdict = |what: &str, value: f64, most: f64, unit: &str| {
        let word = if value < most { "green" } else { "red" };
        println!("{word}: {what}: {value:.2} {unit}, {most} {unit} allowed");
        green &= value < most;
    };
    for (mode, options, launches) in [("timed", &[][..], "2000"), ("functional", &["--functional"], "5000")] {
        let count: f64 = launches.parse().unwrap_or(1.0);
        let micros = least(|| Ok(ran(&program, options, &["empty", launches])?.0 * 1e6 / count))?;
        verdict(&format!("an empty launch and its wait through CUDA's runtime, {mode}"), micros, MOST, "µs");
    }
    let share = least(|| {
        let (seconds, simulated) = ran(&program, &[], &["busy", "5"])?;
        println!(
            "a program with 5 kernels: {seconds:.3} s, of them {simulated:.3} s in the simulation of kernels"
        );
        Ok(100.0 * (1.0 - simulated / seconds))
    })?;
    verdict("outside of the simulation of kernels, through CUDA's runtime", share, SHARE, "%");
    Ok(green)
}

fn main() -> ExitCode {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    match judge(folder.path()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("not measured: {why}");
            ExitCode::from(2)
        }
    }
}
