//! Two stores of one log, built by other rules: which trips and ids are the same.

use std::collections::{BTreeSet, VecDeque};

use serde::Serialize;

use crate::store::{DeviceScope, Order, StoreError, TripRow, TripStore};

/// Trips, or devices, read at once.
const PAGE: usize = 256;

/// What became of the trips and ids of one store in another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ids {
    /// Devices of either store.
    pub devices: u64,
    /// Trips of the old store, each of which is one of the five that follow.
    pub old_trips: u64,
    /// Old trips with a new one of the same span.
    pub equal: u64,
    /// Old trips that meet several new ones.
    pub split: u64,
    /// Old trips that share a new one with others.
    pub joined: u64,
    /// Old trips that meet one new trip, of another span, that meets no other.
    pub changed: u64,
    /// Old trips that meet none.
    pub gone: u64,
    /// Trips of the new store.
    pub new_trips: u64,
    /// Ids of old trips that are ids of new ones.
    pub ids_kept: u64,
    /// Ids of old trips that a merge retired in the new store.
    pub ids_retired: u64,
    /// Ids of new trips that the old store had neither as current nor as retired.
    pub ids_minted: u64,
    /// Every id that the old store answers to, the retired ones among them.
    pub old_ids: u64,
    /// Those of them that find a trip in the new store.
    pub old_ids_found: u64,
}

impl Ids {
    /// The share of the old store's ids that find a trip in the new one; `None` if it has no ids.
    #[must_use]
    pub fn share_of_old_ids_found(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
        let share = |found: u64, all: u64| found as f64 / all as f64;
        (self.old_ids > 0).then(|| share(self.old_ids_found, self.old_ids))
    }
}

/// What of a trip is compared.
#[derive(Clone, Debug)]
struct Span {
    start_ms: i64,
    end_ms: i64,
    t_star_ms: i64,
    absorbed: BTreeSet<i64>,
}

impl Span {
    fn from_row(row: TripRow) -> Self {
        let absorbed = row.absorbed.into_keys().collect();
        let (start_ms, end_ms, t_star_ms) = (row.start_ms, row.end_ms, row.t_star_ms);
        Self { start_ms, end_ms, t_star_ms, absorbed }
    }

    fn meets(&self, other: &Self) -> bool {
        self.start_ms <= other.end_ms && other.start_ms <= self.end_ms
    }

    fn covers(&self, time_ms: i64) -> bool {
        (self.start_ms..=self.end_ms).contains(&time_ms)
    }
}

/// The trips of one device, by start.
struct Trips<'a, S> {
    store: &'a S,
    device_id: &'a str,
    ahead: VecDeque<Span>,
    /// Where the next page begins; `None` after the last.
    from_ms: Option<i64>,
}

impl<S: TripStore> Trips<'_, S> {
    /// When the next trip starts, ms.
    async fn next_start(&mut self) -> Result<Option<i64>, StoreError> {
        if self.ahead.is_empty()
            && let Some(from_ms) = self.from_ms
        {
            let (store, id) = (self.store, self.device_id);
            let rows = store.range(id, from_ms, i64::MAX, Order::Asc, PAGE).await?;
            let is_last = rows.len() < PAGE;
            let end_ms = rows.last().map(|row| row.end_ms);
            self.from_ms = end_ms.filter(|_| !is_last).and_then(|end_ms| end_ms.checked_add(1));
            self.ahead.extend(rows.into_iter().map(Span::from_row));
        }
        Ok(self.ahead.front().map(|span| span.start_ms))
    }

    /// Moves the trips that start at or before a time. Returns the latest end among them.
    async fn take_until(
        &mut self,
        upto_ms: i64,
        to: &mut Vec<Span>,
    ) -> Result<Option<i64>, StoreError> {
        let mut end_ms = None;
        while self.next_start().await?.is_some_and(|start_ms| start_ms <= upto_ms) {
            let span = self.ahead.pop_front().expect("it was just seen");
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
            let of_old = old.devices(DeviceScope::All, after.as_deref(), PAGE).await?;
            let of_new = new.devices(DeviceScope::All, after.as_deref(), PAGE).await?;
            // Beyond the end of a full page the other store may know devices that it lacks.
            let full = [&of_old, &of_new].into_iter().filter(|page| page.len() == PAGE);
            let upto = full.filter_map(|page| page.last()).min().cloned();
            names.extend(of_old.into_iter().chain(of_new));
            names.retain(|name| upto.as_ref().is_none_or(|upto| name <= upto));
        }
        let Some(device_id) = names.pop_first() else { return Ok(ids) };
        of_device(old, new, &device_id, &mut ids).await?;
        after = Some(device_id);
    }
}

async fn of_device(
    old: &impl TripStore,
    new: &impl TripStore,
    device_id: &str,
    ids: &mut Ids,
) -> Result<(), StoreError> {
    ids.devices += 1;
    let begin = Some(i64::MIN);
    let mut old = Trips { store: old, device_id, ahead: VecDeque::new(), from_ms: begin };
    let mut new = Trips { store: new, device_id, ahead: VecDeque::new(), from_ms: begin };
    loop {
        let starts = [old.next_start().await?, new.next_start().await?];
        let Some(mut upto_ms) = starts.into_iter().flatten().min() else { return Ok(()) };
        let (mut olds, mut news) = (Vec::new(), Vec::new());
        // Trips that meet each other, directly or through others.
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

impl Ids {
    /// Counts trips that meet each other, and no others.
    fn count(&mut self, olds: &[Span], news: &[Span]) {
        self.old_trips += olds.len() as u64;
        self.new_trips += news.len() as u64;
        for old in olds {
            let met: Vec<&Span> = news.iter().filter(|new| new.meets(old)).collect();
            *match met.as_slice() {
                [] => &mut self.gone,
                [new] if (new.start_ms, new.end_ms) == (old.start_ms, old.end_ms) => {
                    &mut self.equal
                }
                [new] if olds.iter().filter(|old| old.meets(new)).count() > 1 => &mut self.joined,
                [_] => &mut self.changed,
                _ => &mut self.split,
            } += 1;
            let is = |new: &&Span| new.t_star_ms == old.t_star_ms;
            self.ids_kept += u64::from(news.iter().any(|new| is(&new)));
            let retired = news.iter().any(|new| new.absorbed.contains(&old.t_star_ms));
            self.ids_retired += u64::from(retired);
            for id in old.absorbed.iter().chain([&old.t_star_ms]) {
                self.old_ids += 1;
                self.old_ids_found += u64::from(news.iter().any(|new| new.covers(*id)));
            }
        }
        for new in news {
            let had = |old: &Span| {
                old.t_star_ms == new.t_star_ms || old.absorbed.contains(&new.t_star_ms)
            };
            self.ids_minted += u64::from(!olds.iter().any(had));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start_ms: i64, end_ms: i64, t_star_ms: i64, absorbed: &[i64]) -> Span {
        Span { start_ms, end_ms, t_star_ms, absorbed: absorbed.iter().copied().collect() }
    }

    #[test]
    fn each_old_trip_is_one_of_five() {
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
            ids_minted: 1,
            old_ids: 7,
            old_ids_found: 6,
        };
        assert_eq!(ids, expected);
    }
}
