//! Exact decimal numbers: JSON's numbers are decimal, and bounds beyond 2^53 must hold exactly.

use serde_json::Number;
use std::cmp::Ordering;

/// Exponents beyond this are refused: digits are written out when bounds become grammars.
const MAX_EXPONENT: i64 = 400;

/// Digits of a constant that is written without exponent: those of u64.
const MAX_PLAIN: usize = 20;

/// `(-1)^negative * digits * 10^-scale` in lowest terms: no leading zero, no trailing zero in the fraction.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Decimal {
    pub negative: bool,
    /// Integer part, ASCII digits without leading zeros; `0` if there is none.
    pub int: String,
    /// Fraction, ASCII digits without trailing zeros, possibly empty.
    pub frac: String,
}

impl Decimal {
    /// From JSON's notation; `None` if malformed or of an absurd exponent.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((m, e)) => (m, e.parse::<i64>().ok().filter(|e| e.abs() <= MAX_EXPONENT)?),
            None => (text, 0),
        };
        let (int, frac) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if int.is_empty() || !int.bytes().chain(frac.bytes()).all(|b| b.is_ascii_digit()) {
            return None;
        }
        let digits = format!("{int}{frac}");
        let point = int.len() as i64 + exponent;
        let (int, frac) = if point <= 0 {
            (String::new(), format!("{}{digits}", "0".repeat(point.unsigned_abs() as usize)))
        } else if point as usize >= digits.len() {
            (format!("{digits}{}", "0".repeat(point as usize - digits.len())), String::new())
        } else {
            let (a, b) = digits.split_at(point as usize);
            (a.to_string(), b.to_string())
        };
        Some(Self::normal(negative, &int, &frac))
    }

    fn normal(negative: bool, int: &str, frac: &str) -> Self {
        let int = match int.trim_start_matches('0') {
            "" => "0",
            int => int,
        };
        let frac = frac.trim_end_matches('0');
        Decimal { negative: negative && (int != "0" || !frac.is_empty()), int: int.into(), frac: frac.into() }
    }

    pub fn of(n: &Number) -> Option<Self> {
        Self::parse(&n.to_string())
    }

    pub fn is_integer(&self) -> bool {
        self.frac.is_empty()
    }

    pub fn is_zero(&self) -> bool {
        self.int == "0" && self.frac.is_empty()
    }

    pub fn abs(&self) -> Self {
        Decimal { negative: false, ..self.clone() }
    }

    /// In JSON's notation without exponent.
    pub fn text(&self) -> String {
        let sign = if self.negative { "-" } else { "" };
        match self.frac.as_str() {
            "" => format!("{sign}{}", self.int),
            frac => format!("{sign}{}.{frac}", self.int),
        }
    }

    /// In JSON's notation, with an exponent where it would be longer than [`MAX_PLAIN`] digits without.
    pub fn notation(&self) -> String {
        if self.int.len() + self.frac.len() <= MAX_PLAIN {
            return self.text();
        }
        let digits = format!("{}{}", self.int, self.frac);
        let significant = digits.trim_start_matches('0');
        let exponent = significant.len() as i64 - self.frac.len() as i64 - 1;
        let (first, rest) = significant.split_at(1);
        let sign = if self.negative { "-" } else { "" };
        match rest.trim_end_matches('0') {
            "" => format!("{sign}{first}e{exponent}"),
            rest => format!("{sign}{first}.{rest}e{exponent}"),
        }
    }

    /// Whether this is an integral multiple of `step`, which is not zero.
    pub fn is_multiple_of(&self, step: &Decimal) -> bool {
        let scale = self.frac.len().max(step.frac.len());
        let digits = |d: &Decimal| format!("{}{:0<scale$}", d.int, d.frac);
        let Ok(step) = digits(step).parse::<u64>() else { return self.is_zero() || self.abs() == step.abs() };
        if step == 0 {
            return false;
        }
        let rest = digits(self).bytes().fold(0u128, |r, b| (r * 10 + (b - b'0') as u128) % step as u128);
        rest == 0
    }

    fn cmp_abs(&self, other: &Self) -> Ordering {
        // Equal lengths compare as text; a fraction that is a prefix of another is the smaller one.
        (self.int.len(), &self.int, &self.frac).cmp(&(other.int.len(), &other.int, &other.frac))
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => self.cmp_abs(other),
            (true, true) => other.cmp_abs(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn d(s: &str) -> Decimal {
        Decimal::parse(s).unwrap_or_else(|| panic!("{s}"))
    }

    #[test]
    fn reads_every_notation_into_lowest_terms() {
        for (text, want) in [
            ("0", "0"),
            ("-0", "0"),
            ("-0.0", "0"),
            ("1.50", "1.5"),
            ("1e3", "1000"),
            ("12.5e-1", "1.25"),
            ("1E-3", "0.001"),
            ("0.10e2", "10"),
            ("18446744073709551615", "18446744073709551615"),
        ] {
            assert_eq!(d(text).text(), want, "{text}");
        }
        for text in ["", "-", "1.2.3", "e5", "1e", "1e9999", "x", "+1"] {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
    }

    #[test]
    fn long_numbers_are_written_with_an_exponent() {
        for (text, want) in [
            ("1e100", "1e100"),
            ("-1.25e-300", "-1.25e-300"),
            ("18446744073709551615", "18446744073709551615"),
            ("1e19", "10000000000000000000"),
            ("1e20", "1e20"),
            ("0.0000001", "0.0000001"),
            ("5e-324", "5e-324"),
            ("123456789012345678901.5", "1.234567890123456789015e20"),
        ] {
            assert_eq!(d(text).notation(), want, "{text}");
            assert_eq!(d(want), d(text), "{text}");
        }
    }

    #[test]
    fn order_is_numeric() {
        let sorted = [
            "-100",
            "-10.5",
            "-10.25",
            "-1",
            "-0.1",
            "0",
            "0.01",
            "0.1",
            "0.12",
            "9",
            "10",
            "9007199254740993",
        ];
        for (i, a) in sorted.iter().enumerate() {
            for (j, b) in sorted.iter().enumerate() {
                assert_eq!(d(a).cmp(&d(b)), i.cmp(&j), "{a} {b}");
            }
        }
    }

    #[test]
    fn multiples_are_exact() {
        for (n, step, want) in [
            ("0.3", "0.1", true),
            ("0.35", "0.1", false),
            ("-9", "3", true),
            ("10", "2.5", true),
            ("9007199254740993", "2", false),
            ("0", "7", true),
            ("1e20", "10", true),
        ] {
            assert_eq!(d(n).is_multiple_of(&d(step)), want, "{n} {step}");
        }
    }
}
