//! A CQL node that accepts clients over TLS only, that have to log in, and may do what the grants
//! of the documentation allow. Its certificate has a name, not its address.

use openssl::ssl::{SslConnector, SslMethod, SslVerifyMode};
use scylla::client::session::{OpenSsl010Config, Session};
use scylla::client::session_builder::SessionBuilder;
use tokio::runtime::{Builder, Runtime};
use tstar::internals::store::scylla::{ScyllaStore, ScyllaUrl, ServerOptions, Tls};
use tstar::internals::store::{StoreError, TripRow, TripStore};

use super::authority::Authority;
use crate::cli::Folder;
use crate::conformance::trip;
use crate::faults::until;
use crate::keyspace::patient;
use crate::servers::{LIMIT, Server, free_port, start_cassandra};

/// In the certificate of the node.
const NAME: &str = "nodes.fleet.example";

/// A session of the first role, which may do everything; the node creates it after its start.
async fn session_of_admin(address: &str) -> Option<Session> {
    let mut connector = SslConnector::builder(SslMethod::tls_client()).unwrap();
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
        let folder = Folder::with("ca.pem", authority.pem());
        let data = folder.path("node");
        authority.equip(&data, NAME);
        std::fs::write(data.join("roles"), "").unwrap();
        let mut server = start_cassandra(&data, free_port(), "127.0.0.1", "127.0.0.1")?;
        server.wait_until_heard(LIMIT);
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let session = || runtime.block_on(session_of_admin(&server.address()));
        let admin = until("the first role", session);
        Some(Self { server, folder, runtime, admin })
    }

    /// Flags of a role whose password is in the file `password`.
    fn login(&self, role: &str) -> String {
        format!(
            "--store scylla://{}/fleet --cql-tls --cql-tls-ca ca.pem --cql-tls-name {NAME} \
             --cql-user {role} --cql-password-file password --connect-timeout 20s",
            self.server.address()
        )
    }

    async fn connect(&self, role: &str) -> Result<ScyllaStore, StoreError> {
        let url = ScyllaUrl { nodes: vec![self.server.address()], keyspace: "fleet".into() };
        let (authorities, name) = (Some(self.folder.read("ca.pem")), Some(NAME.to_owned()));
        let options = ServerOptions {
            tls: Some(Tls { authorities, name, identity: None }),
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
fn roles_may_do_what_their_grants_allow() {
    let Some(node) = Node::start() else { return };
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

    // Without the name, the certificate is not that of the address; nor has it another name.
    let login = node.login("reader");
    let nameless = login.replace(&format!("--cql-tls-name {NAME}"), "");
    let refused = "the certificate of a node is refused: ";
    folder.run(&format!("{lookup} {nameless}")).ends(69).says(&[refused, "address mismatch"]);
    let other = login.replace(NAME, "nodes.other.example");
    folder.run(&format!("{lookup} {other}")).ends(69).says(&[refused, "hostname mismatch"]);
    folder.write("password", "hunter3");
    folder.run(&format!("{lookup} {login}")).ends(78).says(&["denied", "cql_password_file"]);
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
