//! OAuth tokens of clients that are in use.

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

/// What a client logs in with by OAUTHBEARER.
#[derive(Clone, PartialEq, Eq)]
pub struct OAuthToken {
    /// The token.
    pub token: String,
    /// Name of the user. Brokers decide by the token only.
    pub principal: String,
    /// When the token expires, ms since 1970.
    pub expires_ms: i64,
    /// SASL extensions (RFC 7628).
    pub extensions: Vec<(String, String)>,
}

impl fmt::Debug for OAuthToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthToken").field("expires_ms", &self.expires_ms).finish_non_exhaustive()
    }
}

/// librdkafka does not accept a token: why, without the token.
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
        Self("it contains a NUL".into())
    }
}

/// The clients of one login. All of them get its token, also those that are added later.
#[derive(Clone, Default)]
pub struct Logins(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    clients: Vec<Client>,
    token: Option<OAuthToken>,
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

    /// Adds a client. It logs in with the token set last, if there is one.
    ///
    /// # Errors
    /// librdkafka does not accept the token for this client.
    pub fn add<T: HasClient>(&self, client: T) -> Result<LoggedIn<T>, NotAccepted> {
        let native = client.native().map(Client);
        let mut state = self.lock();
        if let Some(native) = native {
            state.token.as_ref().map_or(Ok(()), |token| native.set(token))?;
            state.clients.push(native);
        }
        drop(state);
        let entry = native.map(|native| Entry { logins: self.clone(), native });
        Ok(LoggedIn { _entry: entry, client })
    }

    /// Sets the token of all clients. Connections log in with it from now on; those that are logged
    /// in stay so until the broker asks again.
    ///
    /// # Errors
    /// librdkafka does not accept it for a client. The others have it.
    pub fn set(&self, token: OAuthToken) -> Result<(), NotAccepted> {
        let mut state = self.lock();
        // The lock keeps the clients alive.
        let set: Vec<_> = state.clients.iter().map(|client| client.set(&token)).collect();
        state.token = Some(token);
        set.into_iter().collect()
    }
}

impl Client {
    fn set(self, given: &OAuthToken) -> Result<(), NotAccepted> {
        let OAuthToken { token, principal, expires_ms, extensions } = given;
        let (token, principal) = (CString::new(&**token)?, CString::new(&**principal)?);
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
                *expires_ms,
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

/// A client whose token changes with its [`Logins`].
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
    /// A client that needs no token.
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
