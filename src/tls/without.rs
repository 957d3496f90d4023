//! A build without TLS.

use tokio::net::TcpStream;

use super::{Authorities, Stream};

const REASON: &str = "this program was built without TLS";

/// Cannot be created in this build.
#[derive(Debug)]
pub(crate) enum Connector {}

impl Connector {
    /// Fails.
    ///
    /// # Errors
    /// Always.
    pub(crate) fn new(_: Authorities<'_>) -> Result<Self, String> {
        Err("https needs TLS, which this build lacks; build without `--no-default-features`, or use http if the network is trusted".into())
    }

    /// Cannot be called.
    ///
    /// # Errors
    /// Never.
    pub(crate) async fn connect(&self, _: TcpStream, _: &str) -> Result<Stream, String> {
        match *self {}
    }
}

/// Cannot be created in this build.
#[derive(Debug)]
pub enum Acceptor {}

impl Acceptor {
    /// Fails.
    ///
    /// # Errors
    /// Always.
    pub fn new(_: &[u8], _: &[u8]) -> Result<Self, String> {
        Err(REASON.into())
    }

    /// Cannot be called.
    #[must_use]
    pub(crate) fn expires_s(&self) -> i64 {
        match *self {}
    }

    /// Cannot be called.
    ///
    /// # Errors
    /// Never.
    pub async fn accept(&self, _: TcpStream) -> Result<Stream, String> {
        match *self {}
    }
}
