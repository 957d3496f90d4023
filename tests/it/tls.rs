//! TLS and logins at CQL nodes and brokers. Most of it needs the feature `tls`, which is a default;
//! `TSTAR_TEST_PLAIN=1 tests/all` tests a build without it.

#[cfg(feature = "tls")]
mod authority;
#[cfg(feature = "tls")]
mod brokers;
#[cfg(feature = "tls")]
mod https;
#[cfg(feature = "tls")]
mod issuer;
#[cfg(feature = "tls")]
mod nodes;
#[cfg(feature = "tls")]
mod rights;
#[cfg(feature = "tls")]
mod roles;
#[cfg(feature = "tls")]
mod sasl;

#[cfg(not(feature = "tls"))]
#[test]
fn a_build_without_it_refuses_and_names_the_flag_that_leaves_it_out() {
    let folder = crate::cli::Folder::with("ca.pem", "");
    // Nothing listens there: the flag is refused before any connection.
    let store = "--store scylla://127.0.0.1:1/fleet --cql-tls";
    let with = "`--no-default-features`";
    for words in ["schema apply", "devices", "devices --cql-tls-ca ca.pem", "run --topic samples"] {
        let refused = folder.run(&format!("{words} {store}")).ends(78).prints_nothing();
        refused.says(&["cql_tls", with]);
    }
    let serve = "serve --listen 127.0.0.1:0 --store sqlite:t.db";
    folder.write("one.ndjson", crate::cli::minutes("truck-17", &[1]));
    folder.ingest("one.ndjson --store sqlite:t.db");
    let https = folder.run(&format!("{serve} --tls-cert ca.pem --tls-key ca.pem"));
    https.ends(78).prints_nothing().says(&["tls_cert", with]);
    for protocol in ["ssl", "SASL_SSL"] {
        let words = format!("simulate --brokers 127.0.0.1:1 --kafka security.protocol={protocol}");
        folder.run(&words).ends(78).prints_nothing().says(&["security.protocol", with]);
    }
}
