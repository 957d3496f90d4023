//! Where reading of a partition begins, and whether the topic is still the one that was read.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::context::Membership;
use super::{Assignment, Hear, Plan, Told};
use crate::kafka::KafkaError;
use crate::kafka::topic::{Extent, From};

/// How long one question may take, and all of them together.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));

/// The first offset to read of each partition that comes.
pub(super) fn resolve(
    consumer: &BaseConsumer<Membership>,
    plan: &Plan,
    partitions: &[i32],
    hear: &Hear,
) -> Result<Vec<(i32, i64)>, KafkaError> {
    let until = Instant::now() + PATIENCE.1;
    let committed = insist(until, plan, || committed(consumer, plan, partitions))?;
    let mut starts = Vec::with_capacity(partitions.len());
    for &partition in partitions {
        let watermarks = || consumer.fetch_watermarks(&plan.topic, partition, PATIENCE.0);
        let (first, next) = insist(until, plan, watermarks)?;
        let extent = Extent { first, next };
        let kept = committed.get(&partition).copied();
        let start = match start(plan, partition, kept, extent)? {
            Start::At(offset) => offset,
            Start::Gone { first, from } => {
                let next = match from {
                    From::Earliest => extent.first,
                    From::Latest => extent.next,
                    From::Time(time_ms) => {
                        insist(until, plan, || at_time(consumer, plan, partition, time_ms, extent))?
                    }
                };
                hear(Told::Gone { partition, first, next });
                next
            }
        };
        starts.push((partition, start));
    }
    Ok(starts)
}

/// Where a partition goes on.
#[derive(Debug, PartialEq, Eq)]
enum Start {
    At(i64),
    /// What was to be read next is gone.
    Gone {
        first: i64,
        from: From,
    },
}

/// Decides where to go on from what is kept and what is there.
fn start(
    plan: &Plan,
    partition: i32,
    kept: Option<i64>,
    extent: Extent,
) -> Result<Start, KafkaError> {
    let topic = || plan.topic.clone();
    if partition >= plan.epoch.partitions {
        let (was, epoch) = (plan.epoch.partitions, plan.epoch.epoch);
        let problem = format!(
            "has partition {partition} now, and had {was} in epoch {epoch}: devices may have moved \
             between partitions; stop all instances at lag 0, then: tstar epoch new"
        );
        return Err(KafkaError::OtherLife { topic: topic(), problem });
    }
    // Where nothing was committed yet, the epoch says where it began.
    let first = plan.epoch.start_offsets.get(&partition).copied().unwrap_or(0);
    let wanted = kept.unwrap_or(first);
    if wanted > extent.next || first > extent.next {
        let (wanted, next) = (wanted.max(first), extent.next);
        let problem = format!(
            "was made anew: partition {partition} is to be read from offset {wanted}, and ends at \
             {next}; stop all instances, then: tstar epoch new"
        );
        return Err(KafkaError::OtherLife { topic: topic(), problem });
    }
    if wanted >= extent.first {
        return Ok(Start::At(wanted));
    }
    let Assignment::Group { from: Some(from) } = plan.assignment else {
        let why = format!("the oldest one there is has offset {}", extent.first);
        let last = extent.first - 1;
        return Err(KafkaError::Expired { topic: topic(), partition, first: wanted, last, why });
    };
    Ok(Start::Gone { first: wanted, from })
}

/// The offsets that the group has committed.
fn committed(
    consumer: &BaseConsumer<Membership>,
    plan: &Plan,
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

fn at_time(
    consumer: &BaseConsumer<Membership>,
    plan: &Plan,
    partition: i32,
    time_ms: i64,
    extent: Extent,
) -> KafkaResult<i64> {
    let mut asked = TopicPartitionList::new();
    asked.add_partition_offset(&plan.topic, partition, Offset::Offset(time_ms))?;
    let answer = consumer.offsets_for_times(asked, PATIENCE.0)?;
    match answer.find_partition(&plan.topic, partition).map(|found| found.offset()) {
        Some(Offset::Offset(offset)) => Ok(offset),
        _ => Ok(extent.next),
    }
}

/// Asks again until there is an answer, or the time is up.
fn insist<T>(
    until: Instant,
    plan: &Plan,
    mut ask: impl FnMut() -> KafkaResult<T>,
) -> Result<T, KafkaError> {
    loop {
        match ask() {
            Ok(answer) => return Ok(answer),
            Err(error) if Instant::now() >= until => {
                let brokers = plan.brokers.addresses().to_owned();
                return Err(KafkaError::Unreachable { brokers, problem: error.to_string() });
            }
            Err(_) => std::thread::sleep(Duration::from_millis(200)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoch::Epoch;
    use crate::kafka::client::Brokers;
    use crate::rules::Rules;

    fn plan(from: Option<From>) -> Plan {
        let epoch = Epoch {
            epoch: 3,
            topic: "samples".into(),
            partitions: 2,
            start_offsets: BTreeMap::from([(0, 100)]),
            base: 1,
            rules: Rules::default(),
        };
        Plan {
            brokers: Brokers::new("b:1", BTreeMap::new()).unwrap(),
            topic: "samples".into(),
            group: "tstar".into(),
            instance_id: None,
            assignment: Assignment::Group { from },
            epoch,
            revoke_timeout: Duration::ZERO,
            drain_timeout: Duration::ZERO,
            memory: 1,
        }
    }

    #[test]
    fn what_is_committed_decides_then_the_epoch() {
        let (extent, plan) = (Extent { first: 50, next: 200 }, plan(None));
        assert_eq!(start(&plan, 0, Some(150), extent).unwrap(), Start::At(150));
        assert_eq!(start(&plan, 0, Some(200), extent).unwrap(), Start::At(200));
        assert_eq!(start(&plan, 0, None, extent).unwrap(), Start::At(100));
        let fresh = Extent { first: 0, next: 0 };
        assert_eq!(start(&plan, 1, None, fresh).unwrap(), Start::At(0));
    }

    #[test]
    fn another_life_of_the_topic_is_refused_with_the_command_that_helps() {
        let refused = |partition, kept, first, next| {
            start(&plan(None), partition, kept, Extent { first, next }).unwrap_err().to_string()
        };
        let shorter = refused(0, Some(150), 0, 120);
        assert!(shorter.contains("from offset 150, and ends at 120"), "{shorter}");
        let anew = refused(0, None, 0, 7);
        assert!(anew.contains("tstar epoch new"), "{anew}");
        let more = refused(2, None, 0, 7);
        assert!(more.contains("partition 2 now, and had 2 in epoch 3"), "{more}");
    }

    #[test]
    fn records_that_expired_are_named_unless_from_says_where_to_go_on() {
        let extent = Extent { first: 180, next: 200 };
        let refused = start(&plan(None), 0, Some(150), extent).unwrap_err().to_string();
        assert!(refused.contains("records 150 to 179 of partition 0"), "{refused}");
        let gone = Start::Gone { first: 150, from: From::Earliest };
        assert_eq!(start(&plan(Some(From::Earliest)), 0, Some(150), extent).unwrap(), gone);
    }
}
