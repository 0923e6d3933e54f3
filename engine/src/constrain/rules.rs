//! A thin builder over the matcher's context-free grammar and its lexer.

use super::stop;
use crate::error::{Error, Result};
use llguidance::api::{GrammarInit, SkipSpec};
use llguidance::derivre::RegexAst;
use llguidance::earley::lexerspec::{LexemeClass, LexerSpec};
use llguidance::earley::{Grammar, SymIdx, SymbolProps};
use std::collections::HashMap;

/// Symbols of a grammar; the matcher numbers them in 16 bits.
const MAX_SYMBOLS: usize = 60_000;
/// Nodes of all regular expressions together.
const MAX_LEXER_COST: u64 = 2_000_000;
/// Bytes of all constants and property names that one value may have: the matcher has a state for each of them.
const MAX_LITERAL_BYTES: usize = 40_000;

/// A symbol of the grammar.
pub(super) type Sym = SymIdx;

pub(super) struct Rules {
    grammar: Grammar,
    lexer: LexerSpec,
    class: LexemeClass,
    /// Terminals by lexeme.
    terminals: HashMap<usize, Sym>,
    literals: HashMap<String, Sym>,
    /// Lexemes by their expressions.
    lexemes: HashMap<String, Sym>,
    /// Sequences and choices by their parts: equal parts of a schema share their rules.
    seqs: HashMap<Vec<Sym>, Sym>,
    choices: HashMap<Vec<Sym>, Sym>,
    either: HashMap<Vec<Vec<Sym>>, Sym>,
    stars: HashMap<Sym, Sym>,
    exactly: HashMap<(usize, u64), Sym>,
    at_most: HashMap<(usize, u64), Sym>,
    start: Sym,
    empty: Option<Sym>,
    literal_bytes: usize,
}

/// An error out of the matcher's library: limits of its own, or notation it does not take.
pub(super) fn foreign(e: impl std::fmt::Display) -> Error {
    let text = e.to_string();
    Error::ty(
        "",
        "schema",
        format!("the matcher does not take it: {}", text.lines().next().unwrap_or_default()),
    )
}

impl Rules {
    pub fn new() -> Result<Self> {
        let mut lexer = LexerSpec::new().map_err(foreign)?;
        // Compact output: nothing is skipped between lexemes.
        let class = lexer.setup_lexeme_class_with_skip(SkipSpec::once(RegexAst::NoMatch)).map_err(foreign)?;
        let mut grammar = Grammar::new(None);
        let props = SymbolProps { grammar_id: class, is_start: true, ..Default::default() };
        let start = grammar.fresh_symbol_ext("start", props);
        Ok(Rules {
            grammar,
            lexer,
            class,
            terminals: HashMap::new(),
            literals: HashMap::new(),
            lexemes: HashMap::new(),
            seqs: HashMap::new(),
            choices: HashMap::new(),
            either: HashMap::new(),
            stars: HashMap::new(),
            exactly: HashMap::new(),
            at_most: HashMap::new(),
            start,
            empty: None,
            literal_bytes: 0,
        })
    }

    /// The finished grammar, whose values are those of `root`.
    pub fn finish(mut self, root: Sym) -> Result<GrammarInit> {
        self.add(self.start, vec![root])?;
        Ok(GrammarInit::Internal(self.grammar, self.lexer))
    }

    /// A symbol whose rules come later.
    pub fn fresh(&mut self) -> Result<Sym> {
        stop::check()?;
        if self.grammar.num_symbols() >= MAX_SYMBOLS {
            return Err(Error::ty("", "schema", format!("the grammar is larger than {MAX_SYMBOLS} symbols")));
        }
        Ok(self.grammar.fresh_symbol_ext("", SymbolProps { grammar_id: self.class, ..Default::default() }))
    }

    pub fn add(&mut self, lhs: Sym, rhs: Vec<Sym>) -> Result<()> {
        self.grammar.add_rule(lhs, rhs).map_err(foreign)
    }

    /// A terminal: the longest match of a regular expression. A nullable one becomes optional.
    pub fn lexeme(&mut self, ast: RegexAst) -> Result<Sym> {
        let Some(text) = super::spelled::spelled(&ast) else { return self.new_lexeme(ast) };
        if let Some(&sym) = self.lexemes.get(&text) {
            return Ok(sym);
        }
        let sym = self.new_lexeme(ast)?;
        self.lexemes.insert(text, sym);
        Ok(sym)
    }

    fn new_lexeme(&mut self, ast: RegexAst) -> Result<Sym> {
        stop::check()?;
        let literal_bytes = super::size::literal_bytes(&ast);
        let index =
            self.lexer.add_greedy_lexeme(String::new(), ast, false, None, usize::MAX).map_err(foreign)?;
        if self.lexer.cost() > MAX_LEXER_COST {
            return Err(Error::ty(
                "",
                "schema",
                "the regular expressions of the type are too large together",
            ));
        }
        if let Some(&sym) = self.terminals.get(&index.as_usize()) {
            return Ok(sym);
        }
        self.literal_bytes = self.literal_bytes.saturating_add(literal_bytes);
        if self.literal_bytes > MAX_LITERAL_BYTES {
            let reason =
                format!("the constants and property names of a value have more than {MAX_LITERAL_BYTES} bytes together");
            return Err(Error::ty("", "schema", reason));
        }
        let sym = self.fresh()?;
        self.grammar.make_terminal(sym, index, &self.lexer).map_err(foreign)?;
        self.terminals.insert(index.as_usize(), sym);
        Ok(sym)
    }

