//! The settings file: TOML with the keys of [`TABLE`].

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Kind, Setting, TABLE};
use super::{Origin, SettingsError, SettingsFault, nearest};

/// The file that is read if none is named.
const DEFAULT_FILE: &str = "tstar.toml";

/// A settings file before it is parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsFile {
    /// Path as given.
    pub name: String,
    /// Content of the file.
    pub text: String,
}

impl SettingsFile {
    /// Reads the named file, or `./tstar.toml` if it exists.
    ///
    /// # Errors
    /// The file cannot be read, or was found and is another user's: a command that is run in a
    /// stranger's folder must not send passwords to the stranger's servers.
    pub fn read(path: Option<&Path>) -> Result<Option<Self>, SettingsError> {
        let named = path.unwrap_or(Path::new(DEFAULT_FILE));
        let name = named.display().to_string();
        let message = match read(named) {
            Ok((owner, _)) if path.is_none() && !is_trusted(owner) => format!(
                "the settings file was found in the current folder and belongs to user {owner}, \
                 not to you or root: if its settings are meant, pass --config {name}"
            ),
            Ok((_, text)) => return Ok(Some(Self { name, text })),
            Err(error) if path.is_none() && error.kind() == io::ErrorKind::NotFound => {
                return Ok(None);
            }
            Err(error) => format!("the settings file cannot be read: {error}"),
        };
        let origin = Origin::File { name, line: 1 };
        Err(SettingsError { faults: vec![SettingsFault { origin, message }] })
    }

    /// Each value as text with the line of its key, and all faults.
    pub(super) fn values(&self) -> (Vec<(&'static Setting, String, usize)>, Vec<SettingsFault>) {
        let (table, errors) = DeTable::parse_recoverable(&self.text);
        let mut faults: Vec<SettingsFault> = Vec::new();
        for error in &errors {
            let at = error.span().map_or(0, |span| span.start);
            // The parser reports one slip several times.
            if faults.iter().any(|fault| fault.origin == self.origin(at)) {
                continue;
            }
            faults.push(self.fault(at, fault_of(self.line_at(at), error.message())));
        }
        let mut values = Vec::new();
        for (key, value) in table.get_ref() {
            let at = key.span().start;
            match self.value(key, value) {
                // A value that the parser made up to recover from a syntax error.
                _ if errors.iter().any(|error| self.is_on_line_of(error, at)) => (),
                Ok((setting, text)) => values.push((setting, text, self.line(at))),
                Err(message) => faults.push(self.fault(at, message)),
            }
        }
        // The table is sorted by key.
        values.sort_by_key(|(_, _, line)| *line);
        (values, faults)
    }

    fn value(
        &self,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(&'static Setting, String), String> {
        let key = key.get_ref().as_ref();
        let Some(setting) = Setting::by_key(key) else {
            let hint = nearest(key, TABLE.iter().map(|setting| setting.key));
            return Err(format!("unknown key `{key}`{hint}"));
        };
        let written = &self.text[value.span()];
        let text = match (value.get_ref(), setting.kind) {
            (DeValue::String(text), _) => text.to_string(),
            (DeValue::Boolean(value), Kind::Flag) => value.to_string(),
            (DeValue::Integer(value), Kind::Count | Kind::Number | Kind::Time)
                if value.radix() == 10 =>
            {
                value.as_str().to_owned()
            }
            (DeValue::Float(value), Kind::Number) => value.as_str().to_owned(),
            (DeValue::Datetime(_), Kind::Time) => written.to_owned(),
            (DeValue::Integer(_), Kind::Duration) => {
                return Err(format!(
                    "{key}: `{written}` has no unit; write it as text, such as {key} = \"{}\"",
                    setting.default
                ));
            }
            // The value is not shown, because it may contain secrets.
            (other, Kind::Lines) => {
                return Err(format!(
                    "{key} is {}, not text; write the options as one text, one per line: {key} = \
                     \"\"\"...\"\"\"",
                    type_name(other)
                ));
            }
            (other, _) => {
                let (found, wanted) = (type_name(other), type_of_kind(setting.kind));
                return Err(format!(
                    "{key}: `{written}` is {found}, not {wanted}; write {key} = {}",
                    toml_text(setting, setting.default)
                ));
            }
        };
        Ok((setting, text))
    }

    fn fault(&self, at: usize, message: String) -> SettingsFault {
        SettingsFault { origin: self.origin(at), message }
    }

    fn origin(&self, at: usize) -> Origin {
        Origin::File { name: self.name.clone(), line: self.line(at) }
    }

    /// The text of the line of a byte offset.
    fn line_at(&self, at: usize) -> &str {
        self.text.lines().nth(self.line(at) - 1).unwrap_or_default()
    }

    /// The line of a byte offset, from 1.
    fn line(&self, at: usize) -> usize {
        let before = self.text.as_bytes().iter().take(at);
        1 + before.filter(|byte| **byte == b'\n').count()
    }

    fn is_on_line_of(&self, error: &toml::de::Error, at: usize) -> bool {
        error.span().is_some_and(|span| self.line(span.start) == self.line(at))
    }
}

/// The fault of a line that is not TOML, and what to write instead: text in quotes, a number, or a
/// `=` that is absent.
fn fault_of(line: &str, error: &str) -> String {
    let line = line.trim_start();
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let (key, rest) = line.split_at(line.find(|letter| !is_name(letter)).unwrap_or(0));
    let Some(setting) = Setting::by_key(key) else { return format!("not TOML: {error}") };
    let rest = rest.trim_start();
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    let value = value.split_once(" #").map_or(value, |(value, _)| value).trim();
    let is_text = match setting.kind {
        Kind::Text | Kind::Duration | Kind::Size | Kind::Time => true,
        Kind::Number => value == "none",
        Kind::Count | Kind::Flag | Kind::Lines => false,
    };
    // Lines may contain secrets.
    if setting.kind == Kind::Lines || value.is_empty() || value.starts_with(['"', '\'', '[', '{']) {
        return format!("{key}: not TOML: {error}");
    }
    if is_text {
        return format!("{key}: `{value}` is not in quotes; write {}", setting.line(value));
    }
    let (wanted, example) = (type_of_kind(setting.kind), setting.line(setting.default));
    format!("{key}: `{value}` is not {wanted}; write for example {example}")
}

/// The owner of a file and its text.
fn read(path: &Path) -> io::Result<(u32, String)> {
    let (mut file, mut text) = (File::open(path)?, String::new());
    file.read_to_string(&mut text)?;
    Ok((file.metadata()?.uid(), text))
}

/// Whether a file of this user may be read without being named.
fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == rustix::process::geteuid().as_raw()
}

fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

fn type_of_kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Text | Kind::Lines => "text",
        Kind::Duration => "a duration",
        Kind::Time => "a time",
        Kind::Count => "a whole number",
        Kind::Size => "a size",
        Kind::Number => "a number",
        Kind::Flag => "true or false",
    }
}

/// A value as written in the file.
fn toml_text(setting: &Setting, value: &str) -> String {
    match setting.kind {
        Kind::Count | Kind::Flag => value.to_owned(),
        Kind::Number if value != "none" => value.to_owned(),
        _ => toml::Value::String(value.to_owned()).to_string(),
    }
}

impl Setting {
    /// `key = value` as written in the file.
    #[must_use]
    pub fn line(&self, value: &str) -> String {
        format!("{} = {}", self.key, toml_text(self, value))
    }
}
