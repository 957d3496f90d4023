//! The exported functions. Each takes the input that the host wrote, and returns 0 if the output is
//! its answer, 1 if it is an error message in UTF-8.
//!
//! Addresses and lengths are of 32 bits. The memory may move with every call: read it again.

use std::cell::RefCell;

use crate::module::{self, Module};

thread_local! {
    static MODULE: RefCell<Module> = RefCell::default();
}

/// Exports functions of the signature of C.
macro_rules! exports {
    ($($(#[doc = $doc:literal])+
        $name:ident($($argument:ident: $type:ty),*) -> $result:ty $body:block)*) => {
        $(
            $(#[doc = $doc])+
            #[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
            #[cfg_attr(
                target_family = "wasm",
                expect(unsafe_code, reason = "an exported name, which no other crate has")
            )]
            pub extern "C" fn $name($($argument: $type),*) -> $result $body
        )*
    };
}

/// Calls a function of the module.
fn call(
    function: impl FnOnce(&mut Module, &[u8]) -> Result<Vec<u8>, crate::error::CallError>,
) -> u32 {
    MODULE.with_borrow_mut(|module| u32::from(!module.call(function)))
}

/// An address, as a host has it.
#[expect(clippy::cast_possible_truncation, reason = "addresses of the module have 32 bits")]
fn address(bytes: &[u8]) -> u32 {
    bytes.as_ptr() as usize as u32
}

exports! {
    /// Version of this interface.
    tstar_abi() -> u32 {
        1
    }

    /// Makes room for an input of this length, and returns where; 0 if it is too long.
    tstar_input(length: u32) -> u32 {
        MODULE.with_borrow_mut(|module| module.prepare(length as usize).map_or(0, |it| address(it)))
    }

    /// Where the output is.
    tstar_output() -> u32 {
        MODULE.with_borrow(|module| address(module.output()))
    }

    /// Length of the output, bytes.
    tstar_output_length() -> u32 {
        MODULE.with_borrow(|module| u32::try_from(module.output().len()).unwrap_or(u32::MAX))
    }

    /// A tracker. Input: rules as JSON, or nothing. Output: its handle, 4 bytes.
    tstar_new_tracker() -> u32 {
        call(Module::new_tracker)
    }

    /// Frees a tracker.
    tstar_free_tracker(handle: u32) -> u32 {
        call(|module, _| module.free_tracker(handle))
    }

    /// Applies samples in the order of arrival. Input: columns of `rows` values, and names as JSON.
    /// Output: a byte a sample, the number of its effect, then the refused samples as JSON.
    tstar_absorb(handle: u32, rows: u32, columns: u32) -> u32 {
        call(|module, input| module.absorb(input, (handle, rows, columns)))
    }

    /// Trips and stops as JSON. Input: a device id, or nothing: those of all devices.
    tstar_segments(handle: u32) -> u32 {
        call(|module, input| module.segments(input, handle))
    }

    /// Sums over a span, both ends inclusive, as JSON. Input: a device id, or nothing.
    tstar_sums(handle: u32, from_ms: f64, upto_ms: f64) -> u32 {
        call(|module, input| module.sums(input, handle, (from_ms, upto_ms)))
    }

    /// What changed since the last call as JSON, in groups.
    tstar_changes(handle: u32) -> u32 {
        call(|module, _| module.changes(handle))
    }

    /// The trip or stop that an id leads to as JSON, or null. Input: an id in any form.
    tstar_find(handle: u32) -> u32 {
        call(|module, input| module.find(input, handle))
    }

    /// The encoded path of that trip or stop; nothing if there is none.
    tstar_path(handle: u32) -> u32 {
        call(|module, input| module.path(input, handle))
    }

    /// The ids of that trip or stop with their histories as JSON; null if there is none.
    tstar_history(handle: u32) -> u32 {
        call(|module, input| module.history(input, handle))
    }

    /// Names of the effects by number, as JSON.
    tstar_effects() -> u32 {
        call(|_, _| module::effect_names())
    }

    /// Whether a trip follows from its evidence, and what differs, as JSON. Input: evidence, as
    /// `tstar explain --evidence` writes it.
    tstar_verify() -> u32 {
        call(|_, input| module::verify(input))
    }

    /// The samples of an encoded path, in columns.
    tstar_decode_path() -> u32 {
        call(|_, input| module::decode_path(input))
    }

    /// All forms of the id of a device and a time as JSON. Input: the device id.
    tstar_id_forms(t_star_ms: f64) -> u32 {
        call(|_, input| module::id_forms(input, t_star_ms))
    }

    /// Device and time of an id as JSON.
    tstar_parse_id() -> u32 {
        call(|_, input| module::parse_id(input))
    }

    /// Whether an id is one of a device. Input: both as a JSON array.
    tstar_is_id_of() -> u32 {
        call(|_, input| module::is_id_of(input))
    }

    /// The prefix of the ids of a device and a date. Input: both as a JSON array.
    tstar_id_prefix() -> u32 {
        call(|_, input| module::id_prefix(input))
    }

    /// Device and times that a prefix selects as JSON.
    tstar_prefix_range() -> u32 {
        call(|_, input| module::prefix_range(input))
    }
}
