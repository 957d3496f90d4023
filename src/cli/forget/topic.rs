//! A store of a topic: control records into that topic, which `run` carries out.

use std::sync::Arc;
use std::time::{Duration, Instant};
use tstar::ops::{NoResult, PreconditionFailed};

use futures_util::{StreamExt, TryStreamExt, stream};
use tstar::kafka::control::{CONTROL_HEADER, SIGNATURE_HEADER};
use tstar::kafka::producer::{Producer, ProducerRecord};
use tstar::kafka::topic::Topics;
use tstar::model::control::{Claim, ControlKey};
use tstar::model::epoch::{Epoch, Versions};
use tstar::model::time::{format_duration, format_time};
use tstar::settings::Settings;
use tstar::store::{DeviceScope, EpochStore, KeyStore, Order, StoreError, TripStore};

use super::{ForgetJob, Sent, State, progress};
use crate::cli::devices::PAGE;
use crate::cli::exit;
use crate::cli::keys;
use crate::cli::open;
use crate::cli::print::Printer;
use tstar::ops::device_partition::{LocatedDevice, PartitionFinder};
use tstar::ops::topic_log;

/// How many devices the store is asked about at a time.
const ASKED_TOGETHER: usize = 32;

/// How long between two looks at what was carried out.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// What records go where.
struct Asker<'a, S> {
    job: &'a ForgetJob<'a>,
    homes: PartitionFinder<'a, S>,
    key: ControlKey,
    producer: Producer,
}

/// Asks the topic of the newest epoch to erase.
pub async fn request_forget<S: TripStore + EpochStore + KeyStore>(
    job: &ForgetJob<'_>,
    store: &S,
    newest: &Epoch,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    let settings = job.settings;
    let brokers = open::brokers(settings)?;
    let topics = Arc::new(Topics::new(&brokers)?);
    let request = open::topic_request(settings, job.origins, job.context);
    let (topic, _, epochs) = topic_log::topic_of(store, &topics, newest, &request).await?;
    let key = signing_key(store, settings).await?;
    let producer = Producer::new(&brokers, Arc::new(exit::print_status))?;
    let is_keyed = newest.rules.key == "device_id";
    let asker =
        Asker { job, homes: PartitionFinder { store, topic, epochs, is_keyed }, key, producer };
    let sent = match job.device {
        Some(device) => asker.ask_of_one(device, printer).await?,
        None => asker.ask_of_all(printer).await?,
    };
    exit::print_status(&format!(
        "devices asked for: {}, in topic `{}`; `tstar run` carries it out. Topic, feed and dead \
         letters hold the samples until their own retention ends",
        sent.len(),
        asker.homes.topic
    ));
    match job.wait {
        Some(limit) => asker.wait(&sent, limit, printer).await,
        None => Ok(()),
    }
}

/// The key to sign with. The store has to name it: then every instance has it, or stops where it
/// would have to decide without.
async fn signing_key(store: &impl KeyStore, settings: &Settings) -> anyhow::Result<ControlKey> {
    let keys = keys::read(settings)?;
    let Some(key) = keys.signing() else {
        return Err(PreconditionFailed(
            "a topic takes control records with the operator's signature alone: make a key with \
             `tstar forget --new-key NAME >> FILE`, name the file with --control-key-file here and \
             for every `tstar run`, and restart those"
                .into(),
        )
        .into());
    };
    let (named, mine, store) = (store.control_keys().await?, key.named(), &settings.store);
    let same: Vec<_> = named.into_iter().filter(|named| named.name == mine.name).collect();
    keys.agree_with(&same, store).map_err(PreconditionFailed)?;
    if same.is_empty() {
        let name = key.name();
        return Err(PreconditionFailed(format!(
            "store `{store}` does not name control key `{name}` yet, so nobody would take what it \
             signs: add it to the control_key_file of every `tstar run`, restart those, and try \
             again (an older key signs if it comes first in the file)"
        ))
        .into());
    }
    Ok(key.clone())
}

