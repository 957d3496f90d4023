//! How clients log in at the brokers, with credentials that change while they run: a password in a
//! file, which is read again, and OAuth tokens, which expire.
//!
//! librdkafka asks for tokens only where a client is polled, so a thread gives them to all clients
//! instead, also to those that only ask for metadata.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use rdkafka_extra::{Credentials, HasClient, LoggedIn, Logins};

use super::token_endpoint::TokenEndpoint;
use crate::telemetry::clock_ms;

/// Option: the user of SCRAM and PLAIN.
const USER: &str = "sasl.username";

/// Option: its password.
const PASSWORD: &str = "sasl.password";

/// Time after which a password file is read again.
const FILE_INTERVAL: Duration = Duration::from_secs(5);

/// Delays before another request for a token, after one that failed.
const MIN_RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY: Duration = Duration::from_secs(30);

/// Maximum size of a password, bytes.
const MAX_SECRET_BYTES: u64 = 64 << 10;

/// The login of a program at the brokers, for all of its clients.
pub(super) struct Login {
    logins: Logins,
    source: Source,
    /// Why there are no new credentials.
    problem: Mutex<Option<String>>,
    /// Stops the thread when it is dropped.
    thread: OnceLock<Sender<()>>,
}

enum Source {
    PasswordFile { user: String, file: SecretFile, password: Mutex<String> },
    Tokens(TokenEndpoint),
}

/// A file with one secret, which may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SecretFile(PathBuf);

impl SecretFile {
    /// Reads the secret, without the end of its line.
    ///
    /// # Errors
    /// The file cannot be read, or holds no secret.
    pub(super) fn read(&self) -> Result<String, String> {
        use std::io::Read as _;
        let path = self.0.display();
        let mut text = String::new();
        let read = std::fs::File::open(&self.0)
            .and_then(|file| file.take(MAX_SECRET_BYTES).read_to_string(&mut text));
        read.map_err(|error| format!("kafka_password_file `{path}` cannot be read: {error}"))?;
        let secret = text.trim_end_matches(['\r', '\n']);
        if secret.is_empty() || secret.contains(['\r', '\n', '\0']) {
            return Err(format!(
                "kafka_password_file `{path}` has to hold one line with the password"
            ));
        }
        Ok(secret.to_owned())
    }
}

impl Login {
    /// The login that options need beyond those of librdkafka, if they need any. Removes the
    /// options that librdkafka must not get, and adds the password of the file.
    ///
    /// # Errors
    /// The options contradict each other or the file, or the file cannot be read.
    pub(super) fn from_options(
        options: &mut BTreeMap<String, String>,
        password_file: Option<&Path>,
    ) -> Result<Option<Arc<Self>>, String> {
        let file = password_file.map(|path| SecretFile(path.to_owned()));
        let source = match (TokenEndpoint::take_from(options, file.clone())?, file) {
            (Some(endpoint), _) => Source::Tokens(endpoint),
            (None, None) => return Ok(None),
            (None, Some(file)) => {
                let Some(user) = options.get(USER).cloned() else {
                    return Err(format!(
                        "kafka_password_file is set, but no user: set `{USER}` with --kafka"
                    ));
                };
                let password = file.read()?;
                if options.insert(PASSWORD.to_owned(), password.clone()).is_some() {
                    return Err(format!(
                        "`{PASSWORD}` and kafka_password_file are both set; remove one"
                    ));
                }
                Source::PasswordFile { user, file, password: Mutex::new(password) }
            }
        };
        let (logins, problem, thread) = Default::default();
        Ok(Some(Arc::new(Self { logins, source, problem, thread })))
    }

    /// Adds a client, which gets the credentials of now and all that follow.
    ///
    /// # Errors
    /// The client does not accept them.
    pub(super) fn add<T: HasClient>(self: &Arc<Self>, client: T) -> Result<LoggedIn<T>, String> {
        let client = self.logins.add(client);
        self.thread.get_or_init(|| {
            let (stop, stopped) = channel();
            let login = Arc::downgrade(self);
            let thread = thread::Builder::new().name("kafka-login".into());
            if let Err(error) = thread.spawn(move || keep(&login, &stopped)) {
                self.report(Some(format!("no thread can be started to log in: {error}")));
            }
            stop
        });
        client.map_err(|error| format!("the client does not accept the login: {error}"))
    }

    /// Why there are no new credentials.
    pub(super) fn problem(&self) -> Option<String> {
        lock(&self.problem).clone()
    }

    /// Notes a problem, or that there is none, and logs it if it is a new one.
    fn report(&self, problem: Option<String>) {
        let mut noted = lock(&self.problem);
        if let Some(problem) = problem.as_ref().filter(|_| *noted != problem) {
            tracing::warn!(problem, "no new credentials for the brokers; the former ones are used");
        }
        *noted = problem;
    }

