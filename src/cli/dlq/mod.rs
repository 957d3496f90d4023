//! `dlq`: list, replay or purge dead letters.

mod list;

use std::sync::Arc;

use clap::{Args, Subcommand};

use super::flags::{Context, LetterFlags, OverrideFlags, RegistryFlags, ValueOutputFlags};
use super::print::Printer;
use super::times::parse_range;
use super::usage::at_least;
use super::{confirm, exit};
use crate::log::letters::{Letters, parse_reason};
use crate::model::scalar::LogTime;
use crate::model::zone::Zone;
use crate::ops::dlq::{ReplayRequest, purge, replay};
use crate::ops::{InvalidRequest, NoResult, Notify};
use crate::store::LetterFilter;

const EXAMPLES: &str = "\
Examples:
  tstar dlq ls
  tstar dlq replay --dry-run

Dead letters of a file store are in a table of the file; those of a keyspace are in the topic
INPUT.dlq, which needs --brokers.";

const LS_EXAMPLES: &str = "\
Examples:
  tstar dlq ls
  tstar dlq ls --reason bad_json --limit 10 --json
  tstar dlq ls --device truck-17 --from 2026-11-20T00:00:00Z --json
  tstar dlq ls --store scylla://127.0.0.1:9042/fleet --brokers 127.0.0.1:9092";

const SHOW_EXAMPLES: &str = "\
Examples:
  tstar dlq show 1
  tstar dlq show 1 --raw
  tstar dlq show 3:4711 --store scylla://127.0.0.1:9042/fleet --brokers 127.0.0.1:9092";

const REPLAY_EXAMPLES: &str = "\
Examples:
  tstar dlq replay --dry-run
  tstar dlq replay --reason missing_field --map time=when
  tstar dlq replay --reason time_before_min --time-unit s
  tstar dlq replay --store scylla://127.0.0.1:9042/fleet --brokers 127.0.0.1:9092

Appends the letters that can be used now to the log, each at least once: a letter is removed after
the log has its record. If this command is killed, rerun it: letters that were sent and not yet
removed are sent a second time, as duplicates, which change nothing. --map, --time-unit and
--speed-unit override the rules of the store for this command only. A letter that still fails
stays, and so does one that is too large for the log. With --schema-registry, schemas that were
unknown when their records were read are asked for again.";

const PURGE_EXAMPLES: &str = "\
Examples:
  tstar dlq purge --reason trip_full --device truck-17 --yes
  tstar dlq purge --to 2000-01-01T00:00:00Z --yes
  tstar dlq purge --all --store scylla://127.0.0.1:9042/fleet --brokers 127.0.0.1:9092";

/// Flags of `dlq`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DlqArgs {
    #[command(subcommand)]
    command: DlqCommand,
}

#[derive(Debug, Subcommand)]
enum DlqCommand {
    /// List dead letters, oldest first; those of a topic partition by partition
    #[command(after_help = LS_EXAMPLES)]
    Ls {
        #[command(flatten)]
        filter: FilterFlags,
        /// Print at most N letters
        #[arg(long, value_name = "N", value_parser = at_least(1_u64))]
        limit: Option<u64>,
        #[command(flatten)]
        output: ValueOutputFlags,
        #[command(flatten)]
        access: LetterFlags,
    },
    /// Show one dead letter with its original bytes
    #[command(after_help = SHOW_EXAMPLES)]
    Show {
        /// Id of the letter, as `dlq ls` prints it: a number; for a topic, partition:offset
        id: String,
        /// Print the original bytes and nothing else
        #[arg(long)]
        raw: bool,
        #[command(flatten)]
        output: ValueOutputFlags,
        #[command(flatten)]
        access: LetterFlags,
    },
    /// Append the letters that can be used now to the log
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(Box<ReplayArgs>),
    /// Delete dead letters
    #[command(after_help = PURGE_EXAMPLES)]
    Purge(PurgeArgs),
}

/// Flags of `dlq purge`.
#[derive(Debug, Args)]
struct PurgeArgs {
    #[command(flatten)]
    filter: FilterFlags,
    /// Delete all dead letters
    #[arg(long)]
    all: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    access: LetterFlags,
}

/// Flags of `dlq replay`.
#[derive(Debug, Args)]
struct ReplayArgs {
    #[command(flatten)]
    filter: FilterFlags,
    /// Count only; change nothing
    #[arg(long)]
    dry_run: bool,
    /// Give replayed records the current time as log timestamp, instead of their original one;
    /// device times are checked against it
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    overrides: OverrideFlags,
    #[command(flatten)]
    registry: RegistryFlags,
    #[command(flatten)]
    access: LetterFlags,
}

