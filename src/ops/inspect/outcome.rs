//! What an inspection found.

use std::collections::BTreeMap;

use serde::Serialize;

use super::InspectRequest;
use super::choose::{Choice, Chosen, FieldSource};
use super::proposals::{flags, notes};
use super::records::{InputRecords, TopicRecords};
use super::rules_found::{RulesFound, TripsUnder};
use super::tally::{DeadSamples, Tally};
use super::unread::Partial;
use crate::model::reading::ReadingKind;
use crate::model::rules::Rules;
use crate::model::stats::{LogHistogram, SpeedFactor, unit_of_factor};
use crate::model::time::format_time;
use crate::ops::{BadData, NoResult};
use crate::settings::Settings;
use crate::source::file::{Head, InputFormat};
use crate::source::{Decoder, Outline, field_names, names_of_field};

/// Upper bounds of the bins of intervals, s; the last bin has none.
const BINS_S: [f64; 14] = [
    1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 21_600.0, 86_400.0,
];

/// Maximum number of names that are listed.
const MAX_OTHERS: usize = 40;

/// What was looked at.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum InputFound {
    /// Files.
    Files {
        /// The files that were read.
        files: Vec<FileFound>,
        /// Number of files that were not read, because those before them have enough records.
        files_not_read: usize,
    },
    /// A topic.
    Topic {
        /// Its name.
        topic: String,
        /// Number of its partitions.
        partitions: i32,
        /// Number of partitions whose first records were read.
        partitions_read: usize,
        /// Number of records that were read.
        log_records: usize,
    },
}

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FileFound {
    /// Path, or `-`.
    pub name: String,
    /// Name of its format, as `--input-format` has it.
    pub format: Option<&'static str>,
    /// Encoding of its text.
    pub encoding: &'static str,
    /// Name of its compression.
    pub compression: Option<&'static str>,
    /// Number of bytes read, after decompression.
    pub bytes: usize,
    /// Whether it was read to its end.
    pub whole: bool,
}

/// A field of samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FieldFound {
    /// Canonical name.
    pub field: &'static str,
    /// Where it is in the records, if records name their values.
    pub from: Option<String>,
    /// Number of samples that have it.
    pub samples: u64,
    /// Unit of its values in the records, as settings name it.
    pub unit: Option<&'static str>,
}

/// Intervals up to a bound, and above that of the bin before.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IntervalBin {
    /// The bound, s; `None` for the last bin.
    pub upto_s: Option<f64>,
    /// Number of intervals.
    pub count: u64,
}

/// How numbers are spread, each with an error of 1 %.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// How many there are.
    pub count: u64,
    /// Median, s.
    pub median_s: Option<f64>,
    /// What 95 % are at most, s.
    pub p95_s: Option<f64>,
    /// Largest, s.
    pub max_s: Option<f64>,
}

/// Samples that arrive after newer ones of their device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Late {
    /// Share of all samples, 0 to 1.
    pub share: f64,
    /// How far they are behind the newest sample of their device.
    #[serde(flatten)]
    pub behind: Spread,
}

/// Samples that standing devices keep sending.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeartbeatFound {
    /// The interval, s.
    pub interval_s: f64,
    /// Number of such intervals.
    pub count: u64,
    /// Number of stops in which devices kept sending.
    pub stops: u64,
}

/// How reported speeds compare with the speed along the track.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SpeedFound {
    /// Median of reported speed, as read, divided by the speed along the track.
    pub factor: f64,
    /// Number of legs compared.
    pub legs: u64,
    /// Unit in which speeds are read.
    pub read_as: &'static str,
    /// Unit that the factor names; `None` if no unit explains it.
    pub unit: Option<&'static str>,
}

/// A flag to read the input with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Proposal {
    /// The flag, with its dashes.
    pub flag: &'static str,
    /// Its value; `None` for a flag without one.
    pub value: Option<String>,
    /// Why.
    pub why: String,
}

