//! `backup` and `restore`: copies of a store in a file.

use std::path::PathBuf;

use clap::Args;

use super::flags::{Context, ServerFlags};
use super::open;
use super::print::Printer;
use crate::ops::backup;
use crate::store::StoreUrl;

const BACKUP_EXAMPLES: &str = "\
Examples:
  tstar backup backup.db
  tstar backup copy.db --store sqlite:trips.db

The store may be in use. Prints the hash of the copy, and how far it has read its log.";

const RESTORE_EXAMPLES: &str = "\
Examples:
  tstar restore backup.db --check
  tstar restore backup.db --store sqlite:restored.db

Never overwrites a store. Afterwards, `tstar run` reads on from where the copy was.";

/// Flags of `backup`.
#[derive(Debug, Args)]
#[command(after_help = BACKUP_EXAMPLES)]
pub struct BackupArgs {
    /// The copy, which appears, or is replaced, once it is complete and checked
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub server: ServerFlags,
}

/// Flags of `restore`.
#[derive(Debug, Args)]
#[command(after_help = RESTORE_EXAMPLES)]
pub struct RestoreArgs {
    /// A copy that `tstar backup` made
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Only check the copy
    #[arg(long)]
    pub check: bool,
    /// SHA-256 that the copy has to have, in hex
    #[arg(long, value_name = "HASH")]
    pub sha256: Option<String>,
    #[command(flatten)]
    pub server: ServerFlags,
}

/// Copies the store.
pub async fn back_up(
    args: &BackupArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let settings = context.settings(&[&args.server.0])?.0;
    let store = open::reader(&settings, context).await?;
    let report = backup::back_up(&store, &StoreUrl::parse(&settings.store)?, &args.file).await?;
    printer.json(&report)
}

/// Checks a copy, and puts it in the place of the store.
pub async fn restore(
    args: &RestoreArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let settings = context.settings(&[&args.server.0])?.0;
    let (file, sha256) = (&args.file, args.sha256.as_deref());
    let report = match args.check {
        true => backup::check(file, sha256).await?,
        false => backup::restore(file, sha256, &StoreUrl::parse(&settings.store)?).await?,
    };
    printer.json(&report)
}
