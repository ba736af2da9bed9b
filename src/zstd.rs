//! Files compressed by zstd.

use std::io::Read;

use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

/// Bytes compressed. What does not come back as it was is stored as it is.
pub fn compress(bytes: &[u8]) -> Vec<u8> {
    let small = compress_to_vec(bytes, CompressionLevel::Fastest);
    let back = decompress(&small, bytes.len() as u64);
    match back.is_ok_and(|back| back == bytes) {
        true => small,
        false => compress_to_vec(bytes, CompressionLevel::Uncompressed),
    }
}

/// The bytes again, at most this many.
///
/// # Errors
/// They are not what was compressed, or more.
pub fn decompress(bytes: &[u8], most: u64) -> Result<Vec<u8>, String> {
    let decoder = StreamingDecoder::new(bytes).map_err(|error| format!("zstd: {error}"))?;
    let mut out = Vec::new();
    decoder.take(most.saturating_add(1)).read_to_end(&mut out).map_err(|error| format!("zstd: {error}"))?;
    match out.len() as u64 > most {
        true => Err(format!("zstd: more than {most} bytes")),
        false => Ok(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back() {
        let noise: Vec<u8> = (0..9000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for bytes in [&[][..], &[7; 100_000], &noise] {
            let small = compress(bytes);
            assert!(small.len() < bytes.len() + 64);
            assert_eq!(decompress(&small, bytes.len() as u64), Ok(bytes.to_vec()));
        }
        assert!(compress(&[7; 100_000]).len() < 1000);
        assert!(decompress(&compress(&noise), 8999).is_err() && decompress(b"nothing", 9).is_err());
    }
}
