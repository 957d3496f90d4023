//! Tags of trips and devices: set, removed, and read with them.

use std::collections::BTreeMap;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::lookup::{FoundTrip, Fresh, NoTrip};
use super::trip_list;
use crate::identity::AnyId;
use crate::log::changes::{AnnounceError, TagFeed};
use crate::model::scalar::DeviceTime;
use crate::model::tag::{
    DEVICE_TIME, MAX_KEYS, Revision, Tag, TagKey, TagValue, TripTag, TripTags, resolve,
};
use crate::model::visible::visible;
use crate::segment::Kind;
use crate::store::{Kinds, Order, SideTables, StoreError, TripRow, TripStore};
use crate::views::{Match, TagValues, ViewError, tag_values};

/// Attempts at a write while others write the same tag.
const ATTEMPTS: u32 = 20;

/// Devices whose tags are read at the same time.
const CONCURRENCY: usize = 16;

/// Where the tags of a trip or device are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagTarget {
    /// Device id.
    pub device_id: String,
    /// The time that a new tag is set at: that of the id, if the trip ever had it; else the trip's
    /// own; of a device, [`DEVICE_TIME`].
    pub t_star_ms: DeviceTime,
    /// First and last time of the tags, ms: those of the trip.
    pub span: (DeviceTime, DeviceTime),
}

impl TagTarget {
    /// The tags of the trip `row`, which was found by an id of the time `t_star_ms`.
    #[must_use]
    pub fn new(row: &TripRow, t_star_ms: DeviceTime) -> Self {
        let t_star_ms = match Match::classify(t_star_ms, row) {
            Match::Current | Match::Retired => t_star_ms,
            Match::Covers => row.t_star_ms,
        };
        Self { device_id: row.device_id.clone(), t_star_ms, span: (row.start_ms, row.end_ms) }
    }

    /// The tags of a device.
    #[must_use]
    pub fn of_device(device_id: &str) -> Self {
        let (device_id, span) = (device_id.to_owned(), (DEVICE_TIME, DEVICE_TIME));
        Self { device_id, t_star_ms: DEVICE_TIME, span }
    }
}

/// What a write requires of the tag that counts for its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagCondition {
    /// Nothing.
    Any,
    /// There is none.
    Absent,
    /// There is one.
    Present,
    /// It has this revision.
    Revision(Revision),
}

impl TagCondition {
    fn holds(self, found: Option<&TripTag>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => found.is_none(),
            Self::Present => found.is_some(),
            Self::Revision(revision) => found.is_some_and(|found| found.tag.revision == revision),
        }
    }
}

/// Why tags were not changed.
#[derive(Debug, thiserror::Error)]
pub enum TagError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The condition does not hold.
    #[error("{}", changed(.0.as_deref()))]
    Changed(Option<Box<TripTag>>),
    /// The trip or device has as many keys as it may have.
    #[error("it has tags of {MAX_KEYS} keys already; remove one first")]
    TooMany,
    /// The trip or device has no tag of this key.
    #[error("it has no tag `{0}`")]
    None(TagKey),
    /// Others kept writing the same tag.
    #[error("other writers keep changing this tag; retry")]
    Contended,
    /// The system has no randomness.
    #[error("the system gives no random number: {0}")]
    Random(getrandom::Error),
    /// The trip was erased meanwhile.
    #[error(transparent)]
    NoTrip(#[from] NoTrip),
    /// The device has no trip or stop: it never had one, or all were erased.
    #[error("the store has no trip or stop of device `{}`", visible(.0))]
    NoDevice(String),
    /// The change feed does not have it.
    #[error(transparent)]
    Announce(Box<AnnounceError>),
    /// The id of a tag has no text form.
    #[error(transparent)]
    View(#[from] ViewError),
}

fn changed(found: Option<&TripTag>) -> String {
    match found {
        None => "it has no such tag; the tag may have been removed".to_owned(),
        Some(TripTag { tag, .. }) => {
            format!("the tag was changed: its revision is now {}; read it again", tag.revision)
        }
    }
}

/// A tag that was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenTag {
    /// The tag.
    pub tag: Tag,
    /// What counted for its key before.
    pub before: Option<TripTag>,
}

