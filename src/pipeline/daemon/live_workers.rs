//! The partition workers of this process, for questions about what they have in memory.
//!
//! Who owns a device is a hint: a worker may have lost its partition without knowing it, and the
//! owner may be in another process. A wrong or missing one costs a read, never an answer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::join_all;
use metrics::counter;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::codec::trip_row::resolve_overlaps;
use crate::model::epoch::Division;
use crate::pipeline::processor::Question;
use crate::store::Order;
use crate::store::fresh::{MemoryAnswer, MemoryQuestion, OwnerMemory};
use crate::telemetry::{ANSWERED, MEMORY_QUESTIONS, NO_WORKER, UNANSWERED};

/// How long a worker has to answer. It answers between two records, and while it waits for the
/// store, so that only a loaded machine takes longer.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(50);

/// Maximum number of questions that wait for a worker.
const WAITING: usize = 64;

/// The live workers, by partition.
#[derive(Debug, Default)]
pub struct LiveWorkers(Mutex<BTreeMap<i32, Live>>);

#[derive(Debug)]
struct Live {
    /// How devices are assigned to the partitions of the newest epoch.
    division: Division,
    questions: mpsc::Sender<Question>,
}

/// Keeps a worker in the list until it is dropped.
pub(super) struct Listed {
    workers: Arc<LiveWorkers>,
    partition: i32,
    questions: mpsc::Sender<Question>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut live = self.workers.live();
        // The partition may have a new worker already.
        if live.get(&self.partition).is_some_and(|it| it.questions.same_channel(&self.questions)) {
            live.remove(&self.partition);
        }
    }
}

impl LiveWorkers {
    /// Adds the worker of a partition. Returns the questions to it.
    pub(super) fn list(
        self: &Arc<Self>,
        partition: i32,
        division: Division,
    ) -> (Listed, mpsc::Receiver<Question>) {
        let (questions, receiver) = mpsc::channel(WAITING);
        self.live().insert(partition, Live { division, questions: questions.clone() });
        (Listed { workers: Arc::clone(self), partition, questions }, receiver)
    }

    /// The workers that may own a device: that of its partition if it is computed, else all.
    fn asked(&self, device_id: &str) -> Vec<mpsc::Sender<Question>> {
        let live = self.live();
        let may_own = |(partition, worker): &(&i32, &Live)| {
            worker.division.computed(device_id).is_none_or(|of| of == **partition)
        };
        live.iter().filter(may_own).map(|(_, worker)| worker.questions.clone()).collect()
    }

    fn live(&self) -> MutexGuard<'_, BTreeMap<i32, Live>> {
        self.0.lock().expect("no holder of the lock panics")
    }
}

impl OwnerMemory for LiveWorkers {
    async fn answer(&self, question: MemoryQuestion) -> Option<MemoryAnswer> {
        let asked = self.asked(&question.device_id);
        if asked.is_empty() {
            counter!(MEMORY_QUESTIONS, "result" => NO_WORKER).increment(1);
            return None;
        }
        let answers = asked.into_iter().map(|worker| send(worker, question.clone()));
        let both = |one, other| join(one, other, &question);
        let joined = join_all(answers).await.into_iter().flatten().reduce(both);
        let result = if joined.is_some() { ANSWERED } else { UNANSWERED };
        counter!(MEMORY_QUESTIONS, "result" => result).increment(1);
        joined
    }
}

/// Sends a question to a worker, and waits for its answer.
async fn send(worker: mpsc::Sender<Question>, question: MemoryQuestion) -> Option<MemoryAnswer> {
    let (reply, answer) = oneshot::channel();
    // A worker that is behind with its answers is not asked more.
    worker.try_send(Question { question, reply }).ok()?;
    timeout(ANSWER_TIMEOUT, answer).await.ok()?.ok()
}

/// Both answers: at most one of two workers owns a device.
fn join(mut one: MemoryAnswer, mut other: MemoryAnswer, question: &MemoryQuestion) -> MemoryAnswer {
    if !other.rows.is_empty() {
        one.rows.append(&mut other.rows);
        one.rows = resolve_overlaps(one.rows);
        if question.order == Order::Desc {
            one.rows.reverse();
        }
        one.rows.truncate(question.limit);
    }
    let spans = one.newer_ms.into_iter().chain(other.newer_ms);
    one.newer_ms = spans.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
    one.latest = [one.latest, other.latest].into_iter().flatten().max_by_key(|end| end.version);
    one.complete_before = one.complete_before.max(other.complete_before);
    #[cfg(feature = "internals")]
    {
        one.is_resident |= other.is_resident;
    }
    one
}
