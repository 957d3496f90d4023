//! `replay`: late or historic data into the topic, and the topic into a store again.

mod files;
mod topic;

use clap::{Args, Subcommand};

use super::flags::Context;
use super::print::Printer;

const EXAMPLES: &str = "\
Examples:
  tstar replay files late.ndjson.gz --brokers 127.0.0.1:9092
  tstar replay topic --from earliest --store scylla://127.0.0.1:9042/fleet

Both say what would change, and do it with --apply.";

/// Flags of `replay`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ReplayArgs {
    #[command(subcommand)]
    command: ReplayCommand,
}

#[derive(Debug, Subcommand)]
enum ReplayCommand {
    /// Late or historic samples in files into the topic
    Files(Box<files::FilesArgs>),
    /// The records of the topic into a store once more
    Topic(Box<topic::TopicArgs>),
}

/// Runs `replay`.
pub async fn run(
    args: &ReplayArgs,
    context: &Context,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    match &args.command {
        ReplayCommand::Files(args) => files::run(args, context, printer).await,
        ReplayCommand::Topic(args) => topic::run(args, context, printer).await,
    }
}
