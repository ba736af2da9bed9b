//! What does a sweep of 10⁵ points cost besides its simulations? Planning it, asking for its status, and what a task does
//! around each point. The last lines say red or green; red is exit status 1.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Points.
const POINTS: usize = 100_000;
/// Points that are simulated.
const SIMULATED: usize = 400;
/// Most entries of a folder.
const ENTRIES: usize = 10_000;

fn warpsim(args: &[&str]) -> (f64, String) {
    let start = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpsim"));
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).args(args).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{args:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
    (start.elapsed().as_secs_f64(), said)
}

fn sweep(folder: &Path, name: &str, axes: &str) -> String {
    let path = folder.join(format!("{name}.yaml"));
    std::fs::write(&path, format!("schema: 1\nname: {name}\naxes:\n{axes}")).expect("written");
    path.display().to_string()
}

/// The largest number of entries that a folder in `folder` has.
fn largest(folder: &Path) -> usize {
    let entries: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    let inside = entries.iter().filter(|path| path.is_dir()).map(|path| largest(path));
    inside.max().unwrap_or(0).max(entries.len())
}

/// Names of the results of the sweep that is planned in a folder.
fn ids(results: &Path) -> Vec<String> {
    let plan =
        std::fs::read_dir(results.join("sweeps")).expect("a folder").next().expect("one").expect("an entry");
    let plan: serde_json::Value =
        serde_json::from_slice(&std::fs::read(plan.path()).expect("there")).expect("JSON");
    let ids = plan["ids"].as_array().expect("a list").iter();
    ids.map(|id| id.as_str().expect("a name").to_string()).collect()
}

fn main() {
    let folder = tempfile::tempdir().expect("made");
    let folder = folder.path();
    let mut red = false;
    let mut judge = |what: &str, value: f64, most: f64, unit: &str| {
        let verdict = if value <= most { "green" } else { "red" };
        red |= value > most;
        println!("{verdict}: {what}: {value:.3} {unit}, at most {most} {unit}");
    };
    // Few chips and many seeds, and as many chips as a study of parameters has.
    let shapes = [
        (
            "100 chips",
            "  workload: [vecadd, nqueens, reduction, spmv]\n  chip: [gtx480, v100]\n  \
          seed: {range: {from: 1, to: 250, step: 1}}\n  set:\n    memory.l1.hit_latency: {range: {from: 20, to: 69, step: 1}}\n",
        ),
        (
            "10,000 chips",
            "  workload: [vecadd, nqueens]\n  chip: gtx480\n  seed: [1, 2, 3, 4, 5]\n  set:\n    \
          memory.l1.hit_latency: {range: {from: 20, to: 119, step: 1}}\n    sm.branch_latency: {range: {from: 1, to: 100, step: 1}}\n",
        ),
    ];
    for (i, (shape, axes)) in shapes.into_iter().enumerate() {
        let file = sweep(folder, &format!("plan{i}"), axes);
        let results = folder.join(format!("plan{i}"));
        let (seconds, _) =
            warpsim(&["sweep", "submit", &file, "--results", &results.display().to_string(), "--dry-run"]);
        assert_eq!(ids(&results).len(), POINTS);
        judge(&format!("planning {POINTS} points on {shape}"), seconds, 10.0, "s");
    }
    // Half of the results are there, as small as they can be: their names are all that is looked at.
    let results = folder.join("plan0");
    let ids = ids(&results);
    for id in &ids[..POINTS / 2] {
        let part = results.join("points").join(&id[..2]);
        std::fs::create_dir_all(&part).expect("made");
        std::fs::write(part.join(format!("{id}.json")), "{}").expect("written");
    }
    let (seconds, said) = warpsim(&["sweep", "status", &results.display().to_string()]);
    assert!(said.contains(&format!("done     {}", POINTS / 2)), "{said}");
    judge(&format!("status of {POINTS} points"), seconds, 2.0, "s");
    for id in &ids[POINTS / 2..] {
        let part = results.join("points").join(&id[..2]);
        std::fs::write(part.join(format!("{id}.json")), "{}").expect("written");
    }
    judge("entries of the largest folder", largest(&results) as f64, ENTRIES as f64, "entries");
    // A task with nothing to do looks at all of them.
    let (seconds, _) = warpsim(&["sweep", "work", &results.display().to_string(), "--jobs", "1"]);
    judge(&format!("a task that finds all {POINTS} points done"), seconds, 10.0, "s");

    let file = sweep(
        folder,
        "small",
        &format!(
            "  workload: nqueens\n  chip: gtx480\n  seed: {{range: {{from: 1, to: {SIMULATED}, step: 1}}}}\n  set: {{n: 4}}\n"
        ),
    );
    let results = folder.join("small");
    let name = results.display().to_string();
    warpsim(&["sweep", "submit", &file, "--results", &name, "--dry-run"]);
    let (seconds, said) = warpsim(&["sweep", "work", &name, "--jobs", "1"]);
    assert!(said.contains(&format!("{SIMULATED} simulated")), "{said}");
    let simulated = |path: PathBuf| -> f64 {
        let stored: serde_json::Value =
            serde_json::from_slice(&std::fs::read(path).expect("there")).expect("JSON");
        stored["seconds"].as_f64().expect("a number")
    };
    let parts = std::fs::read_dir(results.join("points"))
        .expect("a folder")
        .map(|part| part.expect("an entry").path());
    let points = parts.flat_map(|part| std::fs::read_dir(part).expect("a folder"));
    let inside: f64 = points.map(|point| simulated(point.expect("an entry").path())).sum();
    let each = (seconds - inside) / SIMULATED as f64 * 1e3;
    judge("a point besides its simulation", each, 50.0, "ms");
    std::process::exit(i32::from(red));
}
