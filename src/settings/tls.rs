//! Rules between the TLS settings.

use super::{Problem, Settings};

/// Violated rules of the TLS settings.
pub(super) fn problems(settings: &Settings) -> Vec<Problem> {
    let Settings { cql_tls, cql_tls_ca, cql_tls_cert, cql_tls_key, cql_tls_name, .. } = settings;
    let mut problems = Vec::new();
    let mut check = |holds: bool, keys: &'static [&'static str], message: &str| {
        if !holds {
            problems.push(Problem { keys, message: message.to_owned() });
        }
    };
    // Certificates without TLS are most likely a mistake.
    for (keys, file) in [
        (&["cql_tls_ca", "cql_tls"], cql_tls_ca),
        (&["cql_tls_cert", "cql_tls"], cql_tls_cert),
        (&["cql_tls_key", "cql_tls"], cql_tls_key),
        (&["cql_tls_name", "cql_tls"], cql_tls_name),
    ] {
        let message = format!("{} is set, but cql_tls is false; set cql_tls as well", keys[0]);
        check(*cql_tls || file.is_empty(), keys, &message);
    }
    check(
        cql_tls_cert.is_empty() == cql_tls_key.is_empty(),
        &["cql_tls_cert", "cql_tls_key"],
        "cql_tls_cert and cql_tls_key go together; set both or neither",
    );
    problems
}
