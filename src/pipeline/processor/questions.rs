//! Answers questions about the trips in memory, between records and while the store is waited for.
//!
//! A record is absorbed whole without a wait after its first sample, so every answer has trips as
//! they were after some whole record.

use std::pin::pin;

use tokio::sync::{mpsc, oneshot};

use super::Processor;
use super::flush::row_of;
use crate::sink::Sink;
use crate::store::fresh::{MemoryAnswer, MemoryQuestion};
use crate::store::{Order, TripEnd, TripStore};

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

impl<T: TripStore, S: Sink> Processor<'_, T, S> {
    /// Answers these questions while it runs.
    #[must_use]
    pub(crate) fn answering(mut self, questions: mpsc::Receiver<Question>) -> Self {
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
        let newer = slot.map(|slot| self.newer(slot, question));
        MemoryAnswer {
            complete_before: self.is_own_in_memory(&question.device_id).then(|| {
                // The record at the position may have been absorbed in part: not counted.
                self.log.versions.version_at(self.position.delivered)
            }),
            #[cfg(feature = "internals")]
            is_resident: slot.is_some(),
            ..newer.unwrap_or_default()
        }
    }

    /// The rows that are asked for, of the segments of a device that a reader of the store may not
    /// find there, and the span and the last of all of these. A segment without a change at or past
    /// the acknowledged position is durable.
    fn newer(&self, slot: usize, question: &MemoryQuestion) -> MemoryAnswer {
        let (name, device) = self.devices.at(slot);
        let acknowledged = self.log.versions.version_at(self.acknowledged.delivered);
        let newer = device.timeline().segments().filter(|it| it.version() >= acknowledged);
        let mut newer: Vec<_> = newer.collect();
        let span = newer.first().zip(newer.last());
        let newer_ms = span.map(|(first, last)| (first.start_ms(), last.end_ms()));
        let latest = newer.last().map(|last| TripEnd::of_segment(last));
        newer.retain(|segment| {
            segment.start_ms() <= question.upto_ms && segment.end_ms() >= question.from_ms
        });
        if question.order == Order::Desc {
            newer.reverse();
        }
        newer.truncate(question.limit);
        let row = |segment| row_of(name, segment, self.legs, self.log.partition);
        let rows = newer.into_iter().map(row).collect();
        MemoryAnswer { rows, newer_ms, latest, ..MemoryAnswer::default() }
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

#[cfg(test)]
mod tests {
    use super::super::ProcessorConfig;
    use super::super::fixture::{
        EVENING, MINUTE, MemoryStore, block_on, of_topic, processor, samples,
    };
    use super::*;
    use crate::model::scalar::{DeviceTime, Version};

    fn question(device_id: &str, (from, upto): (i64, i64), order: Order) -> MemoryQuestion {
        let (from_ms, upto_ms) = (EVENING + from * MINUTE, EVENING + upto * MINUTE);
        MemoryQuestion { device_id: device_id.to_owned(), from_ms, upto_ms, order, limit: 2 }
    }

    /// The minutes at which the trips of an answer start.
    fn starts(answer: &MemoryAnswer) -> Vec<i64> {
        let minute = |start_ms: DeviceTime| (start_ms - EVENING) / MINUTE;
        answer.rows.iter().map(|row| minute(row.start_ms)).collect()
    }

    #[test]
    fn an_answer_has_the_trips_that_the_store_may_lack() {
        let store = MemoryStore::default();
        let mut processor = processor(&store, ProcessorConfig::default());
        let of = [("van", 0), ("van", 1), ("van", 20), ("van", 40), ("van", 60)];
        block_on(processor.absorb(&samples(0, &of))).unwrap();
        let ask = |processor: &Processor<'_, MemoryStore>, span, order| {
            starts(&processor.answer(&question("van", span, order)))
        };
        assert_eq!(ask(&processor, (1, 40), Order::Asc), [0, 20]);
        assert_eq!(ask(&processor, (0, 40), Order::Desc), [40, 20]);
        assert_eq!(ask(&processor, (2, 19), Order::Asc), [0; 0]);
        assert_eq!(ask(&processor, (60, 60), Order::Asc), [60]);
        assert_eq!(starts(&processor.answer(&question("bus", (0, 60), Order::Asc))), [0; 0]);
        block_on(processor.flush()).unwrap();
        block_on(processor.absorb(&samples(5, &[("van", 21)]))).unwrap();
        assert_eq!(ask(&processor, (0, 60), Order::Asc), [20], "the others are durable");
    }

    /// Of a device without a claim nothing is known, until the claim is.
    #[test]
    fn an_owner_answers_for_the_devices_that_it_has_claimed() {
        let store = MemoryStore::default();
        let mut processor = of_topic(&store, ProcessorConfig::default());
        block_on(store.claim("bus", 1, 5)).unwrap();
        block_on(processor.absorb(&samples(7, &[("van", 0), ("bus", 0)]))).unwrap();
        let complete =
            |device| processor.answer(&question(device, (0, 1), Order::Asc)).complete_before;
        assert_eq!(["van", "bus", "car"].map(complete), [Some(Version(18)), None, None]);
        let files = self::processor(&store, ProcessorConfig::default());
        let answer = files.answer(&question("car", (0, 1), Order::Asc));
        assert_eq!(answer.complete_before, Some(Version(0)));
    }

    #[test]
    fn questions_are_answered_before_a_batch_and_while_something_is_waited_for() {
        let (store, (ask, questions)) = (MemoryStore::default(), mpsc::channel(100));
        let processor = processor(&store, ProcessorConfig::default());
        let mut processor = processor.answering(questions);
        let waiting = || {
            let (reply, answer) = oneshot::channel();
            let question = question("van", (0, 1), Order::Asc);
            ask.try_send(Question { question, reply }).unwrap();
            answer
        };
        let mut answers: Vec<_> = (0..=IN_A_ROW).map(|_| waiting()).collect();
        processor.answer_waiting();
        let answered = answers.iter_mut().map(|answer| answer.try_recv().is_ok());
        assert_eq!(answered.filter(|is_answered| *is_answered).count(), IN_A_ROW);
        block_on(processor.while_answering(answers.pop().unwrap())).unwrap();
        // Once there can be no question, what is waited for still ends.
        drop(waiting());
        drop(ask);
        block_on(processor.while_answering(tokio::task::yield_now()));
        processor.answer_waiting();
    }
}
