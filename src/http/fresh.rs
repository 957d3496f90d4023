//! Answers that see the memory of the daemon in this process, or of other instances.

use axum::http::StatusCode;

use super::app::App;
use super::params::Params;
use super::peers::Memory;
use super::phase::Store;
use super::problem::Problem;
use super::trips::gone;
use crate::identity::AnyId;
use crate::model::scalar::{DeviceTime, Version};
use crate::model::time::format_time;
use crate::store::fresh::FreshStore;
use crate::store::{LookupResult, TripRow};
use crate::views::Match;

/// The store of a request, behind the memory of the daemon.
pub(super) type Fresh<'a> = FreshStore<'a, Store, Memory<'a>>;

impl App {
    /// The store, behind the memory of the daemon if this process has one, and of other instances
    /// if they are asked.
    pub(super) fn fresh<'a>(&self, store: &'a Store) -> Fresh<'a> {
        let peers = self.peers.clone().map(|peers| (peers, store));
        FreshStore::new(store, Memory { live: self.live.clone(), peers, now_ms: self.now_ms() })
    }
}

/// The store alone.
pub(super) fn of_store(store: &Store) -> Fresh<'_> {
    FreshStore::new(store, Memory { live: None, peers: None, now_ms: 0 })
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
pub(super) fn require(
    min_version: Option<Version>,
    includes: impl FnOnce(Version) -> bool,
) -> Result<(), Problem> {
    let Some(version) = min_version.filter(|&version| !includes(version)) else { return Ok(()) };
    let detail = format!(
        "the answer may not include version {} yet; retry, at the instance that reads the device",
        version.get()
    );
    Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not_yet", detail))
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
    require(min_version, |version| found.covers(version))?;
    let is_fresh = found.is_fresh;
    match found.result {
        LookupResult::Trip(row) => {
            Ok(FoundTrip { matched: Match::classify(t_star_ms, &row), t_star_ms, row, is_fresh })
        }
        LookupResult::Gone { device_id, forget } => Err(gone(&device_id, &forget)),
        LookupResult::Unknown => {
            let time = format_time(t_star_ms.ms());
            let detail = format!("no trip has the id `{id}`: no trip of its device covers {time}");
            Err(Problem::new(StatusCode::NOT_FOUND, "no_trip", detail))
        }
    }
}
