//! Export: the selected trips of a store, by device and start time, in bounded memory.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::InvalidRequest;
use super::tags;
use super::trip_filter::TripFilter;
use super::trip_list::{TripSpan, prefix_times};
use crate::identity::{DeviceId, date_range, prefix_range};
use crate::model::scalar::{Day, DeviceTime};
use crate::model::tag::TripTags;
use crate::store::skip::{Missing, collecting};
use crate::store::{
    AnyStore, DevicePages, DeviceScope, DevicesOfDays, Kinds, Order, RowError, SideTables,
    StoreError, TripRow, TripStore,
};
use crate::timeline::day_of;

/// Trips of a device that are read at once.
const PAGE: usize = 32;

/// Devices of a day that are read at once.
const DEVICES: usize = 1000;

/// Devices of a store on servers whose first page is read before its turn. Their pages are in
/// memory at once.
const DEVICES_AHEAD: usize = 16;

/// What an export left out.
#[derive(Debug, Default)]
pub struct LeftOut {
    /// Number of rows whose trip changed between two reads of its device; only a store without
    /// snapshots has such rows.
    pub changed: u64,
    /// Trips whose rows are malformed.
    pub missing: Missing,
}

/// A trip and its tags.
pub(crate) type Tagged<'a> = (&'a TripRow, &'a TripTags);

/// The devices and times of an export.
#[derive(Clone, Debug)]
pub struct Selection {
    /// `None`: those of `days`.
    device: Option<DeviceId>,
    /// The first and the last UTC day whose devices are read; `None`: all devices.
    days: Option<(Day, Day)>,
    from_ms: DeviceTime,
    upto_ms: DeviceTime,
    /// Whether the times select by `t_star`, instead of by overlap.
    by_t_star: bool,
    kinds: Kinds,
    /// Which of these.
    filter: TripFilter,
}

impl Selection {
    /// The segments of one device or of all that satisfy a filter.
    ///
    /// # Errors
    /// The prefix is malformed or names another device.
    pub fn new(
        device: Option<DeviceId>,
        kinds: Kinds,
        span: TripSpan<'_>,
        filter: TripFilter,
    ) -> anyhow::Result<Self> {
        let by_overlap = |days, from_ms, upto_ms| (days, from_ms, upto_ms, false);
        let (device, (days, from_ms, upto_ms, by_t_star)) = match (device, span) {
            (device, TripSpan::Overlapping(from_ms, upto_ms)) => {
                (device, by_overlap(None, from_ms, upto_ms))
            }
            (device, TripSpan::Day(day)) => {
                let (from_ms, upto_ms) = day.span();
                let days = (day_of(from_ms), day_of(upto_ms));
                (device, by_overlap(Some(days), from_ms, upto_ms))
            }
            (Some(device), TripSpan::Prefix(prefix)) => {
                let (from_ms, upto_ms) = prefix_times(&device, prefix)?;
                (Some(device), (None, from_ms, upto_ms, true))
            }
            (None, TripSpan::Prefix(prefix)) if prefix.contains('~') => {
                let (device, from_ms, upto_ms) = prefix_range(prefix)?;
                (Some(device), (None, from_ms, upto_ms, true))
            }
            (None, TripSpan::Prefix(date)) => {
                let (from_ms, upto_ms) = date_range(date)?;
                (None, (None, from_ms, upto_ms, true))
            }
        };
        if upto_ms < from_ms {
            return Err(InvalidRequest("the range of times ends before it begins".into()).into());
        }
        Ok(Self { device, days, from_ms, upto_ms, by_t_star, kinds, filter })
    }

    fn contains(&self, row: &TripRow, tags: &TripTags) -> bool {
        let is_in_time = !self.by_t_star || (self.from_ms..=self.upto_ms).contains(&row.t_star_ms);
        is_in_time && self.filter.accepts(row, tags)
    }
}

