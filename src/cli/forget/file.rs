//! A store of files: the forget is the next record of its log, carried out here.

use tstar::model::epoch::Log;
use tstar::model::rules::Rules;
use tstar::ops::NoResult;
use tstar::pipeline::processor::{Processor, ProcessorConfig};
use tstar::source::{Batch, Control};
use tstar::store::{AnyStore, DeviceScope, EmbeddedStore, TripStore};

use super::{ForgetJob, Sent, State, progress};
use crate::cli::devices::PAGE;
use crate::cli::exit;
use crate::cli::ingest;
use crate::cli::open;
use crate::cli::print::Printer;
use tstar::ops::device_partition::latest_trip;

/// What holds the samples still.
const STILL_THERE: &str = "the files that were imported hold the samples still, its dead letters \
    and its table of changes some of them; what SQLite has left in unused pages, VACUUM removes";

/// Erases from the file of `reader`.
pub async fn erase(
    job: &ForgetJob<'_>,
    reader: AnyStore,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    let store = &job.settings.store;
    let Some(rules) = reader.rules().await? else {
        return Err(NoResult(format!("store `{store}` is empty")).into());
    };
    job.check_before(&rules)?;
    if let Some(device) = job.device
        && latest_trip(&reader, device).await?.is_none()
    {
        let reason = format!("there are no trips of device `{device}` in store `{store}`");
        return Err(NoResult(reason).into());
    }
    job.confirm().await?;
    job.intend();
    drop(reader);
    let erased = carry_out(job, &rules, printer).await?;
    printer.flush()?;
    exit::print_status(&format!("devices erased: {erased}; {STILL_THERE}"));
    Ok(())
}

async fn carry_out(
    job: &ForgetJob<'_>,
    rules: &Rules,
    printer: &mut Printer<'_>,
) -> anyhow::Result<usize> {
    let path = open::file_path(&job.settings.store, "it is no file")?;
    let mut store = EmbeddedStore::open_writer(&path, rules, job.settings.keep_changes)?;
    if let Some((step, count)) = job.context.break_off() {
        ingest::break_off(&mut store, step, count);
    }
    let mut processor = Processor::new(&store, rules, ProcessorConfig::default()).await?;
    if let Some(device) = job.device {
        erase_of(job, &mut processor, vec![device.to_owned()], printer).await?;
        return Ok(1);
    }
    let (mut after, mut erased, bar): (Option<String>, _, _) = (None, 0, progress());
    loop {
        let devices = store.devices(DeviceScope::All, after.as_deref(), PAGE).await?;
        after = devices.last().cloned();
        if after.is_none() {
            bar.finish_and_clear();
            return Ok(erased);
        }
        erased += devices.len();
        erase_of(job, &mut processor, devices, printer).await?;
        bar.set_position(erased as u64);
    }
}

/// Erases of some devices in one transaction, and tells of it.
async fn erase_of(
    job: &ForgetJob<'_>,
    processor: &mut Processor<'_, EmbeddedStore>,
    devices: Vec<String>,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    let log = Log::of_files();
    let mut sent = Vec::with_capacity(devices.len());
    for device in devices {
        let offset = processor.position().delivered;
        let (device_id, before_ms) = (device.clone(), job.before_ms);
        let control = Some(Control::Forget { offset, device_id, before_ms });
        processor.absorb(&Batch { control, ..Batch::default() }).await?;
        let (partition, version) = (log.partition, Some(log.versions.version_at(offset)));
        sent.push(Sent { device, partition, offset: Some(offset), version });
    }
    processor.flush().await?;
    sent.iter().try_for_each(|sent| job.report(sent, State::Done, printer))
}
