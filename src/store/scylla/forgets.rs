//! Forgets in Scylla.

use std::collections::{BTreeMap, BTreeSet};

use scylla::response::PagingState;
use scylla::value::CqlTimestamp;

use super::cql::Cql;
use super::row::{Raw, bucket};
use super::trips::READING_DAY;
use super::{ScyllaStore, Shared};
use crate::identity;
use crate::model::scalar::{Day, DeviceTime, Version};
use crate::store::lookup::days::ALL_DAYS;
use crate::store::{Forget, Order, Result};
use crate::timeline::day_of;

/// The recorded days of a forget.
pub(super) type Days = Option<BTreeSet<CqlTimestamp>>;

/// A row of the table.
type ForgetRow = (String, Option<i64>, Option<CqlTimestamp>, Days);

impl<C: Cql> Shared<C> {
    /// The forgets of a device, in log order.
    pub(super) async fn forgets(&self, device_id: &str) -> Result<Vec<Forget>> {
        let (doing, select) = ("reading forgets", &self.statements.trips.forgets);
        let rows: Vec<(i64, CqlTimestamp, Days)> = self.rows(doing, select, (device_id,)).await?;
        let forget = |(version, before, _): (i64, CqlTimestamp, Days)| Forget {
            version: Version(version),
            before_ms: DeviceTime(before.0),
        };
        Ok(rows.into_iter().map(forget).collect())
    }

    /// The forgets of a device combined into one.
    pub(super) async fn erased(&self, device_id: &str) -> Result<Option<Forget>> {
        let (doing, select) = ("reading forgets", &self.statements.trips.erased);
        let rows: Vec<(Option<i64>, Option<CqlTimestamp>, i64)> =
            self.rows(doing, select, (device_id,)).await?;
        let forget = |(version, before, _): (Option<i64>, Option<CqlTimestamp>, i64)| {
            version.map(Version).zip(before)
        };
        let found = rows.into_iter().find_map(forget);
        Ok(found.map(|(version, before)| Forget { version, before_ms: DeviceTime(before.0) }))
    }

    /// The devices with a forget at or after a version, and the last version of each. One that was
    /// being written is on less than a quorum, and counts once a read finds it.
    pub(super) async fn erased_since(&self, first: Version) -> Result<BTreeMap<String, Version>> {
        let (doing, select) = ("reading every forget", &self.statements.trips.all_forgets);
        let (mut devices, mut from) = (BTreeMap::new(), Some(PagingState::start()));
        while let Some(at) = from {
            let (page, next): (Vec<ForgetRow>, _) = self.page(doing, select, &(), at).await?;
            for (device, version, ..) in page {
                if let Some(version) = version.map(Version).filter(|version| *version >= first) {
                    let last = devices.entry(device).or_insert(version);
                    *last = version.max(*last);
                }
            }
            from = next;
        }
        Ok(devices)
    }

    /// The days that a forget affects: those in the index, and those that an earlier attempt has
    /// recorded, which it may have removed from the index.
    async fn days_to_erase(&self, device_id: &str, forget: &Forget) -> Result<BTreeSet<Day>> {
        let select = &self.statements.trips.recorded_days;
        let recorded: Vec<(Option<CqlTimestamp>, Days)> =
            self.rows("reading forgets", select, (device_id, forget.version.0)).await?;
        let recorded = recorded.into_iter().filter_map(|(_, days)| days).flatten();
        let mut days: BTreeSet<Day> = recorded.map(|bucket| day_of(DeviceTime(bucket.0))).collect();
        let last = day_of(forget.before_ms);
        days.extend(self.page_of_days(device_id, (Day::MIN, last), Order::Asc, usize::MAX).await?);
        Ok(days)
    }

    /// Whether a day has a trip of a device; rows without a version do not count.
    async fn holds_trip(&self, device_id: &str, day: Day) -> Result<bool> {
        let raw = self.raw_rows(READING_DAY, (device_id, day), DeviceTime::MIN).await?;
        Ok(raw.iter().any(Raw::has_version))
    }

    /// Whether a device has a trip or stop. A forget leaves the latest.
    pub(in crate::store) async fn holds_any(&self, device_id: &str) -> Result<bool> {
        for day in self.page_of_days(device_id, ALL_DAYS, Order::Desc, usize::MAX).await? {
            if self.holds_trip(device_id, day).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn unlist(&self, device_id: &str, day: Day, version: Version) -> Result<()> {
        let (statements, bucket) = (&self.statements.trips, bucket(day));
        let shard = i32::from(identity::shard(device_id));
        let of_device = (version.0, device_id, bucket);
        self.execute("removing a day of a device", &statements.unlist_day, of_device).await?;
        let of_day = (version.0, bucket, shard, device_id);
        self.execute("removing a device of a day", &statements.unlist_device, of_day).await
    }
}

impl<C: Cql> ScyllaStore<C> {
    /// Records a forget. Returns the days that it affects.
    pub(super) async fn record(&self, device_id: &str, forget: &Forget) -> Result<BTreeSet<Day>> {
        let (shared, version) = (&self.shared, forget.version);
        let before = CqlTimestamp(forget.before_ms.ms());
        let days = shared.days_to_erase(device_id, forget).await?;
        // Two attempts write at the same version. The longer list contains the other and is the
        // larger value, which wins between equal timestamps.
        let buckets: BTreeSet<CqlTimestamp> = days.iter().map(|&day| bucket(day)).collect();
        let values = (device_id, version.0, before, buckets, version.0);
        let add = &shared.statements.trips.add_forget;
        shared.execute("recording a forget", add, values).await?;
        Ok(days)
    }

    /// Carries out a forget; each step is acknowledged before the next.
    pub(super) async fn erase(&self, device_id: &str, forget: &Forget) -> Result<()> {
        let (shared, statements) = (&self.shared, &self.shared.statements.trips);
        let (version, before) = (forget.version, CqlTimestamp(forget.before_ms.ms()));
        let days = self.record(device_id, forget).await?;
        let mut deletes = Vec::with_capacity(days.len());
        for &day in &days {
            let of_day = (version.0, device_id, bucket(day), before);
            deletes.push(shared.execute("erasing trips", &statements.erase, of_day));
        }
        shared.all(deletes).await?;
        // An earlier forget may reach further, so that the day of this one gets no row any more.
        let floor_ms = shared.erased(device_id).await?.map_or(forget.before_ms, |it| it.before_ms);
        for &day in days.range(..day_of(floor_ms)) {
            if !shared.holds_trip(device_id, day).await? {
                // Before the index, so that the next row adds its day again even if this fails.
                self.listed().remove(&(device_id.to_owned(), day.start_ms()));
                shared.unlist(device_id, day, version).await?;
            }
        }
        self.erase_tags(device_id, forget).await?;
        shared.erase_claims(device_id, forget).await
    }
}
