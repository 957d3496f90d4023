//! `epoch`: the lives of the log that a store belongs to.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tstar::ops::{BadData, NoResult, PreconditionFailed};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use tstar::kafka::client::Brokers;
use tstar::kafka::group::Group;
use tstar::kafka::scan::Scan;
use tstar::kafka::topic::{OffsetRange, Topics};
use tstar::model::control::NamedKey;
use tstar::model::epoch::Epoch;
use tstar::pipeline::daemon::preflight::{self, TopicLayout};
use tstar::settings::Settings;
use tstar::store::{AnyStore, EpochStore, KeyStore};

use super::exit;
use super::flags::{Context, EpochFlags, RuleFlags, ServerFlags};
use super::open;
use super::print::Printer;
use tstar::ops::topic_log;

const EXAMPLES: &str = "\
Examples:
  tstar epoch show
  tstar epoch new --topic samples
  tstar epoch export --store sqlite:trips.db
  tstar epoch import epochs.json --store scylla://127.0.0.1:9042/copy

A version is base + 2 * offset, with the base of the epoch that first held the record.
`new` is for a topic whose partition count changed or that was made anew: with no instance running
and everything read. `import` is for an empty store that is to get the rows of another one.
`export` and `import` carry the control keys that count, by name and fingerprint, as well.";

/// Flags of `epoch`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct EpochArgs {
    #[command(subcommand)]
    command: EpochCommand,
    #[command(flatten)]
    server: ServerFlags,
}

#[derive(Debug, Subcommand)]
enum EpochCommand {
    /// Print every epoch, oldest first
    #[command(after_help = EXAMPLES)]
    Show,
    /// Begin a new epoch of the topic as it is now
    #[command(after_help = EXAMPLES)]
    New {
        #[command(flatten)]
        topic: EpochFlags,
        #[command(flatten)]
        rules: Box<RuleFlags>,
    },
    /// Print every epoch, and the control keys, as JSON for `import`
    #[command(after_help = EXAMPLES)]
    Export,
    /// Take over the epochs of another store
    #[command(after_help = EXAMPLES)]
    Import {
        /// What `export` printed
        file: PathBuf,
    },
}

/// Runs `epoch`.
pub async fn run(
    args: &EpochArgs,
    context: &Context,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    match &args.command {
        EpochCommand::Show => {
            let settings = context.settings(&args.server.0)?.0;
            for epoch in existing(&settings, context).await? {
                printer.line(&serde_json::to_string(&epoch)?)?;
                if let Some(note) = earlier(&epoch) {
                    exit::print_status(&format!("note: {note}"));
                }
            }
            Ok(())
        }
        EpochCommand::Export => {
            let settings = context.settings(&args.server.0)?.0;
            let store = open::reader(&settings, context).await?;
            let epochs = of_store(&store, &settings).await?;
            let control_keys = store.control_keys().await?;
            Ok(printer.line(&serde_json::to_string(&Exported { epochs, control_keys })?)?)
        }
        EpochCommand::Import { file } => {
            let settings = context.settings(&args.server.0)?.0;
            import(file, &settings, context, printer).await
        }
        EpochCommand::New { topic, rules } => {
            let flags = [&rules.0[..], &topic.0, &args.server.0].concat();
            let settings = context.settings(&flags)?.0;
            new(&settings, context, printer).await
        }
    }
}

/// What decides about a log beside its records. Others parse it: names and order are fixed.
#[derive(Serialize, Deserialize)]
struct Exported {
    epochs: Vec<Epoch>,
    control_keys: Vec<NamedKey>,
}

/// What to know of an epoch that an earlier version made.
pub fn earlier(epoch: &Epoch) -> Option<String> {
    let is_earlier = epoch.partitioner.is_none() && epoch.partitions > 1;
    is_earlier.then(|| {
        format!(
            "an earlier version made epoch {}: it has no claims from its beginning, and a device \
             belongs to the partition of its latest trip; tstar epoch new begins one that has them",
            epoch.epoch
        )
    })
}

async fn existing(settings: &Settings, context: &Context) -> anyhow::Result<Vec<Epoch>> {
    of_store(&open::reader(settings, context).await?, settings).await
}

