//! Where reading of a log ended, as versions by partition.

use std::collections::BTreeMap;

use super::topic_log::TopicLog;
use crate::model::scalar::Version;
use crate::store::StoreError;

/// Where reading of a log ended. A log of files has no bounds: all of it was read.
#[derive(Clone, Default)]
pub struct Bounds<'a> {
    /// The version of the last record that was read.
    pub last: BTreeMap<i32, Version>,
    /// The version of the last record of the log: no row is newer.
    pub limit: BTreeMap<i32, Version>,
    /// The log, if records may be added to it meanwhile.
    pub log: Option<&'a TopicLog>,
}

impl Bounds<'_> {
    /// Whether a row is newer than what was read, but not newer than the log.
    pub fn is_ahead(&self, partition: Option<i32>, version: Version) -> bool {
        let bound =
            |bounds: &BTreeMap<i32, Version>| partition.and_then(|it| bounds.get(&it).copied());
        bound(&self.last).is_some_and(|last| version > last)
            && bound(&self.limit).is_some_and(|limit| version <= limit)
    }

    /// Whether a record is newer than what was read of its partition; `None`: of any partition.
    /// Versions of different partitions have no order.
    pub fn is_newer(&self, partition: Option<i32>, version: Version) -> bool {
        match partition {
            Some(partition) => self.last.get(&partition).is_some_and(|last| version > *last),
            None => self.last.values().any(|last| version > *last),
        }
    }

    /// Moves the limit to the present end of the log. Returns `false` if no records are added to
    /// it.
    ///
    /// # Errors
    /// No broker responds.
    pub async fn follow(&mut self) -> Result<bool, StoreError> {
        let Some(log) = self.log else { return Ok(false) };
        self.limit = log.last_versions().await?;
        Ok(true)
    }
}
