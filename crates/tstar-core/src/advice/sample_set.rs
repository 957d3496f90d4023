//! Samples of devices by time, in whatever order they arrived.

use std::collections::BTreeMap;

use crate::model::sample::Sample;

/// What fixes of a parked device do not scatter over, m.
const FAR_M: f64 = 1000.0;

/// Samples of devices: of each, by time, and one of each time.
#[derive(Clone, Debug, Default)]
pub struct SampleSet {
    devices: Vec<Vec<Sample>>,
}

impl SampleSet {
    /// The set of samples, which are in arrival order. Of a device and time, the first one counts.
    pub fn new<D: Ord>(samples: impl IntoIterator<Item = (D, Sample)>) -> Self {
        let mut devices: BTreeMap<D, Vec<Sample>> = BTreeMap::new();
        for (device, sample) in samples {
            devices.entry(device).or_default().push(sample);
        }
        let mut devices: Vec<_> = devices.into_values().collect();
        for samples in &mut devices {
            samples.sort_by_key(|sample| sample.time_ms);
            samples.dedup_by_key(|sample| sample.time_ms);
        }
        Self { devices }
    }

    /// The samples of each device.
    pub(super) fn devices(&self) -> impl Iterator<Item = &[Sample]> {
        self.devices.iter().map(Vec::as_slice)
    }

    /// All samples.
    pub fn iter(&self) -> impl Iterator<Item = &Sample> {
        self.devices.iter().flatten()
    }

    /// Number of devices whose samples are more than 1 km apart.
    #[must_use]
    pub fn travelling(&self) -> usize {
        let is_far = |samples: &&[Sample]| {
            let first = samples.first();
            first.is_some_and(|first| samples.iter().any(|it| first.flat_distance_m(it) > FAR_M))
        };
        self.devices().filter(is_far).count()
    }

    /// Number of samples.
    #[must_use]
    pub fn len(&self) -> usize {
        self.devices.iter().map(Vec::len).sum()
    }

    /// Whether there is no sample.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }
}
