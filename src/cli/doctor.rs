//! `doctor`: checks a store, its log and this machine.

use clap::Args;

use super::flags::{Context, Format, LogFlags, ValueOutputFlags};
use super::print::Printer;
use super::table;
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
pub struct DoctorArgs {
    #[command(flatten)]
    pub output: ValueOutputFlags,
    #[command(flatten)]
    pub log: LogFlags,
    /// Check and decode every row
    #[arg(long)]
    pub deep: bool,
}

/// Runs all checks and prints their results.
pub async fn run(
    args: &DoctorArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let format = printer.value_format(&args.output);
    let settings = context.settings(&[&args.log.0])?;
    let results = doctor::check(&settings, args.deep).await?;
    print(&results, format, printer)?;
    Ok(doctor::verdict(&results)?)
}

fn print(results: &[CheckResult], format: Format, printer: &mut Printer) -> anyhow::Result<()> {
    if format != Format::Table {
        return printer.values(results, format);
    }
    let row = |result: &CheckResult| {
        let fix = result.fix.as_ref().map_or_else(String::new, |fix| format!("; {fix}"));
        let detail = format!("{}{fix}", result.detail);
        [result.state.name().to_owned(), result.check.to_owned(), detail]
    };
    let rows: Vec<_> = results.iter().map(row).collect();
    Ok(printer.line(&table::rows(["state", "check", "found"], &[], &rows))?)
}
