//! Metrics of store operations.

use super::forward::{forward_tag_store, forward_trip_store};
use super::{EpochStore, KeyStore, StoreError, TagStore, TripEnd, TripEnds, TripStore};
use crate::model::control::NamedKey;
use crate::model::epoch::Epoch;
use crate::model::scalar::Day;
use crate::telemetry::operation;

/// Records the duration of each store operation as a metric.
#[derive(Debug)]
pub struct Timed<S>(pub S);

macro_rules! timed {
    ($self:expr, $operation:literal, $($call:tt)*) => {
        operation($operation, $self.0.$($call)*).await
    };
}

impl<S: TripStore> TripStore for Timed<S> {
    forward_trip_store!(
        timed: apply, covering, rows_of_day, range, neighbour, devices, forgets, erased, forget,
        begin_forget, claimed, claim,
    );
}

impl<S: TagStore> TagStore for Timed<S> {
    forward_tag_store!(timed);
}

impl<S: TripEnds> TripEnds for Timed<S> {
    async fn latest_days(&self, device_id: &str, limit: usize) -> Result<Vec<Day>, StoreError> {
        timed!(self, "latest_days", latest_days(device_id, limit))
    }

    async fn ends_of_day(
        &self,
        device_id: &str,
        day: Day,
        limit: usize,
    ) -> Result<Vec<TripEnd>, StoreError> {
        timed!(self, "ends_of_day", ends_of_day(device_id, day, limit))
    }
}

impl<S: KeyStore + Sync> KeyStore for Timed<S> {
    async fn control_keys(&self) -> Result<Vec<NamedKey>, StoreError> {
        timed!(self, "control_keys", control_keys())
    }

    async fn add_control_key(&self, key: &NamedKey) -> Result<bool, StoreError> {
        timed!(self, "add_control_key", add_control_key(key))
    }
}

impl<S: EpochStore> EpochStore for Timed<S> {
    async fn epochs(&self) -> Result<Vec<Epoch>, StoreError> {
        timed!(self, "epochs", epochs())
    }

    async fn add_epoch(&self, epoch: &Epoch) -> Result<bool, StoreError> {
        timed!(self, "add_epoch", add_epoch(epoch))
    }
}
