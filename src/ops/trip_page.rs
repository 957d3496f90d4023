//! Pages of trips: of a device, or of all devices.

use super::lookup::Fresh;
use super::silence;
use super::tags::of_spans;
use super::trip_filter::TripFilter;
use crate::identity::{DeviceId, TripId};
use crate::model::scalar::{Day, DeviceTime, Version};
use crate::model::tag::TripTags;
use crate::store::fresh::FreshRow;
use crate::store::skip::{Missing, collecting};
use crate::store::{DevicesOfDays, Kinds, Order, SideTables as _, StoreError, TripRow};
use crate::timeline::day_of;
use crate::views::{Silence, TagValues, tag_values};

/// Rows read at once; all of their paths are in memory.
const CHUNK: usize = 50;

/// Devices of a day read at once.
const DEVICES: usize = 100;

/// Maximum number of rows read for a page, and of devices without any: a page whose filter passes
/// few trips ends before it is full.
const MAX_READ: usize = 5000;

/// Minimum size of a sample as JSON, in bytes.
pub(crate) const MIN_SAMPLE: u64 = 48;

/// Approximate size of a trip as JSON without its path, in bytes: mostly its absorbed ids.
#[must_use]
pub(crate) fn approximate_size(row: &TripRow) -> usize {
    1000 + row.absorbed().count() * (row.device_id.len() * 3 + 32)
}

/// What a page contains.
#[derive(Clone, Debug)]
pub(crate) struct PageRequest {
    /// Maximum number of trips.
    pub limit: usize,
    /// Approximate maximum size as JSON, bytes; at least one trip fits.
    pub max_bytes: usize,
    /// Which segments.
    pub kinds: Kinds,
    /// Which of these.
    pub filter: TripFilter,
    /// Whether the paths are needed.
    pub reads_path: bool,
    /// Whether the tags are needed.
    pub reads_tags: bool,
}

/// A page that is filled until a trip does not fit.
pub(crate) struct TripPage<'a> {
    store: Fresh<'a>,
    request: PageRequest,
    /// The trips, with their tags; without their paths if those are not needed.
    pub rows: Vec<(FreshRow, TagValues)>,
    /// The trips include every record of the device before this version, if that is known.
    complete_before: Option<Version>,
    /// The silence before each of them, once [`TripPage::add_silences`] has read it.
    pub silences: Option<Vec<Option<Silence>>>,
    /// Approximate size of the trips as JSON.
    pub bytes: usize,
    /// Number of rows read, and of devices without any.
    read: usize,
    /// Start of the next page, set when a trip does not fit on this one.
    pub next: Option<TripId>,
    /// Malformed trips that the page lacks.
    pub missing: Missing,
    /// Whether trips may have tags, and the page needs them; `None` until it is known.
    has_tags: Option<bool>,
}

impl<'a> TripPage<'a> {
    /// An empty page.
    #[must_use]
    pub(crate) fn new(store: Fresh<'a>, request: PageRequest) -> Self {
        Self {
            store,
            request,
            rows: Vec::new(),
            silences: None,
            complete_before: Some(Version::MAX),
            bytes: 0,
            read: 0,
            next: None,
            missing: Missing::default(),
            has_tags: None,
        }
    }

    /// Whether the page includes the record at a version.
    #[must_use]
    pub(crate) fn includes(&self, version: Version) -> bool {
        let has = |(found, _): &(FreshRow, _)| found.row.version >= version;
        self.complete_before.is_some_and(|before| version < before) || self.rows.iter().any(has)
    }

