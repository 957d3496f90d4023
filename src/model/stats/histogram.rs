//! A histogram of positive numbers of any magnitude.

/// Ratio between the bounds of a bin.
const RATIO: f64 = 1.01;

/// Numbers outside of this range count at its ends.
const RANGE: (f64, f64) = (1e-3, 1e8);

/// Counts positive numbers, each with an error of at most 1 %.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogHistogram {
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
    pub(crate) fn add(&mut self, number: f64) {
        let bin = bin(number);
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += 1;
        self.count += 1;
    }

    /// How many numbers were counted.
    #[must_use]
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// How many numbers are in a range.
    #[must_use]
    pub(crate) fn count_between(&self, low: f64, high: f64) -> u64 {
        let bins = self.bins.iter().enumerate();
        bins.filter(|(bin, _)| (low..=high).contains(&middle(*bin))).map(|(_, count)| count).sum()
    }

    /// The median; `None` if nothing was counted.
    #[must_use]
    pub(crate) fn median(&self) -> Option<f64> {
        self.quantile(1, 2)
    }

    /// The number that `part` of each `of` numbers are at most; `None` if nothing was counted.
    #[must_use]
    pub(crate) fn quantile(&self, part: u64, of: u64) -> Option<f64> {
        let mut left = self.count.checked_sub(1)?.saturating_mul(part) / of;
        let bin = self.bins.iter().position(|&count| match left.checked_sub(count) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        });
        bin.map(middle)
    }

    /// The number that most numbers are near, and how many differ from it by at most `ratio`;
    /// `None` if nothing was counted. Of several, the smallest.
    #[must_use]
    pub(crate) fn densest(&self, ratio: f64) -> Option<(f64, u64)> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is small")]
        let around = (libm::log(ratio) / libm::log(RATIO)) as usize;
        let near = |bin: usize| {
            let bins = bin.saturating_sub(around)..(bin + around + 1).min(self.bins.len());
            self.bins[bins].iter().sum::<u64>()
        };
        let bins = (0..self.bins.len()).filter(|&bin| self.bins[bin] > 0);
        let densest = bins.rev().max_by_key(|&bin| (near(bin), self.bins[bin]))?;
        Some((middle(densest), near(densest)))
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

    fn counted(numbers: &[f64]) -> LogHistogram {
        let mut histogram = LogHistogram::default();
        numbers.iter().for_each(|number| histogram.add(*number));
        histogram
    }

    #[test]
    fn quantiles_are_numbers_that_were_counted() {
        let histogram = counted(&[1.0, 2.0, 4.0, 8.0, 100.0]);
        for ((part, of), number) in
            [((0, 1), 1.0), ((1, 2), 4.0), ((3, 4), 8.0), ((9, 10), 8.0), ((1, 1), 100.0)]
        {
            let found = histogram.quantile(part, of).unwrap();
            assert!((found / number - 1.0).abs() < 0.01, "{found} at {part}/{of}");
        }
        assert!((histogram.quantile(1, 1).unwrap() / 100.0 - 1.0).abs() < 0.01);
        assert_eq!(LogHistogram::default().quantile(1, 1), None);
    }

    #[test]
    fn the_densest_number_has_most_numbers_near_it() {
        let histogram = counted(&[1.0, 9.0, 60.0, 290.0, 300.0, 300.0, 310.0, 800.0]);
        let (number, count) = histogram.densest(1.1).unwrap();
        assert!((297.0..303.0).contains(&number), "{number}");
        assert_eq!(count, 4);
        assert_eq!(LogHistogram::default().densest(1.1), None);
        assert!(counted(&[5.0, 500.0]).densest(1.1).unwrap().0 < 6.0);
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
