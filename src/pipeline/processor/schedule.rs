//! The flush policy: when a flush is due, and which trips it writes.
//!
//! Between two writes of a growing trip, samples gather, so that rewriting its path costs
//! O(n log n), and a row is spread over several samples:
//!
//! | changes of a trip | written by the first flush |
//! |---|---|
//! | with a new id or a merge | after [`WAIT_PER_SAMPLE`] for each sample that waits |
//! | growth | with enough samples, after [`WAIT_PER_SAMPLE`] for each sample of the trip |
//! | growth of a trip that had none for the maximum delay | at once |
//! | growth of a stop, such as by heartbeats | after the maximum delay of stops |
//! | any other | after the maximum delay |
//!
//! A device that sends live is slower than [`WAIT_PER_SAMPLE`], so its new ids go with the next
//! flush. In a backlog more samples come meanwhile.

use std::time::Duration;

use tokio::time::Instant;

use super::ProcessorConfig;
use crate::segment::{Kind, Segment, Waiting};

/// Assumed time to write a device, until a flush was measured.
const FIRST_GUESS: Duration = Duration::from_micros(20);

/// The delay before a flush, as a multiple of the CPU time that it is expected to take, which is
/// estimated from the number of dirty devices: flushing takes a twentieth of a core.
const FLUSH_SHARE: u32 = 19;

/// The delay before a flush, as a multiple of the last one's duration: a partition waits for its
/// store for at most a quarter of the time.
const WAITING_SHARE: u32 = 3;

/// Delay before a dirty trip is written, for each of its samples.
const WAIT_PER_SAMPLE: Duration = Duration::from_millis(50);

/// Minimum number of samples that a growing trip of a daemon gathers: at most an eighth of a row
/// for each sample of a device that sends eight within `max_staleness`.
pub(super) const GATHER: u32 = 8;

/// Samples of a trip for each that it has to gather before it is written again.
const GATHER_SHARE: usize = 20;

/// What a flush took.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlushCost {
    /// CPU time up to the last batch of rows.
    pub(super) staged: Duration,
    /// CPU time of the last batch, and of the commit.
    pub(super) committed: Duration,
    /// Duration, including the time that it waited for servers.
    pub(super) wall: Duration,
}

/// When flushes are due.
pub(super) struct FlushSchedule {
    /// Minimum time between two flushes.
    interval: Duration,
    /// Maximum time that a change waits.
    max_staleness: Duration,
    /// Maximum time that the growth of a stop waits.
    stop_staleness: Duration,
    /// Minimum number of samples that a growing trip gathers.
    gather: usize,
    /// Start of the clock of rounds.
    origin: Instant,
    /// Time of the current round by that clock, ms. It may wrap.
    now_ms: u32,
    /// Time between the current round and the one before, ms.
    round_ms: u32,
    /// Time of the last flush.
    flushed_at: Instant,
    /// CPU time to stage a device in the last flush.
    device_took: Duration,
    /// CPU time to commit the last flush.
    commit_took: Duration,
    /// Duration of the last flush.
    flush_took: Duration,
}

impl FlushSchedule {
    /// A schedule that begins now.
    pub(super) fn new(config: &ProcessorConfig) -> Self {
        let now = Instant::now();
        Self {
            interval: config.flush.interval,
            max_staleness: config.flush.max_staleness,
            stop_staleness: config.flush.stop_staleness,
            gather: usize::try_from(config.gather).unwrap_or(usize::MAX),
            origin: now,
            now_ms: 0,
            round_ms: 0,
            flushed_at: now,
            device_took: FIRST_GUESS,
            commit_took: Duration::ZERO,
            flush_took: Duration::ZERO,
        }
    }

    /// Time since the last flush.
    pub(super) fn elapsed(&self) -> Duration {
        self.flushed_at.elapsed()
    }

    /// Delay between the last flush and one of `dirty` devices.
    fn delay(&self, dirty: usize) -> Duration {
        let will_take = self.device_took.saturating_mul(devices(dirty));
        let delay = will_take.saturating_add(self.commit_took).saturating_mul(FLUSH_SHARE);
        let delay = delay.max(self.flush_took.saturating_mul(WAITING_SHARE)).max(self.interval);
        delay.min(self.max_staleness)
    }

    /// When a flush of `dirty` devices is due; `None` if never.
    pub(super) fn next(&self, dirty: usize) -> Option<Instant> {
        self.flushed_at.checked_add(self.delay(dirty))
    }

    /// Whether a flush of `dirty` devices is due.
    pub(super) fn is_due(&self, dirty: usize) -> bool {
        self.elapsed() >= self.delay(dirty)
    }

    /// Starts a round, in which each dirty trip is visited.
    pub(super) fn start_round(&mut self) {
        #[expect(clippy::cast_possible_truncation, reason = "the clock may wrap")]
        let now_ms = self.origin.elapsed().as_millis() as u32;
        self.round_ms = now_ms.wrapping_sub(self.now_ms);
        self.now_ms = now_ms;
    }

    /// Visits a dirty trip. Returns whether the flush of this round takes it.
    pub(super) fn takes(&self, trip: &mut Segment) -> bool {
        let waiting = trip.visit(self.now_ms, self.round_ms);
        let has_new_ids = trip.has_new_ids();
        if trip.outline().kind == Kind::Stop && !has_new_ids {
            return Duration::from_millis(waiting.waited_ms.into()) >= self.stop_staleness;
        }
        self.is_trip_due(trip.samples(), has_new_ids, waiting)
    }

