//! Stores of the partition workers, one implementation for each kind of store.

use std::sync::Arc;

use super::PartitionStores;
use crate::kafka::journal::{KafkaJournal, OutputTopics};
use crate::kafka::partition_handle::PartitionHandle;
use crate::kafka::producer::{ConfiguredProducer, ProducerClient};
use crate::model::epoch::Epoch;
use crate::store::sqlite::{SqlitePartition, SqliteStore};
use crate::store::{Guide, Guided, PositionStore, TripStore};

/// All partitions in one SQLite file, which also contains the change feed and the dead letters.
pub struct SqliteStores(pub Arc<SqliteStore>);

impl PartitionStores for SqliteStores {
    type Trips = Arc<SqliteStore>;
    type Journal = SqlitePartition;

    fn open(&self, handle: &Arc<PartitionHandle>) -> (Self::Trips, Self::Journal) {
        let trips = Arc::clone(&self.0);
        let journal = SqlitePartition::new(
            Arc::clone(&trips),
            handle.partition(),
            handle.acknowledged().get(),
        );
        (trips, journal)
    }
}

/// All partitions in one keyspace; the change feed and the dead letters are topics.
pub struct ScyllaStores<F, C = ConfiguredProducer> {
    /// Creates the store of one partition worker.
    pub owner: F,
    /// Topics of the change feed and the dead letters.
    pub outputs: Arc<OutputTopics<C>>,
    /// The epoch whose positions are kept with the rows; `None` if some records are read again
    /// into rows that have others.
    pub epoch: Option<Arc<Epoch>>,
}

impl<F, T, C> PartitionStores for ScyllaStores<F, C>
where
    F: Fn() -> T + Send + Sync + 'static,
    T: TripStore + PositionStore + 'static,
    C: ProducerClient + 'static,
{
    type Trips = Arc<T>;
    type Journal = KafkaJournal<Arc<T>, C>;

    fn open(&self, handle: &Arc<PartitionHandle>) -> (Self::Trips, Self::Journal) {
        let (trips, outputs) = (Arc::new((self.owner)()), Arc::clone(&self.outputs));
        let (handle, epoch) = (Arc::clone(handle), self.epoch.clone());
        let journal = KafkaJournal::new(Arc::clone(&trips), outputs, handle, epoch);
        (trips, journal)
    }
}

/// Partition stores that take the claims of devices from another store.
pub struct GuidedOwners<O, G> {
    /// The wrapped partition stores.
    pub owners: O,
    /// The store whose claims apply.
    pub guide: Guide<G>,
}

impl<O: PartitionStores, G: TripStore + 'static> PartitionStores for GuidedOwners<O, G> {
    type Trips = Guided<O::Trips, G>;
    type Journal = O::Journal;

    fn open(&self, handle: &Arc<PartitionHandle>) -> (Self::Trips, Self::Journal) {
        let (store, journal) = self.owners.open(handle);
        (Guided { store, guide: self.guide.clone() }, journal)
    }
}
