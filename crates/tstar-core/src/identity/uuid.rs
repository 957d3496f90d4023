//! The UUID form, version 8: 48 bits of `t_star` in ms, then the first 10 bytes of
//! SHA-256("tstar:v1:" + device id) with version and variant written over them.
//!
//! Bytes 0 to 5 are the time, bytes 6 to 15 are bytes 0 to 9 of the hash. The version overwrites
//! the high half of byte 6 (hash byte 0), the variant the two high bits of byte 8 (hash byte 2).
//! Byte 7 is hash byte 1 unchanged, so its low 4 bits give the shard without the device id.

use sha2::{Digest, Sha256};
use uuid::{Builder, Uuid, Variant, Version};

use super::{DeviceTime, IdError, shown};

/// Maximum time that fits 48 bits, ms since 1970.
pub const MAX_MS: i64 = (1 << 48) - 1;

/// Number of shards of a day in the day index.
pub const SHARDS: u8 = 16;

/// The shard of a device in the day index, below [`SHARDS`]: the low 4 bits of the second byte of
/// its hash, which the UUID form contains.
#[must_use]
pub fn shard(device_id: &str) -> u8 {
    hash(device_id)[1] % SHARDS
}

fn hash(device_id: &str) -> [u8; 32] {
    Sha256::new_with_prefix("tstar:v1:").chain_update(device_id).finalize().into()
}

pub fn write(device_id: &str, t_star_ms: DeviceTime) -> Result<Uuid, IdError> {
    if !(0..=MAX_MS).contains(&t_star_ms.ms()) {
        return Err(IdError::NoUuid { t_star_ms });
    }
    let mut bytes = [0; 16];
    bytes[..6].copy_from_slice(&t_star_ms.ms().to_be_bytes()[2..]);
    bytes[6..].copy_from_slice(&hash(device_id)[..10]);
    Ok(Builder::from_custom_bytes(bytes).into_uuid())
}

/// A trip id in UUID form: the time, and 74 bits of a hash of the device id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UuidId {
    /// Device time of the first-arrived sample, ms since 1970-01-01T00:00:00Z; fits 48 bits.
    pub t_star_ms: DeviceTime,
    uuid: Uuid,
}

impl UuidId {
    /// Whether a text is meant as a UUID: hex digits with hyphens, or a UUID in another spelling.
    pub(super) fn is_like(given: &str) -> bool {
        let is_of_uuid = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
        given.contains('-') && (given.bytes().all(is_of_uuid) || Uuid::try_parse(given).is_ok())
    }

    /// Parses a UUID in canonical spelling: lower case, with hyphens.
    ///
    /// # Errors
    /// [`IdError::Uuid`] if it is not a version 8 UUID in canonical spelling.
    pub fn parse(given: &str) -> Result<Self, IdError> {
        let wrong = |reason| IdError::Uuid { given: shown(given), reason };
        let uuid = Uuid::try_parse(given).map_err(|_| wrong("it is not a UUID"))?;
        if uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()) != given {
            return Err(wrong("it is not written in lower case with hyphens"));
        }
        Self::from_uuid(uuid)
    }

    /// The id in a UUID, such as the value of a UUID column.
    ///
    /// # Errors
    /// [`IdError::Uuid`] if its version is not 8, or its variant not that of RFC 9562.
    pub fn from_uuid(uuid: Uuid) -> Result<Self, IdError> {
        let wrong = |reason| IdError::Uuid { given: shown(&uuid.to_string()), reason };
        if uuid.get_version() != Some(Version::Custom) {
            return Err(wrong("its version is not 8"));
        }
        if uuid.get_variant() != Variant::RFC4122 {
            return Err(wrong("its variant is not that of RFC 9562"));
        }
        let mut time = [0; 8];
        time[2..].copy_from_slice(&uuid.as_bytes()[..6]);
        Ok(Self { t_star_ms: DeviceTime(i64::from_be_bytes(time)), uuid })
    }

    /// Whether this is the UUID form of the id of this device and time.
    #[must_use]
    pub fn matches(&self, device_id: &str, t_star_ms: DeviceTime) -> bool {
        write(device_id, t_star_ms) == Ok(self.uuid)
    }

    /// The shard of the device in the day index, equal to that of the device id.
    #[must_use]
    pub fn shard(&self) -> u8 {
        self.uuid.as_bytes()[7] % SHARDS
    }

    /// The UUID.
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }
}

impl std::fmt::Display for UuidId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.uuid.hyphenated().fmt(f)
    }
}
