//! A CQL node that accepts clients over TLS only, that have to show a certificate and to log in,
//! and may do what the grants of the documentation allow.

use openssl::ssl::{SslConnector, SslFiletype, SslMethod, SslVerifyMode};
use scylla::client::session::{OpenSsl010Config, Session};
use scylla::client::session_builder::SessionBuilder;
use tokio::runtime::{Builder, Runtime};
use tstar::internals::store::memory::ApplyRows as _;
use tstar::internals::store::scylla::{ClientIdentity, ScyllaStore, ScyllaUrl, ServerOptions, Tls};
use tstar::internals::store::{StoreError, TripRow};

use super::authority::Authority;
use super::nodes::equipped;
use crate::cli::Folder;
use crate::conformance::trip;
use crate::faults::until;
use crate::keyspace::patient;
use crate::servers::{LIMIT, Server, free_port, start_cassandra};

/// In the certificate of the node, with its address.
const NAME: &str = "nodes.fleet.example";

/// What a client shows.
const IDENTITY: &str = "--cql-tls-cert cert.pem --cql-tls-key key.pem";

/// A session of the first role, which may do everything; the node creates it after its start.
async fn session_of_admin(address: &str, folder: &Folder) -> Option<Session> {
    let mut connector = SslConnector::builder(SslMethod::tls_client()).unwrap();
    connector.set_certificate_file(folder.path("cert.pem"), SslFiletype::PEM).unwrap();
    connector.set_private_key_file(folder.path("key.pem"), SslFiletype::PEM).unwrap();
    connector.set_verify(SslVerifyMode::NONE);
    let builder = SessionBuilder::new().known_node(address).user("cassandra", "cassandra");
    builder.tls_context(Some(OpenSsl010Config::new(connector))).build().await.ok()
}

/// The `GRANT` statements of the documentation for a role.
fn grants(role: &str) -> Vec<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/security.md");
    let page = std::fs::read_to_string(page).unwrap();
    let statements =
        page.split('`').filter(|code| code.starts_with("GRANT ")).flat_map(|code| code.split("; "));
    let to_role = format!("TO {role}");
    let wanted = statements.map(|it| it.trim_end_matches(';').to_owned());
    let wanted: Vec<_> = wanted.filter(|it| it.ends_with(&to_role)).collect();
    assert!(!wanted.is_empty(), "the page grants nothing to {role}");
    wanted
}

async fn run(session: &Session, statement: &str) {
    session
        .query_unpaged(statement, &[])
        .await
        .unwrap_or_else(|error| panic!("{statement}: {error}"));
}

struct Node {
    server: Server,
    folder: Folder,
    /// The connections of sessions belong to it.
    runtime: Runtime,
    admin: Session,
}

impl Node {
    fn start() -> Option<Self> {
        let authority = Authority::new("tstar tests");
        let folder = equipped(&authority);
        let data = folder.path("node");
        authority.equip(&data, &["127.0.0.1", NAME]);
        std::fs::write(data.join("roles"), "").unwrap();
        let mut server = start_cassandra(&data, free_port(), "127.0.0.1", "127.0.0.1")?;
        server.wait_until_heard(LIMIT);
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let session = || runtime.block_on(session_of_admin(&server.address(), &folder));
        let admin = until("the first role", session);
        Some(Self { server, folder, runtime, admin })
    }

    /// Flags of a role whose password is in the file `password`.
    fn login(&self, role: &str) -> String {
        format!(
            "--store scylla://{}/fleet --cql-tls --cql-tls-ca ca.pem --cql-tls-name {NAME} \
             {IDENTITY} --cql-user {role} --cql-password-file password --connect-timeout 20s",
            self.server.address()
        )
    }

    async fn connect(&self, role: &str) -> Result<ScyllaStore, StoreError> {
        let url = ScyllaUrl { nodes: vec![self.server.address()], keyspace: "fleet".into() };
        let (authorities, name) = (Some(self.folder.read("ca.pem")), Some(NAME.to_owned()));
        let (certificates, key) = (self.folder.read("cert.pem"), self.folder.read("key.pem"));
        let identity = Some(ClientIdentity { certificates, key });
        let options = ServerOptions {
            tls: Some(Tls { authorities, name, identity }),
            user: Some(role.to_owned()),
            password: Some("hunter2".to_owned()),
            password_file: Some(self.folder.path("password")),
            ..patient()
        };
        ScyllaStore::connect(&url, options).await
    }

    fn add_role(&self, role: &str) {
        self.runtime.block_on(self.create_role(role));
    }

    async fn create_role(&self, role: &str) {
        run(&self.admin, &format!("CREATE ROLE {role} WITH PASSWORD = 'hunter2' AND LOGIN = true"))
            .await;
        for grant in grants(role) {
            run(&self.admin, &grant).await;
        }
    }
}

