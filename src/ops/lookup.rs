//! Lookup: one trip, by a time or by an id in any form.

use std::sync::Arc;

use super::{InvalidRequest, NoResult, trip_list};
use crate::identity::{AnyId, DeviceId, IdError};
use crate::model::scalar::DeviceTime;
use crate::model::time::format_time;
use crate::model::visible::{shell_word, visible};
use crate::pipeline::daemon::LiveWorkers;
use crate::store::fresh::{FreshLookup, FreshRow, FreshStore};
use crate::store::skip::{Missing, collecting};
use crate::store::{AnyStore, Forget, LookupResult, StoreError, TripRow, TripStore as _};
use crate::views::{Match, text_id};

/// A store, behind the memory of the daemon if this process has one.
pub(crate) type Fresh<'a> = FreshStore<'a, AnyStore, Option<Arc<LiveWorkers>>>;

/// The store alone.
#[must_use]
pub fn of_store(store: &AnyStore) -> Fresh<'_> {
    FreshStore::new(store, None)
}

/// The result of a lookup by id.
#[derive(Debug)]
pub struct FoundTrip {
    /// The trip.
    pub row: Box<TripRow>,
    /// `t_star` of the id, ms since 1970.
    pub t_star_ms: DeviceTime,
    /// How `t_star_ms` matches the trip.
    pub matched: Match,
    /// Whether the trip comes from memory and is newer than the store.
    pub is_fresh: bool,
}

/// Why an id has no trip.
#[derive(Debug, thiserror::Error)]
pub enum NoTrip {
    /// Its trip was erased.
    #[error("gone: {}", gone(device_id, forget))]
    Gone {
        /// Device id.
        device_id: String,
        /// The forget that erased it.
        forget: Forget,
    },
    /// A stop covers its time.
    #[error("no trip has the id `{id}`: {}", stands(stop))]
    Stop {
        /// The id of the request.
        id: String,
        /// The stop.
        stop: Box<TripRow>,
    },
    /// No trip covers its time.
    #[error("no trip has the id `{id}`: no trip of its device covers {time}")]
    Unknown {
        /// The id of the request.
        id: String,
        /// Its time.
        time: String,
    },
}

impl FoundTrip {
    /// The trip that was found by an id, which has the time `t_star_ms`.
    ///
    /// # Errors
    /// No trip covers the time, or its trips were erased.
    pub fn new(found: FreshLookup, id: &str, t_star_ms: DeviceTime) -> Result<Self, NoTrip> {
        match found.result {
            LookupResult::Trip(row) => {
                let (matched, is_fresh) = (Match::classify(t_star_ms, &row), found.is_fresh);
                Ok(Self { row, t_star_ms, matched, is_fresh })
            }
            LookupResult::Stop(stop) => Err(NoTrip::Stop { id: id.to_owned(), stop }),
            LookupResult::Gone { device_id, forget } => Err(NoTrip::Gone { device_id, forget }),
            LookupResult::Unknown => {
                Err(NoTrip::Unknown { id: id.to_owned(), time: format_time(t_star_ms.ms()) })
            }
        }
    }
}

/// The trips of a device around a time that none covers. There are none if they were erased, or are
/// malformed.
#[derive(Debug)]
pub struct Neighbours {
    /// The last trip before the time.
    pub previous: Option<FreshRow>,
    /// The first trip after the time.
    pub next: Option<FreshRow>,
    /// Malformed trips between these two.
    pub missing: Missing,
    /// Whether trips of the device were erased.
    is_erased: bool,
}