impl Proposal {
    /// A flag with a value.
    pub(super) fn new(flag: &'static str, value: &str, why: &str) -> Self {
        Self { flag, value: Some(value.to_owned()), why: why.to_owned() }
    }

    /// Whether its setting is given.
    pub(super) fn is_given(&self, settings: &Settings) -> bool {
        settings.is_given(&self.flag.trim_start_matches('-').replace('-', "_"))
    }
}

/// What an inspection found. Clients parse it: names and order are fixed.
#[derive(Clone, Debug, Serialize)]
pub struct InspectOutcome {
    /// What was looked at.
    #[serde(flatten)]
    pub input: InputFound,
    /// What reads the records: `standard names`, `preset`, `map` or `given`; `None`: nothing does.
    pub reads: Option<&'static str>,
    /// Name of the preset that fits.
    pub preset: Option<&'static str>,
    /// Field map that fits, by field.
    pub map: BTreeMap<String, String>,
    /// Number of records, and of samples in records that have several.
    pub records: u64,
    /// Number of samples that can be used.
    pub samples: u64,
    /// Number of records that are not samples.
    pub skipped: u64,
    /// Number of samples that are not to be used, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Samples that cannot be used, by reason.
    pub dead_letters: BTreeMap<&'static str, DeadSamples>,
    /// The fields of samples.
    pub fields: Vec<FieldFound>,
    /// Names in records that no field is read from.
    pub other_names: Vec<String>,
    /// Number of devices.
    pub devices: usize,
    /// Earliest device time.
    pub from: Option<String>,
    /// Latest device time.
    pub to: Option<String>,
    /// Intervals between samples of a device.
    pub intervals: Spread,
    /// Histogram of the intervals.
    pub histogram: Vec<IntervalBin>,
    /// Samples that arrive late.
    pub late: Late,
    /// Samples that standing devices keep sending; `None` if they do not.
    pub heartbeat: Option<HeartbeatFound>,
    /// Number of samples at latitude and longitude 0.
    pub zero_positions: u64,
    /// Number of legs that are faster than vehicles.
    pub jumps: u64,
    /// Reported speeds; `None` if too few can be compared.
    pub speed: Option<SpeedFound>,
    /// Flags to read the input with, in the order of the command line.
    pub flags: Vec<Proposal>,
    /// The trips of these records: under the rules that the flags set, and under others.
    pub trips_under: Vec<TripsUnder>,
    /// Required fields that were not found.
    pub missing: Vec<&'static str>,
    /// What else is known, if nothing reads the records.
    pub partial: Option<Partial>,
    /// What else to know.
    pub notes: Vec<String>,
}

impl InspectOutcome {
    /// Checks that samples were found.
    ///
    /// # Errors
    /// There is no record, or none can be used.
    pub fn check(&self) -> anyhow::Result<()> {
        if self.samples > 0 {
            return Ok(());
        }
        if self.records == 0 && self.notes.is_empty() {
            return Err(NoResult("the input has no record".into()).into());
        }
        let (records, skipped) = (self.records, self.skipped);
        let problem = match records > 0 && skipped == records {
            true => format!("none of the {records} records is a position"),
            false => format!("no sample was found in {records} records"),
        };
        Err(BadData(problem).into())
    }
}

