//! A client of HTTP servers: a schema registry, and an issuer of tokens for brokers.
//!
//! | module | content |
//! |---|---|
//! | `url` | where a server is |
//! | `client` | one request: bounded in time and size |

mod client;
mod url;

pub(crate) use client::{ClientOptions, Response};

pub(crate) use client::Client;
pub(crate) use url::encoded;
pub(crate) use url::{HAS_LOGIN, WebUrl};
