//! What stands out on a path: jumps, and samples that arrived late.

use std::cmp::Reverse;

use crate::model::time::format_time;
use crate::timeline::{Path, Sample, great_circle_m};

/// Maximum number of jumps, and of late parts.
const MAX_MARKS: usize = 1000;

/// Indices of the first and of the last sample of a part of a path.
pub(super) type Part = (usize, usize);

/// The jumps of a path with this number of them, in order of time; of more than 1000, the fastest.
/// They are its fastest legs: the limit of the rules is faster than all others.
pub(super) fn jumps(path: &Path, count: usize) -> Vec<Part> {
    if count == 0 {
        return Vec::new();
    }
    let mut before = *path.first();
    let speed = |(nth, sample): (usize, Sample)| {
        #[expect(clippy::cast_precision_loss, reason = "a leg stays far below 2^53 ms")]
        let duration_ms = (sample.time_ms - before.time_ms) as f64;
        let speed = great_circle_m(&before, &sample) / duration_ms;
        before = sample;
        (speed, nth)
    };
    let mut legs: Vec<(f64, usize)> = path.iter().enumerate().skip(1).map(speed).collect();
    legs.sort_by(|a, b| b.0.total_cmp(&a.0));
    let jumps = legs.into_iter().take(count.min(MAX_MARKS));
    sorted(jumps.map(|(_, nth)| (nth - 1, nth)).collect())
}

/// The late parts of a path, in order of time: runs of samples that arrived after a later one. Of
/// more than 1000, those of the most samples.
pub(super) fn late_parts(path: &Path) -> Vec<Part> {
    let versions: Vec<_> = path.iter().map(|sample| sample.version).collect();
    let mut parts: Vec<Part> = Vec::new();
    let mut least = versions[versions.len() - 1];
    for (nth, version) in versions.into_iter().enumerate().rev() {
        let is_late = version > least;
        least = least.min(version);
        match parts.last_mut() {
            Some((first, _)) if is_late && *first == nth + 1 => *first = nth,
            _ if is_late => parts.push((nth, nth)),
            _ => {}
        }
    }
    parts.sort_by_key(|(first, last)| Reverse(last - first));
    parts.truncate(MAX_MARKS);
    sorted(parts)
}

fn sorted(mut parts: Vec<Part>) -> Vec<Part> {
    parts.sort_unstable();
    parts
}

/// The device times of the ends of parts.
pub(super) fn times(path: &Path, parts: &[Part]) -> Vec<[String; 2]> {
    if parts.is_empty() {
        return Vec::new();
    }
    let times: Vec<_> = path.iter().map(|sample| sample.time_ms.ms()).collect();
    parts.iter().map(|&(first, last)| [first, last].map(|nth| format_time(times[nth]))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::scalar::{DeviceTime, Version};
    use crate::timeline::RawSample;

    /// A path of a sample each second on a line, as `(millidegrees, version)`.
    fn path(samples: &[(i32, i64)]) -> Path {
        let sample = |(second, &(millidegrees, version)): (i64, &(i32, i64))| {
            let (time_ms, lon) = (DeviceTime(second * 1000), f64::from(millidegrees) / 1e3);
            let raw = RawSample { time_ms, lat: 0.0, lon, ..RawSample::default() };
            Sample { version: Version(version), ..Sample::quantised(&raw).unwrap() }
        };
        Path::from_sorted((0..).zip(samples).map(sample)).unwrap()
    }

    #[test]
    fn jumps_are_the_fastest_legs() {
        let path = path(&[(0, 0), (1, 2), (90, 4), (91, 6), (5, 8), (6, 10)]);
        assert_eq!(jumps(&path, 0), []);
        assert_eq!(jumps(&path, 1), [(1, 2)]);
        assert_eq!(jumps(&path, 2), [(1, 2), (3, 4)]);
        let times = times(&path, &jumps(&path, 1));
        assert_eq!(times, [["1970-01-01T00:00:01.000Z", "1970-01-01T00:00:02.000Z"]]);
    }

    #[test]
    fn late_samples_arrived_after_a_later_one() {
        let late = |versions: &[i64]| {
            let samples: Vec<_> = versions.iter().map(|version| (0, *version)).collect();
            late_parts(&path(&samples))
        };
        assert_eq!(late(&[2]), []);
        assert_eq!(late(&[2, 4, 6]), []);
        assert_eq!(late(&[2, 2, 2]), [], "those of one record");
        assert_eq!(late(&[4, 6, 8, 0, 2]), [(0, 2)]);
        assert_eq!(late(&[0, 9, 2, 8, 8, 4, 6]), [(1, 1), (3, 4)]);
    }

    #[test]
    fn of_many_late_parts_the_longest_count() {
        let mut samples: Vec<_> = (0..4000).map(|nth| (nth, i64::from(nth ^ 1))).collect();
        samples.extend([(4000, 5001), (4001, 5002), (4002, 5000)]);
        let parts = late_parts(&path(&samples));
        assert_eq!(parts.len(), MAX_MARKS);
        assert!(parts.contains(&(4000, 4001)) && parts.is_sorted());
    }
}
