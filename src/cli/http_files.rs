//! Files of the HTTP server that count without a restart when they change.

use std::path::Path;

use anyhow::Context as _;

use crate::http::{Basemap, Tls, TokenSet, Tokens};
use crate::ops::PreconditionFailed;
use crate::settings::Settings;
use crate::tls::{self, Acceptor};

/// Whether a file can be read more than once: a pipe, such as that of a shell's `<(...)`, cannot.
fn is_regular(path: &str) -> bool {
    Path::new(path).metadata().is_ok_and(|metadata| metadata.is_file())
}

/// The tokens of `token_file`.
///
/// # Errors
/// The file cannot be read, or holds no tokens.
pub(crate) fn tokens(path: &str, settings: &Settings) -> anyhow::Result<Tokens> {
    const KEY: &str = "token_file";
    let content = settings.secret_text(KEY, path)?;
    let fixed = (!is_regular(path)).then(|| content.clone());
    let read = {
        let (path, settings) = (path.to_owned(), settings.clone());
        move || match &fixed {
            Some(content) => Ok(content.clone().into_bytes()),
            // Opening a pipe could wait for ever.
            None if !is_regular(&path) => Err(format!("{KEY} `{path}` is not a file any more")),
            None => settings.secret(KEY, &path).map_err(|error| format!("{error:#}")),
        }
    };
    let problem = {
        let path = path.to_owned();
        move |error: &str| {
            format!(
                "{KEY} `{path}`: {error}; a line is NAME:RIGHTS:SECRET; make a secret with: \
                 head -c 24 /dev/urandom | base64"
            )
        }
    };
    let parse = {
        let problem = problem.clone();
        move |content: &[u8]| {
            // The error of the conversion names no bytes.
            let text = std::str::from_utf8(content).map_err(|error| error.to_string());
            text.and_then(TokenSet::parse).map_err(|error| problem(&error))
        }
    };
    let tokens = Tokens::new(KEY, content.as_bytes(), read, parse).map_err(PreconditionFailed)?;
    // Emptied later, it revokes all tokens.
    match tokens.current().is_empty() {
        true => Err(PreconditionFailed(problem("it has no line with a token")).into()),
        false => Ok(tokens),
    }
}

/// Certificate chain and private key of the server, as one content.
fn join(chain: &[u8], key: &[u8]) -> Vec<u8> {
    [&(chain.len() as u64).to_be_bytes(), chain, key].concat()
}

fn split(content: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = content.split_first_chunk::<8>()?;
    rest.split_at_checked(usize::try_from(u64::from_be_bytes(*length)).ok()?)
}

/// The certificate of the server; `None` if none is set.
///
/// # Errors
/// The files cannot be read or used, or the program was built without TLS.
pub(crate) fn certificate(settings: &Settings) -> anyhow::Result<Option<Tls>> {
    let http = &settings.http;
    if http.tls_cert.is_empty() {
        return Ok(None);
    }
    if !tls::IS_BUILT {
        let problem = "tls_cert is set, but this program was built without TLS; build it without \
                       `--no-default-features`, or let a proxy in front add TLS";
        return Err(PreconditionFailed(problem.into()).into());
    }
    let read = {
        let settings = settings.clone();
        move || -> anyhow::Result<Vec<u8>> {
            let (chain, key) = (&settings.http.tls_cert, &settings.http.tls_key);
            let read = std::fs::read(chain);
            let read = read.with_context(|| format!("tls_cert `{chain}` cannot be read"))?;
            Ok(join(&read, &settings.secret("tls_key", key)?))
        }
    };
    let content = read()?;
    let files = format!("tls_cert `{}`, tls_key `{}`", http.tls_cert, http.tls_key);
    let parse = move |content: &[u8]| {
        let (chain, key) = split(content).ok_or("they are not read completely")?;
        Acceptor::new(chain, key).map_err(|error| format!("{files}: {error}"))
    };
    // Pipes have one reading.
    let is_fixed = !is_regular(&http.tls_cert) || !is_regular(&http.tls_key);
    let fixed = is_fixed.then(|| content.clone());
    let read_again = move || match &fixed {
        Some(content) => Ok(content.clone()),
        None => read().map_err(|error| format!("{error:#}")),
    };
    let certificate = Tls::new("tls_cert", &content, read_again, parse);
    Ok(Some(certificate.map_err(PreconditionFailed)?))
}

/// The base map of the page; `None` if none is set.
///
/// # Errors
/// The file cannot be read, or the page could not read it.
pub(crate) fn basemap(settings: &Settings) -> anyhow::Result<Option<Basemap>> {
    let path = &settings.http.basemap;
    if path.is_empty() {
        return Ok(None);
    }
    let basemap = Basemap::new(path).map_err(|error| format!("basemap `{path}`: {error}"));
    Ok(Some(basemap.map_err(PreconditionFailed)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chain_and_key_are_one_content_and_two_again() {
        for (chain, key) in [("chain", "key"), ("", "key"), ("chain", "")] {
            let content = join(chain.as_bytes(), key.as_bytes());
            assert_eq!(split(&content), Some((chain.as_bytes(), key.as_bytes())));
        }
        assert_eq!(split(b"short"), None);
        assert_eq!(split(&join(b"chain", b"")[..10]), None);
        // What moves from one to the other is another content.
        assert_ne!(join(b"ab", b"c"), join(b"a", b"bc"));
    }

    #[test]
    fn a_file_that_becomes_a_pipe_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        std::fs::write(&path, "maps:read:token-of-the-maps").unwrap();
        let tokens = tokens(path.to_str().unwrap(), &Settings::default()).unwrap();
        std::fs::remove_file(&path).unwrap();
        // A folder is not a file, either, and needs no other program.
        std::fs::create_dir(&path).unwrap();
        assert!(!tokens.check() && !tokens.check());
        assert!(tokens.current().find("token-of-the-maps").is_some());
    }
}
