//! The rules that `tstar inspect` proposes for a fleet.

use tstar_core::advice::{Advice, RuleAdvice, SampleSet};
use tstar_core::{Sample, SegmentRules};

use crate::cell::Cell;
use crate::vehicles;

/// How many records `inspect` looks at.
const RECORDS: usize = 10_000;

/// The rules by the first samples of all vehicles that arrive.
pub fn rules(cell: Cell, nth_cell: u64) -> SegmentRules {
    let mut arrivals: Vec<(i64, u64, Sample)> = Vec::new();
    for (vehicle, nth) in vehicles(cell, nth_cell).zip(0..) {
        let samples = vehicle.arrivals_ms.into_iter().zip(vehicle.samples);
        arrivals.extend(samples.map(|(arrival_ms, sample)| (arrival_ms, nth, sample)));
    }
    arrivals.sort_by_key(|(arrival_ms, ..)| *arrival_ms);
    let first = arrivals.into_iter().take(RECORDS);
    let samples = SampleSet::new(first.map(|(_, nth, sample)| (nth, sample)));
    let advice = Advice::new(&samples);
    println!("{}:", cell.columns());
    for RuleAdvice { rule, value, why } in &advice.advised {
        println!("  {rule} {value}: {why}");
    }
    advice.rules
}
