//! Where a registry is, and how it is asked to let us in.

use std::fmt;

use data_encoding::BASE64;
use hyper::header::HeaderValue;

use crate::web::{HAS_LOGIN, WebUrl};

/// URL of a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryUrl(pub(super) WebUrl);

impl RegistryUrl {
    /// Parses a URL such as `https://registry.example.com:8081/path`.
    ///
    /// # Errors
    /// It is not the URL of a registry.
    pub fn parse(text: &str) -> Result<Self, String> {
        let invalid = |problem: &str| {
            format!("`{text}` is not a valid URL of a registry: {problem}; write http://HOST:8081")
        };
        match WebUrl::parse(text) {
            Ok(url) if url.has_query() => Err(invalid("it is one host with a path at most")),
            Ok(url) => Ok(Self(url)),
            Err(HAS_LOGIN) => Err("a registry's URL has no login; name its file with \
                                   schema_registry_auth_file"
                .into()),
            Err(problem) => Err(invalid(problem)),
        }
    }

    /// Whether others may read a login on its way there.
    #[must_use]
    pub(crate) fn is_exposed(&self) -> bool {
        self.0.is_exposed()
    }
}

impl fmt::Display for RegistryUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_of_a_registry_has_neither_query_nor_login() {
        for text in ["http://a", "https://a.example:8081/b/c"] {
            assert_eq!(RegistryUrl::parse(text).unwrap().to_string(), text);
        }
        for (text, why) in [
            ("a:8081", "no scheme"),
            ("http://a?x=1", "one host"),
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
}
