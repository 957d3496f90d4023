//! A build with TLS, by OpenSSL. TLS 1.2 or newer.

use std::fmt;
use std::pin::Pin;

use openssl::asn1::Asn1Time;
use openssl::error::ErrorStack;
use openssl::ssl::{
    AlpnError, Ssl, SslAcceptor, SslConnector, SslMethod, SslVersion, select_next_proto,
};
use openssl::x509::X509Ref;
use tokio::net::TcpStream;
use tokio_openssl::SslStream;

use super::{Authorities, Stream, pem};

/// The protocol of a connection, as ALPN encodes it.
const HTTP: &[u8] = b"\x08http/1.1";

const DAY_S: i64 = 24 * 3600;

/// The setting of the certificate of the server.
const CERTIFICATE: &str = "tls_cert";

fn text(error: &ErrorStack) -> String {
    format!("TLS cannot be set up: {error}")
}

/// Connects as a client. Verifies the server's certificate, and its name or address.
pub(crate) struct Connector(SslConnector);

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

impl Connector {
    /// Trusts these CAs.
    ///
    /// # Errors
    /// There is none to trust, or a file of certificates cannot be used.
    pub(crate) fn new(authorities: Authorities<'_>) -> Result<Self, String> {
        let mut builder =
            SslConnector::builder(SslMethod::tls_client()).map_err(|error| text(&error))?;
        builder.set_min_proto_version(Some(SslVersion::TLS1_2)).map_err(|error| text(&error))?;
        match authorities {
            Authorities::System => pem::trust_system(&mut builder, "https", "SSL_CERT_FILE")?,
            Authorities::Only(key, content) => pem::trust(&mut builder, key, content)?,
        }
        Ok(Self(builder.build()))
    }

    /// Makes the handshake with a host, a name or an address.
    ///
    /// # Errors
    /// The handshake fails, for example because the certificate is not trusted.
    pub(crate) async fn connect(&self, stream: TcpStream, host: &str) -> Result<Stream, String> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let ssl = self.0.configure().and_then(|configured| configured.into_ssl(host));
        let ssl = ssl.map_err(|error| text(&error))?;
        let mut stream = SslStream::new(ssl, stream).map_err(|error| text(&error))?;
        Pin::new(&mut stream).connect().await.map_err(|error| error.to_string())?;
        Ok(Stream::Tls(stream))
    }
}

/// Accepts connections of HTTP clients.
pub struct Acceptor {
    acceptor: SslAcceptor,
    expires_s: i64,
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acceptor")
    }
}

/// When a certificate expires, s since 1970.
fn expiry_s(certificate: &X509Ref) -> Result<i64, ErrorStack> {
    let span = Asn1Time::from_unix(0)?.diff(certificate.not_after())?;
    Ok(i64::from(span.days) * DAY_S + i64::from(span.secs))
}

impl Acceptor {
    /// Shows a certificate, followed by its intermediates, with its private key: PEM, not
    /// encrypted.
    ///
    /// # Errors
    /// One of them cannot be used, or they do not belong together.
    pub fn new(chain: &[u8], key: &[u8]) -> Result<Self, String> {
        let expires = pem::certificates(CERTIFICATE, chain)?;
        let expires = expires.iter().map(|certificate| expiry_s(certificate));
        let expires: Vec<_> = expires.collect::<Result<_, _>>().map_err(|error| text(&error))?;
        let mut builder = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls_server())
            .map_err(|error| text(&error))?;
        pem::set_identity(&mut builder, (CERTIFICATE, chain), ("tls_key", key))?;
        builder.set_alpn_select_callback(|_, offered| {
            select_next_proto(HTTP, offered).ok_or(AlpnError::NOACK)
        });
        let expires_s = expires.into_iter().min().unwrap_or_default();
        Ok(Self { acceptor: builder.build(), expires_s })
    }

    /// When the first certificate of the chain expires, s since 1970.
    #[must_use]
    pub(crate) fn expires_s(&self) -> i64 {
        self.expires_s
    }

    /// Makes the handshake with a client.
    ///
    /// # Errors
    /// The handshake fails.
    pub async fn accept(&self, stream: TcpStream) -> Result<Stream, String> {
        let ssl = Ssl::new(self.acceptor.context()).map_err(|error| text(&error))?;
        let mut stream = SslStream::new(ssl, stream).map_err(|error| text(&error))?;
        Pin::new(&mut stream).accept().await.map_err(|error| error.to_string())?;
        Ok(Stream::Tls(stream))
    }
}
