//! Where a server is.

use std::fmt::{self, Write as _};
use std::net::IpAddr;

/// Why a URL with a user or a password is refused. It is not shown: it may have a password.
pub(crate) const HAS_LOGIN: &str = "it has a login";

/// URL of a server, `http` or `https`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WebUrl {
    /// Whether connections use TLS.
    pub(super) is_secure: bool,
    /// Host and port as in the URL.
    pub(super) authority: String,
    /// Path and query, without a last `/`.
    pub(super) path: String,
}

impl WebUrl {
    /// Parses a URL such as `https://registry.example.com:8081/path`.
    ///
    /// # Errors
    /// Why it is not one; [`HAS_LOGIN`] if the message must not show it.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let (scheme, rest) = text.split_once("://").ok_or("it has no scheme")?;
        let is_secure = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err("its scheme is neither http nor https"),
        };
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(HAS_LOGIN);
        }
        if authority.is_empty() || text.contains(['#', ',']) {
            return Err("it is one host with a path at most");
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("it has characters that a URL cannot have");
        }
        let slash = if path.starts_with('?') { "/" } else { "" };
        let path = format!("{slash}{}", path.trim_end_matches('/'));
        Ok(Self { is_secure, authority: authority.to_owned(), path })
    }

    /// Whether others may read what is sent there: without TLS, and not to this machine.
    #[must_use]
    pub(crate) fn is_exposed(&self) -> bool {
        let host = self.host();
        let is_here = host.parse().map_or(host == "localhost", |host: IpAddr| host.is_loopback());
        !self.is_secure && !is_here
    }

    /// Whether it has a query.
    #[must_use]
    pub(crate) fn has_query(&self) -> bool {
        self.path.contains('?')
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

impl fmt::Display for WebUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path)
    }
}

/// Text as a part of a path, or as a value of a form.
#[must_use]
pub(crate) fn encoded(part: &str) -> String {
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
            ("https://a/token?p=x", "a", 443, "/token?p=x"),
            ("https://a?p=x/", "a", 443, "/?p=x"),
        ] {
            let url = WebUrl::parse(text).unwrap();
            assert_eq!((url.host(), url.port(), &*url.path), (host, Some(port), path), "{text}");
        }
        for (text, why) in [
            ("a:8081", "it has no scheme"),
            ("ftp://a", "its scheme is neither http nor https"),
            ("http://", "it is one host with a path at most"),
            ("http://a,http://b", "it is one host with a path at most"),
            ("http://a/ü", "it has characters that a URL cannot have"),
            ("http://user:secret@a", HAS_LOGIN),
        ] {
            assert_eq!(WebUrl::parse(text), Err(why), "{text}");
        }
    }

    #[test]
    fn what_is_sent_without_tls_to_other_machines_is_exposed() {
        for (text, expected) in [
            ("https://a", false),
            ("http://localhost:8081", false),
            ("http://127.0.0.1", false),
            ("http://127.8.8.8:1/x", false),
            ("http://[::1]:8081", false),
            ("http://a", true),
            ("http://localhost.example", true),
            ("http://10.0.0.1:8081", true),
            ("http://[::2]", true),
        ] {
            assert_eq!(WebUrl::parse(text).unwrap().is_exposed(), expected, "{text}");
        }
    }

    #[test]
    fn a_subject_is_one_part_of_a_path() {
        assert_eq!(encoded("a/b c-ü.v1"), "a%2Fb%20c-%C3%BC.v1");
    }
}
