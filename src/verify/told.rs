//! Operations on mbarrier objects, copies and what is wrong with them, in words.

use sim_verify::sync::agents::Does;
use sim_verify::sync::object::Misuse;
use sim_verify::sync::phases::Wrong;
use sim_verify::sync::program::{Act, Queue};

/// What an operation does, to an `object` in its `phase`.
pub fn does(does: Does, object: &str, phase: Option<u32>) -> String {
    let of = phase.map_or(String::new(), |phase| format!(", phase {phase}"));
    let bytes = |n: u32| if n == 0 { String::new() } else { format!(", which waits for {n} bytes more") };
    match does {
        Does::Meets => String::new(),
        Does::Object(Act::Init { count }) => format!("initializes {object} for {count} arrivals"),
        Does::Object(Act::Inval) => format!("invalidates {object}"),
        Does::Object(Act::Arrive { count: 1, bytes: n, .. }) => {
            format!("arrives at {object}{of}{}", bytes(n))
        }
        Does::Object(Act::Arrive { count, bytes: n, .. }) => {
            format!("arrives {count} times at {object}{of}{}", bytes(n))
        }
        Does::Object(Act::Expect { bytes: n }) => format!("expects {n} bytes at {object}{of}"),
        Does::Object(Act::Complete { bytes: n }) => format!("completes {n} bytes at {object}{of}"),
        Does::Object(Act::Wait { odd }) => match phase {
            Some(phase) => format!("waits for phase {phase} of {object}, parity {}", u32::from(odd)),
            None => {
                format!("waits for the phase before the first one of {object}, parity {}", u32::from(odd))
            }
        },
        Does::Copies(Queue::Copies) => "begins an asynchronous copy".into(),
        Does::Copies(Queue::Stores) => "begins a bulk copy from shared memory".into(),
        Does::Copies(Queue::Products) => "begins a product of matrices in shared memory".into(),
        Does::Commits(Queue::Products) => "commits its products to a group".into(),
        Does::Commits(_) => "commits its copies to a group".into(),
        Does::Awaits(Queue::Products) => "waits for products".into(),
        Does::Awaits(_) => "waits for copies".into(),
        Does::ArrivesLater(_) => format!("arrives at {object}{of} when its copies are written"),
        Does::CopiesBulk(n) => format!("begins a bulk copy of {n} bytes that is counted at {object}{of}"),
        Does::ArrivesAtCluster => "arrives at the barrier of its cluster".into(),
        Does::WaitsAtCluster => "waits at the barrier of its cluster".into(),
        Does::Signals => "releases by an atomic operation".into(),
        Does::Observes => "acquires what an atomic operation has released".into(),
    }
}

/// What a phase that threads wait for has left to wait for.
pub fn left(object: &str, phase: u32, (arrivals, bytes): (u32, i64)) -> String {
    let bytes = match bytes {
        0 => String::new(),
        n if n > 0 => format!(" and {n} bytes that nobody completes"),
        n => format!(" and the expectation of {} bytes that have come", -n),
    };
    format!("{object}, phase {phase}: {arrivals} arrivals{bytes} are missing")
}

/// The kind of finding, and what is wrong.
pub fn misuse(what: Misuse) -> (&'static str, &'static str) {
    match what {
        Misuse::NotInitialized => {
            ("barrier_misuse", "an mbarrier object is used where it is not initialized, or no longer valid")
        }
        Misuse::StillValid => ("barrier_misuse", "an mbarrier object is initialized again while it is valid"),
        Misuse::Count => ("barrier_misuse", "an mbarrier object cannot expect so many arrivals"),
        Misuse::TooManyArrivals => {
            ("too_many", "more arrivals come to an mbarrier object than its phase expects")
        }
        Misuse::OtherPhase => {
            ("wrong_phase", "threads that do the same arrive in different phases of an mbarrier object")
        }
        Misuse::TooManyBytes => ("barrier_misuse", "an mbarrier object cannot count so many bytes"),
        Misuse::ArrivedTwice => (
            "barrier_misuse",
            "a thread arrives twice at the barrier of its cluster and does not wait in between",
        ),
        Misuse::NotArrived => {
            ("barrier_misuse", "a thread waits at the barrier of its cluster where it has not arrived")
        }
    }
}

/// The kind of finding, what is wrong, and why.
pub fn wrong(wrong: Wrong) -> (&'static str, &'static str, &'static str) {
    match wrong {
        Wrong::NotInitialized => (
            "barrier_misuse",
            "an mbarrier object may be used before it is initialized",
            "no chain of barriers makes the second wait until the first is done",
        ),
        Wrong::InUse => (
            "barrier_misuse",
            "an mbarrier object may be invalidated or initialized again while it is in use",
            "no chain of barriers makes the second wait until the first is done",
        ),
        Wrong::Early => (
            "wrong_phase",
            "an operation may come in the phase before its own",
            "no chain of barriers makes the second wait until the phase of the first is complete",
        ),
        Wrong::WaitsEarly => (
            "wrong_phase",
            "a wait may be over before the phase that it waits for",
            "no chain of barriers makes the second wait until the phase before its own is complete, of which the first is part: until \
             then its parity is that of a phase that is over",
        ),
        Wrong::WaitsLate => (
            "wrong_phase",
            "a wait may find its phase gone, and the one behind it complete too",
            "nothing keeps the phase of the second from being complete before the first has seen its own",
        ),
        Wrong::Incomplete => (
            "wrong_phase",
            "a phase may be complete without one of its operations, or never",
            "no arrival is certain to come behind the second, so that the phase may not count it",
        ),
    }
}
