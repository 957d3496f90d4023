//! Compares the trips and ids of two stores of one log that were built by different rules.

use std::collections::{BTreeSet, VecDeque};

use serde::Serialize;

use crate::model::scalar::DeviceTime;
use crate::store::{DeviceScope, Kinds, Order, StoreError, TripRow, TripStore};

/// Number of trips or devices in one page.
const PAGE: usize = 256;

/// How the trips and ids of an old store compare with those of a new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ids {
    /// Devices that are in either store.
    pub devices: u64,
    /// Trips of the old store; the sum of the next five counts.
    pub old_trips: u64,
    /// Old trips that overlap one new trip, of the same span.
    pub equal: u64,
    /// Old trips that overlap several new trips.
    pub split: u64,
    /// Old trips that overlap one new trip, together with other old trips.
    pub joined: u64,
    /// Old trips that overlap one new trip, of another span, that overlaps no other old trip.
    pub changed: u64,
    /// Old trips that overlap no new trip.
    pub gone: u64,
    /// Trips of the new store.
    pub new_trips: u64,
    /// Current ids of the old store that are current in the new one. With the next two counts, they
    /// are the old trips; with the two after those, the new trips.
    pub ids_kept: u64,
    /// Current ids of the old store that a merge retired in the new one.
    pub ids_retired: u64,
    /// Current ids of the old store that were never minted in the new one: their sample joined a
    /// trip that was there.
    pub ids_unminted: u64,
    /// Current ids of the new store that a merge retired in the old one.
    pub ids_revived: u64,
    /// Current ids of the new store that are neither current nor retired in the old one.
    pub ids_minted: u64,
    /// All ids of the old store, current and retired.
    pub old_ids: u64,
    /// Ids of the old store, current and retired, that resolve to a trip in the new one.
    pub old_ids_found: u64,
}

impl Ids {
    /// The share of the old store's ids that resolve in the new one; `None` if it has no ids.
    #[must_use]
    pub fn share_of_old_ids_found(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
        let share = |found: u64, all: u64| found as f64 / all as f64;
        (self.old_ids > 0).then(|| share(self.old_ids_found, self.old_ids))
    }
}

/// The part of a trip that is compared.
#[derive(Clone, Debug)]
struct ComparedTrip {
    start_ms: DeviceTime,
    end_ms: DeviceTime,
    t_star_ms: DeviceTime,
    absorbed: BTreeSet<DeviceTime>,
}

impl ComparedTrip {
    fn from_row(row: TripRow) -> Self {
        let absorbed = row.absorbed().map(|(t_star_ms, _)| t_star_ms).collect();
        let (start_ms, end_ms, t_star_ms) = (row.start_ms, row.end_ms, row.t_star_ms);
        Self { start_ms, end_ms, t_star_ms, absorbed }
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.start_ms <= other.end_ms && other.start_ms <= self.end_ms
    }

    fn covers(&self, time_ms: DeviceTime) -> bool {
        (self.start_ms..=self.end_ms).contains(&time_ms)
    }
}

/// Reads the trips of one device by start time, page by page.
struct TripPages<'a, S> {
    store: &'a S,
    device_id: &'a str,
    /// Trips that were read and not returned yet.
    ahead: VecDeque<ComparedTrip>,
    /// Start of the next page, ms; `None` after the last page.
    from_ms: Option<DeviceTime>,
}

impl<S: TripStore> TripPages<'_, S> {
    /// Start of the next trip, ms; `None` at the end.
    async fn next_start(&mut self) -> Result<Option<DeviceTime>, StoreError> {
        if self.ahead.is_empty()
            && let Some(from_ms) = self.from_ms
        {
            let (store, id) = (self.store, self.device_id);
            let rows =
                store.range(id, Kinds::All, from_ms, DeviceTime::MAX, Order::Asc, PAGE).await?;
            let is_last = rows.len() < PAGE;
            let end_ms = rows.last().map(|row| row.end_ms);
            self.from_ms = end_ms
                .filter(|_| !is_last)
                .and_then(|end_ms| end_ms.ms().checked_add(1))
                .map(DeviceTime);
            self.ahead.extend(rows.into_iter().map(ComparedTrip::from_row));
        }
        Ok(self.ahead.front().map(|span| span.start_ms))
    }

    /// Moves the trips that start at or before a time to `to`. Returns the latest end among them.
    async fn take_until(
        &mut self,
        upto_ms: DeviceTime,
        to: &mut Vec<ComparedTrip>,
    ) -> Result<Option<DeviceTime>, StoreError> {
        let mut end_ms = None;
        while self.next_start().await?.is_some_and(|start_ms| start_ms <= upto_ms) {
            let span = self.ahead.pop_front().expect("there is a next trip");
            end_ms = end_ms.max(Some(span.end_ms));
            to.push(span);
        }
        Ok(end_ms)
    }
}

