//! The cells of the table: what a fleet does, and what its trackers report.

use tstar_core::SegmentRules;

use super::plan::{MINUTE_MS, SECOND_MS};

/// What the vehicles of a fleet do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fleet {
    /// 80 to 120 stops a day, of 30 s to 4 min.
    Parcel,
    /// 6 to 12 visits a day, of 5 to 60 min.
    Service,
    /// 3 or 4 drives a day, of 1.5 to 3 h, by day or by night.
    LongHaul,
}

/// What ends a trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// The ignition, which the tracker reports.
    Ignition,
    /// Standing for 200 s: the tracker knows nothing of the ignition.
    Standing,
}

/// A cell of the table.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    pub fleet: Fleet,
    pub ends: Ends,
    /// How often a parked tracker sends a sample; `None`: never.
    pub heartbeat_ms: Option<i64>,
}

impl Cell {
    /// The 15 cells.
    pub fn all() -> Vec<Self> {
        let fleets = [
            (Fleet::Parcel, Ends::Ignition),
            (Fleet::Service, Ends::Ignition),
            (Fleet::LongHaul, Ends::Ignition),
            (Fleet::Service, Ends::Standing),
            (Fleet::LongHaul, Ends::Standing),
        ];
        let heartbeats = [None, Some(300 * SECOND_MS), Some(60 * SECOND_MS)];
        let cells = fleets.into_iter().flat_map(|(fleet, ends)| {
            heartbeats.map(|heartbeat_ms| Self { fleet, ends, heartbeat_ms })
        });
        cells.collect()
    }

    /// How often a tracker sends a sample while the vehicle drives.
    pub fn interval_ms(self) -> i64 {
        match self.fleet {
            Fleet::Parcel | Fleet::Service => 10 * SECOND_MS,
            Fleet::LongHaul => 30 * SECOND_MS,
        }
    }

    /// The rules that someone who knows the fleet would write.
    pub fn rules_by_hand(self) -> SegmentRules {
        let min_stop_ms = match self.ends {
            Ends::Ignition => None,
            Ends::Standing => Some(200 * SECOND_MS),
        };
        SegmentRules {
            max_gap_ms: 15 * MINUTE_MS,
            min_stop_ms,
            stop_speed_cmps: 160,
            ..SegmentRules::default()
        }
    }

    /// Its name in a table: fleet, end of trips, heartbeat.
    pub fn columns(self) -> String {
        let fleet = match self.fleet {
            Fleet::Parcel => "parcel",
            Fleet::Service => "service",
            Fleet::LongHaul => "long haul",
        };
        let ends = match self.ends {
            Ends::Ignition => "ignition",
            Ends::Standing => "standing",
        };
        let heartbeat = self.heartbeat_ms.map_or_else(
            || String::from("none"),
            |heartbeat_ms| format!("{} s", heartbeat_ms / SECOND_MS),
        );
        format!("{fleet} | {ends} | {heartbeat}")
    }
}
