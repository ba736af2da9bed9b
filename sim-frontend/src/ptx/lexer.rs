//! Tokens of PTX. The lexer works on bytes and never fails: what is no token becomes
//! [`Kind::Unknown`], which the parser reports.

use crate::diagnostic::Span;

/// Kinds of tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A name: letters, digits, `_`, `$`, `%`.
    Name,
    /// A dot and a name: a modifier or directive.
    Dotted,
    /// An integer with its value.
    Int(u64),
    /// An integer too large for 64 bits.
    TooLarge,
    /// A decimal floating-point number.
    Float(f64),
    /// `0fXXXXXXXX`.
    Bits32(u32),
    /// `0dXXXXXXXXXXXXXXXX`.
    Bits64(u64),
    /// A string, quotes included.
    Text,
    /// One character of punctuation.
    Punct(u8),
    /// Two characters of punctuation: `<<`, `>>`, `<=`, `>=`, `==`, `!=`, `&&`, `||`.
    Punct2([u8; 2]),
    /// Bytes that are no token.
    Unknown,
    /// A comment or string without an end.
    Unended,
}

/// A token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Token {
    /// Its kind.
    pub kind: Kind,
    /// Its bytes.
    pub span: Span,
}

/// What a byte may begin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Blank,
    Name,
    Digit,
    Dot,
    /// Punctuation that stands for itself.
    Single,
    /// What may be the first of two characters of punctuation.
    Double,
    Slash,
    Quote,
    Other,
}

/// By byte.
static CLASSES: [Class; 256] = {
    let mut classes = [Class::Other; 256];
    let mut byte = 0;
    while byte < 128 {
        let b = byte as u8;
        classes[byte] = match b {
            b' ' | b'\t' | b'\r' | b'\n' => Class::Blank,
            b'0'..=b'9' => Class::Digit,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | b'%' => Class::Name,
            b'.' => Class::Dot,
            b'/' => Class::Slash,
            b'"' => Class::Quote,
            b'<' | b'>' | b'=' | b'!' | b'&' | b'|' => Class::Double,
            _ => Class::Single,
        };
        byte += 1;
    }
    classes
};

fn is_name(byte: u8) -> bool {
    matches!(CLASSES[usize::from(byte)], Class::Name | Class::Digit)
}

/// Where the name ends that has `at` in it or before it.
fn name_end(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && is_name(bytes[at]) {
        at += 1;
    }
    at
}

/// Splits a text into tokens.
pub fn lex(text: &str) -> Vec<Token> {
    let bytes = text.as_bytes();
    // Three bytes a token are dense PTX; memory that is not touched costs nothing.
    let mut tokens = Vec::with_capacity(bytes.len() / 3 + 1);
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        let start = at;
        let next = bytes.get(at + 1).copied().unwrap_or(0);
        let kind = match CLASSES[usize::from(byte)] {
            Class::Blank => {
                at += 1;
                continue;
            }
            // No name: the remainder in a constant expression.
            Class::Name if byte == b'%' && !is_name(next) => {
                at += 1;
                Kind::Punct(byte)
            }
            Class::Name => {
                at = name_end(bytes, at + 1);
                Kind::Name
            }
            Class::Single => {
                at += 1;
                Kind::Punct(byte)
            }
            // `.5` is no number in PTX, and `.1d` behind a name is a modifier.
            Class::Dot
                if is_name(next) && (!next.is_ascii_digit() || start > 0 && is_name(bytes[start - 1])) =>
            {
                at = name_end(bytes, at + 2);
                // `::` joins the parts of modifiers such as `.shared::cta`.
                while bytes.get(at) == Some(&b':') && bytes.get(at + 1) == Some(&b':') {
                    at = name_end(bytes, at + 2);
                }
                Kind::Dotted
            }
            Class::Digit => {
                let (kind, length) = number(&bytes[at..], text, at);
                at += length;
                kind
            }
            Class::Slash if next == b'/' => {
                at += bytes[at..].iter().position(|b| *b == b'\n').unwrap_or(bytes.len() - at);
                continue;
            }
            Class::Slash if next == b'*' => match text[at + 2..].find("*/") {
                Some(end) => {
                    at += end + 4;
                    continue;
                }
                None => {
                    at = bytes.len();
                    Kind::Unended
                }
            },
            Class::Quote => match bytes[at + 1..].iter().position(|b| *b == b'"') {
                Some(end) => {
                    at += end + 2;
                    Kind::Text
                }
                None => {
                    at = bytes.len();
                    Kind::Unended
                }
            },
            Class::Double
                if matches!(&[byte, next], b"<<" | b">>" | b"<=" | b">=" | b"==" | b"!=" | b"&&" | b"||") =>
            {
                at += 2;
                Kind::Punct2([byte, next])
            }
            Class::Dot | Class::Slash | Class::Double => {
                at += 1;
                Kind::Punct(byte)
            }
            Class::Other => {
                at += text[at..].chars().next().map_or(1, char::len_utf8);
                Kind::Unknown
            }
        };
        tokens.push(Token { kind, span: Span { start: start as u32, end: at as u32 } });
    }
    tokens
}

