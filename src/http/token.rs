//! The bearer token of a server.

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
