//! Control keys: a control record counts only with the operator's signature.
//!
//! The signature is HMAC-SHA-256 over a [`Claim`], by a key whose name goes with it. Which keys
//! count is kept beside the epoch, by name and fingerprint and insert-only, so that everybody who
//! reads the log decides alike, whenever they read it.

use std::fmt;

use data_encoding::{BASE64, BASE64_NOPAD, HEXLOWER, HEXLOWER_PERMISSIVE};
use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Minimum length of a secret, bytes: that of the hash.
const MIN_SECRET_BYTES: usize = 32;

/// Maximum length of a name, bytes.
const MAX_NAME_BYTES: usize = 64;

/// Length of a fingerprint, bytes: enough to tell keys apart.
const FINGERPRINT_BYTES: usize = 16;

/// What a signature says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim<'a> {
    /// Topic that the record is for.
    pub topic: &'a str,
    /// The record's key: a device id.
    pub device: &'a [u8],
    /// What is asked for, as in header `tstar-control`.
    pub kind: &'a [u8],
    /// The `before` of the record, ms since 1970.
    pub before_ms: i64,
}

impl Claim<'_> {
    /// The bytes that are signed: a version tag and each field, each after its length (8 bytes,
    /// big-endian), so that no two claims share them.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let before = self.before_ms.to_be_bytes();
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

/// A key as a store names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NamedKey {
    /// Its name.
    pub name: String,
    /// Tells it from others, and nothing about its secret.
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

/// What is wrong with a key. Never holds a part of a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The name is not usable in a header.
    #[error("a key name has 1 to 64 of A-Z a-z 0-9 . _ -, not `{0}`")]
    Name(String),
    /// A line is not a key.
    #[error(
        "line {line}: {problem}; a key is NAME:SECRET, the secret 32 bytes or more in hex or base64 (tstar forget --new-key NAME makes one)"
    )]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong.
        problem: &'static str,
    },
    /// Two keys of one name.
    #[error("line {line}: key `{name}` is there twice; each key needs a name of its own")]
    Twice {
        /// From 1.
        line: usize,
        /// The name.
        name: String,
    },
    /// The system gives no random bytes.
    #[error("the system gives no random bytes: {0}")]
    Random(String),
}

impl ControlKey {
    /// A new key, from the system's randomness.
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

    /// The key as a line of a key file. Holds the secret.
    #[must_use]
    pub fn to_line(&self) -> String {
        format!("{}:{}", self.name, HEXLOWER.encode(&self.secret))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The key as a store names it.
    #[must_use]
    pub fn named(&self) -> NamedKey {
        let hash = Sha256::new_with_prefix(b"tstar:control-key:v1:").chain_update(&self.secret);
        let fingerprint = HEXLOWER.encode(&hash.finalize()[..FINGERPRINT_BYTES]);
        NamedKey { name: self.name.clone(), fingerprint }
    }

    /// The signature of a claim, as header `tstar-signature` carries it.
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

/// A signature whose key is not known yet to be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Name of the key.
    pub key: String,
    code: [u8; 32],
}

impl Signature {
    /// Reads `NAME:HEX`; `None` where it is something else.
    #[must_use]
    pub fn parse(header: &[u8]) -> Option<Self> {
        let (name, code) = std::str::from_utf8(header).ok()?.split_once(':')?;
        let code = HEXLOWER.decode(code.as_bytes()).ok()?.try_into().ok()?;
        is_name(name).then(|| Self { key: name.to_owned(), code })
    }
}

/// Keys with their secrets, in the order of their file: the first one signs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlKeys(Vec<ControlKey>);

impl ControlKeys {
    /// Reads a key file: a key a line as `NAME:SECRET`, empty lines and comments (`#`) between.
    ///
    /// # Errors
    /// A line is not a key, or a name is there twice.
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

    /// The key that signs: the first one.
    #[must_use]
    pub fn signing(&self) -> Option<&ControlKey> {
        self.0.first()
    }

    /// The keys as a store names them.
    #[must_use]
    pub fn named(&self) -> Vec<NamedKey> {
        self.0.iter().map(ControlKey::named).collect()
    }

    /// Those of them that a store names: no other key counts.
    #[must_use]
    pub fn that_count(&self, named: &[NamedKey]) -> Self {
        Self(self.0.iter().filter(|key| named.contains(&key.named())).cloned().collect())
    }

    /// Whether nobody who lacks a key would decide otherwise: every key that a store names is here.
    ///
    /// # Errors
    /// What is missing, or other, with the next step.
    pub fn agree_with(&self, named: &[NamedKey], store: &str) -> Result<(), String> {
        let mine = self.named();
        let of_name = |name: &str| mine.iter().find(|key| key.name == name);
        let missing: Vec<_> =
            named.iter().filter(|key| of_name(&key.name).is_none()).map(quoted).collect();
        if !missing.is_empty() {
            return Err(format!(
                "store `{store}` names control keys that control_key_file lacks: {}; add them: \
                 without them control records of the log cannot be told from forged ones",
                missing.join(", ")
            ));
        }
        match named.iter().find(|key| of_name(&key.name) != Some(key)) {
            None => Ok(()),
            Some(key) => Err(format!(
                "control key {} of control_key_file has another secret than the one that store \
                 `{store}` names: fingerprint {}, the store's is {}; put that one back, and give \
                 a new key a new name",
                quoted(key),
                of_name(&key.name).map_or("none", |mine| &mine.fingerprint),
                key.fingerprint
            )),
        }
    }

    /// The key of a signature; `None` where there is none of its name.
    #[must_use]
    pub fn key_of(&self, signature: &Signature) -> Option<&ControlKey> {
        self.0.iter().find(|key| key.name == signature.key)
    }
}

impl ControlKey {
    /// Whether a signature is this key's, of this claim.
    #[must_use]
    pub fn verifies(&self, signature: &Signature, claim: &Claim<'_>) -> bool {
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
    // What can be read as both is hex: nobody writes 64 hex digits and means base64.
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
