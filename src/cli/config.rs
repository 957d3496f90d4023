//! `config`: shows the settings and the origin of each, or checks them.

use crate::ops::InvalidRequest;
use std::path::PathBuf;

use crate::kafka::options::is_harmless;
use crate::settings::{Origins, Settings, SettingsFile, TABLE};
use clap::{Args, Subcommand};

use super::flags::{
    Context, Format, ImportFlags, OutputFlags, ReaderFlags, RuleFlags, ServerFlags,
};
use super::print::Printer;

const EXAMPLES: &str = "\
Examples:
  tstar config show
  tstar config check";

const SHOW_EXAMPLES: &str = "\
Examples:
  tstar config show
  tstar config show --max-gap 10m --json

The output is a settings file with the origin of each value as a comment.";

const CHECK_EXAMPLES: &str = "\
Examples:
  tstar config check

With FILE, checks that file alone; without, the settings of flags, environment and file together.";

/// Printed if the value of an option may be hidden.
const NOTE: &str = "# (not shown): an option of kafka that may hold a secret";

/// Flags of `config`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print each setting and its origin
    #[command(after_help = SHOW_EXAMPLES)]
    Show(Box<ShowArgs>),
    /// Print ok, or list all faults
    #[command(after_help = CHECK_EXAMPLES)]
    Check {
        /// Settings file to check
        file: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
struct ShowArgs {
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    rules: RuleFlags,
    #[command(flatten)]
    import: ImportFlags,
    #[command(flatten)]
    reader: ReaderFlags,
    #[command(flatten)]
    server: ServerFlags,
}

/// Runs `config`.
pub fn run(args: &ConfigArgs, context: &Context, printer: &mut Printer<'_>) -> anyhow::Result<()> {
    match &args.command {
        ConfigCommand::Show(args) => {
            let flags = [&args.rules.0, &args.import.0, &args.reader.0, &args.server.0];
            let flags: Vec<_> = flags.into_iter().flatten().cloned().collect();
            let (settings, origins) = context.settings(&flags)?;
            show(&settings, &origins, args.output.format(Format::Table), printer)
        }
        ConfigCommand::Check { file: None } => {
            context.settings(&[])?;
            Ok(printer.line("ok")?)
        }
        ConfigCommand::Check { file: Some(path) } => {
            let file = SettingsFile::read(Some(path))?;
            Settings::resolve(&[], &[], file.as_ref())?;
            Ok(printer.line("ok")?)
        }
    }
}

fn show(
    settings: &Settings,
    origins: &Origins,
    format: Format,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    let lines = TABLE.iter().map(|setting| {
        let value = (setting.get)(settings);
        (setting, setting.line(&value), value, origins[setting.key].to_string())
    });
    match format {
        Format::Table => {
            let lines: Vec<_> = lines.collect();
            let width = lines.iter().map(|(_, line, ..)| line.chars().count()).max().unwrap_or(0);
            for (_, line, _, origin) in lines {
                printer.line(&format!("{line:width$}  # {origin}"))?;
            }
            if settings.kafka.keys().any(|name| !is_harmless(name)) {
                printer.line(NOTE)?;
            }
        }
        Format::Ndjson | Format::Json => {
            let objects: Vec<_> = lines
                .map(|(setting, _, value, origin)| {
                    serde_json::json!({"key": setting.key, "value": value, "origin": origin})
                })
                .collect();
            if format == Format::Json {
                printer.line(&serde_json::Value::Array(objects).to_string())?;
            } else {
                objects.iter().try_for_each(|object| printer.line(&object.to_string()))?;
            }
        }
        _ => {
            return Err(InvalidRequest("--format must be table, ndjson or json".into()).into());
        }
    }
    Ok(())
}
