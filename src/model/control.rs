//! Control keys: a control record counts only with the operator's signature.
//!
//! The signature is HMAC-SHA-256 over a [`Claim`] and names its key. The store keeps the name and
//! fingerprint of each valid key with the epoch, insert-only, so that every reader of the log
//! decides the same way at any time.

use crate::model::scalar::DeviceTime;
use std::fmt;

use data_encoding::{BASE64, BASE64_NOPAD, HEXLOWER, HEXLOWER_PERMISSIVE};
use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Minimum length of a secret, bytes: the length of the hash.
const MIN_SECRET_BYTES: usize = 32;

/// Maximum length of a name, bytes.
const MAX_NAME_BYTES: usize = 64;

/// Length of a fingerprint, bytes: enough to distinguish keys.
const FINGERPRINT_BYTES: usize = 16;

/// The fields that a signature covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim<'a> {
    /// Topic that the record is sent to.
    pub topic: &'a str,
    /// The record's key: a device id.
    pub device: &'a [u8],
    /// Kind of the control record, as in header `tstar-control`.
    pub kind: &'a [u8],
    /// The `before` of the record, ms since 1970.
    pub before_ms: DeviceTime,
}

impl Claim<'_> {
    /// The bytes that are signed: a version tag and the fields. The length of each (8 bytes,
    /// big-endian) precedes it, so that different claims have different bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let before = self.before_ms.ms().to_be_bytes();
        let fields: [&[u8]; 5] =
            [b"tstar:control:v1", self.topic.as_bytes(), self.device, self.kind, &before];
        let mut bytes = Vec::new();
        for field in fields {
            bytes.extend_from_slice(&(field.len() as u64).to_be_bytes());
            bytes.extend_from_slice(field);
        }
        bytes
    }
}

/// A key as recorded in a store: without its secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NamedKey {
    /// Name of the key.
    pub name: String,
    /// Distinguishes the key from others without revealing its secret.
    pub fingerprint: String,
}

/// A key, with its secret.
#[derive(Clone, PartialEq, Eq)]
pub struct ControlKey {
    name: String,
    secret: Vec<u8>,
}

impl fmt::Debug for ControlKey {
    /// Never shows the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlKey").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Error of a key or key file. Never contains a part of a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The name is not valid in a header.
    #[error("`{0}` is not a valid key name; write 1 to 64 of A-Z a-z 0-9 . _ -")]
    Name(String),
    /// A line is not a valid key.
    #[error(
        "line {line}: {problem}; write NAME:SECRET, with a secret of at least 32 bytes in hex or \
         base64 (tstar forget --new-key NAME creates a key)"
    )]
    Line {
        /// Line number, from 1.
        line: usize,
        /// What is wrong.
        problem: &'static str,
    },
    /// Two keys have the same name.
    #[error("line {line}: key `{name}` is defined twice; give each key its own name")]
    Twice {
        /// Line number, from 1.
        line: usize,
        /// Name of both keys.
        name: String,
    },
    /// The operating system returned no random bytes.
    #[error("cannot read random bytes from the system: {0}")]
    Random(String),
}

impl ControlKey {
    /// Creates a key with a random secret.
    ///
    /// # Errors
    /// [`KeyError::Name`], [`KeyError::Random`].
    pub fn generate(name: &str) -> Result<Self, KeyError> {
        if !is_name(name) {
            return Err(KeyError::Name(name.to_owned()));
        }
        let mut secret = vec![0; MIN_SECRET_BYTES];
        getrandom::fill(&mut secret).map_err(|error| KeyError::Random(error.to_string()))?;
        Ok(Self { name: name.to_owned(), secret })
    }

    /// The key as a line of a key file. Contains the secret.
    #[must_use]
    pub fn to_line(&self) -> String {
        format!("{}:{}", self.name, HEXLOWER.encode(&self.secret))
    }

    /// Name of the key.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Name and fingerprint of the key, as recorded in a store.
    #[must_use]
    pub fn named(&self) -> NamedKey {
        let hash = Sha256::new_with_prefix(b"tstar:control-key:v1:").chain_update(&self.secret);
        let fingerprint = HEXLOWER.encode(&hash.finalize()[..FINGERPRINT_BYTES]);
        NamedKey { name: self.name.clone(), fingerprint }
    }

    /// Signs a claim. Returns the value of header `tstar-signature`.
    #[must_use]
    pub fn sign(&self, claim: &Claim<'_>) -> String {
        let code = self.mac(claim).finalize().into_bytes();
        format!("{}:{}", self.name, HEXLOWER.encode(&code))
    }

    fn mac(&self, claim: &Claim<'_>) -> Hmac<Sha256> {
        let mac = Hmac::<Sha256>::new_from_slice(&self.secret).expect("HMAC takes any length");
        mac.chain_update(claim.encode())
    }

