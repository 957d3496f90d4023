//! What is known of the commits of a partition.
//!
//! The client answers a commit only where its caller waits for it, and the thread that polls must
//! not. But its statistics tell which offset the brokers keep: it takes note of each answer.

/// A commit that so many statistics in a row do not show is made again.
const UNSEEN: u32 = 3;

/// The offset that the brokers keep of a partition, and the one that they were asked to keep.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Commits {
    kept: i64,
    sent: Option<Sent>,
}

/// A commit that the statistics do not show yet.
#[derive(Debug, PartialEq, Eq)]
struct Sent {
    offset: i64,
    /// How many statistics have come since.
    unseen: u32,
}

impl Commits {
    /// Of a partition that is read from an offset on.
    pub(super) fn new(kept: i64) -> Self {
        Self { kept, sent: None }
    }

    /// Whether the brokers are known to keep an offset.
    pub(super) fn is_kept(&self, offset: i64) -> bool {
        self.kept == offset && self.sent.is_none()
    }

    /// Whether an offset is to be committed now: it is another one than the last, or that was lost.
    pub(super) fn is_due(&self, offset: i64) -> bool {
        match &self.sent {
            Some(sent) => sent.offset != offset || self.lost().is_some(),
            None => self.kept != offset,
        }
    }

    /// The offset of a commit that the brokers have not kept.
    pub(super) fn lost(&self) -> Option<i64> {
        self.sent.as_ref().filter(|sent| sent.unseen >= UNSEEN).map(|sent| sent.offset)
    }

    /// The brokers were asked to keep an offset.
    pub(super) fn send(&mut self, offset: i64) {
        self.sent = Some(Sent { offset, unseen: 0 });
    }

    /// The brokers keep an offset: they have answered.
    pub(super) fn keep(&mut self, offset: i64) {
        *self = Self::new(offset);
    }

    /// Statistics came, with the offset that the brokers keep, where they know it. They may be of
    /// the time before the last commit, or its answer.
    pub(super) fn observe(&mut self, kept: Option<i64>) {
        self.kept = kept.unwrap_or(self.kept);
        if let Some(sent) = &mut self.sent {
            sent.unseen += 1;
            if kept == Some(sent.offset) {
                self.sent = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_not_committed_again() {
        let mut commits = Commits::new(70);
        assert!(!commits.is_due(70) && commits.is_kept(70));
        assert!(commits.is_due(80));
        commits.send(80);
        // The answer is on its way.
        commits.observe(Some(70));
        assert!(!commits.is_due(80) && !commits.is_kept(80));
        // More became durable meanwhile.
        assert!(commits.is_due(90));
        commits.send(90);
        commits.observe(Some(80));
        commits.observe(Some(90));
        assert!(!commits.is_due(90) && commits.is_kept(90));
        for _ in 0..10 * UNSEEN {
            commits.observe(Some(90));
            assert!(!commits.is_due(90));
        }
    }

    #[test]
    fn a_commit_that_statistics_do_not_show_is_made_again() {
        let mut commits = Commits::new(70);
        commits.send(80);
        for kept in [None, Some(70), Some(70)] {
            assert!(!commits.is_due(80));
            commits.observe(kept);
        }
        assert_eq!((commits.is_due(80), commits.lost()), (true, Some(80)));
        commits.send(80);
        assert_eq!((commits.is_due(80), commits.lost()), (false, None));
        commits.observe(Some(80));
        assert!(commits.is_kept(80));
        // One of before came after it: the brokers keep what is older.
        commits.observe(Some(75));
        assert!(commits.is_due(80));
    }

    #[test]
    fn a_commit_that_was_waited_for_is_kept_at_once() {
        let mut commits = Commits::new(70);
        commits.send(75);
        commits.keep(80);
        assert_eq!(commits, Commits::new(80));
    }
}
