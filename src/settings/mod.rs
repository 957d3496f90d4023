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
mod validate;
mod values;

use std::collections::BTreeMap;
use std::fmt;

use crate::model::nearest::nearest;

pub(crate) use file::SettingsFile;
pub(crate) use http::HttpSettings;
pub(crate) use open::Warnings;
pub use open::notify;
pub(crate) use secret::exposed_files;
pub(crate) use setting::Setting;
pub use setting::{Group, Kind, TABLE};
pub use table::{FlushSettings, Settings};
pub(crate) use values::LogFormat;

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
pub(crate) type Origins = BTreeMap<&'static str, Origin>;

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
    pub(crate) fn is_usage(&self) -> bool {
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
    pub(crate) fn is_given(&self, key: &str) -> bool {
        self.origins.get(key).is_some_and(|origin| *origin != Origin::Default)
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
pub(crate) fn unknown_env(env: &[(String, String)]) -> Vec<String> {
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
