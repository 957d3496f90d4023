//! Reference models. They share no code with the program (`tidy.rs` checks that), so that a wrong
//! thought has to be thought twice to stay hidden.

pub mod literal;
pub mod spans;

/// One location fix, as far as a model has to tell it from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fix {
    /// Device time, ms.
    pub time: i64,
    /// Where it was; the models only ask whether two are equal.
    pub place: i32,
    /// Who drove, if the fix says so.
    pub driver: Option<&'static str>,
}
