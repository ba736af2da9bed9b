//! The self-test by which the static runtimes of CUDA 12 and 13 make sure that driver and runtime see the same process: a
//! keyed hash over versions, process, thread, addresses of tables, the time and the devices, which both sides make. What
//! goes into it is from ZLUDA (`dark_api/src/lib.rs`, which is public); it is HMAC (RFC 2104) with MD2 (RFC 1319).

use hmac::{KeyInit, Mac, SimpleHmac};
use md2::Md2;

/// The key.
const KEY: [u8; 16] = 0x146a_ddae_53a9_a752_aa08_4136_0bf5_5a9fu128.to_be_bytes();

/// What is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// As `cuDriverGetVersion` says.
    pub driver: u32,
    /// What the runtime passes: its own version and a number of the question.
    pub version: u32,
    /// The process.
    pub process: u32,
    /// The lower half of what `pthread_self` gives.
    pub thread: u32,
    /// Addresses: of the table of the runtime's interface, of this one, of the function.
    pub addresses: [u64; 3],
    /// The time that the runtime passes, in seconds.
    pub seconds: u64,
}

/// What identifies a device: UUID, then domain, bus and device on PCI.
pub type Identity = ([u8; 16], [i32; 3]);

/// The answer.
pub fn answer(facts: &Facts, devices: &[Identity]) -> [u8; 16] {
    // The first two questions are asked of no process.
    let first = match facts.version % 10 {
        0 => Some(0x3341_181c_03cb_675cu64),
        1 => Some(0x1841_181c_03cb_675c),
        _ => None,
    };
    if let Some(first) = first {
        let both = [first, 0x8ed3_83aa_1f4c_d1e8];
        let mut out = [0; 16];
        out.iter_mut()
            .zip(both.iter().flat_map(|long| long.to_le_bytes()))
            .for_each(|(place, byte)| *place = byte);
        return out;
    }
    let Ok(mut hash) = SimpleHmac::<Md2>::new_from_slice(&KEY) else { return [0; 16] };
    for word in [facts.driver, facts.version, facts.process, facts.thread] {
        hash.update(&word.to_le_bytes());
    }
    for long in facts.addresses.iter().chain([&facts.seconds]) {
        hash.update(&long.to_le_bytes());
    }
    for (uuid, place) in devices {
        hash.update(uuid);
        place.iter().for_each(|number| hash.update(&number.to_le_bytes()));
    }
    hash.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_those_of_a_literal_hash() {
        let facts = Facts {
            driver: 13_050,
            version: 13_052,
            process: 4711,
            thread: 0x1234,
            addresses: [0x1000, 0x2000, 0x3000],
            seconds: 1_700_000_000,
        };
        let device = (*b"warpsim rtx2080t", [0, 1, 0]);
        // From a literal program of both RFCs.
        let expected = 0xc407_f723_384a_32f1_388a_507b_4536_8bc2u128;
        assert_eq!(u128::from_be_bytes(answer(&facts, &[device])), expected);
        assert_ne!(answer(&facts, &[device, device]), answer(&facts, &[device]));
        let first = answer(&Facts { version: 13_050, ..facts }, &[device]);
        assert_eq!(first[..8], 0x3341_181c_03cb_675cu64.to_le_bytes());
        assert_eq!(first, answer(&Facts { version: 12_080, ..facts }, &[]));
    }
}
