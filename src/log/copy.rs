//! Reads a log into another store.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::files::{FilesLog, ImportStep};
use super::topic_log::TopicLog;
use super::topic_replay::TopicReplay;
use super::{Cancel, Log, PartialResult, SignalListener};
use crate::identity::DeviceId;
use crate::kafka::group::Group;
use crate::model::epoch::{Epoch, first_offsets, of_current_topic};
use crate::model::failure::{InvalidRequest, PreconditionFailed};
use crate::model::rules::Rules;
use crate::model::scalar::Version;
use crate::pipeline::daemon::{DaemonEvent, OnEvent, preflight};
use crate::pipeline::processor::{Processor, ProcessorConfig, SampleCounts};
use crate::pipeline::schemas::{RegistryAccess, find_schemas};
use crate::registry::Registry;
use crate::settings::Settings;
use crate::source::{Batch, Control, MAX_SCHEMAS};
use crate::store::positions;
use crate::store::schemas::SchemaHistory;
use crate::store::{Access, AnyStore, EmbeddedStore, Forget, Guide, SideTables, TripStore};

/// Maximum number of devices that are erased in one transaction.
const ERASE_BATCH: usize = 256;

/// How a log is read into another store.
#[derive(Clone, Copy)]
pub struct CopyRequest<'a> {
    /// The new store, its registry, and how its workers run.
    pub settings: &'a Settings,
    /// Consumer group whose offsets are set to the end of what was read; a keyspace needs one.
    pub group: Option<&'a str>,
}

impl Log {
    /// The rules that it is read by.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn rules(&self) -> anyhow::Result<Rules> {
        match self {
            Self::Files(log) => Ok(log.store.rules()?.unwrap_or_default()),
            Self::Topic(log) => Ok(log.newest().rules.clone()),
        }
    }

    /// Reads all that `old` was built from into another store, under other rules; of a topic the
    /// key rule stays. `import` reads files into the store.
    ///
    /// # Errors
    /// The log does not hold all of it, the new store belongs to another log or has other rules,
    /// brokers or servers fail, an import stopped early, or a signal stopped it.
    pub async fn copy(
        &self,
        (old, request): (&Arc<AnyStore>, CopyRequest<'_>),
        rules: &Rules,
        import: impl AsyncFnMut(Vec<PathBuf>) -> anyhow::Result<SampleCounts>,
        listen: SignalListener<'_>,
        on_event: OnEvent,
    ) -> anyhow::Result<SampleCounts> {
        match self {
            Self::Files(log) => log.copy(request, rules, import).await,
            Self::Topic(log) => log.copy((old, request), rules, listen, on_event).await,
        }
    }
}

impl FilesLog {
    /// Repeats the imports and erasures in the same order, so that the same rules give the same
    /// ids.
    async fn copy(
        &self,
        request: CopyRequest<'_>,
        rules: &Rules,
        mut import: impl AsyncFnMut(Vec<PathBuf>) -> anyhow::Result<SampleCounts>,
    ) -> anyhow::Result<SampleCounts> {
        // Checked before anything is built: a missing file would go unnoticed later.
        self.check_complete().await?;
        let mut counts = SampleCounts::default();
        for step in self.steps().await? {
            match step {
                ImportStep::Files(files) => counts.add(&import(files).await?),
                ImportStep::Forgets(forgets) => replay_forgets(forgets, request, rules).await?,
            }
        }
        Ok(counts)
    }
}

/// Erases from the new store what was erased from the old one, unless an earlier run did.
async fn replay_forgets(
    forgets: Vec<(String, Forget)>,
    request: CopyRequest<'_>,
    rules: &Rules,
) -> anyhow::Result<()> {
    let url = request.settings.url()?;
    let path =
        url.path().ok_or_else(|| InvalidRequest(format!("store `{url}`: it is not a file")))?;
    let store = EmbeddedStore::open_writer(path, rules, request.settings.keep_changes)?;
    let mut processor = Processor::new(&store, rules, ProcessorConfig::default()).await?;
    let mut unwritten = BTreeSet::new();
    for (device_id, Forget { before_ms, .. }) in forgets {
        // `erased` below reads the store, so earlier forgets of the device have to be in it.
        if unwritten.len() == ERASE_BATCH || unwritten.contains(&device_id) {
            processor.flush().await?;
            unwritten.clear();
        }
        if store.erased(&device_id).await?.is_some_and(|done| done.before_ms >= before_ms) {
            continue;
        }
        unwritten.insert(device_id.clone());
        let device_id = DeviceId::from_store(device_id);
        let offset = processor.position().delivered;
        let control = Some(Control::Forget { offset, device_id, before_ms, key: None });
        processor.absorb(&Batch { control, ..Batch::default() }).await?;
    }
    Ok(processor.flush().await?)
}

impl TopicLog {
    async fn copy(
        &self,
        (old, request): (&Arc<AnyStore>, CopyRequest<'_>),
        rules: &Rules,
        listen: SignalListener<'_>,
        on_event: OnEvent,
    ) -> anyhow::Result<SampleCounts> {
        // Before the new store is created.
        let registry = request.settings.registry()?;
        self.check_whole()?;
        self.check_partition_count()?;
        let rules = &Rules { key: self.newest().rules.key.clone(), ..rules.clone() };
        let cancel = listen(PartialResult::Read)?;
        CopyJob { old, log: self, request, registry, rules, on_event }.run(&cancel).await
    }
}

struct CopyJob<'a> {
    old: &'a Arc<AnyStore>,
    log: &'a TopicLog,
    request: CopyRequest<'a>,
    registry: Option<Arc<Registry>>,
    /// Rules of the new store.
    rules: &'a Rules,
    on_event: OnEvent,
}

