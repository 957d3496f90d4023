//! Certificates and keys of TLS connections, as OpenSSL takes them.

use openssl::error::ErrorStack;
use openssl::pkey::PKey;
use openssl::ssl::SslContextBuilder;
use openssl::x509::X509;
use openssl::x509::store::X509StoreBuilder;

/// Parses PEM certificates, at least one. `key` names in messages where they are from; so below.
pub(super) fn certificates(key: &str, pem: &[u8]) -> Result<Vec<X509>, String> {
    let found = X509::stack_from_pem(pem);
    let found =
        found.map_err(|error| format!("{key} is not a file of PEM certificates: {error}"))?;
    if found.is_empty() {
        return Err(format!("{key} holds no PEM certificate"));
    }
    Ok(found)
}

/// Trusts only the given CAs.
///
/// # Errors
/// They are not PEM certificates.
pub(crate) fn trust(context: &mut SslContextBuilder, key: &str, pem: &[u8]) -> Result<(), String> {
    let library_error = |error: ErrorStack| format!("{key} cannot be used: {error}");
    let mut store = X509StoreBuilder::new().map_err(library_error)?;
    for certificate in certificates(key, pem)? {
        store.add_cert(certificate).map_err(library_error)?;
    }
    context.set_cert_store(store.build());
    Ok(())
}

/// Trusts the system's CAs. They have to be located, because the bundled OpenSSL does not know
/// where the system keeps them. `what` needs them, and `instead` names others.
///
/// # Errors
/// The system has none, or they cannot be read.
pub(crate) fn trust_system(
    context: &mut SslContextBuilder,
    what: &str,
    instead: &str,
) -> Result<(), String> {
    let Some(file) = openssl_probe::probe().cert_file else {
        return Err(format!(
            "{what} finds no trusted CA certificates on this system; name a PEM file with {instead}"
        ));
    };
    let set = context.set_ca_file(&file);
    set.map_err(|error| format!("the system's certificates `{}`: {error}", file.display()))
}

/// Shows a certificate, followed by its intermediates, to the other side.
///
/// # Errors
/// They are not PEM, the key is encrypted, or is not that of the certificate.
pub(crate) fn set_identity(
    context: &mut SslContextBuilder,
    (certificates_key, certificates_pem): (&str, &[u8]),
    (private_key, private_pem): (&str, &[u8]),
) -> Result<(), String> {
    let library_error =
        |error: ErrorStack| format!("{certificates_key} and {private_key} cannot be used: {error}");
    let mut chain = certificates(certificates_key, certificates_pem)?.into_iter();
    if let Some(own) = chain.next() {
        context.set_certificate(&own).map_err(library_error)?;
    }
    for intermediate in chain {
        context.add_extra_chain_cert(intermediate).map_err(library_error)?;
    }
    // Never prompts for a pass phrase.
    let key = PKey::private_key_from_pem_callback(private_pem, |_| Ok(0));
    let key =
        key.map_err(|error| format!("{private_key} is not a PEM key, or is encrypted: {error}"))?;
    context.set_private_key(&key).map_err(library_error)?;
    context.check_private_key().map_err(library_error)
}
