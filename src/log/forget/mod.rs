//! Appends the control records that erase trips.
//!
//! A store of files is erased from at once (`files`); a store of a topic is erased from by the
//! daemon, which reads signed control records from that topic (`control_records`).

mod control_records;
mod files;

use std::time::Duration;

pub(crate) use self::control_records::SendFailed;
use self::control_records::TopicForget;
use self::files::FileForget;
use crate::identity::DeviceId;
use crate::model::failure::NoResult;
use crate::model::rules::Rules;
use crate::model::scalar::{DeviceTime, Offset, Version};
use crate::settings::Settings;
use crate::store::{AnyStore, SideTables};

/// What is to be erased.
#[derive(Clone, Debug)]
pub struct ForgetRequest<'a> {
    /// Device id; `None`: every device.
    pub device: Option<DeviceId>,
    /// Trips that ended before this are erased, ms since 1970.
    pub before_ms: DeviceTime,
    /// Accept a time far past the last sample.
    pub beyond_data: bool,
    /// The store, its log, and the clock.
    pub settings: &'a Settings,
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
pub(crate) type OnForgetEvent<'a> = &'a mut dyn FnMut(ForgetEvent<'_>) -> anyhow::Result<()>;

/// A request that passed all checks.
pub enum ForgetPlan<'a> {
    /// The store was built from files.
    Files(Box<FileForget<'a>>),
    /// The store was built from a topic.
    Topic(Box<TopicForget<'a>>),
}

/// What became of a request.
pub struct Forgotten {
    /// Number of devices.
    pub devices: usize,
    /// Records that are in the topic, for the daemon to apply.
    pub pending: Vec<ForgetRecord>,
}

/// The rules of the log of a store.
///
/// # Errors
/// The store is empty, or cannot be read.
pub async fn rules(request: &ForgetRequest<'_>, store: &AnyStore) -> anyhow::Result<Rules> {
    let name = &request.settings.store;
    let rules = match (store.epochs().await?.pop(), request.settings.url()?.path()) {
        (Some(newest), _) => Some(newest.rules),
        (None, Some(_)) => store.rules().await?,
        (None, None) => {
            let reason = format!("store `{name}` has no epoch: no topic was read into it");
            return Err(NoResult(reason).into());
        }
    };
    rules.ok_or_else(|| NoResult(format!("store `{name}` is empty")).into())
}

impl<'a> ForgetPlan<'a> {
    /// Checks the log of a store, and closes the store of files: a writer opens it next.
    ///
    /// # Errors
    /// There is nothing to erase, the partition of the device is unknown, or no control key can
    /// sign the records.
    pub async fn new(request: &'a ForgetRequest<'a>, store: AnyStore) -> anyhow::Result<Self> {
        match store.epochs().await?.last() {
            Some(newest) => {
                let plan = TopicForget::prepare(request, store, newest).await?;
                Ok(Self::Topic(Box::new(plan)))
            }
            None => Ok(Self::Files(Box::new(FileForget::prepare(request, store).await?))),
        }
    }

    /// Erases, or sends the control records that do. They are reported as soon as that is durable.
    ///
    /// # Errors
    /// Another process writes to the file, the store cannot be read or written, or [`SendFailed`].
    pub async fn carry_out(&self, on_event: OnForgetEvent<'_>) -> anyhow::Result<Forgotten> {
        match self {
            Self::Files(plan) => {
                let devices = plan.erase(on_event).await?;
                Ok(Forgotten { devices, pending: Vec::new() })
            }
            Self::Topic(plan) => {
                let pending = plan.send(on_event).await?;
                Ok(Forgotten { devices: pending.len(), pending })
            }
        }
    }

    /// What was done, and what still holds the samples.
    #[must_use]
    pub fn summary(&self, devices: usize) -> String {
        match self {
            Self::Files(_) => format!(
                "devices erased: {devices}; the imported files still hold the samples, and the \
                 store's dead letters and change events some of them; VACUUM clears what SQLite \
                 left in unused pages"
            ),
            Self::Topic(plan) => format!(
                "devices requested: {devices}, in topic `{}`; `tstar run` carries it out. Topic, \
                 feed and dead letters hold the samples until their own retention ends",
                plan.topic()
            ),
        }
    }

    /// Waits until the daemon has applied these records, and reports each.
    ///
    /// # Errors
    /// [`NoResult`] after `timeout`, or the store cannot be read.
    pub async fn wait(
        &self,
        pending: &[ForgetRecord],
        timeout: Duration,
        on_event: OnForgetEvent<'_>,
    ) -> anyhow::Result<()> {
        match self {
            Self::Files(_) => Ok(()),
            Self::Topic(plan) => plan.wait(pending, timeout, on_event).await,
        }
    }
}
