//! Reference models. They share no code with the program (`tidy.rs` checks that), so that an error
//! has to be made twice to stay hidden.

pub mod legs;
pub mod literal;
pub mod spans;

/// One location fix, as far as a model has to distinguish it from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fix {
    /// Device time, ms.
    pub time: i64,
    /// An opaque position; the models only test whether two are equal.
    pub place: i32,
    /// The driver, if the fix has one.
    pub driver: Option<&'static str>,
    /// What it says about movement.
    pub class: Class,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Moving,
    /// Below the stop speed.
    Slow,
    /// The ignition is off.
    Separator,
}

impl Class {
    /// By the default rules, of a speed in m/s.
    pub fn new(speed: Option<f64>, ignition: Option<bool>) -> Self {
        match (ignition, speed) {
            (Some(false), _) => Self::Separator,
            (_, Some(speed)) if speed < 0.5 => Self::Slow,
            _ => Self::Moving,
        }
    }
}
