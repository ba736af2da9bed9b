//! Claims of points: who simulates which point now, and how often a point ended its process. They are files of the
//! results folder, so that processes on any number of hosts share the work without a server.
//!
//! The claim of point P is the file `claims/PP/P.1`, where PP are the first two digits. Whoever creates it (by a link,
//! which only one succeeds with, on NFS too) has the point, and removes it when the result is stored or the point is given back. A
//! holder renews the times of its claims; a claim whose holder is gone stays, and is a death of the point: the next
//! process that takes the point creates `P.2`, then `P.3`.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::{Condvar, Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

use super::host::Holder;
use super::store::{in_folder, names, part};
use crate::files;

/// How often a point may end its process. Then it is not tried again.
pub const DEATHS: usize = 3;
/// Time between two renewals of a claim.
const RENEWAL: Duration = Duration::from_secs(30);
/// A claim that was not renewed for so long is one of a process that is gone.
pub const EXPIRY: Duration = Duration::from_secs(300);

/// What the file of a claim says.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    holder: Holder,
    /// Seconds since 1970, by the clock of the holder's host.
    since: u64,
    /// How its process ended, where that is known.
    ended: Option<String>,
}

/// A claim, as others see it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Who has it; none where the file does not say.
    pub holder: Option<Holder>,
    /// When it was taken, in seconds since 1970.
    pub since: u64,
    /// Since it was renewed.
    pub silent: Duration,
    /// Its holder lives.
    pub lives: bool,
    /// How its process ended, where that is known.
    pub ended: Option<String>,
}

/// Where a point stands.
#[derive(Debug)]
pub enum State {
    /// Somebody has it.
    Held(Seen),
    /// Nobody does; how often it ended its process, and how the last time.
    Free {
        /// Claims whose holders are gone.
        deaths: usize,
        /// How the last one ended, where that is known.
        last: Option<String>,
    },
}

/// Claims that this process has, which a thread renews; none where there are no more to come.
#[derive(Clone)]
pub struct Held(Arc<(Mutex<Option<BTreeSet<PathBuf>>>, Condvar)>);

impl Held {
    fn none() -> Self {
        Self(Arc::new((Mutex::new(Some(BTreeSet::new())), Condvar::new())))
    }

    fn list(&self) -> MutexGuard<'_, Option<BTreeSet<PathBuf>>> {
        self.0.0.lock()
    }

    /// Gives all points back, for a process that ends at once.
    pub fn give_back(&self) {
        for path in self.list().take().into_iter().flatten() {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The claims of a results folder.
pub struct Claims {
    folder: PathBuf,
    me: Holder,
    held: Held,
    /// Time between two renewals.
    period: Duration,
    renews: OnceLock<()>,
    /// The clock of the file server less that of this host, in seconds.
    ahead: OnceLock<f64>,
}

/// The right to simulate a point. Dropped, it gives the point back.
pub struct Claim<'a> {
    claims: &'a Claims,
    id: String,
    path: PathBuf,
    record: Record,
    kept: bool,
}

impl Claim<'_> {
    /// The result is stored: nobody needs the point any more.
    pub fn done(mut self) {
        self.kept = true;
        self.release();
        self.claims.clear(&self.id);
    }

    /// The point brought down what it ran in; that counts as if the process had ended.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn lose(mut self, how: &str) -> io::Result<()> {
        self.kept = true;
        self.release();
        write(&self.path, &Record { ended: Some(how.to_string()), ..self.record.clone() })
    }

    fn release(&self) {
        if let Some(held) = &mut *self.claims.held.list() {
            held.remove(&self.path);
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.release();
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Creates a file with what is in it at once, which no more than one process succeeds with.
fn created(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<bool> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".claim.").suffix(files::PARTIAL);
    // As a new file has them: the process's mask takes away what is to be taken.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(folder)?;
    file.write_all(bytes)?;
    // Closed, it has its bytes on the file server.
    let whole = file.into_temp_path();
    match std::fs::hard_link(&whole, path) {
        Ok(()) => Ok(true),
        // NFS may have done it, lost the answer, and asked again.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(links(&whole) == 2),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(error),
        // A file system without links. Who is killed in between leaves a claim that is nobody's until it is old.
        Err(_) => match File::create_new(path) {
            Ok(mut file) => file.write_all(bytes).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        },
    }
}

#[cfg(unix)]
fn links(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).map_or(0, |facts| facts.nlink())
}

