//! Store URLs: `sqlite:FILE` and `scylla://host:9042,host2/keyspace`. As other programs have it,
//! `sqlite://FILE` is the same file, and `sqlite:///FILE` begins at the root.

use std::fmt;
use std::path::{Path, PathBuf};

use super::scylla::ScyllaUrl;
use crate::model::visible::without_credentials;

/// Port of a node if the URL names none.
const DEFAULT_PORT: u16 = 9042;

/// Maximum length of a keyspace name.
const MAX_KEYSPACE_LENGTH: usize = 48;

/// A parsed store URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreUrl(pub(super) Address);

/// One variant for each kind of store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// An SQLite file.
    Sqlite(PathBuf),
    /// A keyspace in Scylla or Cassandra.
    Scylla(ScyllaUrl),
}

/// The URLs of all kinds of stores, for help and messages.
macro_rules! url_forms {
    () => {
        "sqlite:FILE or scylla://HOST/KEYSPACE"
    };
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Address::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Address::Scylla(url) => url.fmt(f),
        }
    }
}

/// Why a store URL is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreUrlError {
    /// A path without a scheme.
    #[error("`{url}` is not a store URL; for a file write sqlite:{url}")]
    Bare {
        /// The given URL, without credentials.
        url: String,
    },
    /// A scheme without a file.
    #[error("`{url}` names no file; write sqlite:trips.db")]
    Empty {
        /// The given URL, without credentials.
        url: String,
    },
    /// The nodes or the keyspace are not valid.
    #[error("`{url}`: {problem}; write scylla://host:9042,host2/keyspace")]
    Scylla {
        /// The given URL, without credentials.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// An unknown scheme.
    #[error("`{url}` has the unknown scheme `{scheme}`; use {}", url_forms!())]
    Unknown {
        /// The given URL, without credentials.
        url: String,
        /// Its scheme.
        scheme: String,
    },
}

impl StoreUrl {
    /// What a store URL is, in one line.
    pub const HELP: &str = concat!("Store URL: ", url_forms!());

    /// File of an embedded store; `None` for a store on servers.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            Address::Sqlite(path) => Some(path),
            Address::Scylla(_) => None,
        }
    }

    /// Parses a store URL.
    ///
    /// # Errors
    /// [`StoreUrlError`]; its message says what to write instead.
    pub fn parse(url: &str) -> Result<Self, StoreUrlError> {
        let shown_url = || without_credentials(url);
        let Some((scheme, rest)) = url.split_once(':') else {
            return Err(StoreUrlError::Bare { url: shown_url() });
        };
        match scheme {
            "sqlite" => match rest.strip_prefix("//").unwrap_or(rest) {
                file if file.is_empty() || file.ends_with('/') => {
                    Err(StoreUrlError::Empty { url: shown_url() })
                }
                file => Ok(Self(Address::Sqlite(file.into()))),
            },
            "scylla" => match parse_scylla(rest) {
                Ok(address) => Ok(Self(Address::Scylla(address))),
                Err(problem) => Err(StoreUrlError::Scylla { url: shown_url(), problem }),
            },
            // A scheme has no slash, so this is a path that contains a colon.
            _ if scheme.contains(['/', '.']) => Err(StoreUrlError::Bare { url: shown_url() }),
            _ => Err(StoreUrlError::Unknown { url: shown_url(), scheme: scheme.to_owned() }),
        }
    }
}

/// Parses `//host:port,host2/keyspace`.
fn parse_scylla(text: &str) -> Result<ScyllaUrl, String> {
    let text = text.strip_prefix("//").ok_or("`//` must follow the scheme")?;
    if text.contains('@') {
        return Err("it must not contain a name or a password, see cql_user".into());
    }
    let (nodes, keyspace) = text.split_once('/').ok_or("it names no keyspace")?;
    let rest_is_known = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_name = keyspace.starts_with(|c: char| c.is_ascii_alphabetic())
        && keyspace.len() <= MAX_KEYSPACE_LENGTH
        && keyspace.chars().all(rest_is_known);
    if !is_name {
        return Err(format!(
            "`{keyspace}` is not a valid keyspace name: a letter, then letters, digits or _, \
             at most {MAX_KEYSPACE_LENGTH}"
        ));
    }
    let nodes = nodes.split(',').map(parse_node).collect::<Result<_, _>>()?;
    Ok(ScyllaUrl { nodes, keyspace: keyspace.to_owned() })
}

fn check_host(text: &str) -> Result<(), String> {
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_host = match bracketed {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
            !text.is_empty() && text.chars().all(is_known)
        }
    };
    if is_host { Ok(()) } else { Err(format!("`{text}` is not a valid host name or address")) }
}

