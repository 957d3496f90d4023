//! Who may ask: one token, by header or by the cookie of a login.

use axum::http::{HeaderMap, header};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Name of the cookie that a login sets.
pub const COOKIE: &str = "tstar";

/// How long a login holds, s.
pub const COOKIE_LIFE_S: u64 = 30 * 24 * 3600;

/// A secret that clients have to know. Hashes are compared, in constant time: neither the content
/// nor the length of the secret can be learnt from how long an answer takes.
#[derive(Clone)]
pub struct Token {
    hash: [u8; 32],
    cookie: String,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

fn hash(parts: &[&str]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize().into()
}

fn same(one: &[u8; 32], other: &[u8; 32]) -> bool {
    one.ct_eq(other).into()
}

impl Token {
    /// A token; the cookie is made of it, so that it holds for every instance and goes with it.
    #[must_use]
    pub fn new(secret: &str) -> Self {
        let cookie = hash(&["tstar:cookie:v1:", secret]);
        let cookie = data_encoding::HEXLOWER.encode(&cookie);
        Self { hash: hash(&[secret]), cookie }
    }

    /// Whether a secret is this one.
    #[must_use]
    pub fn is(&self, secret: &str) -> bool {
        same(&hash(&[secret]), &self.hash)
    }

    /// The `Set-Cookie` of a login. A script cannot read it, and no other site's request bears it.
    #[must_use]
    pub fn set_cookie(&self) -> String {
        let cookie = &self.cookie;
        format!("{COOKIE}={cookie}; HttpOnly; SameSite=Strict; Path=/; Max-Age={COOKIE_LIFE_S}")
    }

    /// Whether a request bears it.
    #[must_use]
    pub fn is_borne_by(&self, headers: &HeaderMap) -> bool {
        let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer = bearer.and_then(|value| value.split_once(' '));
        let bearer = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        if let Some((_, secret)) = bearer {
            return self.is(secret.trim());
        }
        let cookies = headers.get_all(header::COOKIE).into_iter().filter_map(|it| it.to_str().ok());
        let mut pairs =
            cookies.flat_map(|text| text.split(';')).filter_map(|it| it.split_once('='));
        let expected = hash(&[&self.cookie]);
        pairs.any(|(name, value)| name.trim() == COOKIE && same(&hash(&[value.trim()]), &expected))
    }
}
