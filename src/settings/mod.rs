//! Settings from flags, `TSTAR_*` variables, a file and defaults, in that order of precedence.
//!
//! Every setting is declared once, in `table.rs` or `http.rs`. The fields of [`Settings`] and the
//! entries of [`TABLE`] are made from the declaration, and from the table the flags, the variables,
//! the file's keys, `config show` and the table in `docs/reference.md`. All faults are reported at
//! once, each with its origin.

#[macro_use]
mod setting;

mod file;
mod http;
mod open;
mod rules;
mod schema;
mod secret;
mod size;
mod table;
mod tls;
mod values;

use std::collections::BTreeMap;
use std::fmt;

use crate::codec::MAX_SAMPLES;
use crate::model::nearest::nearest;
use crate::model::partitioner::Partitioner;
use crate::model::scalar::DeviceTime;
use crate::model::time::format_duration;
use crate::source::check_time_format;
use crate::timeline::DAY_MS;

pub use file::SettingsFile;
pub use http::HttpSettings;
pub use open::{Warnings, notify};
pub use secret::exposed_files;
pub use setting::{Group, Kind, Setting, TABLE};
pub use table::{FlushSettings, Settings};
pub use values::LogFormat;
use values::ms;

/// The key of a topic's records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyRule {
    /// The device id of their samples.
    #[default]
    DeviceId,
    /// Another stable id of the device.
    Any,
}

/// Environment variable with the password of `cql_user`, an alternative to a file.
const CQL_PASSWORD: &str = "TSTAR_CQL_PASSWORD";

/// Minimum of `memory`, bytes: below it the program's own buffers would take most of it.
const MIN_MEMORY: u64 = 64_000_000;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The default in [`TABLE`].
    Default,
    /// A line of the settings file.
    File {
        /// Path as given.
        name: String,
        /// Line number, from 1.
        line: usize,
    },
    /// An environment variable.
    Env {
        /// Its name.
        name: String,
    },
    /// A flag.
    Flag {
        /// Its name, with the dashes.
        name: String,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { name, line } => write!(f, "{name}:{line}"),
            Self::Env { name } | Self::Flag { name } => f.write_str(name),
        }
    }
}

/// Where each value comes from, by key.
pub type Origins = BTreeMap<&'static str, Origin>;

/// One fault in the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsFault {
    /// Where the value comes from.
    pub origin: Origin,
    /// What is wrong, with the key, the value, and what to write instead.
    pub message: String,
}

impl fmt::Display for SettingsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.message)
    }
}

/// All faults in the settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct SettingsError {
    /// The faults, at least one.
    pub faults: Vec<SettingsFault>,
}

impl SettingsError {
    /// Whether all faults are on the command line, which makes it a usage error.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        self.faults.iter().all(|fault| matches!(fault.origin, Origin::Flag { .. }))
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [fault] = self.faults.as_slice() {
            return fault.fmt(f);
        }
        write!(f, "{} faults in the settings", self.faults.len())?;
        self.faults.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}

/// A violated rule about one or several settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The settings concerned, the one to change first.
    pub keys: &'static [&'static str],
    /// The violated rule, with the values.
    pub message: String,
}

