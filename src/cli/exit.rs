//! Exit codes, mapped in this one place.

use std::io;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::SIGINT;

use crate::identity::IdError;
use crate::kafka::KafkaError;
use crate::model::time::MomentError;
use crate::model::zone::ZonedError;
use crate::ops::{BadData, InvalidRequest, NoResult, PartialResult, PreconditionFailed, Stopped};
use crate::pipeline::daemon::DaemonError;
use crate::pipeline::processor::RunError;
use crate::registry::RegistryError;
use crate::settings::SettingsError;
use crate::simulate::FleetError;
use crate::source::{DecoderError, SourceError};
use crate::store::{StoreError, StoreUrlError};
use crate::telemetry::logging;
pub(crate) use crate::telemetry::logging::print_status;

/// No result, or a difference; not an error.
pub const NO_RESULT: u8 = 1;
/// Usage, or a malformed id, time or duration.
pub const USAGE: u8 = 2;
/// Bad data.
pub const BAD_DATA: u8 = 65;
/// A server does not answer.
pub const UNREACHABLE: u8 = 69;
/// Internal error, including panics.
pub const INTERNAL: u8 = 70;
/// Input or output failed.
pub const IO: u8 = 74;
/// A setting is not valid, or does not fit the store or the log.
pub const CONFIG: u8 = 78;
/// SIGINT before the end.
pub const INTERRUPTED: u8 = 130;
/// SIGTERM before the end.
pub const TERMINATED: u8 = 143;

/// Adds the partial result to an error if it says that a server became unreachable. What only reads
/// has none.
pub fn interrupted(partial: PartialResult, error: impl Into<anyhow::Error>) -> anyhow::Error {
    match partial {
        PartialResult::Nothing => error.into(),
        partial => with_partial_result(error, &partial.to_string()),
    }
}

/// Adds a note about the partial result to an error if a server became unreachable midway.
pub(crate) fn with_partial_result(error: impl Into<anyhow::Error>, partial: &str) -> anyhow::Error {
    let error = error.into();
    let is_unreachable = code(&error) == UNREACHABLE;
    if is_unreachable { error.context(format!("stopped early; {partial}")) } else { error }
}

/// Prints an error with its causes and returns its exit code. A closed pipe prints nothing.
pub fn report(error: &anyhow::Error) -> ExitCode {
    let code = code(error);
    if code != 0 {
        fail(&format!("{error:#}"));
    }
    ExitCode::from(code)
}

/// Prints or logs an error that ends the program.
fn fail(line: &str) {
    if logging::is_on() {
        tracing::error!("{line}");
    } else {
        print_status(line);
    }
}

/// The exit code of an error: that of the outermost cause that has one.
pub fn code(error: &anyhow::Error) -> u8 {
    error.chain().find_map(code_of).unwrap_or(INTERNAL)
}

fn code_of(cause: &(dyn std::error::Error + 'static)) -> Option<u8> {
    if let Some(error) = cause.downcast_ref() {
        return Some(store(error));
    }
    // It is transparent: the chain has it in place of its cause.
    match cause.downcast_ref() {
        Some(RunError::Store(error)) => return Some(store(error)),
        Some(RunError::Source(error)) => return Some(source(error)),
        _ => (),
    }
    if let Some(code) = log(cause) {
        return Some(code);
    }
    if let Some(error) = cause.downcast_ref::<SettingsError>() {
        return Some(if error.is_usage() { USAGE } else { CONFIG });
    }
    if let Some(error) = cause.downcast_ref() {
        return Some(source(error));
    }
    if let Some(error) = cause.downcast_ref::<io::Error>() {
        return Some(if error.kind() == io::ErrorKind::BrokenPipe { 0 } else { IO });
    }
    if let Some(error) = cause.downcast_ref() {
        return Some(match error {
            DecoderError::Map(_) => USAGE,
            DecoderError::Times(_) => CONFIG,
        });
    }
    if cause.is::<RegistryError>() {
        return Some(UNREACHABLE);
    }
    if cause.is::<NoResult>() {
        return Some(NO_RESULT);
    }
    if cause.is::<PreconditionFailed>() {
        return Some(CONFIG);
    }
    if cause.is::<BadData>() {
        return Some(BAD_DATA);
    }
    if let Some(Stopped { signal, .. }) = cause.downcast_ref() {
        return Some(if *signal == SIGINT { INTERRUPTED } else { TERMINATED });
    }
    let is_usage = cause.is::<InvalidRequest>()
        || cause.is::<FleetError>()
        || cause.is::<IdError>()
        || cause.is::<MomentError>()
        || cause.is::<ZonedError>()
        || cause.is::<StoreUrlError>();
    is_usage.then_some(USAGE)
}

fn source(error: &SourceError) -> u8 {
    match error {
        SourceError::Form { .. } | SourceError::Header { .. } => BAD_DATA,
        SourceError::Inputs(errors) => errors.first().map_or(IO, source),
        SourceError::Broken { .. } => INTERNAL,
        _ => IO,
    }
}

/// The code of an error of the log or of its readers.
fn log(cause: &(dyn std::error::Error + 'static)) -> Option<u8> {
    match cause.downcast_ref() {
        Some(DaemonError::Kafka(error)) => return Some(kafka(error)),
        Some(DaemonError::Store(error)) => return Some(store(error)),
        Some(DaemonError::Precondition(_)) => return Some(CONFIG),
        Some(DaemonError::BrokeOff { .. }) => return Some(UNREACHABLE),
        Some(_) => return Some(INTERNAL),
        None => (),
    }
    cause.downcast_ref().map(kafka)
}

fn kafka(error: &KafkaError) -> u8 {
    match error {
        KafkaError::Unreachable { .. } => UNREACHABLE,
        KafkaError::Client { .. } | KafkaError::Fenced { .. } | KafkaError::Unusable { .. } => IO,
        KafkaError::Broken => INTERNAL,
        _ => CONFIG,
    }
}

fn store(error: &StoreError) -> u8 {
    match error {
        StoreError::Malformed(_) | StoreError::LettersFull { .. } => BAD_DATA,
        StoreError::Unreachable { .. } => UNREACHABLE,
        // A store operation may fail because the log does.
        StoreError::Failed { source, .. } => log(&**source).unwrap_or(IO),
        StoreError::NotAStore { .. }
        | StoreError::InTheWay { .. }
        | StoreError::InRoot { .. }
        | StoreError::NoSchema { .. }
        | StoreError::Denied { .. }
        | StoreError::Options { .. }
        | StoreError::FormatTooNew { .. }
        | StoreError::FormatTooOld { .. }
        | StoreError::RulesMismatch { .. }
        | StoreError::LogMismatch { .. }
        | StoreError::LacksKey { .. }
        | StoreError::LacksSchema { .. } => CONFIG,
        _ => IO,
    }
}

/// Whether the outcome is known, and what is left of the tasks is cancelled.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Notes that the outcome is known: panics after this call do not change it. A task of the CQL
/// driver panics if one that it waits for is cancelled.
pub(crate) fn begin_to_end() {
    IS_ENDING.store(true, Ordering::Release);
}

/// Makes a panic print one line and end the program, in any thread.
pub fn on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        if IS_ENDING.load(Ordering::Acquire) {
            return;
        }
        let location = panic.location().map(ToString::to_string).unwrap_or_default();
        let payload = panic.payload();
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        let message = text.unwrap_or("no message").replace('\n', " ");
        fail(&format!("internal error at {location}: {message}; please report this line"));
        std::process::exit(INTERNAL.into());
    }));
}
