//! Compiles constraints on answers and follows them token by token. The `llguidance` crate does the work.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use llguidance::api::{ParserLimits, StopReason, TopLevelGrammar};
use llguidance::earley::SlicedBiasComputer;
use llguidance::{ParserFactory, TokenParser};
use toktrie::{InferenceCapabilities, TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};

use crate::budget::{self, Limits, Outcome};
use crate::grammar_text;
use crate::vocabulary::Vocabulary;
use crate::{Failure, Result};

/// A vocabulary as constraints see it. Threads may use it at once.
pub struct Environment {
    shared: Arc<Shared>,
}

struct Shared {
    factory: ParserFactory,
    end_tokens: Vec<TokenId>, // of the model, ascending
    usable: Vec<u32>,         // a bit for each token with bytes that does not end an answer
    failures: AtomicU32,      // compilations that keep memory forever
}

/// A compiled constraint. Threads may use it at once.
pub struct Grammar {
    shared: Arc<Shared>,
    start: Mutex<TokenParser>, // never advanced
}

/// The place of one answer in its grammar.
pub struct State {
    shared: Arc<Shared>,
    parser: TokenParser,
    held: isize, // bytes
    ended: bool, // a token that ends an answer was accepted
}

pub type StateResult<T> = std::result::Result<T, Failure>;

/// The parser's own limits and `grammar_text` end nearly every compilation before these do.
const COMPILATION: Limits =
    Limits { bytes: 128 << 20, blocks: 4_000_000, stack: 512 << 20, time: Duration::from_secs(10) };
/// After so many failures that keep memory nothing is compiled any more.
const MOST_FAILURES: u32 = 8;

/// The bytes that a state may hold. They are mostly derivatives of expressions and states of the lexer.
const STATE_BYTES: isize = 128 << 20;

/// Tokens with more bytes cannot be in the tree, and are never allowed.
const MAX_TOKEN_BYTES: usize = 1000;

/// They are far above what constraints of the largest size need. A unit of the lexer's fuel is an expression,
/// which takes up to about 1 KiB.
fn parser_limits() -> ParserLimits {
    ParserLimits {
        max_items_in_row: 2_000,
        initial_lexer_fuel: 100_000,
        step_lexer_fuel: 200_000,
        step_max_items: 50_000,
        max_lexer_states: 50_000,
        max_grammar_size: 100_000,
        precompute_large_lexemes: true,
        verbose_errors: false,
    }
}

struct TokenTree(TokTrie);

impl TokenizerEnv for TokenTree {
    fn tok_trie(&self) -> &TokTrie {
        &self.0
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        self.0.greedy_tokenize(bytes)
    }

    /// The model chooses how to split text that only one continuation fits.
    fn tokenize_is_canonical(&self) -> bool {
        false
    }
}

impl Environment {
    pub fn new(vocabulary: &Vocabulary, end_tokens: &[TokenId]) -> Result<Self> {
        let size = vocabulary.size();
        let mut usable = vec![0u32; (size as usize).div_ceil(32)];
        let mut words = Vec::with_capacity(size as usize + 1);
        for id in 0..size {
            let word = if end_tokens.contains(&id) { vec![] } else { word(vocabulary, id) };
            if !word.is_empty() {
                usable[id as usize / 32] |= 1 << (id % 32);
            }
            words.push(word);
        }
        words.push(special(b"<end of answer>"));
        let tree = TokTrie::from(&TokRxInfo::new(size + 1, size), &words);
        let env: TokEnv = Arc::new(TokenTree(tree));
        let capabilities = InferenceCapabilities::default();
        let slices = SlicedBiasComputer::json_slices();
        let mut factory =
            ParserFactory::new(&env, capabilities, &slices).map_err(|e| e.to_string())?;
        factory.quiet();
        *factory.limits_mut() = parser_limits();
        let mut end_tokens = end_tokens.to_vec();
        end_tokens.sort_unstable();
        end_tokens.dedup();
        let failures = AtomicU32::new(0);
        Ok(Environment { shared: Arc::new(Shared { factory, end_tokens, usable, failures }) })
    }

    pub fn compile(&self, kind: u32, text: &str) -> Result<Grammar> {
        if self.shared.failures.load(Ordering::Relaxed) >= MOST_FAILURES {
            return Err("no constraint is compiled any more, because some needed too much memory \
                        before; restart the worker to try again"
                .to_owned());
        }
        let shared = Arc::clone(&self.shared);
        let text = text.to_owned();
        match budget::run("grammar", COMPILATION, move || shared.compile(kind, &text)) {
            Outcome::Done(parser, _) => {
                Ok(Grammar { shared: Arc::clone(&self.shared), start: Mutex::new(parser?) })
            }
            Outcome::OutOfMemory => {
                self.shared.failures.fetch_add(1, Ordering::Relaxed);
                Err(format!("needs more than {} MiB of memory", COMPILATION.bytes >> 20))
            }
            Outcome::OutOfTime => {
                self.shared.failures.fetch_add(1, Ordering::Relaxed);
                Err(format!("cannot be compiled within {} s", COMPILATION.time.as_secs()))
            }
        }
    }
}

