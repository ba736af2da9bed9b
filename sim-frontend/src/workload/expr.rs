//! Expressions of workload files: numbers, parameters, `+ - * / %`, parentheses, and a few
//! functions.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

/// Parameters by name.
pub type Params = BTreeMap<String, f64>;

/// A number or an expression.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Expr {
    /// A number.
    Number(f64),
    /// An expression.
    Text(String),
}

/// Evaluates an expression.
///
/// # Errors
/// What is wrong with it, in words.
pub fn evaluate(expr: &Expr, params: &Params) -> Result<f64, String> {
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

    fn sum(&mut self) -> Result<f64, String> {
        self.depth += 1;
        if self.depth > 100 {
            return Err(format!("`{:.40}…` is nested too deeply", self.text));
        }
        let mut left = self.product()?;
        loop {
            if self.eat('+') {
                left += self.product()?;
            } else if self.eat('-') {
                left -= self.product()?;
            } else {
                self.depth -= 1;
                return Ok(left);
            }
        }
    }

    fn product(&mut self) -> Result<f64, String> {
        let mut left = self.atom()?;
        loop {
            if self.eat('*') {
                left *= self.atom()?;
            } else if self.eat('/') {
                // Exact: sizes that leave a rest are refused where a whole number is needed.
                left /= self.nonzero()?;
            } else if self.eat('%') {
                left %= self.nonzero()?;
            } else {
                return Ok(left);
            }
        }
    }

    fn nonzero(&mut self) -> Result<f64, String> {
        let value = self.atom()?;
        if value == 0.0 { Err(format!("division by zero in `{}`", self.text)) } else { Ok(value) }
    }

    fn word(&mut self) -> &'a str {
        let end = self
            .rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        word
    }

    fn atom(&mut self) -> Result<f64, String> {
        if self.eat('-') {
            self.depth += 1;
            if self.depth > 100 {
                return Err("nested too deeply".into());
            }
            let value = -self.atom()?;
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
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return word.parse().map_err(|_| format!("`{word}` is no number"));
        }
        if !self.eat('(') {
            return self.params.get(word).copied().ok_or_else(|| {
                let known: Vec<&str> = self.params.keys().map(String::as_str).collect();
                format!("there is no parameter `{word}`; there are: {}", known.join(", "))
            });
        }
        let mut values = vec![self.sum()?];
        while self.eat(',') {
            values.push(self.sum()?);
        }
        self.expect(')')?;
        match (word, values.as_slice()) {
            ("ceil_div", [_, 0.0]) => Err(format!("division by zero in `{}`", self.text)),
            ("ceil_div", [a, b]) => Ok((a / b).ceil()),
            ("floor_div", [_, 0.0]) => Err(format!("division by zero in `{}`", self.text)),
            ("floor_div", [a, b]) => Ok((a / b).floor()),
            ("min", [a, b]) => Ok(a.min(*b)),
            ("max", [a, b]) => Ok(a.max(*b)),
            ("pow2", [a]) => Ok(a.exp2()),
            ("log2", [a]) => Ok(a.log2().floor()),
            _ => Err(format!("there is no function `{word}` of {} values", values.len())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_errors() {
        let params = Params::from([("n".to_string(), 10.0)]);
        let e = |text: &str| evaluate(&Expr::Text(text.into()), &params);
        assert_eq!(e("ceil_div(n, 4) * 2 + 1"), Ok(7.0));
        assert_eq!(e("n / 4 - -1"), Ok(3.5));
        assert_eq!(e("floor_div(n, 4) - -1"), Ok(3.0));
        assert_eq!(e("pow2(3) % 5 + min(n, 2)"), Ok(5.0));
        for bad in ["", "m", "n +", "n / 0", "f(1)", "(1", "1 2", &"(".repeat(5000), &"-".repeat(5000)] {
            assert!(e(bad).is_err(), "{:.20}", bad);
        }
    }
}
