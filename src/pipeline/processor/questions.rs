//! Answers questions about the trips in memory, between records and while the store is waited for.
//!
//! A record is absorbed whole without a wait after its first sample, so every answer has trips as
//! they were after some whole record.

use std::pin::pin;

use tokio::sync::{mpsc, oneshot};

use super::Processor;
use super::flush::row_of;
use crate::store::fresh::{MemoryAnswer, MemoryQuestion};
use crate::store::{Journal, Order, TripRow, TripStore};

/// Maximum number of questions answered before the next batch is absorbed.
const IN_A_ROW: usize = 32;

/// A question, and where its answer goes.
#[derive(Debug)]
pub struct Question {
    /// What is asked.
    pub question: MemoryQuestion,
    /// Receives the answer.
    pub reply: oneshot::Sender<MemoryAnswer>,
}

impl<T: TripStore, J: Journal> Processor<'_, T, J> {
    /// Answers these questions while it runs.
    #[must_use]
    pub fn answering(mut self, questions: mpsc::Receiver<Question>) -> Self {
        self.questions = Some(questions);
        self
    }

    /// Answers the questions that wait.
    pub(super) fn answer_waiting(&mut self) {
        for _ in 0..IN_A_ROW {
            let Some(Ok(question)) = self.questions.as_mut().map(mpsc::Receiver::try_recv) else {
                return;
            };
            self.reply(question);
        }
    }

    /// Waits for `work`, and answers questions until it is done.
    pub(super) async fn while_answering<F: Future>(&mut self, work: F) -> F::Output {
        let mut work = pin!(work);
        loop {
            let Some(questions) = &mut self.questions else { return work.await };
            let question = tokio::select! {
                biased;
                done = &mut work => return done,
                question = questions.recv() => question,
            };
            match question {
                Some(question) => self.reply(question),
                None => self.questions = None,
            }
        }
    }

    fn reply(&self, Question { question, reply }: Question) {
        if !reply.is_closed() {
            // The receiver may give up meanwhile.
            reply.send(self.answer(&question)).ok();
        }
    }

    fn answer(&self, question: &MemoryQuestion) -> MemoryAnswer {
        let slot = self.devices.find_slot(&question.device_id);
        MemoryAnswer {
            rows: slot.map_or_else(Vec::new, |slot| self.rows_in_memory(slot, question)),
            complete_before: self.is_own_in_memory(&question.device_id).then(|| {
                // The record at the position may have been absorbed in part: not counted.
                self.log.versions.version_at(self.position.delivered)
            }),
            #[cfg(feature = "internals")]
            is_resident: slot.is_some(),
        }
    }

    /// The rows of the trips of a device that a reader of the store may not find there. A trip
    /// without a change at or past the acknowledged position is durable.
    fn rows_in_memory(&self, slot: usize, question: &MemoryQuestion) -> Vec<TripRow> {
        let (name, device) = self.devices.at(slot);
        let acknowledged = self.log.versions.version_at(self.acknowledged.delivered);
        let mut trips: Vec<_> = device.timeline().trips().collect();
        trips.retain(|trip| {
            trip.version >= acknowledged
                && trip.start_ms() <= question.upto_ms
                && trip.end_ms() >= question.from_ms
        });
        if question.order == Order::Desc {
            trips.reverse();
        }
        trips.truncate(question.limit);
        let row = |trip| row_of(name, trip, self.legs, self.log.partition);
        trips.into_iter().map(row).collect()
    }

    /// Whether a device is known to belong to this partition, without a look at the store.
    fn is_own_in_memory(&self, device_id: &str) -> bool {
        let Some(division) = self.log.versions.division_of(self.position.delivered) else {
            return true;
        };
        let slot = self.devices.find_slot(device_id);
        let known = slot.and_then(|slot| self.devices.at(slot).1.home);
        let home = match known.filter(|home| home.epoch == division.epoch) {
            Some(home) => Some(home.partition),
            None => division.computed(device_id),
        };
        home == Some(self.log.partition)
    }
}
