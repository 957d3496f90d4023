//! The dead letters of a topic, which are records of another one.

use rdkafka::error::KafkaError as ClientError;

use super::topic::{OutputTopics, too_small_limit};
use crate::kafka::letter_record::{self, Limit};
use crate::kafka::producer::{ProducerClient, ProducerRecord, is_timestamp_refused, size};
use crate::store::{DeadLetter, Result};

/// Approximate maximum size of the dead letters in one request, bytes.
const MAX_LETTER_BYTES: usize = 4 << 20;

impl<C: ProducerClient> OutputTopics<C> {
    /// Sends dead letters, a few megabytes at a time: letters share data in memory that each record
    /// repeats.
    pub(super) async fn send_dead_letters(&self, letters: &[DeadLetter]) -> Result<()> {
        let Some(topic) = &self.letters else { return Ok(()) };
        let mut rest = letters;
        while !rest.is_empty() {
            let (mut records, mut bytes) = (Vec::new(), 0);
            for letter in rest {
                let record = letter_record::fitting_record(&self.input, letter, self.letter_limit);
                bytes += size(&record);
                records.push(record);
                if bytes >= MAX_LETTER_BYTES {
                    break;
                }
            }
            let too_large = self.offer_letters(topic, &mut records).await;
            let too_large = too_large.map_err(self.refused(topic, "sending dead letters"))?;
            let (current, remaining) = rest.split_at(records.len());
            for index in too_large {
                self.send_smaller_letter(topic, &current[index], size(&records[index])).await?;
            }
            rest = remaining;
        }
        Ok(())
    }

    /// The `send_fitting` of the producer, with the timestamps of their records, or without if
    /// the topic refuses those: its limits may differ from those of the input topic.
    async fn offer_letters(
        &self,
        topic: &str,
        letters: &mut [ProducerRecord],
    ) -> Result<Vec<usize>, ClientError> {
        match self.producer.send_fitting(topic, letters).await {
            Err(error) if is_timestamp_refused(&error) => (),
            sent => return sent,
        }
        // Letters that were already accepted are sent a second time; other partitions may still
        // refuse theirs.
        for letter in &mut *letters {
            *letter = letter_record::without_timestamp(std::mem::take(letter));
        }
        self.producer.send_unbatched(topic, letters).await
    }

    /// Sends a letter that exceeds the actual limit of the topic, smaller and smaller.
    async fn send_smaller_letter(
        &self,
        topic: &str,
        letter: &DeadLetter,
        mut refused: usize,
    ) -> Result<()> {
        loop {
            let limit = Limit { record: refused / 2, ..self.letter_limit };
            let mut record = [letter_record::fitting_record(&self.input, letter, limit)];
            let bytes = size(&record[0]);
            if bytes >= refused {
                return Err(too_small_limit(topic, "dead letter", refused));
            }
            let too_large = self.offer_letters(topic, &mut record).await;
            if too_large.map_err(self.refused(topic, "sending a dead letter"))?.is_empty() {
                return Ok(());
            }
            refused = bytes;
        }
    }
}
