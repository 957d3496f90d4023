//! Progress bars, and status lines about events.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::exit;
use crate::kafka::consumer::ConsumerEvent;
use crate::log::ReadProgress;
use crate::pipeline::daemon::{DaemonEvent, OnEvent};
use crate::pipeline::processor::SampleCounts;
use crate::source::Batch;
use crate::telemetry::logging;

/// Whether progress is shown: on stderr, if that is a terminal.
pub(crate) fn is_shown() -> bool {
    std::io::stderr().is_terminal()
}

/// The progress bar of a use case that reads files: on stderr, hidden unless that is a terminal.
pub(crate) struct FileProgress {
    bar: ProgressBar,
    /// The file that is being read.
    file: Arc<str>,
    /// Bytes of the files before it.
    before: u64,
    /// Bytes read of it.
    in_file: u64,
}

impl From<ProgressBar> for FileProgress {
    fn from(bar: ProgressBar) -> Self {
        Self { bar, file: Arc::from(""), before: 0, in_file: 0 }
    }
}

impl Default for FileProgress {
    fn default() -> Self {
        Self::from(ProgressBar::hidden())
    }
}

impl ReadProgress for FileProgress {
    fn start(&mut self, total_bytes: Option<u64>) {
        *self = Self::from(match (is_shown(), total_bytes) {
            (false, _) => ProgressBar::hidden(),
            (true, Some(bytes)) => ProgressBar::new(bytes).with_style(style(
                "{bar:30} {bytes}/{total_bytes} {msg} {bytes_per_sec} {eta} left",
            )),
            (true, None) => ProgressBar::new_spinner()
                .with_style(style("{spinner} {bytes} {msg} {bytes_per_sec}")),
        });
    }

    fn update(&mut self, batch: &Batch, counts: &SampleCounts) {
        if batch.lines_known > 0 {
            let (file, lines) = (&batch.origin, batch.lines_known);
            let line = format!("{file}: {lines} lines were stored by an earlier run; continuing");
            self.bar.suspend(|| exit::print_status(&line));
        }
        if batch.origin != self.file {
            self.file = Arc::clone(&batch.origin);
            self.before += std::mem::take(&mut self.in_file);
        }
        self.in_file = batch.bytes_read;
        self.bar.set_position(self.before + self.in_file);
        self.bar.set_message(format!("{} samples", counts.delivered));
    }

    fn finish(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The style of a bar.
pub(crate) fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is a constant that is right")
}

/// Minimum time between two prints of the same warning.
const REPEAT_INTERVAL: Duration = Duration::from_secs(10);

/// Prints or logs events. Repeated warnings are limited: an unreachable server causes several a
/// second.
pub(crate) fn notify() -> OnEvent {
    let printed: Mutex<BTreeMap<String, Instant>> = Mutex::default();
    let warned_of_rules = AtomicBool::new(false);
    Arc::new(move |event| {
        if matches!(event, DaemonEvent::Needs(_)) {
            // Only who watches needs it: most of it takes milliseconds.
            return;
        }
        // The partitions of a topic have the same rules.
        if matches!(event, DaemonEvent::Rules(_)) && warned_of_rules.swap(true, Ordering::Relaxed) {
            return;
        }
        let text = event.to_string();
        if matches!(
            event,
            DaemonEvent::Waiting(_) | DaemonEvent::Consumer(ConsumerEvent::Warning(_))
        ) {
            let mut printed = printed.lock().expect("no holder of the lock panics");
            printed.retain(|_, at| at.elapsed() < REPEAT_INTERVAL);
            if printed.contains_key(&text) {
                return;
            }
            printed.insert(text.clone(), Instant::now());
        }
        if logging::is_on() {
            log_event(&event);
        } else {
            exit::print_status(&text);
        }
    })
}

/// Logs an event of the daemon at its level.
fn log_event(event: &DaemonEvent) {
    match event {
        DaemonEvent::Consumer(ConsumerEvent::Stopped { partition, .. }) => {
            tracing::error!(partition, "{event}")
        }
        DaemonEvent::Consumer(
            ConsumerEvent::Assigned { partition, .. }
            | ConsumerEvent::Revoked { partition, late: false, .. }
            | ConsumerEvent::CaughtUp { partition },
        ) => {
            tracing::info!(partition, "{event}");
        }
        DaemonEvent::Consumer(
            ConsumerEvent::Revoked { partition, .. }
            | ConsumerEvent::Lost { partition }
            | ConsumerEvent::Expired { partition, .. }
            | ConsumerEvent::Behind { partition, .. },
        ) => tracing::warn!(partition, "{event}"),
        DaemonEvent::Notice(_) => tracing::info!("{event}"),
        _ => tracing::warn!("{event}"),
    }
}

/// Prints or logs events, except for assignments, which a one-shot command has no use for.
pub(crate) fn notify_warnings() -> OnEvent {
    let notify = notify();
    Arc::new(move |event| {
        if !matches!(event, DaemonEvent::Consumer(ConsumerEvent::Assigned { .. })) {
            notify(event);
        }
    })
}
