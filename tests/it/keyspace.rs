//! Keyspaces for tests, on a real server.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use tokio::runtime::Runtime;
use tstar::internals::model::scalar::{Day, DeviceTime};
use tstar::internals::model::tag::{Revision, Tag};
use tstar::internals::sink::Sink;
use tstar::internals::store::memory::MemoryStore;
use tstar::internals::store::scylla::cql::Cql;
use tstar::internals::store::scylla::{ScyllaStore, ScyllaUrl, ServerOptions, ddl};
use tstar::internals::store::write_group::TakenSpan;
use tstar::internals::store::{
    DeviceScope, Flush, Forget, Kinds, Order, Position, Result, SideTables as _, SideTablesOver,
    TimeSpan, TripEnd, TripRow, TripStore as _, TripStoreOver, WriteGroup,
};

use crate::servers;

/// Clustering order of the table's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusteringOrder {
    /// As in `schema/trips.cql`.
    Desc,
    /// The opposite one.
    Asc,
}

/// A keyspace that is dropped with its last user.
pub struct Keyspace {
    /// Its URL.
    pub url: ScyllaUrl,
    /// A session of the keyspace, to inspect it without the store.
    pub session: Session,
    /// The sessions of stores live here; a case may run elsewhere.
    pub runtime: Runtime,
}

impl Drop for Keyspace {
    fn drop(&mut self) {
        let drop = format!("DROP KEYSPACE IF EXISTS \"{}\"", self.url.keyspace);
        // A keyspace that cannot be dropped is left behind.
        self.runtime.block_on(self.session.query_unpaged(drop, ())).ok();
    }
}

/// The keyspaces of this process in use: DESC, ASC.
static SHARED: Mutex<[Weak<Keyspace>; 2]> = Mutex::new([Weak::new(), Weak::new()]);

/// Options that wait up to a minute for the server.
pub fn patient() -> ServerOptions {
    let patience = Some(Duration::from_secs(60));
    ServerOptions { patience, ..ServerOptions::default() }
}

impl Keyspace {
    /// A keyspace without tables.
    pub fn bare() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let node = servers::cql()?;
        let nth = COUNT.fetch_add(1, Ordering::Relaxed);
        let keyspace = format!("tstar_test_{}_{nth}", std::process::id());
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        let session = runtime.block_on(async {
            let session = SessionBuilder::new().known_node(&node).build().await.unwrap();
            let create = format!(
                "CREATE KEYSPACE \"{keyspace}\" WITH replication = \
                 {{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}}"
            );
            session.query_unpaged(create, ()).await.unwrap();
            session.use_keyspace(&keyspace, true).await.unwrap();
            session
        });
        let url = ScyllaUrl { nodes: vec![node], keyspace };
        Some(Self { url, session, runtime })
    }

    /// A keyspace with the tables of the schema.
    pub fn new(order: ClusteringOrder) -> Option<Self> {
        let keyspace = Self::bare()?;
        for create in ddl() {
            let asc =
                create.replace("end_time DESC, start_time DESC", "end_time ASC, start_time ASC");
            let create = if order == ClusteringOrder::Asc { asc } else { create };
            keyspace.run(create.as_str());
        }
        Some(keyspace)
    }

    /// A keyspace shared by its concurrent users, since tables are slow to create. Each user takes
    /// devices of its own.
    pub fn shared(order: ClusteringOrder) -> Option<Arc<Self>> {
        let mut shared = SHARED.lock().unwrap();
        let place = &mut shared[usize::from(order == ClusteringOrder::Asc)];
        if let Some(keyspace) = place.upgrade() {
            return Some(keyspace);
        }
        let keyspace = Arc::new(Self::new(order)?);
        *place = Arc::downgrade(&keyspace);
        Some(keyspace)
    }

    /// Runs a statement without values.
    pub fn run(&self, statement: &str) {
        let ran = self.runtime.block_on(self.session.query_unpaged(statement, ()));
        ran.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }

    /// Makes another consumer group the one that reads its log: it begins where the epoch does.
    pub fn read_as(&self, group: &str) {
        self.run(&format!("INSERT INTO consumer_group (log, name) VALUES ('log', '{group}')"));
    }

    /// A store over it.
    pub fn store(&self) -> ScyllaStore {
        self.runtime.block_on(ScyllaStore::connect(&self.url, patient())).unwrap()
    }
}

/// Versions of a log begin with its epoch: 0 is not a write timestamp.
const BASE: i64 = 1_000_000;

/// A store with a journal: that of the log, for which the memory store is the stand-in. It sees its
/// own devices only, however many the keyspace has.
pub struct WithJournal<C: Cql = Session> {
    store: ScyllaStore<C>,
    journal: MemoryStore,
    prefix: String,
    /// Reads of rows of a day, and of forgets of a device.
    pub reads: AtomicU64,
}

impl<C: Cql> WithJournal<C> {
    /// An empty store over one that others may use, too.
    pub fn of_its_own(store: ScyllaStore<C>) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let prefix = format!("case-{}/", COUNT.fetch_add(1, Ordering::Relaxed));
        Self { store, journal: MemoryStore::default(), prefix, reads: AtomicU64::new(0) }
    }

    fn device(&self, device_id: &str) -> String {
        format!("{}{device_id}", self.prefix)
    }

    fn stored(&self, row: &TripRow) -> TripRow {
        let (device_id, version) = (self.device(&row.device_id), row.version + BASE);
        TripRow { device_id, version, ..row.clone() }
    }

    fn shown(&self, row: TripRow) -> TripRow {
        let device_id = row.device_id.strip_prefix(&self.prefix).unwrap().to_owned();
        TripRow { device_id, version: row.version - BASE, ..row }
    }
}

