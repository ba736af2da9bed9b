//! Constant expressions (PTX ISA "Constant Expressions"): 64-bit integers with the operators of
//! C, and floating-point literals.

use super::{Kind, OperandKind, Parsed, Parser};

impl<'a> Parser<'a> {
    /// An integer constant expression.
    pub(crate) fn constant(&mut self) -> Parsed<i128> {
        // Most are a number, and an operand ends behind it.
        if let (Some(Kind::Int(value)), Some(Kind::Punct(b',' | b';' | b']' | b'}' | b')'))) =
            (self.kind(), self.kind_at(1))
        {
            self.at += 1;
            return Ok(value.into());
        }
        self.deeper(|p| p.ternary())
    }

    /// An integer constant expression or a floating-point literal.
    pub(crate) fn constant_operand(&mut self) -> Parsed<OperandKind<'a>> {
        let minus = self.kind() == Some(Kind::Punct(b'-'))
            && matches!(self.kind_at(1), Some(Kind::Float(_) | Kind::Bits32(_) | Kind::Bits64(_)));
        self.at += usize::from(minus);
        let kind = match self.kind() {
            Some(Kind::Float(value)) => OperandKind::Float64((if minus { -value } else { value }).to_bits()),
            Some(Kind::Bits32(bits)) => OperandKind::Float32(bits ^ u32::from(minus) << 31),
            Some(Kind::Bits64(bits)) => OperandKind::Float64(bits ^ u64::from(minus) << 63),
            _ => return Ok(OperandKind::Int(self.constant()?.into())),
        };
        self.at += 1;
        Ok(kind)
    }

    /// `+ constant`, `- constant`, or nothing.
    pub(crate) fn signed_offset(&mut self) -> Parsed<i64> {
        let negative = match self.kind() {
            Some(Kind::Punct(b'+')) => false,
            Some(Kind::Punct(b'-')) => true,
            _ => return Ok(0),
        };
        self.at += 1;
        let value = match (self.kind(), self.kind_at(1)) {
            (Some(Kind::Int(value)), Some(Kind::Punct(b']' | b',' | b';'))) => {
                self.at += 1;
                value.into()
            }
            _ => self.deeper(|p| p.binary(4))?,
        };
        Ok(if negative { -value } else { value } as i64)
    }

    fn ternary(&mut self) -> Parsed<i128> {
        let condition = self.binary(0)?;
        if !self.eat(b'?') {
            return Ok(condition);
        }
        let then = self.constant()?;
        self.expect(b':')?;
        let otherwise = self.constant()?;
        Ok(if condition != 0 { then } else { otherwise })
    }

    /// Binary operators by precedence, lowest first.
    fn binary(&mut self, level: usize) -> Parsed<i128> {
        const LEVELS: [&[&str]; 10] = [
            &["||"],
            &["&&"],
            &["|"],
            &["^"],
            &["&"],
            &["==", "!="],
            &["<", "<=", ">", ">="],
            &["<<", ">>"],
            &["+", "-"],
            &["*", "/", "%"],
        ];
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        while let Some(Kind::Punct(_) | Kind::Punct2(_)) = self.kind()
            && operators.contains(&self.word())
        {
            let operator = self.word();
            let span = self.span();
            self.at += 1;
            let right = self.binary(level + 1)?;
            // Values are 64 bits wide; signed unless they need all 64.
            let value = match operator {
                "||" => i128::from(left != 0 || right != 0),
                "&&" => i128::from(left != 0 && right != 0),
                "|" => left | right,
                "^" => left ^ right,
                "&" => left & right,
                "==" => i128::from(left == right),
                "!=" => i128::from(left != right),
                "<" => i128::from(left < right),
                "<=" => i128::from(left <= right),
                ">" => i128::from(left > right),
                ">=" => i128::from(left >= right),
                "<<" => left.checked_shl(right.clamp(0, 127) as u32).unwrap_or(0),
                ">>" => left >> right.clamp(0, 127),
                "+" => left + right,
                "-" => left - right,
                "*" => left.wrapping_mul(right),
                _ if right == 0 => return self.error(span, "division by zero in a constant", ""),
                "/" => left / right,
                _ => left % right,
            };
            left = if value < 0 { i128::from(value as i64) } else { i128::from(value as u64) };
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parsed<i128> {
        match self.kind() {
            Some(Kind::Int(value)) => {
                self.at += 1;
                Ok(value.into())
            }
            Some(Kind::Punct(op @ (b'-' | b'+' | b'!' | b'~'))) => {
                self.at += 1;
                let value = self.deeper(|p| p.unary())?;
                Ok(match op {
                    b'-' => -value,
                    b'!' => i128::from(value == 0),
                    b'~' => !value,
                    _ => value,
                })
            }
            Some(Kind::Punct(b'(')) => {
                self.at += 1;
                if self.kind() == Some(Kind::Dotted) {
                    // A cast `(.s64)` or `(.u64)`.
                    let signed = self.word() == ".s64";
                    self.at += 1;
                    self.expect(b')')?;
                    let value = self.deeper(|p| p.unary())?;
                    return Ok(if signed { i128::from(value as i64) } else { i128::from(value as u64) });
                }
                let value = self.constant()?;
                self.expect(b')')?;
                Ok(value)
            }
            Some(Kind::Name) if self.word() == "WARP_SZ" => {
                self.at += 1;
                Ok(32)
            }
            _ => self.expected("a constant"),
        }
    }
}
