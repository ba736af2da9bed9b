//! What C's `printf` makes of a format and the bytes of its arguments, as `vprintf` of the device
//! recorded them: each at its own alignment, `char` and `short` as `int`, `float` as `double`.
//!
//! Written here because the crate for it, `sprintf` 0.4.3, was tried: it has neither `%a` nor the
//! precision of integers, prints zero by `%e` as NaN, and panics at zero by `%g`.

/// Reads the text at an address of device memory.
pub type ReadText<'a> = &'a dyn Fn(u64) -> Option<String>;

/// Flags, width and precision of a conversion.
#[derive(Clone, Copy, Debug, Default)]
struct Spec {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
}

/// The arguments that are left.
struct Arguments<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Arguments<'_> {
    /// The next argument, of `size` bytes; what was not given is zero, as much as C promises.
    fn next(&mut self, size: usize) -> u64 {
        self.at = self.at.next_multiple_of(size);
        let mut value = [0; 8];
        if let Some(found) = self.bytes.get(self.at..self.at + size) {
            value[..size].copy_from_slice(found);
        }
        self.at += size;
        u64::from_le_bytes(value)
    }
}

/// The text of one `printf`; `word` is the size of a `long`, of a `size_t` and of an address.
pub fn format(format: &str, arguments: &[u8], word: usize, text: ReadText<'_>) -> String {
    let mut out = String::new();
    let mut left = Arguments { bytes: arguments, at: 0 };
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut spec = Spec::default();
        while let Some(flag) = chars.next_if(|c| "-+ #0".contains(*c)) {
            match flag {
                '-' => spec.left = true,
                '+' => spec.plus = true,
                ' ' => spec.space = true,
                '#' => spec.alternate = true,
                _ => spec.zero = true,
            }
        }
        let number = |chars: &mut std::iter::Peekable<std::str::Chars<'_>>, left: &mut Arguments<'_>| {
            if chars.next_if_eq(&'*').is_some() {
                return left.next(4) as i32;
            }
            let mut value = 0i32;
            while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
                value = value.saturating_mul(10).saturating_add(digit as i32);
                chars.next();
            }
            value
        };
        let width = number(&mut chars, &mut left);
        spec.left |= width < 0;
        // Nobody wants lines of megabytes.
        spec.width = (width.unsigned_abs() as usize).min(4096);
        if chars.next_if_eq(&'.').is_some() {
            let precision = number(&mut chars, &mut left);
            spec.precision = usize::try_from(precision).ok().map(|p| p.min(4096));
        }
        let (mut longs, mut shorts) = (0, 0);
        while let Some(length) = chars.next_if(|c| "hljzt".contains(*c)) {
            match length {
                'h' => shorts += 1,
                'l' => longs += 1,
                'j' => longs += 2,
                _ => longs += 1,
            }
        }
        let bytes = match longs {
            0 => 4,
            1 => word,
            _ => 8,
        };
        let Some(conversion) = chars.next() else {
            out.push('%');
            break;
        };
        match conversion {
            '%' => out.push('%'),
            'd' | 'i' => {
                let value = left.next(bytes) << (64 - 8 * bytes);
                let value = value as i64 >> (64 - 8 * bytes);
                let value = match shorts {
                    0 => value,
                    1 => i64::from(value as i16),
                    _ => i64::from(value as i8),
                };
                let sign = sign_of(value < 0, &spec);
                integer(&mut out, sign, value.unsigned_abs().to_string(), value == 0, &spec);
            }
            'u' | 'o' | 'x' | 'X' => {
                let value = left.next(bytes);
                let value = match shorts {
                    0 => value,
                    1 => u64::from(value as u16),
                    _ => u64::from(value as u8),
                };
                let (mut prefix, mut digits) = ("", value.to_string());
                match conversion {
                    'o' => {
                        digits = format!("{value:o}");
                        if spec.alternate && value != 0 {
                            digits.insert(0, '0');
                        }
                    }
                    'x' => (prefix, digits) = (if spec.alternate { "0x" } else { "" }, format!("{value:x}")),
                    'X' => (prefix, digits) = (if spec.alternate { "0X" } else { "" }, format!("{value:X}")),
                    _ => {}
                }
                integer(&mut out, if value == 0 { "" } else { prefix }, digits, value == 0, &spec);
            }
            'c' => {
                let byte = left.next(4) as u8;
                pad(&mut out, "", &char::from(byte).to_string(), &Spec { zero: false, ..spec });
            }
            's' => {
                let at = left.next(word);
                let mut found = match at {
                    0 => "(null)".to_string(),
                    _ => text(at).unwrap_or_else(|| format!("(no text at {at:#x})")),
                };
                if let Some(precision) = spec.precision {
                    found = found.chars().take(precision).collect();
                }
                pad(&mut out, "", &found, &Spec { zero: false, ..spec });
            }
            'p' => pad(&mut out, "", &format!("{:#x}", left.next(word)), &Spec { zero: false, ..spec }),
            'f' | 'F' | 'e' | 'E' | 'g' | 'G' | 'a' | 'A' => {
                float(&mut out, f64::from_bits(left.next(8)), conversion, &spec);
            }
            other => {
                // As it stands: it is no conversion.
                out.push('%');
                out.push(other);
            }
        }
    }
    out
}

