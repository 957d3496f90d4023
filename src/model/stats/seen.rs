//! Samples that are collected, so that their statistics do not depend on the order of arrival.

use std::collections::HashMap;

use super::SampleStats;
use crate::model::sample::Sample;

/// Samples with their devices.
#[derive(Debug, Default)]
pub(crate) struct SeenSamples {
    /// The devices, in the order of their first samples.
    devices: Vec<Box<str>>,
    /// The index of each device.
    indexes: HashMap<Box<str>, u32>,
    /// The samples, each with the index of its device, in arrival order until they are sorted.
    samples: Vec<(u32, Sample)>,
}

impl SeenSamples {
    /// Adds a sample of a device.
    pub(crate) fn push(&mut self, device: &str, sample: Sample) {
        let index = match self.indexes.get(device) {
            Some(index) => *index,
            None => {
                let index = u32::try_from(self.devices.len()).expect("callers stop long before");
                self.devices.push(device.into());
                self.indexes.insert(device.into(), index);
                index
            }
        };
        self.samples.push((index, sample));
    }

    /// Number of samples.
    pub(crate) fn len(&self) -> usize {
        self.samples.len()
    }

    /// The samples, each with its device.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Sample)> {
        self.samples.iter().map(|(index, sample)| (&*self.devices[*index as usize], sample))
    }

    /// Sorts the samples of each device by time, and measures what lies between neighbours: trips
    /// do not depend on the order of arrival either.
    pub(crate) fn stats(&mut self) -> SampleStats {
        // Of equal times, the first to arrive stays first.
        self.samples.sort_by_key(|(index, sample)| (*index, sample.time_ms));
        let mut stats = SampleStats::default();
        self.iter().for_each(|(device, sample)| stats.observe(device, sample));
        stats
    }
}
