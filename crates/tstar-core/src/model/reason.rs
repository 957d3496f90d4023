//! Why a sample was not applied: the same reasons in JSON, headers and metrics.

use super::limits::{ClockViolation, FilterReason};
use super::named::named;

named! {
    /// Why a sample cannot be used. It becomes a dead letter.
    DeadReason {
        /// The bytes are not UTF-8.
        BadUtf8 = "bad_utf8",
        /// The text is not a JSON object.
        BadJson = "bad_json",
        /// The text is not a valid CSV row of the file.
        BadCsv = "bad_csv",
        /// Device, time or position is absent.
        MissingField = "missing_field",
        /// A value whose type does not match its field.
        BadType = "bad_type",
        /// A number outside its field's range.
        OutOfRange = "out_of_range",
        /// A time that cannot be parsed.
        BadTime = "bad_time",
        /// Device time before `--min-time`.
        TimeBeforeMin = "time_before_min",
        /// Device time more than `--max-future` past the record's timestamp.
        TimeInFuture = "time_in_future",
        /// Empty, longer than 256 bytes, or with NUL.
        BadDeviceId = "bad_device_id",
        /// A record over the size limit; its first KiB, length and hash are kept.
        Oversize = "oversize",
        /// A record of a topic without a key.
        NoKey = "no_key",
        /// A record whose key and value name different devices.
        KeyMismatch = "key_mismatch",
        /// Two fields could be the same field of a sample.
        AmbiguousField = "ambiguous_field",
        /// It lies inside a trip that already has `--max-samples`.
        TripFull = "trip_full",
        /// The input ended inside a record.
        TruncatedInput = "truncated_input",
        /// Its device belongs to another partition.
        OtherPartition = "other_partition",
        /// A control record without the operator's signature.
        NotAuthorised = "not_authorised",
        /// The record names no schema, or one that is not known or not valid.
        BadSchema = "bad_schema",
        /// A record that is not of its Avro or protobuf schema; or a batch that cannot be
        /// decompressed, of which only the offsets are kept.
        BadRecord = "bad_record",
    }
}

named! {
    /// Why a valid sample was dropped. It is counted, but not stored.
    DropReason {
        /// Its fix is less accurate than `--max-accuracy`, or not valid by `valid=` of `--map`.
        BadFix = "bad_fix",
        /// Its latitude and longitude are both 0.
        ZeroPosition = "zero_position",
        /// The trips of its device were erased up to a later time.
        Forgotten = "forgotten",
    }
}

named! {
    /// Why a stored row is skipped. It is counted, and reading continues.
    SkipReason {
        /// Its columns or its path cannot be decoded, or contradict each other.
        Malformed = "malformed",
        /// It has no version, so another program wrote it.
        NoVersion = "no_version",
    }
}

/// How far a sample gets before it fails, in the order of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DecodeStage {
    /// The record cannot be read as text of the format.
    Syntax,
    /// The fields of the record cannot be found.
    Fields,
    /// A value cannot be used.
    Values,
    /// The sample contradicts its record, the clock or the trips.
    Context,
}

impl DeadReason {
    /// The stage at which a sample fails for this reason.
    #[must_use]
    pub fn stage(self) -> DecodeStage {
        match self {
            Self::BadUtf8
            | Self::BadJson
            | Self::BadCsv
            | Self::Oversize
            | Self::NoKey
            | Self::TruncatedInput
            | Self::BadSchema
            | Self::BadRecord => DecodeStage::Syntax,
            Self::MissingField | Self::AmbiguousField => DecodeStage::Fields,
            Self::BadType | Self::OutOfRange | Self::BadTime | Self::BadDeviceId => {
                DecodeStage::Values
            }
            Self::TimeBeforeMin
            | Self::TimeInFuture
            | Self::KeyMismatch
            | Self::NotAuthorised
            | Self::TripFull
            | Self::OtherPartition => DecodeStage::Context,
        }
    }
}

impl From<ClockViolation> for DeadReason {
    fn from(violation: ClockViolation) -> Self {
        match violation {
            ClockViolation::BeforeMin => Self::TimeBeforeMin,
            ClockViolation::InFuture => Self::TimeInFuture,
        }
    }
}

impl From<FilterReason> for DropReason {
    fn from(reason: FilterReason) -> Self {
        match reason {
            FilterReason::BadFix => Self::BadFix,
            FilterReason::ZeroPosition => Self::ZeroPosition,
        }
    }
}
