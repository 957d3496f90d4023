//! Retries requests to the server until they are acknowledged, with growing pauses. Every request
//! may be repeated safely.

use std::error::Error;
use std::pin::pin;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, select};
use scylla::deserialize::{DeserializationError, TypeCheckError};
use scylla::errors::{
    ConnectionError, ConnectionPoolError, ConnectionSetupRequestErrorKind, DbError, ExecutionError,
    IntoRowsResultError, MetadataError, NewSessionError, PrepareError, RequestAttemptError,
    RowsError, UseKeyspaceError,
};

use super::cql::Cql;
use super::{ScyllaUrl, ServerOptions};
use crate::store::{Result, StoreError};
use crate::telemetry;

/// Delay before the first retry; each further delay is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(50);

/// Maximum delay before a retry.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Minimum interval between two reports about retries.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

type Cause = Box<dyn Error + Send + Sync>;

/// Why a request failed.
#[derive(Debug)]
pub enum Failure {
    /// A retry may help.
    Transient(Cause),
    /// A retry cannot help.
    Permanent(Cause),
    /// The login or a permission is missing; a retry cannot help.
    Denied(Cause),
}

/// The variant of [`Failure`] that an error is.
type Kind = fn(Cause) -> Failure;

impl Failure {
    fn new(kind: Kind, error: impl Error) -> Self {
        // The text of a driver's error contains those of its causes; a chain would repeat them.
        kind(error.to_string().into())
    }
}

fn kind_of_db_error(error: &DbError) -> Kind {
    match error {
        DbError::AuthenticationError | DbError::Unauthorized => Failure::Denied,
        DbError::SyntaxError
        | DbError::Invalid
        | DbError::AlreadyExists { .. }
        | DbError::FunctionFailure { .. }
        | DbError::ConfigError
        | DbError::ProtocolError => Failure::Permanent,
        _ => Failure::Transient,
    }
}

fn kind_of_attempt(error: &RequestAttemptError) -> Kind {
    match error {
        RequestAttemptError::SerializationError(_)
        | RequestAttemptError::CqlRequestSerialization(_)
        | RequestAttemptError::RepreparedIdChanged { .. } => Failure::Permanent,
        RequestAttemptError::DbError(error, _) => kind_of_db_error(error),
        _ => Failure::Transient,
    }
}

/// Of the failures of a connection pool only a rejected login is permanent.
fn kind_of_pool_error(error: &ConnectionPoolError) -> Kind {
    let ConnectionPoolError::Broken { last_connection_error } = error else {
        return Failure::Transient;
    };
    let ConnectionError::ConnectionSetupRequestError(setup) = last_connection_error else {
        return Failure::Transient;
    };
    match &setup.error {
        ConnectionSetupRequestErrorKind::MissingAuthentication => Failure::Denied,
        ConnectionSetupRequestErrorKind::DbError(error, _) => kind_of_db_error(error),
        _ => Failure::Transient,
    }
}

fn kind_of_prepare_error(error: &PrepareError) -> Kind {
    match error {
        PrepareError::AllAttemptsFailed { first_attempt } => kind_of_attempt(first_attempt),
        PrepareError::ConnectionPoolError(error) => kind_of_pool_error(error),
        _ => Failure::Transient,
    }
}

fn kind_of_keyspace_error(error: &UseKeyspaceError) -> Kind {
    match error {
        UseKeyspaceError::BadKeyspaceName(_) => Failure::Permanent,
        UseKeyspaceError::RequestError(error) => kind_of_attempt(error),
        _ => Failure::Transient,
    }
}

impl From<ExecutionError> for Failure {
    fn from(error: ExecutionError) -> Self {
        let kind = match &error {
            ExecutionError::BadQuery(_) => Failure::Permanent,
            ExecutionError::PrepareError(error) => kind_of_prepare_error(error),
            ExecutionError::LastAttemptError(error) => kind_of_attempt(error),
            ExecutionError::ConnectionPoolError(error) => kind_of_pool_error(error),
            ExecutionError::UseKeyspaceError(error) => kind_of_keyspace_error(error),
            _ => Failure::Transient,
        };
        Self::new(kind, error)
    }
}

impl From<NewSessionError> for Failure {
    fn from(error: NewSessionError) -> Self {
        let kind = match &error {
            NewSessionError::EmptyKnownNodesList | NewSessionError::IllegalConfig(_) => {
                Failure::Permanent
            }
            NewSessionError::MetadataError(MetadataError::ConnectionPoolError(error)) => {
                kind_of_pool_error(error)
            }
            NewSessionError::UseKeyspaceError(error) => kind_of_keyspace_error(error),
            _ => Failure::Transient,
        };
        Self::new(kind, error)
    }
}

impl From<PrepareError> for Failure {
    fn from(error: PrepareError) -> Self {
        Self::new(kind_of_prepare_error(&error), error)
    }
}

impl From<UseKeyspaceError> for Failure {
    fn from(error: UseKeyspaceError) -> Self {
        Self::new(kind_of_keyspace_error(&error), error)
    }
}

