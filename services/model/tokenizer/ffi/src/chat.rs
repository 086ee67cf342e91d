//! Renders chat templates as Hugging Face does, with trimmed blocks, Python's methods on values, and the
//! few functions that templates expect.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

use minijinja::value::Value;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};

use crate::budget::{self, Limits, Outcome};
use crate::template_filters;
use crate::template_json::to_json;
use crate::template_methods;
use crate::template_tags::without_generation;
use crate::template_time::strftime;
use crate::template_values::{from_json, set_mark, text_of, write_text};
use crate::Result;

/// A compiled chat template. Threads may render it at once.
pub struct Template {
    shared: Arc<Shared>,
    failures: AtomicU32, // renderings that keep memory forever
}

struct Shared {
    environment: Environment<'static>,
    bos_token: String,
    eos_token: String,
}

const NAME: &str = "chat_template";

/// Limits that a fuzzer reaches in milliseconds, because a rendering that passes one keeps its memory.
const SMALL: bool = cfg!(folio_fuzz);

/// The number of instructions that one rendering may take. It is enough for thousands of messages and
/// stops nested loops that would never end.
const FUEL: u64 = if SMALL { 100_000 } else { 20_000_000 };

/// Templates hold a few copies of the messages and a few blocks for each value in them. The rest is for honest
/// templates that do more.
const BYTES: usize = if SMALL { 2 << 20 } else { 64 << 20 };
const BYTES_EACH: usize = 64; // more for each byte of the messages or of the template
const BLOCKS: usize = if SMALL { 20_000 } else { 250_000 };
const BYTES_OF_A_BLOCK: usize = 16; // one more block for so many bytes
/// Values that are nested as deep as the blocks allow are dropped by as many nested calls.
const STACK_BYTES: usize = 16 << 20;
const STACK_BYTES_OF_A_BLOCK: usize = 2048;

/// The fuel ends in seconds.
const TIME: Duration = Duration::from_secs(60);

/// Bytes that a rendering may leave behind, such as caches of a thread.
const LEFT_BEHIND: usize = 1 << 20;
/// After so many failures that keep memory a template is not rendered any more.
const MOST_FAILURES: u32 = 3;

thread_local! {
    // Seconds since 1970, local, for the rendering of this thread.
    static NOW: Cell<i64> = const { Cell::new(0) };
}

fn limits(input: usize) -> Limits {
    let blocks = BLOCKS + input / BYTES_OF_A_BLOCK;
    Limits {
        bytes: BYTES + BYTES_EACH * input,
        blocks,
        stack: STACK_BYTES + STACK_BYTES_OF_A_BLOCK * blocks,
        time: TIME,
    }
}

fn too_much(input: usize) -> String {
    format!("needs more than {} MiB of memory", limits(input).bytes >> 20)
}

impl Template {
    pub fn compile(source: &str, bos_token: &str, eos_token: &str) -> Result<Self> {
        let input = source.len();
        let source = source.to_owned();
        let compiled = budget::run("chat template", limits(input), move || environment(source));
        let environment = match compiled {
            Outcome::Done(environment, _) => environment?,
            Outcome::OutOfMemory => return Err(too_much(input)),
            Outcome::OutOfTime => return Err("cannot be compiled in time".to_owned()),
        };
        let shared = Shared {
            environment,
            bos_token: bos_token.to_owned(),
            eos_token: eos_token.to_owned(),
        };
        Ok(Template { shared: Arc::new(shared), failures: AtomicU32::new(0) })
    }

    /// `values` is JSON, and `now` is in seconds since 1970, local. `mark` is a character of the private use area that
    /// stands in texts of the values, or empty. It comes out as it is, also where Python would escape it.
    pub fn render(&self, values: &[u8], mark: &str, now: i64) -> Result<String> {
        if self.failures.load(Ordering::Relaxed) >= MOST_FAILURES {
            return Err("is not used any more, because it needed too much memory or time \
                        before; restart the worker to try again"
                .to_owned());
        }
        let input = values.len();
        let values = values.to_owned();
        let mark = mark.to_owned();
        let shared = Arc::clone(&self.shared);
        let work = move || shared.render(&values, &mark, now);
        match budget::run("chat template", limits(input), work) {
            Outcome::Done(result, held) => {
                if held > LEFT_BEHIND + result.as_ref().map_or(0, String::capacity) {
                    self.failures.fetch_add(1, Ordering::Relaxed);
                }
                result
            }
            Outcome::OutOfMemory => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                Err(too_much(input))
            }
            Outcome::OutOfTime => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                Err(format!("did not end within {} s", TIME.as_secs()))
            }
        }
    }
}

fn environment(source: String) -> Result<Environment<'static>> {
    let mut env = Environment::new();
    env.set_trim_blocks(true);
    env.set_lstrip_blocks(true);
    env.set_undefined_behavior(UndefinedBehavior::Lenient);
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_formatter(|out, _, value| write_text(value, out).map_err(Error::from));
    env.set_unknown_method_callback(template_methods::call);
    env.set_fuel(Some(FUEL));
    env.add_filter("tojson", to_json);
    env.add_filter("string", text_of);
    template_filters::add(&mut env);
    env.add_function("raise_exception", raise_exception);
    env.add_function("strftime_now", |format: &str| strftime(format, NOW.get()));
    env.add_template_owned(NAME, without_generation(&source)).map_err(describe)?;
    Ok(env)
}

impl Shared {
    fn render(&self, values: &[u8], mark: &str, now: i64) -> Result<String> {
        NOW.set(now);
        set_mark(mark);
        let mut values: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(values).map_err(|e| format!("values: {e}"))?;
        // Hugging Face passes `tools` and `documents` always, as None when there are none.
        for absent in ["tools", "documents"] {
            values.entry(absent).or_insert(serde_json::Value::Null);
        }
        values.insert("add_generation_prompt".to_owned(), true.into());
        values.insert("bos_token".to_owned(), self.bos_token.as_str().into());
        values.insert("eos_token".to_owned(), self.eos_token.as_str().into());
        let template = self.environment.get_template(NAME).map_err(describe)?;
        let values: Value =
            values.into_iter().map(|(name, value)| (name, from_json(value))).collect();
        template.render(values).map_err(describe)
    }
}

fn describe(error: Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

fn raise_exception(message: String) -> std::result::Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message))
}
