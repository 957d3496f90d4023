//! A broker that accepts clients over TLS only, that have to log in, and may do what the ACLs of
//! the documentation allow.

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use tstar::internals::store::sqlite::SqliteStore;

use super::authority::Authority;
use super::issuer::{AUDIENCE, Issuer};
use super::rights::{check_denials, check_listeners};
use crate::cli::{Folder, number};
use crate::faults::{Running, until};
use crate::servers::{LIMIT, Server, free_port, run_kafka_tool, start_kafka};
use crate::support::block_on;

pub const PARTITIONS: i32 = 2;

/// Password of every user, and secret of every client of the issuer.
pub const PASSWORD: &str = "hunter2-of-the-fleet";

/// The users of the documentation's ACLs: one produces, the other is `run`.
const USERS: [&str; 2] = ["tracker", "tstar"];

/// A broker, and a folder with what its clients need.
pub struct Cluster {
    pub broker: Server,
    pub folder: Folder,
    issuer: Issuer,
}

/// Settings of a broker on a port that asks again for a login after some seconds.
fn properties(port: u16, issuer: &Issuer) -> String {
    let users = USERS.map(|user| format!("user_{user}=\"{PASSWORD}\"")).join(" ");
    let listener = "listener.name.sasl_ssl";
    let modules = "org.apache.kafka.common.security";
    let jwks = issuer.url("jwks");
    format!(
        "listeners=SASL_SSL://127.0.0.1:{port},CONTROLLER://127.0.0.1:{}
advertised.listeners=SASL_SSL://127.0.0.1:{port}
listener.security.protocol.map=SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=SASL_SSL
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN,OAUTHBEARER
connections.max.reauth.ms=4000
ssl.client.auth=none
{listener}.scram-sha-512.sasl.jaas.config={modules}.scram.ScramLoginModule required;
{listener}.plain.sasl.jaas.config={modules}.plain.PlainLoginModule required \
username=\"admin\" password=\"{PASSWORD}\" user_admin=\"{PASSWORD}\" {users};
{listener}.oauthbearer.sasl.jaas.config={modules}.oauthbearer.OAuthBearerLoginModule required;
{listener}.oauthbearer.sasl.server.callback.handler.class=\
{modules}.oauthbearer.OAuthBearerValidatorCallbackHandler
{listener}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url={jwks}
{listener}.oauthbearer.sasl.oauthbearer.expected.audience={AUDIENCE}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin;User:ANONYMOUS
",
        port + 1
    )
}

impl Cluster {
    /// Starts a broker, creates the topic, and grants what the documentation says.
    fn start(authority: &Authority) -> Option<Self> {
        let issuer = Issuer::start(PASSWORD);
        let folder = Folder::with("ca.pem", authority.pem());
        let (data, port) = (folder.path("broker"), free_port());
        authority.equip(&data, &["127.0.0.1"]);
        let write = |name: &str, text: String| std::fs::write(data.join(name), text).unwrap();
        write("more.properties", properties(port, &issuer));
        let allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls";
        write("java.options", format!("{allowed}={}\n", issuer.url("jwks")));
        let scram =
            |user| format!("--add-scram\nSCRAM-SHA-512=[name={user},password={PASSWORD}]\n");
        write("format.options", USERS.map(scram).concat());
        folder.write("password", PASSWORD);
        let mut broker = start_kafka(&data, port)?;
        broker.wait_until_heard(LIMIT);
        let cluster = Self { broker, folder, issuer };
        cluster.write_admin();
        cluster.make_topic();
        cluster.grant();
        Some(cluster)
    }

    /// The login of a client of Java as the user who may do everything.
    fn write_admin(&self) {
        let module = "org.apache.kafka.common.security.plain.PlainLoginModule";
        let ca = self.folder.path("ca.pem");
        let text = format!(
            "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nssl.truststore.type=PEM\n\
             ssl.truststore.location={}\nsasl.jaas.config={module} required username=\"admin\" \
             password=\"{PASSWORD}\";\n",
            ca.display()
        );
        self.folder.write("admin.properties", text);
    }

