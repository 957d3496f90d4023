//! `replay`: sends late or historic files to the topic, or replays the topic into a store.

mod files;
mod topic;

use clap::{Args, Subcommand};

use super::flags::Context;
use super::print::Printer;

const EXAMPLES: &str = "\
Examples:
  tstar replay files late.ndjson.gz --brokers 127.0.0.1:9092
  tstar replay topic --from earliest --store scylla://127.0.0.1:9042/fleet

Without --apply, both only report what would change.";

/// Flags of `replay`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReplayArgs {
    #[command(subcommand)]
    command: ReplayCommand,
}

#[derive(Debug, Subcommand)]
enum ReplayCommand {
    /// Send late or historic samples in files to the topic
    Files(Box<files::FilesArgs>),
    /// Replay the records of the topic into a store
    Topic(Box<topic::TopicArgs>),
}

/// Runs `replay`.
pub(crate) async fn run(
    args: &ReplayArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    match &args.command {
        ReplayCommand::Files(args) => files::run(args, context, printer).await,
        ReplayCommand::Topic(args) => topic::run(args, context, printer).await,
    }
}
