//! Connections to other instances, with TLS where their address is `https`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

use crate::tls::{Connector, Stream};

/// Connects to an address.
#[derive(Clone, Debug)]
pub struct PeerConnector {
    /// `None`: instances whose address is `https` cannot be asked.
    tls: Option<Arc<Connector>>,
}

impl PeerConnector {
    /// Uses TLS where an address demands it.
    #[must_use]
    pub fn new(tls: Option<Connector>) -> Self {
        Self { tls: tls.map(Arc::new) }
    }

    async fn connect(self, uri: Uri) -> Result<TokioIo<Stream>, String> {
        let host = uri.host().ok_or("its address has no host")?;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let is_secure = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
        let stream = TcpStream::connect((bare, port)).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let stream = match (is_secure, &self.tls) {
            (false, _) => Stream::Plain(stream),
            (true, Some(tls)) => tls.connect(stream, host).await?,
            (true, None) => return Err("its address is https, which this instance lacks".into()),
        };
        Ok(TokioIo::new(stream))
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Service<Uri> for PeerConnector {
    type Response = TokioIo<Stream>;
    type Error = String;
    type Future = Pin<Box<dyn Future<Output = Result<TokioIo<Stream>, String>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), String>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}
