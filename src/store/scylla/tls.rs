//! Sessions over TLS, with the cargo feature `tls`. A build without it rejects the setting.
//!
//! A node's certificate must be signed by a trusted CA and contain the address of the node, which
//! the driver lets OpenSSL verify; or a name that all nodes share. Their host names are not
//! verified, because nodes announce each other by address.

/// TLS options of a session. Certificates and keys are PEM.
#[derive(Clone)]
#[cfg_attr(not(feature = "tls"), allow(dead_code, reason = "read by builds with TLS"))]
pub struct Tls {
    /// Trusted CA certificates; `None` for those of the system.
    pub authorities: Option<Vec<u8>>,
    /// Client certificate, if nodes require one.
    pub identity: Option<ClientIdentity>,
    /// The name that the certificate of each node has to have; `None` for the address of the node.
    pub name: Option<String>,
}

/// A client certificate with its key.
#[derive(Clone)]
#[cfg_attr(not(feature = "tls"), allow(dead_code, reason = "read by builds with TLS"))]
pub struct ClientIdentity {
    /// The certificate, followed by its intermediates.
    pub certificates: Vec<u8>,
    /// The private key, not encrypted.
    pub key: Vec<u8>,
}

#[cfg(feature = "tls")]
pub(super) use with::Layer;
#[cfg(not(feature = "tls"))]
pub(super) use without::Layer;

#[cfg(not(feature = "tls"))]
mod without {
    use scylla::client::session_builder::SessionBuilder;

    use super::super::requests::Failure;
    use super::Tls;

    /// Cannot be created in this build.
    pub(crate) enum Layer {}

    impl Layer {
        pub(crate) fn new(_: &Tls) -> Result<Self, String> {
            Err("cql_tls is set, but this program was built without TLS; build it without `--no-default-features`, or unset cql_tls if the network is trusted".into())
        }

        pub(crate) fn over(&self, _: SessionBuilder) -> SessionBuilder {
            match *self {}
        }

        pub(crate) fn explain(&self, _: Failure) -> Failure {
            match *self {}
        }
    }
}

#[cfg(feature = "tls")]
mod with {
    use std::sync::{Arc, Mutex};

    use openssl::error::ErrorStack;
    use openssl::ssl::{SslConnector, SslMethod, SslVerifyMode, SslVersion};
    use scylla::client::session::OpenSsl010Config;
    use scylla::client::session_builder::SessionBuilder;

    use super::super::requests::Failure;
    use super::{ClientIdentity, Tls};
    use crate::tls;

    /// OpenSSL's X509_V_ERR_IP_ADDRESS_MISMATCH.
    const ADDRESS_MISMATCH: i32 = 64;

    /// The TLS configuration of a session.
    pub(crate) struct Layer {
        config: OpenSsl010Config,
        /// Why the last certificate was rejected, which the driver does not report.
        refused: Arc<Mutex<Option<String>>>,
    }

    impl Layer {
        /// Fails with a message for the operator if the certificates or the key cannot be used.
        pub(crate) fn new(options: &Tls) -> Result<Self, String> {
            let library_error = |error: ErrorStack| format!("cql_tls cannot be set up: {error}");
            let mut connector =
                SslConnector::builder(SslMethod::tls_client()).map_err(library_error)?;
            connector.set_min_proto_version(Some(SslVersion::TLS1_2)).map_err(library_error)?;
            match &options.authorities {
                Some(pem) => tls::trust(&mut connector, "cql_tls_ca", pem)?,
                None => {
                    tls::trust_system(&mut connector, "cql_tls", "cql_tls_ca or SSL_CERT_FILE")?;
                }
            }
            if let Some(ClientIdentity { certificates, key }) = &options.identity {
                let (certificates, key) =
                    (("cql_tls_cert", &**certificates), ("cql_tls_key", &**key));
                tls::set_identity(&mut connector, certificates, key)?;
            }
            if let Some(name) = &options.name {
                connector.verify_param_mut().set_host(name).map_err(library_error)?;
            }
            let has_name = options.name.is_some();
            let refused = Arc::new(Mutex::new(None));
            let reason_slot = Arc::clone(&refused);
            connector.set_verify_callback(SslVerifyMode::PEER, move |is_good, chain| {
                // The driver always asks for the address. OpenSSL checks the name before it, and
                // reports each by itself.
                if !is_good && has_name && chain.error().as_raw() == ADDRESS_MISMATCH {
                    return true;
                }
                if !is_good {
                    let reason = chain.error().error_string().to_owned();
                    *reason_slot.lock().expect("no holder of the lock panics") = Some(reason);
                }
                is_good
            });
            Ok(Self { config: OpenSsl010Config::new(connector), refused })
        }

        pub(crate) fn over(&self, builder: SessionBuilder) -> SessionBuilder {
            builder.tls_context(Some(self.config.clone()))
        }

        /// Adds the reason why a certificate was rejected to a failure to connect.
        pub(crate) fn explain(&self, failure: Failure) -> Failure {
            let refused = self.refused.lock().expect("no holder of the lock panics").take();
            match (failure, refused) {
                (Failure::Transient(cause), Some(reason)) => Failure::Transient(
                    format!("the certificate of a node is refused: {reason} ({cause})").into(),
                ),
                (failure, _) => failure,
            }
        }
    }
}
