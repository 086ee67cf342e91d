//! Why an expression will not do, and what to write instead.

use jmespath::{ErrorReason, JmespathError, RuntimeError};

pub const FUNCTIONS: [&str; 26] = [
    "abs",
    "avg",
    "ceil",
    "contains",
    "ends_with",
    "floor",
    "join",
    "keys",
    "length",
    "map",
    "max",
    "max_by",
    "merge",
    "min",
    "min_by",
    "not_null",
    "reverse",
    "sort",
    "sort_by",
    "starts_with",
    "sum",
    "to_array",
    "to_number",
    "to_string",
    "type",
    "values",
];

const LITERALS: &str = "a text in single quotes, as in 'a', and a number in backticks, as in `5`";
/// Characters that are shown of the text behind a place.
const SHOWN: usize = 20;

/// "at character 12, before \"]\"". The offset counts bytes.
fn place(expression: &str, offset: usize) -> String {
    let (before, behind) = expression.split_at_checked(offset).unwrap_or((expression, ""));
    let character = before.chars().count() + 1;
    if behind.is_empty() {
        return format!("at character {character}, its end");
    }
    let shown: String = behind.chars().take(SHOWN).collect();
    let more = if shown.len() < behind.len() { "..." } else { "" };
    format!("at character {character}, before \"{shown}{more}\"")
}

/// The parser's words, without the names of its tokens.
fn parser_advice(said: &str, behind: &str) -> String {
    let (what, token) = said.split_once(" -- found ").unwrap_or((said, ""));
    match what {
        "Unexpected nud token" if token.starts_with("Number") => {
            format!("write {LITERALS}")
        }
        "Unexpected nud token" if behind.is_empty() => {
            "complete the expression with the name of a property, a literal or a function"
                .to_owned()
        }
        "Unexpected nud token" => {
            format!("write the name of a property, {LITERALS}, or a function there")
        }
        "Unexpected led token" | "Did not parse the complete expression" => {
            "write an operator such as . | == && || there, or end the expression".to_owned()
        }
        "Expected Field to start key value pair" | "Expected ':' to follow key" => {
            "write pairs of a name and a value, as in {id: sequence_id}".to_owned()
        }
        _ => what.to_owned(),
    }
}

fn argument_advice(expected: &str, actual: &str, position: usize) -> String {
    let wanted = expected.replace('|', " or ").replace("expref", "an expression behind &");
    let text = format!("its argument {} has the type {actual} and not {wanted}", position + 1);
    if expected.contains("number") && matches!(actual, "string" | "array" | "null") {
        return format!("{text}. Numbers of 64 bits are strings, which to_number(x) turns back");
    }
    text
}

fn function_advice(reason: &RuntimeError) -> String {
    match reason {
        RuntimeError::InvalidSlice => "the step of a slice may not be 0".to_owned(),
        RuntimeError::UnknownFunction(name) => {
            format!("there is no function {name}. Use one of {}", FUNCTIONS.join(", "))
        }
        RuntimeError::TooManyArguments { expected, actual }
        | RuntimeError::NotEnoughArguments { expected, actual } => {
            format!("it has {actual} arguments and takes {expected}")
        }
        RuntimeError::InvalidType { expected, actual, position } => {
            argument_advice(expected, actual, *position)
        }
        RuntimeError::InvalidReturnType { expected, actual, position, .. } => {
            let wanted = expected.replace("expression->", "").replace('|', " or ");
            format!(
                "the expression of argument {} gives {actual} for one of the items and has to give {wanted}",
                position + 1
            )
        }
    }
}

/// The message of an error. `function` is the name of the function that failed, if one did.
pub fn message(expression: &str, error: &JmespathError, function: Option<&str>) -> String {
    let at = place(expression, error.offset);
    match &error.reason {
        ErrorReason::Parse(said) => {
            let behind = expression.get(error.offset..).unwrap_or("");
            format!("{at}: {}", parser_advice(said, behind))
        }
        ErrorReason::Runtime(reason) => {
            let name = function.map(|name| format!("{name}(): ")).unwrap_or_default();
            format!("{at}: {name}{}", function_advice(reason))
        }
    }
}
