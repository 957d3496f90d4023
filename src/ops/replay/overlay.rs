//! A preview of a store after some writes, which go to a second store.

use crate::codec::trip_row::resolve_overlaps;
use crate::model::epoch::Epoch;
use crate::model::scalar::{Day, DeviceTime, Offset};
use crate::store::positions::KeptPositions;
use crate::store::skip::is_whole;
use crate::store::{AnyStore, DeviceScope, Forget, Order, Result, TripRow, TripStore, WriteGroup};

/// Reads both stores and writes to the upper one. Rows of the lower store are returned as rows of
/// the writing partition, so that a preview does not depend on partitions.
pub(crate) struct Overlay<'a> {
    /// The lower store, which is never written.
    pub under: &'a AnyStore,
    /// The upper store, which gets the writes.
    pub over: &'a AnyStore,
    /// The partition that writes.
    pub partition: i32,
}

impl TripStore for Overlay<'_> {
    async fn write(&self, groups: &[WriteGroup]) -> Result<()> {
        self.over.write(groups).await
    }

    async fn rows_from(
        &self,
        device_id: &str,
        day: Day,
        from_ms: DeviceTime,
    ) -> Result<Vec<TripRow>> {
        let mut under = self.under.rows_from(device_id, day, from_ms).await?;
        // A row that cannot be decoded must not hide another one.
        under.retain(is_whole);
        under.iter_mut().for_each(|row| row.partition = self.partition);
        let mut rows = self.over.rows_from(device_id, day, from_ms).await?;
        rows.append(&mut under);
        Ok(resolve_overlaps(rows))
    }

    async fn days(
        &self,
        device_id: &str,
        span: (Day, Day),
        order: Order,
        limit: usize,
    ) -> Result<Vec<Day>> {
        let mut days = self.under.days(device_id, span, order, limit).await?;
        days.append(&mut self.over.days(device_id, span, order, limit).await?);
        days.sort_unstable();
        days.dedup();
        if order == Order::Desc {
            days.reverse();
        }
        days.truncate(limit);
        Ok(days)
    }

    async fn devices(
        &self,
        scope: DeviceScope,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>> {
        let mut devices = self.under.devices(scope, after, limit).await?;
        devices.append(&mut self.over.devices(scope, after, limit).await?);
        devices.sort_unstable();
        devices.dedup();
        devices.truncate(limit);
        Ok(devices)
    }

    async fn forgets(&self, device_id: &str) -> Result<Vec<Forget>> {
        let mut forgets = self.under.forgets(device_id).await?;
        forgets.append(&mut self.over.forgets(device_id).await?);
        Ok(forgets)
    }

    async fn erased(&self, device_id: &str) -> Result<Option<Forget>> {
        let under = self.under.erased(device_id).await?;
        let both = under.into_iter().chain(self.over.erased(device_id).await?);
        Ok(both.reduce(Forget::and))
    }

    async fn forget(&self, device_id: &str, forget: &Forget) -> Result<()> {
        self.over.forget(device_id, forget).await
    }

    async fn positions(&self, epoch: i32) -> Result<KeptPositions> {
        self.over.positions(epoch).await
    }

    async fn keep_position(
        &self,
        epoch: &Epoch,
        generation: i32,
        next: (i32, Offset),
    ) -> Result<()> {
        self.over.keep_position(epoch, generation, next).await
    }

    async fn claimed(&self, device_id: &str, epoch: i32) -> Result<Option<i32>> {
        match self.under.claimed(device_id, epoch).await? {
            None => self.over.claimed(device_id, epoch).await,
            claimed => Ok(claimed),
        }
    }

    async fn claim(&self, device_id: &str, epoch: i32, own: i32) -> Result<i32> {
        self.over.claim(device_id, epoch, own).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::log::reference::Workspace;
    use crate::model::rules::Rules;
    use crate::model::scalar::Version;
    use crate::segment::{SegmentRules, Timeline};
    use crate::store::Kinds;
    use crate::store::memory::ApplyRows as _;
    use crate::timeline::{LegFilter, RawSample, Sample};

    /// The trip of samples at these times, minutes since 1970.
    fn trip(minutes: &[i64], version: Version) -> TripRow {
        let mut timeline = Timeline::in_memory();
        for minute in minutes {
            let raw = RawSample { time_ms: DeviceTime(minute * 60_000), ..RawSample::default() };
            let sample = Sample::quantised(&raw).unwrap();
            timeline.absorb(&SegmentRules::default(), Sample { version, ..sample }, None);
        }
        TripRow {
            partition: 3,
            ..TripRow::from_segment("a", timeline.segments().next().unwrap(), LegFilter::default())
        }
    }

    #[tokio::test]
    async fn writes_hide_the_rows_they_overlap_and_leave_the_lower_store_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let [under, over] = [(); 2].map(|()| {
            let workspace = Workspace { folder: folder.path(), memory: 1 << 20 };
            let store = workspace.store(&Rules::default(), true).unwrap();
            AnyStore::from(Arc::new(store))
        });
        let (first, last) = (trip(&[1, 2], Version(10)), trip(&[50], Version(12)));
        under.apply(&[first.clone(), last.clone()]).await.unwrap();
        let overlay = Overlay { under: &under, over: &over, partition: 0 };
        let own = |row: &TripRow| TripRow { partition: 0, ..row.clone() };
        assert_eq!(overlay.rows_of_day("a", Day(0)).await.unwrap(), [own(&first), own(&last)]);
        let grown = TripRow { partition: 0, ..trip(&[1, 2, 4], Version(100)) };
        overlay.apply(std::slice::from_ref(&grown)).await.unwrap();
        let expected = [grown.clone(), own(&last)];
        assert_eq!(overlay.rows_of_day("a", Day(0)).await.unwrap(), expected);
        let range = overlay
            .range("a", Kinds::All, DeviceTime(0), DeviceTime::MAX, Order::Desc, 1)
            .await
            .unwrap();
        assert_eq!(range, expected[1..]);
        assert_eq!(overlay.covering("a", DeviceTime(180_000)).await.unwrap(), Some(grown));
        assert_eq!(under.covering("a", DeviceTime(180_000)).await.unwrap(), None);
        assert_eq!(overlay.devices(DeviceScope::All, None, 9).await.unwrap(), ["a"]);
    }
}
