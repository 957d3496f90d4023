//! TLS to a registry, with the cargo feature `tls`. A build without it rejects the URL.

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
        pub fn new() -> Result<Self, String> {
            Err("schema_registry is https, but this program was built without TLS; build it without `--no-default-features`, or use http if the network is trusted".into())
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

    /// Verifies certificates by the system's CAs, and the host's name.
    pub struct Layer(SslConnector);

    impl Layer {
        pub fn new() -> Result<Self, String> {
            let library_error =
                |error: ErrorStack| format!("TLS to the registry cannot be set up: {error}");
            let mut connector =
                SslConnector::builder(SslMethod::tls_client()).map_err(library_error)?;
            connector.set_min_proto_version(Some(SslVersion::TLS1_2)).map_err(library_error)?;
            // The bundled OpenSSL does not know where the system keeps its CAs.
            let Some(file) = openssl_probe::probe().cert_file else {
                return Err("TLS to the registry finds no trusted CA certificates on this system; name a PEM file with SSL_CERT_FILE".into());
            };
            connector.set_ca_file(&file).map_err(|error| {
                format!("the system's certificates `{}`: {error}", file.display())
            })?;
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
