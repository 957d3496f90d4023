//! Where a registry is, and how it is asked to let us in.

use std::fmt::{self, Write as _};

use data_encoding::BASE64;
use hyper::header::HeaderValue;

/// URL of a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryUrl {
    /// Whether connections use TLS.
    pub(super) is_secure: bool,
    /// Host and port as in the URL.
    pub(super) authority: String,
    /// Path before those of the API, without a last `/`.
    pub(super) path: String,
}

impl RegistryUrl {
    /// Parses a URL such as `https://registry.example.com:8081/path`.
    ///
    /// # Errors
    /// It is not the URL of a registry.
    pub fn parse(text: &str) -> Result<Self, String> {
        let invalid = |problem: &str| {
            format!("`{text}` is not a valid URL of a registry: {problem}; write http://HOST:8081")
        };
        let (scheme, rest) = text.split_once("://").ok_or_else(|| invalid("it has no scheme"))?;
        let is_secure = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(invalid("its scheme is neither http nor https")),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') {
            // Not shown: it may be a password.
            return Err("a registry's URL has no login; name its file with \
                        schema_registry_auth_file"
                .into());
        }
        if authority.is_empty() || text.contains(['?', '#', ',']) {
            return Err(invalid("it is one host with a path at most"));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(invalid("it has characters that a URL cannot have"));
        }
        let (authority, path) = (authority.to_owned(), path.trim_end_matches('/').to_owned());
        Ok(Self { is_secure, authority, path })
    }

    /// Host, without the brackets of an IPv6 address.
    pub(super) fn host(&self) -> &str {
        let host = match self.authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => host,
            _ => &self.authority,
        };
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// Port, by the scheme if the URL has none; `None` if it is not a number.
    pub(super) fn port(&self) -> Option<u16> {
        match self.authority.rsplit_once(':') {
            Some((_, port)) if !port.ends_with(']') => port.parse().ok(),
            _ => Some(if self.is_secure { 443 } else { 80 }),
        }
    }
}

impl fmt::Display for RegistryUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path)
    }
}

/// A login, as the header that carries it.
#[derive(Clone)]
pub struct Credentials(pub(super) HeaderValue);

impl Credentials {
    /// Reads the content of a file: `user:password`, or a token.
    ///
    /// # Errors
    /// It is neither.
    pub fn parse(content: &str) -> Result<Self, String> {
        let line = content.trim_end_matches(['\r', '\n']);
        if line.is_empty() || line.contains(['\r', '\n']) {
            return Err("it is not one line with user:password, or with a token".into());
        }
        let text = if line.contains(':') {
            format!("Basic {}", BASE64.encode(line.as_bytes()))
        } else {
            format!("Bearer {line}")
        };
        let value = HeaderValue::try_from(text);
        let mut value = value.map_err(|_| "its token has characters that no header can have")?;
        value.set_sensitive(true);
        Ok(Self(value))
    }
}

/// A part of a path.
pub(super) fn encoded(part: &str) -> String {
    let mut text = String::with_capacity(part.len());
    for byte in part.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(byte));
            }
            _ => write!(text, "%{byte:02X}").expect("a text takes every text"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_host_a_port_and_a_path() {
        for (text, host, port, path) in [
            ("http://a", "a", 80, ""),
            ("https://a/", "a", 443, ""),
            ("http://a.example:8081/b/c/", "a.example", 8081, "/b/c"),
            ("http://[::1]:8081", "::1", 8081, ""),
            ("http://[::1]/x", "::1", 80, "/x"),
        ] {
            let url = RegistryUrl::parse(text).unwrap();
            assert_eq!((url.host(), url.port(), &*url.path), (host, Some(port), path), "{text}");
            assert_eq!(url.to_string(), text.trim_end_matches('/'));
        }
        for (text, why) in [
            ("a:8081", "no scheme"),
            ("ftp://a", "neither http nor https"),
            ("http://", "one host"),
            ("http://a,http://b", "one host"),
            ("http://a?x=1", "one host"),
            ("http://a/ü", "characters"),
            ("http://user:secret@a", "has no login"),
        ] {
            let problem = RegistryUrl::parse(text).unwrap_err();
            assert!(problem.contains(why) && !problem.contains("secret"), "{problem}");
        }
    }

    #[test]
    fn a_login_is_a_password_or_a_token() {
        let header = |content: &str| Credentials::parse(content).map(|it| it.0);
        assert_eq!(header("ann:s:t\n").unwrap(), "Basic YW5uOnM6dA==");
        assert_eq!(header("abc\r\n").unwrap(), "Bearer abc");
        for content in ["", "\n", "a\nb", "a\u{1}"] {
            assert!(header(content).is_err(), "{content:?}");
        }
    }

    #[test]
    fn a_subject_is_one_part_of_a_path() {
        assert_eq!(encoded("a/b c-ü.v1"), "a%2Fb%20c-%C3%BC.v1");
    }
}
