//! Certificates of CQL nodes and of their clients, without a node.

use std::net::TcpListener;

use openssl::pkey::PKey;
use openssl::ssl::{SslAcceptor, SslMethod};
use openssl::x509::X509;

use super::authority::Authority;
use crate::cli::Folder;

/// A folder with what a client needs, and with what belongs to others.
pub(super) fn equipped(authority: &Authority) -> Folder {
    let folder = Folder::with("ca.pem", authority.pem());
    let (certificate, key) = authority.sign(&["127.0.0.1"]);
    folder.write("cert.pem", certificate);
    folder.write("key.pem", key);
    let stranger = Authority::new("a stranger");
    folder.write("stranger.pem", stranger.pem());
    let (certificate, key) = stranger.sign(&["127.0.0.1"]);
    folder.write("strange-cert.pem", certificate);
    folder.write("strange-key.pem", key);
    folder
}

#[test]
fn a_certificate_for_another_address_is_refused() {
    let authority = Authority::new("tstar tests");
    let folder = Folder::with("ca.pem", authority.pem());
    let (certificate, key) = authority.sign(&["127.0.0.9"]);
    let mut acceptor = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls_server()).unwrap();
    acceptor.set_certificate(&X509::from_pem(&certificate).unwrap()).unwrap();
    acceptor.set_private_key(&PKey::private_key_from_pem(&key).unwrap()).unwrap();
    let acceptor = acceptor.build();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // The client closes as soon as it has seen the certificate.
            drop(acceptor.accept(stream));
        }
    });
    let store = format!("--store scylla://{address}/fleet --connect-timeout 500ms");
    let refused = folder.run(&format!("devices {store} --cql-tls --cql-tls-ca ca.pem"));
    let said = "the certificate of a node is refused: IP address mismatch";
    refused.ends(69).prints_nothing().says(&[said, &address.to_string()]);
}

#[test]
fn files_that_hold_something_else_are_reported() {
    let folder = equipped(&Authority::new("tstar tests"));
    folder.write("empty.pem", "");
    let encrypted = PKey::private_key_from_pem(&folder.read("key.pem")).unwrap();
    let cipher = openssl::symm::Cipher::aes_256_cbc();
    let encrypted = encrypted.private_key_to_pem_pkcs8_passphrase(cipher, b"secret").unwrap();
    folder.write("encrypted.pem", encrypted);
    let store = "devices --store scylla://127.0.0.1:1/fleet --cql-tls";
    for (flags, code, said) in [
        ("--cql-tls-ca none.pem", 74, "cql_tls_ca `none.pem` cannot be read"),
        ("--cql-tls-ca empty.pem", 78, "cql_tls_ca holds no PEM certificate"),
        ("--cql-tls-cert empty.pem --cql-tls-key key.pem", 78, "cql_tls_cert holds no PEM"),
        ("--cql-tls-cert cert.pem --cql-tls-key cert.pem", 78, "cql_tls_key is not a PEM key"),
        ("--cql-tls-cert cert.pem --cql-tls-key encrypted.pem", 78, "or is encrypted"),
        ("--cql-tls-cert cert.pem --cql-tls-key strange-key.pem", 78, "cannot be used"),
        ("--cql-tls-cert cert.pem", 2, "go together"),
    ] {
        folder.run(&format!("{store} {flags}")).ends(code).prints_nothing().says(&[said]);
    }
}