fn sign_of(negative: bool, spec: &Spec) -> &'static str {
    match (negative, spec.plus, spec.space) {
        (true, ..) => "-",
        (_, true, _) => "+",
        (_, _, true) => " ",
        _ => "",
    }
}

fn integer(out: &mut String, prefix: &str, mut digits: String, zero: bool, spec: &Spec) {
    if let Some(precision) = spec.precision {
        if zero && precision == 0 {
            digits.clear();
        }
        digits.insert_str(0, &"0".repeat(precision.saturating_sub(digits.len())));
    }
    pad(out, prefix, &digits, &Spec { zero: spec.zero && spec.precision.is_none(), ..*spec });
}

/// A sign or prefix and a body, padded to the width.
fn pad(out: &mut String, prefix: &str, body: &str, spec: &Spec) {
    let missing = spec.width.saturating_sub(prefix.chars().count() + body.chars().count());
    match (spec.left, spec.zero) {
        (true, _) => out.extend([prefix, body, &" ".repeat(missing)]),
        (_, true) => out.extend([prefix, &"0".repeat(missing), body]),
        _ => out.extend([&" ".repeat(missing), prefix, body]),
    }
}

fn float(out: &mut String, value: f64, conversion: char, spec: &Spec) {
    let upper = conversion.is_ascii_uppercase();
    let sign = sign_of(value.is_sign_negative(), spec);
    if !value.is_finite() {
        let word = if value.is_nan() { "nan" } else { "inf" };
        let word = if upper { word.to_uppercase() } else { word.to_string() };
        return pad(out, sign, &word, &Spec { zero: false, ..*spec });
    }
    let value = value.abs();
    let body = match conversion.to_ascii_lowercase() {
        'f' => fixed(value, spec.precision.unwrap_or(6), spec.alternate),
        'e' => exponent(value, spec.precision.unwrap_or(6), spec.alternate),
        'g' => {
            let precision = spec.precision.unwrap_or(6).max(1);
            let scientific = exponent(value, precision - 1, true);
            let power: i64 =
                scientific.split_once('e').and_then(|(_, power)| power.parse().ok()).unwrap_or_default();
            let plain = (-4..precision as i64).contains(&power);
            let (digits, power) = if plain {
                (fixed(value, (precision as i64 - 1 - power) as usize, true), None)
            } else {
                let (digits, power) = scientific.split_once('e').unwrap_or((&scientific, "+00"));
                (digits.to_string(), Some(power.to_string()))
            };
            let digits = match spec.alternate {
                true => &digits,
                false => digits.trim_end_matches('0').trim_end_matches('.'),
            };
            power.map_or_else(|| digits.to_string(), |power| format!("{digits}e{power}"))
        }
        _ => hexadecimal(value, spec.precision, spec.alternate),
    };
    let body = if upper { body.to_uppercase() } else { body };
    if let Some(digits) = body.strip_prefix("0x").or_else(|| body.strip_prefix("0X")) {
        return pad(out, &format!("{sign}{}", &body[..2]), digits, spec);
    }
    pad(out, sign, &body, spec);
}

fn fixed(value: f64, precision: usize, point: bool) -> String {
    let text = format!("{value:.precision$}");
    if precision == 0 && point { format!("{text}.") } else { text }
}