/// The tags of a trip or device.
///
/// # Errors
/// The store cannot be read.
pub async fn of_target(
    store: &impl SideTables,
    target: &TagTarget,
) -> Result<TripTags, StoreError> {
    Ok(resolve(store.tags(&target.device_id, target.span).await?))
}

/// Where the tags of a device are.
///
/// # Errors
/// The device has no trip or stop, or the store cannot be read.
pub(crate) async fn find_device(store: &Fresh<'_>, device_id: &str) -> Result<TagTarget, TagError> {
    match trip_list::has_rows(store, device_id).await? {
        true => Ok(TagTarget::of_device(device_id)),
        false => Err(TagError::NoDevice(device_id.to_owned())),
    }
}

/// The values of the tags of a trip.
///
/// # Errors
/// The store cannot be read.
pub async fn values(store: &impl SideTables, row: &TripRow) -> Result<TagValues, StoreError> {
    Ok(tag_values(&of_target(store, &TagTarget::new(row, row.t_star_ms)).await?))
}

/// Size of the tags of devices after which no more are read, bytes: those of one device may have a
/// quarter of a megabyte.
const MAX_OF_DEVICES: usize = 4 << 20;

/// The tags of devices, in their order: of all, or of the first ones if these have many. Reads once
/// for each device if the store has any tags.
///
/// # Errors
/// The store cannot be read.
pub(crate) async fn of_devices(
    store: &impl SideTables,
    devices: &[String],
) -> Result<Vec<TripTags>, StoreError> {
    if devices.is_empty() || !store.has_tags().await? {
        return Ok(vec![TripTags::new(); devices.len()]);
    }
    let targets: Vec<_> = devices.iter().map(|device| TagTarget::of_device(device)).collect();
    let reads: Vec<_> = targets.iter().map(|target| of_target(store, target)).collect();
    let mut reads = stream::iter(reads).buffered(CONCURRENCY);
    let size = |(key, it): (&TagKey, &TripTag)| key.as_str().len() + it.tag.value.as_str().len();
    let (mut found, mut bytes) = (Vec::new(), 0);
    while bytes < MAX_OF_DEVICES
        && let Some(tags) = reads.try_next().await?
    {
        bytes += tags.iter().map(size).sum::<usize>();
        found.push(tags);
    }
    Ok(found)
}

/// The tags of disjoint trips of one device, in their order. Reads once for all of them.
///
/// # Errors
/// The store cannot be read.
pub async fn of_trips(
    store: &impl SideTables,
    device_id: &str,
    rows: &[TripRow],
) -> Result<Vec<TripTags>, StoreError> {
    let spans = rows.iter().map(|row| (row.start_ms, row.end_ms));
    of_spans(store, device_id, &spans.collect::<Vec<_>>()).await
}

/// The tags of the trips of a device with these spans, ms, which are disjoint. Reads once for all
/// of them.
///
/// # Errors
/// The store cannot be read.
pub(crate) async fn of_spans(
    store: &impl SideTables,
    device_id: &str,
    spans: &[(DeviceTime, DeviceTime)],
) -> Result<Vec<TripTags>, StoreError> {
    let from_ms = spans.iter().map(|span| span.0).min();
    let upto_ms = spans.iter().map(|span| span.1).max();
    let Some(span) = from_ms.zip(upto_ms) else { return Ok(Vec::new()) };
    let tags = store.tags(device_id, span).await?;
    let of_span = |&(start_ms, end_ms): &(DeviceTime, DeviceTime)| {
        let from = tags.partition_point(|tag| tag.t_star_ms < start_ms);
        let upto = tags.partition_point(|tag| tag.t_star_ms <= end_ms);
        resolve(tags[from..upto.max(from)].iter().cloned())
    };
    Ok(spans.iter().map(of_span).collect())
}

