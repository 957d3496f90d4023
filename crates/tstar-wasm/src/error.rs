//! Why a call failed: what, the value, and the next step.

use tstar_core::codec::BlobError;
use tstar_core::evidence::EvidenceError;
use tstar_core::identity::IdError;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// No tracker has this handle.
    #[error("no tracker has handle {0}; it was freed, or belongs to another module")]
    Handle(u32),
    /// The input is not what the function takes.
    #[error("{what}: {problem}")]
    Input {
        /// The part of the input.
        what: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A rule that no store may have.
    #[error("{0}")]
    Rule(String),
    /// Trips and samples would need more memory than the tracker may use.
    #[error(
        "{rows} samples more could exceed the {limit} bytes of memory that a tracker may use, of \
         which it uses {used}; raise max_memory, or track fewer devices"
    )]
    Memory {
        /// Number of samples of the call.
        rows: usize,
        /// Approximate memory in use, bytes.
        used: usize,
        /// The limit, bytes.
        limit: usize,
    },
    /// The answer would be too large.
    #[error("the answer has more than {limit} bytes; name one device")]
    Answer {
        /// The limit, bytes.
        limit: usize,
    },
    /// Not evidence of a trip.
    #[error("the evidence cannot be verified: {0}")]
    Evidence(String),
    /// Not a valid id.
    #[error(transparent)]
    Id(#[from] IdError),
    /// Not a valid path.
    #[error(transparent)]
    Path(#[from] BlobError),
}

impl CallError {
    /// An error of evidence, with what caused it.
    pub(crate) fn evidence(error: EvidenceError) -> Self {
        match &error {
            EvidenceError::Json(cause) => Self::Evidence(format!("{error}: {cause}")),
            _ => Self::Evidence(error.to_string()),
        }
    }

    /// An error of a part of the input.
    pub(crate) fn input(what: &'static str, problem: impl ToString) -> Self {
        Self::Input { what, problem: problem.to_string() }
    }
}
