//! Reads the devices of a store page by page.

use super::{DeviceScope, StoreError, TripStore};

/// Devices of one page.
const PAGE: usize = 1000;

/// The devices of a scope in byte order, so that memory holds one page only.
#[derive(Debug)]
pub struct DevicePages<'a, S> {
    store: &'a S,
    scope: DeviceScope,
    /// The last device of the page before.
    after: Option<String>,
}

impl<'a, S: TripStore> DevicePages<'a, S> {
    /// Starts before the first device.
    pub fn new(store: &'a S, scope: DeviceScope) -> Self {
        Self { store, scope, after: None }
    }

    /// The next page; `None` after the last one.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn next(&mut self) -> Result<Option<Vec<String>>, StoreError> {
        let devices = self.store.devices(self.scope, self.after.as_deref(), PAGE).await?;
        self.after = devices.last().cloned();
        Ok((!devices.is_empty()).then_some(devices))
    }
}
