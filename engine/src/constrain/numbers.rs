//! Sets of numbers as regular languages over their decimal notation.
//!
//! A number without bounds is written with at most [`MAX_DIGITS`] digits and a short exponent; one with bounds
//! or steps is written without an exponent, since the order of decimals is then the order of their digits, and with
//! at most [`MAX_EXACT_DIGITS`] digits if it has a fraction.

use super::decimal::Decimal;
use super::node::{Bound, Numbers};
use llguidance::derivre::RegexAst;

/// Digits of a number, integer part and fraction together: what an f64 needs to be told from every other.
pub(super) const MAX_DIGITS: usize = 17;
/// Digits of an integer bound that is honoured beyond [`MAX_DIGITS`]: those of u64.
const MAX_BOUND_DIGITS: usize = 20;
/// Digits of a number with a fraction, where it is compared with something: doubles keep that many decimal digits
/// apart and in order, so that whoever parses the number as a double comes to the same answer.
const MAX_EXACT_DIGITS: usize = 15;
/// Digits of an integral multiple of a step: any such number is an integer of 64 bits.
const MAX_MULTIPLE_DIGITS: usize = 18;
/// Largest `multipleOf` in units of its last digit: the matcher has a state for every remainder.
const MAX_STEP: u32 = 20_000;
const MAX_STEP_DECIMALS: u32 = 8;

fn rx(s: impl Into<String>) -> RegexAst {
    RegexAst::Regex(s.into())
}

fn seq(parts: Vec<RegexAst>) -> RegexAst {
    RegexAst::Concat(parts)
}

fn minus(ast: RegexAst) -> RegexAst {
    seq(vec![rx("-"), ast])
}

/// The notation of every number in the set, or why it cannot be enforced.
pub(super) fn language(n: &Numbers) -> Result<RegexAst, String> {
    if let Some(list) = &n.literals {
        return Ok(RegexAst::Or(list.iter().map(|d| RegexAst::Literal(d.notation())).collect()));
    }
    let steps = !n.multiples.is_empty() || !n.no_multiples.is_empty();
    let plain = n.min.is_none() && n.max.is_none() && !steps && n.except.is_empty();
    let most = if steps { MAX_MULTIPLE_DIGITS } else { MAX_BOUND_DIGITS };
    let beyond = |b: &Option<Bound>, negative| {
        b.as_ref().is_some_and(|b| b.value.negative == negative && b.value.int.len() > most)
    };
    if beyond(&n.min, false) || beyond(&n.max, true) {
        let what = if steps { "multiples" } else { "numbers" };
        return Err(format!("{what} of more than {most} digits are never generated"));
    }
    let mut all = vec![shape(n, plain, most)];
    if let Some(bound) = &n.min {
        all.push(at_least(bound));
    }
    if let Some(bound) = &n.max {
        all.push(at_most(bound));
    }
    if let Some(step) = common_multiple(&n.multiples)? {
        all.push(multiple(&step)?);
    }
    for step in &n.no_multiples {
        all.push(RegexAst::Not(Box::new(multiple(step)?)));
    }
    for d in &n.except {
        all.push(RegexAst::Not(Box::new(equal(d))));
    }
    Ok(if all.len() == 1 { all.remove(0) } else { RegexAst::And(all) })
}

/// The notation of numbers, whatever their bounds; exponents only where there are none.
fn shape(n: &Numbers, plain: bool, most: usize) -> RegexAst {
    if plain && !n.integer {
        let exponent = "([eE][-+]?[0-9]{1,2})?";
        return RegexAst::And(vec![
            rx(format!("-?(0|[1-9][0-9]*)(\\.[0-9]+)?{exponent}")),
            rx(format!("-?[0-9](\\.?[0-9]){{0,{}}}{exponent}", MAX_DIGITS - 1)),
        ]);
    }
    // A lower bound of more digits than usual needs them; the same for an upper one below zero.
    let lengths = [&n.min, &n.max].into_iter().flatten().map(|b| b.value.int.len());
    let digits = lengths.filter(|&l| l <= most).max().unwrap_or(0).max(MAX_DIGITS);
    let integer = rx(format!("-?[1-9][0-9]{{0,{}}}|0", digits - 1));
    if n.integer {
        return integer;
    }
    let fraction = RegexAst::And(vec![
        rx("-?(0|[1-9][0-9]*)\\.[0-9]+"),
        rx(format!("-?(0\\.[0-9]{{1,{MAX_EXACT_DIGITS}}}|[0-9](\\.?[0-9]){{0,{}}})", MAX_EXACT_DIGITS - 1)),
    ]);
    RegexAst::Or(vec![integer, fraction])
}

