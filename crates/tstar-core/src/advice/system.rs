//! Rules that other systems use.

use crate::model::limits::SegmentRules;
use crate::model::named::named;

named! {
    /// A system whose rules are known.
    System {
        /// A trip ends where the ignition goes off, or below 1 km/h for 200 s.
        Geotab = "geotab",
        /// A trip ends where the vehicle is parked for 300 s, or after 3,600 s without data.
        Traccar = "traccar",
    }
}

/// An hour, ms.
const HOUR_MS: i64 = 3_600_000;

impl System {
    /// Its rules, as close as rules of trips come.
    #[must_use]
    pub fn rules(self) -> SegmentRules {
        let (max_gap_ms, min_stop_ms, stop_speed_cmps) = match self {
            // Silence ends no trip there. 1 km/h is 27.8 cm/s.
            Self::Geotab => (HOUR_MS, 200_000, 28),
            // Motion begins above 0.01 knots.
            Self::Traccar => (HOUR_MS, 300_000, 1),
        };
        let min_stop_ms = Some(min_stop_ms);
        SegmentRules { max_gap_ms, min_stop_ms, stop_speed_cmps, ..SegmentRules::default() }
    }
}