impl<S: TripStore> Asker<'_, S> {
    async fn ask_of_one(
        &self,
        device: &str,
        printer: &mut Printer<'_>,
    ) -> anyhow::Result<Vec<Sent>> {
        let found = self.homes.find(device.to_owned()).await?;
        if self.homes.is_lost(&found) {
            return Err(PreconditionFailed(self.homes.why_lost(&found)).into());
        }
        self.job.confirm().await?;
        self.job.intend();
        if !found.has_trip {
            exit::print_status(&format!(
                "no trip of device `{device}` is stored; the record is sent all the same, as \
                 samples may be on the way"
            ));
        }
        self.send(vec![found], printer).await
    }

    async fn ask_of_all(&self, printer: &mut Printer<'_>) -> anyhow::Result<Vec<Sent>> {
        self.job.confirm().await?;
        self.job.intend();
        let (mut after, mut sent, bar): (Option<String>, _, _) = (None, Vec::new(), progress());
        loop {
            let devices =
                self.homes.store.devices(DeviceScope::All, after.as_deref(), PAGE).await?;
            after = devices.last().cloned();
            if after.is_none() {
                bar.finish_and_clear();
                return Ok(sent);
            }
            let found = stream::iter(devices).map(|device| self.homes.find(device));
            let found: Vec<LocatedDevice> = found.buffered(ASKED_TOGETHER).try_collect().await?;
            let (lost, found): (Vec<_>, Vec<_>) =
                found.into_iter().partition(|found| self.homes.is_lost(found));
            for lost in lost {
                bar.suspend(|| {
                    exit::print_status(&format!("left out: {}", self.homes.why_lost(&lost)))
                });
            }
            sent.extend(self.send(found, printer).await?);
            bar.set_position(sent.len() as u64);
        }
    }

    async fn send(
        &self,
        found: Vec<LocatedDevice>,
        printer: &mut Printer<'_>,
    ) -> anyhow::Result<Vec<Sent>> {
        let before = format_time(self.job.before_ms);
        let record = |found: &LocatedDevice| {
            let (device, kind) = (found.device.as_bytes(), b"forget");
            let (topic, before_ms) = (&self.homes.topic[..], self.job.before_ms);
            let signature = self.key.sign(&Claim { topic, device, kind, before_ms });
            ProducerRecord {
                key: Some(device.to_vec()),
                value: serde_json::json!({ "before": before }).to_string().into_bytes(),
                headers: vec![
                    (CONTROL_HEADER.to_owned(), Some(kind.to_vec())),
                    (SIGNATURE_HEADER.to_owned(), Some(signature.into_bytes())),
                ],
                ..ProducerRecord::default()
            }
        };
        let records: Vec<ProducerRecord> = found.iter().map(record).collect();
        let records: Vec<_> =
            records.iter().zip(&found).map(|(record, found)| (record, found.partition)).collect();
        let placed = self.producer.send_to_partition(&self.homes.topic, &records).await;
        let placed = placed.map_err(self.producer.failed("sending control records"));
        let placed = placed.map_err(|error| {
            let stays = format!(
                "devices asked for are those that were told; some of the next {} may be, too. \
                 The same command asks for all: twice erases no more than once",
                records.len()
            );
            exit::broke_off(error, &stays)
        })?;
        let mut sent = Vec::with_capacity(placed.len());
        for (found, placed) in found.into_iter().zip(placed) {
            let versions = Versions::of_partition(&self.homes.epochs, placed.partition);
            let version = placed.offset.map(|offset| versions.version_at(offset));
            let (partition, offset) = (placed.partition, placed.offset);
            let one = Sent { device: found.device, partition, offset, version };
            self.job.report(&one, State::Asked, printer)?;
            sent.push(one);
        }
        // What is in the log is told, whatever comes next.
        printer.flush()?;
        Ok(sent)
    }

    /// Waits until all of it is carried out, and tells of each.
    async fn wait(
        &self,
        sent: &[Sent],
        limit: Duration,
        printer: &mut Printer<'_>,
    ) -> anyhow::Result<()> {
        let began = Instant::now();
        for (one, done) in sent.iter().zip(0..) {
            while !self.is_carried_out(one).await? {
                if began.elapsed() >= limit {
                    let limit_ms = i64::try_from(limit.as_millis()).unwrap_or(i64::MAX);
                    return Err(NoResult(format!(
                        "{done} of {} devices were erased within --wait-timeout, {}; the records \
                         stand in topic `{}`, and `tstar run` carries out the others",
                        sent.len(),
                        format_duration(limit_ms),
                        self.homes.topic
                    ))
                    .into());
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            self.job.report(one, State::Done, printer)?;
            printer.flush()?;
        }
        Ok(())
    }

    /// Whether a record stands among the forgets and its trips are gone: the one comes first.
    async fn is_carried_out(&self, sent: &Sent) -> Result<bool, StoreError> {
        let (device, before_ms) = (&sent.device, self.job.before_ms);
        let forgets = self.homes.store.forgets(device).await?;
        let is_noted = forgets.iter().any(|forget| match sent.version {
            Some(version) => forget.version == version,
            None => forget.before_ms >= before_ms,
        });
        if !is_noted {
            return Ok(false);
        }
        // Trips are disjoint: if the first one reaches past the time, none ended before it.
        let upto_ms = before_ms.saturating_sub(1);
        let first = self.homes.store.range(device, i64::MIN, upto_ms, Order::Asc, 1).await?.pop();
        Ok(first.is_none_or(|trip| trip.end_ms >= before_ms))
    }
}
