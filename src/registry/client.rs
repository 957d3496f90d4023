//! One request to a registry, bounded in time and size. hyper serves the HTTP API of this program,
//! so its client half adds no dependency.

use std::error::Error;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header;
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::tls::Layer;
use super::url::{Credentials, RegistryUrl};

/// Maximum size of a response, bytes: a schema at its maximum, escaped in JSON.
const MAX_RESPONSE_BYTES: usize = 4 << 20;

/// The types of responses of the API.
const ACCEPT: &str = "application/vnd.schemaregistry.v1+json, application/json";

/// The type of what is sent.
const CONTENT_TYPE: &str = "application/vnd.schemaregistry.v1+json";

/// A response of the registry.
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) body: Bytes,
}

/// Sends requests, each on a connection of its own: they are few.
pub(super) struct Client {
    url: RegistryUrl,
    credentials: Option<Credentials>,
    layer: Option<Layer>,
    timeout: Duration,
}

impl Client {
    pub(super) fn new(
        url: RegistryUrl,
        credentials: Option<Credentials>,
        timeout: Duration,
    ) -> Result<Self, String> {
        let layer = url.is_secure.then(Layer::new).transpose()?;
        Ok(Self { url, credentials, layer, timeout })
    }

    pub(super) fn url(&self) -> &RegistryUrl {
        &self.url
    }

    /// Asks for a path of the API; with a body, sends that.
    pub(super) async fn request(
        &self,
        path: &str,
        body: Option<String>,
    ) -> Result<Response, String> {
        let answer = tokio::time::timeout(self.timeout, self.exchange(path, body)).await;
        let limit = self.timeout.as_secs();
        answer.unwrap_or_else(|_| Err(format!("did not answer within {limit} s")))
    }

    async fn exchange(&self, path: &str, body: Option<String>) -> Result<Response, String> {
        let request = self.to_request(path, body)?;
        let port = self.url.port().ok_or("has a port that is not a number")?;
        let stream = TcpStream::connect((self.url.host(), port)).await;
        let stream = stream.map_err(|error| format!("cannot be reached: {error}"))?;
        match &self.layer {
            None => send(stream, request).await,
            Some(layer) => send(layer.over(stream, self.url.host()).await?, request).await,
        }
    }

    fn to_request(&self, path: &str, body: Option<String>) -> Result<Request<Full<Bytes>>, String> {
        let uri = format!("{}{path}", self.url.path).parse::<Uri>();
        let uri = uri.map_err(|error| format!("has no path {path}: {error}"))?;
        let method = if body.is_some() { Method::POST } else { Method::GET };
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .header(header::HOST, &self.url.authority)
            .header(header::ACCEPT, ACCEPT)
            .header(header::USER_AGENT, concat!("tstar/", env!("CARGO_PKG_VERSION")));
        if let Some(Credentials(value)) = &self.credentials {
            request = request.header(header::AUTHORIZATION, value);
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, CONTENT_TYPE);
        }
        let body = body.unwrap_or_default().into();
        request.body(body).map_err(|error| format!("cannot be asked: {error}"))
    }
}

async fn send<S>(stream: S, request: Request<Full<Bytes>>) -> Result<Response, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken = |error: hyper::Error| format!("closed the connection: {}", with_causes(&error));
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(broken)?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), MAX_RESPONSE_BYTES).collect().await;
        let body =
            body.map_err(|error| format!("closed the connection: {}", with_causes(&*error)))?;
        Ok(Response { status, body: body.to_bytes() })
    };
    // The connection is driven only as long as the exchange needs it.
    tokio::pin!(connection);
    tokio::pin!(exchange);
    tokio::select! {
        biased;
        answer = &mut exchange => return answer,
        closed = &mut connection => closed.map_err(broken)?,
    }
    exchange.await
}

fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
