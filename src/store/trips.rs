//! The trait of stores of trips: rows, forgets, claims and positions.

use std::collections::BTreeMap;

use metrics::counter;

use super::any::store_operations;
use super::lookup::TripEnd;
use super::lookup::days::{ALL_DAYS, Days, Listing, beyond, nearest, overlap};
use super::positions::KeptPositions;
use super::skip::is_whole;
use super::{DeviceScope, Forget, Kinds, Order, Result, TripRow, WriteGroup};
use crate::model::epoch::{Division, Epoch};
use crate::model::scalar::{Day, DeviceTime, Offset, Version};
use crate::telemetry::{CLAIM_INSERTED, CLAIM_READ, CLAIMS};
use crate::timeline::day_of;

store_operations! {
    /// Stores segments: trips and stops.
    ///
    /// - S1 `write` is idempotent: writing the same rows again changes nothing.
    /// - S2 writing an older row of a segment after a newer one changes nothing.
    /// - S3 a time that a segment covered before and after a `write` is covered during it.
    /// - S4 every read sees every row whose `write` returned `Ok`.
    /// - S5 of overlapping rows of a device, reads return the one with the highest version.
    /// - S6 a row that cannot be decoded is skipped, counted and logged by `covering` and `range`,
    ///   and by callers that decode the rows of `rows_of_day`; [`super::skip::collecting`] returns
    ///   it.
    /// - S7 for a device and an epoch, every call of `claim` returns the same partition, and
    ///   `claimed` returns that partition or `None`. A forget changes neither.
    ///
    /// It also keeps how far each partition of a topic was read, with the rows: the consumer group
    /// does not know of rows that were restored from a backup.
    pub trait TripStore over TripStoreOver {
        /// Writes groups: in each UTC day that a group touches, replaces every row within its spans
        /// by copies of its rows.
        fn write(&self, groups: &[WriteGroup]) -> () = untimed;

        /// The segment of a device that covers a time.
        fn covering(&self, device_id: &str, time_ms: DeviceTime) -> Option<TripRow> = "covering" {
            async move {
                let rows = self.rows_of_day(device_id, day_of(time_ms)).await?;
                let covers = |row: &TripRow| (row.start_ms..=row.end_ms).contains(&time_ms);
                let found = rows.into_iter().filter(|row| covers(row) && is_whole(row));
                Ok(found.max_by_key(|row| row.version))
            }
        }

        /// Every row of a device in a UTC day (whole days since 1970), overlapping ones included.
        fn rows_of_day(&self, device_id: &str, day: Day) -> Vec<TripRow> = "rows_of_day" {
            self.rows_from(device_id, day, DeviceTime::MIN)
        }

        /// Those of [`TripStore::rows_of_day`] that end at or after a time.
        fn rows_from(
            &self,
            device_id: &str,
            day: Day,
            from_ms: DeviceTime,
        ) -> Vec<TripRow> = untimed;

        /// At most `limit` segments of a device that overlap `from_ms..=upto_ms`, each once,
        /// ordered by `start_time`.
        ///
        /// Days are read one after another, so that of a change to two days one may have been read
        /// before and one after: segments then overlap, and the days are read again. Where they
        /// still do, such as after a restore, the highest version stands.
        fn range(
            &self,
            device_id: &str,
            kinds: Kinds,
            from_ms: DeviceTime,
            upto_ms: DeviceTime,
            order: Order,
            limit: usize,
        ) -> Vec<TripRow> = "range" {
            async move {
                let mut walk = Days::new(day_of(from_ms), day_of(upto_ms), order);
                let mut listing = Listing::new(kinds, upto_ms, order);
                while let (Some((span, page)), true) = (walk.next_page(), listing.len() < limit) {
                    let days = self.days(device_id, span, order, page).await?;
                    walk.record_page(&days);
                    for day in days {
                        list_day(self, &mut listing, device_id, day, from_ms).await?;
                        if listing.len() >= limit {
                            break;
                        }
                    }
                }
                Ok(listing.finish(limit))
            }
        }

        /// The segment of a device that is nearest to a time that none covers: the last one before
        /// it in descending order, else the first one after it.
        fn neighbour(
            &self,
            device_id: &str,
            kinds: Kinds,
            time_ms: DeviceTime,
            order: Order,
        ) -> Option<TripRow> = "neighbour" {
            async move {
                let near = self.near(device_id, time_ms, order).await?;
                if let Some(found) = nearest(near, kinds, order) {
                    return Ok(Some(found));
                }
                if kinds != Kinds::All {
                    // The nearest ones may all be of the other kind.
                    let mut rows = self.rows_of_day(device_id, day_of(time_ms)).await?;
                    rows.retain(|row| (row.end_ms >= time_ms) == (order == Order::Asc));
                    if let Some(found) = nearest(rows, kinds, order) {
                        return Ok(Some(found));
                    }
                }
                let Some((from_ms, upto_ms)) = beyond(time_ms, order) else { return Ok(None) };
                Ok(self.range(device_id, kinds, from_ms, upto_ms, order, 1).await?.pop())
            }
        }

        /// Rows of the day of a time that end at or after it, or in descending order before it: the
        /// nearest, as many as decide which segment is nearest.
        fn near(
            &self,
            device_id: &str,
            time_ms: DeviceTime,
            order: Order,
        ) -> Vec<TripRow> = untimed {
            async move {
                let mut rows = self.rows_of_day(device_id, day_of(time_ms)).await?;
                rows.retain(|row| (row.end_ms >= time_ms) == (order == Order::Asc));
                Ok(rows)
            }
        }

        /// At most `limit` device ids greater than `after`, in byte order.
        fn devices(
            &self,
            scope: DeviceScope,
            after: Option<&str>,
            limit: usize,
        ) -> Vec<String> = "devices";

        /// At most `limit` days of a device in `from..=upto` from the day index, in an order.
        fn days(
            &self,
            device_id: &str,
            span: (Day, Day),
            order: Order,
            limit: usize,
        ) -> Vec<Day> = untimed;

        /// At most `limit` days of a device from the day index, the latest first.
        fn latest_days(&self, device_id: &str, limit: usize) -> Vec<Day> = "latest_days" {
            self.days(device_id, ALL_DAYS, Order::Desc, limit)
        }

        /// At most `limit` ends of segments of a device in a UTC day, the latest first, overlapping
        /// ones included.
        ///
        /// A store with replicas may read one of them only, so that an answer may lack what was
        /// written lately: a read of some columns at a quorum would have replicas repaired in these
        /// columns alone.
        fn ends_of_day(
            &self,
            device_id: &str,
            day: Day,
            limit: usize,
        ) -> Vec<TripEnd> = "ends_of_day" {
            async move {
                let rows = self.rows_of_day(device_id, day).await?;
                let mut ends: Vec<_> = rows.iter().map(TripEnd::of_row).collect();
                ends.sort_unstable_by_key(|end| std::cmp::Reverse((end.end_ms, end.start_ms)));
                ends.truncate(limit);
                Ok(ends)
            }
        }

        /// Every [`TripStore::forget`] of a device that was started, completed or not.
        fn forgets(&self, device_id: &str) -> Vec<Forget> = "forgets";

        /// All of [`TripStore::forgets`] combined: the highest version and the latest `before`,
        /// which is the floor; `None` without forgets.
        fn erased(&self, device_id: &str) -> Option<Forget> = "forgets" {
            async { Ok(self.forgets(device_id).await?.into_iter().reduce(Forget::and)) }
        }

        /// The devices with a forget at or after a version, and the last version of each. None,
        /// where rows and positions are always of one moment.
        fn erased_since(&self, _first: Version) -> BTreeMap<String, Version> = untimed {
            async { Ok(BTreeMap::new()) }
        }

        /// Erases the trips of a device that end before a time. Each step is durable before the
        /// next:
        ///
        /// 1. Record the forget with the days that it affects, including those of an earlier
        ///    attempt at the same version.
        /// 2. Delete the rows.
        /// 3. Remove days without rows from the day indexes, if they lie before that of the latest
        ///    `before_ms` of all forgets.
        /// 4. If no day is left, move the claims of the device to the record of the forget.
        fn forget(&self, device_id: &str, forget: &Forget) -> () = "forget";

        /// Step 1 of [`TripStore::forget`] alone, where each step is durable before the next: from
        /// then on, whoever loads the device ignores what is about to be erased.
        fn begin_forget(&self, _device_id: &str, _forget: &Forget) -> () = "begin_forget" {
            async { Ok(()) }
        }

        /// The partition that a device has claimed in an epoch. May miss a concurrent claim.
        fn claimed(&self, device_id: &str, epoch: i32) -> Option<i32> = guided;

        /// Claims a partition for a device in an epoch unless one is claimed already. Returns the
        /// claimed partition, which is durable at once or together with the device's rows.
        fn claim(&self, device_id: &str, epoch: i32, partition: i32) -> i32 = "claim";

        /// The positions of an epoch, of the last generation.
        fn positions(&self, epoch: i32) -> KeptPositions = untimed;

        /// Keeps the next offset of a partition in a generation, unless a higher one is kept.
        /// Everything before it is acknowledged.
        fn keep_position(
            &self,
            epoch: &Epoch,
            generation: i32,
            next: (i32, Offset),
        ) -> () = untimed;
    }
}

