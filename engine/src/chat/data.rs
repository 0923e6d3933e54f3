//! Bounds what a template may keep in variables.
//!
//! A value that nests too deeply would exhaust the stack when it is printed, compared or freed. Only `set` can
//! make one, by putting a variable's value into its next value again and again, so every `set` passes its value
//! through here ([`super::source`]). Slices, sums of lists and the like, which are views of what they are made
//! from, become plain lists and maps, as they are in Python.

use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};
use std::any::type_name;

const MAX_DEPTH: usize = 200;
/// Values in one variable, counted as often as they occur in it: what prints or compares it takes no longer.
const MAX_VALUES: u32 = 500_000;
/// Values that are looked at for one step of the template's budget.
const PER_STEP: u32 = 16;

/// The filter for variables.
pub(super) fn keep(state: &State, value: Value) -> Result<Value, Error> {
    let checked = Check { state, attribute: false, looked_at: 0 }.value(&value, 0)?;
    Ok(checked.unwrap_or(value))
}

/// The filter for attributes of namespaces, which outlive loops: only data, so that no namespace holds itself.
pub(super) fn keep_attribute(state: &State, value: Value) -> Result<Value, Error> {
    let checked = Check { state, attribute: true, looked_at: 0 }.value(&value, 0)?;
    Ok(checked.unwrap_or(value))
}

struct Check<'s, 't, 'e> {
    state: &'s State<'t, 'e>,
    attribute: bool,
    looked_at: u32,
}

impl Check<'_, '_, '_> {
    /// The value in plain form; `None` if it already is.
    fn value(&mut self, value: &Value, depth: usize) -> Result<Option<Value>, Error> {
        self.looked_at += 1;
        if self.looked_at % PER_STEP == 0 {
            self.state.consume_fuel(1)?;
        }
        if self.looked_at > MAX_VALUES {
            let reason = format!("a value consists of more than {MAX_VALUES} values");
            return Err(Error::new(ErrorKind::InvalidOperation, reason));
        }
        if depth > MAX_DEPTH {
            let reason = format!("a value is nested deeper than {MAX_DEPTH} levels");
            return Err(Error::new(ErrorKind::InvalidOperation, reason));
        }
        let Some(object) = value.as_object() else { return Ok(None) };
        // They look like maps.
        let is_code =
            ["::Namespace", "::Macro", "::Module", "::Loop"].iter().any(|t| object.type_name().ends_with(t));
        match value.kind() {
            ValueKind::Seq | ValueKind::Iterable => self.sequence(value, depth),
            ValueKind::Map if !is_code => self.map(value, depth),
            _ if self.attribute => {
                Err(Error::new(ErrorKind::InvalidOperation, "only data can be kept in a namespace"))
            }
            _ => Ok(None),
        }
    }

    fn sequence(&mut self, value: &Value, depth: usize) -> Result<Option<Value>, Error> {
        let plain = value.is_tuple() || is_type::<Vec<Value>>(value);
        let mut items = Vec::new();
        let mut changed = !plain;
        for item in value.try_iter()? {
            let kept = self.value(&item, depth + 1)?;
            changed |= kept.is_some();
            items.push(kept.unwrap_or(item));
        }
        Ok(match (changed, value.is_tuple()) {
            (false, _) => None,
            (true, true) => Some(Value::from(Tuple::from(items))),
            (true, false) => Some(Value::from(items)),
        })
    }

    fn map(&mut self, value: &Value, depth: usize) -> Result<Option<Value>, Error> {
        let mut pairs = Vec::new();
        let mut changed = false;
        for key in value.try_iter()? {
            let item = value.get_item(&key)?;
            let (kept_key, kept) = (self.value(&key, depth + 1)?, self.value(&item, depth + 1)?);
            changed |= kept_key.is_some() || kept.is_some();
            pairs.push((kept_key.unwrap_or(key), kept.unwrap_or(item)));
        }
        let copy = Value::from_pairs(pairs);
        let same_type = value.as_object().map(|o| o.type_name()) == copy.as_object().map(|o| o.type_name());
        Ok((changed || !same_type).then_some(copy))
    }
}

fn is_type<T>(value: &Value) -> bool {
    value.as_object().is_some_and(|object| object.type_name() == type_name::<T>())
}
