//! Forwards the methods of a store wrapper or a shared store.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{KeptPositions, PositionStore, StoreError, TripStore};
use crate::model::epoch::Epoch;
use crate::model::scalar::{Offset, Version};

/// Implements methods of [`TripStore`](crate::store::TripStore) by forwarding. Calls the macro
/// `$via` with `self`, the metric label of the operation and the call; `$via` picks the target.
macro_rules! forward_trip_store {
    ($via:ident: $($method:ident),+ $(,)?) => {
        $($crate::store::forward::forward_trip_store!(@$method $via);)+
    };
    (@apply $via:ident) => {
        async fn apply(
            &self,
            trips: &[$crate::store::TripRow],
        ) -> Result<(), $crate::store::StoreError> {
            $via!(self, "apply", apply(trips))
        }
    };
    (@covering $via:ident) => {
        async fn covering(
            &self,
            device_id: &str,
            time_ms: $crate::model::scalar::DeviceTime,
        ) -> Result<Option<$crate::store::TripRow>, $crate::store::StoreError> {
            $via!(self, "covering", covering(device_id, time_ms))
        }
    };
    (@rows_of_day $via:ident) => {
        async fn rows_of_day(
            &self,
            device_id: &str,
            day: $crate::model::scalar::Day,
        ) -> Result<Vec<$crate::store::TripRow>, $crate::store::StoreError> {
            $via!(self, "rows_of_day", rows_of_day(device_id, day))
        }
    };
    (@range $via:ident) => {
        async fn range(
            &self,
            device_id: &str,
            from_ms: $crate::model::scalar::DeviceTime,
            upto_ms: $crate::model::scalar::DeviceTime,
            order: $crate::store::Order,
            limit: usize,
        ) -> Result<Vec<$crate::store::TripRow>, $crate::store::StoreError> {
            $via!(self, "range", range(device_id, from_ms, upto_ms, order, limit))
        }
    };
    (@neighbour $via:ident) => {
        async fn neighbour(
            &self,
            device_id: &str,
            time_ms: $crate::model::scalar::DeviceTime,
            order: $crate::store::Order,
        ) -> Result<Option<$crate::store::TripRow>, $crate::store::StoreError> {
            $via!(self, "neighbour", neighbour(device_id, time_ms, order))
        }
    };
    (@devices $via:ident) => {
        async fn devices(
            &self,
            scope: $crate::store::DeviceScope,
            after: Option<&str>,
            limit: usize,
        ) -> Result<Vec<String>, $crate::store::StoreError> {
            $via!(self, "devices", devices(scope, after, limit))
        }
    };
    (@forgets $via:ident) => {
        async fn forgets(
            &self,
            device_id: &str,
        ) -> Result<Vec<$crate::store::Forget>, $crate::store::StoreError> {
            $via!(self, "forgets", forgets(device_id))
        }
    };
    (@erased $via:ident) => {
        async fn erased(
            &self,
            device_id: &str,
        ) -> Result<Option<$crate::store::Forget>, $crate::store::StoreError> {
            $via!(self, "forgets", erased(device_id))
        }
    };
    (@forget $via:ident) => {
        async fn forget(
            &self,
            device_id: &str,
            forget: &$crate::store::Forget,
        ) -> Result<(), $crate::store::StoreError> {
            $via!(self, "forget", forget(device_id, forget))
        }
    };
    (@begin_forget $via:ident) => {
        async fn begin_forget(
            &self,
            device_id: &str,
            forget: &$crate::store::Forget,
        ) -> Result<(), $crate::store::StoreError> {
            $via!(self, "begin_forget", begin_forget(device_id, forget))
        }
    };
    (@claimed $via:ident) => {
        async fn claimed(
            &self,
            device_id: &str,
            epoch: i32,
        ) -> Result<Option<i32>, $crate::store::StoreError> {
            $via!(self, "claimed", claimed(device_id, epoch))
        }
    };
    (@claim $via:ident) => {
        async fn claim(
            &self,
            device_id: &str,
            epoch: i32,
            partition: i32,
        ) -> Result<i32, $crate::store::StoreError> {
            $via!(self, "claim", claim(device_id, epoch, partition))
        }
    };
}

pub(crate) use forward_trip_store;

/// Implements [`TagStore`](crate::store::TagStore) by forwarding, like [`forward_trip_store`].
macro_rules! forward_tag_store {
    ($via:ident) => {
        async fn tags(
            &self,
            device_id: &str,
            from_ms: $crate::model::scalar::DeviceTime,
            upto_ms: $crate::model::scalar::DeviceTime,
        ) -> Result<Vec<$crate::model::tag::Tag>, $crate::store::StoreError> {
            $via!(self, "tags", tags(device_id, from_ms, upto_ms))
        }

        async fn tags_to_change(
            &self,
            device_id: &str,
            from_ms: $crate::model::scalar::DeviceTime,
            upto_ms: $crate::model::scalar::DeviceTime,
        ) -> Result<Vec<$crate::model::tag::Tag>, $crate::store::StoreError> {
            $via!(self, "tags_to_change", tags_to_change(device_id, from_ms, upto_ms))
        }

        async fn put_tag(
            &self,
            device_id: &str,
            tag: &$crate::model::tag::Tag,
            replaced: Option<$crate::model::tag::Revision>,
        ) -> Result<bool, $crate::store::StoreError> {
            $via!(self, "put_tag", put_tag(device_id, tag, replaced))
        }

        async fn delete_tag(
            &self,
            device_id: &str,
            tag: &$crate::model::tag::Tag,
        ) -> Result<bool, $crate::store::StoreError> {
            $via!(self, "delete_tag", delete_tag(device_id, tag))
        }

        async fn has_tags(&self) -> Result<bool, $crate::store::StoreError> {
            $via!(self, "has_tags", has_tags())
        }

        async fn tagged_devices(&self) -> Result<Vec<String>, $crate::store::StoreError> {
            $via!(self, "tagged_devices", tagged_devices())
        }
    };
}

pub(crate) use forward_tag_store;

macro_rules! shared {
    ($self:expr, $operation:literal, $($call:tt)*) => {
        (**$self).$($call)*.await
    };
}

/// A partition worker shares its trips with its journal.
impl<T: TripStore> TripStore for Arc<T> {
    forward_trip_store!(
        shared: apply, covering, rows_of_day, range, neighbour, devices, forgets, erased, forget,
        begin_forget, claimed, claim,
    );
}

impl<T: PositionStore> PositionStore for Arc<T> {
    async fn positions(&self, epoch: i32) -> Result<KeptPositions, StoreError> {
        (**self).positions(epoch).await
    }

    async fn keep_position(
        &self,
        epoch: &Epoch,
        generation: i32,
        next: (i32, Offset),
    ) -> Result<(), StoreError> {
        (**self).keep_position(epoch, generation, next).await
    }

    async fn erased_since(&self, first: Version) -> Result<BTreeMap<String, Version>, StoreError> {
        (**self).erased_since(first).await
    }
}
