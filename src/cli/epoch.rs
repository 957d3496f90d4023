//! `epoch`: shows and manages the epochs of a store.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Subcommand};

use super::flags::{Context, EpochFlags, RuleFlags, ServerFlags};
use super::print::Printer;
use crate::ops::epoch::{self, ExportedEpochs};
use crate::settings::Settings;
use crate::store::Access;

const EXAMPLES: &str = "\
Examples:
  tstar epoch show
  tstar epoch new --topic samples
  tstar epoch export --store sqlite:trips.db
  tstar epoch import epochs.json --store scylla://127.0.0.1:9042/copy

A version is base + 2 * offset, with the base of the epoch that first held the record.
`new` is for a topic whose partition count changed or that was recreated. Run it once everything is
read and no instance is running. `import` prepares an empty store for the rows of another one.
`export` and `import` include the control keys, by name and fingerprint.";

/// Flags of `epoch`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct EpochArgs {
    #[command(subcommand)]
    command: EpochCommand,
    #[command(flatten)]
    server: ServerFlags,
}

#[derive(Debug, Subcommand)]
enum EpochCommand {
    /// Print every epoch, oldest first
    #[command(after_help = EXAMPLES)]
    Show,
    /// Start a new epoch with the topic as it is now
    #[command(after_help = EXAMPLES)]
    New {
        #[command(flatten)]
        topic: EpochFlags,
        #[command(flatten)]
        rules: Box<RuleFlags>,
    },
    /// Print every epoch, and the control keys, as JSON for `import`
    #[command(after_help = EXAMPLES)]
    Export,
    /// Copy the epochs of another store
    #[command(after_help = EXAMPLES)]
    Import {
        /// Output of `export`
        file: PathBuf,
    },
}

/// Runs `epoch`.
pub(crate) async fn run(
    args: &EpochArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    match &args.command {
        EpochCommand::Show => {
            let settings = context.settings(&[&args.server.0])?;
            let store = settings.reader().await?;
            for epoch in epoch::list(&store, &settings.store).await? {
                printer.json(&epoch)?;
            }
            Ok(())
        }
        EpochCommand::Export => {
            let settings = context.settings(&[&args.server.0])?;
            let store = settings.reader().await?;
            let exported = epoch::export(&store, &settings.store).await?;
            printer.json(&exported)
        }
        EpochCommand::Import { file } => {
            let settings = context.settings(&[&args.server.0])?;
            let imported = import(file, &settings).await?;
            Ok(printer.line(&format!("{imported} epochs imported"))?)
        }
        EpochCommand::New { topic, rules } => {
            let settings = context.settings(&[&rules.0, &topic.0, &args.server.0])?;
            printer.json(&epoch::begin_new(&settings).await?)
        }
    }
}

async fn import(file: &Path, settings: &Settings) -> anyhow::Result<usize> {
    let origin = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read `{origin}`"))?;
    let exported = ExportedEpochs::parse(&text, &origin.to_string())?;
    let store = settings.open(Access::WriteTopic(exported.rules())).await?;
    exported.import(&store, &settings.store).await
}
