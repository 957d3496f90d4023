//! `verify`: a store beside one that is built anew from its log.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use tstar::ops::{InvalidRequest, NoResult, PartialResult, PreconditionFailed, Stopped};

use clap::Args;
use serde::Serialize;
use tstar::ops::verify::compare::{CompareOptions, FixedLog, compare};
use tstar::ops::verify::reference::{self, Workspace};
use tstar::ops::verify::{Bounds, Comparison, Difference, Kind};
use tstar::pipeline::daemon::Report;
use tstar::settings::Settings;
use tstar::store::{Access, AnyStore, EpochStore};

use super::exit;
use super::flags::{Context, Format, LogFlags, OutputFlags, RoomFlags, ServerFlags};
use super::open;
use super::print::Printer;
use super::progress::{self, Progress};
use super::stop;
use tstar::ops::topic_log::{self, TopicLog};

const EXAMPLES: &str = "\
Examples:
  tstar verify day1.ndjson.gz
  tstar verify --store scylla://127.0.0.1:9042/fleet --brokers 127.0.0.1:9092
  tstar verify --store sqlite:live.db --brokers 127.0.0.1:9092 --device truck-17 --repair

Builds the trips anew from the log (the files that were imported, or the topic) and compares every
row, both ways. Exits 0 where nothing differs, 1 where something does.
Of the differences: missing, extra, different (which columns), overlapping, no_version (another
program wrote it), copy (one day's copy of a trip), unlisted (a day that no list has).";

/// Differences that a report shows, where nobody says how many.
const SHOWN: usize = 100;

/// Flags of `verify`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct VerifyArgs {
    /// The files that were imported, all of them; none for a store of a topic
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// One device alone
    #[arg(long, value_name = "ID")]
    pub device: Option<String>,
    /// Set right what can be
    #[arg(long)]
    pub repair: bool,
    /// Show so many differences
    #[arg(long, value_name = "N", default_value_t = SHOWN)]
    pub limit: usize,
    #[command(flatten)]
    pub room: RoomFlags,
    #[command(flatten)]
    pub output: OutputFlags,
    #[command(flatten)]
    pub log: LogFlags,
    #[command(flatten)]
    pub server: ServerFlags,
}

/// What a verification found, as JSON.
#[derive(Debug, Serialize)]
struct ReportJson {
    store: String,
    records: u64,
    trips_rebuilt: u64,
    #[serde(flatten)]
    compared: Comparison,
    seconds: f64,
    examples: Vec<serde_json::Value>,
}

/// Compares a store with its log.
pub async fn run(
    args: &VerifyArgs,
    context: &Context,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    let flags = [&args.log.0[..], &args.server.0, &args.room.memory.0].concat();
    let settings = context.settings(&flags)?.0;
    let format = printer.format(&args.output);
    if !matches!(format, Format::Table | Format::Json | Format::Ndjson) {
        return Err(InvalidRequest("a report comes as table, ndjson or json".into()).into());
    }
    let store = Arc::new(store(&settings, context, args.repair).await?);
    let job = VerifyJob { args, settings: &settings, began: Instant::now() };
    let of_topic = !store.epochs().await?.is_empty();
    let done = match (of_topic, args.files.is_empty()) {
        (true, true) => {
            job.of_topic(&store).await.map_err(|error| exit::interrupted(job.stays(), error))?
        }
        (false, false) => job.of_files(&store).await?,
        (true, false) => {
            let problem = "the store was built from a topic, which is read again; name no files";
            return Err(InvalidRequest(problem.into()).into());
        }
        (false, true) => return Err(topic_log::no_files(&store, &settings.store)),
    };
    if let (Some(device), 0) = (&args.device, done.compared.days) {
        let store = &settings.store;
        let reason = format!("neither store `{store}` nor its log has a trip of device `{device}`");
        return Err(NoResult(reason).into());
    }
    job.print(&done, format, printer)?;
    verdict(&done, args.repair)
}

/// The store, to be written to where it is to be set right.
async fn store(settings: &Settings, context: &Context, repair: bool) -> anyhow::Result<AnyStore> {
    let reader = open::reader(settings, context).await?;
    if !repair || reader.embedded().is_none() {
        return Ok(reader);
    }
    let rules = reader.rules().await?.ok_or_else(|| {
        PreconditionFailed(format!(
            "store `{}` holds nothing that could be set right",
            settings.store
        ))
    })?;
    let of_topic = !reader.epochs().await?.is_empty();
    drop(reader);
    let access = if of_topic { Access::WriteTopic(&rules) } else { Access::WriteFiles(&rules) };
    open::open(settings, context, access).await
}

/// What is printed in the end.
struct Done {
    records: u64,
    trips: u64,
    compared: Comparison,
    shown: Vec<(Difference, bool)>,
}

struct VerifyJob<'a> {
    args: &'a VerifyArgs,
    settings: &'a Settings,
    began: Instant,
}

