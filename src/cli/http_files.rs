//! Files of the HTTP server that count without a restart when they change.

use std::path::Path;

use super::flags::Context;
use crate::http::{TokenSet, Tokens};
use crate::ops::PreconditionFailed;

/// Whether a file can be read more than once: a pipe, such as that of a shell's `<(...)`, cannot.
fn is_regular(path: &str) -> bool {
    Path::new(path).metadata().is_ok_and(|metadata| metadata.is_file())
}

/// The tokens of `token_file`.
///
/// # Errors
/// The file cannot be read, or holds no tokens.
pub fn tokens(path: &str, context: &Context) -> anyhow::Result<Tokens> {
    const KEY: &str = "token_file";
    let content = context.secret_text(KEY, path)?;
    let fixed = (!is_regular(path)).then(|| content.clone());
    let read = {
        let (path, context) = (path.to_owned(), context.clone());
        move || match &fixed {
            Some(content) => Ok(content.clone().into_bytes()),
            // Opening a pipe could wait for ever.
            None if !is_regular(&path) => Err(format!("{KEY} `{path}` is not a file any more")),
            None => context.secret(KEY, &path).map_err(|error| format!("{error:#}")),
        }
    };
    let parse = {
        let path = path.to_owned();
        move |content: &[u8]| {
            // The error of the conversion names no bytes.
            let text = std::str::from_utf8(content).map_err(|error| error.to_string());
            let tokens = text.and_then(TokenSet::parse);
            tokens.map_err(|error| {
                format!(
                    "{KEY} `{path}`: {error}; a line is NAME:RIGHTS:SECRET, or a secret alone; \
                     make one with: head -c 24 /dev/urandom | base64"
                )
            })
        }
    };
    let tokens = Tokens::new(KEY, content.as_bytes(), read, parse);
    tokens.map_err(|error| PreconditionFailed(error).into())
}
