//! Samples of very many devices in random order, so that most of them come from a device that has
//! sent nothing before.

use std::time::Duration;

use anyhow::Context as _;
use chrono::{DateTime, SecondsFormat};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore as _, SeedableRng as _};
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer as _, ThreadedProducer};

use crate::log::Log;

/// Device time of each device's first sample, ms.
const FIRST_MS: i64 = 1_767_225_600_000;

/// Time between two samples of a device, ms.
const PERIOD_MS: i64 = 10_000;

/// Pause before a full queue is tried again.
const PAUSE: Duration = Duration::from_millis(20);

/// Time limit for the last samples to arrive.
const FLUSH_LIMIT: Duration = Duration::from_secs(60);

/// Sends samples to a topic, each of a random device. Returns the number of devices that sent one.
///
/// # Errors
/// A sample cannot be sent.
pub fn send(topic: &Log, devices: u32, samples: u64) -> anyhow::Result<u64> {
    let producer: ThreadedProducer<DefaultProducerContext> = ClientConfig::new()
        .set("bootstrap.servers", &topic.brokers)
        .set("partitioner", "murmur2_random")
        .set("compression.type", "lz4")
        .set("linger.ms", "20")
        .create()
        .context("cannot create a producer")?;
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut sent = vec![0_u32; devices as usize];
    for _ in 0..samples {
        let device = random.next_u32() % devices;
        let nth = &mut sent[device as usize];
        let time_ms = FIRST_MS + i64::from(*nth) * PERIOD_MS;
        *nth += 1;
        let (key, value) = sample(device, time_ms);
        loop {
            let record = BaseRecord::to(&topic.topic).key(&key).payload(&value);
            match producer.send(record) {
                Ok(()) => break,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => {
                    std::thread::sleep(PAUSE);
                }
                Err((error, _)) => return Err(error).context("a sample was not sent"),
            }
        }
    }
    producer.flush(FLUSH_LIMIT)?;
    Ok(sent.iter().filter(|samples| **samples > 0).count() as u64)
}

/// Key and value of a sample: each device drives north from a place of its own.
fn sample(device: u32, time_ms: i64) -> (String, String) {
    let key = format!("truck-{device}");
    let time = DateTime::from_timestamp_millis(time_ms).unwrap_or_default();
    let time = time.to_rfc3339_opts(SecondsFormat::Millis, true);
    #[expect(clippy::cast_precision_loss, reason = "a position")]
    let north = (time_ms - FIRST_MS) as f64 / 1e8;
    let (lat, lon) = (45.0 + north, f64::from(device % 10_000) / 1000.0);
    let value = format!(
        "{{\"device_id\":\"{key}\",\"time\":\"{time}\",\"lat\":{lat:.6},\"lon\":{lon:.6},\
         \"speed\":12.5,\"heading\":0}}",
    );
    (key, value)
}
