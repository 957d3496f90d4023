//! Where a store is, as a URL says it.

use std::path::PathBuf;

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorePlace {
    /// An SQLite file.
    Sqlite(PathBuf),
}

/// A store URL that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
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
    /// A Scylla store.
    #[error("`{url}`: this build has no Scylla store; use sqlite:FILE")]
    Scylla {
        /// What was given.
        url: String,
    },
    /// Another scheme.
    #[error("`{url}`: stores of scheme `{scheme}` are not known; use sqlite:FILE")]
    Unknown {
        /// What was given.
        url: String,
        /// Its scheme.
        scheme: String,
    },
}

impl StorePlace {
    /// Reads a store URL.
    ///
    /// # Errors
    /// [`PlaceError`], which says what to write instead.
    pub fn parse(url: &str) -> Result<Self, PlaceError> {
        let owned = || url.to_owned();
        let Some((scheme, place)) = url.split_once(':') else {
            return Err(PlaceError::Bare { url: owned() });
        };
        match scheme {
            "sqlite" if place.is_empty() => Err(PlaceError::Empty { url: owned() }),
            "sqlite" => Ok(Self::Sqlite(place.into())),
            "scylla" => Err(PlaceError::Scylla { url: owned() }),
            // A scheme has no slash: this is a path with a colon in it.
            _ if scheme.contains(['/', '.']) => Err(PlaceError::Bare { url: owned() }),
            _ => Err(PlaceError::Unknown { url: owned(), scheme: scheme.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_its_scheme() {
        assert_eq!(StorePlace::parse("sqlite:a/b.db"), Ok(StorePlace::Sqlite("a/b.db".into())));
        for (url, hint) in [
            ("trips.db", "write sqlite:trips.db"),
            ("./a:b.db", "write sqlite:./a:b.db"),
            ("", "not a store URL"),
            ("sqlite:", "names no file"),
            ("scylla://localhost:9042/fleet", "this build has no Scylla store"),
            ("postgres://x", "scheme `postgres`"),
        ] {
            let error = StorePlace::parse(url).unwrap_err().to_string();
            assert!(error.contains(hint) && error.contains(&format!("`{url}`")), "{error}");
        }
    }
}
