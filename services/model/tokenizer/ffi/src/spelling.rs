//! How a vocabulary writes bytes in its tokens.

use serde_json::Value;

/// How the vocabulary writes bytes in its tokens, read off the decoder.
#[derive(Clone, Copy, Default)]
pub struct Spelling {
    byte_level: bool,      // each byte as a printable character, as GPT-2 does
    byte_fallback: bool,   // <0xNN> stands for a byte
    metaspace: bool,       // U+2581 stands for a space
    pub drops_space: bool, // the first space of a whole text is not of the text
}

impl Spelling {
    /// They are the parts of a tokenizer.json.
    pub fn of(decoder: &Value, pre_tokenizer: &Value) -> Self {
        let mut spelling = Spelling::default();
        spelling.read(if decoder.is_null() { pre_tokenizer } else { decoder });
        spelling
    }

    fn read(&mut self, part: &Value) {
        match part["type"].as_str() {
            Some("ByteLevel") => self.byte_level = true,
            Some("ByteFallback") => self.byte_fallback = true,
            Some("Metaspace") => {
                self.metaspace = true;
                self.drops_space |=
                    part["prepend_scheme"] != "never" && part["add_prefix_space"] != false;
            }
            Some("Strip") => {
                self.drops_space |= part["content"] == " " && part["start"].as_u64() >= Some(1);
            }
            Some("Replace") => self.metaspace |= part["pattern"]["String"] == "\u{2581}",
            Some("Sequence") => {
                for list in [&part["decoders"], &part["pretokenizers"]] {
                    list.as_array().into_iter().flatten().for_each(|inner| self.read(inner));
                }
            }
            _ => {}
        }
    }

    /// The bytes that a token of the model stands for.
    pub fn bytes(self, token: &str) -> Vec<u8> {
        if self.byte_level {
            let bytes: Option<Vec<u8>> = token.chars().map(byte_of).collect();
            return bytes.unwrap_or_else(|| token.as_bytes().to_vec());
        }
        if self.byte_fallback {
            if let Some(byte) = fallback_byte(token) {
                return vec![byte];
            }
        }
        if self.metaspace {
            return token.replace('\u{2581}', " ").into_bytes();
        }
        token.as_bytes().to_vec()
    }

    /// The bytes that an added token stands for, unless it is special. GPT-2's letters are not looked for in it, because its text is
    /// what users wrote.
    pub fn added_bytes(self, token: &str) -> Vec<u8> {
        Spelling { byte_level: false, ..self }.bytes(token)
    }
}

/// `<0x0A>` is byte 10.
fn fallback_byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() != 2 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    u8::from_str_radix(digits, 16).ok()
}

/// GPT-2's alphabet: printable Latin-1 stands for itself, the 68 other bytes are U+0100 and up, in
/// order.
fn byte_of(letter: char) -> Option<u8> {
    const SHIFTED: [std::ops::RangeInclusive<u8>; 3] = [0..=0x20, 0x7F..=0xA0, 0xAD..=0xAD];
    let code = letter as u32;
    if code < 0x100 {
        let byte = code as u8;
        return (!SHIFTED.iter().any(|range| range.contains(&byte))).then_some(byte);
    }
    SHIFTED.into_iter().flatten().nth((code - 0x100) as usize)
}
