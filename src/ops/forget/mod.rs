//! Erases the trips of a device, or of all devices, that ended before a time.
//!
//! [`prepare`] makes all checks and writes nothing, so that the caller can ask for confirmation in
//! between. Then a store of files is erased from at once ([`FileForget`]); a store of a topic is
//! erased from by the daemon, which reads signed control records from that topic
//! ([`TopicForget`]).

mod file;
mod topic;

use serde::Serialize;

use super::{InvalidRequest, NoResult};
use crate::identity::DeviceId;
use crate::log::topic::OpenLog;
use crate::model::rules::Rules;
use crate::model::scalar::{DeviceTime, Offset, Version};
use crate::model::time::{format_duration, format_time};
use crate::model::visible::visible;
use crate::store::{AnyStore, DeviceScope, EpochStore, StoreUrl, TripStore, latest_end};

pub use file::FileForget;
pub use topic::{SendFailed, TopicForget};

/// Devices that are read, and erased or requested, at once.
const PAGE: usize = 1000;

/// How far past the last sample a time needs no confirmation, ms: ten years. Clocks that are wrong
/// by that much exist, and devices that are erased so late hardly do.
const MAX_BEYOND_MS: i64 = 10 * 366 * 86_400_000;

/// What is to be erased.
#[derive(Clone, Debug)]
pub struct ForgetRequest {
    /// Device id; `None`: every device.
    pub device: Option<DeviceId>,
    /// Trips that ended before this are erased, ms since 1970.
    pub before_ms: DeviceTime,
    /// The store as messages name it.
    pub store: String,
    /// URL of the same store.
    pub url: StoreUrl,
    /// Change events that a store of files keeps.
    pub keep_changes: u64,
    /// Topic to write to; `None`: that of the newest epoch.
    pub topic: Option<String>,
    /// Accept a time far past the last sample.
    pub beyond_data: bool,
    /// The clock, ms since 1970.
    pub now_ms: i64,
}

impl ForgetRequest {
    /// What would be erased, as part of a sentence.
    #[must_use]
    pub fn description(&self) -> String {
        let (before, store) = (format_time(self.before_ms.ms()), &self.store);
        let devices = match &self.device {
            Some(device) => format!("device `{}`", visible(device.as_str())),
            None => "every device".to_owned(),
        };
        format!("the trips of {devices} that ended before {before} from store `{store}`")
    }

    /// Refuses a time at which no trip can be: it is a slip for another one.
    fn check_before(&self, rules: &Rules) -> Result<(), InvalidRequest> {
        let before = format_time(self.before_ms.ms());
        if self.before_ms < DeviceTime(0) {
            return Err(InvalidRequest(format!(
                "{before} is before 1970: no trip is as old as that"
            )));
        }
        let ahead_ms = rules.max_future_ms;
        if self.before_ms.ms() > self.now_ms.saturating_add(ahead_ms) {
            return Err(InvalidRequest(format!(
                "{before} is more than max_future, {}, ahead of the clock: no trip is, and every \
                 sample up to then would be dropped",
                format_duration(ahead_ms)
            )));
        }
        Ok(())
    }

    /// Refuses a time far past the last sample of the device, or of every device: no command lifts
    /// a floor, so that a wrong clock would lose all samples up to then.
    async fn check_data(&self, store: &AnyStore) -> anyhow::Result<()> {
        if self.beyond_data {
            return Ok(());
        }
        let mut latest: Option<(String, DeviceTime)> = None;
        let mut after = None;
        loop {
            let devices = match &self.device {
                Some(device) => vec![device.to_string()],
                None => store.devices(DeviceScope::All, after.as_deref(), PAGE).await?,
            };
            after = devices.last().cloned();
            for device in devices {
                let Some(end) = latest_end(store, &device).await? else { continue };
                if self.before_ms <= end.end_ms.saturating_add(MAX_BEYOND_MS) {
                    return Ok(());
                }
                if latest.as_ref().is_none_or(|(_, other)| *other < end.end_ms) {
                    latest = Some((device, end.end_ms));
                }
            }
            if after.is_none() || self.device.is_some() {
                break;
            }
        }
        let Some((device, end_ms)) = latest else { return Ok(()) };
        let (before, end) = (format_time(self.before_ms.ms()), format_time(end_ms.ms()));
        let device = visible(&device);
        Err(InvalidRequest(format!(
            "{before} is over ten years past the last sample, {end} of device `{device}`: is the \
             clock of this machine right? no command takes it back, and every sample up to then \
             would be dropped; pass an earlier time, or --beyond-data"
        ))
        .into())
    }
}