impl VerifyJob<'_> {
    fn room(&self) -> Workspace<'_> {
        Workspace { folder: &self.args.room.work_dir, memory: self.settings.memory }
    }

    fn asked(&self) -> CompareOptions<'_> {
        CompareOptions { device_id: self.args.device.as_deref(), repair: self.args.repair }
    }

    /// What stays where it ends before its end.
    fn stays(&self) -> PartialResult {
        if self.args.repair { PartialResult::Repaired } else { PartialResult::Nothing }
    }

    async fn of_topic(&self, store: &Arc<AnyStore>) -> anyhow::Result<Done> {
        let log = TopicLog::open(store, &open::log_access(self.settings)?).await?;
        let log = log.ok_or_else(|| topic_log::no_epoch(&self.settings.store))?;
        log.is_whole()?;
        if !log.is_known {
            return Err(PreconditionFailed(format!(
                "group `{}` has committed no offset of topic `{}`: name with --group the one that \
                 `tstar run` reads as",
                self.settings.group,
                log.topic()
            ))
            .into());
        }
        let reread = log.reread(log.all_stored(), self.args.device.clone())?;
        let stays = self.stays();
        let mut stop = stop::on_signals(stays)?;
        let room = self.room();
        let built =
            reference::of_topic(&reread, store, room, progress::trouble(), stop.wait()).await;
        let (right, report): (_, Report) = built?;
        if let (true, Some(signal)) = (report.stopped, stop.signal()) {
            return Err(Stopped { signal, partial: stays }.into());
        }
        let bounds = log.bounds(&reread);
        let mut shown = Vec::new();
        let compared = {
            let mut see = self.keep(&mut shown);
            let options = self.asked();
            tokio::select! {
                biased;
                () = stop.wait() => None,
                compared = compare(&right, &**store, &options, (bounds, &log), &mut see) => Some(compared?),
            }
        };
        let Some(compared) = compared else {
            let signal = stop.signal().expect("it was waited for");
            return Err(Stopped { signal, partial: stays }.into());
        };
        let trips = right.count_trips()?;
        Ok(Done { records: report.counts.delivered, trips, compared, shown })
    }

    async fn of_files(&self, store: &AnyStore) -> anyhow::Result<Done> {
        let Some(imported) = store.embedded() else {
            return Err(PreconditionFailed("no files go into a keyspace".to_owned()).into());
        };
        let mut progress = Progress::new(None);
        let mut records = 0;
        let watch = |batch: &_, counts: &tstar::pipeline::processor::SampleCounts| {
            records = counts.delivered;
            progress.show(batch, counts);
        };
        let built = reference::of_files(imported, &self.args.files, self.room(), watch).await;
        progress.finish();
        let right = built?;
        let mut shown = Vec::new();
        let of = (Bounds::default(), &FixedLog);
        let compared = {
            let mut see = self.keep(&mut shown);
            compare(&right, &**imported, &self.asked(), of, &mut see).await?
        };
        Ok(Done { records, trips: right.count_trips()?, compared, shown })
    }

    fn keep<'s>(
        &self,
        shown: &'s mut Vec<(Difference, bool)>,
    ) -> impl FnMut(&Difference, bool) + use<'s> {
        let limit = self.args.limit;
        move |difference, is_left| {
            if shown.len() < limit {
                shown.push((difference.clone(), is_left));
            }
        }
    }

    fn print(&self, done: &Done, format: Format, printer: &mut Printer<'_>) -> anyhow::Result<()> {
        if format == Format::Table {
            return Ok(printer.line(&self.text(done))?);
        }
        let example = |(difference, is_left): &(Difference, bool)| {
            let mut object = difference.json();
            object["mended"] = (self.args.repair && !is_left).into();
            object
        };
        let report = ReportJson {
            store: self.settings.store.clone(),
            records: done.records,
            trips_rebuilt: done.trips,
            compared: done.compared.clone(),
            seconds: self.began.elapsed().as_secs_f64(),
            examples: done.shown.iter().map(example).collect(),
        };
        Ok(printer.line(&serde_json::to_string(&report)?)?)
    }

    fn text(&self, done: &Done) -> String {
        let compared = &done.compared;
        let mut lines = vec![format!(
            "{} samples read, {} trips built anew; {} days of devices compared, {} rows as they \
             should be{}",
            done.records,
            done.trips,
            compared.days,
            compared.same,
            match compared.ahead {
                0 => String::new(),
                ahead => format!(", {ahead} newer than what was read"),
            }
        )];
        for (difference, is_left) in &done.shown {
            let mended = if self.args.repair && !is_left { " (mended)" } else { "" };
            lines.push(format!("{}{mended}", difference.line()));
        }
        let more = compared.count().saturating_sub(done.shown.len() as u64);
        if more > 0 {
            lines.push(format!("and {more} more (--limit)"));
        }
        let totals = Kind::ALL.iter().filter_map(|kind| {
            compared.differences.get(kind).map(|count| format!("{} {count}", kind.name()))
        });
        let totals: Vec<_> = totals.collect();
        lines.push(match totals.as_slice() {
            [] => "nothing differs".to_owned(),
            totals => format!("differences: {}", totals.join(", ")),
        });
        lines.join("\n")
    }
}

fn verdict(done: &Done, repair: bool) -> anyhow::Result<()> {
    let (found, left) = (done.compared.count(), done.compared.count_left());
    if repair && found > 0 && left == 0 {
        exit::print_status(&format!("{found} differences were mended"));
        return Ok(());
    }
    if left == 0 {
        return Ok(());
    }
    let reason = if repair {
        format!(
            "{left} of {found} differences cannot be mended in place: what somebody wrote or \
             deleted there is stamped later than the rows that are right; build another store \
             beside it: tstar rebuild --into STORE"
        )
    } else {
        format!("{found} differences; --repair sets right what can be")
    };
    Err(NoResult(reason).into())
}
