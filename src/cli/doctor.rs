//! `doctor`: whether a store, its log and this machine are as they have to be.

mod machine;
mod store;
mod topic;

use clap::Args;
use serde::Serialize;
use tstar::ops::{InvalidRequest, NoResult};
use tstar::store::{EpochStore, StoreUrl};

use super::flags::{Context, Format, LogFlags, OutputFlags, ServerFlags};
use super::open;
use super::print::Printer;
use super::table;

const EXAMPLES: &str = "\
Examples:
  tstar doctor
  tstar doctor --store scylla://127.0.0.1:9042/fleet --brokers 127.0.0.1:9092 --json

Each finding is ok, warn or fail, with what helps. Exits 1 where one is fail. Changes nothing.
Rows are looked at as far as the first 10,000; `tstar verify` looks at all.";

/// Flags of `doctor`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DoctorArgs {
    #[command(flatten)]
    pub output: OutputFlags,
    #[command(flatten)]
    pub log: LogFlags,
    #[command(flatten)]
    pub server: ServerFlags,
}

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    Warn,
    Fail,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// What one look found.
#[derive(Clone, Debug, Serialize)]
struct CheckResult {
    check: &'static str,
    state: State,
    detail: String,
    /// What helps, where it is not ok.
    fix: Option<String>,
}

impl CheckResult {
    fn ok(check: &'static str, detail: impl Into<String>) -> Self {
        Self { check, state: State::Ok, detail: detail.into(), fix: None }
    }

    fn warn(check: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check, state: State::Warn, detail: detail.into(), fix: Some(fix.into()) }
    }

    fn fail(check: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check, state: State::Fail, detail: detail.into(), fix: Some(fix.into()) }
    }

    /// What failed, as its error says it: that names the next step.
    fn failed(check: &'static str, error: &anyhow::Error) -> Self {
        let lines = format!("{error:#}");
        let words: Vec<_> = lines.split_whitespace().collect();
        Self { check, state: State::Fail, detail: words.join(" "), fix: None }
    }
}

/// Looks at everything, and tells what it found.
pub async fn run(
    args: &DoctorArgs,
    context: &Context,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    let format = printer.format(&args.output);
    if !matches!(format, Format::Table | Format::Json | Format::Ndjson) {
        return Err(InvalidRequest("findings come as table, ndjson or json".into()).into());
    }
    let settings = context.settings(&[&args.log.0[..], &args.server.0].concat())?.0;
    let mut findings = Vec::new();
    if let Some(path) = StoreUrl::parse(&settings.store)?.path() {
        findings.extend(machine::file(path));
    }
    match open::reader(&settings, context).await {
        Err(error) => findings.push(CheckResult::failed("store", &error)),
        Ok(reader) => {
            findings.push(CheckResult::ok("store", format!("`{}` answers", settings.store)));
            findings.extend(store::inspect(&reader).await);
            match reader.epochs().await {
                Err(error) => findings.push(CheckResult::failed("epoch", &error.into())),
                Ok(epochs) => match epochs.last() {
                    None => findings.push(CheckResult::ok("log", "files: no topic was read")),
                    Some(newest) => {
                        findings.extend(machine::clock(newest, context.now_ms));
                        findings.extend(topic::inspect(&reader, &settings, newest).await);
                    }
                },
            }
        }
    }
    print(&findings, format, printer)?;
    let count = |state| findings.iter().filter(|finding| finding.state == state).count();
    match (count(State::Fail), count(State::Warn)) {
        (0, _) => Ok(()),
        (fails, warnings) => {
            Err(NoResult(format!("{fails} failed, {warnings} to be warned of")).into())
        }
    }
}

fn print(
    findings: &[CheckResult],
    format: Format,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    match format {
        Format::Table => {
            let row = |finding: &CheckResult| {
                let fix = finding.fix.as_ref().map_or_else(String::new, |fix| format!("; {fix}"));
                let detail = format!("{}{fix}", finding.detail);
                [finding.state.name().to_owned(), finding.check.to_owned(), detail]
            };
            Ok(printer.line(&table::findings(&findings.iter().map(row).collect::<Vec<_>>()))?)
        }
        Format::Json => Ok(printer.line(&serde_json::to_string(findings)?)?),
        _ => {
            for finding in findings {
                printer.line(&serde_json::to_string(finding)?)?;
            }
            Ok(())
        }
    }
}
