//! What a sample says about movement.

use super::named::named;

named! {
    /// What a sample says about movement. It is decided from the sample alone and kept with it.
    Class {
        /// The vehicle moves, or the sample does not say.
        Moving = "moving",
        /// It reports a speed below the stop speed.
        Slow = "slow",
        /// It ends a trip, whatever its neighbours: the ignition is off.
        Separator = "separator",
    }
}
