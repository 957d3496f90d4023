//! Where the owners of partitions keep what they build.

use std::sync::Arc;

use super::PartitionStores;
use crate::kafka::journal::{KafkaJournal, OutputTopics};
use crate::kafka::partition_handle::PartitionHandle;
use crate::store::sqlite::{SqlitePartition, SqliteStore};
use crate::store::{Guide, Guided, Pair, TripStore};

/// All partitions in one file; changes and dead letters are tables of it.
pub struct SqliteStores(pub Arc<SqliteStore>);

impl PartitionStores for SqliteStores {
    type Store = Pair<Arc<SqliteStore>, SqlitePartition>;

    fn store(&self, holding: &Arc<PartitionHandle>) -> Self::Store {
        let trips = Arc::clone(&self.0);
        let journal =
            SqlitePartition::new(Arc::clone(&trips), holding.partition(), holding.acknowledged());
        Pair { trips, journal }
    }
}

/// Each partition in a store of many writers; changes and dead letters go to topics.
pub struct ScyllaStores<F> {
    /// The store as one owner uses it.
    pub owner: F,
    /// Where changes and dead letters go.
    pub outputs: Arc<OutputTopics>,
}

impl<F, T> PartitionStores for ScyllaStores<F>
where
    F: Fn() -> T + Send + Sync + 'static,
    T: TripStore + 'static,
{
    type Store = Pair<Arc<T>, KafkaJournal<Arc<T>>>;

    fn store(&self, holding: &Arc<PartitionHandle>) -> Self::Store {
        let (trips, outputs) = (Arc::new((self.owner)()), Arc::clone(&self.outputs));
        let journal = KafkaJournal::new(Arc::clone(&trips), outputs, Arc::clone(holding));
        Pair { trips, journal }
    }
}

/// Owners that decide by another store which partition a device belongs to.
pub struct GuidedOwners<O, G> {
    /// They do the work.
    pub owners: O,
    /// Whose claims count.
    pub guide: Guide<G>,
}

impl<O: PartitionStores, G: TripStore + 'static> PartitionStores for GuidedOwners<O, G> {
    type Store = Guided<Arc<O::Store>, G>;

    fn store(&self, holding: &Arc<PartitionHandle>) -> Self::Store {
        Guided { store: Arc::new(self.owners.store(holding)), guide: self.guide.clone() }
    }
}
