//! What is known of the commits of a partition: which offset is committed, and which is to be
//! committed again. `COMMIT_INTERVAL` in the parent says how often.
//!
//! The client confirms only synchronous commits, and the polling thread must not wait for them. But
//! its statistics contain the committed offset of the brokers, from the response to each commit.

use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;

/// A commit is repeated when this number of statistics does not show it.
const MAX_UNSEEN: u32 = 3;

/// The committed offset of a partition, and the commit that is still unconfirmed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Commits {
    committed: i64,
    pending: Option<PendingCommit>,
    /// The lowest offset of a commit that was pending when the next one was sent: the client may
    /// repeat it, and it then arrives last.
    overtaken: Option<i64>,
    /// The highest offset that the statistics may show of an earlier assignment, even if the
    /// brokers have another one since.
    stale: i64,
}

/// A commit that the statistics do not show yet.
#[derive(Debug, PartialEq, Eq)]
struct PendingCommit {
    offset: i64,
    /// Number of statistics since the commit.
    unseen: u32,
}

impl Commits {
    /// For a partition that is read from a committed offset. Of an earlier assignment, the
    /// statistics may show offsets up to `stale`.
    pub(super) fn new(committed: i64, stale: Option<i64>) -> Self {
        Self { committed, pending: None, overtaken: None, stale: stale.unwrap_or(i64::MIN) }
    }

    /// Whether an offset is confirmed as committed, and no commit of another one can arrive.
    pub(super) fn is_committed(&self, offset: i64) -> bool {
        let is_last = self.overtaken.is_none_or(|overtaken| overtaken == offset);
        self.committed == offset && self.pending.is_none() && is_last
    }

    /// Whether an offset has to be committed now: it differs from the last commit, or that commit
    /// was lost.
    pub(super) fn is_due(&self, offset: i64) -> bool {
        match &self.pending {
            Some(pending) => pending.offset != offset || self.lost().is_some(),
            None => self.committed != offset,
        }
    }

    /// Offset of a commit that the brokers did not store.
    pub(super) fn lost(&self) -> Option<i64> {
        self.pending
            .as_ref()
            .filter(|pending| pending.unseen >= MAX_UNSEEN)
            .map(|pending| pending.offset)
    }

    /// Records that a commit was sent.
    pub(super) fn mark_sent(&mut self, offset: i64) {
        if let Some(pending) = &self.pending {
            let overtaken = self.overtaken.unwrap_or(i64::MAX);
            self.overtaken = Some(overtaken.min(pending.offset));
        }
        self.pending = Some(PendingCommit { offset, unseen: 0 });
    }

    /// Records that the brokers confirmed a commit.
    pub(super) fn mark_committed(&mut self, offset: i64) {
        *self = Self::new(offset, None);
    }

    /// Processes the committed offset of new statistics; `None` if unknown. It may be from before
    /// the last commit.
    pub(super) fn observe(&mut self, committed: Option<i64>) {
        let shown = committed.filter(|offset| *offset > self.stale);
        self.committed = shown.unwrap_or(self.committed);
        let Some(pending) = &mut self.pending else { return };
        if shown == Some(pending.offset) {
            self.pending = None;
        } else if committed != Some(pending.offset) {
            pending.unseen += 1;
        }
        // Only a synchronous commit can confirm an offset that was committed before: statistics may
        // show it in any case.
    }
}

/// Why a commit failed.
pub(super) fn failure_text(error: &KafkaError) -> String {
    match error.rdkafka_error_code() {
        Some(RDKafkaErrorCode::OperationTimedOut) => {
            "the brokers are away, or the group waits for another instance to join it".to_owned()
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_committed_offset_is_not_committed_again() {
        let mut commits = Commits::new(70, None);
        assert!(!commits.is_due(70) && commits.is_committed(70));
        assert!(commits.is_due(80));
        commits.mark_sent(80);
        // The response is on its way.
        commits.observe(Some(70));
        assert!(!commits.is_due(80) && !commits.is_committed(80));
        // More became durable meanwhile.
        assert!(commits.is_due(90));
        commits.mark_sent(90);
        commits.observe(Some(80));
        commits.observe(Some(90));
        assert!(!commits.is_due(90));
        for _ in 0..10 * MAX_UNSEEN {
            commits.observe(Some(90));
            assert!(!commits.is_due(90));
        }
    }

    #[test]
    fn a_commit_that_statistics_do_not_show_is_retried() {
        let mut commits = Commits::new(70, None);
        commits.mark_sent(80);
        for committed in [None, Some(70), Some(70)] {
            assert!(!commits.is_due(80));
            commits.observe(committed);
        }
        assert_eq!((commits.is_due(80), commits.lost()), (true, Some(80)));
        commits.mark_sent(80);
        assert_eq!((commits.is_due(80), commits.lost()), (false, None));
        commits.observe(Some(80));
        assert!(commits.is_committed(80));
        // An older commit arrived after it: the brokers store the older offset.
        commits.observe(Some(75));
        assert!(commits.is_due(80));
    }

    #[test]
    fn an_offset_is_not_certain_while_an_earlier_commit_may_arrive() {
        let mut commits = Commits::new(70, None);
        commits.mark_sent(80);
        commits.mark_sent(90);
        commits.observe(Some(90));
        assert!(!commits.is_due(90) && !commits.is_committed(90), "80 may arrive after 90");
        commits.mark_committed(90);
        assert!(
            commits.is_committed(90),
            "what was sent before a synchronous commit arrives first"
        );
        commits.mark_sent(100);
        commits.observe(Some(100));
        assert!(commits.is_committed(100));
    }

    #[test]
    fn statistics_of_an_earlier_assignment_confirm_nothing() {
        // 80 was committed, then the offset was reset to 20 while the group was empty.
        let mut commits = Commits::new(20, Some(80));
        commits.observe(Some(80));
        assert!(commits.is_due(80) && !commits.is_committed(80));
        commits.mark_sent(80);
        for _ in 0..10 * MAX_UNSEEN {
            commits.observe(Some(80));
            assert!(!commits.is_committed(80) && commits.lost().is_none());
        }
        // A higher offset is shown once it is committed, and is sent again if it is not shown.
        commits.mark_sent(90);
        for _ in 0..MAX_UNSEEN {
            commits.observe(Some(80));
        }
        assert_eq!(commits.lost(), Some(90));
        commits.mark_sent(90);
        commits.observe(Some(90));
        assert!(!commits.is_due(90) && !commits.is_committed(90));
        commits.mark_committed(90);
        assert!(commits.is_committed(90));
    }

    #[test]
    fn a_lost_commit_of_an_offset_that_was_committed_before_is_retried() {
        let mut commits = Commits::new(20, Some(80));
        commits.mark_sent(80);
        (1..MAX_UNSEEN).for_each(|_| commits.observe(Some(20)));
        assert!(!commits.is_due(80));
        commits.observe(Some(20));
        assert!(commits.is_due(80) && commits.lost() == Some(80));
        commits.mark_sent(80);
        (0..10 * MAX_UNSEEN).for_each(|_| commits.observe(Some(80)));
        assert!(!commits.is_due(80) && !commits.is_committed(80));
    }

    #[test]
    fn a_synchronous_commit_counts_at_once() {
        let mut commits = Commits::new(70, None);
        commits.mark_sent(75);
        commits.mark_committed(80);
        assert_eq!(commits, Commits::new(80, None));
    }
}
