//! Looks up trips and stops: by time, or by id in any form.

pub(super) mod days;
mod device_pages;
mod ends;
pub mod fresh;

pub(crate) use self::device_pages::{DevicePages, DevicesOfDays};
pub use self::ends::{TripEnd, count_trips, latest_end};
use super::skip::{Missing, collecting};
use super::{DeviceScope, Forget, Result, TripRow, TripStore, was_erased};
use crate::identity::UuidId;
use crate::model::scalar::DeviceTime;
use crate::segment::Kind;
use crate::timeline::day_of;

/// The result of a lookup by id or time.
#[derive(Debug)]
pub enum LookupResult {
    /// The trip that covers the time.
    Trip(Box<TripRow>),
    /// No trip: the stop that covers the time.
    Stop(Box<TripRow>),
    /// No trip: a forget erased the trips up to a later time.
    Gone {
        /// Device id.
        device_id: String,
        /// The forget that erased them.
        forget: Forget,
    },
    /// Neither, and no forget for that time.
    Unknown,
}

impl From<Box<TripRow>> for LookupResult {
    fn from(row: Box<TripRow>) -> Self {
        match row.kind {
            Kind::Trip => Self::Trip(row),
            Kind::Stop => Self::Stop(row),
        }
    }
}

/// Finds the segment of a device that covers a time (ms since 1970).
///
/// # Errors
/// The store cannot be read.
async fn find_at<S: TripStore>(
    store: &S,
    device_id: &str,
    time_ms: DeviceTime,
) -> Result<LookupResult> {
    if let Some(row) = covering(store, device_id, time_ms).await? {
        return Ok(Box::new(row).into());
    }
    let forget = was_erased(store, device_id, time_ms).await?;
    let device_id = device_id.to_owned();
    Ok(forget.map_or(LookupResult::Unknown, |forget| LookupResult::Gone { device_id, forget }))
}

/// The segment of a device that covers a time.
///
/// # Errors
/// `StoreError::Malformed` if a row covers the time, and none that can be decoded; or the store
/// cannot be read.
async fn covering<S: TripStore>(
    store: &S,
    device_id: &str,
    time_ms: DeviceTime,
) -> Result<Option<TripRow>> {
    let (found, skipped) = collecting(store.covering(device_id, time_ms)).await;
    let (found, mut missing) = (found?, Missing::default());
    missing.add(skipped, (time_ms, time_ms), found.as_slice());
    missing.first.map_or(Ok(found), |error| Err(error.into()))
}

/// The device of a UUID. The UUID contains only a hash of the device id, but its time selects a day
/// that the trip touches (also for a retired id), and its hash a shard of that day's device index.
async fn device_of_uuid<S: TripStore>(store: &S, id: &UuidId) -> Result<Option<String>> {
    let scope = DeviceScope::OfShard(day_of(id.t_star_ms), id.shard());
    let mut pages = DevicePages::new(store, scope);
    while let Some(devices) = pages.next().await? {
        if let Some(device) = devices.into_iter().find(|it| id.matches(it, id.t_star_ms)) {
            return Ok(Some(device));
        }
    }
    Ok(None)
}
