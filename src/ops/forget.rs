//! Erases the trips of a device, or of all devices, that ended before a time.
//!
//! [`prepare`] makes all checks and writes nothing, so that the caller can ask for confirmation in
//! between; the log carries out the plan ([`crate::log::forget`]).

use serde::Serialize;

use super::InvalidRequest;
use crate::log::forget::{ForgetPlan, ForgetRecord, ForgetRequest, ForgetState, rules};
use crate::model::rules::Rules;
use crate::model::scalar::{DeviceTime, Offset, Version};
use crate::model::time::{format_duration, format_time};
use crate::model::visible::visible;
use crate::store::{AnyStore, DevicePages, DeviceScope, latest_end};

/// How far past the last sample a time needs no confirmation, ms: ten years. Clocks that are wrong
/// by that much exist, and devices that are erased so late hardly do.
const MAX_BEYOND_MS: i64 = 10 * 366 * 86_400_000;

impl ForgetRequest<'_> {
    /// What would be erased, as part of a sentence.
    #[must_use]
    pub fn description(&self) -> String {
        let (before, store) = (format_time(self.before_ms.ms()), &self.settings.store);
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
        if self.before_ms.ms() > self.settings.now_ms.saturating_add(ahead_ms) {
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
        let mut pages = DevicePages::new(store, DeviceScope::All);
        let mut page = match &self.device {
            Some(device) => Some(vec![device.to_string()]),
            None => pages.next().await?,
        };
        while let Some(devices) = page {
            for device in devices {
                let Some(end) = latest_end(store, &device).await? else { continue };
                if self.before_ms <= end.end_ms.saturating_add(MAX_BEYOND_MS) {
                    return Ok(());
                }
                if latest.as_ref().is_none_or(|(_, other)| *other < end.end_ms) {
                    latest = Some((device, end.end_ms));
                }
            }
            page = if self.device.is_some() { None } else { pages.next().await? };
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

/// One line of the audit trail. Others parse it: names and order are fixed.
#[derive(Debug, Serialize)]
pub(crate) struct AuditLine<'a> {
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
    pub(crate) fn new(
        request: &ForgetRequest<'_>,
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

/// Checks a request against the store and its log.
///
/// # Errors
/// The time is not one that trips can have, there is nothing to erase, the partition of the device
/// is unknown, or no control key can sign the records.
pub async fn prepare<'a>(
    request: &'a ForgetRequest<'a>,
    store: AnyStore,
) -> anyhow::Result<ForgetPlan<'a>> {
    request.check_before(&rules(request, &store).await?)?;
    request.check_data(&store).await?;
    ForgetPlan::new(request, store).await
}
