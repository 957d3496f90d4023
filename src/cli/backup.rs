//! `backup` and `restore`: copies of a store in a file, and of the positions of a keyspace.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::flags::{Context, ServerFlags};
use super::print::Printer;
use crate::model::rules::Rules;
use crate::ops::{backup, position_backup};
use crate::store::Access;

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

const BACKUP_POSITIONS_EXAMPLES: &str = "\
Examples:
  tstar backup positions positions.json --store scylla://10.0.0.1/fleet

Run it before the snapshot. What is read meanwhile is read again after `tstar restore positions`.";

const RESTORE_POSITIONS_EXAMPLES: &str = "\
Examples:
  tstar restore positions positions.json --store scylla://10.0.0.1/fleet

Run it once the snapshot is restored, before any instance starts. Of each partition, the lower
position counts: that of the file, or that of the snapshot.";

/// Flags of `backup`.
#[derive(Debug, Args)]
#[command(
    after_help = BACKUP_EXAMPLES,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub(crate) struct BackupArgs {
    /// The copy, which appears, or is replaced, once it is complete and checked
    #[arg(value_name = "FILE", required = true)]
    pub file: Option<PathBuf>,
    #[command(subcommand)]
    pub part: Option<BackupPart>,
    #[command(flatten)]
    pub server: ServerFlags,
}

/// What is copied of a keyspace.
#[derive(Debug, Subcommand)]
pub(crate) enum BackupPart {
    /// Copy the positions of a keyspace, before a snapshot of it is taken
    #[command(after_help = BACKUP_POSITIONS_EXAMPLES)]
    Positions(PositionsArgs),
}

/// What is put back into a keyspace.
#[derive(Debug, Subcommand)]
pub(crate) enum RestorePart {
    /// Put the positions of a keyspace back, after a snapshot of it was restored
    #[command(after_help = RESTORE_POSITIONS_EXAMPLES)]
    Positions(RestorePositionsArgs),
}

/// Flags of `backup positions` and `restore positions`.
#[derive(Debug, Args)]
pub(crate) struct PositionsArgs {
    /// The positions, as JSON
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub server: ServerFlags,
}

/// Flags of `restore positions`.
#[derive(Debug, Args)]
pub(crate) struct RestorePositionsArgs {
    #[command(flatten)]
    pub positions: PositionsArgs,
    /// Continue although trips were erased during the snapshot
    #[arg(long)]
    pub allow_erased: bool,
}

/// Flags of `restore`.
#[derive(Debug, Args)]
#[command(
    after_help = RESTORE_EXAMPLES,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub(crate) struct RestoreArgs {
    /// A copy that `tstar backup` made
    #[arg(value_name = "FILE", required = true)]
    pub file: Option<PathBuf>,
    #[command(subcommand)]
    pub part: Option<RestorePart>,
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
pub(crate) async fn back_up(
    args: &BackupArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    if let Some(BackupPart::Positions(args)) = &args.part {
        let settings = context.settings(&[&args.server.0])?;
        position_backup::check(&settings.url()?)?;
        let store = settings.reader().await?;
        return printer.json(&position_backup::back_up(&store, &args.file).await?);
    }
    let file = args.file.as_ref().expect("clap requires it");
    let settings = context.settings(&[&args.server.0])?;
    let store = settings.reader().await?;
    let report = backup::back_up(&store, &settings.url()?, file).await?;
    printer.json(&report)
}

/// Checks a copy, and puts it in the place of the store.
pub(crate) async fn restore(
    args: &RestoreArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    if let Some(RestorePart::Positions(RestorePositionsArgs { positions: args, allow_erased })) =
        &args.part
    {
        let settings = context.settings(&[&args.server.0])?;
        position_backup::check(&settings.url()?)?;
        let rules = Rules::default();
        let store = settings.open(Access::WriteTopic(&rules)).await?;
        let restored = position_backup::restore(&store, &args.file, *allow_erased).await?;
        return printer.json(&restored);
    }
    let file = args.file.as_ref().expect("clap requires it");
    let settings = context.settings(&[&args.server.0])?;
    let sha256 = args.sha256.as_deref();
    let report = match args.check {
        true => backup::check(file, sha256).await?,
        false => backup::restore(file, sha256, &settings.url()?).await?,
    };
    printer.json(&report)
}
