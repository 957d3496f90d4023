//! Lookup: one trip, by a time or by an id in any form.

use super::NoResult;
use crate::identity::{AnyId, DeviceId};
use crate::model::scalar::DeviceTime;
use crate::model::time::format_time;
use crate::store::{self, Forget, LookupResult, TripRow, TripStore};
use crate::views::Match;

/// The result of a lookup by id.
#[derive(Debug)]
pub struct FoundTrip {
    /// The trip.
    pub row: TripRow,
    /// `t_star` of the id, ms since 1970.
    pub t_star_ms: DeviceTime,
    /// How `t_star_ms` matches the trip.
    pub matched: Match,
}

/// Finds the trip of a device that covers a time (ms since 1970).
///
/// # Errors
/// The store cannot be read, no trip covers the time, or its trips were erased.
pub async fn by_time(
    store: &impl TripStore,
    device_id: &DeviceId,
    time_ms: DeviceTime,
) -> anyhow::Result<TripRow> {
    match store::find_at(store, device_id, time_ms).await? {
        LookupResult::Trip(row) => Ok(*row),
        LookupResult::Gone { device_id, forget } => Err(gone(&device_id, &forget).into()),
        LookupResult::Unknown => {
            let time = format_time(time_ms.ms());
            Err(NoResult(format!("no trip of device `{device_id}` covers {time}")).into())
        }
    }
}

/// Finds the trip that covers the time of an id.
///
/// # Errors
/// The id is malformed, the store cannot be read, no trip covers the time, or its trips were
/// erased.
pub async fn by_id(store: &impl TripStore, id: &str) -> anyhow::Result<FoundTrip> {
    let parsed = AnyId::parse(id)?;
    let t_star_ms = parsed.t_star_ms();
    match store::find(store, &parsed).await? {
        LookupResult::Trip(row) => {
            Ok(FoundTrip { matched: Match::classify(t_star_ms, &row), row: *row, t_star_ms })
        }
        LookupResult::Gone { device_id, forget } => Err(gone(&device_id, &forget).into()),
        LookupResult::Unknown => {
            let time = format_time(t_star_ms.ms());
            let unknown = format!("no trip has the id `{id}`: no trip of its device covers {time}");
            Err(NoResult(unknown).into())
        }
    }
}

/// The error for a time whose trips were erased.
fn gone(device: &str, forget: &Forget) -> NoResult {
    let before = format_time(forget.before_ms.ms());
    NoResult(format!("gone: the trips of {device} before {before} were erased (tstar forget)"))
}
