//! `.npy` files: NumPy's format of one array (NEP 1), as far as buffers need it.

use npyz::{DType, NpyHeader, Order};
use sim_memory::vocabulary::ScalarType;

/// The elements of an array of this type in C order; none where the bytes are no `.npy` file.
pub fn elements(bytes: &[u8], ty: ScalarType) -> Option<Result<&[u8], String>> {
    bytes.starts_with(b"\x93NUMPY").then(|| array(bytes, ty))
}

fn array(bytes: &[u8], ty: ScalarType) -> Result<&[u8], String> {
    guard(bytes)?;
    let mut data = bytes;
    let header = NpyHeader::from_reader(&mut data)
        .map_err(|error| format!("the header of the .npy file cannot be read: {error}"))?;
    let DType::Plain(descr) = header.dtype() else {
        return Err("structured arrays are not supported; save one field as an array".to_string());
    };
    let descr = descr.to_string();
    if !holds(&descr, ty) {
        return Err(format!(
            "the file has elements of type `{descr}`, but the buffer has type .{}; save it from NumPy with dtype `{}`",
            ty.name(),
            dtype(ty)
        ));
    }
    if header.order() == Order::Fortran {
        return Err("the array is in Fortran order; save numpy.ascontiguousarray(a)".to_string());
    }
    let mut sizes = header.shape().iter().copied().chain([u64::from(ty.bytes())]);
    let size = sizes.try_fold(1u64, |all, size| all.checked_mul(size));
    match size {
        Some(size) if data.len() as u64 == size => Ok(data),
        Some(size) => Err(format!("its shape needs {size} bytes of data, it has {}", data.len())),
        None => Err("its shape needs more data than a file can have".to_string()),
    }
}

/// Most groups within one another in a header: records of records have some.
const DEEPEST: usize = 16;

/// Refuses headers that are longer than the file, or so deep that reading them takes much stack.
fn guard(bytes: &[u8]) -> Result<(), String> {
    let cut = || "the .npy file is truncated".to_string();
    let (at, length) = match bytes.get(6).ok_or_else(cut)? {
        1 => (10, bytes.get(8..10).map(|b| u32::from(u16::from_le_bytes([b[0], b[1]])))),
        2 | 3 => (12, bytes.get(8..12).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))),
        version => return Err(format!("version {version} of .npy files is not supported")),
    };
    let header = bytes.get(at..at + length.ok_or_else(cut)? as usize).ok_or_else(cut)?;
    let opened = header.iter().filter(|byte| b"([{".contains(byte)).count();
    match opened > DEEPEST {
        true => Err("the header of the .npy file is nested too deeply".to_string()),
        false => Ok(()),
    }
}

/// NumPy's name of a type, little-endian.
fn dtype(ty: ScalarType) -> String {
    let kind = match ty {
        _ if ty.is_signed() => 'i',
        ScalarType::F16 | ScalarType::F32 | ScalarType::F64 => 'f',
        _ => 'u',
    };
    let order = if ty.bytes() == 1 { '|' } else { '<' };
    format!("{order}{kind}{}", ty.bytes())
}

/// Elements of this dtype are those of a buffer of that type; bits take any of their size.
fn holds(descr: &str, ty: ScalarType) -> bool {
    let own = dtype(ty);
    let untyped = ty.is_bits()
        || !(ty.is_integer() || matches!(ty, ScalarType::F16 | ScalarType::F32 | ScalarType::F64));
    let kinds = if untyped { &['u', 'i', 'f'][..] } else { &[] };
    let same = |wanted: &str| {
        descr == wanted || (ty.bytes() == 1 && descr.trim_start_matches(['<', '=', '|']) == &wanted[1..])
    };
    same(&own) || kinds.iter().any(|kind| same(&format!("{}{kind}{}", &own[..1], ty.bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As numpy.save writes it: the header padded with spaces to a multiple of 64, a line feed last.
    fn file(descr: &str, order: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let mut header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
        while (10 + header.len() + 1) % 64 != 0 {
            header.push(' ');
        }
        header.push('\n');
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn arrays_of_the_right_type_and_shape() {
        let data: Vec<u8> = (0..24).collect();
        let good = file("<f4", "False", "(2, 3)", &data);
        assert_eq!(elements(&good, ScalarType::F32), Some(Ok(&data[..])));
        assert_eq!(elements(&good, ScalarType::B32), Some(Ok(&data[..])));
        assert_eq!(elements(&file("|u1", "False", "(24,)", &data), ScalarType::U8), Some(Ok(&data[..])));
        assert_eq!(elements(&data, ScalarType::F32), None);
    }

    #[test]
    fn others_are_refused_with_the_way_out() {
        let data: Vec<u8> = (0..24).collect();
        let wrong = |bytes: &[u8], ty| elements(bytes, ty).and_then(Result::err).expect("refused");
        let good = file("<f4", "False", "(2, 3)", &data);
        assert!(wrong(&good, ScalarType::U32).contains("dtype `<u4`"));
        assert!(wrong(&file(">f4", "False", "(2, 3)", &data), ScalarType::F32).contains("`>f4`"));
        assert!(wrong(&file("<f4", "True", "(2, 3)", &data), ScalarType::F32).contains("ascontiguousarray"));
        assert!(wrong(&file("<f4", "False", "(7,)", &data), ScalarType::F32).contains("28 bytes"));
        assert!(wrong(&good[..40], ScalarType::F32).contains("truncated"));
        let deep = format!("({}", "(".repeat(40));
        assert!(wrong(&file("<f4", "False", &deep, &data), ScalarType::F32).contains("nested too deeply"));
        let huge = "(4294967296, 4294967296, 2)";
        assert!(wrong(&file("<f4", "False", huge, &data), ScalarType::F32).contains("than a file can have"));
        assert!(wrong(&file("nonsense", "False", "(6,)", &data), ScalarType::F32).contains("cannot be read"));
    }
}