fn non_negative() -> RegexAst {
    rx("(0|[1-9][0-9]*)(\\.[0-9]+)?")
}

/// A bound that some number of at most [`MAX_BOUND_DIGITS`] digits satisfies.
fn at_least(b: &Bound) -> RegexAst {
    let d = fit(&b.value);
    if d.0.int.len() > MAX_BOUND_DIGITS {
        return RegexAst::Or(vec![non_negative(), minus(non_negative())]);
    }
    match b.value.negative {
        false => above(&d.0, b.exclusive || d.1),
        true => RegexAst::Or(vec![non_negative(), minus(below(&d.0, b.exclusive && !d.1))]),
    }
}

fn at_most(b: &Bound) -> RegexAst {
    let d = fit(&b.value);
    if d.0.int.len() > MAX_BOUND_DIGITS {
        return RegexAst::Or(vec![non_negative(), minus(non_negative())]);
    }
    match b.value.negative {
        // Minus zero is not below zero.
        false if b.exclusive && b.value.is_zero() => minus(above(&d.0, true)),
        false => RegexAst::Or(vec![below(&d.0, b.exclusive && !d.1), minus(non_negative())]),
        true => minus(above(&d.0, b.exclusive || d.1)),
    }
}

/// The magnitude of a bound cut to the digits that numbers have here, and whether something was cut off:
/// no number lies between, so `x >= b` becomes `x > cut` and `x <= b` becomes `x <= cut`.
fn fit(d: &Decimal) -> (Decimal, bool) {
    let mut d = d.abs();
    let cut = d.frac.len() > MAX_BOUND_DIGITS;
    if cut {
        d.frac.truncate(MAX_BOUND_DIGITS);
        d.frac.truncate(d.frac.trim_end_matches('0').len());
    }
    (d, cut)
}

/// Non-negative numbers `>= d` (or `> d`).
fn above(d: &Decimal, strict: bool) -> RegexAst {
    let any_frac = "(\\.[0-9]+)?";
    let (int, n) = (&d.int, d.int.len());
    let mut ways = vec![rx(format!("[1-9][0-9]{{{n},}}{any_frac}"))];
    for (i, c) in int.bytes().enumerate().filter(|(_, c)| *c < b'9') {
        ways.push(rx(format!("{}[{}-9][0-9]{{{}}}{any_frac}", &int[..i], (c + 1) as char, n - i - 1)));
    }
    let nonzero = "[0-9]*[1-9][0-9]*";
    if d.frac.is_empty() {
        ways.push(rx(if strict { format!("{int}\\.{nonzero}") } else { format!("{int}{any_frac}") }));
    } else {
        for (i, c) in d.frac.bytes().enumerate().filter(|(_, c)| *c < b'9') {
            ways.push(rx(format!("{int}\\.{}[{}-9][0-9]*", &d.frac[..i], (c + 1) as char)));
        }
        ways.push(rx(format!("{int}\\.{}{}", d.frac, if strict { nonzero } else { "[0-9]*" })));
    }
    RegexAst::Or(ways)
}

