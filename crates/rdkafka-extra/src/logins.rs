//! Credentials of clients that are in use.

use std::ffi::{CStr, CString, NulError, c_char};
use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::admin::AdminClient;
use rdkafka::bindings as sys;
use rdkafka::client::ClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::producer::{FutureProducer, Producer, ProducerContext, ThreadedProducer};
use rdkafka::types::RDKafkaRespErr;
use rdkafka::util::AsyncRuntime;

/// What a client logs in with.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// For SCRAM and PLAIN.
    Password {
        /// Name of the user.
        user: String,
        /// Its password.
        password: String,
    },
    /// For OAUTHBEARER.
    Token {
        /// The token.
        token: String,
        /// Name of the user. Brokers decide by the token only.
        principal: String,
        /// When the token expires, ms since 1970.
        expires_ms: i64,
        /// SASL extensions (RFC 7628).
        extensions: Vec<(String, String)>,
    },
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Password { .. } => "Password",
            Self::Token { .. } => "Token",
        })
    }
}

/// librdkafka does not accept credentials: why, without them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAccepted(pub String);

impl fmt::Display for NotAccepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotAccepted {}

impl From<NulError> for NotAccepted {
    /// The error itself has the bytes.
    fn from(_: NulError) -> Self {
        Self("they contain a NUL".into())
    }
}

/// The clients of one login. All of them get its credentials, also those that are added later.
#[derive(Clone, Default)]
pub struct Logins(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    clients: Vec<Client>,
    credentials: Option<Credentials>,
}

/// A client that lives: its [`LoggedIn`] removes it from the list before it is destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Client(NonNull<sys::rd_kafka_t>);

// SAFETY: librdkafka's clients may be used from any thread, and from several.
unsafe impl Send for Client {}

// SAFETY: as above.
unsafe impl Sync for Client {}

impl fmt::Debug for Logins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Logins of {} clients", self.lock().clients.len())
    }
}

impl Logins {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a client. It logs in with the credentials set last, if there are any.
    ///
    /// # Errors
    /// librdkafka does not accept the credentials for this client.
    pub fn add<T: HasClient>(&self, client: T) -> Result<LoggedIn<T>, NotAccepted> {
        let native = client.native().map(Client);
        let mut state = self.lock();
        if let Some(native) = native {
            state.credentials.as_ref().map_or(Ok(()), |it| native.set(it))?;
            state.clients.push(native);
        }
        drop(state);
        let entry = native.map(|native| Entry { logins: self.clone(), native });
        Ok(LoggedIn { _entry: entry, client })
    }

    /// Sets the credentials of all clients. Connections log in with them from now on; those that
    /// are logged in stay so until the broker asks again.
    ///
    /// # Errors
    /// librdkafka does not accept them for a client. The others have them.
    pub fn set(&self, credentials: Credentials) -> Result<(), NotAccepted> {
        let mut state = self.lock();
        // The lock keeps the clients alive.
        let set: Vec<_> = state.clients.iter().map(|client| client.set(&credentials)).collect();
        state.credentials = Some(credentials);
        set.into_iter().collect()
    }
}

impl Client {
    fn set(self, credentials: &Credentials) -> Result<(), NotAccepted> {
        match credentials {
            Credentials::Password { user, password } => self.set_password(user, password),
            Credentials::Token { token, principal, expires_ms, extensions } => {
                self.set_token(token, principal, *expires_ms, extensions)
            }
        }
    }

    fn set_password(self, user: &str, password: &str) -> Result<(), NotAccepted> {
        let (user, password) = (CString::new(user)?, CString::new(password)?);
        // SAFETY: the caller has a client that lives, and librdkafka copies both texts.
        let error = unsafe {
            sys::rd_kafka_sasl_set_credentials(self.0.as_ptr(), user.as_ptr(), password.as_ptr())
        };
        let Some(error) = NonNull::new(error) else { return Ok(()) };
        // SAFETY: the error is ours until it is destroyed; so below.
        let text = unsafe { sys::rd_kafka_error_string(error.as_ptr()) };
        // SAFETY: librdkafka's texts end with a NUL.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        // SAFETY: it is not used after this.
        unsafe { sys::rd_kafka_error_destroy(error.as_ptr()) }
        Err(NotAccepted(text))
    }

    fn set_token(
        self,
        token: &str,
        principal: &str,
        expires_ms: i64,
        extensions: &[(String, String)],
    ) -> Result<(), NotAccepted> {
        let (token, principal) = (CString::new(token)?, CString::new(principal)?);
        let extensions = extensions.iter().flat_map(|(name, value)| [&**name, &**value]);
        let extensions = extensions.map(CString::new).collect::<Result<Vec<_>, _>>()?;
        let mut pointers: Vec<*const c_char> = extensions.iter().map(|it| it.as_ptr()).collect();
        let mut why: [c_char; 512] = [0; 512];
        // SAFETY: the caller has a client that lives, librdkafka copies the texts, and writes at
        // most the given length of the reason, which it ends with a NUL.
        let code = unsafe {
            sys::rd_kafka_oauthbearer_set_token(
                self.0.as_ptr(),
                token.as_ptr(),
                expires_ms,
                principal.as_ptr(),
                pointers.as_mut_ptr(),
                pointers.len(),
                why.as_mut_ptr(),
                why.len(),
            )
        };
        if code == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
            return Ok(());
        }
        // SAFETY: it ends with a NUL, which it was full of.
        let why = unsafe { CStr::from_ptr(why.as_ptr()) };
        Err(NotAccepted(why.to_string_lossy().into_owned()))
    }
}

/// A client whose credentials change with its [`Logins`].
pub struct LoggedIn<T> {
    /// Dropped first.
    _entry: Option<Entry>,
    client: T,
}

impl<T> Deref for LoggedIn<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.client
    }
}

impl<T> From<T> for LoggedIn<T> {
    /// A client whose credentials do not change.
    fn from(client: T) -> Self {
        Self { _entry: None, client }
    }
}

struct Entry {
    logins: Logins,
    native: Client,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.logins.lock().clients.retain(|client| *client != self.native);
    }
}

/// A client of rdkafka.
pub trait HasClient: sealed::Native {}

impl<T: sealed::Native> HasClient for T {}

mod sealed {
    use super::{NonNull, sys};

    /// Only for types of which the pointer is known to be valid as long as they live.
    pub trait Native {
        /// The client of librdkafka.
        fn native(&self) -> Option<NonNull<sys::rd_kafka_t>>;
    }
}

impl<C: ConsumerContext> sealed::Native for BaseConsumer<C> {
    fn native(&self) -> Option<NonNull<sys::rd_kafka_t>> {
        NonNull::new(self.client().native_ptr())
    }
}

impl<C: ClientContext> sealed::Native for AdminClient<C> {
    fn native(&self) -> Option<NonNull<sys::rd_kafka_t>> {
        NonNull::new(self.inner().native_ptr())
    }
}

impl<C: ClientContext + 'static, R: AsyncRuntime> sealed::Native for FutureProducer<C, R> {
    fn native(&self) -> Option<NonNull<sys::rd_kafka_t>> {
        NonNull::new(self.client().native_ptr())
    }
}

impl<C: ProducerContext + 'static> sealed::Native for ThreadedProducer<C> {
    fn native(&self) -> Option<NonNull<sys::rd_kafka_t>> {
        NonNull::new(self.client().native_ptr())
    }
}

#[cfg(test)]
#[path = "logins_tests.rs"]
mod tests;
