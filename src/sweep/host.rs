//! Which process this is, on which machine and in which job: what a claim says of its holder.

use serde::{Deserialize, Serialize};

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Name of the host.
    pub host: String,
    /// The boot of the host and the namespace of its processes: holders that share both see each other's processes.
    /// Empty where that is not known.
    pub system: String,
    /// Number of the process.
    pub pid: u32,
    /// Its start, in ticks since the boot: numbers are used again.
    pub started: u64,
    /// Job of Slurm, with the number of the task; empty outside of Slurm.
    pub job: String,
    /// How often Slurm has started the job again.
    pub restart: u32,
}

impl Holder {
    /// This process.
    pub fn me() -> Self {
        let pid = std::process::id();
        let variable = |name: &str| std::env::var(name).ok();
        let array = variable("SLURM_ARRAY_JOB_ID").zip(variable("SLURM_ARRAY_TASK_ID"));
        let job = array.map(|(job, task)| format!("{job}_{task}")).or_else(|| variable("SLURM_JOB_ID"));
        let system = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().and_then(|boot| {
            let processes = std::fs::read_link("/proc/self/ns/pid").ok()?;
            Some(format!("{} {}", boot.trim(), processes.display()))
        });
        let started = started(pid);
        Self {
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            // A start that is not known tells no process from another.
            system: system.filter(|_| started.is_some()).unwrap_or_default(),
            pid,
            started: started.unwrap_or(0),
            job: job.unwrap_or_default(),
            restart: variable("SLURM_RESTART_COUNT").and_then(|n| n.parse().ok()).unwrap_or(0),
        }
    }

    /// Whether a holder lives, where `self` can tell at once.
    pub fn knows(&self, other: &Self) -> Option<bool> {
        // Slurm starts a job again when it has ended.
        if !self.job.is_empty() && self.job == other.job && self.restart > other.restart {
            return Some(false);
        }
        let same = !self.system.is_empty() && self.system == other.system;
        same.then(|| started(other.pid) == Some(other.started))
    }
}

/// The start of a process that lives.
fn started(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let mut words = text.rsplit_once(')')?.1.split_whitespace();
    // One that was killed stays until its parent asks for it.
    let lives = words.next().is_some_and(|state| !matches!(state, "Z" | "X"));
    words.nth(18).filter(|_| lives)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_knows_who_lives_on_its_machine() {
        let me = Holder { job: String::new(), ..Holder::me() };
        assert_eq!(me.pid, std::process::id());
        if me.system.is_empty() {
            return;
        }
        assert_eq!(me.knows(&me), Some(true));
        assert_eq!(
            me.knows(&Holder { started: me.started + 1, ..me.clone() }),
            Some(false),
            "a number used again"
        );
        assert_eq!(me.knows(&Holder { system: "elsewhere".into(), ..me.clone() }), None);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("starts");
        let other = Holder { pid: child.id(), started: started(child.id()).expect("it lives"), ..me.clone() };
        assert_eq!(me.knows(&other), Some(true));
        child.kill().expect("killed");
        // Killed, and not yet asked for.
        while started(other.pid).is_some() {
            std::thread::yield_now();
        }
        assert_eq!(me.knows(&other), Some(false));
        child.wait().expect("ended");
    }

    #[test]
    fn a_job_that_was_started_again_has_ended_before() {
        let first = Holder { system: "a".into(), job: "7_1".into(), ..Holder::default() };
        let second = Holder { system: "b".into(), restart: 1, ..first.clone() };
        assert_eq!(second.knows(&first), Some(false));
        assert_eq!(first.knows(&second), None);
        assert_eq!(Holder { job: "7_2".into(), ..second.clone() }.knows(&first), None);
        let none = Holder { job: String::new(), ..first };
        assert_eq!(Holder { restart: 1, system: "b".into(), ..none.clone() }.knows(&none), None);
    }
}