/// Selects dead letters.
#[derive(Debug, Args)]
struct FilterFlags {
    /// Only letters with this reason
    #[arg(long)]
    reason: Option<String>,
    /// Only letters whose key is this device, or whose JSON names it
    #[arg(long)]
    device: Option<String>,
    /// Only letters whose record has this log timestamp or a later one
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Only letters whose record has this log timestamp or an earlier one
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
}

impl FilterFlags {
    fn read(&self) -> anyhow::Result<LetterFilter> {
        let reason = self.reason.as_deref().map(parse_reason).transpose()?;
        let (from_ms, to_ms) = parse_range(self.from.as_deref(), self.to.as_deref(), Zone::UTC)?;
        let (from_ms, to_ms) = (from_ms.map(LogTime), to_ms.map(LogTime));
        Ok(LetterFilter { reason, device: self.device.clone(), from_ms, to_ms })
    }

    /// Whether no flag is set, which selects all letters.
    fn is_empty(&self) -> bool {
        let Self { reason, device, from, to } = self;
        [reason, device, from, to].into_iter().all(Option::is_none)
    }
}

async fn open_letters(flags: &LetterFlags, context: &Context) -> anyhow::Result<Letters> {
    Letters::open(context.settings(&[&flags.0])?).await
}

/// Runs a `dlq` command.
pub(crate) async fn run(
    args: &DlqArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    match &args.command {
        DlqCommand::Ls { filter, limit, output, access } => {
            let filter = filter.read()?;
            let letters = open_letters(access, context).await?;
            list::list(&letters, &filter, limit.unwrap_or(u64::MAX), output, printer)
        }
        DlqCommand::Show { id, raw, output, access } => {
            let letters = open_letters(access, context).await?;
            list::show(letters.find(id)?, *raw, output, printer)
        }
        DlqCommand::Replay(args) => run_replay(args, context, printer).await,
        DlqCommand::Purge(args) => run_purge(args, context, printer).await,
    }
}

async fn run_replay(
    args: &ReplayArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let settings = context.settings(&[&args.access.0, &args.registry.0])?;
    let request = ReplayRequest {
        registry: settings.registry()?,
        filter: args.filter.read()?,
        overrides: args.overrides.read(context)?,
        now_ms: args.now.then_some(settings.now_ms),
        dry_run: args.dry_run,
        notify: Arc::new(exit::print_status),
    };
    let letters = open_letters(&args.access, context).await?;
    let outcome = replay(&letters, &request).await?;
    if outcome.replayed > 0 && !outcome.dry_run {
        exit::print_status(
            "each letter was sent at least once; a second copy is a duplicate, which changes nothing",
        );
    }
    if outcome.control_records() > 0 {
        exit::print_status(&format!(
            "control records: {}; they never go back into the log; if an erasure was intended, \
             send it again with tstar forget",
            outcome.control_records()
        ));
    }
    printer.json(&outcome)
}

async fn run_purge(
    args: &PurgeArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let filter = args.filter.read()?;
    if args.all != args.filter.is_empty() {
        let problem = "pass --reason, --device, --from or --to; or --all and none of those";
        return Err(InvalidRequest(problem.into()).into());
    }
    if !args.yes && !confirm::is_possible() {
        return Err(InvalidRequest("no terminal to confirm on; pass --yes".into()).into());
    }
    let letters = open_letters(&args.access, context).await?;
    if !args.yes {
        let mut selected = letters.read(&filter)?;
        let count = selected.try_fold(0_u64, |count, letter| letter.map(|_| count + 1))?;
        let store = letters.store();
        let question = format!("tstar: delete {count} dead letters of {store}? [y/N] ");
        if !matches!(confirm::prompt(&question).await?.trim(), "y" | "Y" | "yes") {
            return Err(NoResult("nothing was deleted: the answer was no".into()).into());
        }
    }
    let notify: Notify = Arc::new(exit::print_status);
    let outcome = purge(&letters, &filter, &notify).await?;
    if let Some(error) = &outcome.space_not_freed {
        exit::print_status(&format!(
            "the letters are deleted, but their disk space is not freed yet: {error}"
        ));
    }
    printer.json(&outcome)
}
