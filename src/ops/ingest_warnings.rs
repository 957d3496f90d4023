//! Warnings about what an import read: values that decode, but are hardly meant so.

use serde::Serialize;

use crate::model::rules::Rules;
use crate::model::stats::{
    JUMP_MPS, MIN_HEARTBEATS, SampleStats, SeenSamples, SpeedFactor, unit_of_factor,
};
use crate::model::text_encoding::TextEncoding;
use crate::model::time::format_duration;
use crate::model::visible::visible;
use crate::pipeline::processor::LimitedTrips;
use crate::pipeline::rules_watch::{IGNITION_LOST, RulesWarning, RulesWatch, ignition_message};
use crate::source::Batch;
use crate::source::file::CutFile;
use crate::telemetry::counts::SampleCounts;

/// Number of samples, from the beginning of an import, that warnings look at: it bounds their cost,
/// and their memory to 5 MB.
const MAX_SAMPLES: usize = 100_000;

/// Something that is hardly meant so. Clients parse it: names and order are fixed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// `all_skipped`, `conflicting`, `file_cut`, `heartbeat_near_gap`, `max_samples_reached`,
    /// `speed_unit`, `jumps`, `swapped`, `nothing_moves`, `rules_unlike_data`, `ignition_lost`,
    /// `encoding`, `repeated_hour` or `no_records`.
    pub warning: &'static str,
    /// Number of records, samples, bytes, intervals, trips or legs that show it.
    pub count: u64,
    /// What was found, with the values, and what to do.
    pub message: String,
}

impl From<RulesWarning> for Warning {
    fn from(RulesWarning { warning, count, message }: RulesWarning) -> Self {
        Self { warning, count, message }
    }
}

/// Looks at the samples of an import.
pub(super) struct ImportWatch {
    seen: SeenSamples,
    /// The first sample that would be valid with latitude and longitude exchanged, and the number
    /// of them.
    swapped: Option<(String, u64)>,
    rules: RulesWatch,
}

impl ImportWatch {
    pub(super) fn new(rules: &Rules) -> Self {
        Self { seen: SeenSamples::default(), swapped: None, rules: RulesWatch::new(rules) }
    }

    /// Observes the samples of a batch that trips may contain.
    pub(super) fn observe(&mut self, batch: &Batch) {
        if self.seen.len() >= MAX_SAMPLES {
            return;
        }
        for entry in &batch.entries {
            let error = entry.content.as_ref().err().and_then(|none| none.error());
            if let Some(error) = error.filter(|error| error.looks_swapped) {
                self.swapped.get_or_insert_with(|| (error.message.clone(), 0)).1 += 1;
            }
        }
        let usable: Vec<_> = self.rules.usable(batch).collect();
        for (device, decoded) in usable {
            self.seen.push(device, decoded.sample);
            self.rules.add(device, decoded);
        }
    }

    /// The warnings, after the last batch.
    pub(super) fn warnings(
        &mut self,
        rules: &Rules,
        counts: &SampleCounts,
        limited: &LimitedTrips,
    ) -> Vec<Warning> {
        let lost = ignition_lost(counts);
        let stats = self.seen.stats();
        let unlike = self.rules.finish();
        let unlike = unlike.filter(|unlike| lost.is_none() || unlike.warning != IGNITION_LOST);
        let warnings = [
            all_skipped(counts),
            conflicting(counts),
            heartbeat_near_gap(&stats, rules),
            limit_warning(rules, limited),
            speed_unit(&stats, rules),
            jumps(&stats, rules),
            swapped(self.swapped.as_ref(), stats.samples),
            lost,
            unlike.map(Warning::from),
        ];
        warnings.into_iter().flatten().collect()
    }
}

/// Other records than those of samples, or another map or preset than theirs.
fn all_skipped(counts: &SampleCounts) -> Option<Warning> {
    let count = counts.skipped;
    if count == 0 || count < counts.delivered {
        return None;
    }
    let message = format!(
        "all {count} records were skipped: the preset, or --map when=, reads none of them; `tstar \
         inspect` finds what does"
    );
    Some(Warning { warning: "all_skipped", count, message })
}

/// Many samples that differ from the kept sample of their device and time.
#[must_use]
pub fn conflicting(counts: &SampleCounts) -> Option<Warning> {
    let message = counts.conflicts.warning(counts.delivered)?;
    Some(Warning { warning: "conflicting", count: counts.conflicts.count, message })
}

/// A file that was cut while it was read: what it held beyond is lost.
pub(super) fn file_cut(CutFile { name, before, read }: &CutFile) -> Warning {
    let count = before - read;
    let message = format!(
        "{name} had {before} bytes when it was opened and ended after {read}: it was cut while it \
         was read, and what it held beyond is not imported; import the rotated copy, too, and \
         rotate by renaming"
    );
    Warning { warning: "file_cut", count, message }
}