/// What was found, from what was chosen.
pub(super) fn outcome(
    records: &InputRecords,
    chosen: Chosen,
    request: &InspectRequest,
) -> InspectOutcome {
    let mut notes = notes(records, &chosen);
    let settings = &request.settings;
    let partial = (chosen.choice.tally.samples() == 0).then(|| Partial::new(&chosen, settings));
    let missing = chosen.partial.as_ref().map(|(map, _)| map.missing.clone()).unwrap_or_default();
    let Chosen { choice, outline, problem, .. } = chosen;
    let stats = &choice.tally.stats;
    let samples = stats.samples;
    let is_read = samples > 0;
    let found = is_read.then(|| RulesFound::new(&choice, request));
    let (reads, preset, map) = match &choice.fit {
        _ if !is_read => (None, None, BTreeMap::new()),
        FieldSource::Given => (Some("given"), None, BTreeMap::new()),
        FieldSource::Standard => (Some("standard names"), None, BTreeMap::new()),
        FieldSource::Preset(preset) => (Some("preset"), Some(preset.name), BTreeMap::new()),
        FieldSource::Map(_) => (Some("map"), None, choice.rules.fields.clone()),
    };
    let fields = if is_read { fields(&choice, &outline) } else { Vec::new() };
    if let (Some(problem), 0) = (problem, samples) {
        notes.insert(0, problem);
    }
    InspectOutcome {
        input: input(records, &choice.rules),
        reads,
        preset,
        map,
        records: choice.tally.delivered,
        samples,
        skipped: choice.tally.skipped,
        dropped: by_name(&choice.tally.dropped, |reason| reason.name()),
        dead_letters: by_name(&choice.tally.dead, |reason| reason.name()),
        other_names: other_names(&fields, &outline),
        fields,
        devices: stats.devices(),
        from: stats.span.map(|span| format_time(span.0.ms())),
        to: stats.span.map(|span| format_time(span.1.ms())),
        intervals: spread(&stats.intervals),
        histogram: bins(&stats.intervals),
        late: late(&choice.tally),
        heartbeat: stats.heartbeat().map(|it| HeartbeatFound {
            interval_s: it.interval_s,
            count: it.count,
            stops: stats.stops,
        }),
        zero_positions: stats.zero_positions,
        jumps: stats.jumps,
        speed: speed(&choice),
        flags: found
            .as_ref()
            .map_or_else(Vec::new, |found| flags(&choice, found, records.is_guessed(), settings)),
        trips_under: found.as_ref().map_or_else(Vec::new, RulesFound::compare),
        missing,
        partial,
        notes,
    }
}

fn by_name<K: Copy, V: Clone>(
    values: &BTreeMap<K, V>,
    name: impl Fn(K) -> &'static str,
) -> BTreeMap<&'static str, V> {
    values.iter().map(|(key, value)| (name(*key), value.clone())).collect()
}

fn input(records: &InputRecords, rules: &Rules) -> InputFound {
    match records {
        InputRecords::Files { heads, encoding, .. } => {
            let decoder = Decoder::new(rules).ok();
            let file = |(head, format): (&Head, Option<InputFormat>)| {
                let is_text = decoder.as_ref().is_none_or(|decoder| head.is_text(decoder));
                let format = format.filter(|_| is_text).map(InputFormat::name);
                FileFound {
                    name: head.name(),
                    format: format.or((!is_text).then(|| rules.decode.name())),
                    encoding: if is_text { head.encoding(*encoding) } else { "binary" },
                    compression: head.compression,
                    bytes: head.bytes(),
                    whole: !head.is_cut && head.damage.is_none(),
                }
            };
            let files = heads.list.iter().zip(records.formats(rules)).map(file).collect();
            InputFound::Files { files, files_not_read: heads.unread }
        }
        InputRecords::Topic(TopicRecords { topic, partitions, first, .. }) => InputFound::Topic {
            topic: topic.clone(),
            partitions: *partitions,
            partitions_read: first.partitions(),
            log_records: first.count(),
        },
    }
}

/// Three digits: the statistics have an error of 1 %.
fn rounded(number: f64) -> f64 {
    let digits = 2.0 - libm::floor(libm::log10(number.abs().max(1e-9)));
    let scale = libm::pow(10.0, digits.clamp(0.0, 6.0));
    (number * scale).round() / scale
}

fn spread(histogram: &LogHistogram) -> Spread {
    let quantile = |part| histogram.quantile(part, 100).map(rounded);
    let (median_s, p95_s, max_s) = (quantile(50), quantile(95), quantile(100));
    Spread { count: histogram.count(), median_s, p95_s, max_s }
}

