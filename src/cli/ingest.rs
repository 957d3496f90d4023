//! `ingest`: trips from files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tstar::ops::{BadData, Cancel, PartialResult, Stopped};

use clap::{Args, ValueEnum};
use tstar::model::reason::DeadReason;
use tstar::pipeline::processor::{Processor, ProcessorConfig, RunError, SampleCounts};
use tstar::settings::Settings;
use tstar::source::file::{FileSource, Options};
use tstar::source::spill::Spill;
use tstar::source::{Batch, Decoder, Source, SourceError};
use tstar::store::{EmbeddedStore, Step};

use super::exit;
use super::flags::{Context, ImportFlags, RuleFlags};
use super::open;
use super::print::Printer;
use super::progress::Progress;
use super::report::Summary;
use super::stop;

const EXAMPLES: &str = "\
Examples:
  tstar ingest day1.ndjson.gz
  tstar ingest day1.csv --map device_id=vehicle --speed-unit kmh --store sqlite:fleet.db
  tstar ingest - --json --strict

Field names: device_id (deviceId, device), time (ts, timestamp), lat (latitude), lon (longitude,
lng), speed, heading (bearing, course), altitude, accuracy, driver, ignition.
Samples that cannot be used are kept: see `tstar dlq ls`.
Exits 65 where the input breaks off, and under --strict where there is any dead letter.
A run that was stopped goes on when it is started again: files are known by their content.";

/// Form of the summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SummaryFormat {
    /// For people
    Table,
    /// One JSON object
    Json,
}

/// Flags of `ingest`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct IngestArgs {
    /// NDJSON or CSV, plain, .gz or .zst; - for stdin
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Exit 65 where this run finds any dead letter
    #[arg(long)]
    pub strict: bool,
    /// Form of the summary [default: table on a terminal, else json]
    #[arg(long, value_enum, value_name = "FORM")]
    pub format: Option<SummaryFormat>,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    #[command(flatten)]
    pub rules: RuleFlags,
    #[command(flatten)]
    pub import: ImportFlags,
}

/// Builds the trips of the files and prints the summary.
pub async fn run(
    args: &IngestArgs,
    context: &Context,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    let flags: Vec<_> = args.rules.0.iter().chain(&args.import.0).cloned().collect();
    let (settings, _) = context.settings(&flags)?;
    let ImportSummary { counts, trips, stopped } = import(&args.files, &settings, context).await?;
    let summary = Summary::new(&counts, Some(trips));
    let usual = if printer.is_terminal() { SummaryFormat::Table } else { SummaryFormat::Json };
    let format = if args.json { SummaryFormat::Json } else { args.format.unwrap_or(usual) };
    match format {
        SummaryFormat::Table => printer.line(&summary.table())?,
        SummaryFormat::Json => printer.line(&serde_json::to_string(&summary)?)?,
    }
    printer.flush()?;
    advise(&counts, &settings);
    if let Some(error) = stopped {
        return Err(error);
    }
    verdict(&counts, args.strict)
}

/// What an import did.
pub struct ImportSummary {
    /// What became of the samples.
    pub counts: SampleCounts,
    /// Trips that the store holds now.
    pub trips: u64,
    /// Why the input was not read to its end; what came before is stored and counted.
    pub stopped: Option<anyhow::Error>,
}

/// Why files do not go into a keyspace.
const THROUGH_THE_LOG: &str = "files do not go into a keyspace directly, as its versions are \
    places in a topic and those of files would have no order among them; import into sqlite:FILE, \
    or send the samples through the topic";

