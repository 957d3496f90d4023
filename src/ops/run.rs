//! The daemon: builds trips from a topic until it is stopped.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::{Cancel, InvalidRequest, Notify};
use crate::kafka::KafkaError;
use crate::kafka::client::Brokers;
use crate::kafka::consumer::{Assignment, ConsumerConfig};
use crate::kafka::topic_names::{dlq_topic, feed_topic, table_topic};
use crate::kafka::topics::{StartFrom, Topics};
use crate::model::control::ControlKeys;
use crate::model::epoch::Epoch;
use crate::model::rules::Rules;
use crate::pipeline::daemon::reader_group::{self, GroupRequest};
use crate::pipeline::daemon::{
    self, DaemonError, DaemonEvent, LiveWorkers, OnEvent, Options, Owners, Report, preflight,
};
use crate::pipeline::processor::ProcessorConfig;
use crate::pipeline::schemas::{RegistryAccess, find_schemas};
use crate::registry::Registry;
use crate::settings::Settings;
use crate::sink::table::TableTopic;
use crate::sink::{OutputTopics, Outputs, open_workers};
use crate::store::{Access, AnyStore, OpenOptions, StoreUrl};
use crate::views::table::{AVRO_SCHEMA, TableFormat};

/// Delay before brokers that do not respond are asked again.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// What is read, by which rules, and into which store.
pub struct RunRequest<'a> {
    /// The store, the topic, and how it is read.
    pub settings: &'a Settings,
    /// Brokers of the topic.
    pub brokers: Brokers,
    /// Continue as this group if the store was read by another one.
    pub group_change: bool,
    /// Start on the first run.
    pub from: Option<StartFrom>,
    /// Create the output topics if they do not exist.
    pub create_topics: bool,
    /// Create the tables of a store on servers if they do not exist.
    pub create_schema: bool,
    /// Lists the partition workers while they run.
    pub live: Arc<LiveWorkers>,
    /// Filled with the names of the other instances, if they are shown.
    pub owners: Option<Arc<Owners>>,
}

/// The number of partitions of the table topic, if it is to be written.
fn table_partitions(settings: &Settings) -> anyhow::Result<Option<i32>> {
    if !settings.table_topic {
        return Ok(None);
    }
    if settings.url()?.path().is_some() {
        let problem = "--table-topic is for a keyspace; the table of a file is its view `trip`";
        return Err(InvalidRequest(problem.into()).into());
    }
    let count = i32::try_from(settings.table_partitions).ok().filter(|count| *count > 0);
    let count = count.ok_or_else(|| {
        let problem =
            format!("--table-partitions {}: not a number of partitions", settings.table_partitions);
        InvalidRequest(problem)
    })?;
    Ok(Some(count))
}

/// What is read, and where it is written.
struct Prepared {
    store: AnyStore,
    outputs: Outputs,
    epochs: Vec<Epoch>,
    assignment: Assignment,
}

/// A log that passed the preflight checks.
struct CheckedLog {
    topics: Arc<Topics>,
    layout: preflight::TopicLayout,
    epochs: Vec<Epoch>,
}

/// Builds trips until `cancel`. Returns `None` if that came before reading began. `notify` gets
/// notes on tables that were created.
///
/// # Errors
/// The store, the topic or their epoch do not match, or one of them fails for good. What was
/// acknowledged before is stored.
pub async fn run(
    request: &RunRequest<'_>,
    on_event: OnEvent,
    notify: &Notify,
    cancel: &mut Cancel,
) -> anyhow::Result<Option<Report>> {
    let settings = request.settings;
    let daemon = Daemon {
        request,
        settings,
        keys: settings.control_keys()?,
        url: settings.url()?,
        options: settings.store_options()?,
        registry: settings.registry()?,
        table_partitions: table_partitions(settings)?,
        on_event,
    };
    let prepared = tokio::select! {
        () = cancel.wait() => return Ok(None),
        prepared = daemon.prepare(notify) => prepared?,
    };
    daemon.read(prepared, cancel).await.map(Some)
}

struct Daemon<'a> {
    request: &'a RunRequest<'a>,
    settings: &'a Settings,
    /// The control keys of this process.
    keys: ControlKeys,
    url: StoreUrl,
    /// Servers are waited for without limit.
    options: OpenOptions,
    /// The registry of the schemas that records name, and of the schema of the table topic.
    registry: Option<Arc<Registry>>,
    /// `None`: the table topic is not written.
    table_partitions: Option<i32>,
    on_event: OnEvent,
}

