//! Answers that see the memory of the daemon in this process. They name the instance that owns a
//! device if that is another one, which is never asked: its name is what it says of itself.

use std::sync::Arc;

use axum::http::StatusCode;

use super::app::App;
use super::params::Params;
use super::problem::Problem;
use super::trips::gone;
use crate::identity::AnyId;
use crate::model::scalar::{DeviceTime, Version};
use crate::model::time::format_time;
use crate::pipeline::daemon::LiveWorkers;
use crate::store::fresh::FreshStore;
use crate::store::{AnyStore, LookupResult, TripRow, TripStore as _};
use crate::views::Match;

/// The store of a request, behind the memory of the daemon.
pub(super) type Fresh<'a> = FreshStore<'a, AnyStore, Option<Arc<LiveWorkers>>>;

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

/// The store alone.
pub(super) fn of_store(store: &AnyStore) -> Fresh<'_> {
    FreshStore::new(store, None)
}

impl Params {
    /// The version that the answer has to include.
    pub fn min_version(&mut self) -> Option<Version> {
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

/// The trip of an id.
pub(super) struct FoundTrip {
    pub row: Box<TripRow>,
    /// The time of the id, ms.
    pub t_star_ms: DeviceTime,
    /// How the id relates to the trip.
    pub matched: Match,
    /// Whether the trip comes from memory and is newer than the store.
    pub is_fresh: bool,
    /// The other instance that owns the device.
    pub owner: Option<String>,
}

/// Finds the trip of an id.
pub(super) async fn find(
    app: &App,
    id: &str,
    min_version: Option<Version>,
) -> Result<FoundTrip, Problem> {
    let parsed =
        AnyId::parse(id).map_err(|error| Problem::new(StatusCode::BAD_REQUEST, "bad_id", error))?;
    let t_star_ms = parsed.t_star_ms();
    let store = app.store()?;
    let found = app.fresh(&store).find(&parsed).await?;
    let device = match (&found.result, &parsed) {
        (LookupResult::Trip(row), _) => Some(row.device_id.as_str()),
        (_, AnyId::Trip(id)) => Some(id.device_id.as_str()),
        (_, AnyId::Uuid(_)) => None,
    };
    let owner = match device {
        Some(device) => app.other_owner(&store, device).await,
        None => None,
    };
    require(min_version, owner.as_ref(), |version| found.covers(version))?;
    let is_fresh = found.is_fresh;
    match found.result {
        LookupResult::Trip(row) => {
            let matched = Match::classify(t_star_ms, &row);
            Ok(FoundTrip { matched, t_star_ms, row, is_fresh, owner })
        }
        LookupResult::Gone { device_id, forget } => Err(gone(&device_id, &forget)),
        LookupResult::Unknown => {
            let time = format_time(t_star_ms.ms());
            let detail = format!("no trip has the id `{id}`: no trip of its device covers {time}");
            let problem = Problem::new(StatusCode::NOT_FOUND, "no_trip", detail);
            Err(problem.with_owner(owner.as_ref()))
        }
    }
}
