//! The store and the sink of each partition worker.

use std::sync::Arc;

use super::{Outputs, PartitionSink, RowTally};
use crate::kafka::partition_handle::PartitionHandle;
use crate::kafka::producer::ProducerClient;
use crate::store::TripStore;

/// Opens the trips and the sink of the worker of a partition.
pub type OpenWorker<T, S> = Arc<dyn Fn(&Arc<PartitionHandle>) -> (Arc<T>, S) + Send + Sync>;

/// Workers that each have a store of their own, created by `store`. `tally` counts the rows that
/// they write.
pub fn open_workers<T, C>(
    store: impl Fn() -> Arc<T> + Send + Sync + 'static,
    outputs: Outputs<C>,
    tally: Option<RowTally>,
) -> OpenWorker<T, PartitionSink<T, C>>
where
    T: TripStore + 'static,
    C: ProducerClient + Clone + 'static,
{
    Arc::new(move |handle| {
        let (trips, handle) = (store(), Arc::clone(handle));
        let sink = PartitionSink::new(Arc::clone(&trips), outputs.clone(), handle, tally.clone());
        (trips, sink)
    })
}
