//! Reads a tokenizer.json and computes the raw bytes of each of its tokens.

use serde_json::Value;
use tokenizers::Tokenizer;

use crate::Result;

pub struct Vocabulary {
    tokenizer: Tokenizer,
    tokens: Vec<Token>, // by id
}

#[derive(Clone, Default)]
struct Token {
    bytes: Box<[u8]>,
    special: bool,
}

impl Vocabulary {
    pub fn from_json(json: &[u8]) -> Result<Self> {
        let document: Value = serde_json::from_slice(json).map_err(|e| e.to_string())?;
        let spelling = Spelling::of(&document);
        drop(document);
        let mut tokenizer = Tokenizer::from_bytes(json).map_err(|e| e.to_string())?;
        tokenizer.with_truncation(None).map_err(|e| e.to_string())?;
        tokenizer.with_padding(None);
        let tokens = token_table(&tokenizer, spelling)?;
        Ok(Vocabulary { tokenizer, tokens })
    }

    pub fn size(&self) -> u32 {
        self.tokens.len() as u32
    }

    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let encoding = self.tokenizer.encode_fast(text, false).map_err(|e| e.to_string())?;
        Ok(encoding.get_ids().to_vec())
    }

    pub fn token(&self, id: u32) -> &[u8] {
        self.tokens.get(id as usize).map_or(&[], |token| &token.bytes)
    }

    pub fn is_special(&self, id: u32) -> bool {
        self.tokens.get(id as usize).is_some_and(|token| token.special)
    }
}

/// The table of tokens is indexed by id, so ids far above the number of tokens would make it absurdly
/// large.
const MAX_ID: u32 = 1 << 24;

fn token_table(tokenizer: &Tokenizer, spelling: Spelling) -> Result<Vec<Token>> {
    let vocab = tokenizer.get_vocab(true);
    let added = tokenizer.get_added_tokens_decoder();
    let ids = vocab.values().chain(added.keys());
    let size = ids.max().map_or(0, |id| id.saturating_add(1));
    if size > MAX_ID {
        return Err(format!("token id {} is too large", size - 1));
    }
    let mut tokens = vec![Token::default(); size as usize];
    for (text, id) in &vocab {
        tokens[*id as usize].bytes = spelling.bytes(text).into();
    }
    for (id, token) in &added {
        tokens[*id as usize] =
            Token { bytes: token.content.as_bytes().into(), special: token.special };
    }
    Ok(tokens)
}

/// How the vocabulary writes bytes in its tokens, read off the decoder.
#[derive(Clone, Copy, Default)]
struct Spelling {
    byte_level: bool,    // each byte as a printable character, as GPT-2 does
    byte_fallback: bool, // <0xNN> stands for a byte
    metaspace: bool,     // U+2581 stands for a space
}

impl Spelling {
    fn of(document: &Value) -> Self {
        let mut spelling = Spelling::default();
        spelling.read(&document["decoder"]);
        if document["decoder"].is_null() {
            spelling.read(&document["pre_tokenizer"]);
        }
        spelling
    }

    fn read(&mut self, part: &Value) {
        match part["type"].as_str() {
            Some("ByteLevel") => self.byte_level = true,
            Some("ByteFallback") => self.byte_fallback = true,
            Some("Metaspace") => self.metaspace = true,
            Some("Replace") => self.metaspace |= part["pattern"]["String"] == "\u{2581}",
            Some("Sequence") => {
                for list in [&part["decoders"], &part["pretokenizers"]] {
                    list.as_array().into_iter().flatten().for_each(|inner| self.read(inner));
                }
            }
            _ => {}
        }
    }

    fn bytes(self, token: &str) -> Vec<u8> {
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
