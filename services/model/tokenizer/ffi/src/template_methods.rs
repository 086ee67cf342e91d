//! Methods of Python's texts, lists and objects that templates call. Those that minijinja's own collection has, and has
//! as Python, are left to it.

use minijinja::value::{from_args, Kwargs, Rest, Value, ValueKind};
use minijinja::{Error, ErrorKind, State};
use minijinja_contrib::pycompat;

type Result<T> = std::result::Result<T, Error>;

pub fn call(state: &State, value: &Value, method: &str, args: &[Value]) -> Result<Value> {
    let found = match value.kind() {
        ValueKind::String => text_method(value.as_str().unwrap_or_default(), method, args)?,
        ValueKind::Seq if method == "index" => Some(index_of(value, args)?),
        ValueKind::Map if method == "copy" => Some(value.clone()),
        _ => None,
    };
    match found {
        Some(result) => Ok(result),
        None => pycompat::unknown_method_callback(state, value, method, args),
    }
}

/// Also the separators of ASCII, which Rust leaves out.
pub fn is_space(letter: char) -> bool {
    letter.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&letter)
}

/// `str.strip` and the filter `trim`.
pub fn strip<'a>(text: &'a str, characters: Option<&str>, left: bool, right: bool) -> &'a str {
    let goes =
        |letter: char| characters.map_or_else(|| is_space(letter), |all| all.contains(letter));
    let text = if left { text.trim_start_matches(goes) } else { text };
    if right {
        text.trim_end_matches(goes)
    } else {
        text
    }
}

fn wrong(message: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.to_owned())
}

fn text_method(text: &str, method: &str, args: &[Value]) -> Result<Option<Value>> {
    let result = match method {
        "strip" | "lstrip" | "rstrip" => {
            let (characters,): (Option<&str>,) = from_args(args)?;
            strip(text, characters, method != "rstrip", method != "lstrip").into()
        }
        "split" | "rsplit" => split(text, method == "rsplit", args)?,
        "partition" | "rpartition" => partition(text, method == "rpartition", args)?,
        "splitlines" => {
            let (keep, kwargs): (Option<bool>, Kwargs) = from_args(args)?;
            let keep = keep.or(kwargs.get("keepends")?).unwrap_or(false);
            kwargs.assert_all_used()?;
            lines(text, keep).into_iter().collect()
        }
        "find" | "rfind" | "index" | "rindex" => {
            let (part,): (&str,) = from_args(args)?;
            let at = if method.starts_with('r') { text.rfind(part) } else { text.find(part) };
            match at {
                Some(at) => text[..at].chars().count().into(),
                None if method.ends_with("find") => (-1).into(),
                None => return Err(wrong("substring not found")),
            }
        }
        "count" => {
            let (part,): (&str,) = from_args(args)?;
            text.matches(part).count().into()
        }
        "removeprefix" => text.strip_prefix(from_args::<(&str,)>(args)?.0).unwrap_or(text).into(),
        "removesuffix" => text.strip_suffix(from_args::<(&str,)>(args)?.0).unwrap_or(text).into(),
        "title" => titled(text).into(),
        "capitalize" => {
            let mut letters = text.chars();
            let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
            (first + &letters.as_str().to_lowercase()).into()
        }
        "swapcase" => text.chars().map(swapped).collect::<String>().into(),
        "isspace" => all_of(text, is_space),
        "isdigit" | "isnumeric" | "isdecimal" => all_of(text, char::is_numeric),
        "isalpha" => all_of(text, char::is_alphabetic),
        "isalnum" => all_of(text, char::is_alphanumeric),
        "islower" => {
            (text.chars().any(char::is_lowercase) && !text.chars().any(char::is_uppercase)).into()
        }
        "isupper" => {
            (text.chars().any(char::is_uppercase) && !text.chars().any(char::is_lowercase)).into()
        }
        "ljust" | "rjust" | "center" | "zfill" => justified(text, method, args)?,
        _ => return Ok(None),
    };
    Ok(Some(result))
}

fn all_of(text: &str, is: impl Fn(char) -> bool) -> Value {
    (!text.is_empty() && text.chars().all(is)).into()
}

fn swapped(letter: char) -> String {
    if letter.is_uppercase() {
        letter.to_lowercase().collect()
    } else {
        letter.to_uppercase().collect()
    }
}

