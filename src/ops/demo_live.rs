//! The fleet of the demo drives on while its page is served: late bursts join and split trips under
//! the eyes of who watches.

use std::fmt;
use std::io;
use std::time::Duration;

use anyhow::Context as _;
use tokio::time::Instant;

use super::demo::{FLEET, FLEET_MS, is_split_off};
use super::serve::sink_of_file;
use crate::identity::TripId;
use crate::log::append::{IngestError, Records, SampleSink};
use crate::model::scalar::{DeviceTime, Version};
use crate::segment::Arrival;
use crate::settings::Settings;
use crate::simulate::{Content, Event, Fleet, FleetError};
use crate::store::{AnyStore, Kinds, Order, TripRow, TripStore};

/// How far the fleet is behind the clock when its page opens, ms: less than what counts as silent.
/// It catches up within a minute, in which late bursts come as often as in five.
const BEHIND_MS: i64 = 4 * 60_000;

/// How many times as fast as the clock it catches up.
const HURRY: i64 = 5;

/// How far a split trip may reach, ms: its parts are looked for so far around the late sample.
const REACH_MS: i64 = 12 * 3_600_000;

/// The fleet of the demo, which is at the end of its samples shortly before a time.
///
/// # Errors
/// None can meet its settings.
pub(crate) fn fleet_until(now_ms: DeviceTime) -> Result<Fleet, FleetError> {
    let start_ms = now_ms.ms() - BEHIND_MS - FLEET_MS;
    Fleet::town(&FLEET, DeviceTime(start_ms - start_ms.rem_euclid(60_000)))
}

/// What a late sample has done to a trip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DemoNews {
    /// It has joined two trips.
    Merged {
        /// The id that names both.
        id: String,
        /// The id that was retired.
        retired: String,
    },
    /// It has split one.
    Split {
        /// The id that the part with its first samples has kept.
        kept: String,
        /// The id of the part after it.
        new: String,
    },
}

impl fmt::Display for DemoNews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Merged { id, retired } => write!(
                f,
                "late samples have joined two trips: {retired} is retired, and still finds {id}"
            ),
            Self::Split { kept, new } => write!(
                f,
                "a late sample has split a trip: {kept} has kept its id, the part after it is {new}"
            ),
        }
    }
}

/// A line that has not arrived yet.
struct Next {
    event: Event,
    arrives_ms: DeviceTime,
}

/// A fleet that drives on.
pub(crate) struct LiveFleet {
    fleet: Fleet,
    next: Option<Next>,
    store: AnyStore,
    sink: SampleSink,
    /// When it began to drive on, and the time of the fleet then.
    began: (Instant, DeviceTime),
}

impl LiveFleet {
    /// Drives on into a store of files.
    ///
    /// # Errors
    /// The store is not one of files.
    pub(crate) fn new(fleet: Fleet, store: AnyStore, settings: &Settings) -> anyhow::Result<Self> {
        let sink = sink_of_file(&store, settings)?;
        let sink = sink.context("the store of the demo is not a file")?;
        let began = (Instant::now(), fleet.arrived_ms());
        Ok(Self { fleet, next: None, store, sink, began })
    }