    /// Whether the changes of a trip are due.
    fn is_trip_due(&self, samples: usize, has_new_ids: bool, waiting: Waiting) -> bool {
        let waited = Duration::from_millis(waiting.waited_ms.into());
        let pending = usize::try_from(waiting.pending).unwrap_or(usize::MAX);
        if waited >= self.max_staleness {
            return true;
        }
        if waited < self.interval {
            return false;
        }
        if has_new_ids {
            return waited >= wait_of(pending);
        }
        // The next sample is not expected before the maximum delay: nothing would gather.
        let sparse = self.max_staleness.saturating_sub(self.interval);
        if waiting.gap_ms.is_some_and(|gap| Duration::from_millis(gap.into()) >= sparse) {
            return true;
        }
        pending >= self.gather.max(samples / GATHER_SHARE) && waited >= wait_of(samples)
    }

    /// Measures a flush of `dirty` devices.
    pub(super) fn measure(&mut self, dirty: usize, cost: FlushCost) {
        if dirty > 0 {
            self.device_took = cost.staged / devices(dirty);
        }
        (self.commit_took, self.flush_took) = (cost.committed, cost.wall);
    }

    /// Records a flush.
    pub(super) fn restart(&mut self) {
        self.flushed_at = Instant::now();
    }
}

fn devices(dirty: usize) -> u32 {
    u32::try_from(dirty).unwrap_or(u32::MAX)
}

/// The delay for a number of samples.
fn wait_of(samples: usize) -> Duration {
    WAIT_PER_SAMPLE.saturating_mul(u32::try_from(samples).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule() -> FlushSchedule {
        FlushSchedule::new(&ProcessorConfig::default())
    }

    fn cost(staged_ms: u64, committed_ms: u64, wall_ms: u64) -> FlushCost {
        let [staged, committed, wall] =
            [staged_ms, committed_ms, wall_ms].map(Duration::from_millis);
        FlushCost { staged, committed, wall }
    }

    #[test]
    fn a_flush_waits_in_proportion_to_its_cpu_time() {
        let config = ProcessorConfig::default();
        let mut schedule = schedule();
        assert_eq!(schedule.delay(1), config.flush.interval);
        schedule.measure(10, cost(100, 0, 100));
        schedule.measure(0, cost(9_000, 0, 0));
        assert_eq!(schedule.delay(100), Duration::from_secs(19));
        assert_eq!(schedule.delay(usize::MAX), config.flush.max_staleness);
        assert!(!schedule.is_due(100));
        schedule.measure(10, cost(100, 100, 0));
        assert_eq!(schedule.delay(100), Duration::from_millis(19 * 1_100));
    }

    #[test]
    fn waiting_for_a_server_delays_a_flush_less() {
        let mut schedule = schedule();
        schedule.measure(1_000, cost(10, 1, 200));
        assert_eq!(schedule.delay(1_000), Duration::from_secs(1));
        schedule.measure(1_000, cost(10, 1, 2_000));
        assert_eq!(schedule.delay(1_000), Duration::from_secs(6));
    }

    #[test]
    fn the_delay_begins_with_the_last_flush() {
        let (mut schedule, interval) = (schedule(), ProcessorConfig::default().flush.interval);
        schedule.flushed_at -= interval;
        assert!(schedule.is_due(1) && schedule.next(1) <= Some(Instant::now()));
        let before = Instant::now();
        schedule.restart();
        assert!(!schedule.is_due(1) && schedule.next(1) >= before.checked_add(interval));
    }

    /// When the changes are due: of a trip with `samples`, of which `pending` wait.
    fn due_ms(samples: usize, pending: u32, has_new_ids: bool, gap_ms: Option<u32>) -> u32 {
        let schedule = schedule();
        let waiting = |waited_ms| Waiting { pending, waited_ms, gap_ms };
        let is_due = |&ms: &u32| schedule.is_trip_due(samples, has_new_ids, waiting(ms));
        let due: Vec<u32> = (0..=40_000).step_by(50).filter(is_due).collect();
        assert_eq!(due, (due[0]..=40_000).step_by(50).collect::<Vec<_>>(), "it stays due");
        due[0]
    }

    #[test]
    fn new_ids_and_merges_go_with_the_next_flush() {
        assert_eq!(due_ms(1, 1, true, None), 1_000);
        assert_eq!(due_ms(5_000, 1, true, Some(5_000)), 1_000);
        assert_eq!(due_ms(20, 20, true, None), 1_000);
        // A backlog.
        assert_eq!(due_ms(400, 400, true, None), 20_000);
        assert_eq!(due_ms(4_000, 4_000, true, None), 30_000);
    }

    #[test]
    fn growth_waits_until_enough_samples_gathered() {
        assert_eq!(due_ms(100, 7, false, Some(5_000)), 30_000);
        assert_eq!(due_ms(100, 8, false, Some(5_000)), 5_000);
        assert_eq!(due_ms(20, 8, false, None), 1_000);
        assert_eq!(due_ms(400, 19, false, None), 30_000);
        assert_eq!(due_ms(400, 20, false, None), 20_000);
        assert_eq!(due_ms(100, 0, false, None), 30_000);
    }

    #[test]
    fn growth_does_not_wait_where_nothing_would_gather() {
        assert_eq!(due_ms(100, 1, false, Some(28_999)), 30_000);
        assert_eq!(due_ms(100, 1, false, Some(29_000)), 1_000);
        assert_eq!(due_ms(100, 1, false, Some(60_000)), 1_000);
    }
}
