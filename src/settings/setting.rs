//! What a setting is.

use std::sync::LazyLock;

use super::{Settings, http, table};

/// Every setting.
pub static TABLE: LazyLock<Vec<&'static Setting>> =
    LazyLock::new(|| table::SETTINGS.iter().chain(http::SETTINGS).collect());

/// What a value is, which decides the forms that the file may give it in. Text is always one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// A whole number with a unit.
    Duration,
    /// RFC 3339, or ms since 1970.
    Time,
    /// A whole number.
    Count,
    /// A whole number of bytes, with a unit.
    Size,
    /// A number, or `none`.
    Number,
    /// true or false.
    Flag,
    /// Lines of text; the flag may stand several times.
    Lines,
}

/// A setting.
#[derive(Debug)]
pub struct Setting {
    /// Key in the file.
    pub key: &'static str,
    /// Flag, with its dashes.
    pub flag: &'static str,
    /// Environment variable.
    pub env: &'static str,
    /// What it does, in one line.
    pub help: &'static str,
    /// The default, as it would be written.
    pub default: &'static str,
    /// What its value is.
    pub kind: Kind,
    /// Reads a value into the settings; the error says what is wrong with the value.
    pub set: fn(&mut Settings, &str) -> Result<(), String>,
    /// The value as it would be written.
    pub get: fn(&Settings) -> String,
}

impl Setting {
    /// The setting of a key.
    #[must_use]
    pub fn by_key(key: &str) -> Option<&'static Self> {
        TABLE.iter().find(|setting| setting.key == key).copied()
    }
}

/// One line of the table for each kind of field, so that key, reader and writer of a setting stand
/// together.
macro_rules! setting {
    (
        $key:literal, $flag:literal, $env:literal, $default:literal, $kind:ident, $($field:ident).+,
        $read:expr, $write:expr, $help:literal
    ) => {
        Setting {
            key: $key,
            flag: $flag,
            env: $env,
            help: $help,
            default: $default,
            kind: Kind::$kind,
            set: |settings, text| {
                settings.$($field).+ = $read(text).map_err(|error| error.to_string())?;
                Ok(())
            },
            get: |settings| $write(&settings.$($field).+),
        }
    };
}
