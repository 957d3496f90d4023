//! One request to a server, bounded in time and size. hyper serves the HTTP API of this program,
//! so its client half adds no dependency.

use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::url::WebUrl;
use crate::model::visible::with_causes;
use crate::tls::{Authorities, Connector};

/// Maximum size of a response, bytes: a schema at its maximum, escaped in JSON.
const MAX_RESPONSE_BYTES: usize = 4 << 20;

/// A response.
pub(crate) struct Response {
    /// Status code.
    pub status: u16,
    /// The whole body.
    pub body: Bytes,
}

/// How a client asks.
pub(crate) struct ClientOptions {
    /// PEM of the only CAs to trust; `None` for those of the system.
    pub authorities: Option<Vec<u8>>,
    /// The header that lets the client in.
    pub authorization: Option<HeaderValue>,
    /// Types of responses that it understands.
    pub accept: &'static str,
    /// Time limit of a request.
    pub timeout: Duration,
}

/// Sends requests to a server, each on a connection of its own: they are few.
pub(crate) struct Client {
    url: WebUrl,
    tls: Option<Connector>,
    authorization: Option<HeaderValue>,
    accept: &'static str,
    timeout: Duration,
}

impl Client {
    /// A client of the server at a URL.
    ///
    /// # Errors
    /// The URL needs TLS, which cannot be set up.
    pub(crate) fn new(url: WebUrl, options: ClientOptions) -> Result<Self, String> {
        let ClientOptions { authorities, authorization, accept, timeout } = options;
        let authorities = authorities.as_deref();
        let authorities = authorities
            .map_or(Authorities::System, |pem| Authorities::Only("https.ca.location", pem));
        let tls = url.is_secure.then(|| Connector::new(authorities)).transpose();
        let tls = tls.map_err(|problem| format!("`{url}`: {problem}"))?;
        Ok(Self { url, tls, authorization, accept, timeout })
    }

    /// URL of the server.
    #[must_use]
    pub(crate) fn url(&self) -> &WebUrl {
        &self.url
    }

    /// Asks for a path below the URL.
    ///
    /// # Errors
    /// What the server did instead of answering.
    pub(crate) async fn get(&self, path: &str) -> Result<Response, String> {
        self.request(path, None).await
    }

    /// Sends a body of a type to a path below the URL.
    ///
    /// # Errors
    /// What the server did instead of answering.
    pub(crate) async fn post(
        &self,
        path: &str,
        kind: &str,
        body: String,
    ) -> Result<Response, String> {
        self.request(path, Some((kind, body))).await
    }

    async fn request(&self, path: &str, body: Option<(&str, String)>) -> Result<Response, String> {
        let answer = tokio::time::timeout(self.timeout, self.exchange(path, body)).await;
        let limit = self.timeout.as_secs();
        answer.unwrap_or_else(|_| Err(format!("did not answer within {limit} s")))
    }

    async fn exchange(&self, path: &str, body: Option<(&str, String)>) -> Result<Response, String> {
        let request = self.to_request(path, body)?;
        let port = self.url.port().ok_or("has a port that is not a number")?;
        let stream = TcpStream::connect((self.url.host(), port)).await;
        let stream = stream.map_err(|error| format!("cannot be reached: {error}"))?;
        match &self.tls {
            None => send(stream, request).await,
            Some(tls) => {
                let stream = tls.connect(stream, self.url.host()).await;
                send(stream.map_err(|error| format!("cannot be reached: {error}"))?, request).await
            }
        }
    }

    fn to_request(
        &self,
        path: &str,
        body: Option<(&str, String)>,
    ) -> Result<Request<Full<Bytes>>, String> {
        let path = format!("{}{path}", self.url.path);
        let path = if path.is_empty() { "/" } else { &path };
        let uri = path.parse::<Uri>();
        let uri = uri.map_err(|error| format!("has no path {path}: {error}"))?;
        let method = if body.is_some() { Method::POST } else { Method::GET };
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .header(header::HOST, &self.url.authority)
            .header(header::ACCEPT, self.accept)
            .header(header::USER_AGENT, concat!("tstar/", env!("CARGO_PKG_VERSION")));
        if let Some(value) = &self.authorization {
            request = request.header(header::AUTHORIZATION, value);
        }
        if let Some((kind, _)) = &body {
            request = request.header(header::CONTENT_TYPE, *kind);
        }
        let body = body.map(|(_, body)| body).unwrap_or_default().into();
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
