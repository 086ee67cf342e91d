//! This is the boundary to C. It takes and gives pointers and turns panics and errors into messages.
//! tokenizer_ffi.h says what each function does, `vocabulary` and `chat` do the work.

mod budget;
mod chat;
mod failure;
mod grammar;
mod grammar_boundary;
mod grammar_text;
mod vocabulary;

use std::any::Any;
use std::panic::{catch_unwind, AssertUnwindSafe};

use chat::Template;
use failure::Failure;
use vocabulary::Vocabulary;

type Result<T> = std::result::Result<T, String>;

#[repr(C)]
pub struct OwnedBytes {
    data: *mut u8,
    size: usize,
}

#[repr(C)]
pub struct OwnedIds {
    data: *mut u32,
    size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct View {
    data: *const u8,
    size: usize,
}

impl View {
    /// Safety: `data` points to `size` bytes that live for 'a, or `size` is 0.
    unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.size == 0 {
            return &[];
        }
        std::slice::from_raw_parts(self.data, self.size)
    }

    /// Safety: as `bytes`.
    unsafe fn text<'a>(self, what: &str) -> Result<&'a str> {
        std::str::from_utf8(self.bytes())
            .map_err(|e| format!("{what} is not UTF-8 (byte {})", e.valid_up_to()))
    }
}

fn lend(bytes: &[u8]) -> View {
    View { data: bytes.as_ptr(), size: bytes.len() }
}

fn give<T>(items: Vec<T>) -> (*mut T, usize) {
    let size = items.len();
    (Box::into_raw(items.into_boxed_slice()) as *mut T, size)
}

fn give_text(text: String) -> OwnedBytes {
    let (data, size) = give(text.into_bytes());
    OwnedBytes { data, size }
}

/// Safety: `data` and `size` come from `give`, once.
unsafe fn take<T>(data: *mut T, size: usize) {
    if !data.is_null() {
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(data, size)));
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}

/// Runs `work` and writes its result to `out`, or a message to `error` if it fails or panics.
/// Safety: both pointers are valid for writing.
unsafe fn guarded<T>(
    out: *mut T,
    error: *mut OwnedBytes,
    work: impl FnOnce() -> std::result::Result<T, Failure>,
) -> i32 {
    let outcome = catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(Failure::exhausted(format!("panic: {}", panic_text(&*panic)))));
    match outcome {
        Ok(value) => {
            out.write(value);
            0
        }
        Err(failure) => {
            error.write(give_text(failure.message));
            failure.kind as i32
        }
    }
}

/// # Safety
/// See tokenizer_ffi.h, also for all functions below.
#[no_mangle]
pub unsafe extern "C" fn folio_tok_create(
    json: View,
    vocabulary: *mut *mut Vocabulary,
    error: *mut OwnedBytes,
) -> i32 {
    guarded(vocabulary, error, || Ok(Box::into_raw(Box::new(Vocabulary::from_json(json.bytes())?))))
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
    ids: *mut OwnedIds,
    error: *mut OwnedBytes,
) -> i32 {
    guarded(ids, error, || {
        let (data, size) = give((*vocabulary).encode(text.text("the text")?)?);
        Ok(OwnedIds { data, size })
    })
}

/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn folio_tok_token(vocabulary: *const Vocabulary, id: u32) -> View {
    lend((*vocabulary).token(id))
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
pub unsafe extern "C" fn folio_tok_compile(
    source: View,
    bos_token: View,
    eos_token: View,
    template: *mut *mut Template,
    error: *mut OwnedBytes,
) -> i32 {
    guarded(template, error, || {
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
    now: i64,
    text: *mut OwnedBytes,
    error: *mut OwnedBytes,
) -> i32 {
    guarded(text, error, || Ok(give_text((*template).render(values.bytes(), now)?)))
}

/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn folio_tok_free_bytes(bytes: OwnedBytes) {
    take(bytes.data, bytes.size);
}

/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn folio_tok_free_ids(ids: OwnedIds) {
    take(ids.data, ids.size);
}
