//! Compares the rules of a store with what the first samples show.

use std::sync::{Arc, Mutex};

use crate::advice::{self, Advice, RuleAdvice, SampleSet, TripsFound};
use crate::model::limits::{ClockGuard, FixFilter, SegmentRules};
use crate::model::rules::Rules;
use crate::model::sample::Sample;
use crate::segment::Class;
use crate::source::{Batch, DecodedSample};

/// Number of samples that are looked at: those that `inspect` sees. It bounds cost and memory.
const MAX_SAMPLES: usize = 10_000;

/// Minimum number of samples by which it is judged that none moves.
const MIN_SAMPLES: usize = 20;

/// Minimum number of trips under rules that fit.
const MIN_TRIPS: usize = 10;

/// Rules that hardly suit the samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RulesWarning {
    /// `nothing_moves`, `rules_unlike_data` or `ignition_lost`.
    pub warning: &'static str,
    /// Number of samples or trips that show it.
    pub count: u64,
    /// What was found, with the values, and what to do.
    pub message: String,
}

/// Name of the warning that ignitions cannot be read.
pub(crate) const IGNITION_LOST: &str = "ignition_lost";

/// What words mean that name no state of an ignition.
pub(crate) fn ignition_message(count: u64, samples: u64) -> String {
    format!(
        "{count} of {samples} samples have an ignition that is not known as on (true, 1, on, yes) \
         or off (false, 0, off, no): they are read without it, and trips do not end where it says \
         so; correct it at the producer, or map another field, into a new store"
    )
}

/// Collects the first samples, and compares them with the rules.
pub(crate) struct RulesWatch {
    rules: SegmentRules,
    guard: ClockGuard,
    fixes: FixFilter,
    /// The samples with their devices, in arrival order.
    seen: Vec<(Box<str>, Sample)>,
    /// Number of them whose ignition is neither on nor off.
    lost: u64,
}

impl RulesWatch {
    /// Has seen nothing.
    pub(crate) fn new(rules: &Rules) -> Self {
        let (guard, fixes) = (rules.guard(), rules.fixes());
        Self { rules: rules.segments(), guard, fixes, seen: Vec::new(), lost: 0 }
    }

