//! Reads the text of a constraint before `llguidance` does, and words its refusals.

use serde_json::{json, Value};

use crate::Result;

/// How deep the groups of a regex or a grammar may be nested.
const MAX_NESTING: u32 = 200;

/// A JSON Schema with the spelling of answers that grammar.h describes.
pub fn schema(text: &str) -> Result<Value> {
    let mut schema: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
    if let Value::Bool(anything) = schema {
        if !anything {
            return Err("allows nothing".to_owned());
        }
        schema = json!({});
    }
    check_schema(&schema)?;
    let Some(fields) = schema.as_object_mut() else {
        return Err("must be an object or a boolean".to_owned());
    };
    let options = fields.entry("x-guidance").or_insert_with(|| json!({}));
    let Some(options) = options.as_object_mut() else {
        return Err("x-guidance must be an object".to_owned());
    };
    if options.get("whitespace_flexible") != Some(&Value::Bool(true))
        && !options.contains_key("whitespace_pattern")
    {
        options.insert("whitespace_flexible".to_owned(), json!(false));
        options.entry("item_separator").or_insert_with(|| json!(", "));
        options.entry("key_separator").or_insert_with(|| json!(": "));
    }
    Ok(schema)
}

/// The library writes out an array's items up to this number, and asks for no fuel meanwhile.
const MAX_ITEMS: u64 = 10_000;
/// The same of all arrays together.
const MAX_ITEMS_IN_ALL: u64 = 40_000;
/// A number that is held to a multiple has an expression for each remainder.
const MAX_MULTIPLE: u64 = 10_000;
/// The expressions of two properties' patterns are compared with each other.
const MAX_PATTERNS: usize = 32;
/// Expressions that must match together can have a product of their states.
const MAX_TOGETHER: usize = 2;
/// The options of each oneOf are compared with each other.
const MAX_OPTIONS: usize = 256;

#[derive(Default)]
struct Sizes {
    items: u64,
    multiple: u64,
    patterns: usize,
}

/// Refuses what the library would take very long for, or much memory.
fn check_schema(schema: &Value) -> Result<()> {
    let mut sizes = Sizes { multiple: 1, ..Sizes::default() };
    sizes.add(schema, "#")
}

impl Sizes {
    fn add(&mut self, value: &Value, place: &str) -> Result<()> {
        match value {
            Value::Object(fields) => fields.iter().try_for_each(|(key, value)| {
                let place = format!("{place}/{key}");
                self.check(key, value)
                    .map_err(|(found, most)| format!("{found}, the most is {most} ({place})"))?;
                self.add(value, &place)
            }),
            Value::Array(values) => values
                .iter()
                .enumerate()
                .try_for_each(|(i, value)| self.add(value, &format!("{place}/{i}"))),
            _ => Ok(()),
        }
    }

    /// A failure says which number is too large, and the largest that is accepted.
    fn check(&mut self, key: &str, value: &Value) -> std::result::Result<(), (String, usize)> {
        let limit = |name: &str, found: u64, most: u64| match found > most {
            true => Err((format!("{name} is {found}"), most as usize)),
            false => Ok(()),
        };
        match key {
            "minItems" | "maxItems" => {
                let items = value.as_f64().unwrap_or(0.0) as u64;
                limit(key, items, MAX_ITEMS)?;
                self.items += items;
                limit("the sum of minItems and maxItems", self.items, MAX_ITEMS_IN_ALL)
            }
            "multipleOf" => {
                let multiple = whole(value.as_f64().unwrap_or(1.0));
                self.multiple = least_common_multiple(self.multiple, multiple);
                let name = "the least common multiple of all digits of multipleOf";
                limit(name, self.multiple, MAX_MULTIPLE)
            }
            "patternProperties" => {
                self.patterns += value.as_object().map_or(0, |patterns| patterns.len());
                limit("the number of patternProperties", self.patterns as u64, MAX_PATTERNS as u64)
            }
            "allOf" => {
                let parts = value.as_array().map_or(&[][..], Vec::as_slice);
                let patterns = parts.iter().filter(|part| part.get("pattern").is_some()).count();
                limit("the number of patterns in allOf", patterns as u64, MAX_TOGETHER as u64)
            }
            "oneOf" => {
                let options = value.as_array().map_or(0, Vec::len);
                limit("the number of options of oneOf", options as u64, MAX_OPTIONS as u64)
            }
            _ => Ok(()),
        }
    }
}