impl Neighbours {
    /// Finds the trips around a time (ms since 1970) that no trip of a device covers; `None` if the
    /// store does not have the device.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn find(
        store: &Fresh<'_>,
        device_id: &DeviceId,
        time_ms: DeviceTime,
    ) -> Result<Option<Self>, StoreError> {
        let (nearest, skipped) = collecting(store.neighbours(device_id, time_ms)).await;
        let (previous, next) = nearest?;
        let has_rows = previous.is_some() || next.is_some() || !skipped.is_empty();
        let is_erased = !has_rows && store.store().erased(device_id).await?.is_some();
        if !has_rows && !is_erased && !trip_list::is_known(store, device_id).await? {
            return Ok(None);
        }
        let end_ms = previous.as_ref().map_or(DeviceTime::MIN, |previous| previous.row.end_ms);
        let start_ms = next.as_ref().map_or(DeviceTime::MAX, |next| next.row.start_ms);
        let mut missing = Missing::default();
        missing.add::<FreshRow>(skipped, (end_ms, start_ms), &[]);
        Ok(Some(Self { previous, next, missing, is_erased }))
    }

    /// The trips as text.
    fn text(&self) -> anyhow::Result<String> {
        let named = |row: &TripRow| text_id(&row.device_id, row.t_star_ms);
        let mut parts = Vec::new();
        if let Some(FreshRow { row, .. }) = &self.previous {
            let end = format_time(row.end_ms.ms());
            parts.push(format!("the trip before is {}, which ends {end}", named(row)?));
        }
        if let Some(FreshRow { row, .. }) = &self.next {
            let start = format_time(row.start_ms.ms());
            parts.push(format!("the trip after is {}, which starts {start}", named(row)?));
        }
        parts.extend(self.missing.problem());
        if parts.is_empty() {
            let why = "its trips were erased (tstar forget)";
            parts.push(if self.is_erased { why } else { "it has no trip" }.to_owned());
        }
        Ok(parts.join("; "))
    }
}

/// Finds the trip of a device that covers a time (ms since 1970).
///
/// # Errors
/// The store cannot be read, no trip covers the time, or its trips were erased.
pub async fn by_time(
    store: &AnyStore,
    device_id: &DeviceId,
    time_ms: DeviceTime,
) -> anyhow::Result<TripRow> {
    let store = of_store(store);
    let stop = match store.find_at(device_id, time_ms).await?.result {
        LookupResult::Trip(row) => return Ok(*row),
        LookupResult::Gone { device_id, forget } => {
            return Err(NoResult(NoTrip::Gone { device_id, forget }.to_string()).into());
        }
        LookupResult::Stop(stop) => format!(": {}", stands(&stop)),
        LookupResult::Unknown => String::new(),
    };
    let Some(around) = Neighbours::find(&store, device_id, time_ms).await? else {
        return Err(trip_list::unknown_device(store.store(), device_id).await?.into());
    };
    let (device, time, around) = (visible(device_id), format_time(time_ms.ms()), around.text()?);
    Err(NoResult(format!("no trip of device `{device}` covers {time}{stop}; {around}")).into())
}

/// A stop that covers the time of a request.
fn stands(stop: &TripRow) -> String {
    let [start, end] = [stop.start_ms, stop.end_ms].map(|it| format_time(it.ms()));
    format!("it stands from {start} to {end}")
}

/// Finds the trip that covers the time of an id.
///
/// # Errors
/// The id is malformed, the store cannot be read, no trip covers the time, or its trips were
/// erased.
pub async fn by_id(store: &AnyStore, id: &str) -> anyhow::Result<FoundTrip> {
    let store = of_store(store);
    let parsed = match AnyId::parse(id) {
        Ok(parsed) => parsed,
        Err(error) => return Err(not_an_id(&store, id, &error).await?.into()),
    };
    let found = FoundTrip::new(store.find(&parsed).await?, id, parsed.t_star_ms());
    Ok(found.map_err(|none| NoResult(none.to_string()))?)
}

/// The error for a text that is not a trip id. A device is often named instead.
async fn not_an_id(
    store: &Fresh<'_>,
    given: &str,
    error: &IdError,
) -> Result<InvalidRequest, StoreError> {
    let device = DeviceId::new(given).ok();
    Ok(InvalidRequest(match device {
        Some(device) if trip_list::is_known(store, &device).await? => {
            let (shown, word) = (visible(&device), visible(&shell_word(&device)));
            format!(
                "`{shown}` is a device, not a trip id; list its trips with `tstar trips {word}`"
            )
        }
        _ => format!("{error}; list the trips of a device with `tstar trips DEVICE`"),
    }))
}

/// A time whose trips were erased.
fn gone(device: &str, forget: &Forget) -> String {
    let (device, before) = (visible(device), format_time(forget.before_ms.ms()));
    format!("the trips of {device} before {before} were erased (tstar forget)")
}
