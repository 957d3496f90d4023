//! Finds the start offset of a partition, and checks that the topic is still the one of the epoch.

use std::time::Duration;

use rdkafka::error::{KafkaError as ClientError, KafkaResult};
use rdkafka::types::RDKafkaErrorCode;
use tokio::time::Instant;

use super::client::GroupClient;
use super::{Assignment, ConsumerConfig, ConsumerEvent, OnConsumerEvent};
use crate::kafka::rights::Right;
use crate::kafka::topics::{OffsetRange, StartFrom};
use crate::kafka::{KafkaError, client_error};
use crate::model::epoch::Epoch;

/// Time limit for all requests together.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(60);

/// Time limit for one commit of start offsets.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Where a newly assigned partition starts.
pub(super) struct Start {
    pub(super) offset: i64,
    /// By `--from`, as the records from the committed offset on have expired.
    pub(super) is_chosen: bool,
}

/// Finds where each newly assigned partition starts. A request that fails is repeated, unless the
/// member is to stop.
pub(super) fn resolve(
    client: &impl GroupClient,
    config: &ConsumerConfig,
    partitions: &[i32],
    on_event: &OnConsumerEvent,
) -> Result<Vec<(i32, Start)>, KafkaError> {
    let deadline = Instant::now() + TOTAL_TIMEOUT;
    let is_over = || client.context().is_stopping() || Instant::now() >= deadline;
    let (brokers, sleep) = (&config.brokers, |delay| client.sleep(delay));
    let rights = &rights(config);
    if config.epoch.topic_id.is_some() {
        let id = brokers.retry_with(rights, sleep, is_over, || client.topic_id())?;
        check_topic_id(&config.epoch, id.as_deref())?;
    }
    let committed = brokers.retry_with(rights, sleep, is_over, || client.committed(partitions))?;
    let (mut starts, mut chosen) = (Vec::with_capacity(partitions.len()), Vec::new());
    for &partition in partitions {
        let extent = brokers.retry_with(rights, sleep, is_over, || client.extent(partition))?;
        let committed_offset = committed.get(&partition).copied();
        let point = resume_point(&config.epoch, from(config), partition, committed_offset, extent)?;
        let offset = |point| start_offset(client, (partition, extent), point);
        let offset = brokers.retry_with(rights, sleep, is_over, || offset(point))?;
        let is_chosen = matches!(point, ResumePoint::Gone { .. });
        if let ResumePoint::Gone { first, .. } = point {
            chosen.push((partition, first, offset));
        }
        starts.push((partition, Start { offset, is_chosen }));
    }
    let offsets: Vec<_> = chosen.iter().map(|&(partition, _, next)| (partition, next)).collect();
    commit_starts(client, config, &offsets, is_over)?;
    for (partition, first, next) in chosen {
        on_event(ConsumerEvent::Expired { partition, first, next });
    }
    Ok(starts)
}

/// The rights that a member of the group needs.
fn rights(config: &ConsumerConfig) -> [Right; 2] {
    [Right::group("Read", &config.member.group), Right::topic("Read", &config.topic)]
}

fn from(config: &ConsumerConfig) -> Option<StartFrom> {
    let Assignment::Group { from } = config.assignment else {
        unreachable!("start offsets are resolved only for a group")
    };
    from
}

/// The offset of the first record to read.
fn start_offset(
    client: &impl GroupClient,
    (partition, extent): (i32, OffsetRange),
    point: ResumePoint,
) -> KafkaResult<i64> {
    match point {
        ResumePoint::At(offset) => Ok(offset),
        ResumePoint::Gone { from: StartFrom::Earliest, .. } => Ok(extent.first),
        ResumePoint::Gone { from: StartFrom::Latest, .. } => Ok(extent.next),
        ResumePoint::Gone { from: StartFrom::Time(time_ms), .. } => {
            client.offset_at(partition, extent, time_ms)
        }
    }
}

/// Finds where a partition resumes whose rows are those of everything before an offset only.
/// Nothing is skipped from the group's offset on: it may be where an earlier `--from` has
/// continued. The inner error: the brokers do not answer.
pub(super) fn resume_at(
    client: &impl GroupClient,
    config: &ConsumerConfig,
    (partition, wanted, of_group): (i32, i64, i64),
    on_event: &OnConsumerEvent,
) -> Result<KafkaResult<i64>, KafkaError> {
    let extent = match client.extent(partition) {
        Ok(extent) => extent,
        Err(error) => return Ok(Err(error)),
    };
    let point = resume_point(&config.epoch, from(config), partition, Some(wanted), extent)?;
    let found = start_offset(client, (partition, extent), point).map(|next| next.min(of_group));
    if let (ResumePoint::Gone { first, .. }, Ok(next)) = (point, &found) {
        on_event(ConsumerEvent::Expired { partition, first, next: *next });
    }
    Ok(found)
}

/// Commits the start offsets that `--from` has chosen, before any record is read: otherwise a
/// restart would choose again, and skip the records that came in the meantime.
fn commit_starts(
    client: &impl GroupClient,
    config: &ConsumerConfig,
    offsets: &[(i32, i64)],
    is_over: impl Fn() -> bool,
) -> Result<(), KafkaError> {
    if offsets.is_empty() {
        return Ok(());
    }
    let request = || match client.commit_by(offsets, Instant::now() + COMMIT_TIMEOUT) {
        Err(error) if has_left_group(&error) => Ok(Err(error)),
        done => done.map(Ok),
    };
    let (rights, sleep) = (rights(config), |delay| client.sleep(delay));
    let done = config.brokers.retry_with(&rights, sleep, is_over, request)?;
    done.map_err(client_error("committing where to start"))
}