/// Compares the trips of two stores.
///
/// # Errors
/// One of them cannot be read.
pub async fn compare(old: &impl TripStore, new: &impl TripStore) -> Result<Ids, StoreError> {
    let mut ids = Ids::default();
    let (mut after, mut names): (Option<String>, BTreeSet<String>) = (None, BTreeSet::new());
    loop {
        if names.is_empty() {
            let old_page = old.devices(DeviceScope::All, after.as_deref(), PAGE).await?;
            let new_page = new.devices(DeviceScope::All, after.as_deref(), PAGE).await?;
            // A full page may lack later devices that are in the page of the other store.
            let full = [&old_page, &new_page].into_iter().filter(|page| page.len() == PAGE);
            let upto = full.filter_map(|page| page.last()).min().cloned();
            names.extend(old_page.into_iter().chain(new_page));
            names.retain(|name| upto.as_ref().is_none_or(|upto| name <= upto));
        }
        let Some(device_id) = names.pop_first() else { return Ok(ids) };
        compare_device(old, new, &device_id, &mut ids).await?;
        after = Some(device_id);
    }
}

async fn compare_device(
    old: &impl TripStore,
    new: &impl TripStore,
    device_id: &str,
    ids: &mut Ids,
) -> Result<(), StoreError> {
    ids.devices += 1;
    let from_ms = Some(DeviceTime::MIN);
    let mut old = TripPages { store: old, device_id, ahead: VecDeque::new(), from_ms };
    let mut new = TripPages { store: new, device_id, ahead: VecDeque::new(), from_ms };
    loop {
        let starts = [old.next_start().await?, new.next_start().await?];
        let Some(mut upto_ms) = starts.into_iter().flatten().min() else { return Ok(()) };
        let (mut olds, mut news) = (Vec::new(), Vec::new());
        // Collects trips that overlap each other, directly or through others.
        loop {
            let ends = [
                old.take_until(upto_ms, &mut olds).await?,
                new.take_until(upto_ms, &mut news).await?,
            ];
            let Some(end_ms) = ends.into_iter().flatten().max() else { break };
            upto_ms = upto_ms.max(end_ms);
        }
        ids.count(&olds, &news);
    }
}

/// What an id is among trips.
enum IdState {
    Current,
    Retired,
    Absent,
}

fn id_in(t_star_ms: DeviceTime, trips: &[ComparedTrip]) -> IdState {
    if trips.iter().any(|trip| trip.t_star_ms == t_star_ms) {
        IdState::Current
    } else if trips.iter().any(|trip| trip.absorbed.contains(&t_star_ms)) {
        IdState::Retired
    } else {
        IdState::Absent
    }
}

impl Ids {
    /// Counts a group of trips that overlap no trips outside the group.
    fn count(&mut self, olds: &[ComparedTrip], news: &[ComparedTrip]) {
        self.old_trips += olds.len() as u64;
        self.new_trips += news.len() as u64;
        for old in olds {
            let overlapping: Vec<&ComparedTrip> =
                news.iter().filter(|new| new.overlaps(old)).collect();
            *match overlapping.as_slice() {
                [] => &mut self.gone,
                [new] if (new.start_ms, new.end_ms) == (old.start_ms, old.end_ms) => {
                    &mut self.equal
                }
                [new] if olds.iter().filter(|old| old.overlaps(new)).count() > 1 => {
                    &mut self.joined
                }
                [_] => &mut self.changed,
                _ => &mut self.split,
            } += 1;
            *match id_in(old.t_star_ms, news) {
                IdState::Current => &mut self.ids_kept,
                IdState::Retired => &mut self.ids_retired,
                IdState::Absent => &mut self.ids_unminted,
            } += 1;
            for id in old.absorbed.iter().chain([&old.t_star_ms]) {
                self.old_ids += 1;
                self.old_ids_found += u64::from(news.iter().any(|new| new.covers(*id)));
            }
        }
        for new in news {
            match id_in(new.t_star_ms, olds) {
                // Counted above.
                IdState::Current => {}
                IdState::Retired => self.ids_revived += 1,
                IdState::Absent => self.ids_minted += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start_ms: i64, end_ms: i64, t_star_ms: i64, absorbed: &[i64]) -> ComparedTrip {
        let [start_ms, end_ms, t_star_ms] = [start_ms, end_ms, t_star_ms].map(DeviceTime);
        let absorbed = absorbed.iter().copied().map(DeviceTime).collect();
        ComparedTrip { start_ms, end_ms, t_star_ms, absorbed }
    }

    #[test]
    fn each_old_trip_is_counted_in_one_of_five_classes() {
        let mut ids = Ids::default();
        ids.count(&[span(0, 10, 0, &[])], &[span(0, 10, 0, &[])]);
        ids.count(&[span(0, 10, 4, &[7])], &[span(0, 4, 4, &[]), span(6, 10, 7, &[])]);
        ids.count(&[span(0, 4, 0, &[]), span(6, 10, 6, &[])], &[span(0, 10, 0, &[6])]);
        ids.count(&[span(0, 4, 0, &[])], &[span(0, 5, 0, &[])]);
        ids.count(&[span(0, 4, 0, &[])], &[]);
        ids.count(&[], &[span(0, 4, 2, &[])]);
        let expected = Ids {
            devices: 0,
            old_trips: 6,
            equal: 1,
            split: 1,
            joined: 2,
            changed: 1,
            gone: 1,
            new_trips: 6,
            ids_kept: 4,
            ids_retired: 1,
            ids_unminted: 1,
            ids_revived: 1,
            ids_minted: 1,
            old_ids: 7,
            old_ids_found: 6,
        };
        assert_eq!(ids, expected);
        assert_eq!(ids.ids_kept + ids.ids_retired + ids.ids_unminted, ids.old_trips);
        assert_eq!(ids.ids_kept + ids.ids_revived + ids.ids_minted, ids.new_trips);
    }
}
