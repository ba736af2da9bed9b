//! Buffers of the host: typed bytes.

use sim_memory::soft_float::{BF16, F16, F32, F64, Format, Round};
use sim_memory::vocabulary::ScalarType;

use super::number::Number;

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

/// Types of the elements of buffers: those whose values have whole bytes in memory, as `ld` and `st` take them.
const ELEMENTS: [ScalarType; 23] = {
    use ScalarType::*;
    [
        B8, B16, B32, B64, B128, U8, U16, U32, U64, S8, S16, S32, S64, U16x2, S16x2, F16, F16x2, Bf16,
        Bf16x2, Tf32, F32, F32x2, F64,
    ]
};

impl HostBuffer {
    /// A buffer can have elements of this type.
    ///
    /// # Errors
    /// It cannot: the types that can.
    pub fn holds(ty: ScalarType) -> Result<(), String> {
        if ELEMENTS.contains(&ty) {
            return Ok(());
        }
        let names: Vec<&str> = ELEMENTS.iter().map(|ty| ty.name()).collect();
        Err(format!("`{}` is not a valid buffer element type; valid types: {}", ty.name(), names.join(", ")))
    }

    /// Zeros; `None` where the host has no room for them.
    pub fn zeros(ty: ScalarType, length: usize) -> Option<Self> {
        let bytes = length.checked_mul(ty.bytes() as usize)?;
        let mut room: Vec<u8> = Vec::new();
        room.try_reserve_exact(bytes).ok()?;
        drop(room);
        Some(Self { ty, bytes: vec![0; bytes] })
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
    ///
    /// # Errors
    /// The type cannot hold it.
    pub fn element(ty: ScalarType, value: Number) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        push_element(&mut bytes, ty, value)?;
        Ok(bytes)
    }

    /// An element as a number; packed types and bits as unsigned integers.
    pub fn number(&self, index: usize) -> Option<Number> {
        let size = self.ty.bytes() as usize;
        let bytes = self.bytes.get(index * size..(index + 1) * size)?;
        let mut wide = [0; 16];
        wide[..size].copy_from_slice(bytes);
        let bits = u128::from_le_bytes(wide);
        let spare = 128 - self.ty.bits();
        Some(match (format(self.ty), self.ty) {
            (Some(format), _) => {
                Number::Real(f64::from_bits(F64.convert(format, bits as u64, Round::Nearest)))
            }
            (None, ty) if ty.is_signed() => Number::Int((bits << spare) as i128 >> spare),
            _ => Number::Int(bits as i128),
        })
    }
}

/// The format of a floating-point type of one value, where numbers are converted to it.
fn format(ty: ScalarType) -> Option<Format> {
    match ty {
        ScalarType::F16 => Some(F16),
        ScalarType::Bf16 => Some(BF16),
        ScalarType::F32 => Some(F32),
        ScalarType::F64 => Some(F64),
        _ => None,
    }
}

