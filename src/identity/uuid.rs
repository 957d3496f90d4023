//! The UUID form, version 8: 48 bits of `t_star` in ms, then the first 10 bytes of
//! SHA-256("tstar:v1:" + device id) with version and variant written over them.
//!
//! Byte by byte: 0 to 5 the time; 6 to 15 the hash's bytes 0 to 9. The version takes the high half
//! of byte 6 (hash byte 0), the variant the two high bits of byte 8 (hash byte 2). Byte 7 is hash
//! byte 1, whole: so the shard, its low 4 bits, can be read from the UUID alone.

use sha2::{Digest, Sha256};
use uuid::{Builder, Uuid, Variant, Version};

use super::{IdError, shown};

/// Latest time that fits 48 bits, ms since 1970.
pub const MOST_MS: i64 = (1 << 48) - 1;

/// Shards of a day's list of devices.
pub const SHARDS: u8 = 16;

/// Which of the [`SHARDS`] of a day's list a device stands in: the low 4 bits of its hash's second
/// byte, which the UUID form keeps.
#[must_use]
pub fn shard(device_id: &str) -> u8 {
    hash(device_id)[1] % SHARDS
}

fn hash(device_id: &str) -> [u8; 32] {
    Sha256::new_with_prefix("tstar:v1:").chain_update(device_id).finalize().into()
}

/// Writes the UUID form.
pub fn write(device_id: &str, t_star_ms: i64) -> Result<Uuid, IdError> {
    if !(0..=MOST_MS).contains(&t_star_ms) {
        return Err(IdError::NoUuid { t_star_ms });
    }
    let mut bytes = [0; 16];
    bytes[..6].copy_from_slice(&t_star_ms.to_be_bytes()[2..]);
    bytes[6..].copy_from_slice(&hash(device_id)[..10]);
    Ok(Builder::from_custom_bytes(bytes).into_uuid())
}

/// A trip id in UUID form: it tells the time, and of the device 74 bits of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UuidId {
    /// Device time of the first-arrived sample, ms since 1970-01-01T00:00:00Z; fits 48 bits.
    pub t_star_ms: i64,
    uuid: Uuid,
}

impl UuidId {
    /// Reads a UUID in its canonical spelling: lower case, with hyphens.
    ///
    /// # Errors
    /// What is wrong with it, were it only its spelling.
    pub fn parse(given: &str) -> Result<Self, IdError> {
        let wrong = |why| IdError::Uuid { given: shown(given), why };
        let uuid = Uuid::try_parse(given).map_err(|_| wrong("it is no UUID"))?;
        if uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()) != given {
            return Err(wrong("it is not spelled in lower case with hyphens"));
        }
        Self::from_uuid(uuid)
    }

    /// Takes a UUID, as a column of that type holds it.
    ///
    /// # Errors
    /// It is not of version 8 and RFC 9562's variant.
    pub fn from_uuid(uuid: Uuid) -> Result<Self, IdError> {
        let wrong = |why| IdError::Uuid { given: shown(&uuid.to_string()), why };
        if uuid.get_version() != Some(Version::Custom) {
            return Err(wrong("it is not of version 8"));
        }
        if uuid.get_variant() != Variant::RFC4122 {
            return Err(wrong("it is not of the variant of RFC 9562"));
        }
        let mut time = [0; 8];
        time[2..].copy_from_slice(&uuid.as_bytes()[..6]);
        Ok(Self { t_star_ms: i64::from_be_bytes(time), uuid })
    }

    /// Whether this is the UUID form of that device's trip.
    #[must_use]
    pub fn matches(&self, device_id: &str, t_star_ms: i64) -> bool {
        write(device_id, t_star_ms) == Ok(self.uuid)
    }

    /// The shard of the day's list that the device stands in, as [`shard`] gives for the device.
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
