//! The hour that clocks repeat in autumn, by the order of the records of a file.

use std::collections::HashMap;
use std::sync::Mutex;

use super::text::short;

/// Maximum number of devices with times in such an hour.
const MAX_DEVICES: usize = 100_000;

/// The latest time of each device in a repeated hour, ms since 1970.
#[derive(Debug, Default)]
pub struct RepeatedHours(Mutex<HashMap<Box<str>, i64>>);

impl RepeatedHours {
    /// The first of two times, unless the device had a later one before.
    ///
    /// # Errors
    /// There are too many devices.
    pub(super) fn resolve(&self, device: &str, times: (i64, i64)) -> Result<i64, String> {
        let (first, second) = times;
        let mut latest = self.0.lock().expect("no holder panics");
        let is_new_allowed = latest.len() < MAX_DEVICES;
        match latest.get_mut(device) {
            Some(latest) => {
                // The hour of another year is before it.
                let time = if *latest > first { second } else { first };
                *latest = time;
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_before_the_latest_is_the_second_one() {
        let hours = RepeatedHours::default();
        let read = |device: &str, minute: i64| hours.resolve(device, (minute, minute + 60));
        for (device, minute, expected) in
            [("a", 5, 5), ("a", 40, 40), ("b", 10, 10), ("a", 2, 62), ("a", 41, 101), ("b", 11, 11)]
        {
            assert_eq!(read(device, minute), Ok(expected), "{device} {minute}");
        }
        assert_eq!(read("a", 2000), Ok(2000), "the next year");
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
