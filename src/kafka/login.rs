//! How clients log in at the brokers beyond what librdkafka does by itself: with a password from a
//! file, and with OAuth tokens, which expire.
//!
//! librdkafka asks for tokens only where a client is polled, so a thread gives them to all clients
//! instead, also to those that only ask for metadata.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use rdkafka_extra::{HasClient, LoggedIn, Logins};

use super::token_endpoint::TokenEndpoint;
use crate::telemetry::clock_ms;

/// Option: the user of SCRAM and PLAIN.
const USER: &str = "sasl.username";

/// Option: its password.
const PASSWORD: &str = "sasl.password";

/// Delays before another request for a token, after one that failed.
const MIN_RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY: Duration = Duration::from_secs(30);

/// Maximum size of a password, bytes.
const MAX_SECRET_BYTES: u64 = 64 << 10;

/// The login of a program by OAuth tokens, for all of its clients.
pub(super) struct Login {
    logins: Logins,
    endpoint: TokenEndpoint,
    /// Why there is no new token.
    problem: Mutex<Option<String>>,
    /// Stops the thread when it is dropped.
    thread: OnceLock<Sender<()>>,
}

/// Reads a file with one secret, without the end of its line.
///
/// # Errors
/// The file cannot be read, or holds no secret.
pub(super) fn read_secret(path: &Path) -> Result<String, String> {
    use std::io::Read as _;
    let shown = path.display();
    let mut text = String::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(MAX_SECRET_BYTES).read_to_string(&mut text));
    read.map_err(|error| format!("kafka_password_file `{shown}` cannot be read: {error}"))?;
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.is_empty() || secret.contains(['\r', '\n', '\0']) {
        return Err(format!(
            "kafka_password_file `{shown}` has to hold one line with the password"
        ));
    }
    Ok(secret.to_owned())
}

impl Login {
    /// The login by tokens, if the options ask for one. Removes the options that librdkafka must
    /// not get, and adds the password of the file.
    ///
    /// # Errors
    /// The options contradict each other or the file, or the file cannot be read.
    pub(super) fn from_options(
        options: &mut BTreeMap<String, String>,
        password_file: Option<&Path>,
    ) -> Result<Option<Arc<Self>>, String> {
        if let Some(endpoint) = TokenEndpoint::take_from(options, password_file)? {
            let (logins, problem, thread) = Default::default();
            return Ok(Some(Arc::new(Self { logins, endpoint, problem, thread })));
        }
        let Some(file) = password_file else { return Ok(None) };
        if !options.contains_key(USER) {
            return Err(format!(
                "kafka_password_file is set, but no user: set `{USER}` with --kafka"
            ));
        }
        if options.insert(PASSWORD.to_owned(), read_secret(file)?).is_some() {
            return Err(format!("`{PASSWORD}` and kafka_password_file are both set; remove one"));
        }
        Ok(None)
    }

    /// Adds a client, which gets the token of now and all that follow.
    ///
    /// # Errors
    /// The client does not accept it.
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
        client.map_err(|error| format!("the client does not accept the token: {error}"))
    }

    /// Why there is no new token.
    pub(super) fn problem(&self) -> Option<String> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a problem, or that there is none, and logs it if it is a new one.
    fn report(&self, problem: Option<String>) {
        let mut noted = self.lock();
        if let Some(problem) = problem.as_ref().filter(|_| *noted != problem) {
            tracing::warn!(problem, "no new token for the brokers; the former one is used");
        }
        *noted = problem;
    }

    /// Gives the clients a new token; returns the time after which it is to be renewed.
    ///
    /// # Errors
    /// There is none, or a client does not accept it.
    async fn renew(&self) -> Result<Duration, String> {
        let token = self.endpoint.fetch().await?;
        let wait = until_renewal(token.expires_ms, clock_ms());
        let set = self.logins.set(token);
        set.map_err(|error| format!("the client does not accept the token: {error}"))?;
        Ok(wait)
    }
}

/// A token is renewed after four fifths of its life.
fn until_renewal(expires_ms: i64, now_ms: i64) -> Duration {
    let left = u64::try_from(expires_ms.saturating_sub(now_ms)).unwrap_or(0);
    Duration::from_millis(left / 5 * 4).max(MIN_RETRY)
}

/// The delay after this number of failures in a row.
fn retry_delay(failures: u32) -> Duration {
    MIN_RETRY.saturating_mul(1 << failures.min(10)).min(MAX_RETRY)
}

/// Renews the token for as long as there is a login.
fn keep(login: &Weak<Login>, stopped: &Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let mut failures = 0;
    loop {
        let Some(login) = login.upgrade() else { return };
        let renewed = match &runtime {
            Ok(runtime) => runtime.block_on(login.renew()),
            Err(error) => Err(format!("no request can be made to log in: {error}")),
        };
        let wait = match &renewed {
            Ok(wait) => {
                failures = 0;
                *wait
            }
            Err(_) => {
                failures += 1;
                retry_delay(failures - 1)
            }
        };
        login.report(renewed.err());
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
        let (has_token, used) = login("hunter2 \r\n", &[(USER, "ann")]).unwrap();
        assert!(!has_token);
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

    #[test]
    fn a_token_is_renewed_before_it_expires() {
        assert_eq!(until_renewal(1_000_000, 900_000), Duration::from_secs(80));
        for expires_ms in [900_000, 899_000, i64::MIN] {
            assert_eq!(until_renewal(expires_ms, 900_000), MIN_RETRY);
        }
    }

    #[test]
    fn a_token_is_asked_for_ever_more_rarely_while_that_fails() {
        let delays = [0, 1, 4, 5, u32::MAX].map(retry_delay);
        assert_eq!(delays.map(|delay| delay.as_secs()), [1, 2, 16, 30, 30]);
    }
}
