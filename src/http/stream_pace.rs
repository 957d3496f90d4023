//! A connection whose client has to read its answers at a minimum rate.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// Minimum rate of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// While data is waiting to be read, in each window of this length ...
    pub window: Duration,
    /// ... the client has to read at least this many bytes.
    pub min_bytes: usize,
}

/// A stream that fails with [`io::ErrorKind::TimedOut`] if its client reads too slowly.
pub(crate) struct Paced<S> {
    stream: S,
    pace: Pace,
    /// Bytes read since the window began, and its end. `None` while no data is waiting.
    window: Option<(usize, Pin<Box<Sleep>>)>,
}

impl<S> Paced<S> {
    /// Wraps a stream.
    pub(crate) fn new(stream: S, pace: Pace) -> Self {
        Self { stream, pace, window: None }
    }

    /// Called while the client has to be waited for; ready with an error if it reads too slowly.
    fn poll_slow(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let Pace { window, min_bytes } = self.pace;
        let new_window = || (0, Box::pin(sleep_until(Instant::now() + window)));
        let (written, end) = self.window.get_or_insert_with(new_window);
        if *written >= min_bytes {
            *written = 0;
            end.as_mut().reset(Instant::now() + window);
        }
        ready!(end.as_mut().poll(context));
        crate::telemetry::rejected("slow_reader");
        let problem =
            format!("the client read fewer than {min_bytes} bytes in {} s", window.as_secs());
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
    /// Counts the result of a write: bytes written, or a wait for the client.
    fn count(
        &mut self,
        result: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match (&result, &mut self.window) {
            (Poll::Pending, _) => return self.poll_slow(context).map(Err),
            (Poll::Ready(Ok(more)), Some((written, _))) => *written += more,
            _ => (),
        }
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.count(result, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.count(result, context)
    }

    /// With vectored writes hyper does not copy chunks: each is freed as soon as it is written.
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Called when everything is written: no data is waiting any more.
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

    /// Writes to a client that reads `length` bytes at a time, with pauses between.
    async fn write_to(length: usize) -> io::Result<()> {
        let (server, mut client) = duplex(64);
        let mut server = Paced::new(server, PACE);
        let reading = tokio::spawn(async move {
            let mut buffer = vec![0; length];
            let mut pause = tokio::time::interval(Duration::from_millis(20));
            while client.read(&mut buffer).await.is_ok_and(|read| read > 0) {
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
    async fn a_slow_client_times_out() {
        let slow = write_to(1).await.unwrap_err();
        assert_eq!(slow.kind(), io::ErrorKind::TimedOut);
        assert_eq!(slow.to_string(), "the client read fewer than 1000 bytes in 0 s");
    }

    #[tokio::test]
    async fn time_between_answers_does_not_count() {
        let (server, mut client) = duplex(64);
        let mut server = Paced::new(server, PACE);
        for _ in 0..2 {
            let mut buffer = [0; 100];
            let writing = async {
                server.write_all(&[7; 100]).await.unwrap();
                server.flush().await.unwrap();
            };
            let ((), read) = tokio::join!(writing, client.read_exact(&mut buffer));
            read.unwrap();
            assert!(server.window.is_none());
        }
    }
}