    /// Whether no trip was found, not even a malformed one.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.next.is_none() && self.missing.trips == 0
    }

    /// Adds the trips of all devices that overlap a span, ordered by device and start time, from a
    /// cursor on, until the page is full.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn fill_fleet(
        &mut self,
        (from_ms, to_ms): (DeviceTime, DeviceTime),
        cursor: Option<TripId>,
    ) -> Result<(), StoreError> {
        let mut after = None;
        if let Some(TripId { device_id, t_star_ms }) = cursor {
            self.fill(&device_id, (from_ms.max(t_star_ms), to_ms), Order::Asc).await?;
            after = Some(device_id);
        }
        let days = (day_of(from_ms).get()..=day_of(to_ms).get()).map(Day);
        let after = after.as_ref().map(DeviceId::as_str);
        let mut devices = DevicesOfDays::new(self.store.store(), days, after, DEVICES);
        while self.next.is_none() {
            let Some(device) = devices.next().await? else { break };
            self.fill(&device, (from_ms, to_ms), Order::Asc).await?;
        }
        Ok(())
    }

    /// Adds the trips of a device that overlap a span, until the page is full.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn fill(
        &mut self,
        device: &str,
        (mut from_ms, mut to_ms): (DeviceTime, DeviceTime),
        order: Order,
    ) -> Result<(), StoreError> {
        while self.next.is_none() && from_ms <= to_ms {
            if self.read >= MAX_READ {
                self.end_at(device, if order == Order::Asc { from_ms } else { to_ms });
                return Ok(());
            }
            let found =
                self.store.range(device, self.request.kinds, (from_ms, to_ms), order, CHUNK);
            let (found, skipped) = collecting(found).await;
            let found = found?;
            self.complete_before = self.complete_before.min(found.complete_before);
            let count = found.rows.len();
            self.read += count.max(1);
            let last = found.rows.last().map(|found| (found.row.start_ms, found.row.end_ms));
            let last = last.filter(|_| count == CHUNK);
            // What is beyond the last trip is read again.
            let span = match (last, order) {
                (Some((_, end_ms)), Order::Asc) => (from_ms, end_ms),
                (Some((start_ms, _)), Order::Desc) => (start_ms, to_ms),
                (None, _) => (from_ms, to_ms),
            };
            self.missing.add(skipped, span, &found.rows);
            let tags = self.tags(device, &found.rows).await?;
            for (found, tags) in found.rows.into_iter().zip(tags) {
                let is_wanted = self.request.filter.accepts(&found.row, &tags);
                if is_wanted && !self.push(device, found, (order, &tags)) {
                    return Ok(());
                }
            }
            match (last, order) {
                (Some((_, end_ms)), Order::Asc) => from_ms = end_ms + 1,
                (Some((start_ms, _)), Order::Desc) => to_ms = start_ms - 1,
                (None, _) => break,
            }
        }
        Ok(())
    }

    /// Adds the silence before each trip of a page of one device.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn add_silences(&mut self, device: &str) -> Result<(), StoreError> {
        let rows: Vec<_> = self.rows.iter().map(|(found, _)| &found.row).collect();
        self.silences = Some(silence::before_each(&self.store, device, &rows).await?);
        Ok(())
    }

    /// The tags of trips of a device, if the page needs them: one read for all.
    async fn tags(&mut self, device: &str, rows: &[FreshRow]) -> Result<Vec<TripTags>, StoreError> {
        let store = self.store.store();
        let has_tags = match self.has_tags {
            Some(has_tags) => has_tags,
            None => self.request.reads_tags && store.has_tags().await?,
        };
        self.has_tags = Some(has_tags);
        if !has_tags {
            return Ok(vec![TripTags::new(); rows.len()]);
        }
        let spans: Vec<_> = rows.iter().map(|it| (it.row.start_ms, it.row.end_ms)).collect();
        of_spans(store, device, &spans).await
    }

    /// Adds a trip, and returns true, if it fits on the page.
    fn push(
        &mut self,
        device: &str,
        mut found: FreshRow,
        (order, tags): (Order, &TripTags),
    ) -> bool {
        let row = &mut found.row;
        if self.rows.len() == self.request.limit || self.bytes > self.request.max_bytes {
            self.end_at(device, if order == Order::Asc { row.start_ms } else { row.end_ms });
            return false;
        }
        self.bytes += approximate_size(row);
        if self.request.reads_path {
            let samples = u64::try_from(row.samples).unwrap_or_default();
            let bytes = usize::try_from(samples.saturating_mul(2 * MIN_SAMPLE));
            self.bytes = self.bytes.saturating_add(bytes.unwrap_or(usize::MAX));
        } else {
            row.path = Vec::new();
        }
        let tags = tag_values(tags);
        self.bytes += tags.iter().map(|(key, value)| key.len() + value.len() + 8).sum::<usize>();
        self.rows.push((found, tags));
        true
    }

    fn end_at(&mut self, device: &str, t_star_ms: DeviceTime) {
        self.next = Some(TripId { device_id: DeviceId::from_store(device), t_star_ms });
    }
}
