//! TLS over TCP, as a client and as a server, with the cargo feature `tls`. Without it, nothing can
//! be set up.

#[cfg(feature = "tls")]
mod pem;
#[cfg(feature = "tls")]
mod with;
#[cfg(not(feature = "tls"))]
mod without;

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

#[cfg(feature = "tls")]
pub(crate) use pem::{set_identity, trust, trust_system};
#[cfg(feature = "tls")]
pub(crate) use with::{Acceptor, Connector};
#[cfg(not(feature = "tls"))]
pub(crate) use without::{Acceptor, Connector};

/// Whether this program was built with the feature.
pub(crate) const IS_BUILT: bool = cfg!(feature = "tls");

/// The CAs that a client trusts: PEM, with the name of its setting for messages.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "tls"), allow(dead_code, reason = "read by builds with TLS"))]
pub(crate) enum Authorities<'a> {
    /// Those of the system.
    System,
    /// These, and no others.
    Only(&'a str, &'a [u8]),
}

/// A connection, with TLS or without.
#[derive(Debug)]
pub enum Stream {
    /// Without.
    Plain(TcpStream),
    /// With TLS, after the handshake.
    #[cfg(feature = "tls")]
    Tls(tokio_openssl::SslStream<TcpStream>),
}

/// Calls a method of the stream within.
macro_rules! delegate {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Stream::Plain($stream) => $call,
            #[cfg(feature = "tls")]
            Stream::Tls($stream) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        delegate!(self, stream => Pin::new(stream).poll_read(context, into))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        delegate!(self, stream => Pin::new(stream).poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        delegate!(self, stream => Pin::new(stream).poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, stream => Pin::new(stream).poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, stream => Pin::new(stream).poll_shutdown(context))
    }
}