#[test]
fn roles_may_do_over_tls_what_their_grants_allow() {
    let Some(mut node) = Node::start() else { return };
    let folder = &node.folder;
    folder.write("password", "cassandra\n");
    folder.run(&format!("schema apply --create-keyspace {}", node.login("cassandra"))).ends(0);
    folder.write("password", "hunter2\n");
    for role in ["writer", "tagger", "reader"] {
        node.add_role(role);
    }

    let written = [trip("truck-17", &[10, 12], 4)];
    let apply = async |role: &str| node.connect(role).await.unwrap().apply(&written).await;
    node.runtime.block_on(apply("writer")).unwrap();
    let lookup = "lookup truck-17 2026-11-20T00:11:00Z --json";
    for role in ["writer", "tagger", "reader"] {
        let found = folder.run(&format!("{lookup} {}", node.login(role))).ends(0);
        assert_eq!(found.json()["id"], "truck-17~20261120T001000.000Z", "{role}");
    }
    let denied = node.runtime.block_on(apply("reader")).unwrap_err();
    assert!(denied.to_string().contains("permissions of the role"), "{denied}");
    let tag = "tag truck-17~20261120T001000.000Z driver=ann";
    folder.run(&format!("{tag} {}", node.login("tagger"))).ends(0);
    folder.run(&format!("{tag} {}", node.login("reader"))).ends(78).says(&["denied"]);

    let login = node.login("reader");
    let other = login.replace(NAME, "nodes.other.example");
    let refused = ["the certificate of a node is refused: ", "hostname mismatch"];
    folder.run(&format!("{lookup} {other}")).ends(69).says(&refused);
    let lookup = format!("{lookup} {login}");
    clients_are_authorised(&mut node.folder, &lookup);
    node.folder.write("password", "hunter3");
    node.folder.run(&lookup).ends(78).says(&["denied", "cql_password_file"]);
}

/// Nodes and clients have to know each other's authority. `lookup` shows what the node accepts.
fn clients_are_authorised(folder: &mut Folder, lookup: &str) {
    folder.run(&format!("{lookup} --datacenter datacenter1")).ends(0);
    // The certificate has the address as well.
    folder.run(&lookup.replace(&format!("--cql-tls-name {NAME}"), "")).ends(0);

    // Without a CA of its own, the client uses the system's.
    let system = lookup.replace("--cql-tls-ca ca.pem ", "");
    folder.env("SSL_CERT_FILE", "ca.pem");
    folder.run(&system).ends(0);

    let brief = |words: &str| words.replace("--connect-timeout 20s", "--connect-timeout 3s");
    let named = brief(&lookup.replace("--cql-tls-ca ca.pem", "--cql-tls-ca stranger.pem"));
    let refused = folder.run(&named).ends(69).prints_nothing();
    let said = ["cannot be reached", "the certificate of a node is refused: "];
    refused.says(&said);
    folder.env("SSL_CERT_FILE", "stranger.pem");
    folder.run(&brief(&system)).ends(69).prints_nothing().says(&said);
    // With a certificate by an unknown authority, without any, and without TLS.
    let strange = "--cql-tls-cert strange-cert.pem --cql-tls-key strange-key.pem";
    let tls = format!("--cql-tls --cql-tls-ca ca.pem --cql-tls-name {NAME} {IDENTITY}");
    for (from, to) in [(IDENTITY, strange), (IDENTITY, ""), (&tls, "")] {
        let words = brief(&lookup.replace(from, to));
        assert_ne!(words, brief(lookup));
        folder.run(&words).ends(69).prints_nothing().says(&["cannot be reached"]);
    }
    folder.env("SSL_CERT_FILE", "ca.pem");
}

#[test]
#[ignore = "at night: tests/nightly/long"]
fn a_store_outlives_a_new_password() {
    let Some(mut node) = Node::start() else { return };
    node.folder.write("password", "cassandra\n");
    let apply = format!("schema apply --create-keyspace {}", node.login("cassandra"));
    node.folder.run(&apply).ends(0);
    node.folder.write("password", "hunter2\n");
    node.add_role("writer");
    let store = node.runtime.block_on(node.connect("writer")).unwrap();
    let apply = |trips: &[TripRow]| node.runtime.block_on(store.apply(trips)).unwrap();
    apply(&[trip("truck-17", &[10, 12], 4)]);
    let alter = "ALTER ROLE writer WITH PASSWORD = 'hunter3'";
    // Cassandra refuses a second password within five seconds.
    let altered = || node.runtime.block_on(node.admin.query_unpaged(alter, &[])).ok();
    until("the new password", altered);
    node.folder.write("password", "hunter3\n");
    // All connections end.
    node.server.stop();
    node.server.restart();
    node.server.wait_until_heard(LIMIT);
    apply(&[trip("truck-17", &[10, 12, 14], 5)]);
    let lookup = "lookup truck-17 2026-11-20T00:13:00Z --json";
    node.folder.run(&format!("{lookup} {}", node.login("writer"))).ends(0);
}