    /// The password or token of now, if it is a new one, and the time after which to ask again.
    async fn next(&self, failures: u32) -> (Result<Option<Credentials>, String>, Duration) {
        match &self.source {
            Source::PasswordFile { user, file, password } => {
                let credentials = file.read().map(|read| {
                    let mut known = lock(password);
                    let is_new = *known != read;
                    known.clone_from(&read);
                    let user = user.clone();
                    is_new.then_some(Credentials::Password { user, password: read })
                });
                (credentials, FILE_INTERVAL)
            }
            Source::Tokens(endpoint) => match endpoint.fetch().await {
                Ok((credentials, expires_ms)) => {
                    (Ok(Some(credentials)), until_renewal(expires_ms, clock_ms()))
                }
                Err(problem) => {
                    let wait = MIN_RETRY.saturating_mul(1 << failures.min(10)).min(MAX_RETRY);
                    (Err(problem), wait)
                }
            },
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A token is renewed after four fifths of its life.
fn until_renewal(expires_ms: i64, now_ms: i64) -> Duration {
    let left = u64::try_from(expires_ms.saturating_sub(now_ms)).unwrap_or(0);
    Duration::from_millis(left / 5 * 4).max(MIN_RETRY)
}

/// Sets new credentials for as long as there is a login.
fn keep(login: &Weak<Login>, stopped: &Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let mut failures = 0;
    loop {
        let Some(login) = login.upgrade() else { return };
        let wait = match &runtime {
            Ok(runtime) => {
                let (next, wait) = runtime.block_on(login.next(failures));
                let set = next.and_then(|credentials| {
                    let set = credentials.map_or(Ok(()), |it| login.logins.set(it));
                    set.map_err(|error| format!("the client does not accept the login: {error}"))
                });
                failures = if set.is_ok() { 0 } else { failures + 1 };
                login.report(set.err());
                wait
            }
            Err(error) => {
                login.report(Some(format!("no request can be made to log in: {error}")));
                MAX_RETRY
            }
        };
        drop(login);
        if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_password_file_has_one_line_and_a_user() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        let login = |content: &str, pairs: &[(&str, &str)]| {
            std::fs::write(&path, content).unwrap();
            let mut options = options(pairs);
            Login::from_options(&mut options, Some(&path)).map(|login| (login.is_some(), options))
        };
        let (is_kept, used) = login("hunter2 \r\n", &[(USER, "ann")]).unwrap();
        assert!(is_kept);
        assert_eq!(used[PASSWORD], "hunter2 ");
        for (content, pairs, why) in [
            ("hunter2", &[] as &[(&str, &str)], "set `sasl.username`"),
            ("hunter2", &[(USER, "ann"), (PASSWORD, "x")], "are both set"),
            ("\n", &[(USER, "ann")], "one line with the password"),
            ("a\nhunter2", &[(USER, "ann")], "one line with the password"),
        ] {
            let problem = login(content, pairs).unwrap_err();
            assert!(problem.contains(why) && !problem.contains("hunter2"), "{problem}");
        }
        std::fs::remove_file(&path).unwrap();
        let login = Login::from_options(&mut options(&[(USER, "ann")]), Some(&path));
        let Err(problem) = login else { panic!("a login without a password") };
        assert!(problem.contains("cannot be read"), "{problem}");
        assert!(Login::from_options(&mut options(&[(USER, "ann")]), None).unwrap().is_none());
    }

    #[tokio::test]
    async fn a_changed_password_is_new_once_and_a_broken_file_keeps_the_former() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        std::fs::write(&path, "first").unwrap();
        let login =
            Login::from_options(&mut options(&[(USER, "ann")]), Some(&path)).unwrap().unwrap();
        assert_eq!(login.next(0).await.0, Ok(None));
        std::fs::write(&path, "second\n").unwrap();
        let second = Credentials::Password { user: "ann".into(), password: "second".into() };
        assert_eq!(login.next(0).await.0, Ok(Some(second)));
        assert_eq!(login.next(0).await.0, Ok(None));
        std::fs::write(&path, "").unwrap();
        assert!(login.next(0).await.0.is_err());
        std::fs::write(&path, "second").unwrap();
        assert_eq!(login.next(0).await.0, Ok(None));
    }

    #[test]
    fn a_token_is_renewed_before_it_expires() {
        assert_eq!(until_renewal(1_000_000, 900_000), Duration::from_secs(80));
        for expires_ms in [900_000, 899_000, i64::MIN] {
            assert_eq!(until_renewal(expires_ms, 900_000), MIN_RETRY);
        }
    }
}
