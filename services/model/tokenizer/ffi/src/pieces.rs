//! Checks the model of a tokenizer.json before the crate reads it.

use std::borrow::Cow;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::Result;

/// The part of a model that is checked.
#[derive(Deserialize)]
pub struct ModelHead {
    unk_id: Option<u64>,
    #[serde(default)]
    vocab: Pieces,
}

/// A vocabulary, of which a unigram model has a list of pieces with their scores.
#[derive(Default)]
struct Pieces {
    unigram: bool,
    count: u64,
    too_long: Option<(u64, usize)>, // the first one, and its bytes
}

/// The crate's tree of pieces is as deep as the longest one, and code that walks it calls itself for each byte.
const MOST_PIECE_BYTES: usize = 1024;

impl ModelHead {
    pub fn check(&self) -> Result<()> {
        if !self.vocab.unigram {
            return Ok(());
        }
        if let Some((place, bytes)) = self.vocab.too_long {
            return Err(format!(
                "model.vocab[{place}] has {bytes} bytes, more than {MOST_PIECE_BYTES}"
            ));
        }
        match self.unk_id {
            None => Err("model.unk_id: missing in a unigram model".to_owned()),
            Some(id) if id >= self.vocab.count => {
                Err(format!("model.unk_id is {id}, model.vocab has {} pieces", self.vocab.count))
            }
            Some(_) => Ok(()),
        }
    }
}

impl<'de> Deserialize<'de> for Pieces {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(PiecesVisitor)
    }
}

struct PiecesVisitor;

impl<'de> Visitor<'de> for PiecesVisitor {
    type Value = Pieces;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("an object of ids or a list of pieces")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Pieces, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Pieces::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> std::result::Result<Pieces, A::Error> {
        let mut pieces = Pieces { unigram: true, ..Pieces::default() };
        while let Some((text, _)) = list.next_element::<(Cow<str>, f64)>()? {
            if text.len() > MOST_PIECE_BYTES && pieces.too_long.is_none() {
                pieces.too_long = Some((pieces.count, text.len()));
            }
            pieces.count += 1;
        }
        Ok(pieces)
    }
}
