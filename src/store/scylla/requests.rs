//! Requests are tried again until they are acknowledged: every one of them may be repeated.

use std::error::Error;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use scylla::deserialize::{DeserializationError, TypeCheckError};
use scylla::errors::{
    ConnectionError, ConnectionPoolError, ConnectionSetupRequestErrorKind, DbError, ExecutionError,
    IntoRowsResultError, MetadataError, NewSessionError, PrepareError, RequestAttemptError,
    RowsError, UseKeyspaceError,
};

use super::{ScyllaUrl, ServerOptions};
use crate::store::StoreError;
use crate::telemetry;

/// The first wait between two tries; each is twice the one before.
const FIRST_WAIT: Duration = Duration::from_millis(50);

/// No wait is longer.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Waiting is told of at most this often.
const TELL_EVERY: Duration = Duration::from_secs(5);

type Cause = Box<dyn Error + Send + Sync>;

/// Why a request failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// Trying again may help.
    Transient(Cause),
    /// Trying again cannot help.
    Permanent(Cause),
    /// Nor can it where who asks may not.
    Denied(Cause),
}

/// What comes of trying again.
#[derive(Clone, Copy)]
enum Kind {
    Transient,
    Permanent,
    Denied,
}

impl Failure {
    fn new(kind: Kind, error: impl Error) -> Self {
        // The driver's errors tell what their causes tell: as a chain it would be told thrice.
        let cause = error.to_string().into();
        match kind {
            Kind::Transient => Self::Transient(cause),
            Kind::Permanent => Self::Permanent(cause),
            Kind::Denied => Self::Denied(cause),
        }
    }
}

fn of_server(error: &DbError) -> Kind {
    match error {
        DbError::AuthenticationError | DbError::Unauthorized => Kind::Denied,
        DbError::SyntaxError
        | DbError::Invalid
        | DbError::AlreadyExists { .. }
        | DbError::FunctionFailure { .. }
        | DbError::ConfigError
        | DbError::ProtocolError => Kind::Permanent,
        _ => Kind::Transient,
    }
}

fn of_attempt(error: &RequestAttemptError) -> Kind {
    match error {
        RequestAttemptError::SerializationError(_)
        | RequestAttemptError::CqlRequestSerialization(_)
        | RequestAttemptError::RepreparedIdChanged { .. } => Kind::Permanent,
        RequestAttemptError::DbError(error, _) => of_server(error),
        _ => Kind::Transient,
    }
}

/// Of a pool of connections, only a name or password that is refused lasts.
fn of_pool(error: &ConnectionPoolError) -> Kind {
    let ConnectionPoolError::Broken { last_connection_error } = error else {
        return Kind::Transient;
    };
    let ConnectionError::ConnectionSetupRequestError(setup) = last_connection_error else {
        return Kind::Transient;
    };
    match &setup.error {
        ConnectionSetupRequestErrorKind::MissingAuthentication => Kind::Denied,
        ConnectionSetupRequestErrorKind::DbError(error, _) => of_server(error),
        _ => Kind::Transient,
    }
}

fn of_prepare(error: &PrepareError) -> Kind {
    match error {
        PrepareError::AllAttemptsFailed { first_attempt } => of_attempt(first_attempt),
        PrepareError::ConnectionPoolError(error) => of_pool(error),
        _ => Kind::Transient,
    }
}

fn of_keyspace(error: &UseKeyspaceError) -> Kind {
    match error {
        UseKeyspaceError::BadKeyspaceName(_) => Kind::Permanent,
        UseKeyspaceError::RequestError(error) => of_attempt(error),
        _ => Kind::Transient,
    }
}

impl From<ExecutionError> for Failure {
    fn from(error: ExecutionError) -> Self {
        let kind = match &error {
            ExecutionError::BadQuery(_) => Kind::Permanent,
            ExecutionError::PrepareError(error) => of_prepare(error),
            ExecutionError::LastAttemptError(error) => of_attempt(error),
            ExecutionError::ConnectionPoolError(error) => of_pool(error),
            ExecutionError::UseKeyspaceError(error) => of_keyspace(error),
            _ => Kind::Transient,
        };
        Self::new(kind, error)
    }
}

