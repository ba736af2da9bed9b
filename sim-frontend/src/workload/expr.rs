//! Expressions of workload files: numbers, parameters, `+ - * / %`, parentheses, and a few
//! functions. What is made of integers stays exact.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::number::Number;

/// Parameters by name.
pub type Params = BTreeMap<String, Number>;

/// A number or an expression.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(untagged)]
pub enum Expr {
    /// A number.
    Number(Number),
    /// An expression.
    Text(String),
}

impl<'de> Deserialize<'de> for Expr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl Visitor<'_> for Either {
            type Value = Expr;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or an expression")
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Expr, E> {
                Ok(Expr::Number(value.into()))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Expr, E> {
                Ok(Expr::Number(value.into()))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Expr, E> {
                Ok(Expr::Number(value.into()))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Expr, E> {
                Ok(Expr::Text(text.to_string()))
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "{text}"),
        }
    }
}

/// Evaluates an expression.
///
/// # Errors
/// What is wrong with it, in words.
pub fn evaluate(expr: &Expr, params: &Params) -> Result<Number, String> {
    let text = match expr {
        Expr::Number(value) => return Ok(*value),
        Expr::Text(text) => text,
    };
    let mut parser = Parser { text, rest: text.trim_start(), params, depth: 0 };
    let value = parser.sum()?;
    if parser.rest.is_empty() {
        Ok(value)
    } else {
        Err(format!("`{}` does not belong in the expression `{text}`", parser.rest))
    }
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    params: &'a Params,
    depth: u32,
}

/// Quotient of two integers, rounded towards minus infinity.
fn floor(a: i128, b: i128) -> Option<i128> {
    let quotient = a.checked_div(b)?;
    let below = a % b != 0 && (a < 0) != (b < 0);
    quotient.checked_sub(i128::from(below))
}