/// The tags of trips of any devices, in their order. Reads once for each device.
///
/// # Errors
/// The store cannot be read.
pub(crate) async fn of_rows(
    store: &impl SideTables,
    rows: &[TripRow],
) -> Result<Vec<TripTags>, StoreError> {
    let mut found = vec![TripTags::new(); rows.len()];
    if rows.is_empty() || !store.has_tags().await? {
        return Ok(found);
    }
    let mut by_device: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        by_device.entry(&row.device_id).or_default().push(at);
    }
    for (device_id, places) in by_device {
        let spans = places.iter().map(|&at| (rows[at].start_ms, rows[at].end_ms));
        let tags = of_spans(store, device_id, &spans.collect::<Vec<_>>()).await?;
        for (at, tags) in places.into_iter().zip(tags) {
            found[at] = tags;
        }
    }
    Ok(found)
}

/// Changes the tags of a trip or device and announces the changes.
pub(crate) struct TagWriter<'a> {
    /// Its store.
    pub store: Fresh<'a>,
    /// What announces tags, unless the store does.
    pub feed: Option<&'a TagFeed>,
    /// The id of the trip: as the client wrote it, and what it is. `None`: the device.
    pub id: Option<(&'a str, &'a AnyId)>,
    /// The trip or device.
    pub target: TagTarget,
}

impl TagWriter<'_> {
    /// Sets a tag.
    ///
    /// # Errors
    /// The condition does not hold, the trip or device has too many keys or was erased meanwhile,
    /// or the store or the feed fails.
    pub(crate) async fn set(
        &mut self,
        tag: (&TagKey, &TagValue),
        condition: TagCondition,
        now_ms: i64,
    ) -> Result<WrittenTag, TagError> {
        let store = self.store.store();
        let written = set(store, &self.target, tag, condition, now_ms).await?;
        // A forget that ran meanwhile does not know of the tag.
        let found = self.find().await;
        if let Err(TagError::NoTrip(_) | TagError::NoDevice(_)) = found {
            store.delete_tag(&self.target.device_id, &written.tag).await?;
        }
        self.target = found?;
        self.announce([(&written.tag, false)]).await?;
        Ok(written)
    }

    /// Finds the trip or device again.
    async fn find(&self) -> Result<TagTarget, TagError> {
        let Some((text, id)) = self.id else {
            return find_device(&self.store, &self.target.device_id).await;
        };
        let found = self.store.find(id).await?;
        let found = FoundTrip::new(found, (text, id.t_star_ms()), Kinds::Trips)?;
        Ok(TagTarget::new(&found.row, found.t_star_ms))
    }

    /// Removes a key from a trip, at every id of it, or from a device. Returns what counted before.
    ///
    /// # Errors
    /// It has no such tag, the condition does not hold, or the store or the feed fails.
    pub(crate) async fn remove(
        &self,
        key: &TagKey,
        condition: TagCondition,
    ) -> Result<TripTag, TagError> {
        let removed = remove(self.store.store(), &self.target, key, condition).await?;
        let all = [&removed.tag].into_iter().chain(&removed.superseded);
        self.announce(all.map(|tag| (tag, true))).await?;
        Ok(removed)
    }

    async fn announce(
        &self,
        changes: impl IntoIterator<Item = (&Tag, bool)>,
    ) -> Result<(), TagError> {
        let Some(feed) = self.feed else { return Ok(()) };
        let announced = feed.announce(&self.target.device_id, changes).await;
        announced.map_err(|error| TagError::Announce(Box::new(error)))
    }
}

/// Sets a tag, and does not announce it. A forget that runs meanwhile does not know of the tag.
///
/// # Errors
/// The condition does not hold, the trip or device has too many keys, or the store fails.
pub async fn set(
    store: &impl SideTables,
    target: &TagTarget,
    (key, value): (&TagKey, &TagValue),
    condition: TagCondition,
    now_ms: i64,
) -> Result<WrittenTag, TagError> {
    for _ in 0..ATTEMPTS {
        let found = store.tags_to_change(&target.device_id, target.span).await?;
        let is_own = |tag: &&Tag| tag.t_star_ms == target.t_star_ms && tag.key == *key;
        let replaced = found.iter().find(is_own).map(|tag| tag.revision);
        let mut tags = resolve(found);
        let before = tags.remove(key);
        if !condition.holds(before.as_ref()) {
            return Err(TagError::Changed(before.map(Box::new)));
        }
        if before.is_none() && tags.len() >= MAX_KEYS {
            return Err(TagError::TooMany);
        }
        // Later than what it replaces, however the clocks of the writers differ.
        let after_ms = before.as_ref().map_or(i64::MIN, |it| it.tag.written_ms.saturating_add(1));
        let revision = getrandom::u64().map_err(TagError::Random)?;
        let tag = Tag {
            t_star_ms: target.t_star_ms,
            key: key.clone(),
            value: value.clone(),
            written_ms: now_ms.max(after_ms),
            revision: Revision(revision.cast_signed()),
        };
        if store.put_tag(&target.device_id, &tag, replaced).await? {
            return Ok(WrittenTag { tag, before });
        }
    }
    Err(TagError::Contended)
}

