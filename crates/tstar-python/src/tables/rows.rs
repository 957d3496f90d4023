//! What became of each row of the frame.

use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch};

use super::{BATCH, Table, batch, names, texts};
use crate::decided::{State, effect_names};
use crate::input::Letter;

fn effects_batch(effects: &[u8], first: usize) -> RecordBatch {
    let rows = (first as u64..).take(effects.len()).map(u64::cast_signed);
    batch(vec![
        ("row", Arc::new(Int64Array::from_iter_values(rows)), false),
        ("effect", names(effects.to_vec(), effect_names()), false),
    ])
}

/// What each row did, by row.
pub(crate) fn effects(state: &Arc<State>) -> Table {
    let state = Arc::clone(state);
    Table::lazy(&effects_batch(&[], 0), state.effects.len(), move || {
        let state = Arc::clone(&state);
        (0..state.effects.len()).step_by(BATCH).map(move |first| {
            let end = state.effects.len().min(first + BATCH);
            effects_batch(&state.effects[first..end], first)
        })
    })
}

fn letters_batch(state: &State, letters: &[Letter]) -> RecordBatch {
    let column = |letter: &Letter| {
        state.fields.column(letter.field).unwrap_or(letter.field.name()).to_owned()
    };
    let message = |letter: &Letter| letter.message(state.fields.column(letter.field));
    let rows = letters.iter().map(|letter| letter.row.cast_signed());
    batch(vec![
        ("row", Arc::new(Int64Array::from_iter_values(rows)), false),
        ("reason", texts(letters.iter().map(|letter| letter.reason.name())), false),
        ("column", texts(letters.iter().map(column)), false),
        ("message", texts(letters.iter().map(message)), false),
    ])
}

/// The rows that are not samples, in the order of arrival.
pub(crate) fn letters(state: &Arc<State>) -> Table {
    let state = Arc::clone(state);
    Table::lazy(&letters_batch(&state, &[]), state.letters.len(), move || {
        let state = Arc::clone(&state);
        (0..state.letters.len()).step_by(BATCH).map(move |first| {
            let end = state.letters.len().min(first + BATCH);
            letters_batch(&state, &state.letters[first..end])
        })
    })
}
