//! Readiness of a daemon: whether it reads its log.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::kafka::consumer::ConsumerEvent;
use crate::pipeline::daemon::DaemonEvent;

/// How long an unmet condition counts after its last report. Waiting parts report repeatedly.
const UNMET_TTL: Duration = Duration::from_secs(10);

/// A condition of readiness: that the log is read.
#[derive(Clone, Debug)]
pub struct Readiness(Arc<Mutex<Condition>>);

#[derive(Debug)]
struct Condition {
    reading: Reading,
    /// Reasons of the assigned partitions that have stopped, or are read again.
    partitions: BTreeMap<i32, String>,
}

/// Whether the log is read.
#[derive(Debug)]
enum Reading {
    /// It was never read, for this reason.
    NotYet(String),
    /// It is read.
    Yes,
    /// It was read before. Reason and time of the last report that it is not.
    Interrupted(String, Instant),
}

impl Readiness {
    /// A log that was never read, for this reason.
    #[must_use]
    pub fn not_yet(reason: &str) -> Self {
        let reading = Reading::NotYet(reason.to_owned());
        Self(Arc::new(Mutex::new(Condition { reading, partitions: BTreeMap::new() })))
    }

    /// Updates the condition by an event of the daemon.
    pub fn hear(&self, event: &DaemonEvent) {
        match event {
            DaemonEvent::Waiting(reason) => self.set_unmet(reason),
            DaemonEvent::Consumer(ConsumerEvent::Assigned { partition, .. }) => {
                let mut condition = self.condition();
                condition.partitions.remove(partition);
                condition.reading = Reading::Yes;
            }
            // Erased trips are back until the log was read to where it was.
            DaemonEvent::Consumer(
                ConsumerEvent::Stopped { partition, .. } | ConsumerEvent::Behind { partition, .. },
            ) => {
                self.condition().partitions.insert(*partition, event.to_string());
            }
            DaemonEvent::Consumer(
                ConsumerEvent::Revoked { partition, .. }
                | ConsumerEvent::Lost { partition }
                | ConsumerEvent::CaughtUp { partition },
            ) => {
                self.condition().partitions.remove(partition);
            }
            // It is reported once, and lasts until the group assigns a partition.
            DaemonEvent::Consumer(ConsumerEvent::Denied(reason)) => {
                self.condition().reading = Reading::NotYet(reason.clone());
            }
            DaemonEvent::Consumer(_)
            | DaemonEvent::Needs(_)
            | DaemonEvent::Notice(_)
            | DaemonEvent::Warning(_)
            | DaemonEvent::Rules(_) => (),
        }
    }

    fn set_unmet(&self, reason: &str) {
        let reason = reason.to_owned();
        let mut condition = self.condition();
        condition.reading = match condition.reading {
            Reading::NotYet(_) => Reading::NotYet(reason),
            Reading::Yes | Reading::Interrupted(..) => Reading::Interrupted(reason, Instant::now()),
        };
    }

    fn condition(&self) -> MutexGuard<'_, Condition> {
        self.0.lock().expect("no holder of the lock panics")
    }

    /// The reason why the condition is unmet; `None` if it is met.
    #[must_use]
    pub fn unmet_reason(&self) -> Option<String> {
        let condition = self.condition();
        if !condition.partitions.is_empty() {
            let problems: Vec<_> = condition.partitions.values().map(String::as_str).collect();
            return Some(problems.join("; "));
        }
        match &condition.reading {
            Reading::NotYet(reason) => Some(reason.clone()),
            Reading::Yes => None,
            Reading::Interrupted(reason, at) => (at.elapsed() < UNMET_TTL).then(|| reason.clone()),
        }
    }
}
