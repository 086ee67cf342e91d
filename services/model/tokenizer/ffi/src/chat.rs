//! Renders chat templates as Hugging Face does, with trimmed blocks, Python's methods on values, and the
//! few functions that templates expect.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

use minijinja::value::{Kwargs, Value};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

use crate::budget::{self, Limits, Outcome};
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

    /// `values` is JSON, and `now` is in seconds since 1970, local.
    pub fn render(&self, values: &[u8], now: i64) -> Result<String> {
        if self.failures.load(Ordering::Relaxed) >= MOST_FAILURES {
            return Err("is not used any more, because it needed too much memory or time \
                        before; restart the worker to try again"
                .to_owned());
        }
        let input = values.len();
        let values = values.to_owned();
        let shared = Arc::clone(&self.shared);
        match budget::run("chat template", limits(input), move || shared.render(&values, now)) {
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
    env.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    env.set_fuel(Some(FUEL));
    env.add_filter("tojson", to_json);
    env.add_function("raise_exception", raise_exception);
    env.add_function("strftime_now", |format: &str| strftime(format, NOW.get()));
    env.add_template_owned(NAME, source).map_err(describe)?;
    Ok(env)
}

impl Shared {
    fn render(&self, values: &[u8], now: i64) -> Result<String> {
        NOW.set(now);
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
        template.render(Value::from_serialize(&values)).map_err(describe)
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

/// `json.dumps(value, ensure_ascii=False, indent=indent)`.
fn to_json(value: &Value, kwargs: Kwargs) -> std::result::Result<String, Error> {
    let indent: Option<usize> = kwargs.get("indent")?;
    for ignored in ["ensure_ascii", "separators", "sort_keys"] {
        let _: Option<Value> = kwargs.get(ignored)?;
    }
    kwargs.assert_all_used()?;
    let written = match indent {
        Some(width) => {
            let blanks = " ".repeat(width.min(64));
            write_json(value, PrettyFormatter::with_indent(blanks.as_bytes()))
        }
        None => write_json(value, PythonSpacing),
    };
    written.map_err(|e| Error::new(ErrorKind::BadSerialization, e.to_string()))
}

fn write_json(value: &Value, formatter: impl Formatter) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut bytes, formatter))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// `{"a": 1, "b": [1, 2]}`: a blank after each comma and colon.
struct PythonSpacing;

impl Formatter for PythonSpacing {
    fn begin_array_value<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
    ) -> std::io::Result<()> {
        writer.write_all(b": ")
    }
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] =
    ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

/// The letters of strftime that name a date or a time of day.
fn strftime(format: &str, now: i64) -> std::result::Result<String, Error> {
    let (days, seconds) = (now.div_euclid(86_400), now.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let month_name = MONTHS[month as usize - 1];
    let day_name = DAYS[days.rem_euclid(7) as usize];
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let mut text = String::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        match letters.next() {
            Some('Y') => text += &format!("{year:04}"),
            Some('y') => text += &format!("{:02}", year.rem_euclid(100)),
            Some('m') => text += &format!("{month:02}"),
            Some('B') => text += month_name,
            Some('b') => text += &month_name[..3],
            Some('d') => text += &format!("{day:02}"),
            Some('A') => text += day_name,
            Some('a') => text += &day_name[..3],
            Some('H') => text += &format!("{hour:02}"),
            Some('M') => text += &format!("{minute:02}"),
            Some('S') => text += &format!("{second:02}"),
            Some('F') => text += &format!("{year:04}-{month:02}-{day:02}"),
            Some('T') => text += &format!("{hour:02}:{minute:02}:{second:02}"),
            Some('%') => text.push('%'),
            other => {
                let shown = other.map(String::from).unwrap_or_default();
                let message = format!("strftime_now: %{shown} is not supported");
                return Err(Error::new(ErrorKind::InvalidOperation, message));
            }
        }
    }
    Ok(text)
}

/// Year, month and day of a day counted from 1970-01-01 (proleptic Gregorian), by walking whole
/// 400-year cycles and then single years and months.
fn civil(days: i64) -> (i64, i64, i64) {
    const CYCLE: i64 = 146_097;
    let mut year = 1970 + 400 * days.div_euclid(CYCLE);
    let mut rest = days.rem_euclid(CYCLE);
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    while rest >= 365 + i64::from(leap(year)) {
        rest -= 365 + i64::from(leap(year));
        year += 1;
    }
    let mut month = 1;
    loop {
        let length = match month {
            2 => 28 + i64::from(leap(year)),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        if rest < length {
            return (year, month, rest + 1);
        }
        rest -= length;
        month += 1;
    }
}
