//! Lookup: one trip, by a time or by an id in any form.

use std::sync::Arc;

use super::{InvalidRequest, NoResult, trip_list};
use crate::identity::{AnyId, DeviceId, IdError};
use crate::model::scalar::DeviceTime;
use crate::model::time::format_time;
use crate::model::visible::{shell_word, visible};
use crate::model::zone::Zone;
use crate::pipeline::daemon::LiveWorkers;
use crate::segment::Kind;
use crate::store::fresh::{FreshLookup, FreshRow, FreshStore};
use crate::store::skip::{Missing, collecting};
use crate::store::{AnyStore, Forget, Kinds, LookupResult, StoreError, TripRow, TripStore as _};
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
    /// A stop covers its time, or a trip, and only the other was asked for.
    #[error("no {} has the id `{id}`: {}", other_kind(row), state(row, Zone::UTC))]
    Other {
        /// The id of the request.
        id: String,
        /// The trip or stop.
        row: Box<TripRow>,
    },
    /// None covers its time.
    #[error("no {what} has the id `{id}`: no {what} of its device covers {time}", what = kinds.noun())]
    Unknown {
        /// The id of the request.
        id: String,
        /// Its time.
        time: String,
        /// What was asked for.
        kinds: Kinds,
    },
}

impl FoundTrip {
    /// The trip that was found by an id, which has the time `t_star_ms`; a stop if these kinds have
    /// it.
    ///
    /// # Errors
    /// None covers the time, or those of the time were erased.
    pub fn new(
        found: FreshLookup,
        (id, t_star_ms): (&str, DeviceTime),
        kinds: Kinds,
    ) -> Result<Self, NoTrip> {
        match found.result {
            LookupResult::Trip(row) | LookupResult::Stop(row) if kinds.has(row.kind) => {
                let (matched, is_fresh) = (Match::classify(t_star_ms, &row), found.is_fresh);
                Ok(Self { row, t_star_ms, matched, is_fresh })
            }
            LookupResult::Trip(row) | LookupResult::Stop(row) => {
                Err(NoTrip::Other { id: id.to_owned(), row })
            }
            LookupResult::Gone { device_id, forget } => Err(NoTrip::Gone { device_id, forget }),
            LookupResult::Unknown => {
                let (id, time) = (id.to_owned(), format_time(t_star_ms.ms()));
                Err(NoTrip::Unknown { id, time, kinds })
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

    /// The trips as text, with times in a zone.
    fn text(&self, zone: Zone) -> anyhow::Result<String> {
        let named = |row: &TripRow| text_id(&row.device_id, row.t_star_ms);
        let mut parts = Vec::new();
        if let Some(FreshRow { row, .. }) = &self.previous {
            let end = zone.text(row.end_ms);
            parts.push(format!("the trip before is {}, which ends {end}", named(row)?));
        }
        if let Some(FreshRow { row, .. }) = &self.next {
            let start = zone.text(row.start_ms);
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

/// Finds the trip of a device that covers a time (ms since 1970); a stop if these kinds have it.
/// Errors have their times in a zone.
///
/// # Errors
/// The store cannot be read, none covers the time, or those of the time were erased.
pub async fn by_time(
    store: &AnyStore,
    (device_id, time_ms): (&DeviceId, DeviceTime),
    kinds: Kinds,
    zone: Zone,
) -> anyhow::Result<TripRow> {
    let store = of_store(store);
    let (what, state) = match store.find_at(device_id, time_ms).await?.result {
        LookupResult::Trip(row) | LookupResult::Stop(row) if kinds.has(row.kind) => {
            return Ok(*row);
        }
        LookupResult::Gone { device_id, forget } => {
            return Err(NoResult(NoTrip::Gone { device_id, forget }.to_string()).into());
        }
        LookupResult::Trip(row) | LookupResult::Stop(row) => {
            (other_kind(&row), format!(": {}", state(&row, zone)))
        }
        LookupResult::Unknown => (kinds.noun(), String::new()),
    };
    let Some(around) = Neighbours::find(&store, device_id, time_ms).await? else {
        return Err(trip_list::unknown_device(store.store(), device_id).await?.into());
    };
    let (device, time, around) = (visible(device_id), zone.text(time_ms), around.text(zone)?);
    Err(NoResult(format!("no {what} of device `{device}` covers {time}{state}; {around}")).into())
}

/// What a trip or stop that covers a time is not.
fn other_kind(row: &TripRow) -> &'static str {
    match row.kind {
        Kind::Trip => Kind::Stop.name(),
        Kind::Stop => Kind::Trip.name(),
    }
}

/// What the device does in a trip or stop, with times in a zone.
fn state(row: &TripRow, zone: Zone) -> String {
    let does = match row.kind {
        Kind::Trip => "is on a trip",
        Kind::Stop => "stands",
    };
    format!("it {does} from {} to {}", zone.text(row.start_ms), zone.text(row.end_ms))
}

/// Finds the trip that covers the time of an id; a stop if these kinds have it.
///
/// # Errors
/// The id is malformed, the store cannot be read, none covers the time, or those of the time were
/// erased.
pub async fn by_id(store: &AnyStore, id: &str, kinds: Kinds) -> anyhow::Result<FoundTrip> {
    let store = of_store(store);
    let parsed = match AnyId::parse(id) {
        Ok(parsed) => parsed,
        Err(error) => return Err(not_an_id(&store, id, &error).await?.into()),
    };
    let found = FoundTrip::new(store.find(&parsed).await?, (id, parsed.t_star_ms()), kinds);
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