/// The bins from the first to the last that is not empty.
fn bins(histogram: &LogHistogram) -> Vec<IntervalBin> {
    // An interval of a bound belongs below it, in spite of the error of the histogram.
    let lower = std::iter::once(0.0).chain(BINS_S).map(|bound| bound * 1.01);
    let bin = |(lower, upper): (f64, f64)| IntervalBin {
        upto_s: upper.is_finite().then_some(upper),
        count: histogram.count_between(lower, (upper * 1.01).next_down()),
    };
    let uppers = BINS_S.into_iter().chain([f64::INFINITY]);
    let bins: Vec<_> = lower.zip(uppers).map(bin).collect();
    let first = bins.iter().position(|bin| bin.count > 0).unwrap_or(bins.len());
    let last = bins.iter().rposition(|bin| bin.count > 0).map_or(first, |last| last + 1);
    bins[first..last].to_vec()
}

fn late(tally: &Tally) -> Late {
    let behind = spread(&tally.stats.lateness);
    #[expect(clippy::cast_precision_loss, reason = "at most 10,000")]
    let share = behind.count as f64 / tally.samples().max(1) as f64;
    Late { share: (share * 1e4).round() / 1e4, behind }
}

/// How reported speeds compare, if enough legs do.
pub(super) fn speed(choice: &Choice) -> Option<SpeedFound> {
    let SpeedFactor { factor, legs, .. } = SpeedFactor::new(&choice.tally.stats.speed_factors)?;
    let read_as = choice.rules.speed_unit;
    let unit = unit_of_factor(factor, read_as).map(|unit| unit.name());
    Some(SpeedFound { factor: rounded(factor), legs, read_as: read_as.name(), unit })
}

/// The sources of a field that records have, as the map or the standard names say.
fn sources(field: &str, rules: &Rules, outline: &Outline) -> Vec<String> {
    let has = |source: &str| {
        let is_it = |name: &str| {
            name == source || name.strip_prefix('/') == Some(source) || {
                let element = name.rfind("/*").map(|at| &name[at + 2..]);
                element.is_some_and(|it| it == source || it.strip_prefix('/') == Some(source))
            }
        };
        outline.names().any(|(name, _)| is_it(name))
    };
    let named: Vec<String> = match rules.fields.get(field) {
        Some(text) => text.split('|').map(|source| source.trim().to_owned()).collect(),
        None => names_of_field(field).iter().map(|name| (*name).to_owned()).collect(),
    };
    let mut found: Vec<_> = named.iter().filter(|source| has(source)).cloned().collect();
    if found.is_empty() && rules.fields.contains_key(field) {
        found = named;
    }
    found
}

fn fields(choice: &Choice, outline: &Outline) -> Vec<FieldFound> {
    let Choice { tally, rules, .. } = choice;
    let field = |field: &'static str| {
        let reading = ReadingKind::ALL.iter().position(|kind| kind.name() == field);
        let samples = match (field, reading) {
            (_, Some(at)) => tally.readings[at],
            ("driver", _) => tally.drivers,
            ("ignition", _) => tally.ignitions,
            _ => tally.samples(),
        };
        let from = sources(field, rules, outline);
        let is_number = |source: &String| {
            outline.names().any(|(name, seen)| name.ends_with(source.as_str()) && seen.numbers > 0)
        };
        let unit = match field {
            "time" if from.iter().any(is_number) => Some(rules.time_unit.name()),
            "speed" => Some(rules.speed_unit.name()),
            _ => None,
        };
        let from = (!from.is_empty()).then(|| from.join("|"));
        (samples > 0).then_some(FieldFound { field, from, samples, unit })
    };
    field_names().into_iter().filter_map(field).collect()
}

/// The names in records that no field is read from.
fn other_names(fields: &[FieldFound], outline: &Outline) -> Vec<String> {
    let sources = fields.iter().filter_map(|field| field.from.as_deref());
    let used: Vec<&str> = sources.flat_map(|from| from.split('|')).collect();
    let is_used = |name: &str| used.iter().any(|source| name.ends_with(source));
    let others = outline.names().map(|(name, _)| name).filter(|name| !is_used(name));
    others.take(MAX_OTHERS).map(str::to_owned).collect()
}
