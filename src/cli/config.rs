//! `config`: shows the settings and the origin of each, or checks them.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::flags::{
    Context, Format, ImportFlags, ReaderFlags, RuleFlags, ServerFlags, ValueOutputFlags,
};
use super::print::Printer;
use crate::kafka::options::is_harmless;
use crate::settings::{Setting, Settings, SettingsFile, TABLE};

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
pub(crate) struct ConfigArgs {
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
    output: ValueOutputFlags,
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
pub(crate) fn run(
    args: &ConfigArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    match &args.command {
        ConfigCommand::Show(args) => {
            let flags = [&args.rules.0, &args.import.0, &args.reader.0, &args.server.0];
            let settings = context.settings(&flags)?;
            show(&settings, args.output.format(Format::Table), printer)
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

fn show(settings: &Settings, format: Format, printer: &mut Printer) -> anyhow::Result<()> {
    if format != Format::Table {
        let object = |setting: &Setting| {
            let (value, origin) =
                ((setting.get)(settings), settings.origins[setting.key].to_string());
            serde_json::json!({"key": setting.key, "value": value, "origin": origin})
        };
        return printer.values(&TABLE.iter().map(object).collect::<Vec<_>>(), format);
    }
    let line = |setting: &Setting| setting.line(&(setting.get)(settings));
    let width = TABLE.iter().map(|setting| line(setting).chars().count()).max().unwrap_or(0);
    for setting in TABLE.iter() {
        printer.line(&format!("{:width$}  # {}", line(setting), settings.origins[setting.key]))?;
    }
    if settings.kafka.keys().any(|name| !is_harmless(name)) {
        printer.line(NOTE)?;
    }
    Ok(())
}
