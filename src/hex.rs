//! Bytes as hexadecimal digits.

pub use ::hex::encode as digits;

/// The bytes of digits, which spaces may separate.
///
/// # Errors
/// What is no digit, or half a byte.
pub fn bytes(digits: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<u8> = digits.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    ::hex::decode(digits).map_err(|error| format!("hexadecimal bytes: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_their_digits() {
        assert_eq!(bytes("00 ff1A"), Ok(vec![0, 255, 26]));
        for (wrong, words) in [("0", "Odd number of digits"), ("00 zz", "'z'")] {
            assert!(bytes(wrong).is_err_and(|error| error.contains(words)), "{wrong}");
        }
        assert_eq!(digits([0, 255, 26]), "00ff1a");
    }
}