/// How often the days of a list are read again while a change is on its way to two of them.
const MAX_REREADS: usize = 3;

/// Adds the next day to a list. A day is read in pages, so that a change may also tear it.
async fn list_day(
    store: &(impl TripStore + ?Sized),
    listing: &mut Listing,
    device_id: &str,
    day: Day,
    from_ms: DeviceTime,
) -> Result<()> {
    let read = async |day| -> Result<Vec<TripRow>> {
        let mut rows = store.rows_from(device_id, day, from_ms).await?;
        rows.retain(is_whole);
        Ok(rows)
    };
    let mut rows = read(day).await?;
    for _ in 0..MAX_REREADS {
        if let Some(before) = listing.torn(&rows) {
            let again = read(before).await?;
            listing.replace(before, again);
        } else if !overlap(&rows) {
            break;
        }
        rows = read(day).await?;
    }
    listing.add(day, rows);
    Ok(())
}

/// The combined forgets of a device if `time_ms` is before their floor. A time or id without a trip
/// is then gone rather than unknown. Call this only after the trip was not found: a trip that
/// extends past `before` is kept.
///
/// # Errors
/// The store cannot be read.
pub(crate) async fn was_erased(
    store: &impl TripStore,
    device_id: &str,
    time_ms: DeviceTime,
) -> Result<Option<Forget>> {
    let erased = store.erased(device_id).await?;
    Ok(erased.filter(|forget| time_ms < forget.before_ms))
}

/// The partition of a device in an epoch: decided once, and the same for every caller. If it is
/// unknown, claims `own`, the partition of the current record.
///
/// # Errors
/// The store fails.
pub async fn home(
    store: &impl TripStore,
    device_id: &str,
    division: &Division,
    own: i32,
) -> Result<i32> {
    if let Some(partition) = division.computed(device_id) {
        return Ok(partition);
    }
    // A plain read first: a conditional insert costs several round trips between replicas.
    if let Some(partition) = store.claimed(device_id, division.epoch).await? {
        counter!(CLAIMS, "how" => CLAIM_READ).increment(1);
        return Ok(partition);
    }
    counter!(CLAIMS, "how" => CLAIM_INSERTED).increment(1);
    store.claim(device_id, division.epoch, own).await
}

/// The partition of a device in an epoch, if it is known. Never claims one.
///
/// # Errors
/// The store fails.
pub(crate) async fn known_home(
    store: &impl TripStore,
    device_id: &str,
    division: &Division,
) -> Result<Option<i32>> {
    if let Some(partition) = division.computed(device_id) {
        return Ok(Some(partition));
    }
    store.claimed(device_id, division.epoch).await
}
