//! Lists devices. Servers return device ids in token order, while callers page through them in id
//! order. So one scan collects many pages, which are then served from memory.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::time::{Duration, Instant};

use scylla::response::PagingState;

use super::Shared;
use super::cql::Cql;
use crate::store::Result;

/// Maximum number of devices that one scan collects (8 MB of the longest ids).
const MAX_COLLECTED: usize = 1 << 15;

/// How long pages are served from one scan. Devices added since then are listed after that.
const MAX_AGE: Duration = Duration::from_secs(60);

/// The devices after an id, in id order: all, or as many as one scan collects.
pub(super) struct DevicePage {
    after: String,
    devices: BTreeSet<String>,
    /// Whether no devices follow.
    is_last: bool,
    read_at: Instant,
}

impl DevicePage {
    /// The page after an id; `None` if it is not all in memory, or is the first one, which is
    /// always read from the server.
    pub(super) fn page(&self, after: &str, limit: usize) -> Option<Vec<String>> {
        let is_usable =
            !after.is_empty() && *after >= *self.after && self.read_at.elapsed() < MAX_AGE;
        let range = (Bound::Excluded(after), Bound::Unbounded);
        let page = || self.devices.range::<str, _>(range).take(limit).cloned().collect();
        is_usable.then(page).filter(|page: &Vec<_>| page.len() == limit || self.is_last)
    }

    /// The first page.
    pub(super) fn first(&self, limit: usize) -> Vec<String> {
        self.devices.iter().take(limit).cloned().collect()
    }
}

impl<C: Cql> Shared<C> {
    /// Scans the whole table, and keeps the first ids after `after` in memory.
    pub(super) async fn find_devices(&self, after: &str, limit: usize) -> Result<DevicePage> {
        let (select, max) = (&self.statements.trips.devices, limit.max(MAX_COLLECTED));
        let (mut devices, mut from) = (BTreeSet::new(), Some(PagingState::start()));
        let (read_at, mut is_last) = (Instant::now(), true);
        while let Some(at) = from {
            let (page, next): (Vec<(String,)>, _) =
                self.page("listing devices", select, &(), at).await?;
            for (device,) in page.into_iter().filter(|(device,)| device.as_str() > after) {
                devices.insert(device);
                if devices.len() > max {
                    devices.pop_last();
                    is_last = false;
                }
            }
            from = next;
        }
        Ok(DevicePage { after: after.to_owned(), devices, is_last, read_at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_served_if_they_are_complete() {
        let devices = ["b", "c", "d"].map(str::to_owned).into();
        let part =
            DevicePage { after: "a".into(), devices, is_last: false, read_at: Instant::now() };
        let page = |found: &DevicePage, after: &str, limit| found.page(after, limit);
        assert_eq!(part.first(2), ["b", "c"]);
        assert_eq!(page(&part, "b", 2).unwrap(), ["c", "d"]);
        assert_eq!(page(&part, "bb", 1).unwrap(), ["c"]);
        assert_eq!(page(&part, "a", 1).unwrap(), ["b"]);
        assert_eq!(page(&part, "c", 2), None, "more may follow");
        assert_eq!(page(&part, "0", 1), None, "others may precede it");
        let rest = DevicePage { is_last: true, after: String::new(), ..part };
        assert_eq!(page(&rest, "c", 2).unwrap(), ["d"]);
        assert_eq!(page(&rest, "d", 2).unwrap(), [""; 0]);
        assert_eq!(page(&rest, "", 2), None, "the first page");
        let Some(before) = Instant::now().checked_sub(MAX_AGE) else { return };
        assert_eq!(page(&DevicePage { read_at: before, ..rest }, "c", 1), None, "too old");
    }
}
