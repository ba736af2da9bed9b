//! The work on a sweep: points without a result are claimed, simulated and stored, by this process and by others on the
//! same folder. A point that ended its process is simulated in one of its own, so that it takes no other with it.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use sim_core::error::SimError;
use sim_frontend::diagnostic::Diagnostic;

use super::claims::{Claim, Claims, DEATHS, State};
use super::planned::{Item, Plan};
use super::points::{first, refused_id};
use super::store::{SCHEMA, Store, Stored, part};
use crate::console::status;
use crate::files;
use crate::interrupt::interrupted;
use crate::known::Known;
use crate::memory;
use crate::program;
use crate::study::in_parallel;
use crate::work::Work;

/// What came of a point in this process.
enum Done {
    Simulated(Stored),
    /// It has a result; which one is read only where results are.
    HadResult(Option<Stored>),
    Elsewhere,
    /// Given back.
    Interrupted,
    /// It ended a process, its own or one before; it is tried again apart from others.
    Again,
    /// The simulator gave up.
    Broken(String),
    /// The simulation is another one than was planned.
    Other(String),
}

/// Whether a point takes more memory than the host has left: another host may have it.
fn too_little_memory(errors: &[Diagnostic]) -> bool {
    errors.iter().any(|error| error.code == memory::TOO_LITTLE)
}

/// How such a point ends its process. How much is left here is no matter of the point.
fn lacking_memory() -> Done {
    Done::Broken("the host has too little memory for it; a greater --max-memory, or another host".into())
}

/// Time between two looks at whether a process of its own has ended.
const CHILD_LOOKS: Duration = Duration::from_millis(10);

/// Counts of the work.
#[derive(Default)]
pub struct Counts {
    /// Points that were simulated.
    pub simulated: usize,
    /// Points that had results.
    pub had: usize,
    /// Points that others have.
    pub elsewhere: usize,
    /// Points that the simulator gave up, by their names.
    pub broken: BTreeMap<String, String>,
    /// Why the work cannot go on.
    pub stuck: Option<String>,
    /// What was wrong, and the points it was wrong with.
    pub bad: BTreeMap<String, Vec<String>>,
    /// The exit status of the points that were simulated.
    pub worst: u8,
}

/// A process that works on a sweep.
pub struct Worker<'a> {
    /// The sweep.
    pub plan: &'a Plan,
    /// Its results.
    pub store: &'a Store,
    /// Who simulates what.
    pub claims: &'a Claims,
    /// What points have in common.
    pub known: &'a Known,
    /// The key of the plan in the results folder.
    pub key: &'a str,
    /// Simulations at a time.
    pub jobs: usize,
    /// All results that are there are read: their points are told of, and what is no result is simulated again.
    /// Otherwise a file that is there is one, and what others have done since is asked a part of the points at a time.
    pub reads: bool,
    /// Called when so many points are done.
    pub progress: &'a (dyn Fn(usize) + Sync),
}

/// Points that are to be done.
struct Queue {
    /// Points that nobody had looked at: by parts, where the folders are listed first.
    parts: VecDeque<Vec<Item>>,
    now: VecDeque<Item>,
    /// Points that have claims.
    claimed: Vec<Item>,
}

