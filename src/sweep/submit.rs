//! `warpsim sweep submit` and `sweep cancel`: jobs of Slurm that work on a results folder.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::planned::Plan;
use super::run::is_results;
use super::slurm::{self, Job, quoted};
use super::standing::Standing;
use super::store::{Store, in_folder, names};
use crate::cli::sweep::{SweepCancelArgs, SweepSubmitArgs};
use crate::console::{complain, status};
use crate::files;
use crate::known::Known;
use crate::program;

/// Points without a result for which there is a task, where no number is asked for.
const POINTS_PER_TASK: usize = 10;
/// Most tasks where no number is asked for: Slurm allows 1001 if it is not configured otherwise.
const USUAL: usize = 1000;
/// Most tasks of an array: each has a log in one folder.
const MOST: usize = 9_000;
/// Options that `submit` gives sbatch itself.
const OWN: [&str; 7] = ["array", "output", "error", "dependency", "parsable", "wrap", "chdir"];

/// Jobs that were submitted together.
#[derive(Serialize, Deserialize)]
pub(super) struct Submitted {
    /// The array.
    pub array: String,
    /// The job that collects.
    pub collect: String,
    /// Tasks of the array.
    pub tasks: usize,
    /// Name of the sweep.
    pub sweep: String,
    /// The key of its plan; earlier versions did not keep it.
    #[serde(default)]
    pub plan: String,
}

/// The jobs of a folder, in the order of their numbers.
///
/// # Errors
/// A file cannot be read, in words.
pub(super) fn submitted(results: &Path) -> Result<Vec<Submitted>, String> {
    let folder = results.join("jobs");
    let mut all = Vec::new();
    for name in names(&folder).map_err(|error| files::unreadable(&folder, &error))? {
        if name.ends_with(".json") && !name.starts_with('.') {
            all.push(files::read_json::<Submitted>(&folder.join(name))?);
        }
    }
    all.sort_by_key(|jobs| jobs.array.parse::<u64>().unwrap_or(0));
    Ok(all)
}

/// Submits; gives the exit status.
pub fn submit(args: &SweepSubmitArgs) -> u8 {
    let plan = match Plan::make(&args.file, &Known::default()) {
        Ok(plan) => plan,
        Err(errors) => {
            complain(&errors);
            return status::BAD_INPUT;
        }
    };
    match submit_planned(args, &plan) {
        Ok(()) => status::DONE,
        Err(message) => {
            eprintln!("error: {message}");
            status::BAD_INPUT
        }
    }
}

