//! Buffers of the host: typed bytes.

use sim_memory::vocabulary::ScalarType;

/// A buffer of elements of one type, little-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostBuffer {
    /// Element type.
    pub ty: ScalarType,
    /// Bytes.
    pub bytes: Vec<u8>,
}

macro_rules! typed {
    ($($from:ident $as:ident $rust:ty, $ty:ident;)+) => {
        $(
            /// A buffer of these elements.
            pub fn $from(values: &[$rust]) -> Self {
                let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                Self { ty: ScalarType::$ty, bytes }
            }

            /// The elements, if they have this type's size.
            pub fn $as(&self) -> Option<Vec<$rust>> {
                const SIZE: usize = size_of::<$rust>();
                (self.ty.bytes() as usize == SIZE).then(|| {
                    self.bytes
                        .chunks_exact(SIZE)
                        .filter_map(|c| c.try_into().ok().map(<$rust>::from_le_bytes))
                        .collect()
                })
            }
        )+
    };
}

impl HostBuffer {
    /// Zeros.
    pub fn zeros(ty: ScalarType, length: usize) -> Self {
        Self { ty, bytes: vec![0; length * ty.bytes() as usize] }
    }

    typed! {
        from_u8 as_u8 u8, U8;
        from_u16 as_u16 u16, U16;
        from_u32 as_u32 u32, U32;
        from_i32 as_i32 i32, S32;
        from_u64 as_u64 u64, U64;
        from_i64 as_i64 i64, S64;
        from_f32 as_f32 f32, F32;
        from_f64 as_f64 f64, F64;
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.bytes.len() / (self.ty.bytes() as usize).max(1)
    }

    /// True without elements.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes of a number as an element.
    pub fn element(ty: ScalarType, value: f64) -> Vec<u8> {
        let bytes = match ty {
            ScalarType::F32 => return (value as f32).to_le_bytes().to_vec(),
            ScalarType::F64 => return value.to_le_bytes().to_vec(),
            _ if value < 0.0 => (value as i64).to_le_bytes(),
            _ => (value as u64).to_le_bytes(),
        };
        bytes[..(ty.bytes() as usize).min(8)].to_vec()
    }

    /// An element as a number.
    pub fn number(&self, index: usize) -> Option<f64> {
        let size = self.ty.bytes() as usize;
        let bytes = self.bytes.get(index * size..(index + 1) * size)?;
        let mut wide = [0; 8];
        wide[..size.min(8)].copy_from_slice(&bytes[..size.min(8)]);
        let bits = u64::from_le_bytes(wide);
        Some(match self.ty {
            ScalarType::F32 => f32::from_bits(bits as u32).into(),
            ScalarType::F64 => f64::from_bits(bits),
            ty if ty.is_signed() => ((bits << (64 - ty.bits())) as i64 >> (64 - ty.bits())) as f64,
            _ => bits as f64,
        })
    }
}

/// The generator of random contents (Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// The next 64 bits.
    pub fn next_bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A value of the type between bounds, both included for integers.
    pub fn next_value(&mut self, ty: ScalarType, min: f64, max: f64) -> f64 {
        let bits = self.next_bits();
        if ty.is_float() {
            let unit = (bits >> 11) as f64 * 2f64.powi(-53);
            return min + unit * (max - min);
        }
        let span = (max - min) as u64 + 1;
        min + (if span == 0 { bits } else { bits % span }) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements() {
        let b = HostBuffer::from_i32(&[-3, 7]);
        assert_eq!((b.len(), b.number(0), b.number(2)), (2, Some(-3.0), None));
        assert_eq!(b.as_i32(), Some(vec![-3, 7]));
        assert_eq!(b.as_f64(), None);
        assert_eq!(HostBuffer::element(ScalarType::U16, 258.0), [2, 1]);
        // First values of SplitMix64 from seed 1234567 (Vigna's reference program).
        let mut g = SplitMix64(1_234_567);
        assert_eq!([g.next_bits(), g.next_bits()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }
}
