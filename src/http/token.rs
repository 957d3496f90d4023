//! A token of a server: a secret with a name and rights.

use std::fmt;

use axum::http::{HeaderMap, header};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// What a route requires of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Reads trips, devices, changes and metrics.
    Read,
    /// Adds samples, sets and removes tags.
    Write,
}

impl Right {
    /// All rights.
    const ALL: [Self; 2] = [Self::Read, Self::Write];

    /// Its name in a token file.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["read", "write"][self as usize]
    }
}

/// The rights of a token, a bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights(u8);

impl Rights {
    /// Parses names, separated by commas; `None` if one is unknown or repeated.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut held = Self(0);
        for name in text.split(',') {
            let right = Right::ALL.into_iter().find(|right| right.name() == name.trim())?;
            if held.has(right) {
                return None;
            }
            held.0 |= 1 << right as u8;
        }
        Some(held)
    }

    /// Whether the right is one of them.
    #[must_use]
    pub fn has(self, right: Right) -> bool {
        self.0 & 1 << right as u8 != 0
    }
}

/// Identifies a token by its secret, and reveals nothing of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenKey([u8; 32]);

impl TokenKey {
    /// The key of a secret.
    #[must_use]
    pub(crate) fn of_secret(secret: &str) -> Self {
        Self(Sha256::digest(secret).into())
    }
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenKey")
    }
}

impl ConstantTimeEq for TokenKey {
    fn ct_eq(&self, other: &Self) -> subtle::Choice {
        self.0.ct_eq(&other.0)
    }
}

/// A secret that clients have to send, by its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    name: String,
    rights: Rights,
    key: TokenKey,
}

impl Token {
    /// Hashes the secret.
    #[must_use]
    pub fn new(name: &str, rights: Rights, secret: &str) -> Self {
        Self { name: name.to_owned(), rights, key: TokenKey::of_secret(secret) }
    }

    /// Name of the token, for lists and logs.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the token permits.
    #[must_use]
    pub fn rights(&self) -> Rights {
        self.rights
    }

    /// Identifies the token.
    #[must_use]
    pub fn key(&self) -> TokenKey {
        self.key
    }
}

/// The bearer token of a request, not checked yet.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, secret) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim())
}

/// The password of Basic authentication of a request, not checked yet.
pub(crate) fn basic_password(headers: &HeaderMap) -> Option<String> {
    let (scheme, encoded) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = data_encoding::BASE64.decode(encoded.trim().as_bytes()).ok()?;
    let (_, password) = std::str::from_utf8(&decoded).ok()?.split_once(':')?;
    Some(password.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_names_that_are_given_once() {
        let [read, write] = ["read", "write"].map(|text| Rights::parse(text).unwrap());
        assert!(read.has(Right::Read) && !read.has(Right::Write));
        assert!(write.has(Right::Write) && !write.has(Right::Read));
        for both in ["read,write", "write, read"] {
            assert_eq!(Rights::parse(both), Some(Rights(3)), "{both}");
        }
        for wrong in ["", "Read", "read,", "read,read", "admin", "read write"] {
            assert_eq!(Rights::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_printed_of_a_token_has_no_part_of_its_secret() {
        let token = Token::new("ops", Rights(3), "correct-horse-battery");
        let shown = format!("{token:?}");
        assert!(shown.contains("ops") && shown.contains("TokenKey"), "{shown}");
        assert!(!shown.contains("horse") && !shown.contains('['), "{shown}");
    }

    #[test]
    fn the_password_follows_the_first_colon() {
        let password = |value: &'static str| {
            let value = header::HeaderValue::from_static(value);
            basic_password(&[(header::AUTHORIZATION, value)].into_iter().collect())
        };
        // RFC 7617: `Aladdin:open sesame`, and `test:123` with a pound sign in UTF-8.
        let aladdin = Some("open sesame".to_owned());
        assert_eq!(password("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="), aladdin);
        assert_eq!(password("bAsIc dGVzdDoxMjPCow=="), Some("123\u{a3}".to_owned()));
        // `a:b:c` and `:`.
        assert_eq!(password("Basic YTpiOmM="), Some("b:c".to_owned()));
        assert_eq!(password("Basic Og=="), Some(String::new()));
        // `abc`, not base64, not UTF-8, another scheme.
        for none in ["Basic YWJj", "Basic !", "Basic Ov8=", "Bearer Og==", "Basic", ""] {
            assert_eq!(password(none), None, "{none}");
        }
    }
}