/// An answer that cannot be decoded is permanent.
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

/// Retries the requests of a session, with backoff and jitter.
pub(super) struct RetryPolicy {
    url: String,
    options: ServerOptions,
    reported_at: Mutex<Option<Instant>>,
    pause: fn(Duration) -> BoxFuture<'static, ()>,
}

impl RetryPolicy {
    pub(super) fn new<C: Cql>(url: &ScyllaUrl, options: ServerOptions) -> Self {
        Self { url: url.to_string(), options, reported_at: Mutex::new(None), pause: C::pause }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn options(&self) -> &ServerOptions {
        &self.options
    }

    /// Makes the same request until it is acknowledged.
    pub(super) async fn until_acknowledged<T, F>(
        &self,
        doing: &'static str,
        request: impl Fn() -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let began = Instant::now();
        let mut wait = FIRST_WAIT;
        loop {
            let cause = match request().await {
                Ok(answer) => return Ok(answer),
                Err(Failure::Permanent(source)) => {
                    let location = self.url.clone();
                    return Err(StoreError::Failed { location, doing, source });
                }
                Err(Failure::Denied(source)) => {
                    return Err(StoreError::Denied { location: self.url.clone(), source });
                }
                Err(Failure::Transient(cause)) => cause,
            };
            let left = self.options.patience.map(|patience| patience.checked_sub(began.elapsed()));
            if left == Some(None) || self.is_cancelled() {
                return Err(StoreError::Unreachable { location: self.url.clone(), source: cause });
            }
            telemetry::retried();
            self.report_retry(doing, &cause);
            // Between half of the delay and all of it, so that workers do not retry at the same
            // time.
            let jittered = wait.mul_f64(0.5 + fastrand::f64() / 2.0);
            self.pause(jittered.min(left.flatten().unwrap_or(jittered))).await;
            wait = (wait * 2).min(MAX_WAIT);
        }
    }

    fn is_cancelled(&self) -> bool {
        self.options.cancelled.as_ref().is_some_and(|cancelled| *cancelled.borrow())
    }

    /// Waits for a delay or until cancelled.
    async fn pause(&self, wait: Duration) {
        let Some(cancelled) = &self.options.cancelled else {
            return (self.pause)(wait).await;
        };
        let mut cancelled = cancelled.clone();
        // If the sender was dropped, nothing can cancel: wait for the whole delay.
        let cancellation = async {
            if cancelled.wait_for(|cancelled| *cancelled).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        select((self.pause)(wait), pin!(cancellation)).await;
    }

    fn report_retry(&self, doing: &str, cause: &Cause) {
        let mut reported_at = self.reported_at.lock().expect("no holder of the lock panics");
        if reported_at.is_none_or(|at| at.elapsed() >= REPORT_INTERVAL) {
            *reported_at = Some(Instant::now());
            drop(reported_at);
            let url = &self.url;
            (self.options.on_waiting)(&format!(
                "waiting for the store: `{url}` does not answer while {doing}: {cause}"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use scylla::client::session::Session;
    use tokio::sync::watch;

    use super::*;

    fn retry(options: ServerOptions) -> RetryPolicy {
        let url = ScyllaUrl { nodes: vec!["a:9042".into()], keyspace: "fleet".into() };
        RetryPolicy::new::<Session>(&url, options)
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

    /// Makes a request that fails `failures` times, then answers with the number of attempts.
    async fn failing_request(
        retry: &RetryPolicy,
        failures: u32,
        error: ExecutionError,
    ) -> Result<u32> {
        let attempts = AtomicU32::new(0);
        let request = || async {
            let before = attempts.fetch_add(1, Ordering::Relaxed);
            if before < failures { Err(error.clone().into()) } else { Ok(before + 1) }
        };
        retry.until_acknowledged("testing", request).await
    }

    #[test]
    fn a_request_is_retried_until_it_is_acknowledged_and_reported_once() {
        let reports = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&reports);
        let on_waiting = move |line: &str| lines.lock().unwrap().push(line.to_owned());
        let options = ServerOptions { on_waiting: Arc::new(on_waiting), ..Default::default() };
        assert_eq!(block_on(failing_request(&retry(options), 3, timeout())).unwrap(), 4);
        let reports = reports.lock().unwrap();
        assert_eq!(reports.len(), 1, "{reports:?}");
        let expected =
            "waiting for the store: `scylla://a:9042/fleet` does not answer while testing";
        assert!(reports[0].starts_with(expected), "{reports:?}");
    }

    #[test]
    fn permanent_failures_are_not_retried() {
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
    fn patience_and_cancellation_end_the_retries() {
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
            let cancellation = async { cancel.send(true).unwrap() };
            let (ended, ()) =
                tokio::join!(failing_request(&retry, u32::MAX, timeout()), cancellation);
            ended
        });
        assert!(matches!(ended, Err(StoreError::Unreachable { .. })), "{ended:?}");
    }
}