/// Non-negative numbers `<= d` (or `< d`).
fn below(d: &Decimal, strict: bool) -> RegexAst {
    let any_frac = "(\\.[0-9]+)?";
    let (int, n) = (&d.int, d.int.len());
    let mut ways = Vec::new();
    if n > 1 {
        ways.push(rx(format!("(0|[1-9][0-9]{{0,{}}}){any_frac}", n - 2)));
    }
    for (i, c) in int.bytes().enumerate() {
        let low = if i == 0 && n > 1 { b'1' } else { b'0' };
        if c > low {
            let digit = format!("[{}-{}]", low as char, (c - 1) as char);
            ways.push(rx(format!("{}{digit}[0-9]{{{}}}{any_frac}", &int[..i], n - i - 1)));
        }
    }
    if d.frac.is_empty() {
        if !strict {
            ways.push(rx(format!("{int}(\\.0+)?")));
        }
    } else {
        ways.push(rx(int.clone()));
        for (i, c) in d.frac.bytes().enumerate() {
            if i > 0 {
                ways.push(rx(format!("{int}\\.{}", &d.frac[..i])));
            }
            if c > b'0' {
                ways.push(rx(format!("{int}\\.{}[0-{}][0-9]*", &d.frac[..i], (c - 1) as char)));
            }
        }
        if !strict {
            ways.push(rx(format!("{int}\\.{}0*", d.frac)));
        }
    }
    RegexAst::Or(ways)
}

/// Every notation without exponent of one number.
fn equal(d: &Decimal) -> RegexAst {
    let sign = if d.is_zero() {
        "-?"
    } else if d.negative {
        "-"
    } else {
        ""
    };
    rx(match d.frac.as_str() {
        "" => format!("{sign}{}(\\.0+)?", d.int),
        frac => format!("{sign}{}\\.{frac}0*", d.int),
    })
}

/// The step whose multiples are those of all steps: as integers of the smallest unit, their least common multiple.
fn common_multiple(steps: &[Decimal]) -> Result<Option<Decimal>, String> {
    let Some((first, rest)) = steps.split_first() else { return Ok(None) };
    if rest.is_empty() {
        return Ok(Some(first.clone()));
    }
    let scale = steps.iter().map(|s| s.frac.len()).max().unwrap_or(0);
    let mut common = 1u64;
    for step in steps {
        let units = format!("{}{:0<scale$}", step.int, step.frac).parse::<u64>().ok().filter(|&u| u > 0);
        let next = units.and_then(|u| (common / gcd(common, u)).checked_mul(u));
        common = next.ok_or_else(step_limit)?;
    }
    Ok(Decimal::parse(&format!("{common}e-{scale}")))
}

/// Integral multiples of a step.
fn multiple(step: &Decimal) -> Result<RegexAst, String> {
    let scale = step.frac.len() as u32;
    let coef =
        format!("{}{}", step.int, step.frac).parse::<u64>().ok().filter(|_| scale <= MAX_STEP_DECIMALS);
    let Some(coef) = coef else { return Err(step_limit()) };
    // With k decimals, N * 10^-k is a multiple of coef * 10^-scale if N is one of coef / gcd(coef, 10^(scale-k)).
    let mut ways = Vec::new();
    for k in 0..=scale {
        let coef = coef / gcd(coef, 10u64.pow(scale - k));
        let digits = multiples_with_decimals(coef, k)?;
        ways.push(if k == scale && k > 0 { seq(vec![digits, rx("0*")]) } else { digits });
    }
    let zeros = if scale == 0 { "(\\.0+)?" } else { "" };
    Ok(seq(vec![rx("-?"), RegexAst::Or(ways), rx(zeros)]))
}

/// Multiples of `coef * 10^-k` written with exactly k decimals.
fn multiples_with_decimals(mut coef: u64, k: u32) -> Result<RegexAst, String> {
    // Powers of ten are counted as zeros at the end, not as remainders.
    let mut zeros = 0;
    while k == 0 && coef > 0 && coef % 10 == 0 {
        coef /= 10;
        zeros += 1;
    }
    let coef = u32::try_from(coef).ok().filter(|&c| c > 0 && c <= MAX_STEP).ok_or_else(step_limit)?;
    let decimals = if k == 0 { String::new() } else { format!("\\.[0-9]{{{k}}}") };
    let digits = RegexAst::And(vec![RegexAst::MultipleOf(coef, k), rx(format!("[0-9]+{decimals}"))]);
    Ok(match zeros {
        0 => digits,
        n => RegexAst::Or(vec![rx("0"), seq(vec![digits, rx(format!("0{{{n}}}"))])]),
    })
}

