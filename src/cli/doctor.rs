//! `doctor`: checks a store, its log and this machine.

use clap::Args;

use super::flags::{Context, LogFlags, ValueOutputFlags};
use super::print::Printer;
use crate::ops::doctor::{self, CheckResult};

const EXAMPLES: &str = "\
Examples:
  tstar doctor
  tstar doctor --store scylla://127.0.0.1:9042/fleet --brokers 127.0.0.1:9092 --json

Prints each check as ok, warn or fail, with a remedy. Exits 1 if a check fails. Changes nothing.
Checks the first 10,000 rows and decodes 1,000 of them; `tstar verify` compares all with the log.";

/// Flags of `doctor`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub output: ValueOutputFlags,
    #[command(flatten)]
    pub log: LogFlags,
    /// Check and decode every row
    #[arg(long)]
    pub deep: bool,
}

/// Runs all checks and prints their results.
pub(crate) async fn run(
    args: &DoctorArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let format = printer.format(&args.output);
    let settings = context.settings(&[&args.log.0])?;
    let results = doctor::check(&settings, args.deep).await?;
    printer.rows(&results, format, ["state", "check", "found"], cells)?;
    Ok(doctor::verdict(&results)?)
}

fn cells(result: &CheckResult) -> [String; 3] {
    let fix = result.fix.as_ref().map_or_else(String::new, |fix| format!("; {fix}"));
    [result.state.name().to_owned(), result.check.to_owned(), format!("{}{fix}", result.detail)]
}