impl Worker<'_> {
    /// Does what can be done; `from`, of 0 to 1, is where among the points it begins, so that tasks that start
    /// together do not meet.
    pub fn run(&self, items: Vec<Item>, from: f64) -> Counts {
        let counts = Mutex::new(Counts::default());
        let halt = AtomicBool::new(false);
        let mut parts: VecDeque<Vec<Item>> = match self.reads {
            true => VecDeque::from([items]),
            false => {
                let mut parts: BTreeMap<String, Vec<Item>> = BTreeMap::new();
                for item in items {
                    parts.entry(part(&item.id).to_string()).or_default().push(item);
                }
                parts.into_values().collect()
            }
        };
        let start = from * parts.len() as f64;
        parts.rotate_left((start as usize).min(parts.len()));
        for items in &mut parts {
            // Several tasks may begin in one part.
            let start = (start.fract() * items.len() as f64) as usize;
            items.rotate_left(if self.reads { 0 } else { start });
        }
        let queue = Mutex::new(Queue { parts, now: VecDeque::new(), claimed: Vec::new() });
        let threads: Vec<usize> = (0..self.jobs.max(1)).collect();
        in_parallel(&threads, self.jobs, |_| {
            while !halt.load(Ordering::Relaxed) && !interrupted() {
                let next = self.next(&queue, &counts);
                let Ok(Some(item)) = next else {
                    self.count_error(&counts, &halt, next.err());
                    return;
                };
                let done = self.begin(&item);
                self.count(&counts, &halt, &queue, item, done);
            }
        });
        // What others have, or had when their processes ended: most likely the latter, where this one waits for it.
        for _ in 0..=2 * DEATHS {
            let waiting = std::mem::take(&mut queue.lock().claimed);
            if waiting.is_empty() || interrupted() || halt.load(Ordering::Relaxed) {
                break;
            }
            let (mut beside, mut alone) = (Vec::new(), Vec::new());
            for item in waiting {
                match self.stands(&item) {
                    Ok(State::Free { deaths, .. }) if deaths + 1 == DEATHS => alone.push((item, deaths)),
                    Ok(State::Free { deaths: DEATHS, last }) => {
                        let done = self.give_up(&item, last);
                        self.count(&counts, &halt, &queue, item, done);
                    }
                    Ok(State::Free { deaths, .. }) => beside.push((item, deaths)),
                    Ok(State::Held(_)) => self.count(&counts, &halt, &queue, item, Ok(Done::Elsewhere)),
                    Err(error) => self.count(&counts, &halt, &queue, item, Err(error)),
                }
            }
            let attempt = |(item, deaths): &(Item, usize)| {
                let done = match (interrupted() || halt.load(Ordering::Relaxed), deaths) {
                    (true, _) => Ok(Done::Interrupted),
                    (false, 0) => self.begin(item),
                    (false, deaths) => self.apart(item, *deaths),
                };
                self.count(&counts, &halt, &queue, item.clone(), done);
            };
            in_parallel(&beside, self.jobs, attempt);
            // What ended two processes may take all of the host's memory.
            alone.iter().for_each(attempt);
        }
        // Others were faster each time.
        for item in std::mem::take(&mut queue.lock().claimed) {
            if !interrupted() && !halt.load(Ordering::Relaxed) {
                self.count(&counts, &halt, &queue, item, Ok(Done::Elsewhere));
            }
        }
        counts.into_inner()
    }

    /// The next point that nobody has, as far as is known.
    fn next(&self, queue: &Mutex<Queue>, counts: &Mutex<Counts>) -> io::Result<Option<Item>> {
        let mut queue = queue.lock();
        loop {
            if let Some(item) = queue.now.pop_front() {
                return Ok(Some(item));
            }
            let Some(items) = queue.parts.pop_front() else { return Ok(None) };
            if self.reads {
                queue.now = items.into();
                continue;
            }
            let of = items.first().map_or("", |item| part(&item.id));
            // In this order: a claim goes after the result has come.
            let claims = self.claims.ids_of(of)?;
            let results = self.store.ids_of(of)?;
            for item in items {
                if results.contains(&item.id) {
                    // Whoever was killed between the result and the end of its claim has left the claim.
                    if claims.contains(&item.id)
                        && let State::Free { deaths: 1.., .. } = self.claims.state(&item.id)?
                    {
                        self.claims.clear(&item.id);
                    }
                    counts.lock().had += item.points.len();
                    (self.progress)(item.points.len());
                } else if claims.contains(&item.id) {
                    queue.claimed.push(item);
                } else {
                    queue.now.push_back(item);
                }
            }
        }
    }

    /// Where a point stands that has claims: its result may have come.
    fn stands(&self, item: &Item) -> io::Result<State> {
        match self.claims.state(&item.id)? {
            // `begin` finds the result.
            State::Free { deaths, .. } if deaths > 0 && self.has(item).is_some() => {
                self.claims.clear(&item.id);
                Ok(State::Free { deaths: 0, last: None })
            }
            state => Ok(state),
        }
    }

    /// What a point has: none where it has no result.
    fn has(&self, item: &Item) -> Option<Option<Stored>> {
        match self.reads {
            true => self.store.get(&item.id).map(Some),
            false => self.store.has(&item.id).then_some(None),
        }
    }

    /// Simulates a point that nobody has, in this process.
    fn begin(&self, item: &Item) -> io::Result<Done> {
        if interrupted() {
            return Ok(Done::Interrupted);
        }
        if self.reads
            && let Some(had) = self.has(item)
        {
            return Ok(Done::HadResult(had));
        }
        match self.claims.take(&item.id, 0)? {
            Some(claim) => self.claimed(item, claim),
            None => Ok(Done::Again),
        }
    }

    fn claimed(&self, item: &Item, claim: Claim<'_>) -> io::Result<Done> {
        // It may have come while this one waited for nothing.
        if let Some(had) = self.has(item) {
            claim.done();
            return Ok(Done::HadResult(had));
        }
        self.store.is_free(&item.id)?;
        // A point that brings the simulator down loses no other.
        let done = catch_unwind(AssertUnwindSafe(|| self.simulate(item)));
        match done.unwrap_or_else(|_| Ok(Done::Broken("the simulator panicked".into()))) {
            Ok(Done::Broken(reason)) => {
                claim.lose(&reason)?;
                Ok(Done::Broken(reason))
            }
            Ok(done @ Done::Simulated(_)) => {
                claim.done();
                Ok(done)
            }
            done => done,
        }
    }

    /// A result without figures.
    fn blank(&self, item: &Item) -> Stored {
        let words = item.points.first().and_then(|i| self.plan.points.get(*i));
        Stored {
            schema: SCHEMA,
            id: item.id.clone(),
            config: String::new(),
            version: crate::VERSION.into(),
            run: words.map_or(Vec::new(), |point| point.words(&self.plan.spec.run)),
            result: "refused".into(),
            message: String::new(),
            seconds: 0.0,
            report: None,
        }
    }

    fn ready(&self, item: &Item) -> Result<Work, Vec<Diagnostic>> {
        let point = item.points.first().and_then(|i| self.plan.points.get(*i));
        let missing = || vec![Diagnostic::error("sweep", format!("there is no point {:?}", item.points))];
        let request = point.ok_or_else(missing)?.request(&self.plan.spec.run)?;
        Work::known(request, self.known)
    }

    /// Simulates a point, and keeps what came of it.
    fn simulate(&self, item: &Item) -> io::Result<Done> {
        let mut stored = self.blank(item);
        let ready = self.ready(item).and_then(|work| Ok((work.identity(self.known)?, work)));
        let (identity, work) = match ready {
            Ok(ready) => ready,
            Err(errors) if too_little_memory(&errors) => return Ok(lacking_memory()),
            Err(errors) => {
                if refused_id(&stored.run) != item.id {
                    return Ok(Done::Other(format!(
                        "`{}` is refused here, and was not where the sweep was planned: {}",
                        stored.run.join(" "),
                        first(&errors)
                    )));
                }
                stored.message = first(&errors);
                self.store.put(&stored)?;
                return Ok(Done::Simulated(stored));
            }
        };
        if identity.id != item.id {
            return Ok(Done::Other(format!(
                "`{}` is another simulation than was planned by {}; this is {}: its program, data, chip or the \
                 simulator has changed; plan the sweep again (`warpsim sweep submit` or `run`)",
                stored.run.join(" "),
                self.plan.version,
                crate::VERSION
            )));
        }
        stored.config = identity.config.clone();
        match work.run() {
            Ok(done) => {
                match done.lost {
                    Some(SimError::Interrupted) => return Ok(Done::Interrupted),
                    Some(error) => return Ok(Done::Broken(error.to_string())),
                    None if done.killed => {
                        return Ok(if interrupted() {
                            Done::Interrupted
                        } else {
                            Done::Broken(done.message)
                        });
                    }
                    None => {}
                }
                stored.seconds = done.seconds;
                (stored.result, stored.message) = (done.result, done.message);
                stored.report = Some(done.report);
            }
            Err(errors) if too_little_memory(&errors) => return Ok(lacking_memory()),
            Err(errors) => stored.message = errors.first().map_or(String::new(), |e| e.message.clone()),
        }
        self.store.put_config(&identity.config, || work.values())?;
        self.store.put(&stored)?;
        Ok(Done::Simulated(stored))
    }

    /// Simulates a point that ended its process so often, as the only one of this process.
    pub fn only(&self, item: &Item, deaths: usize) -> (u8, Option<String>) {
        let done = self.claims.take(&item.id, deaths).and_then(|claim| match claim {
            Some(claim) => self.claimed(item, claim),
            None => Ok(Done::Elsewhere),
        });
        match done {
            Ok(Done::Broken(reason) | Done::Other(reason)) => (status::FAULT, Some(reason)),
            Err(error) => (status::BAD_INPUT, Some(files::reason(&error))),
            Ok(_) => (status::DONE, None),
        }
    }

    /// Simulates a point in a process of its own.
    fn apart(&self, item: &Item, deaths: usize) -> io::Result<Done> {
        let number = item.points.first().copied().unwrap_or(0);
        let mut child = program::command()?
            .args(["sweep", "work"])
            .arg(self.store.folder())
            .args(["--plan", self.key, "--point", &number.to_string(), "--deaths", &deaths.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let said = child.stderr.take();
        // What it says last may be why it ended.
        let said = std::thread::spawn(move || {
            let mut last = String::new();
            for line in said.into_iter().flat_map(|said| BufReader::new(said).lines()).map_while(Result::ok) {
                eprintln!("{line}");
                // What Rust says of its backtraces is no reason.
                if !["note: ", "stack backtrace", " "].iter().any(|start| line.starts_with(start)) {
                    last = line;
                }
            }
            last
        });
        let mut told = false;
        let ended = loop {
            if let Some(ended) = child.try_wait()? {
                break ended;
            }
            if interrupted() && !told {
                told = true;
                // It gives its point back. One that has ended is not there to be told.
                let _ = rustix::process::kill_process(
                    rustix::process::Pid::from_child(&child),
                    rustix::process::Signal::TERM,
                );
            }
            std::thread::sleep(CHILD_LOOKS);
        };
        let last = said.join().unwrap_or_default();
        if let Some(stored) = self.store.get(&item.id) {
            self.claims.clear(&item.id);
            return Ok(Done::Simulated(stored));
        }
        if ended.success() {
            return Ok(if interrupted() { Done::Interrupted } else { Done::Elsewhere });
        }
        self.claims.note(&item.id, deaths, child.id(), &how(ended, &last))?;
        if ended.code() == Some(i32::from(status::BAD_INPUT)) {
            return Err(io::Error::other(last));
        }
        Ok(Done::Again)
    }

    /// The result of a point that ended its process too often.
    fn give_up(&self, item: &Item, last: Option<String>) -> io::Result<Done> {
        let config = catch_unwind(AssertUnwindSafe(|| {
            self.ready(item).and_then(|work| work.identity(self.known)).map(|identity| identity.config)
        }));
        let how = last.unwrap_or_else(|| UNKNOWN.to_string());
        let stored = Stored {
            config: config.ok().and_then(Result::ok).unwrap_or_default(),
            result: "fault".into(),
            message: format!("it ended its process {DEATHS} times: {how}"),
            ..self.blank(item)
        };
        self.store.put(&stored)?;
        self.claims.clear(&item.id);
        Ok(Done::Simulated(stored))
    }

    fn count_error(&self, counts: &Mutex<Counts>, halt: &AtomicBool, error: Option<io::Error>) {
        if let Some(error) = error {
            halt.store(true, Ordering::Relaxed);
            let folder = self.store.folder().display();
            counts.lock().stuck.get_or_insert(format!("{folder} cannot be read: {}", files::reason(&error)));
        }
    }

    /// Counts what came of a point.
    fn count(
        &self,
        counts: &Mutex<Counts>,
        halt: &AtomicBool,
        queue: &Mutex<Queue>,
        item: Item,
        done: io::Result<Done>,
    ) {
        if let Ok(Done::Again | Done::Broken(_)) = done {
            let mut counts = counts.lock();
            if let Ok(Done::Broken(reason)) = done {
                counts.broken.insert(item.id.clone(), format!("{}: {reason}", self.plan.words(&item)));
            }
            drop(counts);
            queue.lock().claimed.push(item);
            return;
        }
        (self.progress)(item.points.len());
        let mut counts = counts.lock();
        counts.broken.remove(&item.id);
        let stored = match done {
            Ok(Done::Simulated(stored)) => {
                counts.simulated += 1;
                counts.had += item.points.len() - 1;
                Some(stored)
            }
            Ok(Done::HadResult(stored)) => {
                counts.had += item.points.len();
                stored
            }
            Ok(Done::Elsewhere) => {
                counts.elsewhere += item.points.len();
                None
            }
            Ok(Done::Other(message)) => {
                halt.store(true, Ordering::Relaxed);
                counts.stuck.get_or_insert(message);
                None
            }
            Ok(_) => None,
            Err(error) => {
                // A task leaves the rest to others, who may have room.
                halt.fetch_or(!self.reads, Ordering::Relaxed);
                let reason = format!(
                    "{}: the result cannot be stored: {}",
                    self.plan.words(&item),
                    files::reason(&error)
                );
                counts.broken.insert(item.id.clone(), reason);
                None
            }
        };
        let Some(stored) = stored.filter(|stored| !stored.is_good()) else { return };
        counts.worst = worse(counts.worst, &stored.result);
        let why = format!("{} {}", stored.result, stored.message);
        // Equal points may be written in several ways.
        let words = item.points.iter().filter_map(|i| self.plan.points.get(*i));
        let words = words.map(|point| point.words(&self.plan.spec.run).join(" "));
        counts.bad.entry(why).or_default().extend(words);
    }
}

/// How a process ended, where nobody was there to see it.
const UNKNOWN: &str = "it was killed, as where memory runs out, or its host failed";

/// How a process ended, with the last line that it wrote.
fn how(ended: std::process::ExitStatus, last: &str) -> String {
    use std::os::unix::process::ExitStatusExt;
    let how = match (ended.code(), ended.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(9)) => "signal 9 (SIGKILL), as where memory runs out".to_string(),
        (None, signal) => format!("signal {}", signal.unwrap_or(0)),
    };
    if last.is_empty() { how } else { format!("{how}: {last}") }
}