impl From<NewSessionError> for Failure {
    fn from(error: NewSessionError) -> Self {
        let kind = match &error {
            NewSessionError::EmptyKnownNodesList | NewSessionError::IllegalConfig(_) => {
                Kind::Permanent
            }
            NewSessionError::MetadataError(MetadataError::ConnectionPoolError(error)) => {
                of_pool(error)
            }
            NewSessionError::UseKeyspaceError(error) => of_keyspace(error),
            _ => Kind::Transient,
        };
        Self::new(kind, error)
    }
}

impl From<PrepareError> for Failure {
    fn from(error: PrepareError) -> Self {
        Self::new(of_prepare(&error), error)
    }
}

impl From<UseKeyspaceError> for Failure {
    fn from(error: UseKeyspaceError) -> Self {
        Self::new(of_keyspace(&error), error)
    }
}

/// An answer of another form than asked for will not change.
macro_rules! permanent {
    ($($error:ty),+) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::Permanent(error.into())
            }
        })+
    };
}

permanent!(IntoRowsResultError, RowsError, TypeCheckError, DeserializationError, serde_json::Error);

/// How a store waits for its server.
pub(super) struct RetryPolicy {
    place: String,
    options: ServerOptions,
    told_at: Mutex<Option<Instant>>,
}

impl RetryPolicy {
    pub(super) fn new(place: &ScyllaUrl, options: ServerOptions) -> Self {
        Self { place: place.to_string(), options, told_at: Mutex::new(None) }
    }

    pub(super) fn url(&self) -> &str {
        &self.place
    }

    pub(super) fn options(&self) -> &ServerOptions {
        &self.options
    }