/// Adds the default port to a node without one. An IPv6 address must be in brackets.
fn parse_node(text: &str) -> Result<String, String> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port),
        _ => return check_host(text).map(|()| format!("{text}:{DEFAULT_PORT}")),
    };
    check_host(host)?;
    match port.parse::<u16>() {
        Ok(port) if port > 0 => Ok(text.to_owned()),
        _ => Err(format!("`{port}` is not a valid port")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_its_scheme() {
        for (url, file) in [
            ("sqlite:a/b.db", "a/b.db"),
            ("sqlite:/a/b.db", "/a/b.db"),
            ("sqlite://trips.db", "trips.db"),
            ("sqlite://./a/b.db", "./a/b.db"),
            ("sqlite:///a/b.db", "/a/b.db"),
        ] {
            let read = StoreUrl::parse(url).unwrap();
            assert_eq!(read.path(), Some(Path::new(file)), "{url}");
            assert_eq!(StoreUrl::parse(&read.to_string()), Ok(read), "{url}");
        }
        for (url, hint) in [
            ("trips.db", "write sqlite:trips.db"),
            ("./a:b.db", "write sqlite:./a:b.db"),
            ("", "not a store URL"),
            ("sqlite:", "names no file"),
            ("sqlite://", "names no file"),
            ("sqlite:///", "names no file"),
            ("sqlite://data/", "names no file"),
            ("scylla:fleet", "`//` must follow"),
            ("scylla://localhost", "names no keyspace"),
            ("scylla://localhost/", "`` is not a valid keyspace name"),
            ("scylla://localhost/7up", "`7up` is not a valid keyspace name"),
            ("scylla://localhost/a-b", "write scylla://host:9042,host2/keyspace"),
            ("scylla://localhost/a/b", "`a/b` is not a valid keyspace name"),
            ("scylla:///fleet", "`` is not a valid host name or address"),
            ("scylla://a,,b/fleet", "`` is not a valid host name or address"),
            ("scylla://a:0/fleet", "`0` is not a valid port"),
            ("scylla://a:90420/fleet", "`90420` is not a valid port"),
            ("scylla://::1/fleet", "`:` is not a valid host name or address"),
            ("scylla://[::g]/fleet", "`[::g]` is not a valid host name or address"),
            ("scylla://me:secret@a/fleet", "see cql_user"),
            ("postgres://x", "scheme `postgres`"),
        ] {
            let error = StoreUrl::parse(url).unwrap_err().to_string();
            let shown = without_credentials(url);
            assert!(error.contains(hint) && error.contains(&format!("`{shown}`")), "{error}");
        }
    }

    #[test]
    fn errors_do_not_show_the_password_of_a_url() {
        for (url, shown) in [
            ("scylla://me:secret@a/fleet", "scylla://(not shown)@a/fleet"),
            ("scylla://me:sec/r@et@a/fleet", "scylla://(not shown)@a/fleet"),
            ("postgres://me:secret@a", "postgres://(not shown)@a"),
            ("me:secret@a/fleet", "me:(not shown)@a/fleet"),
        ] {
            let error = StoreUrl::parse(url).unwrap_err().to_string();
            assert!(error.contains(shown) && !error.contains("sec"), "{error}");
        }
    }

    #[test]
    fn nodes_without_a_port_get_the_default_one() {
        let long = "k".repeat(MAX_KEYSPACE_LENGTH);
        for (url, nodes, keyspace) in [
            ("scylla://localhost/fleet", vec!["localhost:9042"], "fleet"),
            (
                "scylla://a:19042,b.c-d_e,10.0.0.7/Fleet_2",
                vec!["a:19042", "b.c-d_e:9042", "10.0.0.7:9042"],
                "Fleet_2",
            ),
            ("scylla://[::1],[fe80::1]:1/f", vec!["[::1]:9042", "[fe80::1]:1"], "f"),
            (&format!("scylla://a/{long}"), vec!["a:9042"], &long),
        ] {
            let nodes = nodes.into_iter().map(str::to_owned).collect();
            let address = ScyllaUrl { nodes, keyspace: keyspace.to_owned() };
            let read = StoreUrl::parse(url);
            assert_eq!(read, Ok(StoreUrl(Address::Scylla(address.clone()))));
            assert_eq!(StoreUrl::parse(&address.to_string()), read, "{address}");
        }
        assert!(StoreUrl::parse(&format!("scylla://a/{long}k")).is_err());
    }
}
