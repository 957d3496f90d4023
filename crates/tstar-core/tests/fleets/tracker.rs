//! What the tracker of a vehicle sends of what the vehicle does, and when it arrives.
//!
//! A tracker that knows nothing of the ignition sends samples for 5 to 10 min after the vehicle
//! came to rest, so for longer than `min_stop`, before it sleeps or sends heartbeats. If it slept
//! sooner and sent none, the rules would count what it sent of the stop as the end of the trip.

use tstar_core::{DeviceTime, Reading, Sample};

use super::cell::{Cell, Ends};
use super::plan::{DAY_MS, HOUR_MS, MINUTE_MS, Piece, SECOND_MS, Trip, plan};
use super::random::Random;

/// Midnight of day 0: 2026-11-02T00:00:00Z.
const EPOCH_MS: i64 = 1_793_577_600_000;

/// First and last sample of a trip, ms since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub start_ms: i64,
    pub end_ms: i64,
}

impl Span {
    /// What it has in common with another one; its end is before its start if that is nothing.
    pub fn common(self, other: Self) -> Self {
        let start_ms = self.start_ms.max(other.start_ms);
        Self { start_ms, end_ms: self.end_ms.min(other.end_ms) }
    }

    /// How much of it lies in another one.
    pub fn within_ms(self, other: Self) -> i64 {
        let Self { start_ms, end_ms } = self.common(other);
        (end_ms - start_ms).max(0)
    }
}

/// A time at one speed during a trip.
#[derive(Clone, Copy, Debug)]
pub struct Driven {
    pub span: Span,
    /// 0: it waits.
    pub speed_cmps: i64,
}

impl Driven {
    /// How far it goes during a span, m.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    pub fn within_m(self, span: Span) -> f64 {
        (self.span.within_ms(span) * self.speed_cmps) as f64 / 1e5
    }
}

/// A vehicle whose trips are known.
pub struct Vehicle {
    /// The samples in the order of their arrival.
    pub samples: Vec<Sample>,
    /// When each arrives, ms since midnight of day 0.
    pub arrivals_ms: Vec<i64>,
    /// Its trips by time: from the first to the last sample that it sent of each. The sample of
    /// ignition on is of a trip; that of ignition off, and what is sent while it is parked, is not.
    pub truth: Vec<Span>,
    /// What it does during its trips, by time.
    pub driven: Vec<Driven>,
}

impl Vehicle {
    /// The `nth` vehicle of a cell, over some days.
    pub fn new(cell: Cell, seed: u64, nth: u64, days: i64) -> Self {
        let mut random = Random::new(seed);
        let trips = plan(&mut random, cell, nth, days);
        let awake_ms = random.between(5 * MINUTE_MS..=10 * MINUTE_MS);
        let mut tracker =
            Tracker { random, cell, awake_ms, position_cm: 0, sent: Vec::new(), truth: Vec::new() };
        tracker.follow(&trips, days * DAY_MS);
        tracker.sent.sort_by_key(|sent| (sent.arrival_ms, sent.sample.time_ms));
        let arrivals_ms = tracker.sent.iter().map(|sent| sent.arrival_ms).collect();
        let samples = tracker.sent.into_iter().map(|sent| sent.sample).collect();
        let pieces = trips.iter().flat_map(Trip::timed);
        let driven = pieces.map(|(start_ms, end_ms, Piece { speed_cmps, .. })| {
            let span = Span { start_ms: EPOCH_MS + start_ms, end_ms: EPOCH_MS + end_ms };
            Driven { span, speed_cmps }
        });
        Self { samples, arrivals_ms, truth: tracker.truth, driven: driven.collect() }
    }
}

struct SentSample {
    arrival_ms: i64,
    sample: Sample,
}

struct Tracker {
    random: Random,
    cell: Cell,
    /// How long it sends at its interval after the vehicle came to rest. Only where it knows
    /// nothing of the ignition: else it sleeps as soon as that is off.
    awake_ms: i64,
    /// Where the vehicle is on its road, which leads north.
    position_cm: i64,
    sent: Vec<SentSample>,
    truth: Vec<Span>,
}

impl Tracker {
    fn follow(&mut self, trips: &[Trip], until_ms: i64) {
        let mut parked_ms = 0;
        for (nth, trip) in trips.iter().enumerate() {
            self.park(parked_ms, trip.start_ms, nth > 0);
            // There and back again.
            self.drive(trip, if nth % 2 == 0 { 1 } else { -1 });
            parked_ms = trip.end_ms();
        }
        self.park(parked_ms, until_ms, true);
    }