/// The exit status of several points, one of which came to `result`: a fault outweighs a wrong result,
/// which outweighs a point that was refused.
fn worse(so_far: u8, result: &str) -> u8 {
    let own = match result {
        "refused" => status::BAD_INPUT,
        "fail" => status::DIFFERS,
        _ => status::FAULT,
    };
    let weight = [status::DONE, status::BAD_INPUT, status::DIFFERS, status::FAULT];
    let of = |code: u8| weight.iter().position(|other| *other == code);
    if of(own) > of(so_far) { own } else { so_far }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_point_gives_the_exit_status() {
        let of = |results: &[&str]| results.iter().fold(status::DONE, |code, result| worse(code, result));
        assert_eq!(of(&[]), 0);
        assert_eq!((of(&["refused"]), of(&["fail"]), of(&["fault"]), of(&["stopped"])), (2, 1, 3, 3));
        assert_eq!((of(&["fail", "refused"]), of(&["refused", "fail"]), of(&["fault", "fail"])), (1, 1, 3));
    }

    #[test]
    fn how_a_process_ended_is_said() {
        use std::os::unix::process::ExitStatusExt;
        let of = |raw| std::process::ExitStatus::from_raw(raw);
        assert_eq!(how(of(3 << 8), "out of memory"), "exit status 3: out of memory");
        assert_eq!(how(of(9), ""), "signal 9 (SIGKILL), as where memory runs out");
        assert_eq!(how(of(6), ""), "signal 6");
    }
}