#[cfg(not(unix))]
fn links(_: &Path) -> u64 {
    0
}

fn write(path: &Path, record: &Record) -> io::Result<()> {
    std::fs::write(path, serde_json::to_string(record)? + "\n")
}

impl Claims {
    /// The claims of a results folder.
    pub fn of(folder: &Path) -> Self {
        Self::renewed(folder, RENEWAL)
    }

    fn renewed(folder: &Path, period: Duration) -> Self {
        Self {
            folder: folder.join("claims"),
            me: Holder::me(),
            held: Held::none(),
            period,
            renews: OnceLock::new(),
            ahead: OnceLock::new(),
        }
    }

    /// What this process has.
    pub fn held(&self) -> Held {
        self.held.clone()
    }

    fn path(&self, id: &str, deaths: usize) -> PathBuf {
        self.folder.join(part(id)).join(format!("{id}.{}", deaths + 1))
    }

    /// Takes a point that has ended its process `deaths` times; none where another one was there first.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub fn take(&self, id: &str, deaths: usize) -> io::Result<Option<Claim<'_>>> {
        let path = self.path(id, deaths);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let record = Record { holder: self.me.clone(), since, ended: None };
        let text = serde_json::to_string(&record)? + "\n";
        let folder = self.folder.join(part(id));
        if !in_folder(&folder, || created(&folder, &path, text.as_bytes()))? {
            return Ok(None);
        }
        if let Some(held) = &mut *self.held.list() {
            held.insert(path.clone());
        }
        self.renew();
        Ok(Some(Claim { claims: self, id: id.to_string(), path, record, kept: false }))
    }

    /// Where a point stands.
    ///
    /// # Errors
    /// A claim cannot be read.
    pub fn state(&self, id: &str) -> io::Result<State> {
        let mut last = None;
        for deaths in 0..DEATHS {
            match self.see(&self.path(id, deaths))? {
                None => return Ok(State::Free { deaths, last }),
                Some(seen) if seen.lives => return Ok(State::Held(seen)),
                Some(seen) => last = seen.ended,
            }
        }
        Ok(State::Free { deaths: DEATHS, last })
    }

    /// A claim; none where there is no such file.
    fn see(&self, path: &Path) -> io::Result<Option<Seen>> {
        // What is opened is asked for its time: NFS shows the time of an opened file as the server has it.
        let read = || -> io::Result<(String, SystemTime)> {
            files::is_regular(path).map_err(io::Error::other)?;
            let file = File::open(path)?;
            Ok((io::read_to_string(&file)?, file.metadata()?.modified()?))
        };
        let (text, renewed) = match read() {
            Err(error) if path.symlink_metadata().is_err() && error.kind() == io::ErrorKind::NotFound => {
                return Ok(None);
            }
            read => read?,
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64());
        let renewed = renewed.duration_since(UNIX_EPOCH).map_or(0.0, |at| at.as_secs_f64());
        let silent = Duration::from_secs_f64((now + self.ahead() - renewed).clamp(0.0, 1e9));
        let recent = silent <= EXPIRY;
        // One that was written anew this moment, or on a file system without links by a holder that died, says nothing.
        let Ok(record) = serde_json::from_str::<Record>(&text) else {
            return Ok(Some(Seen { holder: None, since: 0, silent, lives: recent, ended: None }));
        };
        let lives = record.ended.is_none() && self.me.knows(&record.holder).unwrap_or(recent);
        let Record { holder, since, ended } = record;
        Ok(Some(Seen { holder: Some(holder), since, silent, lives, ended }))
    }

    /// The times of files are those of the file server, whose clock may differ from that of this host.
    fn ahead(&self) -> f64 {
        *self.ahead.get_or_init(|| {
            let measured = || {
                let mut file = tempfile::Builder::new().prefix(".clock.").tempfile_in(&self.folder).ok()?;
                file.write_all(b".").ok()?;
                file.as_file().sync_all().ok()?;
                let there = file.as_file().metadata().ok()?.modified().ok()?;
                let here = SystemTime::now();
                let seconds =
                    |at: SystemTime| at.duration_since(UNIX_EPOCH).map_or(0.0, |at| at.as_secs_f64());
                Some(seconds(there) - seconds(here))
            };
            // Who may only read believes its own clock.
            measured().unwrap_or(0.0)
        })
    }

    /// Says how the process `pid` ended that had a point, if it left its claim.
    ///
    /// # Errors
    /// The claim cannot be read or written.
    pub fn note(&self, id: &str, deaths: usize, pid: u32, how: &str) -> io::Result<()> {
        let path = self.path(id, deaths);
        let Some(seen) = self.see(&path)? else { return Ok(()) };
        match (seen.holder, seen.ended) {
            (Some(holder), None) if holder.pid == pid => {
                write(&path, &Record { holder, since: seen.since, ended: Some(how.to_string()) })
            }
            _ => Ok(()),
        }
    }

    /// Forgets all claims of a point, whose result is stored.
    pub fn clear(&self, id: &str) {
        for deaths in 0..DEATHS {
            let _ = std::fs::remove_file(self.path(id, deaths));
        }
    }

    /// The points that have claims, live ones or not, of a part of all.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn ids_of(&self, part: &str) -> io::Result<BTreeSet<String>> {
        let names = names(&self.folder.join(part))?.into_iter().filter(|name| !name.starts_with('.'));
        Ok(names.filter_map(|name| name.rsplit_once('.').map(|(id, _)| id.to_string())).collect())
    }

    /// The points that have claims.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub fn ids(&self) -> io::Result<BTreeSet<String>> {
        let mut all = BTreeSet::new();
        for part in names(&self.folder)?.iter().filter(|name| !name.starts_with('.')) {
            all.extend(self.ids_of(part)?);
        }
        Ok(all)
    }

    /// Begins to renew what is held.
    fn renew(&self) {
        self.renews.get_or_init(|| {
            let (held, period) = (self.held.clone(), self.period);
            // Without the thread, claims of points that take longer than the expiry may be taken by others, which
            // costs time and changes no result.
            let _ = std::thread::Builder::new().name("claims".into()).spawn(move || {
                let (list, woken) = &*held.0;
                let mut guard = list.lock();
                while guard.is_some() {
                    if woken.wait_for(&mut guard, period).timed_out() {
                        let paths: Vec<PathBuf> = guard.iter().flatten().cloned().collect();
                        MutexGuard::unlocked(&mut guard, || paths.iter().for_each(|path| touch(path)));
                    }
                }
            });
        });
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        self.held.list().take();
        self.held.0.1.notify_all();
    }
}

