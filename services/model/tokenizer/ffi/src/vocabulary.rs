//! Reads a tokenizer.json and computes the raw bytes of each of its tokens.

use serde::Deserialize;
use serde_json::Value;
use tokenizers::Tokenizer;

use crate::pieces::ModelHead;
use crate::spelling::Spelling;
use crate::text_rest::TextRest;
use crate::Result;

pub struct Vocabulary {
    tokenizer: Tokenizer,
    rest: Option<TextRest>,
    tokens: Vec<Token>, // by id
    drops_space: bool,
}

#[derive(Clone, Default)]
struct Token {
    bytes: Box<[u8]>,
    special: bool,
}

/// The parts of a tokenizer.json that are looked at here. The crate reads all of it.
#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    decoder: Value,
    model: ModelHead,
}

impl Vocabulary {
    pub fn from_json(json: &[u8]) -> Result<Self> {
        let document: Document = serde_json::from_slice(json).map_err(|e| e.to_string())?;
        document.model.check()?;
        let spelling = Spelling::of(&document.decoder, &document.pre_tokenizer);
        let rest = TextRest::of(&document.normalizer, &document.pre_tokenizer)?;
        drop(document);
        let mut tokenizer = Tokenizer::from_bytes(json).map_err(|e| e.to_string())?;
        tokenizer.with_truncation(None).map_err(|e| e.to_string())?;
        tokenizer.with_padding(None);
        let tokens = token_table(&tokenizer, spelling)?;
        Ok(Vocabulary { tokenizer, rest, tokens, drops_space: spelling.drops_space })
    }

    pub fn size(&self) -> u32 {
        self.tokens.len() as u32
    }

    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let encoding = self.tokenizer.encode_fast(text, false).map_err(|e| e.to_string())?;
        Ok(encoding.get_ids().to_vec())
    }

    /// As `encode`, but nothing is put in front of a text that begins in the middle of a line.
    pub fn encode_rest(&self, text: &str) -> Result<Vec<u32>> {
        let Some(rest) = &self.rest else {
            return self.encode(text);
        };
        let (mut ids, end) = rest.encode_plain_start(&self.tokenizer, text)?;
        ids.extend(self.encode(&text[end..])?);
        Ok(ids)
    }

    pub fn token(&self, id: u32) -> &[u8] {
        self.tokens.get(id as usize).map_or(&[], |token| &token.bytes)
    }

    pub fn is_special(&self, id: u32) -> bool {
        self.tokens.get(id as usize).is_some_and(|token| token.special)
    }

    pub fn drops_space(&self) -> bool {
        self.drops_space
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
        let bytes = match token.special {
            true => token.content.as_bytes().to_vec(),
            false => spelling.added_bytes(&token.content),
        };
        tokens[*id as usize] = Token { bytes: bytes.into(), special: token.special };
    }
    Ok(tokens)
}
