//! `schema`: prints the schema files that the program was built with, or applies them.

use clap::{Args, Subcommand, ValueEnum};

use super::flags::{Context, Format, ServerFlags, ValueOutputFlags};
use super::print::Printer;
use super::{exit, table};
use crate::model::preset::{PRESETS, Preset};
use crate::ops::InvalidRequest;
use crate::ops::schema;

const EXAMPLES: &str = "\
Examples:
  tstar schema print
  tstar schema print trips-cql
  tstar schema presets
  tstar schema apply --store scylla://localhost/fleet --create-keyspace";

const PRINT_EXAMPLES: &str = "\
Examples:
  tstar schema print
  tstar schema print trips";

const PRESETS_EXAMPLES: &str = "\
Examples:
  tstar schema presets
  tstar schema presets owntracks

--preset NAME sets the field map, the units and what is skipped. --map replaces single names.";

const APPLY_EXAMPLES: &str = "\
Examples:
  tstar schema apply --store scylla://localhost/fleet --create-keyspace
  tstar schema apply --store scylla://a,b/fleet --create-keyspace --replication-factor 3

Creates what is missing and changes nothing else. Use a replication factor of 3 in production.";

/// Flags of `schema`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SchemaArgs {
    #[command(subcommand)]
    command: SchemaCommand,
}

#[derive(Debug, Subcommand)]
enum SchemaCommand {
    /// Print one schema file, or all those of the embedded store
    #[command(after_help = PRINT_EXAMPLES)]
    Print {
        /// Schema file
        #[arg(value_enum)]
        file: Option<SchemaFile>,
    },
    /// List the presets, or show one with its field map
    #[command(after_help = PRESETS_EXAMPLES)]
    Presets {
        /// Name of a preset
        name: Option<String>,
        #[command(flatten)]
        output: ValueOutputFlags,
    },
    /// Create the tables of a keyspace in Scylla or Cassandra
    #[command(after_help = APPLY_EXAMPLES)]
    Apply(ApplyArgs),
}

#[derive(Debug, Args)]
struct ApplyArgs {
    /// Create the keyspace, too, if it does not exist
    #[arg(long)]
    create_keyspace: bool,
    /// Replication factor of a new keyspace, in each datacenter
    #[arg(
        long,
        value_name = "N",
        requires = "create_keyspace",
        default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=100)
    )]
    replication_factor: u32,
    #[command(flatten)]
    server: ServerFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SchemaFile {
    /// Trips and the day index (SQLite)
    Trips,
    /// Rules, epochs, positions, erasures, control keys, claims and schemas (SQLite)
    Log,
    /// Progress of each imported file, dead letters and changes (SQLite)
    Journal,
    /// Views for other programs (SQLite)
    Views,
    /// Tags of trips and devices (SQLite)
    Tags,
    /// Trips (Scylla and Cassandra)
    TripsCql,
    /// Epochs, erasures, control keys, claims and schemas (Scylla and Cassandra)
    LogCql,
    /// Tags of trips and devices (Scylla and Cassandra)
    TagsCql,
    /// Path of a trip, as stored in its row (Protocol Buffers)
    Path,
}

impl SchemaFile {
    const EMBEDDED: [Self; 5] = [Self::Trips, Self::Log, Self::Journal, Self::Views, Self::Tags];

    fn text(self) -> &'static str {
        match self {
            Self::Trips => include_str!("../../schema/trips.sql"),
            Self::Log => include_str!("../../schema/log.sql"),
            Self::Journal => include_str!("../../schema/journal.sql"),
            Self::Views => include_str!("../../schema/views.sql"),
            Self::Tags => include_str!("../../schema/tags.sql"),
            Self::TripsCql => include_str!("../../schema/trips.cql"),
            Self::LogCql => include_str!("../../schema/log.cql"),
            Self::TagsCql => include_str!("../../schema/tags.cql"),
            Self::Path => include_str!("../../schema/path.proto"),
        }
    }
}

/// Runs `schema`.
pub(crate) async fn run(
    args: &SchemaArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    match &args.command {
        SchemaCommand::Print { file } => {
            let files = file.as_ref().map_or(SchemaFile::EMBEDDED.as_slice(), std::slice::from_ref);
            Ok(files.iter().try_for_each(|file| printer.write(file.text().as_bytes()))?)
        }
        SchemaCommand::Presets { name, output } => presets(name.as_deref(), output, printer),
        SchemaCommand::Apply(args) => {
            let settings = context.settings(&[&args.server.0])?;
            let replicas = args.create_keyspace.then_some(args.replication_factor);
            for note in schema::apply(&settings, replicas).await? {
                exit::print_status(&format!("note: {note}"));
            }
            Ok(printer.line("ok")?)
        }
    }
}

/// The fields of a preset, in their order.
const PRESET_FIELDS: [&str; 9] =
    ["preset", "reads", "map", "time_unit", "speed_unit", "time_zone", "key", "decode", "source"];

fn preset_fields(preset: &Preset) -> serde_json::Value {
    serde_json::json!({
        "preset": preset.label(),
        "reads": preset.about,
        "map": preset.map.join(","),
        "time_unit": preset.time_unit,
        "speed_unit": preset.speed_unit,
        "time_zone": preset.time_zone,
        "key": preset.key,
        "decode": preset.decode,
        "source": preset.source,
    })
}

fn presets(
    name: Option<&str>,
    output: &ValueOutputFlags,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let format = printer.format(output);
    if let Some(name) = name {
        let Some(preset) = Preset::by_name(name) else {
            let problem = format!("`{name}` is not a preset; `tstar schema presets` lists them");
            return Err(InvalidRequest(problem).into());
        };
        return printer.object(&preset_fields(preset), &PRESET_FIELDS, format);
    }
    if format == Format::Table {
        let rows: Vec<_> =
            PRESETS.iter().map(|preset| [preset.label(), preset.about.to_owned()]).collect();
        return Ok(printer.line(&table::rows(["preset", "reads"], &[], &rows))?);
    }
    printer.values(&PRESETS.iter().map(preset_fields).collect::<Vec<_>>(), format)
}
