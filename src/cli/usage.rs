//! The command line where clap alone would mislead: values that begin with a minus sign, and tips
//! for what other programs have taught.

use std::ffi::OsString;
use std::str::FromStr;

use clap::builder::TypedValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory as _, FromArgMatches as _};

use super::Cli;
use crate::model::nearest::nearest_name;
use crate::model::visible::{shell_word, visible};

/// Names of values that are numbers or times.
const NUMERIC: [&str; 6] = ["DURATION", "METRES", "N", "NUMBER", "SIZE", "TIME"];

/// What is typed out of habit: the command, what it does not take or lacks, and what to write.
const HABITS: [(&str, &str, &str); 7] = [
    ("tstar", "ls", "`tstar devices` lists devices, `tstar trips DEVICE` trips"),
    (
        "tstar demo",
        "--listen",
        "set the variable TSTAR_LISTEN, such as TSTAR_LISTEN=127.0.0.1:8081",
    ),
    ("tstar ingest", "<FILE>...", "`tstar ingest FILE` reads a file, `tstar ingest -` stdin"),
    ("tstar run", "--port", "`--listen 127.0.0.1:PORT` takes the port, with its address"),
    ("tstar serve", "--port", "`--listen 127.0.0.1:PORT` takes the port, with its address"),
    ("tstar trips", "--device", "`tstar trips DEVICE` takes the device without a flag"),
    (
        "tstar trips",
        "<DEVICE>",
        "`tstar trips DEVICE` lists the trips of a device (`tstar devices` lists devices), \
         `tstar trips --day 2026-11-20` those of all devices on a day",
    ),
];

/// Parses a command line.
///
/// # Errors
/// It is not valid, or asks for help.
pub(super) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let mut command = with_minus_signs(Cli::command());
    let matches = command.try_get_matches_from_mut(words).map_err(with_tips)?;
    Cli::from_arg_matches(&matches).map_err(|error| with_tips(error.format(&mut command)))
}

/// A parser of whole numbers of at least this minimum.
pub(super) fn at_least<N>(min: N) -> impl TypedValueParser<Value = N>
where
    N: FromStr + PartialOrd + std::fmt::Display + Copy + Send + Sync + 'static,
{
    move |text: &str| match text.parse() {
        Ok(number) if number >= min => Ok(number),
        _ => Err(format!("write a whole number of at least {min}")),
    }
}

/// Passes numbers and times with a minus sign to the parsers of their flags, which say what a flag
/// takes. Clap would look for a flag `-5m`, and advise `-- -5m`, which no flag takes.
fn with_minus_signs(command: Command) -> Command {
    let is_numeric = |arg: &Arg| {
        let mut names = arg.get_value_names().unwrap_or_default().iter();
        !arg.is_positional() && names.any(|name| NUMERIC.contains(&name.as_str()))
    };
    let with_sign = |arg: Arg| if is_numeric(&arg) { arg.allow_hyphen_values(true) } else { arg };
    command.mut_args(with_sign).mut_subcommands(with_minus_signs)
}

/// Replaces the tips of an error that lead nowhere.
fn with_tips(mut error: clap::Error) -> clap::Error {
    let command = command_of(&error);
    let given = [ContextKind::InvalidSubcommand, ContextKind::InvalidArg];
    let given: Vec<_> = given.into_iter().filter_map(|kind| error.get(kind)).collect();
    let given = match given.first() {
        Some(ContextValue::String(one)) => one.clone(),
        Some(ContextValue::Strings(several)) => several.join(" "),
        _ => return error,
    };
    if let Some(tip) = tip(error.kind(), &command, &given) {
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    } else if error.kind() == ErrorKind::UnknownArgument && given.starts_with("--") {
        // Such as `-- --device`: nothing takes a value like that.
        error.remove(ContextKind::Suggested);
    } else if error.kind() == ErrorKind::InvalidSubcommand && command == "tstar" {
        // `tstar help` suggests none.
        let known = Cli::command();
        let names = known.get_subcommands().map(Command::get_name);
        if let Some(name) = nearest_name(&given, names) {
            let name = ContextValue::String(name.to_owned());
            error.insert(ContextKind::SuggestedSubcommand, name);
        }
    }
    error
}

/// What to write instead of what a command does not take or lacks.
fn tip(kind: ErrorKind, command: &str, given: &str) -> Option<String> {
    let habit = HABITS.iter().find(|(of, typed, _)| (*of, *typed) == (command, given));
    let word = visible(&shell_word(given));
    match (kind, habit) {
        (_, Some((_, _, tip))) => Some((*tip).to_owned()),
        (ErrorKind::UnknownArgument, _) if given.ends_with(".db") && !given.starts_with('-') => {
            let scheme = if given.starts_with("sqlite:") { "" } else { "sqlite:" };
            Some(format!("`--store {scheme}{word}` names the store"))
        }
        (ErrorKind::InvalidSubcommand, _) if command == "tstar id" => {
            Some(format!("`tstar id decode {word}` decodes an id"))
        }
        _ => None,
    }
}

/// The command whose usage an error shows, such as `tstar dlq ls`.
fn command_of(error: &clap::Error) -> String {
    let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) else {
        return String::new();
    };
    let usage = usage.to_string();
    let words = usage.split_whitespace().skip_while(|word| *word != "tstar");
    let is_name = |word: &&str| word.starts_with(|letter: char| letter.is_ascii_lowercase());
    words.take_while(is_name).collect::<Vec<_>>().join(" ")
}
