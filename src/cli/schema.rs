//! `schema`: the files that describe what is stored, as they were when the program was built.

use clap::{Args, Subcommand, ValueEnum};

use super::print::Printer;

const EXAMPLES: &str = "\
Examples:
  tstar schema print
  tstar schema print trips";

/// Flags of `schema`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SchemaArgs {
    #[command(subcommand)]
    command: SchemaCommand,
}

#[derive(Debug, Subcommand)]
enum SchemaCommand {
    /// Print one file, or all of the embedded store
    #[command(after_help = EXAMPLES)]
    Print {
        /// Which file
        #[arg(value_enum)]
        file: Option<SchemaFile>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SchemaFile {
    /// Tables of trips (SQLite)
    Trips,
    /// Tables of the log's side (SQLite)
    Journal,
    /// What was read of each file (SQLite)
    Parts,
    /// A log that is a topic, and what it erased (SQLite)
    Topic,
    /// Samples of a trip, inside a row (Protocol Buffers)
    Path,
}

impl SchemaFile {
    const EMBEDDED: [Self; 4] = [Self::Trips, Self::Journal, Self::Parts, Self::Topic];

    fn text(self) -> &'static str {
        match self {
            Self::Trips => include_str!("../../schema/trips.sql"),
            Self::Journal => include_str!("../../schema/journal.sql"),
            Self::Parts => include_str!("../../schema/parts.sql"),
            Self::Topic => include_str!("../../schema/topic.sql"),
            Self::Path => include_str!("../../schema/path.proto"),
        }
    }
}

/// Runs `schema`.
pub fn run(args: &SchemaArgs, printer: &mut Printer<'_>) -> anyhow::Result<()> {
    let SchemaCommand::Print { file } = &args.command;
    let files = file.as_ref().map_or(SchemaFile::EMBEDDED.as_slice(), std::slice::from_ref);
    files.iter().try_for_each(|file| printer.write(file.text().as_bytes()))?;
    Ok(())
}
