//! The consumer group that reads the log of a store: one, which the store keeps with the positions.

use std::collections::BTreeMap;

use super::DaemonError;
use crate::kafka::KafkaError;
use crate::kafka::client::Brokers;
use crate::kafka::group::Group;
use crate::model::epoch::Epoch;
use crate::model::scalar::Offset;
use crate::model::visible::shell_word;
use crate::store::{AnyStore, SideTables as _, TripStore as _};

/// The group of a start.
pub(crate) struct GroupRequest<'a> {
    /// URL of the store, for messages.
    pub location: &'a str,
    /// The group of the settings.
    pub group: &'a str,
    /// Whether it may take the place of the one that the store keeps.
    pub may_change: bool,
    /// The brokers that keep its offsets; `None` if the store does.
    pub brokers: Option<&'a Brokers>,
}

impl GroupRequest<'_> {
    /// The error of a store that another group reads.
    fn refused(&self, kept: &str) -> DaemonError {
        let Self { location, group, .. } = self;
        let word = shell_word(kept);
        DaemonError::Precondition(format!(
            "store `{location}` is read by consumer group `{kept}`, and `{group}` would read every \
             record as well: pass --group {word}; or stop all instances and pass --group-change \
             once, to continue as `{group}` where `{kept}` is"
        ))
    }
}

/// Checks that the group is the one that the store keeps, and keeps it if there is none.
///
/// # Errors
/// Another group reads the log, the brokers refuse to move its offsets, or the store fails.
pub(crate) async fn keep(
    store: &AnyStore,
    newest: &Epoch,
    request: &GroupRequest<'_>,
) -> Result<(), DaemonError> {
    let former = store.group().await?;
    match &former {
        Some(kept) if kept == request.group => return Ok(()),
        Some(kept) if !request.may_change => return Err(request.refused(kept)),
        Some(kept) => {
            if let Some(brokers) = request.brokers {
                let kept_positions = store.positions(newest.epoch).await?;
                let next = |partition| {
                    let Offset(next) = kept_positions.position_of(newest, partition)?;
                    Some((partition, next))
                };
                let next = (0..newest.partitions).filter_map(next).collect();
                let groups = (kept.clone(), request.group.to_owned());
                let (brokers, newest) = (brokers.clone(), newest.clone());
                let moved = move || move_offsets(&brokers, &newest, groups, next);
                tokio::task::spawn_blocking(moved)
                    .await
                    .unwrap_or(Err(KafkaError::Broken.into()))?;
            }
        }
        None => (),
    }
    let kept = store.keep_group(former.as_deref(), request.group).await?;
    match kept {
        Some(kept) if kept != request.group => Err(request.refused(&kept)),
        _ => Ok(()),
    }
}

/// Commits the positions of a store for the group that continues, where it has no offset.
fn move_offsets(
    brokers: &Brokers,
    newest: &Epoch,
    (former, group): (String, String),
    mut next: BTreeMap<i32, i64>,
) -> Result<(), DaemonError> {
    let members = Group::new(brokers, &former)?.members()?;
    if members > 0 {
        return Err(DaemonError::Precondition(format!(
            "consumer group `{former}` has {members} members; stop all instances first"
        )));
    }
    let group = Group::new(brokers, &group)?;
    let committed = group.committed(&newest.topic, newest.partitions)?;
    next.retain(|partition, _| !committed.contains_key(partition));
    if !next.is_empty() {
        group.set(&newest.topic, &next)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::partitioner::Partitioner;
    use crate::model::rules::Rules;
    use crate::model::scalar::Version;
    use crate::store::{Access, OpenOptions, StoreUrl};

    #[tokio::test]
    async fn a_second_group_is_refused_unless_it_is_to_take_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trips.db");
        let epoch = Epoch {
            epoch: 1,
            topic: "samples".into(),
            partitions: 2,
            start_offsets: BTreeMap::new(),
            base: Version(1),
            rules: Rules::default(),
            partitioner: Partitioner::None,
            topic_id: None,
            keeps_positions: true,
        };
        let url = StoreUrl::parse(&format!("sqlite:{}", path.display())).unwrap();
        let access = Access::WriteTopic(&epoch.rules);
        let store = AnyStore::open(&url, access, OpenOptions::default()).await.unwrap();
        let request = |group, may_change| GroupRequest {
            location: "sqlite:trips.db",
            group,
            may_change,
            brokers: None,
        };
        for _ in 0..2 {
            keep(&store, &epoch, &request("ours", false)).await.unwrap();
        }
        let refused = keep(&store, &epoch, &request("theirs", false)).await.unwrap_err();
        let text = refused.to_string();
        assert!(text.contains("pass --group ours") && text.contains("--group-change"), "{text}");
        assert_eq!(store.group().await.unwrap().as_deref(), Some("ours"));
        keep(&store, &epoch, &request("theirs", true)).await.unwrap();
        let refused = keep(&store, &epoch, &request("ours", false)).await.unwrap_err();
        assert!(refused.to_string().contains("pass --group theirs"), "{refused}");
        // Of two that take the place of one, the first does.
        let first = store.keep_group(Some("theirs"), "a").await.unwrap();
        assert_eq!(first.as_deref(), Some("a"));
        let second = store.keep_group(Some("theirs"), "b").await.unwrap();
        assert_eq!(second.as_deref(), Some("a"));
    }
}