/// A request that passed all checks.
pub enum ForgetPlan<'a> {
    /// The store was built from files.
    Files(Box<FileForget<'a>>),
    /// The store was built from a topic.
    Topic(Box<TopicForget<'a>>),
}

/// One device whose trips are erased, with the control record that says so.
#[derive(Clone, Debug)]
pub struct ForgetRecord {
    /// Device id.
    pub device: DeviceId,
    /// Partition of the record.
    pub partition: i32,
    /// Offset of the record, if known.
    pub offset: Option<Offset>,
    /// Version of the erasure, if the offset is known.
    pub version: Option<Version>,
}

/// Progress of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForgetState {
    /// The control record is in the topic.
    Requested,
    /// The trips are erased.
    Erased,
}

/// Progress of a forget.
#[derive(Clone, Copy, Debug)]
pub enum ForgetEvent<'a> {
    /// Erasing from a file that this process has locked, or sending, begins.
    Begin,
    /// A line for the operator.
    Notice(&'a str),
    /// These devices have come to this state, durably.
    Records {
        /// The state of all of them.
        state: ForgetState,
        /// One record per device.
        records: &'a [ForgetRecord],
    },
    /// Devices so far; only if all devices are erased.
    Devices(usize),
}

/// Receives the events; an error ends the use case.
pub type OnForgetEvent<'a> = &'a mut dyn FnMut(ForgetEvent<'_>) -> anyhow::Result<()>;

/// One line of the audit trail. Others parse it: names and order are fixed.
#[derive(Debug, Serialize)]
pub struct AuditLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    forgot: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requested: Option<&'a str>,
    before: String,
    partition: i32,
    offset: Option<Offset>,
    version: Option<Version>,
    at: String,
    by: Option<&'a str>,
}

impl<'a> AuditLine<'a> {
    /// The line of a device that came to `state` at `at_ms`; `user` is who runs the command.
    #[must_use]
    pub fn new(
        request: &ForgetRequest,
        record: &'a ForgetRecord,
        state: ForgetState,
        at_ms: i64,
        user: Option<&'a str>,
    ) -> Self {
        let device = Some(record.device.as_str());
        Self {
            forgot: device.filter(|_| state == ForgetState::Erased),
            requested: device.filter(|_| state == ForgetState::Requested),
            before: format_time(request.before_ms.ms()),
            partition: record.partition,
            offset: record.offset,
            version: record.version,
            at: format_time(at_ms),
            by: user,
        }
    }
}

/// Checks a request against the store and its log. `log` is called only for a store of a topic.
///
/// # Errors
/// The time is not one that trips can have, there is nothing to erase, the partition of the device
/// is unknown, or no control key can sign the records.
pub async fn prepare<'a>(
    request: &'a ForgetRequest,
    store: AnyStore,
    log: OpenLog<'_>,
) -> anyhow::Result<ForgetPlan<'a>> {
    let epochs = store.epochs().await?;
    match (epochs.last(), request.url.path()) {
        (Some(newest), _) => {
            request.check_before(&newest.rules)?;
            request.check_data(&store).await?;
            let plan = TopicForget::prepare(request, store, newest, log()?).await?;
            Ok(ForgetPlan::Topic(Box::new(plan)))
        }
        (None, Some(path)) => {
            let plan = FileForget::prepare(request, store, path).await?;
            Ok(ForgetPlan::Files(Box::new(plan)))
        }
        (None, None) => {
            let reason =
                format!("store `{}` has no epoch: no topic was read into it", request.store);
            Err(NoResult(reason).into())
        }
    }
}