/// A word begins behind everything but letters.
fn titled(text: &str) -> String {
    let mut inside = false;
    let mut titled = String::new();
    for letter in text.chars() {
        if inside {
            titled.extend(letter.to_lowercase());
        } else {
            titled.extend(letter.to_uppercase());
        }
        inside = letter.is_alphabetic();
    }
    titled
}

fn split(text: &str, from_right: bool, args: &[Value]) -> Result<Value> {
    let (separator, most, kwargs): (Option<Option<&str>>, Option<i64>, Kwargs) = from_args(args)?;
    let separator = separator.flatten().or(kwargs.get("sep")?);
    let most = most.or(kwargs.get("maxsplit")?);
    kwargs.assert_all_used()?;
    let parts = most
        .and_then(|most| usize::try_from(most).ok())
        .map_or(usize::MAX, |most| most.saturating_add(1));
    let mut found: Vec<&str> = match separator {
        Some("") => return Err(wrong("empty separator")),
        Some(separator) if from_right => text.rsplitn(parts, separator).collect(),
        Some(separator) => text.splitn(parts, separator).collect(),
        None => words(text, parts, from_right),
    };
    if from_right {
        found.reverse();
    }
    Ok(found.into_iter().map(Value::from).collect())
}

/// At most so many words, the last of which is all that is left. Those of `from_right` are in reverse.
fn words(text: &str, parts: usize, from_right: bool) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = strip(text, None, !from_right, from_right);
    while !rest.is_empty() {
        let end = if from_right { rest.rfind(is_space) } else { rest.find(is_space) };
        let Some(end) = end.filter(|_| found.len() + 1 < parts) else {
            found.push(rest);
            break;
        };
        let (left, right) = rest.split_at(end);
        let word = if from_right { strip(right, None, true, false) } else { left };
        found.push(word);
        rest = strip(if from_right { left } else { right }, None, !from_right, from_right);
    }
    found.retain(|word| !word.is_empty());
    found
}

fn partition(text: &str, from_right: bool, args: &[Value]) -> Result<Value> {
    let (separator,): (&str,) = from_args(args)?;
    if separator.is_empty() {
        return Err(wrong("empty separator"));
    }
    let cut = if from_right { text.rsplit_once(separator) } else { text.split_once(separator) };
    let parts = match cut {
        Some((left, right)) => [left, separator, right],
        None if from_right => ["", "", text],
        None => [text, "", ""],
    };
    Ok(parts.into_iter().map(Value::from).collect())
}

/// Python ends a line at more characters than Rust does.
fn lines(text: &str, keep: bool) -> Vec<Value> {
    let ends = |letter: char| matches!(letter, '\n'..='\r' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(ends).unwrap_or(rest.len());
        let first = rest[end..].chars().next().map_or(0, char::len_utf8);
        let next = end + if rest[end..].starts_with("\r\n") { 2 } else { first };
        lines.push(Value::from(&rest[..if keep { next } else { end }]));
        rest = &rest[next..];
    }
    lines
}

fn justified(text: &str, method: &str, args: &[Value]) -> Result<Value> {
    let (width, fill): (i64, Option<&str>) = from_args(args)?;
    let fill = if method == "zfill" { "0" } else { fill.unwrap_or(" ") };
    if fill.chars().count() != 1 {
        return Err(wrong("the fill character is not one character"));
    }
    let width = usize::try_from(width).unwrap_or(0);
    let missing = width.saturating_sub(text.chars().count());
    let left = match method {
        "ljust" => 0,
        "center" => missing / 2 + (missing & width & 1),
        _ => missing,
    };
    let sign = if method == "zfill" && text.starts_with(['+', '-']) { 1 } else { 0 };
    let right = missing - left;
    Ok(format!("{}{}{}{}", &text[..sign], fill.repeat(left), &text[sign..], fill.repeat(right))
        .into())
}

fn index_of(list: &Value, args: &[Value]) -> Result<Value> {
    let (wanted, Rest(more)): (&Value, Rest<Value>) = from_args(args)?;
    if !more.is_empty() {
        return Err(wrong("index takes one value"));
    }
    match list.try_iter()?.position(|item| &item == wanted) {
        Some(at) => Ok(at.into()),
        None => Err(wrong("the value is not in the list")),
    }
}