impl<C: Cql> TripStoreOver for WithJournal<C> {
    type Under = ScyllaStore<C>;

    fn under(&self) -> &ScyllaStore<C> {
        &self.store
    }

    async fn write(&self, groups: &[WriteGroup]) -> Result<()> {
        let stored = |group: &WriteGroup| {
            let rows = group.rows.iter().map(|row| self.stored(row)).collect();
            let version = |span: &TakenSpan| TakenSpan { version: span.version + BASE, ..*span };
            let taken = group.taken.iter().map(version).collect();
            WriteGroup { taken, rows, ..group.clone() }
        };
        self.store.write(&groups.iter().map(stored).collect::<Vec<_>>()).await
    }

    async fn covering(&self, device_id: &str, time_ms: DeviceTime) -> Result<Option<TripRow>> {
        let found = self.store.covering(&self.device(device_id), time_ms).await?;
        Ok(found.map(|row| self.shown(row)))
    }

    async fn rows_of_day(&self, device_id: &str, day: Day) -> Result<Vec<TripRow>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let found = self.store.rows_of_day(&self.device(device_id), Day(day.get())).await?;
        Ok(found.into_iter().map(|row| self.shown(row)).collect())
    }

    async fn range(
        &self,
        device_id: &str,
        kinds: Kinds,
        from_ms: DeviceTime,
        upto_ms: DeviceTime,
        order: Order,
        limit: usize,
    ) -> Result<Vec<TripRow>> {
        let device = self.device(device_id);
        let found = self.store.range(&device, kinds, from_ms, upto_ms, order, limit).await?;
        Ok(found.into_iter().map(|row| self.shown(row)).collect())
    }

    async fn neighbour(
        &self,
        device_id: &str,
        kinds: Kinds,
        time_ms: DeviceTime,
        order: Order,
    ) -> Result<Option<TripRow>> {
        let found = self.store.neighbour(&self.device(device_id), kinds, time_ms, order).await?;
        Ok(found.map(|row| self.shown(row)))
    }

    async fn devices(
        &self,
        whose: DeviceScope,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>> {
        // Devices with the same prefix are adjacent in byte order.
        let after = self.device(after.unwrap_or(""));
        let found = self.store.devices(whose, Some(&after), limit).await?;
        let own = found.iter().map_while(|device| device.strip_prefix(&self.prefix));
        Ok(own.map(str::to_owned).collect())
    }

    async fn forgets(&self, device_id: &str) -> Result<Vec<Forget>> {
        let found = self.store.forgets(&self.device(device_id)).await?;
        let shown = |forget: Forget| Forget { version: forget.version - BASE, ..forget };
        Ok(found.into_iter().map(shown).collect())
    }

    async fn erased(&self, device_id: &str) -> Result<Option<Forget>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let found = self.store.erased(&self.device(device_id)).await?;
        Ok(found.map(|forget| Forget { version: forget.version - BASE, ..forget }))
    }

    async fn forget(&self, device_id: &str, forget: &Forget) -> Result<()> {
        let stored = Forget { version: forget.version + BASE, ..forget.clone() };
        self.store.forget(&self.device(device_id), &stored).await
    }

    async fn latest_days(&self, device_id: &str, limit: usize) -> Result<Vec<Day>> {
        self.store.latest_days(&self.device(device_id), limit).await
    }

    async fn ends_of_day(&self, device_id: &str, day: Day, limit: usize) -> Result<Vec<TripEnd>> {
        let found = self.store.ends_of_day(&self.device(device_id), day, limit).await?;
        let shown = |end: TripEnd| TripEnd { version: end.version - BASE, ..end };
        Ok(found.into_iter().map(shown).collect())
    }

    async fn claimed(&self, device_id: &str, epoch: i32) -> Result<Option<i32>> {
        self.store.claimed(&self.device(device_id), epoch).await
    }

    async fn claim(&self, device_id: &str, epoch: i32, own: i32) -> Result<i32> {
        self.store.claim(&self.device(device_id), epoch, own).await
    }
}

impl<C: Cql> SideTablesOver for WithJournal<C> {
    type Under = ScyllaStore<C>;

    fn under(&self) -> &ScyllaStore<C> {
        &self.store
    }

    async fn tags(&self, device_id: &str, span: TimeSpan) -> Result<Vec<Tag>> {
        self.store.tags(&self.device(device_id), span).await
    }

    async fn tags_to_change(&self, device_id: &str, span: TimeSpan) -> Result<Vec<Tag>> {
        self.store.tags_to_change(&self.device(device_id), span).await
    }

    async fn put_tag(
        &self,
        device_id: &str,
        tag: &Tag,
        replaced: Option<Revision>,
    ) -> Result<bool> {
        self.store.put_tag(&self.device(device_id), tag, replaced).await
    }

    async fn delete_tag(&self, device_id: &str, tag: &Tag) -> Result<bool> {
        self.store.delete_tag(&self.device(device_id), tag).await
    }

    async fn tagged_devices(&self) -> Result<Vec<String>> {
        let devices = self.store.tagged_devices().await?;
        let own = devices.iter().filter_map(|device| device.strip_prefix(&self.prefix));
        Ok(own.map(str::to_owned).collect())
    }
}

impl<C: Cql> Sink for WithJournal<C> {
    async fn stage(&self, ahead: &Flush) -> Result<()> {
        TripStoreOver::write(self, &ahead.groups).await?;
        self.journal.stage(ahead).await
    }

    async fn commit(&self, flush: &Flush) -> Result<()> {
        TripStoreOver::write(self, &flush.groups).await?;
        self.journal.commit(flush).await
    }

    async fn position(&self) -> Result<Position> {
        self.journal.position().await
    }
}
