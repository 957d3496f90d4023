//! `doctor`: checks a store, its log and this machine.

use crate::ops::InvalidRequest;
use crate::ops::doctor::{self, CheckResult, DoctorRequest};
use crate::store::StoreUrl;
use clap::Args;

use super::flags::{Context, Format, LogFlags, OutputFlags, ServerFlags, clock_ms};
use super::open;
use super::print::Printer;
use super::table;

const EXAMPLES: &str = "\
Examples:
  tstar doctor
  tstar doctor --store scylla://127.0.0.1:9042/fleet --brokers 127.0.0.1:9092 --json

Prints each check as ok, warn or fail, with a remedy. Exits 1 if a check fails. Changes nothing.
Checks the first 10,000 rows; `tstar verify` checks all of them.";

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

/// Runs all checks and prints their results.
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
    let request = DoctorRequest {
        store: settings.store.clone(),
        url: StoreUrl::parse(&settings.store)?,
        now_ms: context.now_ms,
        clock: clock_ms,
    };
    let open_store = async || open::reader(&settings, context).await;
    let results = doctor::check(&request, open_store, &|| open::log_access(&settings)).await;
    print(&results, format, printer)?;
    Ok(doctor::verdict(&results)?)
}

fn print(results: &[CheckResult], format: Format, printer: &mut Printer<'_>) -> anyhow::Result<()> {
    match format {
        Format::Table => {
            let row = |result: &CheckResult| {
                let fix = result.fix.as_ref().map_or_else(String::new, |fix| format!("; {fix}"));
                let detail = format!("{}{fix}", result.detail);
                [result.state.name().to_owned(), result.check.to_owned(), detail]
            };
            Ok(printer.line(&table::findings(&results.iter().map(row).collect::<Vec<_>>()))?)
        }
        Format::Json => Ok(printer.line(&serde_json::to_string(results)?)?),
        _ => {
            for result in results {
                printer.line(&serde_json::to_string(result)?)?;
            }
            Ok(())
        }
    }
}
