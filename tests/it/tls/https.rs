//! HTTPS of the server itself: page, API, logins, and certificates that are replaced.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::rc::Rc;
use std::time::{Duration, Instant};

use openssl::ssl::{SslConnector, SslMethod, SslStream};
use openssl::x509::X509;
use serde_json::json;

use super::authority::Authority;
use crate::cli::{Folder, minutes};
use crate::http::{Answer, Server, worked_example};
use crate::servers::LIMIT;
use crate::servers::ready::until;

pub(super) const SECRET: &str = "correct-horse-battery";

/// A server with a certificate of an authority, which its clients trust.
pub(super) struct Https {
    server: Server,
    authority: Rc<Authority>,
}

/// Writes a new certificate for this machine, and its key; returns the certificate.
pub(super) fn write_certificate(folder: &Folder, authority: &Authority) -> Vec<u8> {
    let (certificate, key) = authority.sign(&["127.0.0.1"]);
    folder.write("cert.pem", &certificate);
    folder.write("key.pem", key);
    certificate
}

fn connector(authority: &Authority) -> SslConnector {
    let mut builder = SslConnector::builder(SslMethod::tls_client()).unwrap();
    builder.cert_store_mut().add_cert(X509::from_pem(&authority.pem()).unwrap()).unwrap();
    builder.set_alpn_protos(b"\x02h2\x08http/1.1").unwrap();
    builder.build()
}

impl Https {
    pub(super) fn new(server: Server, authority: &Rc<Authority>) -> Self {
        Self { server, authority: Rc::clone(authority) }
    }

    fn start(folder: &Folder, flags: &str) -> Self {
        let authority = Rc::new(Authority::new("tstar tests"));
        write_certificate(folder, &authority);
        worked_example(folder);
        folder.write("token", format!("ops:read,write:{SECRET}"));
        let words = format!(
            "serve --store sqlite:trips.db --token-file token --tls-cert cert.pem --tls-key \
             key.pem {flags}"
        );
        let server = Server::launch(folder, &words);
        let https = Self::new(server, &authority);
        let ready = || (https.get("/readyz").status == 200).then_some(());
        until("the server to be ready", LIMIT, ready, || None);
        https
    }

    fn connect(&self) -> SslStream<TcpStream> {
        connector(&self.authority).connect("127.0.0.1", self.server.connect()).unwrap()
    }

