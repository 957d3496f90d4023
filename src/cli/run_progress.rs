//! What `run` shows on a terminal: what it waits for, that it has caught up, then how fast it reads
//! and how far it is behind.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use crate::kafka::consumer::ConsumerEvent;
use crate::model::time::format_duration;
use crate::pipeline::daemon::DaemonEvent;
use crate::telemetry::LogStatus;

/// How long the start may wait in silence.
const NOTICE: Duration = Duration::from_secs(2);

/// Interval of the lines.
const INTERVAL: Duration = Duration::from_secs(10);

/// Interval at which the counters are read.
const TICK: Duration = Duration::from_secs(1);

/// Units of a delay, ms.
const DELAY_UNITS: [i64; 3] = [86_400_000, 3_600_000, 60_000];

/// The lines of a daemon: a function of its events, its counters and the time since its start.
#[derive(Debug)]
struct Lines {
    /// What the start needs next.
    needs: Option<String>,
    /// Why the group assigns no partition, if the brokers said that.
    denied: Option<String>,
    /// Why a server is waited for, and when that was last reported.
    waiting: Option<(String, Duration)>,
    has_caught_up: bool,
    /// Time and number of samples of the last line.
    last: (Duration, u64),
    /// Time of the next line.
    due: Duration,
}

impl Lines {
    fn new() -> Self {
        let (needs, denied, waiting) = (None, None, None);
        let last = (Duration::ZERO, 0);
        Self { needs, denied, waiting, has_caught_up: false, last, due: NOTICE }
    }

    fn hear(&mut self, event: &DaemonEvent, now: Duration) {
        match event {
            DaemonEvent::Needs(what) => {
                self.needs = Some(what.clone());
                self.due = now + NOTICE;
            }
            DaemonEvent::Waiting(why) => {
                self.waiting = Some((why.clone(), now));
                if self.needs.is_some() {
                    // It is printed, with the reason.
                    self.due = now + INTERVAL;
                }
            }
            // It is printed, and lasts until the group assigns a partition.
            DaemonEvent::Consumer(ConsumerEvent::Denied(why)) => {
                self.denied = Some(why.clone());
                self.due = now + INTERVAL;
            }
            DaemonEvent::Consumer(ConsumerEvent::Assigned { .. }) => {
                (self.denied, self.has_caught_up) = (None, false);
                if self.needs.take().is_some() {
                    self.last.0 = now;
                    self.due = now + INTERVAL;
                }
            }
            _ => (),
        }
    }

    /// The next line, if one is due.
    fn next(&mut self, now: Duration, status: &LogStatus) -> Option<String> {
        let has_caught_up = status.partitions > 0 && status.lag == Some(0);
        let is_news = has_caught_up && !self.has_caught_up;
        if !is_news && now < self.due {
            return None;
        }
        let line = if is_news {
            self.has_caught_up = true;
            format!("caught up: {} samples read, lag 0", status.samples)
        } else if let Some(why) = &self.denied {
            format!("waiting: {why}")
        } else if status.partitions == 0 {
            let needs = self.needs.as_deref().unwrap_or("the group to assign partitions");
            format!("waiting for {needs}")
        } else {
            self.state(now, status)
        };
        self.last = (now, status.samples);
        self.due = now + INTERVAL;
        Some(line)
    }

    /// Rate since the last line, lag, and what it waits for.
    fn state(&self, now: Duration, status: &LogStatus) -> String {
        let (then, samples) = self.last;
        #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
        let rate = (status.samples - samples) as f64 / (now - then).as_secs_f64();
        let lag = match status.lag {
            None => "unknown".to_owned(),
            Some(0) => "0".to_owned(),
            Some(lag) => format!("{lag} ({})", delay(status.lag_s)),
        };
        let waits = match &self.waiting {
            Some((why, at)) if now < *at + INTERVAL => format!("; waiting: {why}"),
            _ if status.lag == Some(0) => "; waiting for records".to_owned(),
            _ => String::new(),
        };
        let stopped = match status.stopped {
            0 => String::new(),
            stopped => format!("; {stopped} of {} partitions stopped", status.partitions),
        };
        format!("{rate:.0} samples/s, lag {lag}{stopped}{waits}")
    }
}

/// A delay in a unit of which it has at least two.
fn delay(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "a delay in ms fits")]
    let ms = (seconds * 1000.0) as i64;
    let unit = DELAY_UNITS.into_iter().find(|unit| ms >= 2 * unit).unwrap_or(1000);
    format_duration(ms / unit * unit)
}

/// Shows the progress of a daemon from its events and its counters.
pub(crate) struct RunProgress {
    began: Instant,
    lines: Mutex<Lines>,
}

impl RunProgress {
    /// The progress of a daemon that starts now.
    pub(crate) fn start() -> Self {
        Self { began: Instant::now(), lines: Mutex::new(Lines::new()) }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().expect("no holder of the lock panics")
    }

