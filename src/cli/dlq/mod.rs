//! `dlq`: the samples that could not be used.

mod letters;
mod list;
mod purge;
mod replay;

use clap::{Args, Subcommand};

use super::flags::{Context, FixFlags, LetterFlags, OutputFlags, ServerFlags};
use super::print::Printer;
use letters::Letters;

const EXAMPLES: &str = "\
Examples:
  tstar dlq ls
  tstar dlq replay --dry-run

The dead letters of a file are a table of it, those of a keyspace are in the topic beside its log,
which needs --brokers.";

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

What can be used now goes back to the end of the log: each letter once, also where this is killed
and run again. The fix names what differs from the rules of the store, which stay as they are.
What still fails stays, with the reason that it has now. What went back before and came again for
the same reason stays, too, unless --reason names it; so does what is too large for the log.";

const PURGE_EXAMPLES: &str = "\
Examples:
  tstar dlq purge --reason trip_full --device truck-17 --yes
  tstar dlq purge --to 2000-01-01T00:00:00Z --yes
  tstar dlq purge --all --store scylla://127.0.0.1:9042/fleet --brokers 127.0.0.1:9092";

/// Flags of `dlq`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DlqArgs {
    #[command(subcommand)]
    command: DlqCommand,
}

#[derive(Debug, Subcommand)]
enum DlqCommand {
    /// List dead letters, oldest first; of a topic partition by partition
    #[command(after_help = LS_EXAMPLES)]
    Ls {
        #[command(flatten)]
        filter: FilterFlags,
        /// At most so many
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
        #[command(flatten)]
        output: OutputFlags,
        #[command(flatten)]
        place: PlaceFlags,
    },
    /// Show one dead letter with its original bytes
    #[command(after_help = SHOW_EXAMPLES)]
    Show {
        /// Its id, as `dlq ls` gives it: a number, in a topic partition:offset
        id: String,
        /// Print the original bytes and nothing else
        #[arg(long)]
        raw: bool,
        #[command(flatten)]
        output: OutputFlags,
        #[command(flatten)]
        place: PlaceFlags,
    },
    /// Put what can be used now back into the log
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(Box<ReplayArgs>),
    /// Throw dead letters away
    #[command(after_help = PURGE_EXAMPLES)]
    Purge {
        #[command(flatten)]
        filter: FilterFlags,
        /// All of them
        #[arg(long)]
        all: bool,
        /// Do not ask
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        place: PlaceFlags,
    },
}

/// Flags of `dlq replay`.
#[derive(Debug, Args)]
struct ReplayArgs {
    #[command(flatten)]
    filter: FilterFlags,
    /// Only count
    #[arg(long)]
    dry_run: bool,
    /// Stamp what goes back with the clock, not with its first timestamp: device times are judged
    /// by it
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    fix: FixFlags,
    #[command(flatten)]
    place: PlaceFlags,
}

/// Which dead letters.
#[derive(Debug, Args)]
struct FilterFlags {
    /// Only those of this reason
    #[arg(long)]
    reason: Option<String>,
    /// Only those whose key is this device, or whose JSON names it
    #[arg(long)]
    device: Option<String>,
    /// Only those whose record has this timestamp or a later one
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<String>,
    /// Only those whose record has this timestamp or an earlier one
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<String>,
}

/// Where the dead letters are.
#[derive(Debug, Args)]
struct PlaceFlags {
    #[command(flatten)]
    brokers: LetterFlags,
    #[command(flatten)]
    server: ServerFlags,
}

/// Runs a `dlq` command.
pub async fn run(
    args: &DlqArgs,
    context: &Context,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    match &args.command {
        DlqCommand::Ls { filter, limit, output, place } => {
            let filter = filter.read()?;
            let letters = Letters::open(place, context).await?;
            let format = printer.format(output);
            list::list(&letters, &filter, limit.unwrap_or(u64::MAX), format, printer)
        }
        DlqCommand::Show { id, raw, output, place } => {
            let letters = Letters::open(place, context).await?;
            list::show(&letters, id, *raw, output, printer)
        }
        DlqCommand::Replay(args) => replay::run(args, context, printer).await,
        DlqCommand::Purge { filter, all, yes, place } => {
            let asked = purge::PurgeRequest { filter, all: *all, yes: *yes, place };
            purge::run(&asked, context, printer).await
        }
    }
}
