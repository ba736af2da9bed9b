//! `warpsim sweep status`: where a sweep stands, by the names of files in its results folder.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::claims::{Claims, EXPIRY, Seen, State};
use super::planned::{Item, Plan};
use super::run::is_results;
use super::slurm;
use super::store::Store;
use super::submit::submitted;
use crate::cli::sweep::SweepStatusArgs;
use crate::console::{status as code, table};
use crate::files;
use crate::interrupt::{interrupted, on_interrupt};

/// Results whose times are asked for. Names are hashes, so that the first ones are any.
const SAMPLE: usize = 4000;
/// The rate is that of so many seconds.
const WINDOW: f64 = 600.0;
/// Points that are listed where not all are asked for.
const LISTED: usize = 20;
/// Time between two looks.
const PERIOD: Duration = Duration::from_secs(5);

/// Where a sweep stands.
pub struct Standing {
    /// Its distinct points.
    distinct: usize,
    /// Points with results, the failed ones too.
    done: usize,
    /// Points that failed.
    failed: Vec<Item>,
    /// Points under way, with their claims.
    pub running: Vec<(Item, Seen)>,
    /// Points whose processes are gone.
    abandoned: usize,
    /// Points a second, lately.
    rate: Option<f64>,
}

impl Standing {
    /// Looks into a results folder.
    ///
    /// # Errors
    /// It cannot be read, in words.
    pub fn of(results: &Path, plan: &Plan) -> Result<Self, String> {
        let unreadable = |error: std::io::Error| files::unreadable(results, &error);
        let (store, claims) = (Store::read_only(results), Claims::of(results));
        let items: BTreeMap<String, Item> =
            plan.items(|_| true).into_iter().map(|item| (item.id.clone(), item)).collect();
        // In this order: a claim goes after the result has come.
        let claimed = claims.ids().map_err(unreadable)?;
        let mut there = store.ids().map_err(unreadable)?;
        there.retain(|id| items.contains_key(id));
        let failed = store.failed().map_err(unreadable)?;
        let failed = failed.iter().filter(|id| there.contains(*id)).filter_map(|id| items.get(id));
        let failed: Vec<Item> = failed.cloned().collect();
        let (mut running, mut abandoned) = (Vec::new(), 0);
        for (id, item) in
            claimed.iter().filter(|id| !there.contains(*id)).filter_map(|id| items.get_key_value(id))
        {
            match claims.state(id).map_err(unreadable)? {
                State::Held(seen) => running.push((item.clone(), seen)),
                State::Free { deaths, .. } => abandoned += usize::from(deaths > 0),
            }
        }
        running.sort_by_key(|(_, seen)| seen.since);
        let sample: Vec<SystemTime> = there
            .iter()
            .take(SAMPLE)
            .filter_map(|id| std::fs::metadata(store.path(id)).ok()?.modified().ok())
            .collect();
        let rate = rate(&sample, there.len(), SystemTime::now());
        Ok(Self { distinct: items.len(), done: there.len(), failed, running, abandoned, rate })
    }

    /// Points without a result.
    pub fn open(&self) -> usize {
        self.distinct - self.done
    }

    /// Points without a result that nobody simulates.
    pub fn left(&self) -> usize {
        self.open() - self.running.len()
    }

    fn print(&self, plan: &Plan, results: &Path, all: bool) {
        let most = if all { usize::MAX } else { LISTED };
        println!(
            "{}, planned by warpsim {}: {} points, {} distinct",
            plan.spec.name,
            plan.version,
            plan.points.len(),
            self.distinct
        );
        let share = 100.0 * self.done as f64 / self.distinct.max(1) as f64;
        println!("  done     {} ({share:.1} %), {} of them failed", self.done, self.failed.len());
        println!("  running  {}", self.running.len());
        let abandoned = match self.abandoned {
            0 => String::new(),
            n => format!(", {n} of them begun by processes that are gone"),
        };
        println!("  left     {}{abandoned}", self.left());
        println!("  rate     {}", self.speed());
        if !self.running.is_empty() {
            let mut out = table(&["running", "host", "process", "job", "since", "renewed"]);
            for (item, seen) in self.running.iter().take(most) {
                let holder = seen.holder.clone().unwrap_or_default();
                out.add_row([
                    plan.words(item),
                    holder.host,
                    holder.pid.to_string(),
                    holder.job,
                    date(seen.since),
                    format!("{} s ago", seen.silent.as_secs()),
                ]);
            }
            println!("{out}");
            rest(self.running.len(), most);
        }
        if !self.failed.is_empty() {
            let store = Store::read_only(results);
            let mut out = table(&["failed", "result", "message"]);
            for item in self.failed.iter().take(most) {
                let (result, message) = store.why(&item.id).unwrap_or_default();
                out.add_row([plan.words(item), result, message]);
            }
            println!("{out}");
            rest(self.failed.len(), most);
        }
    }

    /// The rate, and when all is done.
    fn speed(&self) -> String {
        match self.rate.filter(|rate| *rate > 0.0) {
            None => "unknown: no point was done in the last 10 minutes".to_string(),
            Some(rate) if self.running.is_empty() || self.open() == 0 => per(rate),
            Some(rate) => format!("{}, ETA {}", per(rate), span(self.open() as f64 / rate)),
        }
    }
}

fn rest(all: usize, shown: usize) {
    if all > shown {
        println!("… and {} more (--all lists them)", all - shown);
    }
}

