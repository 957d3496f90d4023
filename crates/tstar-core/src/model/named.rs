//! Enums whose values have public names: each name is written once, next to its variant.

/// Declares an enum whose variants have fixed public names.
#[macro_export]
#[doc(hidden)]
macro_rules! named {
    (
        $(#[$doc:meta])*
        $name:ident { $($(#[doc = $meaning:literal])+ $variant:ident = $text:literal,)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[doc = $meaning])+ $variant,)* }

        impl $name {
            /// Every value, in the order of the contract.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name used in JSON, headers and metrics.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// What it means: the comment of the value, of which pages make their tables.
            #[must_use]
            #[allow(dead_code, reason = "the program prints names only")]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($meaning),+).trim_ascii(),)* }
            }

            /// The value with this name.
            #[must_use]
            #[allow(dead_code, reason = "not every list is parsed")]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.name() == name)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

pub use named;
