//! Connections: how many there may be, in all and of one client, and how slow a client may be.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{AbortHandle, JoinSet};

use super::clients::{Peer, PerClient};
use super::stream_pace::{Pace, Paced};

/// Longest time for the head of a request, from the end of the last one on.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// How fast a client has to take its answer.
const PACE: Pace = Pace { window: Duration::from_secs(20), min_bytes: 64 << 10 };

/// Bytes of answers that the system keeps for a client, which the system doubles. Left alone it
/// keeps megabytes, and says only after long that some were taken.
const SEND_BUFFER: usize = 128 << 10;

/// Most bytes of a request's head.
const MOST_HEAD: usize = 32 << 10;

/// Most headers of a request.
const MOST_HEADERS: usize = 64;

/// How long connections have to end once the program stops.
const DRAIN: Duration = Duration::from_secs(5);

/// How long to wait where the system gives no connection, as where all files are open.
const TRY_AGAIN: Duration = Duration::from_millis(100);

/// Connections beyond the limits that are heard; one more ends the first of them.
const SPARE: usize = 64;

/// How long such a connection is heard.
const SPARE_TIMEOUT: Duration = Duration::from_secs(1);

/// Bytes that are heard of it.
const SPARE_BYTES: usize = 4 << 10;

/// What a client is told where there are too many connections.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
    content-length: 0\r\n\r\n";

/// What it is told if all that it asks is whether the program lives.
const LIVES: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\n\
    connection: close\r\ncontent-length: 3\r\n\r\nok\n";

/// How many connections there may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// In all.
    pub connections: usize,
    /// Of one client; 0 for the default of [`Peer::limit`].
    pub per_client: usize,
}

/// Answers connections until `stop` comes, and lets those end that are at work.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    mut stop: watch::Receiver<bool>,
) {
    let buffer = socket2::SockRef::from(&listener).set_send_buffer_size(SEND_BUFFER);
    if let Err(error) = buffer {
        tracing::warn!(%error, "slow clients are told late: the send buffer cannot be bounded");
    }
    let places = Arc::new(Semaphore::new(limits.connections));
    let clients = PerClient::default();
    let (mut open, mut spare) = (JoinSet::new(), Spare::default());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = open.join_next() => continue,
            () = asked(&mut stop) => break,
        };
        let (stream, peer) = match accepted {
            Ok((stream, address)) => (stream, Peer(address.ip())),
            Err(error) => {
                tracing::warn!(%error, "no connection was given");
                tokio::time::sleep(TRY_AGAIN).await;
                continue;
            }
        };
        let max = peer.limit(limits.per_client, limits.connections);
        let Some(held) = clients.acquire(peer.network(), max) else {
            crate::telemetry::rejected("client_connections");
            spare.push(open.spawn(answer_spare(stream)));
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            crate::telemetry::rejected("connections");
            spare.push(open.spawn(answer_spare(stream)));
            continue;
        };
        let (router, stop) = (router.clone(), stop.clone());
        open.spawn(async move {
            answer(stream, peer, router, stop).await;
            drop((place, held));
        });
    }
    let all = async { while open.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN, all).await.is_err() {
        tracing::warn!("some clients did not take their answers in time");
    }
}

/// Connections beyond the limits, the first one first. However many come, the latest is heard: who
/// looks whether the program lives says so at once.
#[derive(Debug, Default)]
struct Spare(VecDeque<AbortHandle>);

impl Spare {
    fn push(&mut self, connection: AbortHandle) {
        self.0.retain(|other| !other.is_finished());
        if self.0.len() >= SPARE
            && let Some(first) = self.0.pop_front()
        {
            first.abort();
        }
        self.0.push_back(connection);
    }
}

/// Tells a client that there are too many connections, or that the program lives if it asks for
/// `/livez`.
async fn answer_spare(mut stream: TcpStream) {
    let mut head = Vec::new();
    let heard = async {
        while head.len() < SPARE_BYTES && !head.ends_with(b"\r\n\r\n") {
            match stream.read_buf(&mut head).await {
                Ok(read) if read > 0 => (),
                _ => break,
            }
        }
    };
    // Who says nothing is told the same.
    tokio::time::timeout(SPARE_TIMEOUT, heard).await.ok();
    let answer = if head.starts_with(b"GET /livez ") { LIVES } else { FULL };
    // It fits the buffer of a new connection, or the client hears nothing.
    stream.try_write(answer).ok();
    stream.shutdown().await.ok();
}

/// The routes, told where their requests come from.
struct Routes {
    router: TowerToHyperService<Router>,
    peer: Peer,
}

impl Service<Request<Incoming>> for Routes {
    type Response = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Response;
    type Error = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Error;
    type Future = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.peer);
        self.router.call(request)
    }
}

async fn answer(stream: TcpStream, peer: Peer, router: Router, mut stop: watch::Receiver<bool>) {
    stream.set_nodelay(true).ok();
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MOST_HEAD)
        .max_headers(MOST_HEADERS);
    let routes = Routes { router: TowerToHyperService::new(router), peer };
    let stream = TokioIo::new(Paced::new(stream, PACE));
    let connection = builder.serve_connection(stream, routes);
    tokio::pin!(connection);
    // A client that breaks off, or is too slow, is its own business.
    tokio::select! {
        ended = connection.as_mut() => drop(ended),
        () = asked(&mut stop) => {
            connection.as_mut().graceful_shutdown();
            connection.await.ok();
        }
    }
}

/// Waits until the program stops.
async fn asked(stop: &mut watch::Receiver<bool>) {
    // An error says that nobody can ask any more: it is the end, too.
    stop.wait_for(|is| *is).await.map(drop).ok();
}
