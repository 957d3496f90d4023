//! Numbers that must not be mixed up, each with a type of its own: the macro that declares them,
//! and the time in a trip id. All are an `i64` in memory and in JSON.

/// Declares a type of numbers: conversion, order, differences and display.
macro_rules! scalar {
    ($(#[$doc:meta])* $name:ident, $get:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize,
            serde::Deserialize,
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

        impl std::ops::Add<i64> for $name {
            type Output = Self;

            fn add(self, amount: i64) -> Self {
                Self(self.0 + amount)
            }
        }

        impl std::ops::AddAssign<i64> for $name {
            fn add_assign(&mut self, amount: i64) {
                self.0 += amount;
            }
        }

        impl std::ops::Sub<i64> for $name {
            type Output = Self;

            fn sub(self, amount: i64) -> Self {
                Self(self.0 - amount)
            }
        }

        impl std::ops::Sub for $name {
            type Output = i64;

            fn sub(self, other: Self) -> i64 {
                self.0 - other.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, f)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

pub(crate) use scalar;

scalar! {
    /// A time of a device's clock, floored to ms since 1970-01-01T00:00:00Z.
    DeviceTime, ms
}