impl Settings {
    /// Merges flags, environment and file into settings, with the origin of each. `flags` are pairs
    /// of key and value, `env` pairs of variable and value; an empty variable counts as unset.
    ///
    /// # Errors
    /// Every fault of every source at once, even of values that another source overrides.
    pub fn resolve(
        flags: &[(&'static str, String)],
        env: &[(String, String)],
        file: Option<&SettingsFile>,
    ) -> Result<Self, SettingsError> {
        let mut layers = Layers::default();
        if let Some(file) = file {
            let (values, faults) = file.values();
            layers.faults.extend(faults);
            for (setting, value, line) in values {
                layers.set(setting, &value, Origin::File { name: file.name.clone(), line });
            }
        }
        for setting in TABLE.iter() {
            let value = env.iter().find(|(name, value)| *name == setting.env && !value.is_empty());
            if let Some((name, value)) = value {
                layers.set(setting, value, Origin::Env { name: name.clone() });
            }
        }
        for (key, value) in flags {
            let setting = Setting::by_key(key).expect("flags are made from the table");
            layers.set(setting, value, Origin::Flag { name: setting.flag.clone() });
        }
        let password = env.iter().find(|(name, _)| name == CQL_PASSWORD);
        layers.settings.cql_password = password.map(|(_, password)| password.clone());
        layers.finish()
    }

    /// Whether a flag, a variable or the settings file sets a setting.
    #[must_use]
    pub fn is_given(&self, key: &str) -> bool {
        self.origins.get(key).is_some_and(|origin| *origin != Origin::Default)
    }

    /// All violated limits of settings and rules between them.
    #[must_use]
    pub fn validate(&self) -> Vec<Problem> {
        let year_ms = 366 * DAY_MS;
        let text = format_duration;
        let mut problems = Vec::new();
        let mut check = |holds: bool, keys: &'static [&'static str], message: String| {
            if !holds {
                problems.push(Problem { keys, message });
            }
        };
        check(
            self.max_gap_ms <= self.max_duration_ms,
            &["max_gap", "max_duration"],
            format!(
                "max_gap ({}) must not be longer than max_duration ({})",
                text(self.max_gap_ms),
                text(self.max_duration_ms)
            ),
        );
        for (key, value_ms) in [
            (&["max_duration"], self.max_duration_ms),
            (&["max_staleness"], ms(self.flush.max_staleness)),
            (&["settle"], self.settle_ms),
            (&["drain_timeout"], ms(self.member.drain_timeout)),
            (&["connect_timeout"], ms(self.connect_timeout)),
        ] {
            let message = format!("{} must be at most 366d, not {}", key[0], text(value_ms));
            check(value_ms <= year_ms, key, message);
        }
        // Kafka removes a member that does not poll for five minutes.
        let message = format!(
            "revoke_timeout must be at most 4m, not {}",
            text(ms(self.member.revoke_timeout))
        );
        check(ms(self.member.revoke_timeout) <= 240_000, &["revoke_timeout"], message);
        for (key, value_ms) in [
            (&["max_gap"], self.max_gap_ms),
            (&["flush_interval"], ms(self.flush.interval)),
            (&["connect_timeout"], ms(self.connect_timeout)),
        ] {
            check(value_ms > 0, key, format!("{} must be longer than 0", key[0]));
        }
        // A later time could not be written in the text form of an id.
        check(
            self.max_future_ms <= 100 * year_ms,
            &["max_future"],
            format!("max_future must be at most 36600d, not {}", text(self.max_future_ms)),
        );
        check(
            self.min_time_ms >= DeviceTime(0),
            &["min_time"],
            "min_time must not be before 1970-01-01T00:00:00Z".into(),
        );
        check(
            ms(self.flush.interval) <= ms(self.flush.max_staleness),
            &["flush_interval", "max_staleness"],
            format!(
                "flush_interval ({}) must not be longer than max_staleness ({})",
                text(ms(self.flush.interval)),
                text(ms(self.flush.max_staleness))
            ),
        );
        check(
            self.memory >= MIN_MEMORY,
            &["memory"],
            format!("memory must be at least 64MB, not {}", size::format_size(self.memory)),
        );
        problems.extend(self.samples_problem());
        problems.extend(self.key_problem().into_iter().chain(self.time_format_problem()));
        problems.extend(schema::problems(self).into_iter().chain(tls::problems(self)));
        problems.extend(http::problems(self));
        problems
    }

    /// A trip with more samples than a path can have could not be read.
    fn samples_problem(&self) -> Option<Problem> {
        let is_valid = (1..=MAX_SAMPLES as u64).contains(&self.max_samples);
        let message = format!(
            "max_samples must be 1 to {MAX_SAMPLES}, not {}: the path of a longer trip could not \
             be read; set {MAX_SAMPLES} at most",
            self.max_samples
        );
        (!is_valid).then_some(Problem { keys: &["max_samples"], message })
    }

    /// A partition can only be computed from a key that is the device id.
    fn key_problem(&self) -> Option<Problem> {
        let is_computed =
            self.partitioner.is_some_and(|partitioner| partitioner != Partitioner::None);
        let message =
            "partitioner must be none with --key any: such a key does not identify the device";
        let problem = Problem { keys: &["partitioner", "key"], message: message.into() };
        (is_computed && self.key != KeyRule::DeviceId).then_some(problem)
    }

    /// Times in a format without an offset need a zone.
    fn time_format_problem(&self) -> Option<Problem> {
        let format = self.time_format.as_deref()?;
        let error = check_time_format(format, self.time_zone.is_some()).err()?;
        Some(Problem { keys: &["time_format", "time_zone"], message: error.to_string() })
    }
}

/// Settings while the sources are merged.
#[derive(Default)]
struct Layers {
    settings: Settings,
    faults: Vec<SettingsFault>,
    /// Keys whose value could not be read, for which rules are not checked.
    unread: Vec<&'static str>,
}

impl Layers {
    fn set(&mut self, setting: &'static Setting, value: &str, origin: Origin) {
        match (setting.set)(&mut self.settings, value) {
            Ok(()) => {
                self.settings.origins.insert(setting.key, origin);
            }
            Err(problem) => {
                self.unread.push(setting.key);
                let message = format!("{}: {problem}", setting.key);
                self.faults.push(SettingsFault { origin, message });
            }
        }
    }

    fn finish(mut self) -> Result<Settings, SettingsError> {
        for setting in TABLE.iter() {
            self.settings.origins.entry(setting.key).or_insert(Origin::Default);
        }
        for problem in self.settings.validate() {
            if problem.keys.iter().any(|key| self.unread.contains(key)) {
                continue;
            }
            // The fault is reported at a value that was set, not at a default.
            let origins = problem.keys.iter().map(|key| &self.settings.origins[key]);
            let origin = origins.clone().find(|origin| **origin != Origin::Default);
            let origin = origin.unwrap_or(&Origin::Default).clone();
            self.faults.push(SettingsFault { origin, message: problem.message });
        }
        if self.faults.is_empty() {
            return Ok(self.settings);
        }
        // In the order of the file's lines.
        self.faults.sort_by_key(|fault| match fault.origin {
            Origin::File { line, .. } => line,
            _ => usize::MAX,
        });
        Err(SettingsError { faults: self.faults })
    }
}

/// Warnings about unknown `TSTAR_*` variables. They are not errors because clusters inject such
/// names.
#[must_use]
pub fn unknown_env(env: &[(String, String)]) -> Vec<String> {
    let known = |name: &str| {
        matches!(name, "TSTAR_COMMIT" | CQL_PASSWORD)
            || name.starts_with("TSTAR_TEST_")
            || TABLE.iter().any(|setting| setting.env == name)
    };
    let names = env.iter().map(|(name, _)| name.as_str());
    let unknown = names.filter(|name| name.starts_with("TSTAR_") && !known(name));
    unknown
        .map(|name| {
            let hint = nearest(name, TABLE.iter().map(|setting| setting.env.as_str()));
            format!("environment variable `{name}` is not known and has no effect{hint}")
        })
        .collect()
}

#[cfg(test)]
mod tests;
