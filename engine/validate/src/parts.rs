//! A schema in parts that refer to each other by number, each part validated once for each value.
//!
//! The library follows a reference as often as it meets it: where every part refers to the next one twice for the same
//! property, a value 30 deep takes 2^30 visits. Here what a part says of a value is remembered while one value is
//! checked, so the work is at most parts times values.

use super::{fault, options, Fault, MultipleOf};
use jsonschema::{Draft, Keyword, ValidationError};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The keyword that refers to a part by its number. A part that is never to be reached is [`UNREAD`].
pub const PART: &str = "lean:part";

/// The number of a part that no value reaches; one that does is refused.
pub const UNREAD: u64 = u32::MAX as u64;

/// Visits of parts for one value, and parts that are entered one inside the other: the stack is finite.
const MAX_VISITS: u64 = 20_000_000;
const MAX_NESTED: usize = 1_000;
/// The same of parts that say where a value is not valid; further in, none does.
const MAX_TOLD: usize = 200;

/// What stands between the place and the reason of a fault inside a part.
const SEPARATOR: char = '\n';

/// The compiled parts; the first one is the schema.
pub(super) struct Parts(Arc<Vec<jsonschema::Validator>>);

/// One check, on the thread that does it.
struct Run {
    parts: Arc<Vec<jsonschema::Validator>>,
    /// Addresses of the value's parts: whatever else is validated (names of properties) may share one with the next.
    values: HashSet<usize>,
    valid: HashMap<(u32, usize), bool>,
    faults: HashMap<(u32, usize), Fault>,
    visits: u64,
    nested: usize,
    told: usize,
    exceeded: bool,
}

thread_local! {
    static RUN: RefCell<Option<Run>> = const { RefCell::new(None) };
}

impl Parts {
    /// # Errors
    /// What the library does not take, with the number of the part.
    pub fn new(parts: &[Value], draft: Draft, multiple_of: MultipleOf) -> Result<Self, (usize, Fault)> {
        let compiled = parts.iter().enumerate().map(|(i, part)| {
            let options = options(draft, multiple_of).with_keyword(PART, |_, part, _| {
                let part = part.as_u64().and_then(|n| u32::try_from(n).ok());
                let part = part.ok_or_else(|| ValidationError::custom("a part has a number"))?;
                Ok(Box::new(Reference(part)))
            });
            options.build(part).map_err(|e| (i, fault(&e)))
        });
        Ok(Parts(Arc::new(compiled.collect::<Result<_, _>>()?)))
    }

    pub fn check(&self, value: &Value) -> Result<(), Fault> {
        let run = Run {
            parts: self.0.clone(),
            values: addresses(value),
            valid: HashMap::new(),
            faults: HashMap::new(),
            visits: 0,
            nested: 0,
            told: 0,
            exceeded: false,
        };
        // A check never begins inside another one: parts know nothing of this type.
        RUN.set(Some(run));
        let root = Reference(0);
        let valid = root.is_valid(value);
        let exceeded = || with_run(|run| run.exceeded).unwrap_or(true);
        let result = if valid || exceeded() { Ok(()) } else { Err(root.fault(value)) };
        let exceeded = exceeded();
        RUN.set(None);
        if exceeded {
            let reason = format!(
                "the validation takes more than {MAX_VISITS} steps or enters more than {MAX_NESTED} references one inside the other"
            );
            return Err(Fault::nowhere(reason));
        }
        result
    }
}

/// Where a value and everything in it lies in memory.
fn addresses(value: &Value) -> HashSet<usize> {
    let mut found = HashSet::new();
    let mut todo = vec![value];
    while let Some(value) = todo.pop() {
        found.insert(address(value));
        match value {
            Value::Array(items) => todo.extend(items),
            Value::Object(map) => todo.extend(map.values()),
            _ => {}
        }
    }
    found
}

fn address(value: &Value) -> usize {
    std::ptr::from_ref(value) as usize
}

fn with_run<T>(f: impl FnOnce(&mut Run) -> T) -> Option<T> {
    RUN.with_borrow_mut(|run| run.as_mut().map(f))
}

/// The keyword [`PART`].
struct Reference(u32);

/// What is known of a part and a value before it is looked at.
enum Known {
    Is(bool),
    Look(Arc<Vec<jsonschema::Validator>>),
}

impl Reference {
    fn key(&self, value: &Value) -> (u32, usize) {
        (self.0, address(value))
    }

    /// Where and why a value that is not valid is not.
    fn fault(&self, value: &Value) -> Fault {
        let none = Fault::nowhere("the value is not valid".into());
        let known = with_run(|run| match run.faults.get(&self.key(value)) {
            Some(fault) => Err(fault.clone()),
            None if run.told >= MAX_TOLD || run.exceeded => Err(none.clone()),
            None => {
                run.told += 1;
                Ok(run.parts.clone())
            }
        });
        let parts = match known {
            Some(Ok(parts)) => parts,
            Some(Err(fault)) => return fault,
            None => return none,
        };
        let found = parts.get(self.0 as usize).and_then(|part| part.validate(value).err());
        let fault = found.map_or(none, |e| located(&e));
        with_run(|run| {
            run.told -= 1;
            if run.values.contains(&address(value)) {
                run.faults.insert(self.key(value), fault.clone());
            }
        });
        fault
    }
}

/// The fault of an error; one inside a part tells its place from there on.
fn located(e: &ValidationError) -> Fault {
    let mut found = fault(e);
    if e.schema_path().to_string().ends_with(PART) {
        if let Some((at, reason)) = found.reason.split_once(SEPARATOR) {
            found = Fault { at: found.at + at, text: None, reason: reason.to_string() };
        }
    }
    found
}

impl<'i> Keyword<'i> for Reference {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        if self.is_valid(instance) {
            return Ok(());
        }
        let fault = self.fault(instance);
        Err(ValidationError::custom(format!("{}{SEPARATOR}{}", fault.at, fault.reason)))
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        let known = with_run(|run| {
            if let Some(&valid) = run.valid.get(&self.key(instance)) {
                return Known::Is(valid);
            }
            run.visits += 1;
            run.exceeded |= run.visits > MAX_VISITS || run.nested >= MAX_NESTED;
            if run.exceeded {
                return Known::Is(false);
            }
            run.nested += 1;
            Known::Look(run.parts.clone())
        });
        let parts = match known {
            Some(Known::Look(parts)) => parts,
            Some(Known::Is(valid)) => return valid,
            None => return false,
        };
        // What is not there was never to be reached.
        let valid = parts.get(self.0 as usize).is_some_and(|part| part.is_valid(instance));
        with_run(|run| {
            run.nested -= 1;
            if run.values.contains(&address(instance)) {
                run.valid.insert(self.key(instance), valid);
            }
        });
        valid
    }
}
