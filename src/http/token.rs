//! The token of a server.

use axum::http::{HeaderMap, header};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// A secret that clients have to send. Its hash is compared in constant time, so response times
/// reveal neither the content nor the length of the secret.
#[derive(Clone)]
pub struct Token {
    hash: [u8; 32],
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Hashes the secret.
    #[must_use]
    pub fn new(secret: &str) -> Self {
        Self { hash: Sha256::digest(secret).into() }
    }

    /// Whether this is the secret.
    #[must_use]
    pub fn matches(&self, secret: &str) -> bool {
        let hash: [u8; 32] = Sha256::digest(secret).into();
        hash.ct_eq(&self.hash).into()
    }
}

/// The bearer token of a request, not checked yet.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, secret) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim())
}

/// The password of Basic authentication of a request, not checked yet.
pub fn basic_password(headers: &HeaderMap) -> Option<String> {
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
