//! One device: its current trip, and the next arrival of a given kind.
//!
//! A trip is a line of points, some seconds apart. Its first arrival is in the middle; from there
//! ends and beginnings move outward and now and then skip a few points, which arrive later, inside.
//! A merge takes two arrivals: a point more than `max_gap` after the end, which starts a new trip,
//! and some arrivals later a point between the two.

use super::Ledger;
use super::route::Drive;
use crate::model::reason::DeadReason;
use crate::model::scalar::DeviceTime;
use crate::segment::SegmentRules;
use crate::simulate::START_MS;
use crate::simulate::line::{Content, DRIVERS, Event};
use crate::simulate::random::Random;
use crate::timeline::Sample;

/// Maximum skipped points per device; further ones are never sent.
const MAX_SKIPPED: usize = 64;

/// A growing trip skips more points while fewer than this are available.
const ENOUGH_SKIPPED: usize = 8;

/// Maximum device time over skipped points, ms; well below `max_gap`.
const MAX_SKIP_MS: i64 = 120_000;

/// Maximum span of a trip, ms.
const MAX_SPAN_MS: i64 = 12 * 3_600_000;

/// Minimum and maximum samples of a trip.
const TRIP_SAMPLES: (i64, i64) = (30, 600);

/// Share of duplicates.
const DUPLICATES: f64 = 0.005;

/// The arrival kinds of a mix, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Extends the end.
    End,
    /// Falls inside.
    Inside,
    /// Extends the start.
    Beginning,
    /// Merges two trips.
    Merge,
}

impl Kind {
    const ALL: [Self; 4] = [Self::End, Self::Inside, Self::Beginning, Self::Merge];
}

/// A trip after the end of the current one, which a merge will join to it.
#[derive(Clone, Copy, Debug)]
struct Satellite {
    point: i64,
    /// Arrivals until the bridging sample.
    wait: u64,
}

/// A growing trip. Points are numbered from `base_ms`; point 0 is the earliest that it may have.
#[derive(Debug)]
struct Trip {
    base_ms: DeviceTime,
    step_ms: i64,
    first: i64,
    last: i64,
    sent: i64,
    wanted: i64,
    driver: Option<&'static str>,
    satellite: Option<Satellite>,
}

impl Trip {
    fn time_ms(&self, point: i64) -> DeviceTime {
        // Jitter of a real clock: up to a quarter second late, a function of the point alone.
        let jitter = point.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64.cast_signed()).cast_unsigned();
        self.base_ms + point * self.step_ms + (jitter >> 56).cast_signed()
    }

    fn is_full(&self) -> bool {
        self.sent >= self.wanted || (self.last - self.first) * self.step_ms > MAX_SPAN_MS
    }
}

/// A device of the fleet.
#[derive(Debug)]
pub(crate) struct Device {
    number: u32,
    drive: Drive,
    trip: Option<Trip>,
    /// Points inside the trip that have not arrived yet.
    skipped: Vec<i64>,
    latest: Option<(Sample, Option<&'static str>)>,
}

impl Device {
    /// The device of this number, from 0.
    pub(crate) fn new(device: u32, random: &mut Random) -> Self {
        let drive = Drive::new(device, random);
        Self { number: device + 1, drive, trip: None, skipped: Vec::new(), latest: None }
    }

    /// The next arrival.
    pub(super) fn next(&mut self, ledger: &mut Ledger, random: &mut Random) -> Event {
        if let Some((mut sample, driver)) = self.latest
            && random.unit() < DUPLICATES
        {
            if random.below(3) == 0 {
                sample.lat_e7 += 500;
            }
            return self.event(sample, driver);
        }
        let point = match &mut self.trip {
            None => self.begin_trip(ledger, random),
            Some(Trip { satellite: Some(Satellite { wait: 0, .. }), .. }) => self.bridge(random),
            Some(trip) => {
                if let Some(satellite) = &mut trip.satellite {
                    satellite.wait -= 1;
                }
                self.grow(ledger, random)
            }
        };
        let trip = self.trip.as_mut().expect("a trip was started above");
        trip.sent += 1;
        let (sample, driver) = (self.drive.at(trip.time_ms(point)), trip.driver);
        self.latest = Some((sample, driver));
        self.event(sample, driver)
    }

    fn event(&self, sample: Sample, driver: Option<&'static str>) -> Event {
        Event { vehicle: "truck", device: self.number, content: Content::Good { sample, driver } }
    }

    /// A malformed line in place of the next arrival.
    pub(crate) fn malformed(&self, reason: DeadReason, random: &mut Random) -> Event {
        let sample = self.latest.map_or_else(|| self.drive.at(START_MS), |(sample, _)| sample);
        Event::malformed("truck", self.number, (reason, &sample), random)
    }

    /// Starts a trip after the former one, in its middle: earlier points are left for beginnings.
    fn begin_trip(&mut self, ledger: &Ledger, random: &mut Random) -> i64 {
        let max_gap_ms = SegmentRules::default().max_gap_ms;
        let after_ms = self.trip.as_ref().map_or(START_MS, |trip| trip.time_ms(trip.last));
        let base_ms = after_ms + max_gap_ms + random.between(60_000, 2_400_000);
        let wanted = random.between(TRIP_SAMPLES.0, TRIP_SAMPLES.1);
        let [end, _, beginning, _] = ledger.mix;
        let share = if beginning > 0.0 { beginning / (end + beginning) } else { 0.0 };
        #[expect(clippy::cast_precision_loss, reason = "at most 600")]
        let earlier = wanted as f64 * share * (0.8 + 0.6 * random.unit());
        #[expect(clippy::cast_possible_truncation, reason = "at most 1.4 times 600")]
        let first = if share > 0.0 { 2 + earlier as i64 } else { 0 };
        // Two of three devices name a driver, who may change from trip to trip.
        let shift = random.index(2);
        let driver = (!self.number.is_multiple_of(3))
            .then(|| DRIVERS[(self.number as usize + shift) % DRIVERS.len()]);
        let step_ms = 1_000 * random.between(1, 10);
        self.skipped.clear();
        self.trip = Some(Trip {
            base_ms,
            step_ms,
            first,
            last: first,
            sent: 0,
            wanted,
            driver,
            satellite: None,
        });
        first
    }

