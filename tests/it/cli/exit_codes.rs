//! The exit code of each kind of error.

use std::io;

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use tstar::cli::exit::*;
use tstar::internals::kafka::KafkaError;
use tstar::internals::model::scalar::DeviceTime;
use tstar::internals::ops::{
    BadData, InvalidRequest, NoResult, PartialResult, PreconditionFailed, Stopped,
};
use tstar::internals::pipeline::daemon::DaemonError;
use tstar::internals::pipeline::processor::RunError;
use tstar::internals::source::SourceError;
use tstar::internals::store::{RowError, StoreError};

#[test]
fn unreachable_brokers_have_their_exit_code_inside_any_error() {
    let away = || KafkaError::Unreachable { brokers: "b:1".into(), problem: "silent".into() };
    let (location, doing) = ("x.db".to_owned(), "asking");
    let errors: [anyhow::Error; 3] = [
        StoreError::Failed { location, doing, source: away().into() }.into(),
        DaemonError::BrokeOff { delivered: 3, away: away() }.into(),
        away().into(),
    ];
    for error in errors {
        assert_eq!(code(&error), UNREACHABLE, "{error:#}");
        let plain = format!("{error:#}");
        let error = interrupted(PartialResult::Nothing, error);
        assert_eq!(format!("{error:#}"), plain, "what only reads has nothing to say of its work");
        let error = interrupted(PartialResult::Read, error);
        assert_eq!(code(&error), UNREACHABLE, "{error:#}");
        let text = format!("{error:#}");
        assert!(text.starts_with("stopped early; what was read is stored"), "{text}");
        assert!(text.ends_with(&plain) && plain.contains("b:1"), "{text}");
    }
    let other = interrupted(PartialResult::Read, PreconditionFailed("no".into()));
    assert_eq!((code(&other), format!("{other:#}")), (CONFIG, "no".to_owned()));
}

fn malformed() -> RowError {
    RowError {
        device: "a".into(),
        bucket: DeviceTime(0),
        start_ms: DeviceTime(0),
        end_ms: DeviceTime(0),
        reason: String::new(),
    }
}

#[test]
fn every_error_has_its_code_also_under_a_context() {
    let location = || "x.db".to_owned();
    let failed = |source: io::Error| StoreError::Failed {
        location: location(),
        doing: "reading",
        source: source.into(),
    };
    let settings = tstar::internals::settings::Settings::resolve;
    let env = [("TSTAR_MAX_GAP".to_owned(), "1".to_owned())];
    let flag = [("max_gap", "1".to_owned())];
    let cases: Vec<(anyhow::Error, u8)> = vec![
        (StoreError::Missing(location()).into(), IO),
        (StoreError::Locked { location: location(), lock: location() }.into(), IO),
        (failed(io::ErrorKind::BrokenPipe.into()).into(), IO),
        (StoreError::NotAStore { location: location(), reason: String::new() }.into(), CONFIG),
        (StoreError::FormatTooNew { location: location(), found: 2, known: 1 }.into(), CONFIG),
        (StoreError::FormatTooOld { location: location(), found: 0, known: 1 }.into(), CONFIG),
        (
            StoreError::RulesMismatch { location: location(), differences: String::new() }.into(),
            CONFIG,
        ),
        (
            StoreError::Unreachable {
                location: location(),
                source: io::Error::from(io::ErrorKind::ConnectionRefused).into(),
            }
            .into(),
            UNREACHABLE,
        ),
        (StoreError::Denied { location: location(), source: location().into() }.into(), CONFIG),
        (StoreError::Options { location: location(), problem: location() }.into(), CONFIG),
        (
            StoreError::NoSchema { location: location(), missing: location(), flag: "" }.into(),
            CONFIG,
        ),
        (StoreError::from(malformed()).into(), BAD_DATA),
        (settings(&[], &env, None).unwrap_err().into(), CONFIG),
        (settings(&flag, &[], None).unwrap_err().into(), USAGE),
        (
            SourceError::Read { origin: location(), source: io::ErrorKind::NotFound.into() }.into(),
            IO,
        ),
        (SourceError::Form { origin: location(), problem: String::new() }.into(), BAD_DATA),
        (SourceError::Header { origin: location(), problem: String::new() }.into(), BAD_DATA),
        (RunError::Store(StoreError::Missing(location())).into(), IO),
        (SourceError::Broken { problem: location() }.into(), INTERNAL),
        (BadData(location()).into(), BAD_DATA),
        (tstar::internals::identity::AnyId::parse("x").unwrap_err().into(), USAGE),
        (tstar::internals::model::time::parse_time("x").unwrap_err().into(), USAGE),
        (tstar::internals::store::StoreUrl::parse("x").unwrap_err().into(), USAGE),
        (io::Error::from(io::ErrorKind::BrokenPipe).into(), 0),
        (io::Error::from(io::ErrorKind::StorageFull).into(), IO),
        (Stopped { signal: SIGINT, partial: PartialResult::Read }.into(), INTERRUPTED),
        (Stopped { signal: SIGTERM, partial: PartialResult::Nothing }.into(), TERMINATED),
        (NoResult("none".into()).into(), NO_RESULT),
        (InvalidRequest("no".into()).into(), USAGE),
        (anyhow::anyhow!("a surprise"), INTERNAL),
    ];
    for (error, expected) in cases {
        let error = Err::<(), _>(error).context("while testing").unwrap_err();
        assert_eq!(code(&error), expected, "{error:#}");
    }
}
