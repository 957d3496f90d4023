//! A store of files: the forget is the next record of its log, applied here.

use std::path::{Path, PathBuf};

use super::{ForgetEvent, ForgetRecord, ForgetRequest, ForgetState, OnForgetEvent, rules};
use crate::identity::DeviceId;
use crate::log::device_partition::latest_trip;
use crate::model::epoch::LogPartition;
use crate::model::failure::NoResult;
use crate::model::rules::Rules;
use crate::pipeline::processor::{Processor, ProcessorConfig};
use crate::source::{Batch, Control};
use crate::store::{AnyStore, DevicePages, DeviceScope, EmbeddedStore};

/// A checked request to a store of files.
pub struct FileForget<'a> {
    request: &'a ForgetRequest<'a>,
    path: PathBuf,
    rules: Rules,
}

impl<'a> FileForget<'a> {
    /// Checks that there is something to erase.
    pub(super) async fn prepare(
        request: &'a ForgetRequest<'a>,
        store: AnyStore,
    ) -> anyhow::Result<Self> {
        let rules = rules(request, &store).await?;
        if let Some(device) = &request.device
            && latest_trip(&store, device).await?.is_none()
        {
            let name = &request.settings.store;
            let reason = format!("there are no trips of device `{device}` in store `{name}`");
            return Err(NoResult(reason).into());
        }
        let path = request.settings.url()?.path().map(Path::to_owned);
        Ok(Self { request, path: path.expect("a store of files is a file"), rules })
    }

    /// Erases; returns the number of devices.
    ///
    /// # Errors
    /// Another process writes to the file, or writing fails. What was reported before is durable.
    pub async fn erase(&self, on_event: OnForgetEvent<'_>) -> anyhow::Result<usize> {
        let keep_changes = self.request.settings.keep_changes;
        let store = EmbeddedStore::open_writer(&self.path, &self.rules, keep_changes)?;
        on_event(ForgetEvent::Begin)?;
        let mut processor = Processor::new(&store, &self.rules, ProcessorConfig::default()).await?;
        if let Some(device) = &self.request.device {
            self.erase_devices(&mut processor, vec![device.clone()], on_event).await?;
            return Ok(1);
        }
        let (mut pages, mut erased) = (DevicePages::new(&store, DeviceScope::All), 0);
        while let Some(devices) = pages.next().await? {
            erased += devices.len();
            let devices = devices.into_iter().map(DeviceId::from_store).collect();
            self.erase_devices(&mut processor, devices, on_event).await?;
            on_event(ForgetEvent::Devices(erased))?;
        }
        Ok(erased)
    }

    /// Erases the trips of these devices in one transaction, and reports it.
    async fn erase_devices(
        &self,
        processor: &mut Processor<'_, EmbeddedStore>,
        devices: Vec<DeviceId>,
        on_event: OnForgetEvent<'_>,
    ) -> anyhow::Result<()> {
        let log = LogPartition::of_files();
        let mut records = Vec::with_capacity(devices.len());
        for device in devices {
            let offset = processor.position().delivered;
            let (device_id, before_ms) = (device.clone(), self.request.before_ms);
            let control = Some(Control::Forget { offset, device_id, before_ms, key: None });
            processor.absorb(&Batch { control, ..Batch::default() }).await?;
            let (partition, version) = (log.partition, Some(log.versions.version_at(offset)));
            records.push(ForgetRecord { device, partition, offset: Some(offset), version });
        }
        processor.flush().await?;
        on_event(ForgetEvent::Records { state: ForgetState::Erased, records: &records })
    }
}
