//! Why a sample was not applied: one vocabulary for JSON, headers and metrics.

use super::limits::{ClockViolation, FilterReason};

/// Declares an enum whose variants have fixed names outside of the program.
macro_rules! named {
    (
        $(#[$doc:meta])*
        $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// Every reason, in the order of the contract.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name used in JSON, headers and metrics.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// The reason of that name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|reason| reason.name() == name)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

named! {
    /// Why a sample cannot be used: it is kept among the dead letters.
    DeadReason {
        /// The bytes are not UTF-8.
        BadUtf8 = "bad_utf8",
        /// The text is not a JSON object.
        BadJson = "bad_json",
        /// The text is not a row of the CSV file.
        BadCsv = "bad_csv",
        /// Device, time or position is absent.
        MissingField = "missing_field",
        /// A value of another type than its field's.
        BadType = "bad_type",
        /// A number outside its field's range.
        OutOfRange = "out_of_range",
        /// A time that cannot be read.
        BadTime = "bad_time",
        /// Device time before `min_time`.
        TimeBeforeMin = "time_before_min",
        /// Device time more than `max_future` past the log's timestamp.
        TimeInFuture = "time_in_future",
        /// A device id that is empty, over 256 bytes, or has a NUL in it.
        BadDeviceId = "bad_device_id",
        /// A record over the size limit; kept as head, length and hash.
        Oversize = "oversize",
        /// A log record without a key.
        NoKey = "no_key",
        /// A log record whose key names another device than its value.
        KeyMismatch = "key_mismatch",
        /// Two fields that may both be meant.
        AmbiguousField = "ambiguous_field",
        /// It lies inside a trip that holds `max_samples`.
        TripFull = "trip_full",
        /// The input ended in the middle of a record.
        TruncatedInput = "truncated_input",
        /// Its device belongs to another partition.
        OtherPartition = "other_partition",
        /// A control record without the operator's signature.
        NotAuthorised = "not_authorised",
        /// Records in a batch that cannot be unpacked.
        BadRecord = "bad_record",
    }
}

named! {
    /// Why a good sample was left out on purpose: it is counted, not kept.
    DropReason {
        /// Its ignition is off.
        IgnitionOff = "ignition_off",
        /// It is slower than `min_speed`.
        TooSlow = "too_slow",
        /// Its fix is coarser than `max_accuracy`.
        BadFix = "bad_fix",
        /// Its device's trips of that time were erased.
        Forgotten = "forgotten",
    }
}

named! {
    /// Why a row is left out where rows are read: it is counted, and the rest is read.
    SkipReason {
        /// Its columns or its path cannot be decoded, or contradict each other.
        Malformed = "malformed",
        /// It has no version: another program wrote it.
        NoVersion = "no_version",
    }
}

impl From<ClockViolation> for DeadReason {
    fn from(wrong: ClockViolation) -> Self {
        match wrong {
            ClockViolation::BeforeMin => Self::TimeBeforeMin,
            ClockViolation::InFuture => Self::TimeInFuture,
        }
    }
}

impl From<FilterReason> for DropReason {
    fn from(none: FilterReason) -> Self {
        match none {
            FilterReason::IgnitionOff => Self::IgnitionOff,
            FilterReason::TooSlow => Self::TooSlow,
            FilterReason::BadFix => Self::BadFix,
        }
    }
}
