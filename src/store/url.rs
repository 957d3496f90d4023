//! Store URLs: `sqlite:FILE` and `scylla://host:9042,host2/keyspace`.

use std::fmt;
use std::path::{Path, PathBuf};

use super::scylla::ScyllaUrl;
use crate::model::visible::without_credentials;

/// The port of a node that names none.
const PORT: u16 = 9042;

/// The longest name of a keyspace.
const LONGEST_KEYSPACE: usize = 48;

/// A store URL that was parsed.
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

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Address::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Address::Scylla(url) => url.fmt(f),
        }
    }
}

/// A store URL that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreUrlError {
    /// A path alone.
    #[error("`{url}` is not a store URL; for a file write sqlite:{url}")]
    Bare {
        /// What was given.
        url: String,
    },
    /// A scheme without a place.
    #[error("`{url}` names no file; write sqlite:trips.db")]
    Empty {
        /// What was given.
        url: String,
    },
    /// A Scylla store that cannot be.
    #[error("`{url}`: {problem}; write scylla://host:9042,host2/keyspace")]
    Scylla {
        /// What was given.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Another scheme.
    #[error(
        "`{url}`: stores of scheme `{scheme}` are not known; use sqlite:FILE or scylla://HOST/KEYSPACE"
    )]
    Unknown {
        /// What was given.
        url: String,
        /// Its scheme.
        scheme: String,
    },
}

impl StoreUrl {
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
    /// [`PlaceError`], which says what to write instead.
    pub fn parse(url: &str) -> Result<Self, StoreUrlError> {
        let owned = || without_credentials(url);
        let Some((scheme, place)) = url.split_once(':') else {
            return Err(StoreUrlError::Bare { url: owned() });
        };
        match scheme {
            "sqlite" if place.is_empty() => Err(StoreUrlError::Empty { url: owned() }),
            "sqlite" => Ok(Self(Address::Sqlite(place.into()))),
            "scylla" => match scylla(place) {
                Ok(place) => Ok(Self(Address::Scylla(place))),
                Err(problem) => Err(StoreUrlError::Scylla { url: owned(), problem }),
            },
            // A scheme has no slash: this is a path with a colon in it.
            _ if scheme.contains(['/', '.']) => Err(StoreUrlError::Bare { url: owned() }),
            _ => Err(StoreUrlError::Unknown { url: owned(), scheme: scheme.to_owned() }),
        }
    }
}

/// Reads `//host:port,host2/keyspace`.
fn scylla(place: &str) -> Result<ScyllaUrl, String> {
    let place = place.strip_prefix("//").ok_or("two slashes follow the scheme")?;
    if place.contains('@') {
        return Err("name and password do not belong in it, see cql_user".into());
    }
    let (nodes, keyspace) = place.split_once('/').ok_or("it names no keyspace")?;
    let rest_is_known = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_name = keyspace.starts_with(|c: char| c.is_ascii_alphabetic())
        && keyspace.len() <= LONGEST_KEYSPACE
        && keyspace.chars().all(rest_is_known);
    if !is_name {
        return Err(format!(
            "`{keyspace}` is not the name of a keyspace: a letter, then letters, digits and _, \
             {LONGEST_KEYSPACE} at most"
        ));
    }
    let nodes = nodes.split(',').map(node).collect::<Result<_, _>>()?;
    Ok(ScyllaUrl { nodes, keyspace: keyspace.to_owned() })
}

fn host_of(text: &str) -> Result<(), String> {
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_host = match bracketed {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
            !text.is_empty() && text.chars().all(is_known)
        }
    };
    if is_host { Ok(()) } else { Err(format!("`{text}` is not the name or address of a node")) }
}

/// `host:port` of a node. An IPv6 address stands in brackets.
fn node(text: &str) -> Result<String, String> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port),
        _ => return host_of(text).map(|()| format!("{text}:{PORT}")),
    };
    host_of(host)?;
    match port.parse::<u16>() {
        Ok(port) if port > 0 => Ok(text.to_owned()),
        _ => Err(format!("`{port}` is not a port")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_its_scheme() {
        assert_eq!(
            StoreUrl::parse("sqlite:a/b.db"),
            Ok(StoreUrl(Address::Sqlite("a/b.db".into())))
        );
        for (url, hint) in [
            ("trips.db", "write sqlite:trips.db"),
            ("./a:b.db", "write sqlite:./a:b.db"),
            ("", "not a store URL"),
            ("sqlite:", "names no file"),
            ("scylla:fleet", "two slashes follow"),
            ("scylla://localhost", "names no keyspace"),
            ("scylla://localhost/", "`` is not the name of a keyspace"),
            ("scylla://localhost/7up", "`7up` is not the name of a keyspace"),
            ("scylla://localhost/a-b", "write scylla://host:9042,host2/keyspace"),
            ("scylla://localhost/a/b", "`a/b` is not the name of a keyspace"),
            ("scylla:///fleet", "`` is not the name or address of a node"),
            ("scylla://a,,b/fleet", "`` is not the name or address of a node"),
            ("scylla://a:0/fleet", "`0` is not a port"),
            ("scylla://a:90420/fleet", "`90420` is not a port"),
            ("scylla://::1/fleet", "`:` is not the name or address of a node"),
            ("scylla://[::g]/fleet", "`[::g]` is not the name or address of a node"),
            ("scylla://me:secret@a/fleet", "see cql_user"),
            ("postgres://x", "scheme `postgres`"),
        ] {
            let error = StoreUrl::parse(url).unwrap_err().to_string();
            let shown = without_credentials(url);
            assert!(error.contains(hint) && error.contains(&format!("`{shown}`")), "{error}");
        }
    }

    #[test]
    fn a_password_in_a_url_is_not_told_again() {
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
    fn nodes_without_a_port_get_the_usual_one() {
        let long = "k".repeat(LONGEST_KEYSPACE);
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
            let place = ScyllaUrl { nodes, keyspace: keyspace.to_owned() };
            let read = StoreUrl::parse(url);
            assert_eq!(read, Ok(StoreUrl(Address::Scylla(place.clone()))));
            assert_eq!(StoreUrl::parse(&place.to_string()), read, "{place} is read back");
        }
        assert!(StoreUrl::parse(&format!("scylla://a/{long}k")).is_err());
    }
}