/// Text that is not UTF-8, and may be of another encoding than it is read in.
pub(super) fn guessed_encoding(files: &[String]) -> Option<Warning> {
    let first = visible(files.first()?);
    let message = format!(
        "the text of {first} is not UTF-8 and was read as {}; if accents in names are wrong, \
         import it into a new store with another --encoding, such as latin2",
        TextEncoding::WINDOWS_1252.name()
    );
    Some(Warning { warning: "encoding", count: files.len() as u64, message })
}

/// Rows in a repeated hour that are not in time order: whether they are of the first or the second
/// one cannot be known.
pub(super) fn late_in_repeated_hours(count: u64) -> Option<Warning> {
    let message = format!(
        "rows of a device are not in time order in an hour that clocks repeat, so that \
         --time-ambiguous order may be wrong by an hour there; rows that are earlier than one \
         before them: {count}; sort the rows of each device by time, or export times with an \
         offset, and import into a new store"
    );
    (count > 0).then_some(Warning { warning: "repeated_hour", count, message })
}

/// Words that name no state of an ignition: what they would end is not seen.
fn ignition_lost(counts: &SampleCounts) -> Option<Warning> {
    let count = counts.unknown_readings.get("ignition").copied().unwrap_or(0);
    if count == 0 || count * 100 < counts.delivered {
        return None;
    }
    let message = ignition_message(count, counts.delivered);
    Some(Warning { warning: IGNITION_LOST, count, message })
}

/// Latitudes beyond 90 among valid ones: where few longitudes exceed 90, most samples decode. A few
/// are bad fixes.
fn swapped(found: Option<&(String, u64)>, valid: u64) -> Option<Warning> {
    let (first, count) = found.filter(|(_, count)| count * 100 >= valid)?;
    let first = first.split(';').next().unwrap_or_default();
    let message = format!(
        "{count} samples would be valid only with lat and lon exchanged (the first: {first}), so \
         the other {valid} may be exchanged as well: if so, import into a new store with the names \
         exchanged in --map"
    );
    (valid > 0).then_some(Warning { warning: "swapped", count: *count, message })
}

/// Files without a record: the wrong file, or one that was not written yet.
pub(super) fn no_records(files: &[String]) -> Warning {
    let shown: Vec<_> = files.iter().map(|file| format!("`{}`", visible(file))).collect();
    let message = format!(
        "no new record in {}: it is empty, or an earlier import has read all of it; check that it \
         is the right file",
        shown.join(", ")
    );
    Warning { warning: "no_records", count: 0, message }
}

/// A heartbeat of standing devices that is about as long as `max_gap` breaks trips at random.
fn heartbeat_near_gap(stats: &SampleStats, rules: &Rules) -> Option<Warning> {
    #[expect(clippy::cast_precision_loss, reason = "a gap stays far below 2^53 ms")]
    let gap_s = rules.max_gap_ms as f64 / 1000.0;
    let between = |from: f64, to: f64| stats.standing.count_between(gap_s * from, gap_s * to);
    let count = between(0.9, 1.1);
    if count < MIN_HEARTBEATS || count * 2 < between(0.5, 2.0) {
        return None;
    }
    let gap = format_duration(rules.max_gap_ms);
    let message = format!(
        "{count} intervals between samples of standing devices are about as long as --max-gap, \
         {gap}: such a heartbeat divides stops, and trips without speed and ignition, at random; \
         choose a --max-gap well below or above it"
    );
    Some(Warning { warning: "heartbeat_near_gap", count, message })
}

fn limit_warning(rules: &Rules, limited: &LimitedTrips) -> Option<Warning> {
    let count = limited.count();
    let message = format!(
        "{count} trips have --max-samples, {}; what else lies in them is in the dead letters: either \
         their device never falls silent, or the limit is too low",
        rules.max_samples
    );
    let warning = "max_samples_reached";
    (count > 0).then_some(Warning { warning, count: count as u64, message })
}

/// Reported speeds that differ from those along the track by the factor of another unit.
fn speed_unit(stats: &SampleStats, rules: &Rules) -> Option<Warning> {
    let SpeedFactor { factor, legs, agreeing } = SpeedFactor::new(&stats.speed_factors)?;
    let unit = unit_of_factor(factor, rules.speed_unit).filter(|unit| *unit != rules.speed_unit)?;
    let (read_as, fits) = (rules.speed_unit.name(), unit.name());
    let message = format!(
        "reported speeds, read as {read_as}, are {factor:.1} times the speed along the track \
         (median of {legs} legs): they are in {fits}, so import into a \
         new store with --speed-unit {fits}"
    );
    Some(Warning { warning: "speed_unit", count: agreeing, message })
}

/// Bad fixes add to the distance of trips, unless a rule leaves their legs out.
fn jumps(stats: &SampleStats, rules: &Rules) -> Option<Warning> {
    let count = stats.jumps;
    if count == 0 || rules.max_leg_speed_cmps.is_some() {
        return None;
    }
    let message = format!(
        "legs between samples that are faster than {JUMP_MPS} m/s: {count}; they count for the \
         distance of their trips, and --max-leg-speed {JUMP_MPS} leaves them out"
    );
    Some(Warning { warning: "jumps", count, message })
}
