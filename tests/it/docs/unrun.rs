//! Blocks of commands that the tests of the documents do not run, each with a reason.

/// A block by its page and the start of its text, and why it is not run.
pub struct Unrun {
    pub page: &'static str,
    pub starts: &'static str,
    pub reason: &'static str,
}

const fn unrun(page: &'static str, starts: &'static str, reason: &'static str) -> Unrun {
    Unrun { page, starts, reason }
}

const KAFKA: &str = "needs Kafka: docs::kafka runs it";
const MINUTES: &str = "takes minutes";
const DOCKER: &str = "needs Docker: suite containers starts what the Compose file names";
const CQL: &str = "needs a CQL server: suites topic and control_keys run these commands";
const PACKAGES: &str =
    "needs packages, which take long to make: tests/nightly/packages installs them";
const PROGRAMS: &str = "needs other programs: suite export_readers runs it";

/// All blocks that are not run.
pub const UNRUN: &[Unrun] = &[
    unrun("README.md", "cargo install", "takes minutes, and writes outside of the test's folder"),
    unrun("README.md", "kafka-topics.sh", KAFKA),
    unrun("README.md", "tstar run", KAFKA),
    unrun("README.md", "tstar trips truck-17 --store sqlite:live.db", KAFKA),
    unrun("README.md", "tests/all", "this very run"),
    unrun("docs/contributing.md", "tests/all", "this very run"),
    unrun("docs/contributing.md", "TSTAR_TEST_CHAOS", MINUTES),
    unrun("docs/contributing.md", "cargo bench", MINUTES),
    unrun("docs/contributing.md", "TSTAR_WRITE_DOCS=1", "these very tests"),
    unrun("docs/data-out.md", "import", PROGRAMS),
    unrun("docs/data-out.md", "ogrinfo", PROGRAMS),
    unrun("docs/install.md", "sha256sum", PACKAGES),
    unrun("docs/install.md", "tar -xzf", PACKAGES),
    unrun("docs/install.md", "sudo apt", PACKAGES),
    unrun("docs/install.md", "sudo tstar config", PACKAGES),
    unrun("docs/install.md", "gunzip", PACKAGES),
    unrun("docs/install.md", "kubectl create", "needs a Kubernetes"),
    unrun("docs/install.md", "deploy/release", MINUTES),
    unrun("docs/kafka.md", "docker compose", DOCKER),
    unrun("docs/kafka.md", "kafka-topics.sh", KAFKA),
    unrun("docs/kafka.md", "tstar run", KAFKA),
    unrun("docs/kafka.md", "tstar trips truck-17 --store sqlite:live.db", KAFKA),
    unrun("docs/kafka.md", "$ curl", KAFKA),
    unrun("docs/kafka.md", "tstar lookup", KAFKA),
    unrun("docs/operations.md", "kafka-topics.sh", KAFKA),
    unrun("docs/operations.md", "tstar run", KAFKA),
    unrun("docs/operations.md", "tstar trips truck-17 --store sqlite:live.db", KAFKA),
    unrun("docs/operations.md", "$ printf '{\"device_id\":\"truck-17\"", KAFKA),
    unrun("docs/operations.md", "$ tstar epoch export", KAFKA),
    unrun(
        "docs/operations.md",
        "$ tstar forget truck-17 --before 2025-03-01T00:00:00Z --yes --wait",
        KAFKA,
    ),
    unrun("docs/security.md", "tstar run", CQL),
    unrun("docs/security.md", "tstar forget truck-17", CQL),
    unrun("docs/security.md", "kafka-acls.sh", "needs brokers that enforce ACLs"),
];