/// The bytes by which the tree knows a token. Special tokens get a byte in front that no text has.
fn word(vocabulary: &Vocabulary, id: TokenId) -> Vec<u8> {
    let bytes = vocabulary.token(id);
    if bytes.is_empty() || bytes.len() > MAX_TOKEN_BYTES {
        return vec![];
    }
    if vocabulary.is_special(id) {
        return special(bytes);
    }
    if bytes.contains(&TokTrie::SPECIAL_TOKEN_MARKER) {
        return vec![]; // not UTF-8
    }
    bytes.to_vec()
}

fn special(bytes: &[u8]) -> Vec<u8> {
    [&[TokTrie::SPECIAL_TOKEN_MARKER], bytes].concat()
}

impl Shared {
    fn compile(&self, kind: u32, text: &str) -> Result<TokenParser> {
        let grammar = match kind {
            0 => TopLevelGrammar::from_json_schema(grammar_text::schema(text)?),
            1 => TopLevelGrammar::from_regex(grammar_text::regex(text)?),
            2 => TopLevelGrammar::from_lark(grammar_text::lark(text)?),
            _ => return Err(format!("kind {kind} is not known")),
        };
        let refused = |e: anyhow::Error| grammar_text::explained(kind, text, &format!("{e:#}"));
        let mut parser = self.factory.create_parser(grammar).map_err(refused)?;
        parser.start_without_prompt();
        // A grammar that is too large for its first token is refused now, and each answer begins with
        // the lexer's states that this mask has made.
        if !parser.check_stop().map_err(refused)? {
            parser.compute_mask().map_err(refused)?;
        }
        Ok(parser)
    }
}

impl Grammar {
    pub fn start(&self) -> StateResult<State> {
        let shared = Arc::clone(&self.shared);
        let (parser, held) =
            budget::held(|| self.start.lock().unwrap_or_else(PoisonError::into_inner).deep_clone());
        Ok(State { shared, parser, held, ended: false })
    }
}

impl State {
    pub fn stopped(&self) -> bool {
        self.ended || self.parser.stopped()
    }

    /// Bit t % 32 of word t / 32 becomes 1 for each token that may come next.
    pub fn mask(&mut self, words: &mut [u32]) -> StateResult<()> {
        words.fill(0);
        if !self.stopped() {
            let allowed = self.step(TokenParser::compute_mask)?;
            let usable = self.shared.usable.iter().zip(allowed.as_slice());
            words.iter_mut().zip(usable).for_each(|(word, (u, a))| *word = u & a);
        } else {
            self.check_sound()?;
        }
        if self.may_end() {
            for &token in &self.shared.end_tokens {
                if let Some(word) = words.get_mut(token as usize / 32) {
                    *word |= 1 << (token % 32);
                }
            }
        }
        if words.iter().all(|&word| word == 0) && !self.may_end() {
            return Err(Failure::no_token());
        }
        Ok(())
    }

    pub fn accept(&mut self, token: TokenId) -> StateResult<()> {
        if self.stopped() {
            self.check_sound()?;
        }
        if self.shared.end_tokens.binary_search(&token).is_ok() {
            if !self.may_end() {
                return Err(Failure::input("the answer cannot end here".to_owned()));
            }
            self.ended = true;
            return Ok(());
        }
        let word = self.shared.usable.get(token as usize / 32).copied().unwrap_or(0);
        let fits = word >> (token % 32) & 1 == 1
            && !self.stopped()
            && self.step(|parser| parser.validate_token(token))?;
        if !fits {
            return Err(Failure::input(format!("token {token} is not allowed here")));
        }
        self.step(|parser| {
            parser.consume_token(token)?;
            parser.check_stop()
        })?;
        Ok(())
    }

    fn may_end(&mut self) -> bool {
        self.ended || self.parser.stopped() || self.parser.is_accepting()
    }

    /// Fails when the parser was stopped by an error.
    fn check_sound(&self) -> StateResult<()> {
        let reason = self.parser.stop_reason();
        if reason.is_ok() && reason != StopReason::NoExtensionBias {
            return Ok(());
        }
        Err(self.failure(&reason.to_string()))
    }

    fn failure(&self, message: &str) -> Failure {
        if self.parser.stop_reason() == StopReason::NoExtensionBias {
            return Failure::no_token();
        }
        Failure::exhausted(format!("the constraint is too complex: {message}"))
    }

    /// Runs a step of the parser, which its limits bound in time, and counts the memory that it keeps.
    fn step<T>(
        &mut self,
        work: impl FnOnce(&mut TokenParser) -> anyhow::Result<T>,
    ) -> StateResult<T> {
        if self.held > STATE_BYTES {
            let mib = STATE_BYTES >> 20;
            return Err(Failure::exhausted(format!("the answer's state is larger than {mib} MiB")));
        }
        let parser = &mut self.parser;
        let (result, held) = budget::held(|| work(parser));
        self.held += held;
        result.map_err(|e| self.failure(&e.to_string()))
    }
}
