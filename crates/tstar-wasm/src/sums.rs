//! Sums of trips and stops over a span, as tstar's summaries have them.

use serde::Serialize;
use tstar_core::segment::Kind;
use tstar_core::timeline::{LegFilter, ReadingKind, parts};
use tstar_core::{DeviceTime, Segment};

use crate::error::CallError;

/// Sums over trips and stops.
#[derive(Default)]
pub(crate) struct Sums {
    trips: u64,
    distance_dm: i64,
    duration_ms: i64,
    moving_ms: i64,
    idle_ms: i64,
    standing_ms: i64,
    parked_ms: i64,
}

/// Sums in the units of tstar's HTTP API.
#[derive(Serialize)]
struct SumsJson {
    trips: u64,
    distance_m: f64,
    duration_s: f64,
    moving_s: f64,
    idle_s: f64,
    standing_s: f64,
    parked_s: f64,
}

impl Sums {
    /// Adds the part of a segment that lies within a span, both ends inclusive.
    pub(crate) fn add(
        &mut self,
        segment: &Segment,
        legs: LegFilter,
        (from_ms, upto_ms): (DeviceTime, DeviceTime),
    ) {
        let (start_ms, end_ms) = (segment.start_ms(), segment.end_ms());
        if start_ms > upto_ms || end_ms < from_ms {
            return;
        }
        let cuts = [from_ms, upto_ms.saturating_add(1)];
        let parts = parts(segment.path(), &cuts, legs);
        let [_, part, _] = &parts[..] else { return };
        // Without a speed, nothing says that it moves.
        let has_speed = segment
            .path()
            .iter()
            .any(|it| it.readings()[ReadingKind::Speed as usize].get().is_some());
        self.parked_ms += part.parked_ms();
        match segment.outline().kind {
            Kind::Trip => {
                self.trips += u64::from(start_ms >= from_ms);
                self.distance_dm += part.distance_dm;
                self.duration_ms += part.duration_ms();
                if has_speed {
                    self.moving_ms += part.moving_ms();
                    self.idle_ms += part.idle_ms();
                }
            }
            Kind::Stop => self.standing_ms += part.duration_ms() - part.parked_ms(),
        }
    }

    /// The sums as JSON.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    pub(crate) fn to_json(&self) -> Result<Vec<u8>, CallError> {
        let seconds = |ms: i64| ms as f64 / 1e3;
        let json = SumsJson {
            trips: self.trips,
            distance_m: self.distance_dm as f64 / 10.0,
            duration_s: seconds(self.duration_ms),
            moving_s: seconds(self.moving_ms),
            idle_s: seconds(self.idle_ms),
            standing_s: seconds(self.standing_ms),
            parked_s: seconds(self.parked_ms),
        };
        serde_json::to_vec(&json).map_err(|error| CallError::input("sums", error))
    }
}
