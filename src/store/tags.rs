//! Tags of trips, apart from the trips: written by users while another process may write trips.

use std::future::Future;

use super::StoreError;
use crate::model::scalar::DeviceTime;
use crate::model::tag::{Revision, Tag};

/// Stores tags by device, time of the id, and key.
///
/// Writes are conditional, so that of two at once neither is lost unnoticed. A store that repeats a
/// write without an answer recognises its own by the revision.
pub trait TagStore: Send + Sync {
    /// The tags of a device at ids from `from_ms` to `upto_ms`, both inclusive; ordered by id, then
    /// by key.
    fn tags(
        &self,
        device_id: &str,
        from_ms: DeviceTime,
        upto_ms: DeviceTime,
    ) -> impl Future<Output = Result<Vec<Tag>, StoreError>> + Send;

    /// [`TagStore::tags`] for a writer: sees writes in progress, too, and costs more.
    fn tags_to_change(
        &self,
        device_id: &str,
        from_ms: DeviceTime,
        upto_ms: DeviceTime,
    ) -> impl Future<Output = Result<Vec<Tag>, StoreError>> + Send {
        self.tags(device_id, from_ms, upto_ms)
    }

    /// Writes a tag if the one with its id and key still has the revision `replaced`, or if there
    /// is none and `replaced` is `None`. Returns whether it was written.
    fn put_tag(
        &self,
        device_id: &str,
        tag: &Tag,
        replaced: Option<Revision>,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Deletes a tag if it still has its revision. Returns whether none with its id and key is
    /// left; if one is, another write came first.
    fn delete_tag(
        &self,
        device_id: &str,
        tag: &Tag,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Whether any trip may have a tag.
    fn has_tags(&self) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// The devices with tags, in an order of the store.
    fn tagged_devices(&self) -> impl Future<Output = Result<Vec<String>, StoreError>> + Send;
}