fn exponent(value: f64, precision: usize, point: bool) -> String {
    let text = format!("{value:.precision$e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let point = if precision == 0 && point { "." } else { "" };
    let power: i32 = power.parse().unwrap_or_default();
    let sign = if power < 0 { '-' } else { '+' };
    format!("{digits}{point}e{sign}{:02}", power.abs())
}

/// `%a`: the leading digit is that of a normal value, 1, or 0.
fn hexadecimal(value: f64, precision: Option<usize>, point: bool) -> String {
    let bits = value.to_bits();
    let (mut power, mut fraction) = ((bits >> 52) as i64 - 1023, bits & ((1 << 52) - 1));
    let mut leading = 1;
    if power == -1023 {
        (power, leading) = if fraction == 0 { (0, 0) } else { (-1022, 0) };
    }
    let mut digits = format!("{fraction:013x}");
    match precision {
        Some(precision) if precision < 13 => {
            // To nearest, ties to even.
            let cut = 52 - 4 * precision as u32;
            let whole = leading << 52 | fraction;
            let (low, half) = (whole & ((1 << cut) - 1), 1u64 << (cut - 1));
            let mut kept = whole >> cut;
            kept += u64::from(low > half || low == half && kept & 1 == 1);
            leading = kept >> (4 * precision);
            fraction = kept & ((1u64 << (4 * precision)) - 1);
            digits = if precision == 0 { String::new() } else { format!("{fraction:0precision$x}") };
        }
        Some(precision) => digits.push_str(&"0".repeat(precision - 13)),
        None => digits.truncate(digits.trim_end_matches('0').len()),
    }
    let point = if digits.is_empty() && !point { "" } else { "." };
    format!("0x{leading}{point}{digits}p{power:+}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(format_: &str, values: &[i32]) -> String {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        format(format_, &bytes, 8, &|_| None)
    }

    fn double(format_: &str, value: f64) -> String {
        format(format_, &value.to_le_bytes(), 8, &|_| None)
    }

    /// What the C library of the host prints.
    #[test]
    fn integers_as_c_prints_them() {
        for (text, values, expected) in [
            ("%d|%5d|%-5d|%05d|%+d|% d", &[7, -7, 7, -7, 7, 7][..], "7|   -7|7    |-0007|+7| 7"),
            ("%u %x %X %#x %o %#o", &[-1, 255, 255, 255, 8, 8], "4294967295 ff FF 0xff 10 010"),
            ("%.3d|%8.3d|%-8.3d|%08.3d|%.0d|", &[5, 5, 5, 5, 0], "005|     005|005     |     005||"),
            ("%hd %hhd %hu %hhu", &[70000, 300, -1, -1], "4464 44 65535 255"),
            ("%*d|%-*d|%*d", &[4, 1, 4, 2, -4, 3], "   1|2   |3   "),
            ("%c%3c|%-3c|", &[65, 66, 67], "A  B|C  |"),
            ("100%% %d%", &[1], "100% 1%"),
            ("%#x %q", &[0], "0 %q"),
        ] {
            assert_eq!(ints(text, values), expected, "{text}");
        }
    }

    #[test]
    fn arguments_lie_at_their_own_alignment() {
        let mut bytes = 1i32.to_le_bytes().to_vec();
        bytes.extend([0; 4]);
        bytes.extend(2.5f64.to_le_bytes());
        bytes.extend(3i32.to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend((-4i64).to_le_bytes());
        bytes.extend(0x1000u64.to_le_bytes());
        bytes.extend(0u64.to_le_bytes());
        let text = |at| (at == 0x1000).then(|| "text".to_string());
        assert_eq!(format("%d %g %d %lld [%6.3s] %s", &bytes, 8, &text), "1 2.5 3 -4 [   tex] (null)");
        assert_eq!(format("%p %s", &bytes[32..], 8, &|_| None), "0x1000 (null)");
        assert_eq!(format("%ld %s", &[1, 0, 0, 0, 0, 16, 0, 0], 4, &text), "1 text");
    }

    #[test]
    fn floats_as_c_prints_them() {
        for (text, value, expected) in [
            ("%f", 2.7654321, "2.765432"),
            ("%.0f", 2.5, "2"),
            ("%#.0f", 2.5, "2."),
            ("%10.2f|", -1.005, "     -1.00|"),
            ("%-10.1f|", 9.96, "10.0      |"),
            ("%010.3f", -1.5, "-00001.500"),
            ("%e", 12345.678, "1.234568e+04"),
            ("%.2E", 0.00012, "1.20E-04"),
            ("%e", 0.0, "0.000000e+00"),
            ("%.3e", 1e100, "1.000e+100"),
            ("%g", 100000.0, "100000"),
            ("%g", 1000000.0, "1e+06"),
            ("%g", 0.0001, "0.0001"),
            ("%g", 0.00001, "1e-05"),
            ("%g", 999999.5, "1e+06"),
            ("%#g", 1.0, "1.00000"),
            ("%.3g", 1234.5, "1.23e+03"),
            ("%G", 1e-10, "1E-10"),
            ("%g", 0.0, "0"),
            ("%a", 1.0, "0x1p+0"),
            ("%a", -0.1, "-0x1.999999999999ap-4"),
            ("%.2a", 1.999, "0x2.00p+0"),
            ("%A", 255.5, "0X1.FFP+7"),
            ("%+f", f64::INFINITY, "+inf"),
            ("%5F|", f64::NAN, "  NAN|"),
        ] {
            assert_eq!(double(text, value), expected, "{text}");
        }
    }
}