/// Removes a key from a trip, at every id of it, or from a device, and does not announce that.
/// Returns what counted before.
///
/// # Errors
/// It has no such tag, the condition does not hold, or the store fails.
pub async fn remove(
    store: &impl SideTables,
    target: &TagTarget,
    key: &TagKey,
    condition: TagCondition,
) -> Result<TripTag, TagError> {
    let mut first = None;
    for _ in 0..ATTEMPTS {
        let found = store.tags_to_change(&target.device_id, target.span).await?;
        let found = resolve(found).remove(key);
        let Some(found) = found else {
            return first.ok_or_else(|| match condition {
                TagCondition::Any => TagError::None(key.clone()),
                _ => TagError::Changed(None),
            });
        };
        if !condition.holds(Some(&found)) {
            return Err(TagError::Changed(Some(Box::new(found))));
        }
        // The oldest first: what is left if this is interrupted is what counted.
        let all = found.superseded.iter().rev().chain([&found.tag]);
        let mut is_done = true;
        for tag in all {
            is_done &= store.delete_tag(&target.device_id, tag).await?;
        }
        let first = &*first.get_or_insert(found);
        if is_done {
            return Ok(first.clone());
        }
    }
    Err(TagError::Contended)
}

/// What became of the tags of a store in another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopiedTags {
    /// Tags that the other store has now.
    pub copied: u64,
    /// Those of them that no trip there covers, or whose device has none there.
    pub uncovered: u64,
}

/// Copies all tags to another store of the same devices. A tag that no trip there covers is copied,
/// too, so that nothing is lost, and reported to `on_uncovered` with its device. A newer tag of the
/// same id and key is left.
///
/// # Errors
/// A store cannot be read, or the other one cannot be written.
pub async fn copy<S: TripStore + SideTables>(
    from: &S,
    to: &S,
    mut on_uncovered: impl FnMut(&str, &Tag),
) -> Result<CopiedTags, StoreError> {
    let mut done = CopiedTags::default();
    for device_id in from.tagged_devices().await? {
        for tag in from.tags(&device_id, (DeviceTime::MIN, DeviceTime::MAX)).await? {
            put_newest(to, &device_id, &tag).await?;
            done.copied += 1;
            let is_covered = if tag.is_of_device() {
                let all = (DeviceTime::MIN, DeviceTime::MAX);
                let any = to.range(&device_id, Kinds::All, all.0, all.1, Order::Asc, 1).await?;
                !any.is_empty()
            } else {
                let found = to.covering(&device_id, tag.t_star_ms).await?;
                found.is_some_and(|row| row.kind == Kind::Trip)
            };
            if !is_covered {
                done.uncovered += 1;
                on_uncovered(&device_id, &tag);
            }
        }
    }
    Ok(done)
}

/// Writes a tag unless the store has a newer one of the same id and key, or this one.
async fn put_newest(store: &impl SideTables, device_id: &str, tag: &Tag) -> Result<(), StoreError> {
    loop {
        let found = store.tags_to_change(device_id, (tag.t_star_ms, tag.t_star_ms)).await?;
        let existing = found.into_iter().find(|other| other.key == tag.key);
        let is_newer = |other: &Tag| other.written_ms >= tag.written_ms;
        if existing.as_ref().is_some_and(is_newer)
            || store.put_tag(device_id, tag, existing.map(|other| other.revision)).await?
        {
            return Ok(());
        }
    }
}
