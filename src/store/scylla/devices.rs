//! List devices. Servers tell them in the order of their tokens, callers want them in
//! that of their ids, a page at a time: so a part of the list that is many pages long is found in
//! one scan, and the pages are cut from it.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::time::{Duration, Instant};

use scylla::response::PagingState;

use super::Shared;
use crate::store::StoreError;

/// Devices that are found in one scan, at most: of the longest ids 8 MB.
const FOUND_TOGETHER: usize = 1 << 15;

/// So long pages are cut from what one scan found; devices that came since are told after that.
const FRESH: Duration = Duration::from_secs(60);

/// The devices that come after an id, by id: all, or so many.
pub(super) struct DevicePage {
    after: String,
    devices: BTreeSet<String>,
    /// There are no more behind them.
    is_rest: bool,
    read: Instant,
}

impl DevicePage {
    /// The page behind an id; `None` where this does not tell. Who begins a list wants it as it is
    /// now.
    pub(super) fn page(&self, after: &str, limit: usize) -> Option<Vec<String>> {
        let knows = !after.is_empty() && *after >= *self.after && self.read.elapsed() < FRESH;
        let behind = (Bound::Excluded(after), Bound::Unbounded);
        let page = || self.devices.range::<str, _>(behind).take(limit).cloned().collect();
        knows.then(page).filter(|page: &Vec<_>| page.len() == limit || self.is_rest)
    }

    /// The first page of all.
    pub(super) fn first(&self, limit: usize) -> Vec<String> {
        self.devices.iter().take(limit).cloned().collect()
    }
}

impl Shared {
    /// Scans the table to its end. No more of it is held than what is found, and a page.
    pub(super) async fn find_devices(
        &self,
        after: &str,
        limit: usize,
    ) -> Result<DevicePage, StoreError> {
        let (select, most) = (&self.statements.devices, limit.max(FOUND_TOGETHER));
        let (mut devices, mut from) = (BTreeSet::new(), Some(PagingState::start()));
        let (read, mut is_rest) = (Instant::now(), true);
        while let Some(at) = from {
            let (page, next): (Vec<(String,)>, _) =
                self.page("listing devices", select, &(), at).await?;
            for (device,) in page.into_iter().filter(|(device,)| device.as_str() > after) {
                devices.insert(device);
                if devices.len() > most {
                    devices.pop_last();
                    is_rest = false;
                }
            }
            from = next;
        }
        Ok(DevicePage { after: after.to_owned(), devices, is_rest, read })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_cut_where_all_of_them_is_known() {
        let devices = ["b", "c", "d"].map(str::to_owned).into();
        let part = DevicePage { after: "a".into(), devices, is_rest: false, read: Instant::now() };
        let page = |found: &DevicePage, after: &str, limit| found.page(after, limit);
        assert_eq!(part.first(2), ["b", "c"]);
        assert_eq!(page(&part, "b", 2).unwrap(), ["c", "d"]);
        assert_eq!(page(&part, "bb", 1).unwrap(), ["c"]);
        assert_eq!(page(&part, "a", 1).unwrap(), ["b"]);
        assert_eq!(page(&part, "c", 2), None, "more may come");
        assert_eq!(page(&part, "0", 1), None, "others may come before");
        let rest = DevicePage { is_rest: true, after: String::new(), ..part };
        assert_eq!(page(&rest, "c", 2).unwrap(), ["d"]);
        assert_eq!(page(&rest, "d", 2).unwrap(), [""; 0]);
        assert_eq!(page(&rest, "", 2), None, "a list that begins");
        let Some(before) = Instant::now().checked_sub(FRESH) else { return };
        assert_eq!(page(&DevicePage { read: before, ..rest }, "c", 1), None, "too old");
    }
}
