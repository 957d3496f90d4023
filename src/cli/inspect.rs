//! `inspect`: says how to read the records of files or of a topic.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::flags::{
    BrokerFlags, Context, Format, InputFormatFlag, RegistryFlags, RuleFlags, ValueOutputFlags,
};
use super::inspect_table;
use super::print::Printer;
use crate::advice::System;
use crate::model::visible::shell_word;
use crate::ops::InvalidRequest;
use crate::ops::inspect::{InspectOutcome, InspectRequest, Proposal, inspect};
use crate::settings::{Kind, Origin, Setting, Settings};

const EXAMPLES: &str = "\
Examples:
  tstar inspect day1.ndjson.gz
  tstar inspect day1.csv --json
  tstar inspect --topic positions --brokers 127.0.0.1:9092

Looks at the first 10,000 records: which preset or field map reads them, fields and units, devices,
intervals, late samples, heartbeats of standing devices, bad fixes, and what ends trips. Prints the
command that reads them, and the trips that come out under its rules and under others. Writes
nothing: no store, no offsets, no consumer group.
Flags that are given hold; the rest is found. Of a topic, the first records that each partition
still has are read. Exits 65 if no sample is found, and 1 if there is no record.";

/// Flags of `inspect`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InspectArgs {
    /// Files of any format, plain, .gz or .zst; - for stdin
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub output: ValueOutputFlags,
    /// Print the command with the rules of another system: geotab or traccar
    #[arg(long = "rules", value_name = "SYSTEM", value_parser = parse_system)]
    pub system: Option<System>,
    #[command(flatten)]
    pub rules: RuleFlags,
    #[command(flatten)]
    pub format: InputFormatFlag,
    #[command(flatten)]
    pub brokers: BrokerFlags,
    #[command(flatten)]
    pub registry: RegistryFlags,
}

fn parse_system(name: &str) -> Result<System, String> {
    System::from_name(name).ok_or_else(|| "it is not geotab or traccar".to_owned())
}

/// What was found, with the command that reads the input.
#[derive(Serialize)]
struct Inspection<'a> {
    #[serde(flatten)]
    outcome: &'a InspectOutcome,
    /// The command line; `None` if nothing reads the input.
    command: Option<&'a str>,
    /// The command line with a `?` for each field that was not found.
    partial_command: Option<&'a str>,
}

/// Inspects the input and prints what was found.
pub(crate) async fn run(
    args: &InspectArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let flags = [&args.rules.0, &args.format.0, &args.brokers.0, &args.registry.0];
    let settings = context.settings(&flags)?;
    let format = printer.format(&args.output);
    check_input(args, &settings)?;
    let request = InspectRequest { files: args.files.clone(), settings, system: args.system };
    let outcome = inspect(&request).await?;
    let full = outcome.reads.map(|_| command(args, &outcome.flags));
    let partial = outcome.partial.as_ref().and_then(|partial| {
        let (value, why) = (Some(partial.map.clone()?), String::new());
        let map = Proposal { flag: "--map", value, why };
        Some(command(args, &[&[map], &*partial.flags].concat()))
    });
    let (full, partial) = (full.as_deref(), partial.as_deref());
    match format {
        Format::Table => inspect_table::print(&outcome, (full, partial), printer)?,
        _ => printer.json(&Inspection {
            outcome: &outcome,
            command: full,
            partial_command: partial,
        })?,
    }
    printer.flush()?;
    outcome.check()
}

/// Checks that the input is files or a topic.
fn check_input(args: &InspectArgs, settings: &Settings) -> Result<(), InvalidRequest> {
    let problem = match (args.files.is_empty(), &settings.origins["topic"]) {
        (false, Origin::Flag { .. }) => "name files or --topic, not both",
        (true, Origin::Default) => {
            "there is nothing to inspect: name files, - for stdin, or --topic TOPIC"
        }
        _ => return Ok(()),
    };
    Err(InvalidRequest(problem.into()))
}

/// The command line that reads the input: with the flags given, and those found. A map that was
/// found has what is given of it.
fn command(args: &InspectArgs, found: &[Proposal]) -> String {
    let mut words: Vec<String> = vec!["tstar".into()];
    if args.files.is_empty() {
        words.push("run".into());
        words.extend(given(&args.brokers.0));
        words.extend(given(&args.registry.0));
    } else {
        words.push("ingest".into());
        words.extend(args.files.iter().map(|file| shell_word(&file.to_string_lossy())));
        words.extend(given(&args.format.0));
    }
    let is_found = |key: &str| found.iter().any(|it| it.flag.trim_start_matches('-') == key);
    let rules = args.rules.0.iter().filter(|(key, _)| *key != "map" || !is_found("map"));
    words.extend(given(rules));
    for Proposal { flag, value, .. } in found {
        words.push((*flag).into());
        words.extend(value.as_deref().map(shell_word));
    }
    words.join(" ")
}

/// The flags that were given.
fn given<'a>(values: impl IntoIterator<Item = &'a (&'static str, String)>) -> Vec<String> {
    let flag = |(key, value): &(&'static str, String)| {
        let Some(setting) = Setting::by_key(key) else { return Vec::new() };
        let flag = setting.flag.to_owned();
        match setting.kind {
            Kind::Flag => vec![format!("{flag}={value}")],
            Kind::Lines => {
                value.lines().flat_map(|line| [flag.clone(), shell_word(line)]).collect()
            }
            _ => vec![flag, shell_word(value)],
        }
    };
    values.into_iter().flat_map(flag).collect()
}
