//! Runs a verification: rebuilds the trips of a store from its log, and compares both.

use std::sync::Arc;
use std::time::Instant;

use serde::ser::{Serialize, Serializer};

use super::compare::{CompareOptions, compare};
use super::reference::{self, Workspace};
use super::{Comparison, Difference};
use crate::identity::DeviceId;
use crate::log::files::FilesLog;
use crate::log::topic::TopicLog;
use crate::log::{Bounds, Log};
use crate::ops::ingest::ReadProgress;
use crate::ops::{Cancel, NoResult, PartialResult, PreconditionFailed, SignalListener, Stopped};
use crate::pipeline::daemon::OnEvent;
use crate::pipeline::processor::SampleCounts;
use crate::source::Batch;
use crate::store::raw::RawRows;
use crate::store::{Access, AnyStore, EmbeddedStore, EpochStore, OpenOptions, StoreUrl, TripStore};

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

    fn compare_options(&self) -> CompareOptions<'_> {
        CompareOptions { device_id: self.device_id.map(DeviceId::as_str), repair: self.repair }
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
pub async fn open_store(
    url: &StoreUrl,
    options: OpenOptions,
    repair: bool,
) -> anyhow::Result<AnyStore> {
    let reader = AnyStore::open(url, Access::Read, options.clone()).await?;
    if !repair || reader.embedded().is_none() {
        return Ok(reader);
    }
    let rules = reader.rules().await?.ok_or_else(|| {
        PreconditionFailed(format!("store `{url}` is empty, so there is nothing to repair"))
    })?;
    let is_of_topic = !reader.epochs().await?.is_empty();
    drop(reader);
    let access = if is_of_topic { Access::WriteTopic(&rules) } else { Access::WriteFiles(&rules) };
    Ok(AnyStore::open(url, access, options).await?)
}

/// Verifies a store that was built from the log.
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
    match log {
        Log::Topic(log) => verify_topic((store, log), request, listen, on_event).await,
        Log::Files(log) => verify_files(log, request, progress).await,
    }
}

async fn verify_topic(
    (store, log): (&Arc<AnyStore>, &TopicLog),
    request: &VerifyRequest<'_>,
    listen: SignalListener<'_>,
    on_event: OnEvent,
) -> anyhow::Result<VerifyReport> {
    let started = Instant::now();
    log.is_whole()?;
    log.is_committed()?;
    let replay = log.reread(log.all_stored(), request.device_id.cloned())?;
    let partial = request.partial_result();
    let mut cancel = listen(partial)?;
    let (reference_store, read) =
        reference::of_topic(&replay, store, request.workspace, on_event, cancel.wait()).await?;
    if let (true, Some(signal)) = (read.stopped, cancel.signal()) {
        return Err(Stopped { signal, partial }.into());
    }
    let mut findings = Findings::new(request, &reference_store, started);
    let comparison = tokio::select! {
        biased;
        signal = wait_for_signal(&mut cancel) => return Err(Stopped { signal, partial }.into()),
        comparison = findings.compare(&**store, log.bounds(&replay)) => comparison?,
    };
    findings.into_report(comparison, read.counts.delivered)
}

async fn wait_for_signal(cancel: &mut Cancel) -> i32 {
    cancel.wait().await;
    cancel.signal().expect("the wait ended with a signal")
}

async fn verify_files(
    log: &FilesLog,
    request: &VerifyRequest<'_>,
    progress: &mut dyn ReadProgress,
) -> anyhow::Result<VerifyReport> {
    let started = Instant::now();
    progress.start(None);
    let mut records = 0;
    let watch = |batch: &Batch, counts: &SampleCounts| {
        records = counts.delivered;
        progress.update(batch, counts);
    };
    let result = reference::of_files(&log.store, &log.files, request.workspace, watch).await;
    progress.finish();
    let reference_store = result?;
    let mut findings = Findings::new(request, &reference_store, started);
    let comparison = findings.compare(&*log.store, Bounds::default()).await?;
    findings.into_report(comparison, records)
}

/// Compares a store with its reference store and collects examples.
struct Findings<'a> {
    request: &'a VerifyRequest<'a>,
    reference_store: &'a EmbeddedStore,
    started: Instant,
    examples: Vec<Example>,
}

impl<'a> Findings<'a> {
    fn new(
        request: &'a VerifyRequest<'a>,
        reference_store: &'a EmbeddedStore,
        started: Instant,
    ) -> Self {
        Self { request, reference_store, started, examples: Vec::new() }
    }

    async fn compare<S: RawRows + TripStore>(
        &mut self,
        store: &S,
        bounds: Bounds<'_>,
    ) -> anyhow::Result<Comparison> {
        let (request, examples) = (self.request, &mut self.examples);
        let mut on_difference = |difference: &Difference, is_left: bool| {
            if examples.len() < request.limit {
                let is_repaired = request.repair && !is_left;
                examples.push(Example { difference: difference.clone(), is_repaired });
            }
        };
        let options = request.compare_options();
        Ok(compare(self.reference_store, store, &options, bounds, &mut on_difference).await?)
    }

    fn into_report(self, comparison: Comparison, records: u64) -> anyhow::Result<VerifyReport> {
        let (request, store) = (self.request, self.request.store);
        let trips_rebuilt = self.reference_store.count_trips()?;
        if let (Some(device), 0) = (request.device_id, comparison.days) {
            let reason =
                format!("neither store `{store}` nor its log has a trip of device `{device}`");
            return Err(NoResult(reason).into());
        }
        Ok(VerifyReport {
            store: store.to_owned(),
            records,
            trips_rebuilt,
            comparison,
            seconds: self.started.elapsed().as_secs_f64(),
            examples: self.examples,
        })
    }
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