    /// Compares in constant time.
    fn has_signed(&self, claim: &Claim<'_>, code: &[u8]) -> bool {
        self.mac(claim).verify_slice(code).is_ok()
    }
}

fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(is_plain)
}

/// A parsed signature, not yet verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Name of the key.
    pub key: String,
    code: [u8; 32],
}

impl Signature {
    /// Parses `NAME:HEX`; `None` if the header has another form.
    #[must_use]
    pub fn parse(header: &[u8]) -> Option<Self> {
        let (name, code) = std::str::from_utf8(header).ok()?.split_once(':')?;
        let code = HEXLOWER.decode(code.as_bytes()).ok()?.try_into().ok()?;
        is_name(name).then(|| Self { key: name.to_owned(), code })
    }
}

/// Keys with their secrets, in the order of the key file. The first one signs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlKeys(Vec<ControlKey>);

impl ControlKeys {
    /// Parses a key file: one `NAME:SECRET` per line; empty lines and comments (`#`) are skipped.
    ///
    /// # Errors
    /// A line is not a valid key, or two keys have the same name.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let mut keys: Vec<ControlKey> = Vec::new();
        for (line, number) in text.lines().map(str::trim).zip(1..) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let key =
                parse_line(line).map_err(|problem| KeyError::Line { line: number, problem })?;
            if keys.iter().any(|other| other.name == key.name) {
                return Err(KeyError::Twice { line: number, name: key.name });
            }
            keys.push(key);
        }
        Ok(Self(keys))
    }

    /// The key that signs: the first one of the file.
    #[must_use]
    pub fn signing(&self) -> Option<&ControlKey> {
        self.0.first()
    }

    /// Name and fingerprint of each key, as recorded in a store.
    #[must_use]
    pub fn named(&self) -> Vec<NamedKey> {
        self.0.iter().map(ControlKey::named).collect()
    }

    /// The keys that are also recorded in a store. No other key is valid.
    #[must_use]
    pub(crate) fn that_count(&self, named: &[NamedKey]) -> Self {
        Self(self.0.iter().filter(|key| named.contains(&key.named())).cloned().collect())
    }

    /// Checks that every key recorded in a store is here, so that all processes with these keys
    /// decide the same way.
    ///
    /// # Errors
    /// A message that names each missing key, or the first one with another secret, and the next
    /// step.
    pub(crate) fn agree_with(&self, named: &[NamedKey], store: &str) -> Result<(), String> {
        let mine = self.named();
        let of_name = |name: &str| mine.iter().find(|key| key.name == name);
        let missing: Vec<_> =
            named.iter().filter(|key| of_name(&key.name).is_none()).map(quoted).collect();
        if !missing.is_empty() {
            return Err(format!(
                "store `{store}` requires control keys that control_key_file lacks: {}; add \
                 them: without them, control records of the log cannot be verified",
                missing.join(", ")
            ));
        }
        match named.iter().find(|key| of_name(&key.name) != Some(key)) {
            None => Ok(()),
            Some(key) => Err(format!(
                "control key {} of control_key_file has a different secret than in store \
                 `{store}`: fingerprint {}, in the store {}; restore the old secret, and give \
                 the new key a new name",
                quoted(key),
                of_name(&key.name).map_or("none", |mine| &mine.fingerprint),
                key.fingerprint
            )),
        }
    }

    /// The key that a signature names; `None` if it is not here.
    #[must_use]
    pub(crate) fn key_of(&self, signature: &Signature) -> Option<&ControlKey> {
        self.0.iter().find(|key| key.name == signature.key)
    }
}

impl ControlKey {
    /// Whether this key produced the signature for this claim.
    #[must_use]
    pub(crate) fn verifies(&self, signature: &Signature, claim: &Claim<'_>) -> bool {
        self.has_signed(claim, &signature.code)
    }
}

fn quoted(key: &NamedKey) -> String {
    format!("`{}`", key.name)
}

fn parse_line(line: &str) -> Result<ControlKey, &'static str> {
    let (name, secret) = line.split_once(':').ok_or("it has no `:`")?;
    let (name, secret) = (name.trim_end(), secret.trim_start().as_bytes());
    if !is_name(name) {
        return Err("its name is not 1 to 64 of A-Z a-z 0-9 . _ -");
    }
    // A secret that is valid in both encodings is hex: 64 hex digits are unlikely as base64.
    let decoded = HEXLOWER_PERMISSIVE.decode(secret);
    let decoded = decoded.or_else(|_| BASE64.decode(secret));
    let decoded = decoded.or_else(|_| BASE64_NOPAD.decode(secret));
    let secret = decoded.map_err(|_| "its secret is neither hex nor base64")?;
    if secret.len() < MIN_SECRET_BYTES {
        return Err("its secret is too short");
    }
    Ok(ControlKey { name: name.to_owned(), secret })
}

#[cfg(test)]
#[path = "control_tests.rs"]
mod tests;