    /// The samples of a batch that trips may contain, with their devices.
    pub(crate) fn usable<'b>(
        &self,
        batch: &'b Batch,
    ) -> impl Iterator<Item = (&'b str, &'b DecodedSample)> {
        batch.entries.iter().filter_map(|entry| {
            let decoded = entry.content.as_ref().ok()?;
            let sample = &decoded.sample;
            let is_usable = self.guard.judge(sample.time_ms, entry.log_time_ms).is_ok()
                && self.fixes.judge(sample).is_ok();
            is_usable.then(|| (batch.text(&decoded.device), decoded))
        })
    }

    /// Adds a sample of a device, unless enough were seen.
    pub(crate) fn add(&mut self, device: &str, decoded: &DecodedSample) {
        if !self.is_full() {
            self.lost += u64::from(decoded.unknown.has_ignition());
            self.seen.push((device.into(), decoded.sample));
        }
    }

    fn is_full(&self) -> bool {
        self.seen.len() >= MAX_SAMPLES
    }

    /// Returns a warning by what was seen.
    pub(crate) fn finish(&mut self) -> Option<RulesWarning> {
        let seen = std::mem::take(&mut self.seen);
        let count = seen.len() as u64;
        if self.lost > 0 && self.lost * 100 >= count {
            let message = ignition_message(self.lost, count);
            return Some(RulesWarning { warning: IGNITION_LOST, count: self.lost, message });
        }
        let samples = SampleSet::new(seen);
        self.nothing_moves(&samples).or_else(|| self.unlike(&samples))
    }

    /// No sample moves, although devices do: there are no trips.
    fn nothing_moves(&self, samples: &SampleSet) -> Option<RulesWarning> {
        let class = |class| samples.iter().filter(|it| self.rules.class_of(it) == class).count();
        let (count, travelling) = (samples.len(), samples.travelling());
        if count < MIN_SAMPLES || travelling == 0 || class(Class::Moving) > 0 {
            return None;
        }
        let (off, slow) = (class(Class::Separator), class(Class::Slow));
        let remedy = match off >= slow {
            true => {
                "a producer that leaves the ignition out, such as a protobuf `bool` without \
                 `optional`, says that it is off: correct it, or read it nowhere with --map \
                 ignition=none, into a new store"
            }
            false => "check --speed-unit and --stop-speed, and import into a new store",
        };
        let message = format!(
            "none of the first {count} samples moves, although {travelling} devices travel, so \
             there are stops and no trips: {off} samples have the ignition off, {slow} report less \
             than --stop-speed; {remedy}; `tstar inspect` shows what comes out"
        );
        Some(RulesWarning { warning: "nothing_moves", count: count as u64, message })
    }

    /// Most trips under the rules that fit have other ends under those of the store.
    fn unlike(&self, samples: &SampleSet) -> Option<RulesWarning> {
        let advice = Advice::new(samples);
        let fitting = SegmentRules { max_samples: self.rules.max_samples, ..advice.rules };
        if fitting == self.rules || !advice.shows_stops() {
            return None;
        }
        let trips = TripsFound::new(samples, &fitting);
        if trips.count() < MIN_TRIPS {
            return None;
        }
        let (now, count) = (TripsFound::new(samples, &self.rules), trips.count());
        let common = trips.common(&now);
        if common * 10 >= count * 9 {
            return None;
        }
        let message = format!(
            "by the rules of the store, {}, the first {} samples form {}; by {} they form {}, and \
             only {common} of these {count} are the same{}. `tstar inspect` compares them; import \
             into a new store with the flags that fit, or use `tstar rebuild`",
            advice::flags(&self.rules),
            samples.len(),
            shown(&now),
            advice::flags(&fitting),
            shown(&trips),
            self.reason(&advice),
        );
        Some(RulesWarning { warning: "rules_unlike_data", count: (count - common) as u64, message })
    }

    /// Why a rule should be another.
    fn reason(&self, advice: &Advice) -> String {
        let current = advice::settings(&self.rules);
        let is_other = |it: &&RuleAdvice| {
            current.iter().any(|(rule, value)| *rule == it.rule && *value != it.value)
        };
        let mut others: Vec<_> = advice.advised.iter().filter(is_other).collect();
        // Standing and the ignition show most of a fleet.
        others.sort_by_key(|it| it.rule != "min_stop");
        let reason = |it: &&RuleAdvice| format!(". --{}: {}", it.rule.replace('_', "-"), it.why);
        others.first().map(reason).unwrap_or_default()
    }
}

/// The watch that the workers of a process share, so that its memory does not grow with their
/// number.
#[derive(Clone, Default)]
pub(crate) struct SharedWatch(Arc<Mutex<WatchState>>);

#[derive(Default)]
enum WatchState {
    #[default]
    New,
    Watching(RulesWatch),
    Done,
}

impl SharedWatch {
    /// Observes the samples of a batch that trips may contain. Once, when enough samples were seen,
    /// a task of its own looks at them, and calls `warn` if it finds something.
    pub(crate) fn observe(
        &self,
        rules: &Rules,
        batch: &Batch,
        warn: impl FnOnce(RulesWarning) + Send + 'static,
    ) {
        let mut state = self.0.lock().expect("no holder panics");
        if let WatchState::New = *state {
            *state = WatchState::Watching(RulesWatch::new(rules));
        }
        let WatchState::Watching(watch) = &mut *state else { return };
        let samples: Vec<_> = watch.usable(batch).collect();
        samples.into_iter().for_each(|(device, decoded)| watch.add(device, decoded));
        if watch.is_full()
            && let WatchState::Watching(mut watch) =
                std::mem::replace(&mut *state, WatchState::Done)
        {
            tokio::task::spawn_blocking(move || watch.finish().map(warn));
        }
    }
}

/// The number and length of trips.
fn shown(trips: &TripsFound) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a duration stays far below 2^53 ms")]
    let median = trips.median_ms().map(|ms| advice::about(ms as f64 / 1000.0));
    let median = median.map_or_else(String::new, |median| format!(" (median {median})"));
    format!("{:.1} trips a day of a device{median}", trips.per_device_day())
}
