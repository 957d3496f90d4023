//! `replay topic`: the topic into a store once more.

use std::ops::Range;
use std::sync::Arc;
use tstar::ops::{Cancel, InvalidRequest, NoResult, PartialResult, PreconditionFailed, Stopped};

use clap::Args;
use serde::Serialize;
use tstar::kafka::topic::StartFrom;
use tstar::model::time::parse_time;
use tstar::ops::verify::Difference;
use tstar::ops::verify::compare::{CompareOptions, compare};
use tstar::ops::verify::reference::{self, Workspace};
use tstar::pipeline::daemon::topic_replay::{TopicReplay, first_offsets, versions_before};
use tstar::pipeline::daemon::{CountingStores, Report, RowCounts, ScyllaStores, SqliteStores};
use tstar::settings::Settings;
use tstar::store::raw::RawRows;
use tstar::store::{Access, AnyStore, DeviceScope, EpochStore, StoreUrl, TripStore};

use crate::cli::exit;
use crate::cli::flags::{Context, LogFlags, RoomFlags, ServerFlags};
use crate::cli::open;
use crate::cli::print::Printer;
use crate::cli::progress;
use crate::cli::stop;
use tstar::ops::topic_log::{self, TopicLog};

pub const EXAMPLES: &str = "\
Examples:
  tstar replay topic --from earliest --store scylla://127.0.0.1:9042/fleet
  tstar replay topic --from 2026-11-01T00:00:00Z --device truck-17 --apply
  tstar replay topic --from earliest --apply --store sqlite:other.db

Says which rows it would write that differ from those that are there; --apply writes them. Into a
store of the same epoch that has it all nothing differs; into an empty one (tstar epoch import) it
writes all, byte for byte. May run beside `tstar run` on a keyspace; a file has one writer.";

/// Flags of `replay topic`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TopicArgs {
    /// Where to begin: earliest, offset:N (in each partition), or a time of the log
    #[arg(long, value_name = "WHERE")]
    pub from: String,
    /// One device alone
    #[arg(long, value_name = "ID")]
    pub device: Option<String>,
    /// Write; else it is only told what would change
    #[arg(long)]
    pub apply: bool,
    /// Send the changes to the feed once more
    #[arg(long, requires = "apply")]
    pub announce: bool,
    #[command(flatten)]
    pub room: RoomFlags,
    #[command(flatten)]
    pub log: LogFlags,
    #[command(flatten)]
    pub server: ServerFlags,
}

/// What a replay did, or would do, as JSON.
#[derive(Debug, Serialize)]
struct ReplayJson {
    applied: bool,
    records: u64,
    rows: u64,
    rows_that_differ: u64,
}

/// Where a replay begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Offset(i64),
    Log(StartFrom),
}

fn parse_where(text: &str) -> Result<Where, InvalidRequest> {
    let bad = |why: &str| {
        InvalidRequest(format!(
            "--from {text}: neither `earliest`, nor offset:N, nor a time: {why}"
        ))
    };
    if text == "earliest" {
        return Ok(Where::Log(StartFrom::Earliest));
    }
    if let Some(offset) = text.strip_prefix("offset:") {
        let offset = offset.parse().ok().filter(|offset| *offset >= 0);
        return offset.map(Where::Offset).ok_or_else(|| bad("N is no offset"));
    }
    parse_time(text)
        .map(|ms| Where::Log(StartFrom::Time(ms)))
        .map_err(|error| bad(&error.to_string()))
}