/// Appends the bytes of a number as an element.
///
/// # Errors
/// The type cannot hold it.
pub fn push_element(bytes: &mut Vec<u8>, ty: ScalarType, value: Number) -> Result<(), String> {
    let size = ty.bytes() as usize;
    if let Some(format) = format(ty) {
        let bits = match (ty, value) {
            // One rounding, not two.
            (ScalarType::F32, Number::Int(value)) => (value as f32).to_bits().into(),
            (ScalarType::F32, Number::Real(value)) => (value as f32).to_bits().into(),
            (ScalarType::F64, _) => value.as_f64().to_bits(),
            _ => format.convert(F64, value.as_f64().to_bits(), Round::Nearest),
        };
        if value.is_finite() && [format.infinity(false), format.infinity(true)].contains(&bits) {
            return Err(format!("{value} exceeds the range of .{}", ty.name()));
        }
        bytes.extend_from_slice(&bits.to_le_bytes()[..size]);
        return Ok(());
    }
    if ty == ScalarType::Pred {
        return Err("predicates are not kept in memory".into());
    }
    let integer =
        value.integer().ok_or_else(|| format!("{value} is not an integer, as .{} needs", ty.name()))?;
    let bits = ty.bits();
    // Types of bits take what either signedness gives.
    let (least, most) = match bits {
        128 => (i128::MIN, i128::MAX),
        _ if ty.is_signed() => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        _ if ty.is_integer() => (0, (1 << bits) - 1),
        _ => (-(1 << (bits - 1)), (1 << bits) - 1),
    };
    if !(least..=most).contains(&integer) {
        return Err(format!("{value} is out of range {least}..={most} of type .{}", ty.name()));
    }
    bytes.extend_from_slice(&integer.to_le_bytes()[..size]);
    Ok(())
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

    /// An integer between bounds, both included.
    pub fn next_integer(&mut self, min: i128, max: i128) -> i128 {
        let bits = self.next_bits();
        match u64::try_from(max - min + 1) {
            Ok(span @ 1..) => min + i128::from(bits % span),
            _ => min + i128::from(bits),
        }
    }

    /// A real number from `min` up to `max`.
    pub fn next_real(&mut self, min: f64, max: f64) -> f64 {
        let unit = (self.next_bits() >> 11) as f64 * 2f64.powi(-53);
        min + unit * (max - min)
    }

    /// A value of the type between bounds, both included for integers, which need integer bounds.
    ///
    /// # Errors
    /// The type needs integers and a bound is none.
    pub fn next_value(&mut self, ty: ScalarType, min: Number, max: Number) -> Result<Number, String> {
        if ty.is_float() {
            return Ok(Number::Real(self.next_real(min.as_f64(), max.as_f64())));
        }
        match (min.integer(), max.integer()) {
            (Some(min), Some(max)) => Ok(Number::Int(self.next_integer(min, max))),
            _ => Err(format!("random .{} needs integers as `min` and `max`", ty.name())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements() {
        let b = HostBuffer::from_i32(&[-3, 7]);
        assert_eq!((b.len(), b.number(0), b.number(2)), (2, Some(Number::Int(-3)), None));
        assert_eq!(b.as_i32(), Some(vec![-3, 7]));
        assert_eq!(b.as_f64(), None);
        assert_eq!(HostBuffer::element(ScalarType::U16, 258u32.into()), Ok(vec![2, 1]));
        // First values of SplitMix64 from seed 1234567 (Vigna's reference program).
        let mut g = SplitMix64(1_234_567);
        assert_eq!([g.next_bits(), g.next_bits()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn elements_keep_every_bit_and_refuse_what_does_not_fit() {
        let element = |ty, value: i128| HostBuffer::element(ty, Number::Int(value));
        assert_eq!(element(ScalarType::U64, u64::MAX.into()), Ok(vec![0xff; 8]));
        let odd = HostBuffer {
            ty: ScalarType::S64,
            bytes: element(ScalarType::S64, 9_007_199_254_740_993).unwrap(),
        };
        assert_eq!(odd.number(0), Some(Number::Int(9_007_199_254_740_993)));
        assert_eq!(element(ScalarType::B32, -1), element(ScalarType::B32, 0xffff_ffff));
        assert_eq!(element(ScalarType::B128, 1).map(|b| b.len()), Ok(16));
        for (ty, value) in [
            (ScalarType::U64, 1 << 64),
            (ScalarType::U32, -1),
            (ScalarType::S32, 1 << 31),
            (ScalarType::B8, 256),
            (ScalarType::F16, 65520),
        ] {
            assert!(element(ty, value).is_err(), "{} {value}", ty.name());
        }
        assert!(HostBuffer::element(ScalarType::S32, Number::Real(1.5)).is_err());
        assert!(HostBuffer::element(ScalarType::F32, Number::Real(1e39)).is_err());
        let half = HostBuffer { ty: ScalarType::F16, bytes: element(ScalarType::F16, -2).unwrap() };
        assert_eq!((half.bytes.as_slice(), half.number(0)), (&[0, 0xc0][..], Some(Number::Real(-2.0))));
        let infinite = HostBuffer::element(ScalarType::F32, Number::Real(f64::INFINITY));
        assert_eq!(infinite, Ok(f32::INFINITY.to_le_bytes().to_vec()));
    }

    #[test]
    fn random_integers_cover_all_64_bits() {
        let mut generator = SplitMix64(1);
        let values: Vec<i128> = (0..64).map(|_| generator.next_integer(0, u64::MAX.into())).collect();
        assert!(values.iter().any(|v| v & 1 == 1) && values.iter().any(|v| *v > i64::MAX.into()));
        assert_eq!(generator.next_integer(7, 7), 7);
        let low = i128::from(i64::MIN);
        assert!((0..64).all(|_| (low..=low + 3).contains(&generator.next_integer(low, low + 3))));
    }
}
