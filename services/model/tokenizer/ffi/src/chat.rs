//! Renders chat templates as Hugging Face does, with trimmed blocks, Python's methods on values, and the
//! few functions that templates expect.

use minijinja::value::{Kwargs, Value};
use minijinja::{context, AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

use crate::Result;

pub struct Request<'a> {
    pub source: &'a str,
    pub messages: &'a [u8], // JSON
    pub bos_token: &'a str,
    pub eos_token: &'a str,
    pub now: i64, // seconds since 1970, local
}

/// The number of instructions that one rendering may take. It is enough for thousands of messages and
/// stops nested loops that would never end.
const FUEL: u64 = 20_000_000;

pub fn render(request: &Request) -> Result<String> {
    let messages: serde_json::Value =
        serde_json::from_slice(request.messages).map_err(|e| format!("messages: {e}"))?;
    let now = request.now;
    let mut env = Environment::new();
    env.set_trim_blocks(true);
    env.set_lstrip_blocks(true);
    env.set_undefined_behavior(UndefinedBehavior::Lenient);
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    env.set_fuel(Some(FUEL));
    env.add_filter("tojson", to_json);
    env.add_function("raise_exception", raise_exception);
    env.add_function("strftime_now", move |format: &str| strftime(format, now));
    env.add_template("chat_template", request.source).map_err(describe)?;
    let template = env.get_template("chat_template").map_err(describe)?;
    // Hugging Face passes `tools` and `documents` always, as None when there are none.
    template
        .render(context! {
            messages => Value::from_serialize(&messages),
            add_generation_prompt => true,
            bos_token => request.bos_token,
            eos_token => request.eos_token,
            tools => (),
            documents => (),
        })
        .map_err(describe)
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