/// Replays the topic.
pub async fn run(
    args: &TopicArgs,
    context: &Context,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    let flags = [&args.log.0[..], &args.server.0, &args.room.memory.0].concat();
    let settings = context.settings(&flags)?.0;
    let from = parse_where(&args.from)?;
    let reader = Arc::new(open::reader(&settings, context).await?);
    let log = TopicLog::open(&reader, &open::log_access(&settings)?).await?;
    let mut log = log.ok_or_else(|| match reader.embedded() {
        None => topic_log::no_epoch(&settings.store),
        Some(_) => PreconditionFailed(format!(
            "store `{}` has no epoch: it was built from files, which `tstar ingest` reads again, \
             or from nothing yet: tstar epoch import",
            settings.store
        )),
    })?;
    if reader.devices(DeviceScope::All, None, 1).await?.is_empty() {
        // Whatever a group has read, it is not in here.
        log.stored = first_offsets(&log.epochs);
    }
    let job = TopicReplayJob { args, settings: &settings, context, log };
    let from = job.beginnings(from)?;
    let stays = if args.apply { PartialResult::Read } else { PartialResult::Nothing };
    let mut stop = stop::on_signals(stays)?;
    let done = if args.apply {
        drop(reader);
        job.apply(&from, &mut stop).await
    } else {
        job.preview(&reader, &from, &mut stop).await
    };
    let done = done.map_err(|error| exit::interrupted(stays, error))?;
    if let (Some(device), 0) = (&args.device, done.records) {
        let reason = format!("the log has no sample of device `{device}` there");
        return Err(NoResult(reason).into());
    }
    printer.line(&serde_json::to_string(&done)?)?;
    let what = match (args.apply, done.rows_that_differ) {
        (_, 0) => "0 rows differ: the store has it all".to_owned(),
        (true, differ) => format!("{differ} rows were not there, or others, and are right now"),
        (false, differ) => format!("{differ} rows would be written that differ; --apply does it"),
    };
    exit::print_status(&what);
    Ok(())
}

struct TopicReplayJob<'a> {
    args: &'a TopicArgs,
    settings: &'a Settings,
    context: &'a Context,
    log: TopicLog,
}

