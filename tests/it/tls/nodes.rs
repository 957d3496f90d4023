//! A CQL node that accepts TLS only, and requires client certificates.

use std::net::TcpListener;

use openssl::pkey::PKey;
use openssl::ssl::{SslAcceptor, SslMethod};
use openssl::x509::X509;
use tstar::internals::store::TripStore;
use tstar::internals::store::scylla::{ClientIdentity, ScyllaStore, ScyllaUrl, ServerOptions, Tls};

use super::authority::Authority;
use crate::cli::Folder;
use crate::conformance::trip;
use crate::keyspace::patient;
use crate::servers::{LIMIT, free_port, start_cassandra};
use crate::support::block_on;

/// A folder with what a client needs, and with what belongs to others.
fn equipped(authority: &Authority) -> Folder {
    let folder = Folder::with("ca.pem", authority.pem());
    let (certificate, key) = authority.sign("127.0.0.1");
    folder.write("cert.pem", certificate);
    folder.write("key.pem", key);
    let stranger = Authority::new("a stranger");
    folder.write("stranger.pem", stranger.pem());
    let (certificate, key) = stranger.sign("127.0.0.1");
    folder.write("strange-cert.pem", certificate);
    folder.write("strange-key.pem", key);
    folder
}

#[test]
fn a_store_is_made_and_read_over_tls_by_authorised_clients() {
    let authority = Authority::new("tstar tests");
    let (mut folder, port) = (equipped(&authority), free_port());
    let data = folder.path("node");
    authority.equip(&data, "127.0.0.1");
    let Some(mut node) = start_cassandra(&data, port, "127.0.0.1", "127.0.0.1") else { return };
    node.wait_until_heard(LIMIT);
    let store = format!("--store scylla://{}/fleet", node.address());
    let shown = "--cql-tls-cert cert.pem --cql-tls-key key.pem";
    let tls = format!("--cql-tls --cql-tls-ca ca.pem {shown}");
    folder.run(&format!("schema apply --create-keyspace {store} {tls}")).ends(0);
    let options = ServerOptions {
        tls: Some(Tls {
            authorities: Some(folder.read("ca.pem")),
            identity: Some(ClientIdentity {
                certificates: folder.read("cert.pem"),
                key: folder.read("key.pem"),
            }),
            name: None,
        }),
        ..patient()
    };
    let url = ScyllaUrl { nodes: vec![node.address()], keyspace: "fleet".into() };
    block_on(async {
        let written = ScyllaStore::connect(&url, options).await.unwrap();
        written.apply(&[trip("truck-17", &[10, 12], 4)]).await.unwrap();
    });
    let lookup = "lookup truck-17 2026-11-20T00:11:00Z --json";
    let found = folder.run(&format!("{lookup} {store} {tls}")).ends(0);
    assert_eq!(found.json()["id"], "truck-17~20261120T001000.000Z");
    folder.run(&format!("{lookup} {store} {tls} --datacenter datacenter1")).ends(0);

    // Without a CA of its own, the client uses the system's.
    let system = format!("{lookup} {store} --cql-tls {shown} --connect-timeout 3s");
    folder.env("SSL_CERT_FILE", "ca.pem");
    folder.run(&system).ends(0);

    let named = system.replace("--cql-tls ", "--cql-tls --cql-tls-ca stranger.pem ");
    let refused = folder.run(&named).ends(69).prints_nothing();
    let said = ["cannot be reached", "the certificate of a node is refused: "];
    refused.says(&said);
    folder.env("SSL_CERT_FILE", "stranger.pem");
    folder.run(&system).ends(69).prints_nothing().says(&said);
    // With a certificate by an unknown authority, without any, and without TLS.
    let trusting = format!("{lookup} {store} --connect-timeout 3s --cql-tls --cql-tls-ca ca.pem");
    let strange = "--cql-tls-cert strange-cert.pem --cql-tls-key strange-key.pem";
    let plain = format!("{lookup} {store} --connect-timeout 3s");
    for words in [format!("{trusting} {strange}"), trusting, plain] {
        folder.run(&words).ends(69).prints_nothing().says(&["cannot be reached"]);
    }
}

#[test]
fn a_certificate_for_another_address_is_refused() {
    let authority = Authority::new("tstar tests");
    let folder = Folder::with("ca.pem", authority.pem());
    let (certificate, key) = authority.sign("127.0.0.9");
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
