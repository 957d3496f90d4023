//! The store and the sink of each partition worker.

use std::sync::Arc;

use super::{Outputs, PartitionSink, RowTally};
use crate::kafka::partition_handle::PartitionHandle;
use crate::kafka::producer::ProducerClient;
use crate::store::{AnyStore, EmbeddedStore, Guide, Guided, PositionStore, TripStore};

/// Opens the trips and the sink of the worker of a partition.
pub type OpenWorker<T, S> = Arc<dyn Fn(&Arc<PartitionHandle>) -> (T, S) + Send + Sync>;

/// The trips of a worker whose store is a `T`.
pub type WorkerTrips<T> = Guided<Arc<T>, AnyStore>;

/// What else the workers of a process have in common.
#[derive(Clone, Default)]
pub struct WorkerOptions {
    /// The store that knows the partitions of devices, if theirs does not yet.
    pub guide: Option<Guide<AnyStore>>,
    /// Counts the rows that they write.
    pub tally: Option<RowTally>,
}

/// Workers that each have a store of their own, created by `store`.
pub fn open_workers<T, C>(
    store: impl Fn() -> T + Send + Sync + 'static,
    outputs: Outputs<C>,
    options: WorkerOptions,
) -> OpenWorker<WorkerTrips<T>, PartitionSink<T, C>>
where
    T: TripStore + PositionStore + 'static,
    C: ProducerClient + Clone + 'static,
{
    Arc::new(move |handle| {
        let trips = Arc::new(store());
        let WorkerOptions { guide, tally } = options.clone();
        let (own, handle) = (Arc::clone(&trips), Arc::clone(handle));
        let sink = PartitionSink::new(own, outputs.clone(), handle, tally);
        (Guided { store: trips, guide }, sink)
    })
}

/// Workers that share an embedded store.
pub fn open_file_workers(
    store: &Arc<EmbeddedStore>,
    options: WorkerOptions,
) -> OpenWorker<WorkerTrips<AnyStore>, PartitionSink<AnyStore>> {
    let trips = AnyStore::from(Arc::clone(store));
    open_workers(move || trips.for_worker(), Outputs::File(Arc::clone(store)), options)
}
