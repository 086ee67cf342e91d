//! These are the functions of tokenizer_ffi.h for constraints on answers. `grammar` does the work.

use folio_boundary::{guarded, Owned, View};

use crate::failure::Failure;
use crate::grammar::{Environment, Grammar, State};
use crate::vocabulary::Vocabulary;

/// # Safety
/// See tokenizer_ffi.h, also for all functions below.
#[no_mangle]
pub unsafe extern "C" fn folio_tok_grammars(
    vocabulary: *const Vocabulary,
    end_tokens: *const u32,
    end_token_count: usize,
    environment: *mut *mut Environment,
    error: *mut Owned<u8>,
) -> i32 {
    guarded::<_, Failure>(environment, error, || {
        let end_tokens = match end_token_count {
            0 => &[],
            count => std::slice::from_raw_parts(end_tokens, count),
        };
        Ok(Box::into_raw(Box::new(Environment::new(&*vocabulary, end_tokens)?)))
    })
}

/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn folio_tok_free_grammars(environment: *mut Environment) {
    if !environment.is_null() {
        drop(Box::from_raw(environment));
    }
}

/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn folio_tok_compile_grammar(
    environment: *const Environment,
    kind: u32,
    text: View,
    grammar: *mut *mut Grammar,
    error: *mut Owned<u8>,
) -> i32 {
    guarded::<_, Failure>(grammar, error, || {
        let compiled = (*environment).compile(kind, text.text("the text")?)?;
        Ok(Box::into_raw(Box::new(compiled)))
    })
}

/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn folio_tok_free_grammar(grammar: *mut Grammar) {
    if !grammar.is_null() {
        drop(Box::from_raw(grammar));
    }
}

/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn folio_tok_start(
    grammar: *const Grammar,
    state: *mut *mut State,
    error: *mut Owned<u8>,
) -> i32 {
    guarded::<_, Failure>(state, error, || Ok(Box::into_raw(Box::new((*grammar).start()?))))
}

/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn folio_tok_free_state(state: *mut State) {
    if !state.is_null() {
        drop(Box::from_raw(state));
    }
}

/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn folio_tok_mask(
    state: *mut State,
    words: *mut u32,
    word_count: usize,
    error: *mut Owned<u8>,
) -> i32 {
    let mut done = ();
    guarded::<_, Failure>(&mut done, error, || {
        (*state).mask(std::slice::from_raw_parts_mut(words, word_count))
    })
}

/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn folio_tok_accept(
    state: *mut State,
    token: u32,
    error: *mut Owned<u8>,
) -> i32 {
    let mut done = ();
    guarded::<_, Failure>(&mut done, error, || (*state).accept(token))
}

/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn folio_tok_stopped(state: *const State) -> i32 {
    i32::from((*state).stopped())
}
