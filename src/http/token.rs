//! The token of a server.

use axum::http::{HeaderMap, header};
use hmac::{Hmac, Mac as _};
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

/// How far the clocks of two instances may be apart, ms.
const MAX_SKEW_MS: u64 = 60_000;

/// Scheme of the `Authorization` header of a signed request.
const SIGNED: &str = "Tstar ";

impl Token {
    fn mac(&self, body: &[u8], time_ms: i64) -> Hmac<Sha256> {
        let mut mac = Hmac::new_from_slice(&self.hash).expect("a key may have any length");
        mac.update(b"tstar question\n");
        mac.update(&time_ms.to_be_bytes());
        mac.update(body);
        mac
    }

    /// The `Authorization` header of a body that an instance with this token sends to another one.
    pub(super) fn sign(&self, body: &[u8], now_ms: i64) -> String {
        let mac = self.mac(body, now_ms).finalize().into_bytes();
        format!("{SIGNED}{now_ms}:{}", data_encoding::HEXLOWER.encode(&mac))
    }

    /// Whether an instance with this token has signed a body, not long ago.
    pub(super) fn signed(&self, headers: &HeaderMap, body: &[u8], now_ms: i64) -> bool {
        let given = headers.get(header::AUTHORIZATION).and_then(|it| it.to_str().ok());
        let given = given.and_then(|it| it.strip_prefix(SIGNED)?.split_once(':'));
        let Some((time, mac)) = given else { return false };
        let (Ok(time_ms), Ok(mac)) =
            (time.parse::<i64>(), data_encoding::HEXLOWER.decode(mac.as_bytes()))
        else {
            return false;
        };
        let is_recent = now_ms.abs_diff(time_ms) <= MAX_SKEW_MS;
        is_recent && self.mac(body, time_ms).verify_slice(&mac).is_ok()
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
    fn a_signature_is_of_one_body_token_and_minute() {
        let (token, other) = (Token::new("a token of letters"), Token::new("another of letters"));
        let is_signed = |by: &Token, body: &[u8], now_ms: i64, header: &str| {
            let value = header::HeaderValue::from_str(header).unwrap();
            by.signed(&[(header::AUTHORIZATION, value)].into_iter().collect(), body, now_ms)
        };
        let header = token.sign(b"question", 1_000_000);
        assert!(is_signed(&token, b"question", 1_000_000, &header));
        assert!(is_signed(&token, b"question", 1_060_000, &header));
        assert!(is_signed(&token, b"question", 940_000, &header));
        assert!(!is_signed(&token, b"question", 1_060_001, &header));
        assert!(!is_signed(&token, b"question", i64::MIN, &header));
        assert!(!is_signed(&token, b"questions", 1_000_000, &header));
        assert!(!is_signed(&other, b"question", 1_000_000, &header));
        let later = header.replace("1000000:", "1000001:");
        assert!(!is_signed(&token, b"question", 1_000_000, &later));
        let cut = &header[..header.len() - 2];
        for wrong in [cut, "Tstar 1000000:", "Tstar 1000000", "Bearer a token of letters"] {
            assert!(!is_signed(&token, b"question", 1_000_000, wrong), "{wrong}");
        }
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
