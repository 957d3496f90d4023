//! Accepts connections, with limits per server and per client and timeouts for slow clients.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{AbortHandle, JoinSet};

use super::app::App;
use super::clients::{Peer, PerClient};
use super::phase::{Phase, draining};
use super::stream_pace::{Pace, Paced};
use crate::telemetry;
use crate::tls::{Acceptor, Stream};

/// Maximum time until the head of a request is complete, from the end of the previous request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Minimum rate at which a client has to read its answer.
const PACE: Pace = Pace { window: Duration::from_secs(20), min_bytes: 64 << 10 };

/// Send buffer of a connection, in bytes; the kernel doubles it. By default the kernel buffers
/// megabytes, and a slow client is detected late.
const SEND_BUFFER: usize = 128 << 10;

/// Maximum size of a request head, in bytes.
const MAX_HEAD: usize = 32 << 10;

/// Maximum headers of a request.
const MAX_HEADERS: usize = 64;

/// Time limit for connections to end on shutdown.
const DRAIN: Duration = Duration::from_secs(5);

/// Delay after a failed accept, for example when no file descriptor is free.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// Maximum connections over the limits; one more aborts the oldest.
const MAX_OVERFLOW: usize = 64;

/// Time limit for the handshake of such a connection, and for reading its request.
const OVERFLOW_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum bytes read of it.
const OVERFLOW_BYTES: usize = 4 << 10;

/// Response over the limits.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
    content-length: 0\r\n\r\n";

/// Response over the limits to `GET /livez`.
const LIVE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\n\
    connection: close\r\ncontent-length: 3\r\n\r\nok\n";

/// First byte of a client that speaks TLS: the type of a record with a handshake.
const HANDSHAKE: u8 = 22;

/// Response to a client that does not speak TLS where it should.
const NO_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\n\
    connection: close\r\ncontent-length: 28\r\n\r\nthis address needs https://\n";

/// Serves connections until the server drains, then waits up to [`DRAIN`] for those in progress.
pub(crate) async fn serve(listener: TcpListener, router: Router, app: &App) {
    let (http, mut phase) = (&app.options.settings.http, app.phase());
    let buffer = socket2::SockRef::from(&listener).set_send_buffer_size(SEND_BUFFER);
    if let Err(error) = buffer {
        tracing::warn!(%error, "cannot limit the send buffer; slow clients are detected late");
    }
    let slots = Arc::new(Semaphore::new(http.connections));
    let clients = PerClient::default();
    let (mut open, mut overflow) = (JoinSet::new(), Overflow::default());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = open.join_next() => continue,
            () = draining(&mut phase) => break,
        };
        let (stream, peer) = match accepted {
            Ok((stream, address)) => (stream, Peer(address.ip())),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(RETRY_DELAY).await;
                continue;
            }
        };
        // A connection keeps what it was accepted with.
        let acceptor = app.options.tls.as_ref().map(|tls| tls.current());
        let max = peer.limit(http.client_connections, http.connections);
        let admitted = clients.acquire(peer.network(), max).ok_or("client_connections");
        let admitted = admitted.and_then(|of_client| {
            let slot = Arc::clone(&slots).try_acquire_owned();
            slot.map(|slot| (slot, of_client)).map_err(|_| "connections")
        });
        match admitted {
            Err(reason) => {
                telemetry::rejected(reason);
                overflow.push(open.spawn(answer_overflow(stream, acceptor)));
            }
            Ok(admitted) => {
                let (router, phase) = (router.clone(), phase.clone());
                open.spawn(async move {
                    answer((stream, acceptor), peer, router, phase).await;
                    drop(admitted);
                });
            }
        }
    }
    let all = async { while open.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN, all).await.is_err() {
        tracing::warn!("closed connections whose clients did not read their answers in time");
    }
}

/// Connections over the limits, oldest first. The newest one is always served, so that liveness
/// probes, which send their request at once, are answered under load.
#[derive(Debug, Default)]
struct Overflow(VecDeque<AbortHandle>);

impl Overflow {
    fn push(&mut self, connection: AbortHandle) {
        self.0.retain(|other| !other.is_finished());
        if self.0.len() >= MAX_OVERFLOW
            && let Some(oldest) = self.0.pop_front()
        {
            oldest.abort();
        }
        self.0.push_back(connection);
    }
}

/// Makes the handshake of a connection within a limit, if there is TLS; `None` if that fails.
async fn secure(stream: TcpStream, acceptor: Option<&Acceptor>, limit: Duration) -> Option<Stream> {
    let Some(acceptor) = acceptor else { return Some(Stream::Plain(stream)) };
    let made = tokio::time::timeout(limit, handshake(stream, acceptor)).await;
    let made = made.unwrap_or(Err("slow"));
    made.inspect_err(|reason| telemetry::tls_failed(reason)).ok()
}

async fn handshake(stream: TcpStream, acceptor: &Acceptor) -> Result<Stream, &'static str> {
    let mut first = [0];
    match stream.peek(&mut first).await {
        Ok(1) if first[0] == HANDSHAKE => acceptor.accept(stream).await.map_err(|_| "failed"),
        Ok(1) => {
            // Unread bytes would reset the connection, and the client would not see the answer.
            stream.try_read(&mut [0; OVERFLOW_BYTES]).ok();
            stream.try_write(NO_TLS).ok();
            Err("plain")
        }
        _ => Err("closed"),
    }
}

/// Rejects a connection over the limits with 503; answers `GET /livez` with 200.
async fn answer_overflow(stream: TcpStream, acceptor: Option<Arc<Acceptor>>) {
    if let Some(stream) = secure(stream, acceptor.as_deref(), OVERFLOW_TIMEOUT).await {
        answer_briefly(stream).await;
    }
}

async fn answer_briefly(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut head = Vec::new();
    let read_head = async {
        while head.len() < OVERFLOW_BYTES && !head.ends_with(b"\r\n\r\n") {
            match stream.read_buf(&mut head).await {
                Ok(read) if read > 0 => (),
                _ => break,
            }
        }
    };
    // A client that sends nothing gets the same answer.
    tokio::time::timeout(OVERFLOW_TIMEOUT, read_head).await.ok();
    let answer = if head.starts_with(b"GET /livez ") { LIVE } else { FULL };
    // Does not wait for the client: the answer fits the send buffer of a new connection.
    let write = async {
        stream.write_all(answer).await?;
        stream.shutdown().await
    };
    tokio::time::timeout(OVERFLOW_TIMEOUT, write).await.map(Result::ok).ok();
}

async fn answer(
    (stream, acceptor): (TcpStream, Option<Arc<Acceptor>>),
    peer: Peer,
    router: Router,
    mut phase: watch::Receiver<Phase>,
) {
    stream.set_nodelay(true).ok();
    let secured = tokio::select! {
        biased;
        secured = secure(stream, acceptor.as_deref(), HEAD_TIMEOUT) => secured,
        () = draining(&mut phase) => return,
    };
    let Some(stream) = secured else { return };
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS);
    let router = TowerToHyperService::new(router);
    let routes = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        router.call(request)
    });
    let stream = TokioIo::new(Paced::new(stream, PACE));
    let connection = builder.serve_connection(stream, routes);
    tokio::pin!(connection);
    // Errors of the client, such as a closed or too slow connection, are ignored.
    tokio::select! {
        ended = connection.as_mut() => drop(ended),
        () = draining(&mut phase) => {
            connection.as_mut().graceful_shutdown();
            connection.await.ok();
        }
    }
}