impl TopicReplayJob<'_> {
    /// The first offset of each partition.
    fn beginnings(&self, from: Where) -> anyhow::Result<Vec<i64>> {
        let first = first_offsets(&self.log.epochs);
        let asked: Vec<i64> = match from {
            Where::Log(StartFrom::Earliest) => first.clone(),
            Where::Offset(offset) => vec![offset; first.len()],
            Where::Log(from) => self.log.offsets_from(from)?,
        };
        let beyond = (0..).zip(asked.iter().zip(&self.log.extents));
        let mut beyond = beyond.filter(|(_, (asked, extent))| **asked > extent.next);
        if let (Where::Offset(offset), Some((partition, (_, extent)))) = (from, beyond.next()) {
            return Err(PreconditionFailed(format!(
                "partition {partition} of topic `{}` ends at offset {}, before {offset}",
                self.log.topic(),
                extent.next
            ))
            .into());
        }
        Ok(asked.into_iter().zip(first).map(|(asked, first)| asked.max(first)).collect())
    }

    /// Tells what would change: the store beside one that is built anew.
    async fn preview(
        &self,
        store: &Arc<AnyStore>,
        from: &[i64],
        stop: &mut Cancel,
    ) -> anyhow::Result<ReplayJson> {
        self.log.is_whole()?;
        let reread = self.log.reread(self.log.all_there(), self.args.device.clone())?;
        let room = Workspace { folder: &self.args.room.work_dir, memory: self.settings.memory };
        let built =
            reference::of_topic(&reread, store, room, progress::trouble(), stop.wait()).await?;
        let (right, report) = built;
        ended(&report, stop, PartialResult::Nothing)?;
        let bounds = self.log.bounds(&reread);
        let before = versions_before(&self.log.epochs, from);
        let oldest = before.values().copied().min().unwrap_or(i64::MIN);
        let mut differ = 0;
        let mut see = |difference: &Difference, _: bool| {
            let is_written = difference.version.is_some_and(|version| version > oldest);
            differ += u64::from(is_written);
        };
        let asked = CompareOptions { device_id: self.args.device.as_deref(), repair: false };
        let of = (bounds, &self.log);
        let compare = compare(&right, &**store, &asked, of, &mut see);
        let compared = tokio::select! {
            biased;
            () = stop.wait() => None,
            compared = compare => Some(compared?),
        };
        let Some(compared) = compared else {
            let signal = stop.signal().expect("it was waited for");
            return Err(Stopped { signal, partial: PartialResult::Nothing }.into());
        };
        Ok(ReplayJson {
            applied: false,
            records: report.counts.delivered,
            rows: compared.same + differ,
            rows_that_differ: differ,
        })
    }

    /// What is read again, where it is to be written.
    fn reread(&self, from: &[i64]) -> anyhow::Result<TopicReplay> {
        let pairs = (0..).zip(from.iter().zip(&self.log.stored));
        let mut later = pairs.filter(|(_, (from, stored))| from > stored);
        if let Some((partition, (from, stored))) = later.next() {
            return Err(PreconditionFailed(format!(
                "the store is sure to have partition {partition} up to offset {stored}, and the \
                 replay would begin at {from}: what lies between would be missing, and other ids \
                 would come out; begin with --from earliest, or offset:{stored} or less"
            ))
            .into());
        }
        let ends = self.log.extents.iter().map(|extent| extent.next);
        let spans: Vec<Range<i64>> =
            from.iter().zip(ends).map(|(&from, next)| from..next.max(from)).collect();
        self.log.reread(spans, self.args.device.clone())
    }

    async fn apply(&self, from: &[i64], stop: &mut Cancel) -> anyhow::Result<ReplayJson> {
        let reread = self.reread(from)?;
        let tally = Arc::new(RowCounts::default());
        let url = StoreUrl::parse(&self.settings.store)?;
        if url.path().is_some() && self.args.device.is_some() {
            let problem = "--device with --apply is for a keyspace: a file keeps one position for \
                 all devices of a partition";
            return Err(InvalidRequest(problem.into()).into());
        }
        let rules = &self.log.epochs.last().expect("there is an epoch").rules;
        let mut options = open::options(self.settings, self.context)?;
        if !self.args.announce {
            options.keep_changes = 0;
        }
        let store = Arc::new(AnyStore::open(&url, Access::WriteTopic(rules), options).await?);
        let report = match store.embedded() {
            Some(file) => {
                let owners = || SqliteStores(Arc::clone(file));
                self.write(&reread, owners, (&store, &tally), stop).await?
            }
            None => {
                let outputs = self.log.outputs(self.args.announce)?;
                let owners = || {
                    let store = Arc::clone(&store);
                    let outputs = Arc::clone(&outputs);
                    ScyllaStores { owner: move || store.for_worker(), outputs }
                };
                self.write(&reread, owners, (&store, &tally), stop).await?
            }
        };
        ended(&report, stop, PartialResult::Read)?;
        Ok(ReplayJson {
            applied: true,
            records: report.counts.delivered,
            rows: tally.same() + tally.other(),
            rows_that_differ: tally.other(),
        })
    }

    async fn write<O, R>(
        &self,
        reread: &TopicReplay,
        owners: impl Fn() -> O,
        (rows, tally): (&Arc<R>, &Arc<RowCounts>),
        stop: &mut Cancel,
    ) -> anyhow::Result<Report>
    where
        O: tstar::pipeline::daemon::PartitionStores,
        R: RawRows + TripStore + EpochStore + 'static,
    {
        let watched = || {
            let (rows, tally) = (Arc::clone(rows), Arc::clone(tally));
            CountingStores { owners: owners(), rows, tally }
        };
        let work = (open::processor_config(self.settings), progress::trouble());
        Ok(reread.run(watched, work, stop.wait()).await?)
    }
}

fn ended(report: &Report, stop: &Cancel, stays: PartialResult) -> anyhow::Result<()> {
    match (report.stopped, stop.signal()) {
        (true, Some(signal)) => Err(Stopped { signal, partial: stays }.into()),
        _ => Ok(()),
    }
}