    /// Draws the kind that the mix lacks; if it is impossible now, one that prepares it.
    fn grow(&mut self, ledger: &mut Ledger, random: &mut Random) -> i64 {
        let drawn = random.weighted(ledger.missing()).or_else(|| random.weighted(ledger.mix));
        let trip = self.trip.as_ref().expect("a trip was started");
        let joins = trip.satellite.is_some();
        match Kind::ALL[drawn.expect("a mix has a weight that is not 0")] {
            Kind::Inside if !self.skipped.is_empty() => {
                ledger.sent[Kind::Inside as usize] += 1;
                self.skipped.swap_remove(random.index(self.skipped.len()))
            }
            Kind::Merge if !joins && !trip.is_full() => {
                ledger.sent[Kind::Merge as usize] += 1;
                self.begin_satellite(random)
            }
            Kind::Beginning if trip.first > 0 => self.begin_earlier(ledger, random),
            // No skipped points yet: the trip has to grow on the side that the mix allows.
            Kind::Inside if ledger.mix[Kind::End as usize] == 0.0 && trip.first > 0 => {
                self.begin_earlier(ledger, random)
            }
            _ if joins => match self.end_later(ledger, random) {
                Some(point) => point,
                None => self.bridge(random),
            },
            Kind::Beginning if trip.sent >= TRIP_SAMPLES.0 => self.begin_trip(ledger, random),
            _ if trip.is_full() => self.begin_trip(ledger, random),
            _ => self.end_later(ledger, random).expect("no satellite limits the end"),
        }
    }

    /// Number of points to skip, so that later arrivals can be inside.
    fn skip(&self, ledger: &Ledger, random: &mut Random) -> i64 {
        let [end, inside, beginning, _] = ledger.mix;
        if inside == 0.0 || self.skipped.len() >= ENOUGH_SKIPPED {
            return 0;
        }
        let step_ms = self.trip.as_ref().map_or(1_000, |trip| trip.step_ms);
        let max = MAX_SKIP_MS / step_ms - 1;
        #[expect(clippy::cast_precision_loss, reason = "at most 119")]
        let wanted = (2.0 * inside / (end + beginning) + 1.0).min(max as f64);
        #[expect(clippy::cast_possible_truncation, reason = "at most 119; infinite becomes that")]
        random.between(0, wanted as i64)
    }

    fn begin_earlier(&mut self, ledger: &mut Ledger, random: &mut Random) -> i64 {
        let skip = self.skip(ledger, random);
        let trip = self.trip.as_mut().expect("a trip was started");
        let point = (trip.first - 1 - skip).max(0);
        let skipped = point + 1..trip.first;
        trip.first = point;
        self.add_skipped(skipped);
        ledger.sent[Kind::Beginning as usize] += 1;
        point
    }

    /// The next end; `None` if it would come within `max_gap` of the satellite.
    fn end_later(&mut self, ledger: &mut Ledger, random: &mut Random) -> Option<i64> {
        let skip = self.skip(ledger, random);
        let trip = self.trip.as_mut().expect("a trip was started");
        let point = trip.last + 1 + skip;
        if let Some(satellite) = trip.satellite {
            let gap_ms = trip.time_ms(satellite.point) - trip.time_ms(point);
            if gap_ms <= SegmentRules::default().max_gap_ms {
                return None;
            }
        }
        let skipped = trip.last + 1..point;
        trip.last = point;
        self.add_skipped(skipped);
        ledger.sent[Kind::End as usize] += 1;
        Some(point)
    }

    /// Starts a new trip more than `max_gap` after the end, near enough for one sample to bridge.
    fn begin_satellite(&mut self, random: &mut Random) -> i64 {
        let trip = self.trip.as_mut().expect("a trip was started");
        let max_gap_ms = SegmentRules::default().max_gap_ms;
        let far = random.between(max_gap_ms * 6 / 5, max_gap_ms * 9 / 5) / trip.step_ms;
        let point = trip.last + far;
        trip.satellite = Some(Satellite { point, wait: random.below(8) + 2 });
        point
    }

    /// The sample that merges a trip and its satellite. The ledger already counts the merge.
    fn bridge(&mut self, random: &mut Random) -> i64 {
        let trip = self.trip.as_mut().expect("a trip was started");
        let satellite = trip.satellite.take().expect("the trip has a satellite");
        let middle = i64::midpoint(trip.last, satellite.point);
        // One point off the middle is still within `max_gap` of both.
        let point = middle + random.between(-1, 1);
        let (before, after) = (trip.last + 1..point, point + 1..satellite.point);
        trip.last = satellite.point;
        self.add_skipped(before);
        self.add_skipped(after);
        point
    }

    fn add_skipped(&mut self, points: std::ops::Range<i64>) {
        let free = MAX_SKIPPED - self.skipped.len();
        self.skipped.extend(points.take(free));
    }

    /// Number of skipped points.
    #[cfg(test)]
    pub(crate) fn skipped(&self) -> usize {
        self.skipped.len()
    }
}