    /// Takes an event of the daemon into account.
    pub(crate) fn hear(&self, event: &DaemonEvent) {
        self.lines().hear(event, self.began.elapsed());
    }

    /// Prints lines as they are due. Never completes.
    pub(crate) async fn show(&self, status: impl Fn() -> LogStatus, print: impl Fn(&str)) {
        let mut ticks = tokio::time::interval(TICK);
        loop {
            ticks.tick().await;
            let line = self.lines().next(self.began.elapsed(), &status());
            if let Some(line) = line {
                print(&line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn reading(samples: u64, lag: Option<i64>) -> LogStatus {
        LogStatus { samples, partitions: 4, lag, lag_s: 400.0, ..LogStatus::default() }
    }

    fn assigned() -> DaemonEvent {
        DaemonEvent::Consumer(ConsumerEvent::Assigned { partition: 0, from: 0 })
    }

    #[test]
    fn lines_are_a_function_of_events_counters_and_time() {
        let (mut lines, none) = (Lines::new(), LogStatus::default());
        lines.hear(&DaemonEvent::Needs("the Kafka brokers `b:1`".into()), at(0));
        assert_eq!(lines.next(at(1), &none), None);
        let waiting = Some("waiting for the Kafka brokers `b:1`".to_owned());
        assert_eq!(lines.next(at(2), &none), waiting);
        assert_eq!(lines.next(at(11), &none), None);
        assert_eq!(lines.next(at(12), &none), waiting);
        // The reason is printed as it comes.
        lines.hear(&DaemonEvent::Waiting("no broker answers".into()), at(13));
        assert_eq!(lines.next(at(22), &none), None);
        assert_eq!(lines.next(at(23), &none), waiting);

        lines.hear(&assigned(), at(25));
        assert_eq!(lines.next(at(34), &reading(900, None)), None);
        let line = lines.next(at(35), &reading(1000, None));
        assert_eq!(line.unwrap(), "100 samples/s, lag unknown");
        let line = lines.next(at(45), &reading(3000, Some(70)));
        assert_eq!(line.unwrap(), "200 samples/s, lag 70 (6m)");
        lines.hear(&DaemonEvent::Waiting("`scylla://a` does not answer".into()), at(47));
        let line = lines.next(at(55), &LogStatus { stopped: 1, ..reading(3000, Some(80)) });
        let expected = "0 samples/s, lag 80 (6m); 1 of 4 partitions stopped; waiting: \
                        `scylla://a` does not answer";
        assert_eq!(line.unwrap(), expected);

        let line = lines.next(at(58), &reading(3080, Some(0)));
        assert_eq!(line.unwrap(), "caught up: 3080 samples read, lag 0");
        assert_eq!(lines.next(at(67), &reading(3085, Some(0))), None);
        let line = lines.next(at(68), &reading(3085, Some(0)));
        assert_eq!(line.unwrap(), "0 samples/s, lag 0; waiting for records");
        // Behind for a moment, as with each record.
        let line = lines.next(at(78), &reading(3085, Some(1)));
        assert_eq!(line.unwrap(), "0 samples/s, lag 1 (6m)");
        assert_eq!(lines.next(at(79), &reading(3086, Some(0))), None);

        lines.hear(&DaemonEvent::Consumer(ConsumerEvent::Denied("no right".into())), at(80));
        assert_eq!(lines.next(at(90), &none).unwrap(), "waiting: no right");
        lines.hear(&assigned(), at(90));
        assert!(lines.next(at(91), &reading(3086, Some(0))).unwrap().starts_with("caught up"));

        // Partitions that move are caught up with again.
        let line = lines.next(at(101), &none);
        assert_eq!(line.unwrap(), "waiting for the group to assign partitions");
        lines.hear(&assigned(), at(103));
        assert_eq!(lines.next(at(104), &reading(3090, Some(5))), None);
        assert!(lines.next(at(105), &reading(3095, Some(0))).unwrap().starts_with("caught up"));
    }

    #[test]
    fn a_delay_has_a_unit_of_its_size() {
        let delays = [0.4, 119.9, 120.0, 7199.0, 7200.0, 172_799.0, 172_800.0].map(delay);
        assert_eq!(delays, ["0s", "119s", "2m", "119m", "2h", "47h", "2d"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_that_waits_says_so_after_two_seconds() {
        let (progress, printed) = (RunProgress::start(), Mutex::new(Vec::new()));
        progress.hear(&DaemonEvent::Needs("the CQL nodes of `scylla://a:1/fleet`".into()));
        let print = |line: &str| {
            printed.lock().unwrap().push((progress.began.elapsed().as_secs(), line.to_owned()));
        };
        let shown = progress.show(LogStatus::default, print);
        assert!(tokio::time::timeout(at(11), shown).await.is_err(), "it goes by the clock");
        let printed = printed.into_inner().unwrap();
        let line = "waiting for the CQL nodes of `scylla://a:1/fleet`".to_owned();
        assert_eq!(printed, [(2, line)]);
    }
}