    fn make_topic(&self) {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.broker.address()).set("security.protocol", "sasl_ssl");
        config.set("ssl.ca.location", self.folder.path("ca.pem").display().to_string());
        config.set("sasl.mechanism", "PLAIN");
        config.set("sasl.username", "admin").set("sasl.password", PASSWORD);
        let admin: AdminClient<DefaultClientContext> = config.create().unwrap();
        let topics = ["samples", "secret"]
            .map(|name| NewTopic::new(name, PARTITIONS, TopicReplication::Fixed(1)));
        let options =
            AdminOptions::new().operation_timeout(Some(LIMIT)).request_timeout(Some(LIMIT));
        let made = block_on(admin.create_topics(&topics, &options)).unwrap();
        made.into_iter().for_each(|made| drop(made.unwrap()));
    }

    /// Runs the commands of the documentation.
    fn grant(&self) {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/security.md");
        let page = std::fs::read_to_string(page).unwrap();
        let commands = page.lines().filter_map(|line| line.strip_prefix("kafka-acls.sh "));
        let commands: Vec<_> = commands.collect();
        assert!(commands.len() >= 4, "{commands:?}");
        let (address, admin) = (self.broker.address(), self.folder.path("admin.properties"));
        for words in commands {
            let words = words.replace("127.0.0.1:9092", &address);
            let login = ["--command-config", admin.to_str().unwrap()];
            let words: Vec<_> = words.split_whitespace().chain(login).collect();
            run_kafka_tool("org.apache.kafka.tools.AclCommand", &words);
        }
    }

    /// Flags of a user who logs in by a mechanism, with the password in a file.
    fn login(&self, mechanism: &str, user: &str) -> String {
        let address = self.broker.address();
        let how = match mechanism {
            "OAUTHBEARER" => format!(
                "--kafka sasl.oauthbearer.method=oidc --kafka sasl.oauthbearer.client.id={user} \
                 --kafka sasl.oauthbearer.scope=fleet \
                 --kafka sasl.oauthbearer.token.endpoint.url={}",
                self.issuer.url("token")
            ),
            _ => format!("--kafka sasl.username={user}"),
        };
        format!(
            "--brokers {address} --kafka security.protocol=SASL_SSL --kafka ssl.ca.location=ca.pem \
             --kafka sasl.mechanism={mechanism} --kafka-password-file password {how}"
        )
    }

    /// Sends samples to the topic as a user.
    #[track_caller]
    fn fill(&self, samples: i64, login: &str) {
        let words = format!(
            "simulate --mix 46,34,19,1 --devices 5 --samples {samples} --topic samples {login}"
        );
        self.folder.run(&words).ends(0);
    }

    /// Starts a `run` into a file, in a group of its own.
    fn run(&self, name: &str, login: &str) -> (Running, String) {
        let words = format!(
            "run {login} --topic samples --group tstar-{name} --store sqlite:{name}.db \
             --from earliest"
        );
        (Running::start(&mut self.folder.command(&words)), words)
    }

    /// Waits until a `run` has stored everything before this number of records.
    fn wait_for(&self, name: &str, records: i64) {
        until("everything to be read", || {
            let store = SqliteStore::open_reader(&self.folder.path(&format!("{name}.db"))).ok()?;
            let read = |partition| store.position_of(partition).ok().flatten().unwrap_or(0);
            ((0..PARTITIONS).map(read).sum::<i64>() == records).then_some(())
        });
    }
}

/// Stops a `run`, which has to have delivered this number of records.
#[track_caller]
fn stop((mut running, words): (Running, String), records: i64) {
    running.signal("TERM");
    let summary = running.ran(&words).ends(0).json();
    assert_eq!(i64::try_from(number(&summary["delivered"])).unwrap(), records);
}

#[test]
fn a_topic_is_filled_and_read_by_users_who_log_in() {
    let Some(mut cluster) = Cluster::start(&Authority::new("tstar tests")) else { return };
    let mut sent = 0;
    for (mechanism, name) in
        [("SCRAM-SHA-512", "scram"), ("PLAIN", "plain"), ("OAUTHBEARER", "oauth")]
    {
        cluster.fill(300, &cluster.login(mechanism, "tracker"));
        sent += 300;
        let running = cluster.run(name, &cluster.login(mechanism, "tstar"));
        cluster.wait_for(name, sent);
        if mechanism == "OAUTHBEARER" {
            // The broker ends connections whose token has expired.
            let issued = cluster.issuer.issued_to("tstar");
            until("more tokens", || {
                (cluster.issuer.issued_to("tstar") >= issued + 3).then_some(())
            });
            cluster.fill(300, &cluster.login("PLAIN", "tracker"));
            sent += 300;
            cluster.wait_for(name, sent);
        }
        stop(running, sent);
    }

    // Who may not log in, and who may not do this.
    cluster.folder.env("TSTAR_CONNECT_TIMEOUT", "4s");
    let folder = &cluster.folder;
    let fill = "simulate --mix 46,34,19,1 --devices 1 --samples 10 --topic";
    let tracker = |mechanism: &str| cluster.login(mechanism, "tracker");
    folder.write("wrong", "another-password");
    for (mechanism, said) in [
        ("SCRAM-SHA-512", "Authentication failed"),
        ("PLAIN", "Authentication failed"),
        ("OAUTHBEARER", "refuses with status 401: invalid_client wrong secret"),
    ] {
        let login = tracker(mechanism).replace("-file password", "-file wrong");
        let refused = folder.run(&format!("{fill} samples {login}")).ends(69);
        refused.says(&[said, &cluster.broker.address()]);
    }
    let denied = folder.run(&format!("{fill} secret {}", tracker("PLAIN"))).ends(78);
    denied.says(&["deny Describe on topic `secret`", "--operation Describe --topic secret"]);
    check_denials(&cluster);
    check_listeners(&cluster);
}

#[test]
#[ignore = "at night: tests/nightly/long"]
fn a_run_outlives_a_new_certificate_of_the_broker() {
    let (first, second) = (Authority::new("tstar tests"), Authority::new("tstar tests, later"));
    let Some(mut cluster) = Cluster::start(&first) else { return };
    cluster.folder.write("ca.pem", [first.pem(), second.pem()].concat());
    cluster.folder.write("later.pem", second.pem());
    let (tracker, tstar) =
        (cluster.login("PLAIN", "tracker"), cluster.login("SCRAM-SHA-512", "tstar"));
    cluster.fill(300, &tracker);
    let running = cluster.run("rotated", &tstar);
    cluster.wait_for("rotated", 300);

    // A client that trusts the new authority alone proves that the certificate is a new one.
    second.equip(&cluster.folder.path("broker"), &["127.0.0.1"]);
    cluster.broker.restart();
    cluster.broker.wait_until_heard(LIMIT);
    cluster.fill(300, &tracker.replace("=ca.pem", "=later.pem"));
    cluster.wait_for("rotated", 600);
    stop(running, 600);
}
