//! The days of a device whose rows have been loaded.

use crate::model::scalar::Day;

/// Half of the days of a window.
const HALF: i64 = 32;

/// A set of days. Those of most devices are close together: a window of 64 days is one number, and
/// only days outside of it need memory of their own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Days {
    /// First day of the window.
    from: Day,
    /// Bit `n` is set if the set has the day `n` days after `from`. 0 if the set is empty.
    window: u64,
    /// The days outside of the window, ascending.
    others: Box<[Day]>,
}

impl Days {
    /// The bit of a day in the window.
    fn bit(&self, day: Day) -> Option<u64> {
        let at = day.get().checked_sub(self.from.get())?;
        u32::try_from(at).ok().and_then(|at| 1_u64.checked_shl(at))
    }

    pub(crate) fn contains(&self, day: Day) -> bool {
        match self.bit(day) {
            Some(bit) => self.window & bit != 0,
            None => self.others.binary_search(&day).is_ok(),
        }
    }

    pub(crate) fn insert(&mut self, day: Day) {
        if self.window == 0 {
            self.from = Day(day.get().saturating_sub(HALF));
        }
        match self.bit(day) {
            Some(bit) => self.window |= bit,
            None => {
                if let Err(at) = self.others.binary_search(&day) {
                    let mut others = std::mem::take(&mut self.others).into_vec();
                    others.insert(at, day);
                    self.others = others.into();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn day() -> impl Strategy<Value = Day> {
        prop_oneof![-100..100_i64, any::<i64>(), Just(i64::MIN), Just(i64::MAX)].prop_map(Day)
    }

    #[test]
    fn only_days_outside_of_the_window_need_memory() {
        let mut set = Days::default();
        for day in (1000..1000 + HALF).chain(1000 - HALF..1000) {
            set.insert(Day(day));
        }
        assert!(set.others.is_empty());
        set.insert(Day(1000 + HALF));
        assert_eq!(*set.others, [Day(1000 + HALF)]);
    }

    proptest! {
        #[test]
        fn agrees_with_a_set(days in prop::collection::vec(day(), 0..50), others: Vec<i64>) {
            let (mut set, mut expected) = (Days::default(), BTreeSet::new());
            for &day in &days {
                set.insert(day);
                expected.insert(day);
                let near = [-65, -64, -63, -1, 0, 1, 63, 64, 65];
                let near = near.map(|by| day.get().wrapping_add(by));
                for day in near.into_iter().chain(others.iter().copied()).map(Day) {
                    prop_assert_eq!(set.contains(day), expected.contains(&day));
                }
            }
            prop_assert!(days.iter().all(|&day| set.contains(day)));
        }
    }
}
