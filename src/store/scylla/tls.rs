//! Sessions over TLS, with the cargo feature `tls`. A build without it rejects the setting.
//!
//! A node's certificate must be signed by a trusted CA and contain the address of the node, which
//! the driver lets OpenSSL verify. Host names are not verified, because nodes announce each other
//! by address.

/// TLS options of a session. Certificates and keys are PEM.
#[derive(Clone)]
#[cfg_attr(not(feature = "tls"), allow(dead_code, reason = "read by builds with TLS"))]
pub struct Tls {
    /// Trusted CA certificates; `None` for those of the system.
    pub authorities: Option<Vec<u8>>,
    /// Client certificate, if nodes require one.
    pub identity: Option<ClientIdentity>,
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
    pub enum Layer {}

    impl Layer {
        pub fn new(_: &Tls) -> Result<Self, String> {
            Err("cql_tls is set, but this program was built without TLS; build it without `--no-default-features`, or unset cql_tls if the network is trusted".into())
        }

        pub fn over(&self, _: SessionBuilder) -> SessionBuilder {
            match *self {}
        }

        pub fn explain(&self, _: Failure) -> Failure {
            match *self {}
        }
    }
}

#[cfg(feature = "tls")]
mod with {
    use std::sync::{Arc, Mutex};

    use openssl::error::ErrorStack;
    use openssl::pkey::PKey;
    use openssl::ssl::{SslConnector, SslConnectorBuilder, SslMethod, SslVerifyMode, SslVersion};
    use openssl::x509::X509;
    use openssl::x509::store::X509StoreBuilder;
    use scylla::client::session::OpenSsl010Config;
    use scylla::client::session_builder::SessionBuilder;

    use super::super::requests::Failure;
    use super::{ClientIdentity, Tls};

    /// The TLS configuration of a session.
    pub struct Layer {
        config: OpenSsl010Config,
        /// Why the last certificate was rejected, which the driver does not report.
        refused: Arc<Mutex<Option<String>>>,
    }

    impl Layer {
        /// Fails with a message for the operator if the certificates or the key cannot be used.
        pub fn new(tls: &Tls) -> Result<Self, String> {
            let library_error = |error: ErrorStack| format!("cql_tls cannot be set up: {error}");
            let mut connector =
                SslConnector::builder(SslMethod::tls_client()).map_err(library_error)?;
            connector.set_min_proto_version(Some(SslVersion::TLS1_2)).map_err(library_error)?;
            match &tls.authorities {
                Some(pem) => trust(&mut connector, pem)?,
                None => trust_system(&mut connector)?,
            }
            if let Some(identity) = &tls.identity {
                set_identity(&mut connector, identity)?;
            }
            let refused = Arc::new(Mutex::new(None));
            let reason_slot = Arc::clone(&refused);
            connector.set_verify_callback(SslVerifyMode::PEER, move |is_good, chain| {
                if !is_good {
                    let reason = chain.error().error_string().to_owned();
                    *reason_slot.lock().expect("no holder of the lock panics") = Some(reason);
                }
                is_good
            });
            Ok(Self { config: OpenSsl010Config::new(connector), refused })
        }

        pub fn over(&self, builder: SessionBuilder) -> SessionBuilder {
            builder.tls_context(Some(self.config.clone()))
        }

        /// Adds the reason why a certificate was rejected to a failure to connect.
        pub fn explain(&self, failure: Failure) -> Failure {
            let refused = self.refused.lock().expect("no holder of the lock panics").take();
            match (failure, refused) {
                (Failure::Transient(cause), Some(reason)) => Failure::Transient(
                    format!("the certificate of a node is refused: {reason} ({cause})").into(),
                ),
                (failure, _) => failure,
            }
        }
    }

    fn certificates(key: &str, pem: &[u8]) -> Result<Vec<X509>, String> {
        let found = X509::stack_from_pem(pem);
        let found =
            found.map_err(|error| format!("{key} is not a file of PEM certificates: {error}"))?;
        if found.is_empty() {
            return Err(format!("{key} holds no PEM certificate"));
        }
        Ok(found)
    }

    /// Trusts only the given CAs.
    fn trust(connector: &mut SslConnectorBuilder, pem: &[u8]) -> Result<(), String> {
        let library_error = |error: ErrorStack| format!("cql_tls_ca cannot be used: {error}");
        let mut store = X509StoreBuilder::new().map_err(library_error)?;
        for certificate in certificates("cql_tls_ca", pem)? {
            store.add_cert(certificate).map_err(library_error)?;
        }
        connector.set_cert_store(store.build());
        Ok(())
    }

    /// Trusts the system's CAs. They have to be located, because the bundled OpenSSL does not know
    /// where the system keeps them.
    fn trust_system(connector: &mut SslConnectorBuilder) -> Result<(), String> {
        let found = openssl_probe::probe();
        let Some(file) = found.cert_file else {
            return Err("cql_tls finds no trusted CA certificates on this system; name a PEM file with cql_tls_ca or SSL_CERT_FILE".into());
        };
        let set = connector.set_ca_file(&file);
        set.map_err(|error| format!("the system's certificates `{}`: {error}", file.display()))
    }

    fn set_identity(
        connector: &mut SslConnectorBuilder,
        identity: &ClientIdentity,
    ) -> Result<(), String> {
        let library_error =
            |error: ErrorStack| format!("cql_tls_cert and cql_tls_key cannot be used: {error}");
        let mut chain = certificates("cql_tls_cert", &identity.certificates)?.into_iter();
        if let Some(own) = chain.next() {
            connector.set_certificate(&own).map_err(library_error)?;
        }
        for intermediate in chain {
            connector.add_extra_chain_cert(intermediate).map_err(library_error)?;
        }
        // Never prompts for a pass phrase.
        let key = PKey::private_key_from_pem_callback(&identity.key, |_| Ok(0));
        let key =
            key.map_err(|error| format!("cql_tls_key is not a PEM key, or is encrypted: {error}"))?;
        connector.set_private_key(&key).map_err(library_error)?;
        connector.check_private_key().map_err(library_error)
    }
}
