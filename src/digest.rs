//! Digests that identify files, reports and runs.

use sha2::{Digest, Sha256};

use crate::hex;

/// The first 64 bits of the SHA-256 of texts, in hexadecimal.
pub fn hash(parts: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        // Lengths keep the parts apart.
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    short(&hasher.finalize())
}

/// The first 64 bits of a digest, in hexadecimal.
pub fn short(digest: &[u8]) -> String {
    hex::digits(&digest[..8.min(digest.len())])
}
