//! Connections: how many there may be, and how slow a client may be.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_io_timeout::TimeoutStream;

/// Longest time for the head of a request, from the end of the last one on.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time in which a client takes nothing of its answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);

/// Most bytes of a request's head.
const MOST_HEAD: usize = 32 << 10;

/// Most headers of a request.
const MOST_HEADERS: usize = 64;

/// How long connections have to end once the program stops.
const DRAIN: Duration = Duration::from_secs(5);

/// How long to wait where the system gives no connection, as where all files are open.
const TRY_AGAIN: Duration = Duration::from_millis(100);

/// What a client is told where there are too many connections.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
    content-length: 0\r\n\r\n";

/// Answers connections until `stop` comes, and lets those end that are at work.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    connections: usize,
    mut stop: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(connections));
    let mut open = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = open.join_next() => continue,
            () = asked(&mut stop) => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "no connection was given");
                tokio::time::sleep(TRY_AGAIN).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            // It fits the buffer of a new connection, or the client hears nothing.
            stream.try_write(FULL).ok();
            continue;
        };
        let (router, stop) = (router.clone(), stop.clone());
        open.spawn(async move {
            answer(stream, router, stop).await;
            drop(place);
        });
    }
    let all = async { while open.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN, all).await.is_err() {
        tracing::warn!("some clients did not take their answers in time");
    }
}

async fn answer(stream: TcpStream, router: Router, mut stop: watch::Receiver<bool>) {
    stream.set_nodelay(true).ok();
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_TIMEOUT));
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MOST_HEAD)
        .max_headers(MOST_HEADERS);
    let service = TowerToHyperService::new(router);
    let connection = builder.serve_connection(TokioIo::new(Box::pin(stream)), service);
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
