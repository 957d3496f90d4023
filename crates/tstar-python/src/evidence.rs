//! Evidence of trips: what is needed to check one without its frame or store.

use pyo3::prelude::*;
use tstar_core::evidence::{Evidence, EvidenceRecord, MAX_RECORDS, REACH_MS};
use tstar_core::identity::AnyId;
use tstar_core::{DeviceTime, Sample, Segment};

use crate::decided::State;
use crate::rules::chain;
use crate::wrong;

/// Whether a trip follows from its evidence. True if it does.
#[pyclass(frozen, get_all, module = "tstar")]
pub(crate) struct Verified {
    /// Whether the trip follows from its records and rules.
    follows: bool,
    /// How it differs from what follows: name of the fact, what the evidence says, what follows;
    /// the last two as JSON.
    differences: Vec<(String, String, String)>,
    /// Number of records.
    records: usize,
    /// Number of records that are kept samples of the trip.
    kept: usize,
    /// SHA-256 of the rules, in hex: `Rules.hash` of a frame or store with the same ones.
    rules_hash: String,
}

#[pymethods]
impl Verified {
    fn __bool__(&self) -> bool {
        self.follows
    }

    fn __repr__(&self) -> String {
        let Self { records, kept, differences, .. } = self;
        match self.follows {
            true => format!("<it follows from {records} records, of which {kept} are its samples>"),
            false => format!("<it does not follow: {} facts differ>", differences.len()),
        }
    }
}

/// Decides whether a trip follows from its evidence, which `Trips.evidence` and
/// `tstar explain --evidence` write.
///
/// Only the records in it are known: one that was left out may have made another trip.
#[pyfunction]
pub(crate) fn verify(py: Python<'_>, evidence: &str) -> PyResult<Verified> {
    let verified = py.detach(|| Evidence::from_json(evidence).and_then(|it| it.verify()));
    let verified = verified.map_err(|error| wrong(chain(&error)))?;
    let differences = verified.differences.iter();
    let differences =
        differences.map(|it| (it.fact.clone(), it.said.to_string(), it.follows.to_string()));
    Ok(Verified {
        follows: verified.follows(),
        differences: differences.collect(),
        records: verified.records,
        kept: verified.kept,
        rules_hash: verified.rules_hash,
    })
}

impl State {
    /// The evidence of the trip or stop with an id, as JSON.
    ///
    /// # Errors
    /// The id is not valid, nothing has it, it has more records than can be verified, or not all
    /// of them were read.
    pub(crate) fn evidence(&self, id: &str) -> PyResult<String> {
        if self.is_span {
            return Err(wrong(
                "evidence needs all samples of its device within two days of a trip, and since= or \
                 until= may have left some out: read the store without them, with device=",
            ));
        }
        let AnyId::Trip(parsed) = AnyId::parse(id).map_err(wrong)? else {
            let message =
                format!("{id} has only a hash of the device; give the id in another form");
            return Err(wrong(message));
        };
        let timeline = self.device(&parsed.device_id);
        let trip = timeline.and_then(|timeline| timeline.covering(parsed.t_star_ms));
        let (Some(timeline), Some(trip)) = (timeline, trip) else {
            return Err(wrong(format!("there is no trip or stop {id}")));
        };
        let (from_ms, upto_ms) = (trip.start_ms() - REACH_MS, trip.end_ms() + REACH_MS);
        let is_near = |it: &&Segment| it.end_ms() >= from_ms && it.start_ms() <= upto_ms;
        let mut samples: Vec<(Sample, Option<&str>)> = Vec::new();
        for segment in timeline.segments().filter(is_near) {
            let path = segment.path();
            samples.extend(path.iter().map(|sample| (sample, path.driver_at(sample.time_ms))));
        }
        let is_near = |time_ms: DeviceTime| (from_ms..=upto_ms).contains(&time_ms);
        samples.retain(|(it, _)| is_near(it.time_ms) && it.version <= trip.version());
        if samples.len() > MAX_RECORDS {
            return Err(wrong(format!(
                "the evidence of {id} would have {} records, those of its device within two days \
                 of it, and verify reads at most {MAX_RECORDS}; decide the trips of fewer samples",
                samples.len()
            )));
        }
        samples.sort_by_key(|(sample, _)| sample.version);
        let records = samples.iter();
        let records = records.map(|(it, driver)| EvidenceRecord::of_sample(it, *driver, None));
        let row = self.fleet.row(&parsed.device_id, trip);
        Ok(Evidence::new(&self.rules.0, &row, records.collect()).to_json())
    }
}
