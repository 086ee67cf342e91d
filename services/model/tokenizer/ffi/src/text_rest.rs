//! Ids of a text that continues another one, so that nothing is put in front of it.

use serde_json::Value;
use tokenizers::{
    Model, NormalizerWrapper, OffsetReferential, OffsetType, PreTokenizer, PreTokenizerWrapper,
    Tokenizer,
};

use crate::Result;

/// The steps of a tokenizer that puts a space in front of a text, without that.
pub struct TextRest {
    normalizer: Option<NormalizerWrapper>,
    pre_tokenizer: Option<PreTokenizerWrapper>,
}

impl TextRest {
    /// They are the parts of a tokenizer.json. Nothing if they put nothing in front of a text.
    pub fn of(normalizer: &Value, pre_tokenizer: &Value) -> Result<Option<TextRest>> {
        let steps = (without_prefix(normalizer), without_prefix(pre_tokenizer));
        if (&steps.0, &steps.1) == (normalizer, pre_tokenizer) {
            return Ok(None);
        }
        let normalizer = serde_json::from_value(steps.0).map_err(|e| e.to_string())?;
        let pre_tokenizer = serde_json::from_value(steps.1).map_err(|e| e.to_string())?;
        Ok(Some(TextRest { normalizer, pre_tokenizer }))
    }

    /// The ids up to the first added token in `text`, and where it begins. The rest is read as ever.
    pub fn encode_plain_start(
        &self,
        tokenizer: &Tokenizer,
        text: &str,
    ) -> Result<(Vec<u32>, usize)> {
        let added = tokenizer.get_added_vocabulary();
        let parts = added.extract_and_normalize(None::<&NormalizerWrapper>, text);
        let end = match parts.get_splits(OffsetReferential::Original, OffsetType::Byte).first() {
            Some((_, offsets, None)) => offsets.1,
            _ => return Ok((Vec::new(), 0)),
        };
        let mut start = added.extract_and_normalize(self.normalizer.as_ref(), &text[..end]);
        if let Some(step) = &self.pre_tokenizer {
            step.pre_tokenize(&mut start).map_err(|e| e.to_string())?;
        }
        let model = tokenizer.get_model();
        start.tokenize(|word| model.tokenize(word.get())).map_err(|e| e.to_string())?;
        let words = start.get_splits(OffsetReferential::Original, OffsetType::Byte);
        let tokens = words.iter().filter_map(|(_, _, tokens)| tokens.as_ref()).flatten();
        Ok((tokens.map(|token| token.id).collect(), end))
    }
}

/// The step without what it puts in front of a text, which is null if it does nothing else.
fn without_prefix(step: &Value) -> Value {
    let mut left = step.clone();
    match step["type"].as_str() {
        Some("Prepend") => left = Value::Null,
        Some("Metaspace") => {
            left["prepend_scheme"] = "never".into();
            left["add_prefix_space"] = false.into();
        }
        Some("ByteLevel") if step["add_prefix_space"] == true => {
            left["add_prefix_space"] = false.into();
        }
        Some("Sequence") => {
            for list in ["normalizers", "pretokenizers"] {
                if let Some(steps) = left.get_mut(list).and_then(Value::as_array_mut) {
                    steps.iter_mut().for_each(|inner| *inner = without_prefix(inner));
                    steps.retain(|inner| !inner.is_null());
                }
            }
        }
        _ => {}
    }
    left
}
