//! A client of HTTP servers: a schema registry, and an issuer of tokens for brokers.
//!
//! | module | content |
//! |---|---|
//! | `url` | where a server is |
//! | `client` | one request: bounded in time and size |
//! | `tls` | connections over TLS, with the cargo feature `tls` |

mod client;
mod tls;
mod url;

pub use client::{Client, ClientOptions, Response};
pub use url::{HAS_LOGIN, WebUrl, encoded};
