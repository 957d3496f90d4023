//! How the changes of a segment wait for a flush. Times are ms of the caller's clock, which may
//! wrap.

/// How the changes that no flush has taken yet came.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pending {
    /// Number of samples.
    samples: u32,
    /// Whether a sample came since the last visit.
    is_fresh: bool,
    /// Whether the next flush takes them.
    pub(super) is_due: bool,
    /// When they began to wait. `None` until the first visit.
    since_ms: Option<u32>,
    /// The last visit after a sample. Flushes leave it as it is.
    arrived_ms: Option<u32>,
}

/// The changes of a segment, as a visit before a flush finds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Number of samples that wait.
    pub pending: u32,
    /// How long they have waited, ms.
    pub waited_ms: u32,
    /// If samples came since the last visit: how long none had come before them, ms.
    pub gap_ms: Option<u32>,
}

impl Pending {
    /// Adds a sample.
    pub(super) fn add(&mut self) {
        self.samples = self.samples.saturating_add(1);
        self.is_fresh = true;
    }

    /// Adds the changes of a segment whose place this one takes.
    pub(super) fn join(&mut self, other: Self) {
        self.samples = self.samples.saturating_add(other.samples);
        self.since_ms = match (self.since_ms, other.since_ms) {
            // Of two times on a clock that wraps, the earlier is less than half a turn behind.
            (Some(this), Some(other)) if other.wrapping_sub(this) <= u32::MAX / 2 => Some(this),
            (this, other) => other.or(this),
        };
        self.arrived_ms = self.arrived_ms.or(other.arrived_ms);
    }

    /// Forgets what a flush takes.
    pub(super) fn forget_taken(&mut self) {
        *self = Self { arrived_ms: self.arrived_ms, ..Self::default() };
    }

    /// Measures how long the changes have waited. `round_ms` is the time since the visits before.
    pub(super) fn visit(&mut self, now_ms: u32, round_ms: u32) -> Waiting {
        let mut gap_ms = None;
        if std::mem::take(&mut self.is_fresh) {
            let before = self.arrived_ms.replace(now_ms);
            gap_ms = before.map(|before| now_ms.wrapping_sub(before));
        }
        let since_ms = *self.since_ms.get_or_insert(now_ms.wrapping_sub(round_ms));
        Waiting { pending: self.samples, waited_ms: now_ms.wrapping_sub(since_ms), gap_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gap_between_samples_outlives_a_flush() {
        let mut pending = Pending::default();
        let waiting = |pending, waited_ms, gap_ms| Waiting { pending, waited_ms, gap_ms };
        pending.add();
        assert_eq!(pending.visit(1000, 50), waiting(1, 50, None));
        pending.is_due = true;
        pending.forget_taken();
        assert!(!pending.is_due);
        pending.add();
        assert_eq!(pending.visit(1700, 80), waiting(1, 80, Some(700)));
        assert_eq!(pending.visit(1800, 100), waiting(1, 180, None));
    }

    #[test]
    fn joined_changes_wait_since_the_earlier_on_a_clock_that_wraps() {
        let joined = |since_ms, other_ms| {
            let mut pending = Pending { samples: 2, since_ms, ..Pending::default() };
            pending.join(Pending { samples: 3, since_ms: other_ms, ..Pending::default() });
            assert_eq!(pending.samples, 5);
            pending.since_ms
        };
        let half = u32::MAX / 2;
        for (earlier, later) in [(10, 20), (10, 10), (u32::MAX - 5, 3), (7, 7 + half)] {
            assert_eq!(joined(Some(earlier), Some(later)), Some(earlier), "{earlier} {later}");
            assert_eq!(joined(Some(later), Some(earlier)), Some(earlier), "{earlier} {later}");
        }
        assert_eq!((joined(Some(4), None), joined(None, Some(4))), (Some(4), Some(4)));
        assert_eq!(joined(None, None), None);
    }
}
