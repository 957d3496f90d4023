//! Answers that see the memory of the daemon in this process. They name the instance that owns a
//! device if that is another one, which is never asked: its name is what it says of itself.

use axum::http::StatusCode;

use super::app::App;
use super::params::Params;
use super::problem::Problem;
use crate::identity::AnyId;
use crate::model::scalar::Version;
use crate::model::time::format_time;
use crate::ops::lookup::{FoundTrip, Fresh, NoTrip};
use crate::store::fresh::{FreshRow, FreshStore};
use crate::store::{AnyStore, Forget, Kinds, LookupResult, TripStore as _};

impl App {
    /// The store, behind the memory of the daemon if this process has one.
    pub(super) fn fresh<'a>(&self, store: &'a AnyStore) -> Fresh<'a> {
        FreshStore::new(store, self.live.clone())
    }

    /// The name of the instance that owns a device, if that is known to be another one.
    pub(super) async fn other_owner(&self, store: &AnyStore, device_id: &str) -> Option<String> {
        let owners = self.owners.as_ref()?;
        let division = owners.division()?;
        let partition = match division.computed(device_id) {
            Some(partition) => partition,
            // A claim that cannot be read leaves the owner unnamed.
            None => store.claimed(device_id, division.epoch).await.ok().flatten()?,
        };
        owners.other(partition)
    }
}

impl Params {
    /// The version that the answer has to include.
    pub(crate) fn min_version(&mut self) -> Option<Version> {
        let parse = |text: &str| match text.parse() {
            Ok(version) if version >= 0 => Ok(Version(version)),
            _ => Err(format!("`{text}` is not a version; use `version` of a trip")),
        };
        self.read("min_version", parse)
    }
}

/// Rejects an answer that may lack the record at `min_version`; `includes` says whether it has it.
/// `owner` is the other instance that owns the device.
pub(super) fn require(
    min_version: Option<Version>,
    owner: Option<&String>,
    includes: impl FnOnce(Version) -> bool,
) -> Result<(), Problem> {
    let Some(version) = min_version.filter(|&version| !includes(version)) else { return Ok(()) };
    let at =
        owner.map_or_else(|| "the instance that reads the device".into(), |it| format!("`{it}`"));
    let detail =
        format!("the answer may not include version {} yet; retry, at {at}", version.get());
    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not_yet", detail);
    Err(problem.with_owner(owner))
}

/// A trip that was looked up by an id.
pub(super) struct IdLookup {
    pub id: AnyId,
    pub found: FoundTrip,
    /// The other instance that owns the device.
    pub owner: Option<String>,
}

/// Finds the trip of an id.
pub(super) async fn find(
    app: &App,
    text: &str,
    min_version: Option<Version>,
) -> Result<IdLookup, Problem> {
    let id = AnyId::parse(text)?;
    let store = app.store()?;
    let found = app.fresh(&store).find(&id).await?;
    let device = match (&found.result, &id) {
        (LookupResult::Trip(row) | LookupResult::Stop(row), _) => Some(row.device_id.as_str()),
        (_, AnyId::Trip(id)) => Some(id.device_id.as_str()),
        (_, AnyId::Uuid(_)) => None,
    };
    let owner = match device {
        Some(device) => app.other_owner(&store, device).await,
        None => None,
    };
    require(min_version, owner.as_ref(), |version| found.covers(version))?;
    let is_fresh = found.is_fresh;
    match FoundTrip::new(found, (text, id.t_star_ms()), Kinds::Trips) {
        Ok(found) => Ok(IdLookup { id, found, owner }),
        Err(none) => {
            let stop = match &none {
                NoTrip::Other { row, .. } => Some((**row).clone()),
                NoTrip::Gone { .. } | NoTrip::Unknown { .. } => None,
            };
            let problem = no_trip(none, owner.as_ref());
            let Some(row) = stop else { return Err(problem) };
            Err(problem.with("stop", app.answer_for(FreshRow { row, is_fresh }).await?))
        }
    }
}

pub(super) fn gone(device_id: &str, forget: &Forget) -> Problem {
    let before = format_time(forget.before_ms.ms());
    let detail = format!("the trips of device `{device_id}` before {before} were erased");
    Problem::new(StatusCode::GONE, "gone", detail)
}

/// The answer for an id without a trip.
pub(super) fn no_trip(none: NoTrip, owner: Option<&String>) -> Problem {
    match none {
        NoTrip::Gone { device_id, forget } => gone(&device_id, &forget),
        NoTrip::Other { .. } | NoTrip::Unknown { .. } => {
            Problem::new(StatusCode::NOT_FOUND, "no_trip", none).with_owner(owner)
        }
    }
}