impl CopyJob<'_> {
    /// The epoch of the new store; if it has none, one that starts with the log is added.
    async fn ensure_epoch(&self, store: &AnyStore) -> anyhow::Result<Epoch> {
        let name = &self.request.settings.store;
        let old = self.log.newest();
        preflight::check_rules(self.rules)?;
        let start_offsets = (0..).zip(first_offsets(&self.log.epochs)).collect();
        let base = self.request.settings.now_ms.saturating_mul(1000);
        let (topic, partitions) = (old.topic.clone(), old.partitions);
        // The partitioner belongs to the topic, not to the store.
        let partitioner = old.partitioner;
        let first = Epoch {
            epoch: 1,
            topic,
            partitions,
            start_offsets,
            base: Version(base),
            rules: self.rules.clone(),
            partitioner,
            topic_id: old.topic_id.clone(),
            keeps_positions: true,
        };
        store.add_epoch(&first).await?;
        let [epoch] = <[Epoch; 1]>::try_from(store.epochs().await?).map_err(|epochs| {
            PreconditionFailed(format!("store `{name}` has {} epochs of its own", epochs.len()))
        })?;
        preflight::check_origin(&epoch, &first.topic, &first.rules.into(), name)?;
        // Exactly the keys of the old store: control records count in both stores or in neither.
        preflight::control_keys(store, &self.log.keys, name).await?;
        Ok(epoch)
    }

    /// Gives the new store the schemas of the old one: those of the newest epoch come first. A
    /// schema counts from the first record on, also where it became known later. Ids that the
    /// registry did not know stay unknown at the records of the old store; others are asked for.
    async fn take_schemas(
        &self,
        store: Arc<AnyStore>,
        replay: TopicReplay,
    ) -> anyhow::Result<TopicReplay> {
        let epoch = &replay.epochs[0];
        if epoch.rules.names_schemas() {
            let (old, mut history) = (&self.log.schemas, SchemaHistory::default());
            for ((_, id), verdict) in old.verdicts.iter().rev() {
                history.keep(&*store, (epoch.epoch, MAX_SCHEMAS), *id, verdict).await?;
            }
            let read = of_current_topic(&self.log.epochs);
            for unknown in read.iter().filter_map(|it| old.histories.get(&it.epoch)) {
                for (partition, until) in unknown.unknown() {
                    history.keep_until(&*store, (epoch.epoch, *partition), *until).await?;
                }
            }
        }
        let on_event = Arc::clone(&self.on_event);
        let on_waiting = Arc::new(move |why: String| on_event(DaemonEvent::Waiting(why)));
        let registry = self.registry.clone();
        let find_schemas = find_schemas(store, RegistryAccess { registry, on_waiting });
        Ok(TopicReplay { find_schemas, ..replay })
    }

    /// The group that will read the log on, which has no members; `None` for a file, which keeps
    /// the offsets itself.
    fn group(&self) -> anyhow::Result<Option<(&str, Group)>> {
        if self.request.settings.url()?.path().is_some() {
            return Ok(None);
        }
        let name = self.request.group.ok_or_else(|| {
            let problem = "a keyspace stores no offsets; name with --into-group the consumer group \
                 that `tstar run` will read as";
            InvalidRequest(problem.into())
        })?;
        let group = Group::new(self.log.brokers(), name)?;
        match group.members()? {
            0 => Ok(Some((name, group))),
            members => {
                let problem = format!("group `{name}` has {members} members; stop them first");
                Err(PreconditionFailed(problem).into())
            }
        }
    }

    /// The offsets from which the new store is built: a file continues where an earlier run has
    /// stopped.
    fn starts(store: &AnyStore, epoch: &Epoch) -> anyhow::Result<Vec<i64>> {
        let Some(file) = store.embedded() else {
            return Ok(epoch.start_offsets.values().copied().collect());
        };
        let start = |(&partition, &first): (&i32, &i64)| {
            let position = file.position_of(partition)?.unwrap_or(first);
            file.set_position(partition, position)?;
            Ok(position)
        };
        epoch.start_offsets.iter().map(start).collect()
    }

    async fn run(&self, cancel: &Cancel) -> anyhow::Result<SampleCounts> {
        let group = self.group()?;
        let settings = self.request.settings;
        let store = Arc::new(settings.open(Access::WriteTopic(self.rules)).await?);
        let epoch = self.ensure_epoch(&store).await?;
        let spans = self.log.spans_from(&Self::starts(&store, &epoch)?);
        let kept = Arc::new(epoch.clone());
        let outputs = (self.log.outputs(&store, false, Some(Arc::clone(&kept)))?, None);
        // Takes the partition of each device from the old store.
        let guide = Guide::new(Arc::clone(self.old), &self.log.epochs).merged();
        let trips = store.for_worker().guided(guide);
        let replay = TopicReplay { epochs: vec![epoch], ..self.log.reread(spans, None)? };
        let replay = self.take_schemas(Arc::clone(&store), replay).await?;
        let config = (ProcessorConfig::daemon(settings), Arc::clone(&self.on_event));
        let counts = replay.run(trips, outputs, config, (cancel, PartialResult::Read)).await?;
        if let Some((name, group)) = group {
            let ends = (0..).zip(replay.spans.iter().map(|span| span.end)).collect();
            // The last record of a span may lie before its end.
            positions::raise(&*store, &kept, &ends).await?;
            group.set(self.log.topic(), &ends)?;
            let former = store.group().await?;
            store.keep_group(former.as_deref(), name).await?;
        }
        Ok(counts)
    }
}
