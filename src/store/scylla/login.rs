//! The login at CQL nodes, with a password in a file that may change while a session is open: each
//! new connection logs in with the password of that moment.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};

use scylla::authentication::{AuthenticatorProvider, AuthenticatorSession, PlainTextAuthenticator};
use scylla::errors::AuthError;

/// The first response of a login, and what continues it.
type Started = Result<(Option<Vec<u8>>, Box<dyn AuthenticatorSession>), AuthError>;

/// Logs in with the password in a file.
pub(super) struct FileLogin {
    user: String,
    file: PathBuf,
    /// As last read: used where the file cannot be read.
    password: Mutex<String>,
}

impl FileLogin {
    /// `password` is what the file held when it was read first.
    pub(super) fn new(user: &str, file: PathBuf, password: &str) -> Self {
        Self { user: user.to_owned(), file, password: Mutex::new(password.to_owned()) }
    }

    fn password(&self) -> String {
        let mut password = self.password.lock().unwrap_or_else(PoisonError::into_inner);
        match std::fs::read_to_string(&self.file) {
            Ok(text) => text.trim_end_matches(['\n', '\r']).clone_into(&mut password),
            Err(error) => {
                let file = self.file.display();
                tracing::warn!(%error, "cql_password_file `{file}` cannot be read; the password of before is used");
            }
        }
        password.clone()
    }
}

impl AuthenticatorProvider for FileLogin {
    fn start_authentication_session<'a, 'name, 'future>(
        &'a self,
        authenticator: &'name str,
    ) -> Pin<Box<dyn Future<Output = Started> + Send + 'future>>
    where
        'a: 'future,
        'name: 'future,
        Self: 'future,
    {
        Box::pin(async move {
            let login = PlainTextAuthenticator::new(self.user.clone(), self.password());
            login.start_authentication_session(authenticator).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is sent first, by SASL PLAIN (RFC 4616).
    async fn response(login: &FileLogin) -> Vec<u8> {
        let started = login.start_authentication_session("PasswordAuthenticator").await;
        started.ok().unwrap().0.unwrap()
    }

    #[tokio::test]
    async fn each_connection_uses_the_password_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        let login = FileLogin::new("ann", file.clone(), "first");
        assert_eq!(response(&login).await, b"\0ann\0first");
        std::fs::write(&file, "second \r\n").unwrap();
        assert_eq!(response(&login).await, b"\0ann\0second ");
        std::fs::remove_file(&file).unwrap();
        assert_eq!(response(&login).await, b"\0ann\0second ");
    }
}
