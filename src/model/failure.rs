//! Why a use case fails: each kind is an exit code to `cli`.

/// A request that was carried out and found nothing, or a difference.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoResult(pub String);

/// A request that contradicts itself or the store.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InvalidRequest(pub String);

/// The store, the log or a file is not in the state that the request needs.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PreconditionFailed(pub String);

/// Input that is malformed; what came before it is stored.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadData(pub String);