/// Points a second, of a sample of the times at which `done` points were done.
fn rate(sample: &[SystemTime], done: usize, now: SystemTime) -> Option<f64> {
    let ages: Vec<f64> =
        sample.iter().map(|at| now.duration_since(*at).map_or(0.0, |age| age.as_secs_f64())).collect();
    let recent = ages.iter().filter(|age| **age <= WINDOW).count();
    let oldest = ages.iter().copied().fold(0.0, f64::max);
    let window = WINDOW.min(oldest).max(1.0);
    (recent > 0).then(|| recent as f64 / ages.len() as f64 * done as f64 / window)
}

/// A rate in a unit that fits it.
fn per(rate: f64) -> String {
    match rate {
        r if r >= 1.0 => format!("{r:.1} points/s"),
        r if r >= 1.0 / 60.0 => format!("{:.1} points/min", r * 60.0),
        r => format!("{:.1} points/h", r * 3600.0),
    }
}

fn span(seconds: f64) -> String {
    match seconds {
        s if s < 60.0 => format!("{s:.0} s"),
        s if s < 3600.0 => format!("{:.1} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.1} days", s / 86_400.0),
    }
}

/// Date and time in UTC of so many seconds since 1970.
fn date(seconds: u64) -> String {
    let (days, rest) = ((seconds / 86_400) as i64, seconds % 86_400);
    // Days from the first of March of year 0, in eras of 400 years.
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
    let year = year + era * 400;
    format!("{year}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC", rest / 3600, rest / 60 % 60, rest % 60)
}

/// Shows where the sweeps of a folder stand; gives the exit status.
pub fn status(args: &SweepStatusArgs) -> u8 {
    if args.watch {
        on_interrupt();
    }
    loop {
        let open = match shown(args) {
            Ok(open) => open,
            Err(message) => {
                eprintln!("error: {message}");
                return code::BAD_INPUT;
            }
        };
        if !args.watch || open == 0 {
            return code::DONE;
        }
        // Ctrl-C ends it soon.
        for _ in 0..PERIOD.as_millis() / 100 {
            if interrupted() {
                return code::INTERRUPTED;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Shows it once; gives how many points have no result.
fn shown(args: &SweepStatusArgs) -> Result<usize, String> {
    is_results(&args.results)?;
    let plans = Plan::all(&args.results)?;
    let standings: Vec<Standing> =
        plans.iter().map(|plan| Standing::of(&args.results, plan)).collect::<Result<_, _>>()?;
    if args.watch && std::io::stdout().is_terminal() {
        // From the top of an empty screen.
        print!("\x1b[H\x1b[2J");
    }
    for (plan, standing) in plans.iter().zip(&standings) {
        standing.print(plan, &args.results, args.all);
    }
    jobs(args)?;
    let open: usize = standings.iter().map(Standing::open).sum();
    let running: usize = standings.iter().map(|standing| standing.running.len()).sum();
    if standings.iter().any(|standing| standing.abandoned > 0) {
        println!(
            "points of processes that are gone are taken by the tasks that go on, from other hosts {} minutes after the last \
             sign of life; if none goes on, submit again",
            EXPIRY.as_secs() / 60
        );
    }
    if open == 0 {
        println!(
            "all points have results; `warpsim sweep collect {}` writes the table",
            args.results.display()
        );
    } else if running == 0 && !args.watch {
        println!("nothing is running; `warpsim sweep submit` or `sweep run` simulates what is left");
    }
    Ok(open)
}

/// What Slurm says of the jobs of the folder.
fn jobs(args: &SweepStatusArgs) -> Result<(), String> {
    let all = submitted(&args.results)?;
    if all.is_empty() {
        return Ok(());
    }
    let queue = match slurm::queue() {
        Ok(queue) => queue,
        Err(message) => {
            println!("  jobs     unknown: {message}");
            return Ok(());
        }
    };
    let live = |job: &str| {
        let states = queue.get(job)?.iter();
        Some(states.map(|(state, n)| format!("{n} {state}")).collect::<Vec<_>>().join(", "))
    };
    for jobs in &all {
        if let Some(states) = live(&jobs.array) {
            println!("  job      {}: {} tasks on {}: {states}", jobs.array, jobs.tasks, jobs.sweep);
        }
        if let Some(states) = live(&jobs.collect) {
            println!("  job      {}: collects {}: {states}", jobs.collect, jobs.sweep);
        }
    }
    if all.iter().all(|jobs| !queue.contains_key(&jobs.array)) {
        println!("  jobs     none of {} is queued or running", all.len());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_minutes() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let ago = |seconds: u64| now - Duration::from_secs(seconds);
        assert_eq!(rate(&[], 0, now), None);
        assert_eq!(rate(&[ago(700), ago(800)], 2, now), None, "long ago");
        // Half of 1000 points within 10 minutes.
        assert_eq!(rate(&[ago(30), ago(700)], 1000, now), Some(500.0 / 600.0));
        // All of them, since 20 seconds.
        assert_eq!(rate(&[ago(10), ago(20)], 100, now), Some(5.0));
    }

    #[test]
    fn times_and_rates_are_readable() {
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_772_323_199), "2026-02-28 23:59:59 UTC");
        assert_eq!(
            (per(12.34), per(0.5), per(0.001)),
            ("12.3 points/s".into(), "30.0 points/min".into(), "3.6 points/h".into())
        );
        assert_eq!(
            (span(30.0), span(600.0), span(7200.0), span(1e6)),
            ("30 s".into(), "10.0 min".into(), "2.0 h".into(), "11.6 days".into())
        );
    }
}
