//! A connection whose client has to take its answers at a minimum rate.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// How fast a client has to be.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// In each time of this length in which something waits to be taken ...
    pub window: Duration,
    /// ... the client takes at least so many bytes.
    pub min_bytes: usize,
}

/// A stream that fails with [`io::ErrorKind::TimedOut`] where its client takes too little.
pub struct Paced<S> {
    stream: S,
    pace: Pace,
    /// What was taken since the client first made us wait, and when it has to be enough.
    window: Option<(usize, Pin<Box<Sleep>>)>,
}

impl<S> Paced<S> {
    /// A stream at a pace.
    pub fn new(stream: S, pace: Pace) -> Self {
        Self { stream, pace, window: None }
    }

    /// The client has to be waited for: whether it has been for too long.
    fn poll_slow(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let Pace { window, min_bytes } = self.pace;
        let begin = || (0, Box::pin(sleep_until(Instant::now() + window)));
        let (taken, end) = self.window.get_or_insert_with(begin);
        if *taken >= min_bytes {
            *taken = 0;
            end.as_mut().reset(Instant::now() + window);
        }
        ready!(end.as_mut().poll(context));
        crate::telemetry::rejected("slow_reader");
        let problem = format!("fewer than {min_bytes} bytes were taken in {} s", window.as_secs());
        Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, problem))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> Paced<S> {
    /// What came of a write: so much more was taken, or the client has to be waited for.
    fn paced(
        &mut self,
        written: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match (&written, &mut self.window) {
            (Poll::Pending, _) => return self.poll_slow(context).map(Err),
            (Poll::Ready(Ok(more)), Some((taken, _))) => *taken += more,
            _ => (),
        }
        written
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.paced(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.paced(written, context)
    }

    /// Pieces of an answer are kept as they are, so that each is let go when it is written.
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Called where everything is written: nothing waits for the client any more.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = ready!(Pin::new(&mut self.stream).poll_flush(context));
        self.window = None;
        Poll::Ready(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const PACE: Pace = Pace { window: Duration::from_millis(200), min_bytes: 1000 };

    /// Writes to a client that takes so many bytes at once, then pauses.
    async fn write_to(reads: usize) -> io::Result<()> {
        let (server, mut client) = duplex(64);
        let mut server = Paced::new(server, PACE);
        let reading = tokio::spawn(async move {
            let mut taken = vec![0; reads];
            let mut pause = tokio::time::interval(Duration::from_millis(20));
            while client.read(&mut taken).await.is_ok_and(|read| read > 0) {
                pause.tick().await;
            }
        });
        let written = async {
            server.write_all(&[7; 20_000]).await?;
            server.flush().await
        };
        let written = written.await;
        drop(server);
        reading.await.unwrap();
        written
    }

    #[tokio::test]
    async fn a_client_that_takes_a_little_now_and_then_is_left() {
        let slow = write_to(1).await.unwrap_err();
        assert_eq!(slow.kind(), io::ErrorKind::TimedOut);
        assert_eq!(slow.to_string(), "fewer than 1000 bytes were taken in 0 s");
    }

    #[tokio::test]
    async fn the_pause_between_two_answers_is_the_clients_own() {
        let (server, mut client) = duplex(64);
        let mut server = Paced::new(server, PACE);
        for _ in 0..2 {
            let mut taken = [0; 100];
            let writing = async {
                server.write_all(&[7; 100]).await.unwrap();
                server.flush().await.unwrap();
            };
            let ((), read) = tokio::join!(writing, client.read_exact(&mut taken));
            read.unwrap();
            assert!(server.window.is_none());
        }
    }
}
