//! A histogram of positive numbers of any magnitude.

/// Ratio between the bounds of a bin.
const RATIO: f64 = 1.01;

/// Numbers outside of this range count at its ends.
const RANGE: (f64, f64) = (1e-3, 1e8);

/// Counts positive numbers, each with an error of at most 1 %.
#[derive(Clone, Debug, Default)]
pub struct LogHistogram {
    /// Allocated for the first number; grows to at most 2,546 bins.
    bins: Vec<u64>,
    count: u64,
}

/// The bin of a number.
fn bin(number: f64) -> usize {
    // NaN counts at the lower end.
    let ratio = number.clamp(RANGE.0, RANGE.1).max(RANGE.0) / RANGE.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 2545")]
    let bin = (libm::log(ratio) / libm::log(RATIO)) as usize;
    bin
}

/// The middle of a bin.
fn middle(bin: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "0 to 2545")]
    let steps = bin as f64 + 0.5;
    RANGE.0 * libm::pow(RATIO, steps)
}

impl LogHistogram {
    /// Counts a number.
    pub fn add(&mut self, number: f64) {
        let bin = bin(number);
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += 1;
        self.count += 1;
    }

    /// How many numbers were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many numbers are in a range.
    #[must_use]
    pub fn count_between(&self, low: f64, high: f64) -> u64 {
        let bins = self.bins.iter().enumerate();
        bins.filter(|(bin, _)| (low..=high).contains(&middle(*bin))).map(|(_, count)| count).sum()
    }

    /// The median; `None` if nothing was counted.
    #[must_use]
    pub fn median(&self) -> Option<f64> {
        let mut left = self.count.checked_sub(1)? / 2;
        let bin = self.bins.iter().position(|&count| match left.checked_sub(count) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        });
        bin.map(middle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_within_one_percent() {
        for number in [1e-3, 0.3, 1.0, 3.6, 300.0, 86_400.0, 9e7] {
            let mut histogram = LogHistogram::default();
            histogram.add(number);
            let median = histogram.median().unwrap();
            assert!((median / number - 1.0).abs() < 0.01, "{median} for {number}");
            assert_eq!(histogram.count_between(number * 0.98, number * 1.02), 1);
            assert_eq!(histogram.count_between(number * 1.03, f64::INFINITY), 0);
        }
    }

    #[test]
    fn the_median_has_as_many_numbers_on_either_side() {
        let mut histogram = LogHistogram::default();
        assert_eq!(histogram.median(), None);
        for number in [100.0, 1.0, 10.0, 1000.0, 10_000.0] {
            histogram.add(number);
        }
        let median = histogram.median().unwrap();
        assert!((99.0..101.0).contains(&median), "{median}");
        assert_eq!((histogram.count(), histogram.count_between(5.0, 5000.0)), (5, 3));
    }

    #[test]
    fn memory_is_bounded() {
        let mut histogram = LogHistogram::default();
        for number in [0.0, -1.0, f64::NAN, f64::MIN_POSITIVE, f64::MAX, f64::INFINITY] {
            histogram.add(number);
        }
        assert_eq!(histogram.count(), 6);
        assert!(histogram.bins.len() <= 2546, "{} bins", histogram.bins.len());
    }
}