fn step_limit() -> String {
    format!("steps have at most {MAX_STEP_DECIMALS} decimals and, zeros at the end aside, {MAX_STEP} units of the last one")
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        gcd(b, a % b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use llguidance::derivre::RegexBuilder;

    fn d(s: &str) -> Decimal {
        Decimal::parse(s).unwrap()
    }

    fn bound(s: &str, exclusive: bool) -> Option<Bound> {
        Some(Bound { value: d(s), exclusive })
    }

    fn accepts(n: &Numbers, text: &str) -> bool {
        let mut b = RegexBuilder::new();
        let e = b.mk(&language(n).unwrap()).unwrap();
        b.to_regex(e).is_match(text)
    }

    /// Numbers in every notation that could go wrong, compared with exact decimal arithmetic.
    #[test]
    fn bounds_agree_with_arithmetic() {
        let bounds = [
            "0",
            "1",
            "-1",
            "9",
            "10",
            "-10",
            "0.5",
            "-0.5",
            "1.25",
            "-1.25",
            "99.9",
            "100",
            "9007199254740993",
        ];
        let mut samples: Vec<String> = Vec::new();
        for i in -12..=12 {
            for f in ["", ".0", ".2", ".25", ".250", ".5", ".50", ".51", ".9", ".99"] {
                samples.push(format!("{i}{f}"));
                samples.push(format!("-0{f}"));
            }
        }
        samples.extend(
            [
                "99",
                "99.8",
                "99.90",
                "99.91",
                "100",
                "100.0",
                "101",
                "999",
                "9007199254740992",
                "9007199254740993",
                "9007199254740994",
            ]
            .map(String::from),
        );
        for lo in bounds {
            for exclusive in [false, true] {
                let min = Numbers { min: bound(lo, exclusive), ..Default::default() };
                let max = Numbers { max: bound(lo, exclusive), ..Default::default() };
                for s in &samples {
                    // Minus zero is never needed: whether it is written does not matter, but it must be valid.
                    let optional = s.starts_with('-') && d(s).is_zero();
                    for (n, sign) in [(&min, ">="), (&max, "<=")] {
                        let (got, want) = (accepts(n, s), n.contains(&d(s)));
                        assert!(got == want || (optional && !got), "{s} {sign} {lo} ({exclusive}): {got}");
                    }
                }
            }
        }
    }

    #[test]
    fn steps_agree_with_arithmetic() {
        for step in ["1", "5", "7", "0.1", "0.25", "2.5", "100", "300", "0.05"] {
            let n = Numbers { multiples: vec![d(step)], ..Default::default() };
            for s in [
                "0", "1", "5", "-5", "7", "7.0", "35.00", "0.1", "0.25", "0.250", "0.3", "2.5", "10", "-10",
                "100", "600", "900.0", "1000", "0.05", "0.5", "14.1",
            ] {
                assert_eq!(accepts(&n, s), n.contains(&d(s)), "{s} % {step}");
            }
        }
    }

    #[test]
    fn multiples_are_left_out_in_every_notation() {
        for (no, not, left) in [
            ("1", vec!["0", "-0.0", "7", "7.0", "-12"], vec!["0.5", "-7.25", "10.01"]),
            ("2", vec!["0", "2", "-4.00", "100"], vec!["1", "3.0", "2.5", "-7"]),
            ("0.25", vec!["0", "0.5", "0.50", "1", "1.750"], vec!["0.1", "1.3", "-0.26"]),
        ] {
            let n = Numbers { no_multiples: vec![d(no)], ..Default::default() };
            for text in not {
                assert!(!accepts(&n, text) && !n.contains(&d(text)), "{text} is a multiple of {no}");
            }
            for text in left {
                assert!(accepts(&n, text) && n.contains(&d(text)), "{text} is no multiple of {no}");
            }
        }
        let odd = Numbers {
            integer: true,
            no_multiples: vec![d("2")],
            min: bound("0", false),
            ..Default::default()
        };
        assert!(
            ["1", "17", "999"].iter().all(|t| accepts(&odd, t))
                && !["0", "12", "1.5", "-3"].iter().any(|t| accepts(&odd, t))
        );
    }

    #[test]
    fn several_steps_are_one() {
        for (steps, want) in [
            (&["0.03", "0.02"][..], Some("0.06")),
            (&["4", "6", "10"], Some("60")),
            (&["0.5", "3"], Some("3")),
            (&["7"], Some("7")),
            (&[], None),
        ] {
            let steps: Vec<Decimal> = steps.iter().map(|s| d(s)).collect();
            assert_eq!(common_multiple(&steps).unwrap(), want.map(d), "{steps:?}");
        }
        let primes = Numbers { multiples: vec![d("19997"), d("19991"), d("19993")], ..Default::default() };
        assert!(language(&primes).unwrap_err().contains("units"));
    }

    /// Whoever parses the text as a double compares it as we do.
    #[test]
    fn compared_fractions_are_exact_as_doubles() {
        let min = Numbers { min: bound("9.5", true), ..Default::default() };
        let step = Numbers { multiples: vec![d("0.03")], min: bound("1", false), ..Default::default() };
        for (n, text, want) in [
            (&min, "9.5000000000000001", false),
            (&min, "9.50000000000001", true),
            (&min, "12345678901234567", true),
            (&min, "123456789012345.67", false),
            (&step, "300236300239039.38", false),
            (&step, "3002363002390.38", true),
            (&step, "0.123456789012345", false),
        ] {
            assert_eq!(accepts(n, text), want, "{text}");
        }
        let far = |min, max| Numbers { min, max, ..Default::default() };
        let far = [far(bound("1e300", false), None), far(None, bound("-1e300", false))];
        for n in far {
            assert_eq!(language(&n).unwrap_err(), "numbers of more than 20 digits are never generated");
        }
        let wide = Numbers { min: bound("1e18", false), multiples: vec![d("3")], ..Default::default() };
        assert_eq!(language(&wide).unwrap_err(), "multiples of more than 18 digits are never generated");
    }

    #[test]
    fn digits_are_bounded() {
        let any = Numbers::default();
        let int = Numbers { integer: true, ..Default::default() };
        for (n, text, want) in [
            (&any, "12345678901234567", true),
            (&any, "123456789012345678", false),
            (&any, "0.1234567890123456", true),
            (&any, "0.12345678901234567", false),
            (&any, "-1.5e-10", true),
            (&any, "1e100", false),
            (&any, "01", false),
            (&any, ".5", false),
            (&any, "5.", false),
            (&any, "-", false),
            (&int, "0", true),
            (&int, "-0", false),
            (&int, "-12345678901234567", true),
            (&int, "1.0", false),
            (&int, "1e3", false),
        ] {
            assert_eq!(accepts(n, text), want, "{text}");
        }
        let wide = Numbers { integer: true, min: bound("18446744073709551615", false), ..Default::default() };
        assert!(accepts(&wide, "18446744073709551615"));
        assert!(!accepts(&wide, "18446744073709551614"));
        let tiny = Numbers { min: bound("1e-300", true), ..Default::default() };
        assert!(accepts(&tiny, "0.1") && !accepts(&tiny, "0.0"));
        assert!(language(&Numbers { min: bound("1e25", false), ..Default::default() }).is_err());
    }

    #[test]
    fn numbers_left_out_are_left_out_in_every_notation() {
        let n = Numbers { except: vec![d("1.5"), d("0")], ..Default::default() };
        for (s, want) in
            [("1.5", false), ("1.500", false), ("-1.5", true), ("0", false), ("-0.0", false), ("2", true)]
        {
            assert_eq!(accepts(&n, s), want, "{s}");
        }
    }
}