    fn request(&self, method: &str, target: &str, headers: &str, body: &[u8]) -> Answer {
        let mut stream = self.connect();
        let head = format!(
            "{method} {target} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{headers}\
             content-length: {}\r\n\r\n",
            self.server.address,
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        Answer::read(&answer)
    }

    pub(super) fn get(&self, target: &str) -> Answer {
        let bearer = format!("authorization: Bearer {SECRET}\r\n");
        self.request("GET", target, &bearer, b"")
    }

    /// The value of a series.
    pub(super) fn metric(&self, series: &str) -> f64 {
        let text = self.get("/metrics").is(200).text();
        let value = |line: &str| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok();
        text.lines().find_map(value).unwrap_or(0.0)
    }

    /// The certificate that a new connection gets.
    fn shown(&self) -> Vec<u8> {
        self.connect().ssl().peer_certificate().unwrap().to_pem().unwrap()
    }
}

#[test]
fn page_api_and_logins_work_over_https() {
    let folder = Folder::new();
    let https = Https::start(&folder, "");
    let said = https.server.said();
    assert!(said.contains(&format!("listening on https://{}\n", https.server.address)), "{said}");
    assert!(!said.contains("in the clear"), "{said}");
    let stream = https.connect();
    assert_eq!(stream.ssl().selected_alpn_protocol(), Some(&b"http/1.1"[..]));
    assert!(["TLSv1.2", "TLSv1.3"].contains(&stream.ssl().version_str()));
    drop(stream);
    let page = https.get("/").is(200);
    assert!(page.text().contains("<title>"));
    assert_eq!(page.header("strict-transport-security"), Some("max-age=31536000"));
    let target = "/v1/trips/lookup?device=truck-17&at=2024-05-01T08:05:00Z";
    assert_eq!(https.get(target).is(200).json()["samples"], 5);
    // More than fits in a record, or in a send buffer.
    assert!(https.get("/assets/leaflet.js").is(200).body.len() > 100_000);
    let sample = minutes("new", &[1]);
    let bearer = format!("authorization: Bearer {SECRET}\r\n");
    https.request("POST", "/v1/samples", &bearer, sample.as_bytes()).is(200);

    // The scheme is known without a header of a proxy.
    let login = json!({ "token": SECRET }).to_string();
    let address = &https.server.address;
    let own = format!("origin: https://{address}\r\n");
    for headers in ["", &own] {
        let answer = https.request("POST", "/v1/login", headers, login.as_bytes()).is(204);
        let set = answer.header("set-cookie").unwrap();
        assert!(set.starts_with("__Host-tstar=") && set.contains("; Secure; HttpOnly"), "{set}");
    }
    let plain = format!("origin: http://{address}\r\n");
    https.request("POST", "/v1/login", &plain, login.as_bytes()).fails(403, "foreign_origin");
    let day = 24.0 * 3600.0;
    let expiry = https.metric("tstar_http_tls_expiry_timestamp_seconds");
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
    assert!(expiry > now && expiry <= now + day + 1.0, "{expiry} {now}");
    let said = https.server.drain();
    assert!(!said.contains(SECRET), "{said}");
}

#[test]
fn a_new_certificate_is_shown_without_a_restart_and_streams_continue() {
    let folder = Folder::new();
    let https = Https::start(&folder, "");
    let first = https.shown();
    let mut stream = https.connect();
    let request = format!(
        "GET /v1/changes/stream HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {SECRET}\r\n\r\n",
        https.server.address
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map(|line| line.unwrap());
    assert_eq!(lines.next().unwrap(), "HTTP/1.1 200 OK");

    let second = write_certificate(&folder, &https.authority);
    assert_ne!(first, second);
    let replaced = || (https.shown() == second).then_some(());
    until("the new certificate", LIMIT, replaced, || None);

    // A pair that does not belong together changes nothing.
    folder.write("key.pem", https.authority.sign(&["127.0.0.1"]).1);
    let failed = "tstar_reload_failed{setting=\"tls_cert\"}";
    until("the reload to fail", LIMIT, || (https.metric(failed) == 1.0).then_some(()), || None);
    assert_eq!(https.shown(), second);
    let said = https.server.said();
    let warning = "tls_cert has changed and cannot be used; what it held before still counts";
    assert_eq!(said.matches(warning).count(), 1, "{said}");
    let third = write_certificate(&folder, &https.authority);
    until("the third one", LIMIT, || (https.shown() == third).then_some(()), || None);
    assert_eq!(https.metric(failed), 0.0);

    // The stream of the first certificate gets what happens now.
    folder.write("far.ndjson", minutes("truck-17", &[30, 32]));
    folder.ingest("far.ndjson --store sqlite:trips.db");
    let event = lines.find(|line| line.starts_with("data: ")).unwrap();
    assert!(event.contains("truck-17"), "{event}");
    https.server.drain();
}

#[test]
fn clients_that_do_not_speak_tls_hold_no_slot() {
    let folder = Folder::new();
    let https = Https::start(&folder, "--max-connections 4");
    // Plain HTTP gets an answer that names the scheme.
    let answer = https.server.request("GET", "/v1/devices", "", b"").is(400);
    assert!(answer.text().contains("https://"), "{answer:?}");
    assert_eq!(https.metric("tstar_http_tls_failed_total{reason=\"plain\"}"), 1.0);
    // A handshake that is none, and a client that does not trust the certificate.
    let garbage = https.server.raw(&[&[22, 3, 1, 0, 5][..], b"hello"].concat());
    assert!(!garbage.starts_with(b"HTTP"), "{garbage:?}");
    connector(&Authority::new("a stranger"))
        .connect("127.0.0.1", https.server.connect())
        .expect_err("the authority is not trusted");
    let failed = || https.metric("tstar_http_tls_failed_total{reason=\"failed\"}");
    until("the failures to be counted", LIMIT, || (failed() >= 2.0).then_some(()), || None);

    // Silent clients in all slots: those over the limit get an answer by TLS, and after the time
    // of a head the slots are free.
    let began = Instant::now();
    let mut silent: Vec<_> = (0..4).map(|_| https.server.connect()).collect();
    let over = || {
        let answer = https.get("/v1/devices");
        (answer.status == 503).then_some(())
    };
    until("the slots to be taken", LIMIT, over, || None);
    assert_eq!(https.get("/livez").is(200).text(), "ok\n");
    let free = || (https.get("/v1/devices").status == 200).then_some(());
    until("the slots to be free", LIMIT, free, || None);
    assert!(began.elapsed() >= Duration::from_secs(9), "{:?}", began.elapsed());
    for stream in &mut silent {
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the connection is closed");
    }
    assert!(https.metric("tstar_http_tls_failed_total{reason=\"slow\"}") >= 4.0);
    https.server.drain();
}

#[test]
fn files_of_the_server_that_cannot_be_used_are_reported_at_start() {
    let folder = Folder::new();
    worked_example(&folder);
    let authority = Authority::new("tstar tests");
    write_certificate(&folder, &authority);
    folder.write("other-key.pem", authority.sign(&["127.0.0.1"]).1);
    folder.write("empty.pem", "");
    let serve = "serve --listen 127.0.0.1:0 --store sqlite:trips.db";
    for (flags, code, said) in [
        ("--tls-cert none --tls-key key.pem", 74, "tls_cert `none` cannot be read"),
        ("--tls-cert cert.pem --tls-key none", 74, "tls_key `none` cannot be read"),
        ("--tls-cert empty.pem --tls-key key.pem", 78, "tls_cert holds no PEM certificate"),
        ("--tls-cert cert.pem --tls-key cert.pem", 78, "tls_key is not a PEM key"),
        ("--tls-cert cert.pem --tls-key other-key.pem", 78, "tls_cert and tls_key cannot be used"),
        ("--tls-cert cert.pem", 2, "go together"),
    ] {
        folder.run(&format!("{serve} {flags}")).ends(code).prints_nothing().says(&[said]);
    }
    // Other machines: a token alone is sent in the clear.
    folder.write("token", format!("ops:read,write:{SECRET}"));
    let open = "serve --store sqlite:trips.db --token-file token --listen 0.0.0.0:0";
    let plain = Server::launch(&folder, open);
    assert!(plain.said().contains("in the clear"), "{}", plain.said());
    let tls = Server::launch(&folder, &format!("{open} --tls-cert cert.pem --tls-key key.pem"));
    assert!(!tls.said().contains("in the clear"), "{}", tls.said());
}
