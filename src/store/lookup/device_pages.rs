//! Reads the devices of a store page by page.

use std::collections::VecDeque;

use crate::model::scalar::Day;
use crate::store::{DeviceScope, Result, TripStore};

/// Devices of one page.
const PAGE: usize = 1000;

/// The devices of a scope in byte order, so that memory holds one page only.
#[derive(Debug)]
pub(crate) struct DevicePages<'a, S> {
    store: &'a S,
    scope: DeviceScope,
    /// The last device of the page before.
    after: Option<String>,
}

impl<'a, S: TripStore> DevicePages<'a, S> {
    /// Starts before the first device.
    pub(crate) fn new(store: &'a S, scope: DeviceScope) -> Self {
        Self { store, scope, after: None }
    }

    /// The next page; `None` after the last one.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<String>>> {
        let devices = self.store.devices(self.scope, self.after.as_deref(), PAGE).await?;
        self.after = devices.last().cloned();
        Ok((!devices.is_empty()).then_some(devices))
    }
}

/// The devices that have a trip on any of some days, in byte order; memory holds a page a day.
#[derive(Debug)]
pub(crate) struct DevicesOfDays<'a, S> {
    store: &'a S,
    days: Vec<DayDevices>,
    /// Number of devices of a page.
    page: usize,
}

/// The devices of a day.
#[derive(Debug)]
struct DayDevices {
    day: Day,
    /// Read, but not returned yet.
    ahead: VecDeque<String>,
    /// The last device that was read.
    after: Option<String>,
    is_at_end: bool,
}

impl<'a, S: TripStore> DevicesOfDays<'a, S> {
    /// Starts after a device, or before the first. `page` is the number of devices of a day that
    /// are read at once.
    pub(crate) fn new(
        store: &'a S,
        days: impl Iterator<Item = Day>,
        after: Option<&str>,
        page: usize,
    ) -> Self {
        let days = days.map(|day| DayDevices {
            day,
            ahead: VecDeque::new(),
            after: after.map(str::to_owned),
            is_at_end: false,
        });
        Self { store, days: days.collect(), page }
    }

    /// At most `limit` next devices; none after the last one.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn next_page(&mut self, limit: usize) -> Result<Vec<String>> {
        let mut page = Vec::new();
        while page.len() < limit {
            match self.next().await? {
                Some(device) => page.push(device),
                None => break,
            }
        }
        Ok(page)
    }

    /// The next device; `None` after the last one.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn next(&mut self) -> Result<Option<String>> {
        for of_day in &mut self.days {
            if of_day.ahead.is_empty() && !of_day.is_at_end {
                let scope = DeviceScope::OfDay(of_day.day);
                let devices = self.store.devices(scope, of_day.after.as_deref(), self.page).await?;
                of_day.is_at_end = devices.len() < self.page;
                of_day.after = devices.last().cloned().or_else(|| of_day.after.take());
                of_day.ahead = devices.into();
            }
        }
        let Some(next) = self.days.iter().filter_map(|of_day| of_day.ahead.front()).min() else {
            return Ok(None);
        };
        let next = next.clone();
        for of_day in &mut self.days {
            if of_day.ahead.front() == Some(&next) {
                of_day.ahead.pop_front();
            }
        }
        Ok(Some(next))
    }
}