/// A number at the front of `bytes`: its kind and length.
fn number(bytes: &[u8], text: &str, at: usize) -> (Kind, usize) {
    let word = name_end(bytes, 0);
    let hex = |from: usize, length: usize| -> Option<u64> {
        let digits = text.get(at + from..at + from + length)?;
        u64::from_str_radix(digits, 16).ok()
    };
    // Most are decimal, with few enough digits.
    if (1..=18).contains(&word)
        && (bytes[0] != b'0' || word == 1)
        && bytes.get(word) != Some(&b'.')
        && bytes[..word].iter().all(u8::is_ascii_digit)
    {
        let value = bytes[..word].iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0'));
        return (Kind::Int(value), word);
    }
    match bytes.get(1) {
        Some(b'f' | b'F') if bytes[0] == b'0' && word == 10 => {
            if let Some(bits) = hex(2, 8) {
                return (Kind::Bits32(bits as u32), 10);
            }
        }
        Some(b'd' | b'D') if bytes[0] == b'0' && word == 18 => {
            if let Some(bits) = hex(2, 16) {
                return (Kind::Bits64(bits), 18);
            }
        }
        _ => {}
    }
    // A decimal point or exponent makes a float; hexadecimal digits may look like exponents.
    let is_hex = matches!(bytes.get(1), Some(b'x' | b'X')) && bytes[0] == b'0';
    let digits = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    let exponent_at = |i: usize| {
        matches!(bytes.get(i), Some(b'e' | b'E'))
            && match bytes.get(i + 1) {
                Some(b'+' | b'-') => bytes.get(i + 2).is_some_and(u8::is_ascii_digit),
                other => other.is_some_and(u8::is_ascii_digit),
            }
    };
    let point = bytes.get(digits) == Some(&b'.')
        && (bytes.get(digits + 1).is_none_or(|b| !is_name(*b) || b.is_ascii_digit()));
    if !is_hex && (point || exponent_at(digits)) {
        let mut end = digits;
        if point {
            end += 1;
            end += bytes[end..].iter().take_while(|b| b.is_ascii_digit()).count();
        }
        if exponent_at(end) {
            end += 2;
            end += bytes[end..].iter().take_while(|b| b.is_ascii_digit()).count();
        }
        let value = text.get(at..at + end).and_then(|digits| digits.parse::<f64>().ok());
        return (value.map_or(Kind::Unknown, Kind::Float), end);
    }
    let Some(mut digits) = text.get(at..at + word) else { return (Kind::Unknown, word.max(1)) };
    digits = digits.strip_suffix(['U', 'u']).unwrap_or(digits);
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    let kind = match u64::from_str_radix(digits, radix) {
        Ok(value) => Kind::Int(value),
        Err(error) if *error.kind() == std::num::IntErrorKind::PosOverflow => Kind::TooLarge,
        Err(_) => Kind::Unknown,
    };
    (kind, word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind> {
        lex(text).into_iter().map(|t| t.kind).collect()
    }

    #[test]
    fn numbers() {
        let expected = [
            Kind::Int(10),
            Kind::Int(255),
            Kind::Int(8),
            Kind::Int(5),
            Kind::Int(7),
            Kind::Bits32(0x3f80_0000),
            Kind::Bits64(0x3ff0_0000_0000_0000),
            Kind::Float(1.5),
            Kind::Float(2e3),
            Kind::Float(3.0),
            Kind::TooLarge,
            Kind::Unknown,
        ];
        let text = "10 0xFF 010 0b101 7U 0f3F800000 0d3FF0000000000000 1.5 2e3 3. \
                    99999999999999999999 0x";
        assert_eq!(kinds(text), expected);
    }

    #[test]
    fn names_modifiers_and_comments() {
        let tokens = lex("@%p1 ld.shared::cta.u32 %r1, [a+4]; // x\n/* y */ LBB0_2:");
        let words: Vec<&str> = {
            let text = "@%p1 ld.shared::cta.u32 %r1, [a+4]; // x\n/* y */ LBB0_2:";
            tokens.iter().map(|t| &text[t.span.start as usize..t.span.end as usize]).collect()
        };
        assert_eq!(
            words,
            [
                "@",
                "%p1",
                "ld",
                ".shared::cta",
                ".u32",
                "%r1",
                ",",
                "[",
                "a",
                "+",
                "4",
                "]",
                ";",
                "LBB0_2",
                ":"
            ]
        );
        assert_eq!(kinds("/* no end"), [Kind::Unended]);
        assert_eq!(kinds("é"), [Kind::Unknown]);
    }
}
