//! The hour that clocks repeat in autumn, by the order of the records of a file.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::text::short;

/// Maximum number of devices with times in such an hour.
const MAX_DEVICES: usize = 100_000;

/// What a file has in repeated hours.
#[derive(Debug, Default)]
pub struct RepeatedHours {
    /// The latest time of each device, ms since 1970.
    latest: Mutex<HashMap<Box<str>, i64>>,
    /// Number of times before the latest one of their device.
    late: AtomicU64,
}

impl RepeatedHours {
    /// The one of two times that is nearer to the latest time of the device, or the first one if it
    /// had none. So one late row moves no row after it: what it is off, it is off alone.
    ///
    /// # Errors
    /// There are too many devices.
    pub(super) fn resolve(&self, device: &str, times: (i64, i64)) -> Result<i64, String> {
        let (first, second) = times;
        let mut latest = self.latest.lock().expect("no holder panics");
        let is_new_allowed = latest.len() < MAX_DEVICES;
        match latest.get_mut(device) {
            Some(latest) => {
                let is_first = latest.abs_diff(first) < latest.abs_diff(second);
                let time = if is_first { first } else { second };
                self.late.fetch_add(u64::from(time < *latest), Ordering::Relaxed);
                *latest = time.max(*latest);
                Ok(time)
            }
            None if is_new_allowed => {
                latest.insert(device.into(), first);
                Ok(first)
            }
            None => Err(format!(
                "over {MAX_DEVICES} devices have times in an hour that occurs twice, so that of {} \
                 is not known: choose --time-ambiguous earlier or later",
                short(device)
            )),
        }
    }

    /// Number of times before the latest one of their device, which may be of either hour.
    pub(crate) fn late(&self) -> u64 {
        self.late.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_long_before_the_latest_is_the_second_one() {
        let hours = RepeatedHours::default();
        let read = |device: &str, minute: i64| hours.resolve(device, (minute, minute + 60));
        for (device, minute, expected) in
            [("a", 5, 5), ("a", 32, 32), ("b", 10, 10), ("a", 2, 62), ("a", 30, 90), ("b", 11, 11)]
        {
            assert_eq!(read(device, minute), Ok(expected), "{device} {minute}");
        }
        assert_eq!(read("a", 2000), Ok(2000), "the next year");
        assert_eq!(hours.late(), 0);
    }

    #[test]
    fn a_late_row_moves_no_row_after_it() {
        for (minutes, expected, late) in [
            ([2, 6, 10, 4, 14, 58, 3, 57, 5], [2, 6, 10, 4, 14, 58, 63, 57, 65], 2),
            // One that is later than half of the hour is taken for one of the second hour.
            ([2, 20, 40, 5, 41, 50, 59, 1, 6], [2, 20, 40, 65, 41, 50, 59, 61, 66], 4),
        ] {
            let hours = RepeatedHours::default();
            let read = minutes.map(|minute| hours.resolve("a", (minute, minute + 60)).unwrap());
            assert_eq!((read, hours.late()), (expected, late));
        }
    }

    #[test]
    fn the_number_of_devices_is_limited() {
        let hours = RepeatedHours::default();
        for device in 0..MAX_DEVICES {
            hours.resolve(&device.to_string(), (0, 60)).unwrap();
        }
        assert!(hours.resolve("one more", (0, 60)).unwrap_err().contains("over 100000 devices"));
        assert_eq!(hours.resolve("7", (1, 61)), Ok(1));
    }
}