fn submit_planned(args: &SweepSubmitArgs, plan: &Plan) -> Result<(), String> {
    let options = options(&args.slurm_option)?;
    let store = Store::open(&args.results).map_err(|error| files::unwritable(&args.results, &error))?;
    plan.keep(&store)?;
    let results =
        std::fs::canonicalize(&args.results).map_err(|error| files::unreadable(&args.results, &error))?;
    let standing = Standing::of(&results, plan)?;
    let name = &plan.spec.name;
    let shown = args.results.display();
    if standing.open() == 0 {
        println!(
            "{name}: all {} points have results; `warpsim sweep collect {shown}` writes the table",
            plan.points.len()
        );
        return Ok(());
    }
    let left = standing.left();
    if left == 0 {
        println!(
            "{name}: nothing to submit: the {} points without a result are running (`warpsim sweep status {shown}`)",
            standing.running.len()
        );
        return Ok(());
    }
    let tasks = match args.tasks {
        Some(tasks @ 1..=MOST) => tasks,
        Some(tasks) => {
            return Err(format!(
                "--tasks takes a number from 1 to {MOST}, not {tasks}: a task takes points until none is left; give it more CPUs (--slurm-option=--cpus-per-task=N)"
            ));
        }
        None => left.div_ceil(POINTS_PER_TASK).min(USUAL),
    };
    let tasks = tasks.min(left);
    // Another array may be at work, or wait for its turn.
    if let Ok(queue) = slurm::queue() {
        let earlier =
            submitted(&results)?.into_iter().filter(|jobs| jobs.plan == plan.key()).map(|jobs| jobs.array);
        let earlier: Vec<String> = earlier.filter(|job| queue.contains_key(job)).collect();
        let there: usize = earlier.iter().filter_map(|job| queue.get(job)).flat_map(BTreeMap::values).sum();
        let jobs = earlier.join(", ");
        if there >= tasks && args.tasks.is_none() {
            println!(
                "{name}: nothing to submit: {there} tasks of this sweep are queued or running ({jobs}), and take the \
                 {left} points; --tasks N submits more tasks"
            );
            return Ok(());
        }
        if there > 0 {
            println!(
                "{name}: {there} tasks of this sweep are queued or running ({jobs}): the new tasks share the points with them"
            );
        }
    }
    let logs = if args.dry_run { results.join("logs/N") } else { logs(&results)? };
    let program = program::words().map_err(|error| files::reason(&error))?;
    let jobs = Jobs { plan, program, results: &results, logs: &logs, options };
    if args.dry_run {
        println!("{}\n\n{}", jobs.array(tasks).shown(), jobs.collect("ARRAY").shown());
        return Ok(());
    }
    let array = jobs.array(tasks).submit()?;
    let kept = |collect: &str| {
        let jobs = Submitted {
            array: array.clone(),
            collect: collect.to_string(),
            tasks,
            sweep: name.clone(),
            plan: plan.key(),
        };
        let text = serde_json::to_string(&jobs).map_err(|error| error.to_string())? + "\n";
        let path = results.join("jobs").join(format!("{array}.json"));
        in_folder(&results.join("jobs"), || files::write_one_of_many(&path, text.as_bytes()))
            .map_err(|error| files::unwritable(&path, &error))
    };
    // The array can be cancelled whatever comes of the other job.
    kept("")?;
    println!("{name}: {left} of {} points without a result, {tasks} tasks", plan.points.len());
    println!("array:   {array}");
    let collect = jobs.collect(&array).submit().map_err(|error| {
        format!("job {array} is submitted, the one that collects is not: {error}; `warpsim sweep collect {shown}` does the same")
    })?;
    kept(&collect)?;
    println!("collect: {collect}");
    println!("logs:    {}", logs.display());
    Ok(())
}

/// Options of the user as sbatch takes them.
fn options(asked: &[String]) -> Result<Vec<String>, String> {
    let mut options = Vec::new();
    for option in asked {
        let text = if option.starts_with('-') { option.clone() } else { format!("--{option}") };
        let name = text.trim_start_matches('-').split(['=', ' ']).next().unwrap_or_default();
        let short = [("a", "array"), ("o", "output"), ("e", "error"), ("d", "dependency"), ("D", "chdir")];
        let of_short = |(short, _): &&(&str, &str)| !text.starts_with("--") && name.starts_with(short);
        let name = short.iter().find(of_short).map_or(name, |(_, long)| long);
        if OWN.contains(&name) {
            return Err(format!("--slurm-option {option}: `submit` sets --{name} itself"));
        }
        // `--time 60` is two words for sbatch.
        match text.split_once(' ') {
            Some((option, value)) => options.extend([option.to_string(), value.trim().to_string()]),
            None => options.push(text),
        }
    }
    Ok(options)
}

/// A folder for the logs of the tasks: each submission has its own.
fn logs(results: &Path) -> Result<PathBuf, String> {
    let logs = results.join("logs");
    let unwritable = |error: io::Error| files::unwritable(&logs, &error);
    std::fs::create_dir_all(&logs).map_err(unwritable)?;
    let numbers = names(&logs).map_err(unwritable)?.into_iter().filter_map(|name| name.parse::<u64>().ok());
    let mut number = numbers.max().map_or(1, |last| last + 1);
    loop {
        let folder = logs.join(number.to_string());
        match std::fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            // Another `submit` has this number.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(unwritable(error)),
        }
    }
}

