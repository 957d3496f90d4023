//! Numbers that must not be mixed up, each with a type of its own. All are an `i64` in memory and
//! in JSON.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};

/// Declares a type of numbers: conversion, order, differences and display.
macro_rules! scalar {
    ($(#[$doc:meta])* $name:ident, $get:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub i64);

        #[allow(dead_code, reason = "every type has the same functions")]
        impl $name {
            /// The lowest value.
            pub const MIN: Self = Self(i64::MIN);
            /// The highest value.
            pub const MAX: Self = Self(i64::MAX);

            /// The number.
            #[must_use]
            pub const fn $get(self) -> i64 {
                self.0
            }

            /// The sum, at most [`Self::MAX`].
            #[must_use]
            pub const fn saturating_add(self, amount: i64) -> Self {
                Self(self.0.saturating_add(amount))
            }

            /// The difference, at least [`Self::MIN`].
            #[must_use]
            pub const fn saturating_sub(self, amount: i64) -> Self {
                Self(self.0.saturating_sub(amount))
            }
        }

        impl Add<i64> for $name {
            type Output = Self;

            fn add(self, amount: i64) -> Self {
                Self(self.0 + amount)
            }
        }

        impl AddAssign<i64> for $name {
            fn add_assign(&mut self, amount: i64) {
                self.0 += amount;
            }
        }

        impl Sub<i64> for $name {
            type Output = Self;

            fn sub(self, amount: i64) -> Self {
                Self(self.0 - amount)
            }
        }

        impl Sub for $name {
            type Output = i64;

            fn sub(self, other: Self) -> i64 {
                self.0 - other.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

scalar! {
    /// A time at which the log received a record, ms since 1970-01-01T00:00:00Z.
    LogTime, ms
}

scalar! {
    /// A UTC day, as whole days since 1970-01-01.
    Day, get
}

scalar! {
    /// The place of a record in the order of all changes of a partition: base of its epoch plus
    /// twice its offset.
    Version, get
}

scalar! {
    /// The place of a record in its partition; for files, the number of records before it.
    Offset, get
}

/// A UTC day, ms.
pub const DAY_MS: i64 = 86_400_000;

impl Day {
    /// The start of the day, ms since 1970.
    #[must_use]
    pub const fn start_ms(self) -> i64 {
        self.0.saturating_mul(DAY_MS)
    }

    /// Every day from this one to `last`, both included.
    pub fn through(self, last: Self) -> impl DoubleEndedIterator<Item = Self> + Clone {
        (self.0..=last.0).map(Self)
    }
}
