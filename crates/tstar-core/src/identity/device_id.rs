//! The id of a device, and the rule that decides which texts are one.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

use super::{IdError, shown};

/// Maximum length of a device id, bytes.
pub const MAX_DEVICE_ID_BYTES: usize = 256;

/// Id of a device: 1 to 256 bytes of UTF-8 without NUL. Compares, sorts and hashes as its text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(String);

impl DeviceId {
    /// A checked device id.
    ///
    /// # Errors
    /// As [`check_device_id`].
    pub fn new(device_id: impl Into<String>) -> Result<Self, IdError> {
        let device_id = device_id.into();
        check_device_id(&device_id)?;
        Ok(Self(device_id))
    }

    /// A device id that a store returned. It is not checked: it was checked before it was written,
    /// and a store that another program wrote to must still be readable.
    pub fn from_store(device_id: impl Into<String>) -> Self {
        Self(device_id.into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }
}

/// Checks a device id.
///
/// # Errors
/// It is empty, longer than [`MAX_DEVICE_ID_BYTES`], or contains NUL (which ends the device in the
/// key form).
pub fn check_device_id(device_id: &str) -> Result<(), IdError> {
    let reason = if device_id.is_empty() {
        "empty"
    } else if device_id.len() > MAX_DEVICE_ID_BYTES {
        "too long"
    } else if device_id.as_bytes().contains(&0) {
        "contains NUL"
    } else {
        return Ok(());
    };
    Err(IdError::Device { device: shown(device_id), reason })
}

impl Deref for DeviceId {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for DeviceId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for DeviceId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for DeviceId {
    fn eq(&self, other: &str) -> bool {
        self.0 == *other
    }
}

impl PartialEq<&str> for DeviceId {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl fmt::Debug for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