/// Whether the group continued without this member: it commits nothing until it has joined again.
fn has_left_group(error: &ClientError) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        error.rdkafka_error_code(),
        Some(Code::IllegalGeneration | Code::UnknownMemberId | Code::FencedInstanceId)
    )
}

/// Where reading of a partition resumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResumePoint {
    /// At this offset.
    At(i64),
    /// The records at the resume offset have expired.
    Gone {
        /// First expired offset.
        first: i64,
        /// Where to start instead.
        from: StartFrom,
    },
}

/// Checks that the topic was not recreated, by the id that it has now.
///
/// # Errors
/// It has another id than in the epoch.
pub(crate) fn check_topic_id(epoch: &Epoch, found: Option<&str>) -> Result<(), KafkaError> {
    epoch.check_topic_id(found).map_err(|recreated| KafkaError::TopicMismatch {
        topic: epoch.topic.clone(),
        problem: format!("{recreated}; stop all instances, then: tstar epoch new"),
    })
}

/// Decides where a partition resumes, from its committed offset and the offsets that it has.
///
/// # Errors
/// The topic does not match the epoch, or records expired and `from` is `None`.
pub(crate) fn resume_point(
    epoch: &Epoch,
    from: Option<StartFrom>,
    partition: i32,
    committed_offset: Option<i64>,
    extent: OffsetRange,
) -> Result<ResumePoint, KafkaError> {
    let topic = || epoch.topic.clone();
    if partition >= epoch.partitions {
        let problem = format!(
            "now has partition {partition}, but had {} partitions in epoch {}: devices may have \
             moved between them; stop all instances at lag 0, then: tstar epoch new",
            epoch.partitions, epoch.epoch
        );
        return Err(KafkaError::TopicMismatch { topic: topic(), problem });
    }
    // Without a committed offset, the epoch decides.
    let first = epoch.start_of(partition);
    let wanted = committed_offset.unwrap_or(first);
    if wanted > extent.next || first > extent.next {
        let (wanted, next) = (wanted.max(first), extent.next);
        let problem = format!(
            "was recreated: partition {partition} resumes at offset {wanted}, but ends at {next}; \
             stop all instances, then: tstar epoch new"
        );
        return Err(KafkaError::TopicMismatch { topic: topic(), problem });
    }
    if wanted >= extent.first {
        return Ok(ResumePoint::At(wanted));
    }
    let Some(from) = from else {
        let reason = format!("the oldest remaining offset is {}", extent.first);
        let last = extent.first - 1;
        return Err(KafkaError::Expired { topic: topic(), partition, first: wanted, last, reason });
    };
    Ok(ResumePoint::Gone { first: wanted, from })
}

#[cfg(test)]
mod tests {
    use super::super::group_fixture::epoch;
    use super::*;

    fn start(
        partition: i32,
        committed_offset: Option<i64>,
        extent: (i64, i64),
    ) -> Result<ResumePoint, String> {
        start_from(None, partition, committed_offset, extent)
    }

    fn start_from(
        from: Option<StartFrom>,
        partition: i32,
        committed_offset: Option<i64>,
        (first, next): (i64, i64),
    ) -> Result<ResumePoint, String> {
        let extent = OffsetRange { first, next };
        resume_point(&epoch(None), from, partition, committed_offset, extent)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_committed_offset_decides_then_the_epoch() {
        assert_eq!(start(0, Some(150), (50, 200)), Ok(ResumePoint::At(150)));
        assert_eq!(start(0, Some(200), (50, 200)), Ok(ResumePoint::At(200)));
        assert_eq!(start(0, None, (50, 200)), Ok(ResumePoint::At(100)));
        assert_eq!(start(0, None, (50, 100)), Ok(ResumePoint::At(100)));
        assert_eq!(start(1, None, (0, 0)), Ok(ResumePoint::At(0)));
    }

    #[test]
    fn another_topic_of_the_name_is_refused_with_the_command_that_helps() {
        let shorter = start(0, Some(150), (0, 120)).unwrap_err();
        assert!(shorter.contains("at offset 150, but ends at 120"), "{shorter}");
        let than_the_epoch = start(0, Some(10), (0, 50)).unwrap_err();
        assert!(than_the_epoch.contains("at offset 100, but ends at 50"), "{than_the_epoch}");
        let recreated = start(0, None, (0, 7)).unwrap_err();
        assert!(recreated.contains("tstar epoch new"), "{recreated}");
        let grown = start(2, None, (0, 7)).unwrap_err();
        assert!(grown.contains("partition 2, but had 2 partitions in epoch 3"), "{grown}");
    }

    #[test]
    fn a_topic_with_another_id_is_refused() {
        assert!(check_topic_id(&epoch(Some("old")), Some("old")).is_ok());
        let recreated = check_topic_id(&epoch(Some("old")), Some("new")).unwrap_err().to_string();
        assert!(recreated.contains("tstar epoch new"), "{recreated}");
    }

    #[test]
    fn expired_records_are_an_error_unless_from_is_given() {
        let refused = start(0, Some(150), (180, 200)).unwrap_err();
        assert!(refused.contains("records 150 to 179 of partition 0"), "{refused}");
        let gone = ResumePoint::Gone { first: 150, from: StartFrom::Earliest };
        assert_eq!(start_from(Some(StartFrom::Earliest), 0, Some(150), (180, 200)), Ok(gone));
    }
}
