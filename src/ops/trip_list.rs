//! Trips: those of a device, or of all devices on a day, by start time.

use super::lookup::{Fresh, of_store};
use super::{InvalidRequest, NoResult};
use crate::identity::{DeviceId, date_range, prefix_range};
use crate::model::nearest::NearNames;
use crate::model::scalar::DeviceTime;
use crate::model::visible::visible;
use crate::model::zone::LocalDay;
use crate::store::skip::collecting;
use crate::store::{
    AnyStore, DevicePages, DeviceScope, DevicesOfDays, Kinds, Order, StoreError, TripRow, TripStore,
};
use crate::timeline::day_of;

/// Maximum number of devices among which days with trips are looked for.
const MAX_DEVICES_AROUND: usize = 32;

/// Devices of a UTC day that are read at once.
const DEVICES: usize = 1000;

/// Which trips of a device, or of all devices, are selected.
#[derive(Clone, Copy, Debug)]
pub enum TripSpan<'a> {
    /// Those that overlap a range of times, ms since 1970, both ends inclusive.
    Overlapping(DeviceTime, DeviceTime),
    /// Those that touch a day.
    Day(LocalDay),
    /// Those whose id has a prefix: a date, or an id prefix as `tstar id prefix` prints it.
    Prefix(&'a str),
}

impl TripSpan<'_> {
    /// The times that each of the trips overlaps, both ends inclusive.
    ///
    /// # Errors
    /// The prefix is malformed or names another device.
    pub fn span(self, device_id: &DeviceId) -> anyhow::Result<(DeviceTime, DeviceTime)> {
        match self {
            Self::Overlapping(from_ms, upto_ms) => Ok((from_ms, upto_ms)),
            Self::Day(day) => Ok(day.span()),
            Self::Prefix(prefix) => prefix_times(device_id, prefix),
        }
    }
}

/// Lists at most `limit` segments of a device.
///
/// # Errors
/// The prefix is malformed or names another device, or the store cannot be read.
pub async fn of_device(
    store: &impl TripStore,
    device_id: &DeviceId,
    kinds: Kinds,
    trips: TripSpan<'_>,
    order: Order,
    limit: usize,
) -> anyhow::Result<Vec<TripRow>> {
    let (from_ms, upto_ms) = trips.span(device_id)?;
    let TripSpan::Prefix(_) = trips else {
        return Ok(store.range(device_id, kinds, from_ms, upto_ms, order, limit).await?);
    };
    // A segment contains its t_star, so every selected one overlaps the time of the prefix.
    let mut rows = store.range(device_id, kinds, from_ms, upto_ms, order, usize::MAX).await?;
    rows.retain(|row| (from_ms..=upto_ms).contains(&row.t_star_ms));
    rows.truncate(limit);
    Ok(rows)
}

/// Whether a device has trips or stops, malformed ones included.
///
/// # Errors
/// The store cannot be read.
pub(super) async fn has_rows(store: &Fresh<'_>, device_id: &str) -> Result<bool, StoreError> {
    let all = (DeviceTime::MIN, DeviceTime::MAX);
    let found = store.range(device_id, Kinds::All, all, Order::Asc, 1);
    let (trips, malformed) = collecting(found).await;
    Ok(!trips?.rows.is_empty() || !malformed.is_empty())
}

/// Whether a device has trips or stops, or had some that were erased.
///
/// # Errors
/// The store cannot be read.
pub async fn is_known(store: &Fresh<'_>, device_id: &DeviceId) -> Result<bool, StoreError> {
    Ok(has_rows(store, device_id).await? || store.store().erased(device_id).await?.is_some())
}

/// Checks that a device [is known](is_known).
///
/// # Errors
/// It is not, or the store cannot be read.
pub(crate) async fn check_known(store: &AnyStore, device_id: &DeviceId) -> anyhow::Result<()> {
    match is_known(&of_store(store), device_id).await? {
        true => Ok(()),
        false => Err(unknown_device(store, device_id).await?.into()),
    }
}

/// Pages of devices that are compared with a device that the store does not have: those of the
/// first 10,000 devices.
const PAGES_COMPARED: usize = 10;

