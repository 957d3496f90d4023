//! Runs a verification: rebuilds the trips of a store from its log, and compares both.

use std::sync::Arc;
use std::time::Instant;

use serde::ser::{Serialize, Serializer};

use super::compare::compare;
use super::{Comparison, Difference};
use crate::identity::DeviceId;
use crate::log::positions::keeps_own;
use crate::log::reference::{Build, Workspace};
use crate::log::{Log, ReadProgress};
use crate::ops::{NoResult, PartialResult, PreconditionFailed, SignalListener};
use crate::pipeline::daemon::OnEvent;
use crate::settings::Settings;
use crate::store::{Access, AnyStore, SideTables};

/// What to verify, and how.
#[derive(Clone, Debug)]
pub struct VerifyRequest<'a> {
    /// The store as messages and the report name it.
    pub store: &'a str,
    /// Compare this device only; `None`: all devices.
    pub device_id: Option<&'a DeviceId>,
    /// Whether rows that differ are repaired.
    pub repair: bool,
    /// Maximum number of examples in the report.
    pub limit: usize,
    /// Where the reference store is built.
    pub workspace: Workspace<'a>,
}

impl VerifyRequest<'_> {
    /// State of the work of a verification that stops early.
    #[must_use]
    pub fn partial_result(&self) -> PartialResult {
        if self.repair { PartialResult::Repaired } else { PartialResult::Nothing }
    }
}

/// A difference that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// The difference.
    pub difference: Difference,
    /// Whether the row was repaired.
    pub is_repaired: bool,
}

impl Serialize for Example {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = self.difference.json();
        object["repaired"] = self.is_repaired.into();
        object.serialize(serializer)
    }
}

/// Result of a verification. Clients parse it: names and order are fixed.
#[derive(Clone, Debug, serde::Serialize)]
pub struct VerifyReport {
    /// The store.
    pub store: String,
    /// Number of samples that were read.
    pub records: u64,
    /// Number of trips in the reference store.
    pub trips_rebuilt: u64,
    /// Counts of days, rows and differences.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// Duration, s.
    pub seconds: f64,
    /// The first differences, up to the limit of the request.
    pub examples: Vec<Example>,
}

/// Opens the store to verify; with `repair` an embedded store is opened for writing.
///
/// # Errors
/// The store cannot be opened, or is empty under `repair`.
pub(crate) async fn open_store(settings: &Settings, repair: bool) -> anyhow::Result<AnyStore> {
    let reader = settings.reader().await?;
    if !repair || !keeps_own(&reader) {
        return Ok(reader);
    }
    let url = settings.url()?;
    let rules = reader.rules().await?.ok_or_else(|| {
        PreconditionFailed(format!("store `{url}` is empty, so there is nothing to repair"))
    })?;
    let is_of_topic = !reader.epochs().await?.is_empty();
    drop(reader);
    let access = if is_of_topic { Access::WriteTopic(&rules) } else { Access::WriteFiles(&rules) };
    settings.open(access).await
}

/// Compares a store with its log: rebuilds the trips, and compares both.
///
/// # Errors
/// Records that the store was built from are missing, brokers or servers fail, a file cannot be
/// read, a signal stopped it, or the device of the request has no trip.
pub async fn verify(
    (store, log): (&Arc<AnyStore>, &Log),
    request: &VerifyRequest<'_>,
    listen: SignalListener<'_>,
    progress: &mut dyn ReadProgress,
    on_event: OnEvent,
) -> anyhow::Result<VerifyReport> {
    let started = Instant::now();
    let partial = request.partial_result();
    let mut cancel = log.listen(listen, partial)?;
    let build = Build {
        found: store,
        device_id: request.device_id,
        workspace: request.workspace,
        progress,
        on_event,
        cancel: (&cancel, partial),
    };
    let reference = log.reference(build).await?;
    let (rebuilt, records) = (Arc::clone(&reference.store), reference.records);
    let mut examples = Vec::new();
    let on_difference = |difference: &Difference, is_left: bool| {
        if examples.len() < request.limit {
            let is_repaired = request.repair && !is_left;
            examples.push(Example { difference: difference.clone(), is_repaired });
        }
    };
    let scope = (request.device_id.map(DeviceId::as_str), request.repair);
    let compared = compare(reference, store, scope, on_difference);
    let comparison = cancel.unless_stopped(partial, compared).await??;
    if let (Some(device), 0) = (request.device_id, comparison.days) {
        let store = request.store;
        let reason = format!("neither store `{store}` nor its log has a trip of device `{device}`");
        return Err(NoResult(reason).into());
    }
    Ok(VerifyReport {
        store: request.store.to_owned(),
        records,
        trips_rebuilt: rebuilt.count_trips()?,
        comparison,
        seconds: started.elapsed().as_secs_f64(),
        examples,
    })
}

impl VerifyReport {
    /// Checks that no difference is left.
    ///
    /// # Errors
    /// There are differences, or some that could not be repaired.
    pub fn check(&self, repair: bool) -> Result<(), NoResult> {
        let (found, left) = (self.comparison.count(), self.comparison.count_left());
        if left == 0 {
            return Ok(());
        }
        Err(NoResult(if repair {
            format!(
                "{left} of {found} differences cannot be repaired in place: those rows were \
                 written or deleted with a later timestamp than the correct rows have; build \
                 another store: tstar rebuild --into STORE"
            )
        } else {
            format!("{found} differences; --repair fixes what it can")
        }))
    }
}
