//! These are the functions of tokenizer_ffi.h, which says what each does. `vocabulary` and `chat` do the work.

mod budget;
mod chat;
mod failure;
mod grammar;
mod grammar_boundary;
mod grammar_text;
mod pieces;
mod spelling;
mod template_filters;
mod template_json;
mod template_methods;
mod template_tags;
mod template_time;
mod template_values;
mod text_rest;
mod vocabulary;

use chat::Template;
use failure::Failure;
use folio_boundary::{guarded, Owned, View};
use vocabulary::Vocabulary;

type Result<T> = std::result::Result<T, String>;

/// # Safety
/// See tokenizer_ffi.h, also for all functions below.
#[no_mangle]
pub unsafe extern "C" fn folio_tok_create(
    json: View,
    vocabulary: *mut *mut Vocabulary,
    error: *mut Owned<u8>,
) -> i32 {
    guarded::<_, Failure>(vocabulary, error, || {
        Ok(Box::into_raw(Box::new(Vocabulary::from_json(json.bytes())?)))
    })
}

/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn folio_tok_free(vocabulary: *mut Vocabulary) {
    if !vocabulary.is_null() {
        drop(Box::from_raw(vocabulary));
    }
}

/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn folio_tok_size(vocabulary: *const Vocabulary) -> u32 {
    (*vocabulary).size()
}

/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn folio_tok_encode(
    vocabulary: *const Vocabulary,
    text: View,
    ids: *mut Owned<u32>,
    error: *mut Owned<u8>,
) -> i32 {
    guarded::<_, Failure>(ids, error, || Ok((*vocabulary).encode(text.text("the text")?)?.into()))
}

/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn folio_tok_encode_rest(
    vocabulary: *const Vocabulary,
    text: View,
    ids: *mut Owned<u32>,
    error: *mut Owned<u8>,
) -> i32 {
    guarded::<_, Failure>(ids, error, || {
        Ok((*vocabulary).encode_rest(text.text("the text")?)?.into())
    })
}

/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn folio_tok_token(vocabulary: *const Vocabulary, id: u32) -> View {
    (*vocabulary).token(id).into()
}

/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn folio_tok_is_special(vocabulary: *const Vocabulary, id: u32) -> i32 {
    i32::from((*vocabulary).is_special(id))
}

/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn folio_tok_drops_space(vocabulary: *const Vocabulary) -> i32 {
    i32::from((*vocabulary).drops_space())
}

/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn folio_tok_compile(
    source: View,
    bos_token: View,
    eos_token: View,
    template: *mut *mut Template,
    error: *mut Owned<u8>,
) -> i32 {
    guarded::<_, Failure>(template, error, || {
        let compiled = Template::compile(
            source.text("the template")?,
            bos_token.text("the bos token")?,
            eos_token.text("the eos token")?,
        )?;
        Ok(Box::into_raw(Box::new(compiled)))
    })
}

/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn folio_tok_free_template(template: *mut Template) {
    if !template.is_null() {
        drop(Box::from_raw(template));
    }
}

/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn folio_tok_render(
    template: *const Template,
    values: View,
    mark: View,
    now: i64,
    text: *mut Owned<u8>,
    error: *mut Owned<u8>,
) -> i32 {
    guarded::<_, Failure>(text, error, || {
        Ok((*template).render(values.bytes(), mark.text("the mark")?, now)?.into())
    })
}

/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn folio_tok_free_bytes(bytes: Owned<u8>) {
    bytes.free();
}

/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn folio_tok_free_ids(ids: Owned<u32>) {
    ids.free();
}