impl Daemon<'_> {
    /// The rules of a store without an epoch.
    fn new_rules(&self) -> Rules {
        self.settings.rules_request().over(&Rules::default())
    }

    async fn prepare(&self, notify: &Notify) -> anyhow::Result<Prepared> {
        let (rules, from) = (self.new_rules(), self.request.from);
        let access = Access::WriteTopic(&rules);
        let Some(file) = AnyStore::open_embedded(&self.url, access, &self.options)? else {
            return self.prepare_servers(notify).await;
        };
        // The only instance reads every partition; the file keeps the positions.
        let store = AnyStore::from(Arc::clone(&file));
        let CheckedLog { topics, layout, epochs } = self.check_log(&store, &[]).await?;
        let newest = epochs.last().expect("one was made");
        let stored = |partition| file.position_of(partition);
        let positions =
            preflight::positions(&topics, &layout, newest, from, stored, &self.on_event).await?;
        for (&position, partition) in positions.iter().zip(0..) {
            file.set_position(partition, position)?;
        }
        let (outputs, assignment) = (Outputs::File(file), Assignment::All(positions));
        Ok(Prepared { store, outputs, epochs, assignment })
    }

    /// Where schemas are asked for that the store does not have.
    fn registry_access(&self) -> RegistryAccess {
        let on_event = Arc::clone(&self.on_event);
        let on_waiting = Arc::new(move |why: String| on_event(DaemonEvent::Waiting(why)));
        RegistryAccess { registry: self.registry.clone(), on_waiting }
    }

    fn needs(&self, what: String) {
        (self.on_event)(DaemonEvent::Needs(what));
    }

    fn brokers(&self) -> String {
        format!("the Kafka brokers `{}`", self.request.brokers.addresses())
    }

    /// Any number of instances share the partitions; the consumer group keeps the positions.
    async fn prepare_servers(&self, notify: &Notify) -> anyhow::Result<Prepared> {
        let (request, settings) = (self.request, self.settings);
        self.needs(format!("the CQL nodes of `{}`", self.url));
        let on_event = Arc::clone(&self.on_event);
        let on_waiting: Notify =
            Arc::new(move |what: &str| on_event(DaemonEvent::Waiting(what.to_owned())));
        let mut options = self.options.clone();
        options.server.patience = None;
        options.server.on_waiting = Arc::clone(&on_waiting);
        if request.create_schema {
            let server = options.server.clone();
            let notes = AnyStore::create_schema(&self.url, server, None).await?;
            for note in notes.unwrap_or_default() {
                notify(&format!("note: {note}"));
            }
        }
        let rules = self.new_rules();
        let access = Access::WriteTopic(&rules);
        let store = AnyStore::open(&self.url, access, options).await?;
        let feed = (!settings.no_feed).then(|| feed_topic(&settings.topic));
        let letters = dlq_topic(&settings.topic);
        let names: Vec<_> = feed.iter().chain([&letters]).cloned().collect();
        let log = self.check_log(&store, &names).await?;
        let (outputs, input) = ((feed, Some(letters)), settings.topic.clone());
        let mut outputs =
            OutputTopics::new(&request.brokers, on_waiting, &log.topics, input, outputs).await?;
        if let Some(partitions) = self.table_partitions {
            let (name, newest) = (table_topic(&settings.topic), log.epochs.last());
            let division = newest.expect("one was made").division();
            let format = self.table_format(&name).await?;
            let (kinds, max_bytes) = (settings.table_kind, outputs.event_bytes);
            let table = TableTopic { name, kinds, partitions, format, division, max_bytes };
            outputs.write_table(table, &log.topics).await?;
        }
        let outputs = Outputs::Topics(Arc::new(outputs), log.epochs.last().cloned().map(Arc::new));
        let assignment = Assignment::Group { from: request.from };
        Ok(Prepared { store, outputs, epochs: log.epochs, assignment })
    }

    /// The encoding of values of the table topic: Avro if there is a registry, which is waited for.
    async fn table_format(&self, topic: &str) -> Result<TableFormat, KafkaError> {
        let Some(registry) = &self.registry else { return Ok(TableFormat::Json) };
        loop {
            match registry.register(&format!("{topic}-value"), &AVRO_SCHEMA).await {
                Ok(schema_id) => return Ok(TableFormat::Avro { schema_id }),
                Err(error) if error.is_refusal() => {
                    let problem = format!(
                        "cannot be written as Avro: {error}; change the compatibility of the \
                         subject, or run without --schema-registry"
                    );
                    return Err(KafkaError::TopicMismatch { topic: topic.to_owned(), problem });
                }
                Err(error) => {
                    let why = format!("{error}; topic `{topic}` needs the id of its schema");
                    (self.on_event)(DaemonEvent::Waiting(why));
                }
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    /// Preflight checks: topic, output topics, epoch, control keys. Waits for brokers.
    async fn check_log(&self, store: &AnyStore, outputs: &[String]) -> anyhow::Result<CheckedLog> {
        self.needs(self.brokers());
        loop {
            match self.try_check_log(store, outputs).await {
                Err(DaemonError::Kafka(error @ KafkaError::Unreachable { .. })) => {
                    (self.on_event)(DaemonEvent::Waiting(error.to_string()));
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
                checked => return Ok(checked?),
            }
        }
    }

    async fn try_check_log(
        &self,
        store: &AnyStore,
        outputs: &[String],
    ) -> Result<CheckedLog, DaemonError> {
        let (request, settings) = (self.request, self.settings);
        let topics = Arc::new(Topics::new(&request.brokers)?);
        let layout = preflight::inspect(&topics, &settings.topic).await?;
        let create = request.create_topics;
        let mut existing = preflight::outputs(&topics, outputs, layout.partitions, create).await?;
        if let Some(partitions) = self.table_partitions {
            let name = table_topic(&settings.topic);
            existing.extend(preflight::table(&topics, &name, partitions, create).await?);
        }
        preflight::output_settings(&topics, &existing, &settings.topic, &self.on_event).await?;
        let epoch_request = preflight::EpochRequest {
            location: &settings.store,
            topic: &settings.topic,
            rules: &settings.rules_request(),
            partitioner: settings.partitioner,
            from: request.from,
            now_us: settings.now_ms.saturating_mul(1000),
        };
        let notify = &self.on_event;
        let epochs = preflight::epochs(store, &topics, &layout, &epoch_request, notify).await?;
        preflight::control_keys(store, &self.keys, &settings.store).await?;
        let group_request = GroupRequest {
            location: &settings.store,
            group: &settings.member.group,
            may_change: request.group_change,
            // A file has the positions itself.
            brokers: self.url.path().is_none().then_some(&request.brokers),
        };
        let newest = epochs.last().expect("one was made");
        reader_group::keep(store, newest, &group_request).await?;
        Ok(CheckedLog { topics, layout, epochs })
    }

    /// Reads until `cancel`.
    async fn read(&self, prepared: Prepared, cancel: &mut Cancel) -> anyhow::Result<Report> {
        let Prepared { store, outputs, epochs, assignment } = prepared;
        let (request, settings) = (self.request, self.settings);
        let memory = usize::try_from(settings.memory).unwrap_or(usize::MAX);
        let plan = ConsumerConfig {
            brokers: request.brokers.clone(),
            topic: settings.topic.clone(),
            member: settings.member.clone(),
            assignment,
            epoch: epochs.last().expect("one was made").clone(),
            // The rest is for trips, and for what the client holds.
            memory: memory / 8,
        };
        let reader = daemon::reader(&plan.epoch, &self.keys)?;
        if reader.needs_ids() && self.registry.is_none() {
            let problem = "records name their schemas: name the registry with --schema-registry, \
                           or a file with --schema";
            return Err(InvalidRequest(problem.into()).into());
        }
        if let Assignment::Group { .. } = plan.assignment {
            self.needs(format!("group `{}` to assign partitions", settings.member.group));
        }
        let mut following = JoinSet::new();
        if let Some(owners) = request.owners.clone() {
            let names = (settings.member.group.clone(), settings.topic.clone());
            following.spawn(owners.follow(plan.brokers.clone(), names, plan.epoch.division()));
        }
        let store = Arc::new(store);
        let options = Options {
            plan,
            epochs,
            pace: ProcessorConfig::daemon(settings),
            notify: Arc::clone(&self.on_event),
            ask_keys: Some(Arc::clone(&store).ask_keys()),
            find_schemas: find_schemas(Arc::clone(&store), self.registry_access()),
            live: Arc::clone(&request.live),
        };
        let open = open_workers(move || Arc::new(store.for_worker().timed()), outputs, None);
        Ok(daemon::run(open, options, reader, cancel.wait()).await?)
    }
}
