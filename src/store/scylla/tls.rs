//! Sessions over TLS: the cargo feature `tls`. Without it asking for them is refused.
//!
//! A node's certificate has to be signed by somebody who is trusted, and to hold the address that
//! the node is reached at: the driver has OpenSSL compare the two. Names of hosts are not compared,
//! for nodes tell each other's addresses and not their names.

/// How a session is encrypted. Certificates and keys are in the form of PEM.
#[derive(Clone)]
pub struct Tls {
    /// Certificates of those who may sign for a node; without them whom the system trusts.
    pub authorities: Option<Vec<u8>>,
    /// What nodes know this program by, where they ask.
    pub identity: Option<ClientIdentity>,
}

/// What nodes know a program by.
#[derive(Clone)]
pub struct ClientIdentity {
    /// Its certificate, then those between that and whom the nodes trust.
    pub certificates: Vec<u8>,
    /// Its key, not encrypted.
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

    /// There is none in this build.
    pub enum Layer {}

    impl Layer {
        pub fn new(_: &Tls) -> Result<Self, String> {
            Err("cql_tls is set, and this program was built without TLS: build it with `cargo build --release --features tls`, or leave cql_tls out where the network may be trusted".into())
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

    use super::super::retry::Failure;
    use super::{ClientIdentity, Tls};

    /// What the connections of a session have in common.
    pub struct Layer {
        config: OpenSsl010Config,
        /// Why a certificate was refused last: the driver tells only that one was.
        refused: Arc<Mutex<Option<String>>>,
    }

    impl Layer {
        /// An error is what is wrong with the certificates, or with what the system has of them.
        pub fn new(tls: &Tls) -> Result<Self, String> {
            let of_library = |error: ErrorStack| format!("cql_tls cannot be set up: {error}");
            let mut connector =
                SslConnector::builder(SslMethod::tls_client()).map_err(of_library)?;
            connector.set_min_proto_version(Some(SslVersion::TLS1_2)).map_err(of_library)?;
            match &tls.authorities {
                Some(pem) => trust(&mut connector, pem)?,
                None => trust_as_the_system_does(&mut connector)?,
            }
            if let Some(identity) = &tls.identity {
                show(&mut connector, identity)?;
            }
            let refused = Arc::new(Mutex::new(None));
            let noted = Arc::clone(&refused);
            connector.set_verify_callback(SslVerifyMode::PEER, move |is_good, chain| {
                if !is_good {
                    let reason = chain.error().error_string().to_owned();
                    *noted.lock().expect("no holder of the lock panics") = Some(reason);
                }
                is_good
            });
            Ok(Self { config: OpenSsl010Config::new(connector), refused })
        }

        pub fn over(&self, builder: SessionBuilder) -> SessionBuilder {
            builder.tls_context(Some(self.config.clone()))
        }

        /// Adds to why a try to connect failed why a certificate was refused, where one was.
        pub fn explain(&self, failure: Failure) -> Failure {
            let refused = self.refused.lock().expect("no holder of the lock panics").take();
            match (failure, refused) {
                (Failure::Passing(cause), Some(reason)) => Failure::Passing(
                    format!("the certificate of a node is refused: {reason} ({cause})").into(),
                ),
                (failure, _) => failure,
            }
        }
    }

    fn certificates(key: &str, pem: &[u8]) -> Result<Vec<X509>, String> {
        let found = X509::stack_from_pem(pem);
        let found = found.map_err(|error| format!("{key} is not of PEM certificates: {error}"))?;
        if found.is_empty() {
            return Err(format!("{key} holds no PEM certificate"));
        }
        Ok(found)
    }

    /// These and nobody else.
    fn trust(connector: &mut SslConnectorBuilder, pem: &[u8]) -> Result<(), String> {
        let of_library = |error: ErrorStack| format!("cql_tls_ca cannot be used: {error}");
        let mut store = X509StoreBuilder::new().map_err(of_library)?;
        for certificate in certificates("cql_tls_ca", pem)? {
            store.add_cert(certificate).map_err(of_library)?;
        }
        connector.set_cert_store(store.build());
        Ok(())
    }

    /// The library is built with the program and looks where no system keeps its certificates.
    fn trust_as_the_system_does(connector: &mut SslConnectorBuilder) -> Result<(), String> {
        let found = openssl_probe::probe();
        let Some(file) = found.cert_file else {
            return Err("cql_tls finds no certificates that the system trusts: name a file of them with cql_tls_ca, or with SSL_CERT_FILE".into());
        };
        let set = connector.set_ca_file(&file);
        set.map_err(|error| format!("the system's certificates `{}`: {error}", file.display()))
    }

    fn show(connector: &mut SslConnectorBuilder, identity: &ClientIdentity) -> Result<(), String> {
        let of_library =
            |error: ErrorStack| format!("cql_tls_cert and cql_tls_key cannot be used: {error}");
        let mut chain = certificates("cql_tls_cert", &identity.certificates)?.into_iter();
        if let Some(own) = chain.next() {
            connector.set_certificate(&own).map_err(of_library)?;
        }
        for between in chain {
            connector.add_extra_chain_cert(between).map_err(of_library)?;
        }
        // Nobody is asked for a pass phrase.
        let key = PKey::private_key_from_pem_callback(&identity.key, |_| Ok(0));
        let key = key.map_err(|error| {
            format!("cql_tls_key is not a PEM key, or is an encrypted one: {error}")
        })?;
        connector.set_private_key(&key).map_err(of_library)?;
        connector.check_private_key().map_err(of_library)
    }
}
