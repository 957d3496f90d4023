//! The token of a server, as programs bear it.

use axum::http::{HeaderMap, header};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// A secret that clients have to know. Hashes are compared, in constant time: neither the content
/// nor the length of the secret can be learnt from how long an answer takes.
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
    /// A token.
    #[must_use]
    pub fn new(secret: &str) -> Self {
        Self { hash: Sha256::digest(secret).into() }
    }

    /// Whether a secret is this one.
    #[must_use]
    pub fn is(&self, secret: &str) -> bool {
        let hash: [u8; 32] = Sha256::digest(secret).into();
        hash.ct_eq(&self.hash).into()
    }
}

/// What a request bears as its token, right or wrong.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, secret) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim())
}