/// The jobs of a sweep.
struct Jobs<'a> {
    plan: &'a Plan,
    program: Vec<OsString>,
    results: &'a Path,
    logs: &'a Path,
    options: Vec<String>,
}

impl Jobs<'_> {
    fn job(&self, name: &str, log: &str, own: Vec<String>, words: &[&str]) -> Job {
        // Slurm replaces what follows `%`.
        let log = format!("{}/{log}", self.logs.display().to_string().replace('%', "%%"));
        let folder = self.plan.folder.display();
        let mut options = vec![
            "--parsable".to_string(),
            format!("--job-name={name}"),
            format!("--output={log}"),
            format!("--chdir={folder}"),
        ];
        options.extend(own);
        options.extend(self.options.iter().cloned());
        let results = self.results.display().to_string();
        let program: Vec<String> = self.program.iter().map(|w| w.to_string_lossy().into_owned()).collect();
        let words: Vec<String> = program
            .iter()
            .map(String::as_str)
            .chain(["sweep"])
            .chain(words.iter().copied())
            .chain([results.as_str(), "--plan", &self.plan.key()])
            .map(quoted)
            .collect();
        // The process of the script becomes warpsim, which then gets the signals.
        Job { options, script: format!("#!/bin/sh\nexec {}\n", words.join(" ")) }
    }

    fn array(&self, tasks: usize) -> Job {
        let mut own = vec![format!("--array=1-{tasks}"), "--requeue".into(), "--open-mode=append".into()];
        if !self.options.iter().any(|option| option.starts_with("--signal")) {
            // A minute before its time limit, a task gives back what is under way.
            own.push("--signal=B:TERM@60".into());
        }
        self.job(&self.plan.spec.name, "%a.txt", own, &["work"])
    }

    fn collect(&self, array: &str) -> Job {
        let name = format!("{}-collect", self.plan.spec.name);
        let own = vec![format!("--dependency=afterany:{array}"), "--open-mode=append".into()];
        self.job(&name, "collect.txt", own, &["collect"])
    }
}

/// Cancels what is queued or running; gives the exit status.
pub fn cancel(args: &SweepCancelArgs) -> u8 {
    let cancelled = is_results(&args.results).and_then(|()| {
        let all = submitted(&args.results)?.into_iter();
        let all = all.flat_map(|jobs| [jobs.array, jobs.collect]).filter(|job| !job.is_empty());
        let queue = slurm::queue()?;
        let jobs: Vec<String> = all.filter(|job| queue.contains_key(job)).collect();
        if !jobs.is_empty() {
            slurm::cancel(&jobs)?;
        }
        Ok(jobs)
    });
    match cancelled {
        Ok(jobs) if jobs.is_empty() => {
            println!("no job of {} is queued or running", args.results.display());
            status::DONE
        }
        Ok(jobs) => {
            println!("cancelled: {}; tasks give back the points under way", jobs.join(", "));
            status::DONE
        }
        Err(message) => {
            eprintln!("error: {message}");
            status::BAD_INPUT
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_go_to_sbatch_but_for_those_that_submit_sets() {
        let of = |list: &[&str]| options(&list.iter().map(ToString::to_string).collect::<Vec<_>>());
        let words = |list: &[&str]| Ok(list.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(of(&["--time=60", "mem=8G", "-p long"]), words(&["--time=60", "--mem=8G", "-p", "long"]));
        for own in ["--array=1-3", "array=1", "--output x", "-a1-3", "-d afterok:1", "wrap=x"] {
            assert!(of(&[own]).expect_err("refused").contains("itself"), "{own}");
        }
        assert!(of(&["--account=a", "--exclusive"]).is_ok());
    }

    #[test]
    fn each_submission_has_its_own_logs() {
        let folder = tempfile::tempdir().expect("made");
        let of = || logs(folder.path()).expect("made");
        assert!(of().ends_with("logs/1") && of().ends_with("logs/2"));
    }
}
