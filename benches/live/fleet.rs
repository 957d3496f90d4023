//! The fleet: samples by the wall clock, sent to the topic.

use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use chrono::{DateTime, SecondsFormat, Utc};
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer as _, ThreadedProducer};

use crate::probe::Probe;

/// One in this number of samples is late.
const LATE: u64 = 20;

/// Maximum lateness, ms.
const MAX_LATE_MS: u64 = 600_000;

/// Time between two samples that probes look for.
const PROBE_EACH: Duration = Duration::from_secs(2);

/// Time between two batches of samples.
const TICK: Duration = Duration::from_millis(20);

/// Time limit for the last samples to arrive.
const FLUSH_LIMIT: Duration = Duration::from_secs(60);

/// What the fleet does.
#[derive(Clone, Copy, Debug)]
pub struct FleetConfig {
    /// Number of devices.
    pub devices: u32,
    /// Seconds between two samples of a device.
    pub period_s: u32,
    /// Time of samples before the start, s.
    pub history_s: u32,
}

/// A fleet that sends to a topic.
pub struct Fleet<'a> {
    config: FleetConfig,
    topic: &'a str,
    producer: ThreadedProducer<DefaultProducerContext>,
    /// State of the random numbers: the same in every run.
    random: u64,
}

impl<'a> Fleet<'a> {
    /// A fleet that has sent nothing.
    ///
    /// # Errors
    /// The client refuses its options.
    pub fn new(config: FleetConfig, brokers: &str, topic: &'a str) -> anyhow::Result<Self> {
        let producer = ClientConfig::new()
            .set("bootstrap.servers", brokers)
            .set("partitioner", "murmur2_random")
            .set("compression.type", "lz4")
            .set("linger.ms", "20")
            .create()
            .context("cannot create a producer")?;
        Ok(Self { config, topic, producer, random: 1 })
    }

    /// Sends the samples of the time before `now_ms`.
    ///
    /// # Errors
    /// A sample cannot be sent.
    pub fn send_history(&mut self, now_ms: i64) -> anyhow::Result<()> {
        let FleetConfig { devices, period_s, history_s } = self.config;
        for round in (1..=history_s / period_s).rev() {
            for device in 0..devices {
                let before_ms = i64::from(round) * i64::from(period_s) * 1000 - self.phase(device);
                self.send(device, now_ms - before_ms)?;
            }
        }
        Ok(self.producer.flush(FLUSH_LIMIT)?)
    }

    /// Time of a device's sample in each period, ms.
    fn phase(&self, device: u32) -> i64 {
        let period_ms = i64::from(self.config.period_s) * 1000;
        period_ms * i64::from(device) / i64::from(self.config.devices)
    }

    /// Sends live samples for a time; from `probed` on, passes some to the probes. Returns their
    /// number.
    ///
    /// # Errors
    /// A sample cannot be sent.
    pub fn send_live(
        &mut self,
        time: Duration,
        probed: Duration,
        probes: &[Sender<Probe>],
    ) -> anyhow::Result<u64> {
        let began = Instant::now();
        let (mut sent, mut next_probe) = (0_u64, probed);
        let devices = u64::from(self.config.devices);
        let rate = f64::from(self.config.devices) / f64::from(self.config.period_s);
        loop {
            let elapsed = began.elapsed().min(time);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
            let due = (elapsed.as_secs_f64() * rate) as u64;
            while sent < due {
                let device = u32::try_from(sent % devices)?;
                let now_ms = Utc::now().timestamp_millis();
                let is_late = self.random().is_multiple_of(LATE);
                let late_ms = if is_late { self.random() % MAX_LATE_MS } else { 0 };
                self.send(device, now_ms - i64::try_from(late_ms)?)?;
                sent += 1;
                if !is_late && elapsed >= next_probe {
                    next_probe = elapsed + PROBE_EACH;
                    let probe =
                        Probe { device: name(device), time_ms: now_ms, sent: Instant::now() };
                    for sender in probes {
                        // A probe that failed reports its error itself.
                        sender.send(probe.clone()).ok();
                    }
                }
            }
            if elapsed >= time {
                self.producer.flush(FLUSH_LIMIT)?;
                return Ok(sent);
            }
            std::thread::sleep(TICK);
        }
    }

    fn send(&mut self, device: u32, time_ms: i64) -> anyhow::Result<()> {
        let (key, time) = (name(device), text_time(time_ms));
        // A round of some kilometres in two hours.
        #[expect(clippy::cast_precision_loss, reason = "a position")]
        let angle = time_ms as f64 / 1_146_000.0 + f64::from(device);
        let (lat, lon) = (48.0 + angle.sin() * 0.1, 2.0 + angle.cos() * 0.1);
        let value = format!(
            "{{\"device_id\":\"{key}\",\"time\":\"{time}\",\"lat\":{lat:.6},\"lon\":{lon:.6},\
             \"speed\":12.5,\"heading\":{:.1}}}",
            self.random() % 360,
        );
        loop {
            let record = BaseRecord::to(self.topic).key(&key).payload(&value);
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => {
                    std::thread::sleep(TICK);
                }
                Err((error, _)) => return Err(error).context("a sample was not sent"),
            }
        }
    }

    /// A random number (splitmix64).
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

fn name(device: u32) -> String {
    format!("truck-{device}")
}

/// A time as trips print it.
pub fn text_time(time_ms: i64) -> String {
    let time = DateTime::<Utc>::from_timestamp_millis(time_ms).unwrap_or_default();
    time.to_rfc3339_opts(SecondsFormat::Millis, true)
}