impl<'a> Parser<'a> {
    fn eat(&mut self, token: char) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: char) -> Result<(), String> {
        if self.eat(token) { Ok(()) } else { Err(format!("`{token}` is missing in `{}`", self.text)) }
    }

    fn sum(&mut self) -> Result<Number, String> {
        self.depth += 1;
        if self.depth > 100 {
            return Err(format!("`{:.40}…` is nested too deeply", self.text));
        }
        let mut left = self.product()?;
        loop {
            if self.eat('+') {
                let right = self.product()?;
                left = self.exact(left, right, i128::checked_add, |a, b| a + b)?;
            } else if self.eat('-') {
                let right = self.product()?;
                left = self.exact(left, right, i128::checked_sub, |a, b| a - b)?;
            } else {
                self.depth -= 1;
                return Ok(left);
            }
        }
    }

    fn product(&mut self) -> Result<Number, String> {
        let mut left = self.atom()?;
        loop {
            if self.eat('*') {
                let right = self.atom()?;
                left = self.exact(left, right, i128::checked_mul, |a, b| a * b)?;
            } else if self.eat('/') {
                // Sizes that leave a rest are refused where an integer is needed.
                let right = self.nonzero()?;
                left = match (left, right) {
                    (Number::Int(a), Number::Int(b)) if a.checked_rem(b) == Some(0) => {
                        self.exact(left, right, i128::checked_div, |a, b| a / b)?
                    }
                    _ => Number::Real(left.as_f64() / right.as_f64()),
                };
            } else if self.eat('%') {
                let right = self.nonzero()?;
                left = self.exact(left, right, i128::checked_rem, |a, b| a % b)?;
            } else {
                return Ok(left);
            }
        }
    }

    /// An operation on two integers, or on two f64.
    fn exact(
        &self,
        a: Number,
        b: Number,
        integers: impl Fn(i128, i128) -> Option<i128>,
        others: impl Fn(f64, f64) -> f64,
    ) -> Result<Number, String> {
        match (a, b) {
            (Number::Int(a), Number::Int(b)) => {
                integers(a, b).map(Number::Int).ok_or_else(|| format!("`{}` exceeds 127 bits", self.text))
            }
            _ => Ok(Number::Real(others(a.as_f64(), b.as_f64()))),
        }
    }

    fn nonzero(&mut self) -> Result<Number, String> {
        let value = self.atom()?;
        if value == Number::ZERO { Err(format!("division by zero in `{}`", self.text)) } else { Ok(value) }
    }

    fn word(&mut self) -> &'a str {
        let number = self.rest.starts_with(|c: char| c.is_ascii_digit());
        let mut last = ' ';
        let based = ["0x", "0X"].iter().any(|prefix| self.rest.starts_with(prefix));
        let end = self.rest.find(|c: char| {
            // The sign of an exponent belongs to the number: 1e-3.
            let exponent = number && !based && matches!(last, 'e' | 'E') && matches!(c, '+' | '-');
            last = c;
            !(c.is_ascii_alphanumeric() || c == '_' || c == '.' || exponent)
        });
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest.trim_start();
        word
    }

    fn atom(&mut self) -> Result<Number, String> {
        if self.eat('-') {
            self.depth += 1;
            if self.depth > 100 {
                return Err("nested too deeply".into());
            }
            let value = match self.atom()? {
                Number::Int(value) => Number::Int(
                    value.checked_neg().ok_or_else(|| format!("`{}` exceeds 127 bits", self.text))?,
                ),
                Number::Real(value) => Number::Real(-value),
            };
            self.depth -= 1;
            return Ok(value);
        }
        if self.eat('(') {
            let value = self.sum()?;
            self.expect(')')?;
            return Ok(value);
        }
        let word = self.word();
        if word.is_empty() {
            return Err(format!("a value is missing in `{}`", self.text));
        }
        if word.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return Number::parse(word);
        }
        if !self.eat('(') {
            return match (self.params.get(word), word) {
                (Some(value), _) => Ok(*value),
                (None, "inf" | "nan") => Number::parse(word),
                (None, _) => {
                    let known: Vec<&str> = self.params.keys().map(String::as_str).collect();
                    Err(format!("there is no parameter `{word}`; available: {}", known.join(", ")))
                }
            };
        }
        let mut values = vec![self.sum()?];
        while self.eat(',') {
            values.push(self.sum()?);
        }
        self.expect(')')?;
        self.call(word, &values)
    }

    fn call(&self, function: &str, values: &[Number]) -> Result<Number, String> {
        match (function, values) {
            ("ceil_div" | "floor_div", [_, b]) if *b == Number::ZERO => {
                Err(format!("division by zero in `{}`", self.text))
            }
            ("ceil_div", [a, b]) => {
                let ceil = |a: i128, b| floor(a.checked_neg()?, b)?.checked_neg();
                self.exact(*a, *b, ceil, |a, b| (a / b).ceil())
            }
            ("floor_div", [a, b]) => self.exact(*a, *b, floor, |a, b| (a / b).floor()),
            ("min", [a, b]) => Ok(if b < a { *b } else { *a }),
            ("max", [a, b]) => Ok(if b > a { *b } else { *a }),
            ("pow2", [a]) => Ok(match a.integer() {
                Some(n @ 0..=126) => Number::Int(1 << n),
                _ => Number::Real(a.as_f64().exp2()),
            }),
            ("log2", [a]) if *a > Number::ZERO => Ok(match *a {
                Number::Int(value) => Number::Int(value.ilog2().into()),
                Number::Real(value) => Number::Real(value.log2().floor()),
            }),
            ("log2", [a]) => Err(format!("there is no log2 of {a} in `{}`", self.text)),
            _ => Err(format!("there is no function `{function}` of {} values", values.len())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_errors() {
        let params = Params::from([("n".to_string(), Number::from(10u32))]);
        let e = |text: &str| evaluate(&Expr::Text(text.into()), &params);
        assert_eq!(e("ceil_div(n, 4) * 2 + 1"), Ok(Number::Int(7)));
        assert_eq!(e("n / 4 - -1"), Ok(Number::Real(3.5)));
        assert_eq!(e("floor_div(n, 4) - -1"), Ok(Number::Int(3)));
        assert_eq!(e("ceil_div(-n, 4) + floor_div(-n, 4)"), Ok(Number::Int(-5)));
        assert_eq!(e("pow2(3) % 5 + min(n, 2)"), Ok(Number::Int(5)));
        assert_eq!(e("log2(pow2(63)) + log2(9)"), Ok(Number::Int(66)));
        assert_eq!(e("1e-3 + n"), Ok(Number::Real(10.001)));
        for bad in [
            "",
            "m",
            "n +",
            "n / 0",
            "f(1)",
            "(1",
            "1 2",
            "log2(0)",
            "0x",
            &"(".repeat(5000),
            &"-".repeat(5000),
        ] {
            assert!(e(bad).is_err(), "{:.20}", bad);
        }
    }

    #[test]
    fn integers_are_exact_above_two_to_the_53() {
        let params = Params::from([("big".to_string(), Number::from(0xdead_beef_cafe_babe_u64))]);
        let e = |text: &str| evaluate(&Expr::Text(text.into()), &params);
        for (text, wanted) in [
            ("big", 16_045_690_984_503_098_046),
            ("0xdead_beef_cafe_babe", 16_045_690_984_503_098_046),
            ("-0x8000000000000000", -0x8000_0000_0000_0000),
            ("9007199254740992 + 1", 9_007_199_254_740_993),
            ("(pow2(62) - 1) * 4 + 3", (1 << 64) - 1),
            ("big / 2 * 2 + big % 2", 16_045_690_984_503_098_046),
            ("floor_div(big, 3)", 5_348_563_661_501_032_682),
            ("max(big, big - 1)", 16_045_690_984_503_098_046),
        ] {
            assert_eq!(e(text).map(Number::integer), Ok(Some(wanted)), "{text}");
        }
        assert!(e("big * big * big").is_err(), "no silent overflow");
    }
}