    pub fn literal(&mut self, text: &str) -> Result<Sym> {
        if let Some(&sym) = self.literals.get(text) {
            return Ok(sym);
        }
        let sym = self.lexeme(RegexAst::Literal(text.to_string()))?;
        self.literals.insert(text.to_string(), sym);
        Ok(sym)
    }

    pub fn empty(&mut self) -> Result<Sym> {
        if let Some(sym) = self.empty {
            return Ok(sym);
        }
        let sym = self.fresh()?;
        self.add(sym, vec![])?;
        self.empty = Some(sym);
        Ok(sym)
    }

    pub fn seq(&mut self, parts: Vec<Sym>) -> Result<Sym> {
        let empty = self.empty()?;
        let parts: Vec<Sym> = parts.into_iter().filter(|p| *p != empty).collect();
        match parts.as_slice() {
            [] => Ok(empty),
            [one] => Ok(*one),
            _ => {
                if let Some(&sym) = self.seqs.get(&parts) {
                    return Ok(sym);
                }
                let sym = self.fresh()?;
                self.seqs.insert(parts.clone(), sym);
                self.add(sym, parts)?;
                Ok(sym)
            }
        }
    }

    pub fn choice(&mut self, options: &[Sym]) -> Result<Sym> {
        if let [one] = options {
            return Ok(*one);
        }
        if let Some(&sym) = self.choices.get(options) {
            return Ok(sym);
        }
        let empty = self.empty()?;
        let sym = self.fresh()?;
        for &option in options {
            self.add(sym, if option == empty { vec![] } else { vec![option] })?;
        }
        self.choices.insert(options.to_vec(), sym);
        Ok(sym)
    }

    /// One of some sequences, of which one may be empty, without a symbol for each: a grammar takes time by its symbols.
    pub fn either(&mut self, mut options: Vec<Vec<Sym>>) -> Result<Sym> {
        let empty = self.empty()?;
        options.iter_mut().for_each(|parts| parts.retain(|p| *p != empty));
        if let [one] = options.as_mut_slice() {
            return self.seq(std::mem::take(one));
        }
        if let Some(&sym) = self.either.get(&options) {
            return Ok(sym);
        }
        let sym = self.fresh()?;
        for parts in &options {
            self.add(sym, parts.clone())?;
        }
        self.either.insert(options, sym);
        Ok(sym)
    }

    pub fn optional(&mut self, sym: Sym) -> Result<Sym> {
        let empty = self.empty()?;
        self.choice(&[sym, empty])
    }

    pub fn star(&mut self, sym: Sym) -> Result<Sym> {
        if let Some(&star) = self.stars.get(&sym) {
            return Ok(star);
        }
        let star = self.fresh()?;
        self.add(star, vec![])?;
        self.add(star, vec![star, sym])?;
        self.stars.insert(sym, star);
        Ok(star)
    }

    fn exactly(&mut self, sym: Sym, n: u64) -> Result<Sym> {
        match n {
            0 => return self.empty(),
            1 => return Ok(sym),
            _ => {}
        }
        if let Some(&found) = self.exactly.get(&(sym.as_usize(), n)) {
            return Ok(found);
        }
        let half = self.exactly(sym, n / 2)?;
        let mut parts = vec![half, half];
        if n % 2 == 1 {
            parts.push(sym);
        }
        let made = self.seq(parts)?;
        self.exactly.insert((sym.as_usize(), n), made);
        Ok(made)
    }

    /// At most `n`, unambiguously, in O(log n) rules: either at least half of them, or fewer.
    fn at_most(&mut self, sym: Sym, n: u64) -> Result<Sym> {
        match n {
            0 => return self.empty(),
            1 => return self.optional(sym),
            _ => {}
        }
        if let Some(&found) = self.at_most.get(&(sym.as_usize(), n)) {
            return Ok(found);
        }
        let half = n.div_ceil(2);
        let first = self.exactly(sym, half)?;
        let more = self.at_most(sym, n - half)?;
        let few = self.at_most(sym, half - 1)?;
        let made = self.either(vec![vec![first, more], vec![few]])?;
        self.at_most.insert((sym.as_usize(), n), made);
        Ok(made)
    }

    /// From `min` to `max` times, or any number from `min` on.
    pub fn repeat(&mut self, sym: Sym, min: u64, max: Option<u64>) -> Result<Sym> {
        let first = self.exactly(sym, min)?;
        let more = match max {
            None => self.star(sym)?,
            Some(max) => self.at_most(sym, max.saturating_sub(min))?,
        };
        self.seq(vec![first, more])
    }
}