/// The error for a device that the store does not have, with devices of similar names.
pub(super) async fn unknown_device(
    store: &AnyStore,
    device_id: &DeviceId,
) -> Result<NoResult, StoreError> {
    let mut near = NearNames::new(device_id);
    let mut pages = DevicePages::new(store, DeviceScope::All);
    for _ in 0..PAGES_COMPARED {
        let Some(devices) = pages.next().await? else { break };
        devices.iter().for_each(|device| near.add(device));
    }
    let near = near.finish().iter().map(|it| format!("`{}`", visible(it))).collect::<Vec<_>>();
    let near =
        if near.is_empty() { String::new() } else { format!("similar: {}; ", near.join(", ")) };
    let device = visible(device_id);
    let hint = "list the devices with `tstar devices`";
    Ok(NoResult(format!("the store has no device `{device}`; {near}{hint}")))
}

/// The end of the last segment before a span without any, and the start of the first one after it:
/// of a device, or of the first devices of the store.
///
/// # Errors
/// The store cannot be read.
pub(crate) async fn times_around(
    store: &impl TripStore,
    device_id: Option<&DeviceId>,
    kinds: Kinds,
    (from_ms, upto_ms): (DeviceTime, DeviceTime),
) -> Result<[Option<DeviceTime>; 2], StoreError> {
    let devices = match device_id {
        Some(device_id) => vec![device_id.as_str().to_owned()],
        None => store.devices(DeviceScope::All, None, MAX_DEVICES_AROUND).await?,
    };
    let [mut before, mut after] = [None, None];
    for device in &devices {
        let neighbour = |time_ms, order| store.neighbour(device, kinds, time_ms, order);
        let (last, _) = collecting(neighbour(from_ms, Order::Desc)).await;
        before = before.max(last?.map(|row| row.end_ms));
        let (first, _) = collecting(neighbour(upto_ms, Order::Asc)).await;
        after = after.into_iter().chain(first?.map(|row| row.start_ms)).min();
    }
    Ok([before, after])
}

/// The range of times, both ends inclusive, of a date or of an id prefix.
pub(super) fn prefix_times(
    device_id: &DeviceId,
    prefix: &str,
) -> anyhow::Result<(DeviceTime, DeviceTime)> {
    if !prefix.contains('~') {
        return Ok(date_range(prefix)?);
    }
    let (owner, from_ms, upto_ms) = prefix_range(prefix)?;
    if owner != *device_id {
        let problem =
            format!("prefix `{prefix}` belongs to device `{owner}`, not to `{device_id}`");
        return Err(InvalidRequest(problem).into());
    }
    Ok((from_ms, upto_ms))
}

/// At most `limit` devices after one, in byte order, that have a segment which touches a day.
///
/// # Errors
/// The store cannot be read.
pub(crate) async fn devices_of_day(
    store: &impl TripStore,
    day: LocalDay,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<String>, StoreError> {
    let (from_ms, upto_ms) = day.span();
    if let Some(day) = day.utc_day() {
        return store.devices(DeviceScope::OfDay(day), after, limit).await;
    }
    // The index has UTC days, of which some part is in another day.
    let days = day_of(from_ms).through(day_of(upto_ms));
    let mut candidates = DevicesOfDays::new(store, days, after, DEVICES);
    let mut found = Vec::new();
    while found.len() < limit {
        let Some(device) = candidates.next().await? else { break };
        if !store.range(&device, Kinds::All, from_ms, upto_ms, Order::Asc, 1).await?.is_empty() {
            found.push(device);
        }
    }
    Ok(found)
}

/// Lists at most `limit` segments of all devices that touch a day, sorted together. Without
/// `with_path` the rows have no path, because all rows stay in memory until the last device is
/// read.
///
/// # Errors
/// The store cannot be read.
pub async fn of_day<S: TripStore>(
    store: &S,
    kinds: Kinds,
    day: LocalDay,
    order: Order,
    limit: usize,
    with_path: bool,
) -> anyhow::Result<Vec<TripRow>> {
    let (from_ms, upto_ms) = day.span();
    let mut found: Vec<TripRow> = Vec::new();
    let days = day_of(from_ms).through(day_of(upto_ms));
    let mut devices = DevicesOfDays::new(store, days, None, DEVICES);
    while let Some(device) = devices.next().await? {
        let mut rows = store.range(&device, kinds, from_ms, upto_ms, order, limit).await?;
        if !with_path {
            rows.iter_mut().for_each(|row| row.path = Vec::new());
        }
        found.append(&mut rows);
    }
    // The sort is stable: trips with the same start stay in device order.
    match order {
        Order::Asc => found.sort_by_key(|row| row.start_ms),
        Order::Desc => found.sort_by_key(|row| std::cmp::Reverse(row.start_ms)),
    }
    found.truncate(limit);
    Ok(found)
}
