//! Bytes as hexadecimal digits.

/// The digits of bytes.
pub fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of digits, which spaces may separate.
///
/// # Errors
/// What is no digit, or half a byte.
pub fn bytes(digits: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<u8> = digits.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    if !digits.len().is_multiple_of(2) {
        return Err("hexadecimal bytes need an even number of digits".into());
    }
    digits
        .chunks(2)
        .map(|pair| {
            let text = std::str::from_utf8(pair).unwrap_or("");
            u8::from_str_radix(text, 16).map_err(|_| format!("`{text}` is not a hexadecimal byte"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_their_digits() {
        assert_eq!(bytes("00 ff1A"), Ok(vec![0, 255, 26]));
        assert!(bytes("0").is_err() && bytes("zz").is_err());
        assert_eq!(digits(&[0, 255, 26]), "00ff1a");
    }
}
