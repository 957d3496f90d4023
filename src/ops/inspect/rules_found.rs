//! The rules by which trips begin and end: what fits, and what comes out under these and others.

use serde::Serialize;

use super::InspectRequest;
use super::choose::Choice;
use super::outcome::Proposal;
use super::tally::Tally;
use crate::advice::{self, Advice, SampleSet, System, TripsFound};
use crate::model::limits::SegmentRules;
use crate::settings::Setting;

/// The trips of the records under some rules.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TripsUnder {
    /// `proposed`, `default`, or the name of a system.
    pub rules: &'static str,
    /// The rules as flags.
    pub flags: String,
    /// Number of trips, but for short ones.
    pub trips: usize,
    /// Trips a day of a device that has samples on it.
    pub trips_per_device_day: f64,
    /// Median of their durations, s.
    pub median_s: Option<f64>,
    /// Number of trips of less than 100 m.
    pub short_trips: usize,
}

impl TripsUnder {
    fn new(name: &'static str, samples: &SampleSet, rules: &SegmentRules) -> Self {
        let found = TripsFound::new(samples, rules);
        #[expect(clippy::cast_precision_loss, reason = "a duration stays far below 2^53 ms")]
        let median_s = found.median_ms().map(|ms| ms as f64 / 1000.0);
        Self {
            rules: name,
            flags: advice::flags(rules),
            trips: found.count(),
            trips_per_device_day: (found.per_device_day() * 100.0).round() / 100.0,
            median_s,
            short_trips: found.short,
        }
    }
}

/// What the samples of a choice say about rules.
pub(super) struct RulesFound {
    samples: SampleSet,
    advice: Advice,
    /// The system whose rules are wanted instead of those that fit.
    system: Option<System>,
    /// The rules that the printed command has.
    proposed: SegmentRules,
}

impl RulesFound {
    pub(super) fn new(choice: &Choice, request: &InspectRequest) -> Self {
        let samples = choice.tally.sample_set();
        let advice = Advice::new(&samples);
        let InspectRequest { system, settings, .. } = request;
        let rules = system.map_or(advice.rules, System::rules);
        let given = choice.rules.segments();
        let proposed = advice::rules_over(&rules, &given, |rule| settings.is_given(rule));
        Self { samples, advice, system: *system, proposed }
    }

    /// The flags for the rules.
    pub(super) fn flags(&self) -> Vec<Proposal> {
        let proposal = |rule, value: &str, why: &str| {
            let setting = Setting::by_key(rule).expect("rules are settings");
            Proposal::new(setting.flag.as_str(), value, why)
        };
        if let Some(system) = self.system {
            let why = format!("rules of {system}: {}", system.meaning());
            let settings = advice::settings(&system.rules());
            return settings.map(|(rule, value)| proposal(rule, &value, &why)).into();
        }
        let advised = self.advice.advised.iter();
        advised.map(|it| proposal(it.rule, &it.value, &it.why)).collect()
    }

    /// What comes out under the proposed rules, the defaults, and those of other systems.
    pub(super) fn compare(&self) -> Vec<TripsUnder> {
        let under = |name, rules: &SegmentRules| TripsUnder::new(name, &self.samples, rules);
        let proposed = under("proposed", &self.proposed);
        let others = System::ALL.iter().map(|system| under(system.name(), &system.rules()));
        let default = under("default", &SegmentRules::default());
        [proposed, default].into_iter().chain(others).collect()
    }
}

/// What is wrong with the ignition, if it is.
pub(super) fn ignition_fault(tally: &Tally) -> Option<String> {
    let motion = Advice::new(&tally.sample_set()).motion;
    motion.is_ignition_wrong().then(|| {
        format!(
            "the ignition is off in {} of {} samples of devices that move, so it would end their \
             trips: correct it at the producer; until then it is not read, with --map \
             ignition=none",
            motion.under_way_off, motion.under_way
        )
    })
}
