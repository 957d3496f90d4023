//! TLS to a server, with the cargo feature `tls`. A build without it rejects the URL.

#[cfg(feature = "tls")]
pub(super) use with::Layer;
#[cfg(not(feature = "tls"))]
pub(super) use without::Layer;

#[cfg(not(feature = "tls"))]
mod without {
    use tokio::net::TcpStream;

    /// Cannot be created in this build.
    pub enum Layer {}

    impl Layer {
        pub fn new(_: Option<&[u8]>) -> Result<Self, String> {
            Err("https needs TLS, which this build lacks; build without `--no-default-features`, or use http if the network is trusted".into())
        }

        pub async fn over(&self, _: TcpStream, _: &str) -> Result<TcpStream, String> {
            match *self {}
        }
    }
}

#[cfg(feature = "tls")]
mod with {
    use std::pin::Pin;

    use openssl::error::ErrorStack;
    use openssl::ssl::{SslConnector, SslMethod, SslVersion};
    use tokio::net::TcpStream;
    use tokio_openssl::SslStream;

    use crate::tls;

    /// Verifies certificates, and the name or address of the host.
    pub struct Layer(SslConnector);

    impl Layer {
        /// Trusts the CAs of a PEM file, or those of the system.
        pub fn new(authorities: Option<&[u8]>) -> Result<Self, String> {
            let library_error = |error: ErrorStack| format!("TLS cannot be set up: {error}");
            let mut connector =
                SslConnector::builder(SslMethod::tls_client()).map_err(library_error)?;
            connector.set_min_proto_version(Some(SslVersion::TLS1_2)).map_err(library_error)?;
            match authorities {
                Some(pem) => tls::trust(&mut connector, "https.ca.location", pem)?,
                None => tls::trust_system(&mut connector, "https", "SSL_CERT_FILE")?,
            }
            Ok(Self(connector.build()))
        }

        pub async fn over(
            &self,
            stream: TcpStream,
            host: &str,
        ) -> Result<SslStream<TcpStream>, String> {
            let refused = |error: &dyn std::fmt::Display| format!("cannot be reached: {error}");
            let ssl = self.0.configure().and_then(|configured| configured.into_ssl(host));
            let ssl = ssl.map_err(|error| refused(&error))?;
            let mut stream = SslStream::new(ssl, stream).map_err(|error| refused(&error))?;
            Pin::new(&mut stream).connect().await.map_err(|error| refused(&error))?;
            Ok(stream)
        }
    }
}