async fn of_store(store: &AnyStore, settings: &Settings) -> anyhow::Result<Vec<Epoch>> {
    let epochs = store.epochs().await?;
    if epochs.is_empty() {
        let store = &settings.store;
        return Err(NoResult(format!("store `{store}` has no epoch: no topic was read")).into());
    }
    Ok(epochs)
}

async fn import(
    file: &Path,
    settings: &Settings,
    context: &Context,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read `{}`", file.display()))?;
    let Exported { epochs, control_keys } = serde_json::from_str(&text).map_err(|error| {
        BadData(format!("`{}` is not what `tstar epoch export` prints: {error}", file.display()))
    })?;
    let Some(newest) = epochs.last() else {
        return Err(BadData(format!("`{}` has no epoch", file.display())).into());
    };
    let store = open::topic_writer(settings, context, &newest.rules).await?;
    if !store.epochs().await?.is_empty() {
        let store = &settings.store;
        let problem = format!("store `{store}` has epochs of its own; name one that is not there");
        return Err(PreconditionFailed(problem).into());
    }
    // First: an epoch without them would be one under which no control record counts.
    for key in &control_keys {
        store.add_control_key(key).await?;
    }
    for epoch in &epochs {
        store.add_epoch(epoch).await?;
    }
    Ok(printer.line(&format!("{} epochs imported", epochs.len()))?)
}

async fn new(
    settings: &Settings,
    context: &Context,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    let newest = existing(settings, context).await?.pop().expect("there is one");
    // What is stored was made of these.
    preflight::check_origin(&newest, &settings.topic, &settings.rules(), &settings.store)?;
    let brokers = open::brokers(settings)?;
    let (topics, topic) = (Topics::new(&brokers)?, &settings.topic);
    let partitions = topics.needed(topic)?;
    let fit = TopicLayout { partitions, extents: topics.extents(topic, partitions)? };
    // Its lock tells that no instance runs on a file; of a group the brokers tell.
    let store = open::topic_writer(settings, context, &newest.rules).await?;
    let group = Group::new(&brokers, &settings.group)?;
    let members = group.members()?;
    if members > 0 {
        let group = &settings.group;
        let problem = format!("group `{group}` has {members} members; stop all instances first");
        return Err(PreconditionFailed(problem).into());
    }
    let positions = topic_log::committed_offsets(&store, &open::log_access(settings)?, &newest)?;
    let positions = past_marks(&brokers, &newest, &fit, positions)?;
    let offsets = start_offsets(&newest, &fit, &positions)?;
    let partitioner = preflight::next_partitioner(&brokers, &newest, &fit, settings.partitioner)?;
    let is_same = fit.partitions == newest.partitions
        && offsets == newest.start_offsets
        && newest.partitioner == Some(partitioner);
    if is_same && !has_records(&newest, &positions) {
        return Err(PreconditionFailed(format!(
            "epoch {} holds no record yet, and a new one of topic `{topic}` would begin where it \
             does; go on with tstar run",
            newest.epoch
        ))
        .into());
    }
    let now_us = context.now_ms.saturating_mul(1000);
    let decide = (&settings.rules(), partitioner);
    let next = preflight::next_epoch(&newest, &fit, offsets, now_us, decide)?;
    if !store.add_epoch(&next).await? {
        return Err(PreconditionFailed("somebody else has just made a new epoch".to_owned()).into());
    }
    match store.embedded() {
        Some(store) => {
            let mut offsets = next.start_offsets.iter();
            offsets.try_for_each(|(&partition, &offset)| store.set_position(partition, offset))?;
        }
        None => group.set(topic, &next.start_offsets)?,
    }
    Ok(printer.line(&serde_json::to_string(&next)?)?)
}

/// Whether anything was read under an epoch.
fn has_records(newest: &Epoch, positions: &BTreeMap<i32, i64>) -> bool {
    let start = |partition| newest.start_offsets.get(partition).copied().unwrap_or(0);
    positions.iter().any(|(partition, position)| *position > start(partition))
}