/// Reads files into the store of the settings.
pub async fn import(
    files: &[PathBuf],
    settings: &Settings,
    context: &Context,
) -> anyhow::Result<ImportSummary> {
    let now_ms = context.now_ms;
    let rules = settings.rules();
    let mut options = Options {
        format: settings.input_format,
        decoder: Arc::new(Decoder::new(&rules)?),
        log_time_ms: now_ms,
        first_offset: 0,
        known: Vec::new(),
    };
    // A name that is mistyped makes no store.
    FileSource::check(files, &options)?;
    let stop = stop::on_signals(PartialResult::Read)?;
    let path = open::file_path(&settings.store, THROUGH_THE_LOG)?;
    let mut store = EmbeddedStore::open_writer(&path, &rules, settings.keep_changes)?;
    if let Some((step, count)) = context.break_off() {
        break_off(&mut store, step, count);
    }
    store.set_cache(open::cache(settings))?;
    let mut processor = Processor::new(&store, &rules, pace(settings)).await?;
    // Beside the store itself, wherever links lead to it: where that has room, this has too.
    let real = std::fs::canonicalize(&path).unwrap_or(path);
    let folder = real.parent().filter(|folder| !folder.as_os_str().is_empty());
    processor.enable_spill(Spill::new(folder.unwrap_or(Path::new(".")))).await?;
    options.first_offset = processor.position().delivered;
    options.known = store.parts()?;
    let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
    store.begin_import(now_ms, &names)?;
    let source = FileSource::open(files, options)?;
    let mut progress = Progress::new(source.total_bytes());
    let mut source = Until { source, stop };
    let ended = processor.run(&mut source, |batch, counts| progress.show(batch, counts)).await;
    progress.finish();
    let stopped = match (ended, source.stop.signal()) {
        (Ok(()), None) => {
            store.end_import()?;
            None
        }
        (Ok(()), Some(signal)) => Some(Stopped { signal, partial: PartialResult::Read }.into()),
        (Err(RunError::Source(error)), _) => Some(error.into()),
        (Err(error), _) => return Err(error.into()),
    };
    Ok(ImportSummary { counts: processor.counts().clone(), trips: store.count_trips()?, stopped })
}

/// Aborts the program the so-manieth time that a flush comes to a step, as a crash would.
pub fn break_off(store: &mut EmbeddedStore, step: Step, count: u64) {
    let seen = AtomicU64::new(0);
    store.on_step(move |at| {
        if at == step && seen.fetch_add(1, Ordering::Relaxed) + 1 == count {
            std::process::abort();
        }
    });
}

/// A source that ends when a signal asks for it.
struct Until {
    source: FileSource,
    stop: Cancel,
}

impl Source for Until {
    async fn next(&mut self) -> Result<Option<Batch>, SourceError> {
        tokio::select! {
            biased;
            () = self.stop.wait() => Ok(None),
            batch = self.source.next() => batch,
        }
    }
}

/// What batches on their way and dead letters that wait take, bytes.
const BUFFERS: u64 = 32_000_000;

fn pace(settings: &Settings) -> ProcessorConfig {
    let duration = |ms: i64| Duration::from_millis(ms.unsigned_abs());
    let memory = settings.memory.saturating_sub(open::cache(settings) + BUFFERS);
    ProcessorConfig {
        flush_interval: duration(settings.flush_interval_ms),
        max_staleness: duration(settings.max_staleness_ms),
        memory: usize::try_from(memory).unwrap_or(usize::MAX),
        ..ProcessorConfig::default()
    }
}

/// Says once what the counts suggest.
fn advise(counts: &SampleCounts, settings: &Settings) {
    let (seconds, dead) = (counts.looks_like_seconds, counts.dead());
    if seconds > 0 {
        exit::print_status(&format!(
            "hint: {seconds} times before --min-time would be good ones in seconds: \
             try --time-unit s"
        ));
    }
    if dead > 0 {
        let store = &settings.store;
        exit::print_status(&format!(
            "{dead} samples could not be used; they are kept: tstar dlq ls --store {store}"
        ));
    }
}

fn verdict(counts: &SampleCounts, strict: bool) -> anyhow::Result<()> {
    let cut = counts.dead_letters.get(&DeadReason::TruncatedInput);
    if let Some(count) = cut {
        let problem = format!(
            "the input breaks off in {count} place(s); what came before is stored, \
             `tstar dlq ls --reason truncated_input` tells where"
        );
        return Err(BadData(problem).into());
    }
    if strict && counts.dead() > 0 {
        return Err(BadData(format!("{} dead letters under --strict", counts.dead())).into());
    }
    Ok(())
}