/// Renews the time of a claim by writing what is there already: the file server gives it its own time.
fn touch(path: &Path) {
    let _ = File::options().write(true).open(path).and_then(|mut file| file.write_all(b"{"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(claims: &Claims, id: &str) -> usize {
        match claims.state(id).expect("a folder") {
            State::Free { deaths, .. } => deaths,
            State::Held(seen) => panic!("{seen:?}"),
        }
    }

    /// A claim of another host, renewed so long ago.
    fn foreign(claims: &Claims, id: &str, deaths: usize, age: Duration) {
        let holder = Holder { host: "far".into(), system: "far".into(), pid: 1, ..Holder::default() };
        let path = claims.path(id, deaths);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        write(&path, &Record { holder, since: 0, ended: None }).expect("written");
        let file = File::options().write(true).open(&path).expect("there");
        file.set_modified(SystemTime::now() - age).expect("set");
    }

    #[test]
    fn claims_exclude_each_other_and_are_given_back() {
        let folder = tempfile::tempdir().expect("made");
        let [a, b] = [Claims::of(folder.path()), Claims::of(folder.path())];
        let first = a.take("ab1", 0).expect("a folder").expect("free");
        assert!(b.take("ab1", 0).expect("a folder").is_none());
        assert!(matches!(b.state("ab1"), Ok(State::Held(seen)) if seen.holder.as_ref() == Some(&a.me)));
        assert!(b.take("ab2", 0).expect("a folder").is_some(), "another point");
        drop(first);
        assert_eq!(free(&b, "ab1"), 0);
        b.take("ab1", 0).expect("a folder").expect("given back").done();
        assert_eq!(free(&a, "ab1"), 0);
        assert!(a.ids().expect("a folder").is_empty());
    }

    #[test]
    fn who_is_silent_for_too_long_is_gone() {
        let folder = tempfile::tempdir().expect("made");
        let claims = Claims::of(folder.path());
        foreign(&claims, "ab1", 0, EXPIRY - Duration::from_secs(30));
        assert!(matches!(claims.state("ab1"), Ok(State::Held(seen)) if seen.lives));
        foreign(&claims, "ab1", 0, EXPIRY + Duration::from_secs(30));
        assert_eq!(free(&claims, "ab1"), 1);
        // Renewed after all.
        touch(&claims.path("ab1", 0));
        assert!(matches!(claims.state("ab1"), Ok(State::Held(seen)) if seen.holder.is_some()));
        // Nothing was written yet.
        std::fs::write(claims.path("ab2", 0), "").expect("written");
        assert!(matches!(claims.state("ab2"), Ok(State::Held(seen)) if seen.holder.is_none()));
    }

    #[test]
    fn deaths_are_counted() {
        let folder = tempfile::tempdir().expect("made");
        let claims = Claims::of(folder.path());
        let old = 2 * EXPIRY;
        foreign(&claims, "ab1", 0, old);
        assert!(claims.take("ab1", 0).expect("a folder").is_none());
        claims.take("ab1", 1).expect("a folder").expect("free").lose("it panicked").expect("written");
        assert!(
            matches!(claims.state("ab1"), Ok(State::Free { deaths: 2, last: Some(how) }) if how == "it panicked")
        );
        // Given back, it has died no more often.
        drop(claims.take("ab1", 2).expect("a folder").expect("free"));
        assert_eq!(free(&claims, "ab1"), 2);
        foreign(&claims, "ab1", 2, old);
        claims.note("ab1", 2, 7, "another process").expect("a folder");
        claims.note("ab1", 2, 1, "killed").expect("a folder");
        assert!(
            matches!(claims.state("ab1"), Ok(State::Free { deaths: DEATHS, last: Some(how) }) if how == "killed")
        );
        claims.clear("ab1");
        assert_eq!(free(&claims, "ab1"), 0);
    }

    #[test]
    fn a_process_that_ends_at_once_gives_back_all_it_has() {
        let folder = tempfile::tempdir().expect("made");
        let [claims, others] = [Claims::of(folder.path()), Claims::of(folder.path())];
        let mine = [claims.take("ab1", 0), claims.take("cd2", 0)]
            .map(|claim| claim.expect("a folder").expect("free"));
        let other = others.take("ab3", 0).expect("a folder").expect("free");
        claims.held().give_back();
        assert_eq!(claims.ids().expect("a folder"), BTreeSet::from(["ab3".to_string()]));
        // What ends in the meantime, or is taken, is no more in the way.
        drop(mine);
        assert!(others.take("ab1", 0).expect("a folder").is_some());
        assert!(other.path.exists());
    }

    #[test]
    fn what_is_held_is_renewed() {
        let folder = tempfile::tempdir().expect("made");
        let claims = Claims::of(folder.path());
        let claim = claims.take("ab1", 0).expect("a folder").expect("free");
        assert_eq!(claims.held.list().as_ref().map(BTreeSet::len), Some(1));
        let before = std::fs::read(&claim.path).expect("there");
        touch(&claim.path);
        assert_eq!(std::fs::read(&claim.path).expect("there"), before);
        drop(claim);
        assert_eq!(claims.held.list().as_ref().map(BTreeSet::len), Some(0));
        assert!(!claims.path("ab1", 0).exists());
        // A thread does it from time to time.
        let claims = Claims::renewed(folder.path(), Duration::from_millis(1));
        let claim = claims.take("ab2", 0).expect("a folder").expect("free");
        let long_ago = SystemTime::now() - 2 * EXPIRY;
        File::options()
            .write(true)
            .open(&claim.path)
            .and_then(|file| file.set_modified(long_ago))
            .expect("set");
        while std::fs::metadata(&claim.path).and_then(|facts| facts.modified()).expect("a time") == long_ago {
            std::thread::yield_now();
        }
        // One that is gone is not made again.
        touch(&claims.path("ab1", 0));
        assert!(!claims.path("ab1", 0).exists());
    }
}