/// The digits of a decimal number without its point.
fn whole(number: f64) -> u64 {
    let mut number = number.abs();
    for _ in 0..15 {
        if number.fract() == 0.0 {
            break;
        }
        number *= 10.0;
    }
    (number as u64).max(1)
}

fn least_common_multiple(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x).saturating_mul(b)
}

pub fn regex(text: &str) -> Result<&str> {
    regex_syntax::ParserBuilder::new().nest_limit(MAX_NESTING).build().parse(text).map_err(
        |error| match error {
            regex_syntax::Error::Parse(e) => placed(e.kind(), e.span()),
            regex_syntax::Error::Translate(e) => placed(e.kind(), e.span()),
            other => other.to_string(),
        },
    )?;
    Ok(text)
}

fn placed(kind: impl std::fmt::Display, span: &regex_syntax::ast::Span) -> String {
    format!("{kind} (line {}, column {})", span.start.line, span.start.column)
}

/// The parser calls itself for each group, so nested groups are counted first. Expressions that must match
/// together are refused, because their states can be the product of theirs.
pub fn lark(text: &str) -> Result<String> {
    for (start, word) in text.match_indices("%json") {
        let mut inner = serde_json::Deserializer::from_str(&text[start + word.len()..]).into_iter();
        if let Some(Ok(schema)) = inner.next() {
            check_schema(&schema).map_err(|e| format!("%json: {e}"))?;
        }
    }
    let (mut depth, mut line) = (0u32, 1);
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\n' => line += 1,
            b'/' if bytes.peek() == Some(&b'/') => {
                while bytes.next_if(|&b| b != b'\n').is_some() {}
            }
            b'"' | b'/' => {
                while let Some(inside) = bytes.next_if(|&b| b != b'\n') {
                    if inside == byte {
                        break;
                    }
                    if inside == b'\\' {
                        bytes.next();
                    }
                }
            }
            b'&' => return Err(format!("the operator & is not supported (line {line})")),
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_NESTING {
            return Err(format!("groups are nested deeper than {MAX_NESTING} (line {line})"));
        }
    }
    Ok(text.to_owned())
}

/// The library's message in one line, with the place of a keyword that it does not support.
pub fn explained(kind: u32, text: &str, message: &str) -> String {
    let message = message.split("\n<backtrace>").next().unwrap_or(message);
    if message.contains("NoExtensionBias") {
        return "no text fits".to_owned();
    }
    if kind != 0 {
        // The lines after the first one show the text. A regex is compiled as a grammar.
        let line = message.lines().next().unwrap_or(message);
        let line = line.split("; following special").next().unwrap_or(line);
        let inner = line.split("(in regex): ").last().unwrap_or(line);
        return if kind == 1 { inner.to_owned() } else { line.to_owned() };
    }
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some(keywords) = line.split("Unimplemented keys: [\"").nth(1) else {
        return line;
    };
    let keyword = keywords.split('"').next().unwrap_or(keywords);
    let schema = serde_json::from_str(text).unwrap_or(Value::Null);
    let place = place_of(keyword, &schema, String::from("#")).unwrap_or_default();
    format!("the keyword \"{keyword}\" is not supported ({place})")
}

/// The first object with this key, as a JSON pointer.
fn place_of(key: &str, value: &Value, place: String) -> Option<String> {
    match value {
        Value::Object(fields) if fields.contains_key(key) => Some(place),
        Value::Object(fields) => {
            fields.iter().find_map(|(name, inner)| place_of(key, inner, format!("{place}/{name}")))
        }
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(i, inner)| place_of(key, inner, format!("{place}/{i}"))),
        _ => None,
    }
}
