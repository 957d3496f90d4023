//! Where reading of a partition begins, and whether the topic is still the one that was read.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::rebalance::RebalanceContext;
use super::{Assignment, ConsumerConfig, ConsumerEvent, OnConsumerEvent};
use crate::kafka::KafkaError;
use crate::kafka::topic::{OffsetRange, StartFrom, at_time};
use crate::model::epoch::Epoch;

/// How long one question may take, and all of them together.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));

/// The first offset to read of each partition that comes.
pub(super) fn resolve(
    consumer: &BaseConsumer<RebalanceContext>,
    plan: &ConsumerConfig,
    partitions: &[i32],
    hear: &OnConsumerEvent,
) -> Result<Vec<(i32, i64)>, KafkaError> {
    let until = Instant::now() + PATIENCE.1;
    let committed = plan.brokers.insist(until, || committed(consumer, plan, partitions))?;
    let mut starts = Vec::with_capacity(partitions.len());
    for &partition in partitions {
        let watermarks = || consumer.fetch_watermarks(&plan.topic, partition, PATIENCE.0);
        let (first, next) = plan.brokers.insist(until, watermarks)?;
        let extent = OffsetRange { first, next };
        let kept = committed.get(&partition).copied();
        let Assignment::Group { from } = plan.assignment else {
            unreachable!("without a group nothing is resolved here")
        };
        let start = match resume_point(&plan.epoch, from, partition, kept, extent)? {
            ResumePoint::At(offset) => offset,
            ResumePoint::Gone { first, from } => {
                let next = match from {
                    StartFrom::Earliest => extent.first,
                    StartFrom::Latest => extent.next,
                    StartFrom::Time(time_ms) => {
                        let extents = [(partition, extent)];
                        let ask = || at_time(consumer, &plan.topic, time_ms, &extents, PATIENCE.0);
                        plan.brokers.insist(until, ask)?[&partition]
                    }
                };
                hear(ConsumerEvent::Expired { partition, first, next });
                next
            }
        };
        starts.push((partition, start));
    }
    Ok(starts)
}

/// Where a partition goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumePoint {
    /// At this offset.
    At(i64),
    /// What was to be read next is gone.
    Gone {
        /// The first offset that is.
        first: i64,
        /// Where to go on.
        from: StartFrom,
    },
}

/// Decides where a partition goes on, from the offset that is kept of it and those that it has.
///
/// # Errors
/// The topic is not the one that the epoch was made for, or records are gone and `from` does not
/// say where to go on.
pub fn resume_point(
    epoch: &Epoch,
    from: Option<StartFrom>,
    partition: i32,
    kept: Option<i64>,
    extent: OffsetRange,
) -> Result<ResumePoint, KafkaError> {
    let topic = || epoch.topic.clone();
    if partition >= epoch.partitions {
        let problem = format!(
            "has partition {partition} now, and had {} in epoch {}: devices may have moved \
             between partitions; stop all instances at lag 0, then: tstar epoch new",
            epoch.partitions, epoch.epoch
        );
        return Err(KafkaError::TopicMismatch { topic: topic(), problem });
    }
    // Where nothing was committed yet, the epoch says where it began.
    let first = epoch.start_offsets.get(&partition).copied().unwrap_or(0);
    let wanted = kept.unwrap_or(first);
    if wanted > extent.next || first > extent.next {
        let (wanted, next) = (wanted.max(first), extent.next);
        let problem = format!(
            "was made anew: partition {partition} is to be read from offset {wanted}, and ends at \
             {next}; stop all instances, then: tstar epoch new"
        );
        return Err(KafkaError::TopicMismatch { topic: topic(), problem });
    }
    if wanted >= extent.first {
        return Ok(ResumePoint::At(wanted));
    }
    let Some(from) = from else {
        let why = format!("the oldest one there is has offset {}", extent.first);
        let last = extent.first - 1;
        return Err(KafkaError::Expired { topic: topic(), partition, first: wanted, last, why });
    };
    Ok(ResumePoint::Gone { first: wanted, from })
}

/// The offsets that the group has committed.
fn committed(
    consumer: &BaseConsumer<RebalanceContext>,
    plan: &ConsumerConfig,
    partitions: &[i32],
) -> KafkaResult<BTreeMap<i32, i64>> {
    let mut asked = TopicPartitionList::new();
    for &partition in partitions {
        asked.add_partition(&plan.topic, partition);
    }
    let answer = consumer.committed_offsets(asked, PATIENCE.0)?;
    let mut offsets = BTreeMap::new();
    for found in answer.elements() {
        found.error()?;
        if let Offset::Offset(offset) = found.offset() {
            offsets.insert(found.partition(), offset);
        }
    }
    Ok(offsets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::rules::Rules;

    fn start(partition: i32, kept: Option<i64>, extent: (i64, i64)) -> Result<ResumePoint, String> {
        start_from(None, partition, kept, extent)
    }

    fn start_from(
        from: Option<StartFrom>,
        partition: i32,
        kept: Option<i64>,
        (first, next): (i64, i64),
    ) -> Result<ResumePoint, String> {
        let epoch = Epoch {
            epoch: 3,
            topic: "samples".into(),
            partitions: 2,
            start_offsets: BTreeMap::from([(0, 100)]),
            base: 1,
            rules: Rules::default(),
            partitioner: None,
        };
        let extent = OffsetRange { first, next };
        resume_point(&epoch, from, partition, kept, extent).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_committed_decides_then_the_epoch() {
        assert_eq!(start(0, Some(150), (50, 200)), Ok(ResumePoint::At(150)));
        assert_eq!(start(0, Some(200), (50, 200)), Ok(ResumePoint::At(200)));
        assert_eq!(start(0, None, (50, 200)), Ok(ResumePoint::At(100)));
        assert_eq!(start(1, None, (0, 0)), Ok(ResumePoint::At(0)));
    }

    #[test]
    fn another_life_of_the_topic_is_refused_with_the_command_that_helps() {
        let shorter = start(0, Some(150), (0, 120)).unwrap_err();
        assert!(shorter.contains("from offset 150, and ends at 120"), "{shorter}");
        let anew = start(0, None, (0, 7)).unwrap_err();
        assert!(anew.contains("tstar epoch new"), "{anew}");
        let more = start(2, None, (0, 7)).unwrap_err();
        assert!(more.contains("partition 2 now, and had 2 in epoch 3"), "{more}");
    }

    #[test]
    fn records_that_expired_are_named_unless_from_says_where_to_go_on() {
        let refused = start(0, Some(150), (180, 200)).unwrap_err();
        assert!(refused.contains("records 150 to 179 of partition 0"), "{refused}");
        let gone = ResumePoint::Gone { first: 150, from: StartFrom::Earliest };
        assert_eq!(start_from(Some(StartFrom::Earliest), 0, Some(150), (180, 200)), Ok(gone));
    }
}