/// Calls `each` with every selected trip and its tags, once, by device id (in byte order), then
/// start time. Returns what was left out.
///
/// # Errors
/// The store cannot be read, or `each` fails.
pub async fn export(
    store: &AnyStore,
    selection: &Selection,
    each: impl FnMut(Tagged<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<LeftOut> {
    let reader = Reader { store, selection, has_tags: store.has_tags().await? };
    let mut out = Output { each, left_out: LeftOut::default() };
    let has_snapshots = store.snapshot()?.is_some();
    let mut pages = DevicePages::new(store, DeviceScope::All);
    let of_days =
        |(first, last): (Day, Day)| DevicesOfDays::new(store, first.through(last), None, DEVICES);
    let mut of_days = selection.days.map(of_days);
    loop {
        let devices = match (&selection.device, &mut of_days) {
            (Some(device), _) => vec![device.to_string()],
            (None, Some(of_days)) => of_days.next_page(DEVICES).await?,
            (None, None) => pages.next().await?.unwrap_or_default(),
        };
        if has_snapshots {
            for device in &devices {
                // Trips of one device may merge, so its pages are of one moment.
                let _snapshot = store.snapshot()?;
                reader.export_device(device, &mut out).await?;
            }
        } else {
            reader.export_ahead(&devices, &mut out).await?;
        }
        if devices.is_empty() || selection.device.is_some() {
            return Ok(out.left_out);
        }
    }
}

/// Where trips go.
struct Output<F> {
    each: F,
    left_out: LeftOut,
}

/// A page of trips, each with its tags, and the rows that were skipped.
struct Page {
    trips: Vec<(TripRow, TripTags)>,
    skipped: Vec<RowError>,
}

impl Page {
    /// The end of the last trip, if there may be others after it.
    fn end_ms(&self) -> Option<DeviceTime> {
        self.trips.last().filter(|_| self.trips.len() == PAGE).map(|(row, _)| row.end_ms)
    }
}

/// Reads the selected trips of a store.
struct Reader<'a, S> {
    store: &'a S,
    selection: &'a Selection,
    /// Whether any trip may have tags.
    has_tags: bool,
}

impl<S: TripStore + SideTables> Reader<'_, S> {
    /// Exports devices of a store on servers: while the trips of one are written, the first pages
    /// of those after it are read.
    async fn export_ahead(
        &self,
        devices: &[String],
        out: &mut Output<impl FnMut(Tagged<'_>) -> anyhow::Result<()>>,
    ) -> anyhow::Result<()> {
        let first_page = |device| async move {
            let page = self.read_page(device, self.selection.from_ms).await?;
            Ok::<_, StoreError>((device, page))
        };
        let reads = devices.iter().map(|device| first_page(device));
        let mut reads = stream::iter(reads).buffered(DEVICES_AHEAD);
        while let Some((device, page)) = reads.try_next().await? {
            self.export_pages(device, page, out).await?;
        }
        Ok(())
    }

    /// Exports the trips of a device, a page at a time.
    async fn export_device(
        &self,
        device: &str,
        out: &mut Output<impl FnMut(Tagged<'_>) -> anyhow::Result<()>>,
    ) -> anyhow::Result<()> {
        let first = self.read_page(device, self.selection.from_ms).await?;
        self.export_pages(device, first, out).await
    }

    /// A page of trips of a device.
    async fn read_page(&self, device: &str, from_ms: DeviceTime) -> Result<Page, StoreError> {
        let upto_ms = self.selection.upto_ms;
        let rows =
            self.store.range(device, self.selection.kinds, from_ms, upto_ms, Order::Asc, PAGE);
        let (rows, skipped) = collecting(rows).await;
        let rows = rows?;
        let tags = match self.has_tags {
            true => tags::of_trips(self.store, device, &rows).await?,
            false => vec![TripTags::new(); rows.len()],
        };
        Ok(Page { trips: rows.into_iter().zip(tags).collect(), skipped })
    }

    /// Exports a page of a device and those after it.
    async fn export_pages(
        &self,
        device: &str,
        mut page: Page,
        out: &mut Output<impl FnMut(Tagged<'_>) -> anyhow::Result<()>>,
    ) -> anyhow::Result<()> {
        let (mut from_ms, upto_ms) = (self.selection.from_ms, self.selection.upto_ms);
        let mut written_upto = None;
        loop {
            let end_ms = page.end_ms();
            let listed: Vec<_> = page.trips.iter().map(|(row, _)| row).collect();
            // What begins later is read with the next page.
            let span = (from_ms, end_ms.unwrap_or(upto_ms));
            out.left_out.missing.add(page.skipped, span, &listed);
            let is_selected =
                |(row, tags): &&(TripRow, TripTags)| self.selection.contains(row, tags);
            for (row, tags) in page.trips.iter().filter(is_selected) {
                if written_upto.is_some_and(|end_ms| row.start_ms <= end_ms) {
                    out.left_out.changed += 1;
                    continue;
                }
                written_upto = Some(row.end_ms);
                (out.each)((row, tags))?;
            }
            // Trips are disjoint: the next one starts later.
            let Some(end_ms) = end_ms.filter(|end_ms| *end_ms < upto_ms) else { return Ok(()) };
            from_ms = end_ms + 1;
            page = self.read_page(device, from_ms).await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::model::scalar::Version;
    use crate::segment::MintPoints;
    use crate::store::memory::{ApplyRows as _, MemoryStore};
    use crate::timeline::{LegFilter, Path, READINGS, Reading, Sample};

    /// A trip of samples at these hours.
    fn trip(hours: &[i64], version: i64) -> TripRow {
        let at = |hour: &i64| {
            Sample::new(DeviceTime(hour * 3_600_000), (0, 0), [Reading::ABSENT; READINGS])
        };
        let path = Path::from_sorted(hours.iter().map(at)).unwrap();
        let (t_star, version) = (path.first().time_ms, Version(version));
        let ids = MintPoints::new(t_star, version);
        TripRow::from_path("truck-17", &path, (&ids, version), LegFilter::default())
    }

    fn all() -> Selection {
        let span = TripSpan::Overlapping(DeviceTime::MIN, DeviceTime::MAX);
        Selection::new(None, Kinds::All, span, TripFilter::default()).unwrap()
    }

    fn starts(
        store: &MemoryStore,
        selection: &Selection,
        mut then: impl FnMut(usize),
    ) -> (Vec<i64>, u64) {
        let mut starts = Vec::new();
        let each = |(row, _): Tagged<'_>| {
            starts.push(row.start_ms.ms() / 3_600_000);
            then(starts.len());
            Ok(())
        };
        let mut out = Output { each, left_out: LeftOut::default() };
        let reader = Reader { store, selection, has_tags: true };
        reader.export_device("truck-17", &mut out).now_or_never().unwrap().unwrap();
        let changed = out.left_out.changed;
        (starts, changed)
    }

    #[test]
    fn pages_join_to_every_trip_once() {
        let store = MemoryStore::default();
        let page = i64::try_from(PAGE).unwrap();
        for count in [0, 1, page - 1, page, page + 1, 2 * page, 3 * page + 5] {
            // Each continues past midnight now and then.
            let trips: Vec<_> = (0..count).map(|at| trip(&[5 * at, 5 * at + 3], 2 * at)).collect();
            store.apply(&trips).now_or_never().unwrap().unwrap();
            let expected = (0..count).map(|at| 5 * at).collect();
            assert_eq!(starts(&store, &all(), |_| ()), (expected, 0), "{count}");
        }
        let span = TripSpan::Overlapping(DeviceTime(13 * 3_600_000), DeviceTime(20 * 3_600_000));
        let some = Selection::new(None, Kinds::All, span, TripFilter::default()).unwrap();
        assert_eq!(starts(&store, &some, |_| ()), (vec![10, 15, 20], 0));
    }

    #[test]
    fn a_trip_that_grows_between_two_pages_is_not_written_twice() {
        let store = MemoryStore::default();
        let page = i64::try_from(PAGE).unwrap();
        let trips: Vec<_> = (0..page + 5).map(|at| trip(&[5 * at, 5 * at + 3], 2 * at)).collect();
        store.apply(&trips).now_or_never().unwrap().unwrap();
        let last = 5 * (page - 1);
        let (starts, changed) = starts(&store, &all(), |written| {
            if written == PAGE {
                let merged = trip(&[last, last + 3, last + 4, last + 5, last + 8], 1000);
                store.apply(&[merged]).now_or_never().unwrap().unwrap();
            }
        });
        let expected: Vec<_> = (0..page).chain(page + 1..page + 5).map(|at| 5 * at).collect();
        assert_eq!((starts, changed), (expected, 1));
    }

    #[test]
    fn a_prefix_selects_by_t_star_and_may_name_the_device() {
        let one = DeviceId::new("truck-17").unwrap();
        let row = trip(&[23, 25], 2);
        for (device, prefix, is_in) in [
            (None, "1970-01-01", true),
            (None, "19700102", false),
            (None, "truck-17~19700101T23", true),
            (Some(one.clone()), "197001", true),
            (Some(one.clone()), "truck-17~1970", true),
        ] {
            let selection = Selection::new(
                device,
                Kinds::Trips,
                TripSpan::Prefix(prefix),
                TripFilter::default(),
            );
            let selection = selection.unwrap();
            assert_eq!(selection.contains(&row, &TripTags::new()), is_in, "{prefix}");
            assert_eq!(selection.device.is_some(), prefix != "1970-01-01" && prefix != "19700102");
        }
        for (device, prefix) in [(Some(one), "truck-2~1970"), (None, "truck-17~")] {
            let prefix = TripSpan::Prefix(prefix);
            Selection::new(device, Kinds::Trips, prefix, TripFilter::default()).unwrap_err();
        }
    }
}
