//! Finds the unit of reported speeds by the speed along the track.

use super::LogHistogram;
use crate::model::rules::SpeedUnit;

/// Number of legs that the unit of speeds is derived from though some of them disagree.
pub(crate) const MIN_SPEED_LEGS: u64 = 20;

/// Number of legs that are enough if all of them agree.
const MIN_AGREEING_LEGS: u64 = 4;

/// Ratio between factors that agree with each other.
const AGREEMENT: f64 = 1.15;

/// How reported speeds compare with the speed along the track.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SpeedFactor {
    /// Median of the reported speed, as it was read, divided by the speed along the track.
    pub factor: f64,
    /// Number of legs compared.
    pub legs: u64,
    /// Number of legs whose factor is near the median.
    pub agreeing: u64,
}

impl SpeedFactor {
    /// The factor of these legs; `None` if there are too few, or if they disagree.
    #[must_use]
    pub(crate) fn new(factors: &LogHistogram) -> Option<Self> {
        let legs = factors.count();
        let factor = factors.median()?;
        let agreeing = factors.count_between(factor / AGREEMENT, factor * AGREEMENT);
        let is_enough = match legs {
            MIN_SPEED_LEGS.. => agreeing * 2 >= legs,
            _ => legs >= MIN_AGREEING_LEGS && agreeing == legs,
        };
        is_enough.then_some(Self { factor, legs, agreeing })
    }
}

/// The units, with the number of each in 1 m/s.
const UNITS: [(SpeedUnit, f64); 4] = [
    (SpeedUnit::MetresPerSecond, 1.0),
    (SpeedUnit::KilometresPerHour, 3.6),
    (SpeedUnit::MilesPerHour, 3600.0 / 1609.344),
    (SpeedUnit::Knots, 3600.0 / 1852.0),
];

/// Ratio up to which a factor is that of a unit; miles per hour and knots are 1.15 apart.
const TOLERANCE: f64 = 1.07;

/// The unit of speeds that were read as `unit` and are `factor` times the speed along the track;
/// `None` if no unit explains the factor.
#[must_use]
pub(crate) fn unit_of_factor(factor: f64, unit: SpeedUnit) -> Option<SpeedUnit> {
    let read_as = UNITS.iter().find(|(it, _)| *it == unit).map(|(_, per_mps)| per_mps)?;
    let distance = |per_mps: f64| (factor * read_as / per_mps).max(per_mps / (factor * read_as));
    let nearest = UNITS.iter().min_by(|a, b| distance(a.1).total_cmp(&distance(b.1)))?;
    (distance(nearest.1) <= TOLERANCE).then_some(nearest.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use SpeedUnit::{KilometresPerHour, Knots, MetresPerSecond, MilesPerHour};

    #[test]
    fn a_factor_names_the_unit() {
        for (factor, read_as, unit) in [
            (1.02, MetresPerSecond, Some(MetresPerSecond)),
            (3.6, MetresPerSecond, Some(KilometresPerHour)),
            (1.94, MetresPerSecond, Some(Knots)),
            (2.24, MetresPerSecond, Some(MilesPerHour)),
            (2.3, MetresPerSecond, Some(MilesPerHour)),
            (1.0 / 3.6, KilometresPerHour, Some(MetresPerSecond)),
            (0.54, KilometresPerHour, Some(Knots)),
            (0.514, Knots, Some(MetresPerSecond)),
            (1.85, Knots, Some(KilometresPerHour)),
            (0.447, MilesPerHour, Some(MetresPerSecond)),
            (1.4, MetresPerSecond, None),
            (10.0, MetresPerSecond, None),
            (0.5, MetresPerSecond, None),
        ] {
            assert_eq!(unit_of_factor(factor, read_as), unit, "{factor} of {read_as:?}");
        }
    }
}