/// Positions behind what brokers put behind the last record of a transaction, such as `tstar dlq
/// replay` sends: nobody reads that, so that no position gets there.
fn past_marks(
    brokers: &Brokers,
    newest: &Epoch,
    fit: &TopicLayout,
    mut positions: BTreeMap<i32, i64>,
) -> anyhow::Result<BTreeMap<i32, i64>> {
    for (partition, extent) in (0..newest.partitions).zip(&fit.extents) {
        let start = newest.start_offsets.get(&partition).copied().unwrap_or(0);
        let first = positions.get(&partition).copied().unwrap_or(start);
        let rest = vec![(partition, OffsetRange { first, ..*extent })];
        // Those that are gone unread are not looked for here.
        let is_behind = (extent.first..extent.next).contains(&first);
        if is_behind && Scan::new(brokers, &newest.topic, rest)?.next_message()?.is_none() {
            positions.insert(partition, extent.next);
        }
    }
    Ok(positions)
}

/// Where the new epoch begins: where the old one was read to. A topic that was made anew begins at
/// its beginning.
fn start_offsets(
    newest: &Epoch,
    fit: &TopicLayout,
    positions: &BTreeMap<i32, i64>,
) -> anyhow::Result<BTreeMap<i32, i64>> {
    let at = |partition: i32| {
        let first = newest.start_offsets.get(&partition).copied().unwrap_or(0);
        positions.get(&partition).copied().unwrap_or(first)
    };
    let numbered = || (0..).zip(&fit.extents);
    let was_made_anew = fit.partitions < newest.partitions
        || numbered().any(|(partition, extent)| {
            partition < newest.partitions && at(partition) > extent.next
        });
    if was_made_anew {
        return Ok(numbered().map(|(partition, extent)| (partition, extent.first)).collect());
    }
    let behind = numbered()
        .filter(|(partition, _)| *partition < newest.partitions)
        .map(|(partition, extent)| (partition, extent.next - at(partition)))
        .find(|(_, lag)| *lag > 0);
    if let Some((partition, lag)) = behind {
        return Err(PreconditionFailed(format!(
            "{lag} records of partition {partition} are not read yet; let `tstar run` come to lag \
             0, stop it, and try again"
        ))
        .into());
    }
    let begin = |(partition, extent): (i32, &OffsetRange)| {
        let of_before = partition < newest.partitions;
        (partition, if of_before { extent.next } else { extent.first })
    };
    Ok(numbered().map(begin).collect())
}

#[cfg(test)]
mod tests {
    use tstar::model::rules::Rules;

    use super::*;

    fn offsets(partitions: &[(i64, i64)], read: &[(i32, i64)]) -> Result<Vec<i64>, String> {
        let newest = Epoch {
            epoch: 1,
            topic: "samples".into(),
            partitions: 2,
            start_offsets: BTreeMap::from([(0, 5), (1, 0)]),
            base: 1,
            rules: Rules::default(),
            partitioner: None,
        };
        let extents: Vec<_> =
            partitions.iter().map(|&(first, next)| OffsetRange { first, next }).collect();
        let fit = TopicLayout { partitions: i32::try_from(extents.len()).unwrap(), extents };
        let read = read.iter().copied().collect();
        let offsets = start_offsets(&newest, &fit, &read).map_err(|error| error.to_string())?;
        Ok(offsets.into_values().collect())
    }

    #[test]
    fn a_new_epoch_begins_where_the_old_one_was_read_to() {
        let grown = [(0, 70), (0, 90), (0, 3)];
        assert_eq!(offsets(&grown, &[(0, 70), (1, 90)]), Ok(vec![70, 90, 0]));
        let behind = offsets(&grown, &[(0, 70), (1, 80)]).unwrap_err();
        assert!(behind.contains("10 records of partition 1"), "{behind}");
        let unread = offsets(&grown, &[(1, 90)]).unwrap_err();
        assert!(unread.contains("65 records of partition 0"), "{unread}");
        assert_eq!(offsets(&[(0, 4), (2, 6)], &[(0, 70), (1, 90)]), Ok(vec![0, 2]), "made anew");
        assert_eq!(offsets(&[(0, 4)], &[]), Ok(vec![0]), "made anew with fewer partitions");
    }
}