    /// Sends what arrives in a second, after it; returns what that has done to trips.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub(crate) async fn drive(&mut self, now_ms: DeviceTime) -> anyhow::Result<Vec<DemoNews>> {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let sent = self.arrivals(reached_ms(self.began.1, self.began.0.elapsed(), now_ms));
        let mut lines = Vec::new();
        sent.iter().try_for_each(|event| event.write_line(&mut lines))?;
        if sent.is_empty() {
            return Ok(Vec::new());
        }
        let records = || Records::from_body(lines.clone()).map_err(io::Error::other);
        let results = loop {
            match self.sink.ingest(records()?).await {
                // Another command writes to the store.
                Err(IngestError::Busy) => tokio::time::sleep(Duration::from_secs(1)).await,
                results => break results?,
            }
        };
        let mut news = Vec::new();
        for (event, result) in sent.iter().zip(results) {
            let Content::Good { sample, .. } = &event.content else { continue };
            let place = (event.device_id(), sample.time_ms);
            // A stop that turns into a trip may join those on both sides.
            let joins = [Arrival::Merge.name(), Arrival::Turn.name()];
            if joins.contains(&result.status()) {
                news.extend(self.merged(place, sent.len()).await?);
            } else if result.status() == Arrival::Split.name() {
                news.extend(self.split(place).await?);
            }
        }
        Ok(news)
    }

    /// The lines that arrive up to a time.
    fn arrivals(&mut self, upto_ms: DeviceTime) -> Vec<Event> {
        let mut arrived = Vec::new();
        loop {
            let next = self.next.take().or_else(|| {
                let event = self.fleet.next()?;
                Some(Next { event, arrives_ms: self.fleet.arrived_ms() })
            });
            match next {
                Some(Next { event, arrives_ms }) if arrives_ms <= upto_ms => arrived.push(event),
                later => {
                    self.next = later;
                    return arrived;
                }
            }
        }
    }

    /// The merge by a sample of the last records; `None` if no trip has retired an id with them.
    async fn merged(
        &self,
        at: (String, DeviceTime),
        records: usize,
    ) -> anyhow::Result<Option<DemoNews>> {
        let found = self.store.covering(&at.0, at.1).await?;
        let Some(row) = found.filter(|row| Kinds::Trips.has(row.kind)) else { return Ok(None) };
        let last = row.absorbed().max_by_key(|(_, version)| *version);
        // A record has two versions.
        let is_new = |(_, version): &(DeviceTime, Version)| {
            row.version - *version <= 2 * i64::try_from(records).unwrap_or(i64::MAX / 2)
        };
        let Some((retired_ms, _)) = last.filter(is_new) else { return Ok(None) };
        let (id, retired) = (text(&row, row.t_star_ms)?, text(&row, retired_ms)?);
        Ok(Some(DemoNews::Merged { id, retired }))
    }

    /// The split of a trip by a sample; `None` if it has divided a stop.
    async fn split(
        &self,
        (device, time_ms): (String, DeviceTime),
    ) -> anyhow::Result<Option<DemoNews>> {
        let span = (time_ms - REACH_MS, time_ms + REACH_MS);
        let range = self.store.range(&device, Kinds::Trips, span.0, span.1, Order::Asc, usize::MAX);
        for pair in range.await?.windows(2) {
            let is_between = pair[0].end_ms <= time_ms && time_ms <= pair[1].start_ms;
            if is_between && is_split_off(&pair[1])? {
                let kept = text(&pair[0], pair[0].t_star_ms)?;
                let new = text(&pair[1], pair[1].t_star_ms)?;
                return Ok(Some(DemoNews::Split { kept, new }));
            }
        }
        Ok(None)
    }
}

/// The text id of a trip of the row's device.
fn text(row: &TripRow, t_star_ms: DeviceTime) -> anyhow::Result<String> {
    Ok(TripId::new(row.device_id.as_str(), t_star_ms)?.text()?)
}

/// The time of the fleet after it drove on for so long: it hurries until it has reached the clock.
fn reached_ms(began_ms: DeviceTime, driven: Duration, now_ms: DeviceTime) -> DeviceTime {
    let driven_ms = i64::try_from(driven.as_millis()).unwrap_or(i64::MAX);
    now_ms.min(began_ms + driven_ms.saturating_mul(HURRY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_hurries_until_it_has_reached_the_clock() {
        let now = |driven_s: i64| DeviceTime(1_795_132_800_000 + driven_s * 1000);
        let began_ms = now(0) - BEHIND_MS;
        let reached = |s: u64| reached_ms(began_ms, Duration::from_secs(s), now(s as i64));
        assert_eq!(reached(0), began_ms);
        assert_eq!(reached(10) - began_ms, 50_000);
        assert!(reached(59) < now(59));
        assert_eq!((reached(60), reached(600)), (now(60), now(600)));
    }

    #[test]
    fn the_fleet_ends_at_the_time_that_it_is_asked_for() {
        let now_ms = DeviceTime(1_795_132_812_345);
        let mut fleet = fleet_until(now_ms).unwrap();
        let began_ms = fleet.arrived_ms();
        fleet.by_ref().take(FLEET.samples as usize).for_each(drop);
        assert_eq!(fleet.arrived_ms() - began_ms, FLEET_MS);
        let behind_ms = now_ms - fleet.arrived_ms() - BEHIND_MS;
        assert!((0..60_000).contains(&behind_ms), "{behind_ms}");
    }
}
