//! Silences: the time and the way from a segment to the next one of its device, which no sample
//! shows.

use std::collections::BTreeMap;

use super::lookup::Fresh;
use crate::model::scalar::DeviceTime;
use crate::store::fresh::FreshRow;
use crate::store::skip::collecting;
use crate::store::{Kinds, Order, RowError, StoreError, TripRow};
use crate::timeline::{RawSample, Sample, great_circle_m};
use crate::views::Silence;

/// Rows read at once; all of their paths are in memory.
const CHUNK: usize = 50;

/// The silence before each of these segments of a device; `None` for its first one, and after a
/// malformed one.
///
/// # Errors
/// The store cannot be read.
pub(crate) async fn before_each(
    store: &Fresh<'_>,
    device_id: &str,
    rows: &[&TripRow],
) -> Result<Vec<Option<Silence>>, StoreError> {
    let starts = rows.iter().map(|row| row.start_ms);
    let Some((first_ms, last_ms)) = starts.clone().min().zip(starts.max()) else {
        return Ok(Vec::new());
    };
    let mut ends = Ends::default();
    let before = (DeviceTime::MIN, first_ms - 1);
    let found = store.range(device_id, Kinds::All, before, Order::Desc, 1);
    let (found, skipped) = collecting(found).await;
    ends.add(&found?.rows, &skipped);
    let mut from_ms = first_ms;
    while from_ms < last_ms {
        let between = (from_ms, last_ms - 1);
        let found = store.range(device_id, Kinds::All, between, Order::Asc, CHUNK);
        let (found, skipped) = collecting(found).await;
        let found = found?.rows;
        ends.add(&found, &skipped);
        let Some(last) = found.last().filter(|_| found.len() == CHUNK) else { break };
        from_ms = last.row.end_ms + 1;
    }
    Ok(rows.iter().map(|row| ends.silence_before(row)).collect())
}

/// The last sample of each segment by its time; `None` of a malformed one.
#[derive(Default)]
struct Ends(BTreeMap<DeviceTime, Option<Sample>>);

impl Ends {
    fn add(&mut self, found: &[FreshRow], skipped: &[RowError]) {
        self.0.extend(skipped.iter().map(|error| (error.end_ms, None)));
        let row =
            |it: &FreshRow| (it.row.end_ms, sample(it.row.end_ms, it.row.end_lat, it.row.end_lon));
        self.0.extend(found.iter().map(row));
    }

    fn silence_before(&self, row: &TripRow) -> Option<Silence> {
        let (_, end) = self.0.range(..row.start_ms).next_back()?;
        let (end, start) = ((*end)?, sample(row.start_ms, row.start_lat, row.start_lon)?);
        let duration_ms = start.time_ms - end.time_ms;
        Some(Silence { duration_ms, distance_m: great_circle_m(&end, &start) })
    }
}

/// An end of a segment, as its row has it.
fn sample(time_ms: DeviceTime, lat: f64, lon: f64) -> Option<Sample> {
    Sample::quantised(&RawSample { time_ms, lat, lon, ..RawSample::default() }).ok()
}