    fn drive(&mut self, trip: &Trip, direction: i64) {
        let first = self.sent.len();
        let mut next_ms = trip.start_ms;
        if self.cell.ends == Ends::Ignition {
            self.send_ignition(trip.start_ms, true);
            next_ms += self.random.between(1..=self.cell.interval_ms());
        }
        let (mut piece_ms, origin_cm) = (trip.start_ms, self.position_cm);
        let mut driven_cm = 0;
        for piece in &trip.pieces {
            let end_ms = piece_ms + piece.duration_ms;
            while next_ms < end_ms {
                let since_ms = next_ms - piece_ms;
                let here_cm = driven_cm + piece.speed_cmps * since_ms / SECOND_MS;
                self.position_cm = origin_cm + direction * here_cm;
                let speed_cmps = self.random.jitter(piece.speed_cmps);
                let knows_ignition =
                    self.cell.ends == Ends::Ignition && !self.random.is_one_in(100);
                if !piece.is_tunnel {
                    self.send(next_ms, speed_cmps, knows_ignition.then_some(true));
                }
                next_ms += self.random.jitter(self.cell.interval_ms());
            }
            driven_cm += piece.speed_cmps * piece.duration_ms / SECOND_MS;
            piece_ms = end_ms;
        }
        self.position_cm = origin_cm + direction * driven_cm;
        let times = self.sent[first..].iter().map(|sent| sent.sample.time_ms.ms());
        let (start_ms, end_ms) = (times.clone().min(), times.max());
        let span = start_ms.zip(end_ms).map(|(start_ms, end_ms)| Span { start_ms, end_ms });
        self.truth.push(span.expect("a trip is longer than the interval"));
        if self.cell.ends == Ends::Ignition {
            self.send_ignition(trip.end_ms(), false);
        }
    }

    fn park(&mut self, from_ms: i64, until_ms: i64, is_awake: bool) {
        let mut next_ms = from_ms;
        let awake_ms = if self.cell.ends == Ends::Standing && is_awake { self.awake_ms } else { 0 };
        loop {
            let is_awake = next_ms - from_ms < awake_ms;
            let heartbeat_ms = self.cell.heartbeat_ms;
            let pause_ms = if is_awake { Some(self.cell.interval_ms()) } else { heartbeat_ms };
            let Some(pause_ms) = pause_ms else { break };
            next_ms += self.random.jitter(pause_ms);
            if next_ms >= until_ms {
                break;
            }
            let is_noisy = self.random.is_one_in(200);
            let speed_cmps = if is_noisy { self.random.between(30..=150) } else { 0 };
            let ignition = (self.cell.ends == Ends::Ignition).then_some(false);
            self.send(next_ms, speed_cmps, ignition);
        }
    }

    /// Sends a sample on the channel of locations.
    fn send(&mut self, time_ms: i64, speed_cmps: i64, ignition: Option<bool>) {
        let delay_ms = self.random.between(SECOND_MS..=5 * SECOND_MS);
        self.send_with(delay_ms, time_ms, speed_cmps, ignition);
    }

    /// Sends an event on the channel of events, which knows nothing of the other.
    fn send_ignition(&mut self, time_ms: i64, is_on: bool) {
        let delay_ms = self.random.between(SECOND_MS..=30 * SECOND_MS);
        self.send_with(delay_ms, time_ms, 0, Some(is_on));
    }

    fn send_with(&mut self, delay_ms: i64, time_ms: i64, speed_cmps: i64, ignition: Option<bool>) {
        let is_late = self.random.is_one_in(20);
        let delay_ms = if is_late { self.late_ms() } else { delay_ms };
        // 1 cm is 0.9e-7 degrees of latitude; a fix is off by at most 3 m.
        let noise = [(); 2].map(|()| self.random.between(-270..=270));
        let lat_e7 = 480_000_000 + self.position_cm * 9 / 10 + noise[0];
        let lon_e7 = 110_000_000 + noise[1];
        let quanta = |value: i64| i32::try_from(value).expect("it is on the road");
        let readings = [
            Reading::new(Some(quanta(speed_cmps))),
            Reading::ABSENT,
            Reading::ABSENT,
            Reading::ABSENT,
        ];
        let time = DeviceTime(EPOCH_MS + time_ms);
        let sample = Sample::new(time, (quanta(lat_e7), quanta(lon_e7)), readings);
        let sample = Sample { ignition, ..sample };
        self.sent.push(SentSample { arrival_ms: time_ms + delay_ms, sample });
    }

    /// A delay of a minute to eight hours, each factor of two as likely as the others.
    fn late_ms(&mut self) -> i64 {
        let doubled = self.random.between(0..=8);
        (self.random.between(MINUTE_MS..=2 * MINUTE_MS) << doubled).min(8 * HOUR_MS)
    }
}