    /// Makes a request until it is acknowledged, always the same one.
    pub(super) async fn until_acknowledged<T, F>(
        &self,
        doing: &'static str,
        request: impl Fn() -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let began = Instant::now();
        let mut wait = FIRST_WAIT;
        loop {
            let cause = match request().await {
                Ok(answer) => return Ok(answer),
                Err(Failure::Permanent(source)) => {
                    let place = self.place.clone();
                    return Err(StoreError::Failed { place, doing, source });
                }
                Err(Failure::Denied(source)) => {
                    return Err(StoreError::Denied { place: self.place.clone(), source });
                }
                Err(Failure::Transient(cause)) => cause,
            };
            let left = self.options.patience.map(|patience| patience.checked_sub(began.elapsed()));
            if left == Some(None) || self.is_cancelled() {
                return Err(StoreError::Unreachable { place: self.place.clone(), source: cause });
            }
            telemetry::retried();
            self.log_retry(doing, &cause);
            // Between half of it and all: owners that failed together do not come back together.
            let jittered = wait.mul_f64(0.5 + fastrand::f64() / 2.0);
            self.pause(jittered.min(left.flatten().unwrap_or(jittered))).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    fn is_cancelled(&self) -> bool {
        self.options.cancelled.as_ref().is_some_and(|cancelled| *cancelled.borrow())
    }

    /// Waits so long, or until it is cancelled.
    async fn pause(&self, wait: Duration) {
        let Some(cancelled) = &self.options.cancelled else {
            return tokio::time::sleep(wait).await;
        };
        let mut cancelled = cancelled.clone();
        // Where the other end is gone nobody cancels: the whole wait then.
        let asked = async {
            if cancelled.wait_for(|cancelled| *cancelled).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::time::timeout(wait, asked).await.ok();
    }

    fn log_retry(&self, doing: &str, cause: &Cause) {
        let mut told_at = self.told_at.lock().expect("no holder of the lock panics");
        if told_at.is_none_or(|at| at.elapsed() >= TELL_EVERY) {
            *told_at = Some(Instant::now());
            drop(told_at);
            let place = &self.place;
            (self.options.on_waiting)(&format!(
                "waiting for the store: `{place}` does not answer while {doing}: {cause}"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::watch;

    use super::*;

    fn retry(options: ServerOptions) -> RetryPolicy {
        let place = ScyllaUrl { nodes: vec!["a:9042".into()], keyspace: "fleet".into() };
        RetryPolicy::new(&place, options)
    }

    fn timeout() -> ExecutionError {
        ExecutionError::RequestTimeout(Duration::from_secs(1))
    }

    fn refused(error: DbError) -> ExecutionError {
        RequestAttemptError::DbError(error, "no".into()).into()
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(future)
    }

    /// Fails so often, then answers with how often it was asked.
    async fn failing_request(
        retry: &RetryPolicy,
        failures: u32,
        error: ExecutionError,
    ) -> Result<u32, StoreError> {
        let asked = AtomicU32::new(0);
        let request = || async {
            let before = asked.fetch_add(1, Ordering::Relaxed);
            if before < failures { Err(error.clone().into()) } else { Ok(before + 1) }
        };
        retry.until_acknowledged("testing", request).await
    }

    #[test]
    fn a_request_is_made_until_it_is_acknowledged_and_waiting_is_told_once() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&told);
        let on_waiting = move |line: &str| lines.lock().unwrap().push(line.to_owned());
        let options = ServerOptions { on_waiting: Arc::new(on_waiting), ..Default::default() };
        assert_eq!(block_on(failing_request(&retry(options), 3, timeout())).unwrap(), 4);
        let told = told.lock().unwrap();
        assert_eq!(told.len(), 1, "{told:?}");
        let begins = "waiting for the store: `scylla://a:9042/fleet` does not answer while testing";
        assert!(told[0].starts_with(begins), "{told:?}");
    }

    #[test]
    fn what_the_server_refuses_is_not_asked_again() {
        let retry = retry(ServerOptions::default());
        for error in [
            refused(DbError::Invalid),
            refused(DbError::SyntaxError),
            PrepareError::AllAttemptsFailed {
                first_attempt: RequestAttemptError::DbError(DbError::Invalid, "no".into()),
            }
            .into(),
        ] {
            let ended = block_on(failing_request(&retry, 1, error));
            assert!(matches!(ended, Err(StoreError::Failed { .. })), "{ended:?}");
        }
        for error in [refused(DbError::Unauthorized), refused(DbError::AuthenticationError)] {
            let ended = block_on(failing_request(&retry, 1, error));
            assert!(matches!(ended, Err(StoreError::Denied { .. })), "{ended:?}");
        }
        for error in [
            refused(DbError::Overloaded),
            refused(DbError::ServerError),
            refused(DbError::IsBootstrapping),
            ExecutionError::EmptyPlan,
            ConnectionPoolError::Initializing.into(),
            RequestAttemptError::UnableToAllocStreamId.into(),
        ] {
            assert_eq!(block_on(failing_request(&retry, 1, error)).unwrap(), 2);
        }
    }

    #[test]
    fn patience_and_a_sign_from_outside_end_the_waiting() {
        let patience = Some(Duration::from_millis(80));
        let began = Instant::now();
        let impatient = retry(ServerOptions { patience, ..Default::default() });
        let ended = block_on(failing_request(&impatient, u32::MAX, timeout()));
        assert!(matches!(ended, Err(StoreError::Unreachable { .. })), "{ended:?}");
        assert!(began.elapsed() >= Duration::from_millis(80));

        let (cancel, cancelled) = watch::channel(false);
        let options = ServerOptions { cancelled: Some(cancelled), ..Default::default() };
        let retry = retry(options);
        let ended = block_on(async {
            let asked = async { cancel.send(true).unwrap() };
            let (ended, ()) = tokio::join!(failing_request(&retry, u32::MAX, timeout()), asked);
            ended
        });
        assert!(matches!(ended, Err(StoreError::Unreachable { .. })), "{ended:?}");
    }
}
