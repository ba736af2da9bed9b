"""Arguments of kernels: values as the bytes of a parameter block, arrays as copies on the device."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import Error

if TYPE_CHECKING:
    from .device import Device

#: A parameter: name, offset, size, alignment, type.
Parameter = tuple[str, int, int, int, str | None]

#: Letters of `struct` for floating-point types.
FLOATS = {"f16": "e", "f32": "f", "f64": "d"}


class Copied:
    """An array of the host that has a copy on the device while a kernel runs."""

    def __init__(self, device: Device, array: np.ndarray[Any, Any], place: int) -> None:
        self.array = array
        self.place = place
        # A view of the bytes as they lie in memory, whichever order they have.
        self.bytes = array.reshape(-1, order="A").view(np.uint8)
        self.address = device._malloc(array.nbytes)
        if array.nbytes:
            device._native.write(self.address, self.bytes)


class Packed:
    """The arguments of a call."""

    def __init__(self, device: Device, name: str) -> None:
        self._device = device
        #: The kernel.
        self.name: str = name
        #: The parameter block.
        self.block: bytes = b""
        self._copies: list[Copied] = []
        #: What must live as long as the call does.
        self._kept: list[Any] = []

    def copy(self, array: np.ndarray[Any, Any], place: int) -> int:
        """The address of a copy of an array; that of the first where it is an argument twice."""
        kind = array.dtype
        if kind.hasobject:
            raise Error(f"{self._of(place)} is an array of {kind}, which no kernel can read")
        if not (array.flags.c_contiguous or array.flags.f_contiguous):
            raise Error(
                f"{self._of(place)} is an array whose elements do not lie one behind the other: pass `np.ascontiguousarray(…)`, "
                "and copy what comes back"
            )
        for other in self._copies:
            same = other.array is array or (
                other.array.ctypes.data == array.ctypes.data and other.array.nbytes == array.nbytes and array.nbytes > 0
            )
            if same:
                return other.address
            if np.may_share_memory(other.array, array):
                raise Error(
                    f"{self._of(place)} overlaps argument {other.place + 1}: their copies on the device would not; make one array "
                    "with `Device.array`, and pass addresses within it"
                )
        copied = Copied(self._device, array, place)
        self._copies.append(copied)
        return copied.address

    def keep(self, what: Any) -> None:
        """Keeps something until the call has run."""
        self._kept.append(what)

    def _of(self, place: int) -> str:
        return f"argument {place + 1} of {self.name}"

    def copy_back(self) -> None:
        """Copies arrays back, and frees their copies."""
        wrong = []
        for copied in self._copies:
            if not copied.array.nbytes:
                continue
            if copied.array.flags.writeable:
                self._device._native.read(copied.address, copied.bytes)
                continue
            now = np.empty_like(copied.bytes)
            self._device._native.read(copied.address, now)
            if not np.array_equal(now, copied.bytes):
                wrong.append(
                    f"{self._of(copied.place)} is not writeable, and the kernel changed it: pass a copy, or `flags.writeable`"
                )
        self.free()
        if wrong:
            raise Error("\n".join(wrong))

    def free(self) -> None:
        """Frees the copies."""
        copies, self._copies = self._copies, []
        self._kept = []
        for copied in copies:
            self._device._native.free(copied.address)


def pack(device: Device, name: str, parameters: list[Parameter], args: tuple[Any, ...], address_bytes: int) -> Packed:
    """The arguments of a call as the parameters want them."""
    if len(args) != len(parameters):
        words = ", ".join(f"{kind or f'{size} bytes'} {own}" for own, _, size, _, kind in parameters)
        raise Error(f"{name} takes {len(parameters)} arguments ({words}), not {len(args)}")
    packed = Packed(device, name)
    end = max((offset + size for _, offset, size, _, _ in parameters), default=0)
    block = bytearray(end)
    try:
        for place, (value, parameter) in enumerate(zip(args, parameters)):
            _, offset, size, _, _ = parameter
            block[offset : offset + size] = _bytes(packed, place, value, parameter, address_bytes)
    except BaseException:
        packed.free()
        raise
    packed.block = bytes(block)
    return packed


def _bytes(packed: Packed, place: int, value: Any, parameter: Parameter, address_bytes: int) -> bytes:
    """The bytes of one argument."""
    from .device import DeviceArray

    name, _, size, _, kind = parameter
    of = packed._of(place)
    declared = f"parameter `{name}` is .{kind}" if kind else f"parameter `{name}` has {size} bytes"
    if isinstance(value, DeviceArray) or isinstance(value, np.ndarray) and value.ndim > 0:
        if kind is None or kind.startswith(("f", "bf")) or size != address_bytes:
            raise Error(f"{of} is an array, but {declared}: pass a number")
        if isinstance(value, DeviceArray):
            if value._device is not packed._device:
                raise Error(f"{of} is an array of another device")
            packed.keep(value)
            address = value.address
        else:
            address = packed.copy(value, place)
        if address >= 1 << (8 * size):
            raise Error(f"{of} lies at {address:#x}, which {size} bytes cannot hold")
        return address.to_bytes(size, "little")
    if isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
    elif isinstance(value, (np.generic, np.ndarray)):
        _suits(of, declared, value.dtype, kind)
        data = value.tobytes()
    elif isinstance(value, (bool, int)):
        return _whole(of, declared, int(value), size, kind)
    elif isinstance(value, float):
        if kind not in FLOATS:
            way = "pass a NumPy number, or bytes" if kind is None or kind.startswith("b") else "pass a whole number"
            raise Error(f"{of} is {value!r}, but {declared}: {way}")
        return struct.pack("<" + FLOATS[kind], value)
    else:
        raise Error(
            f"{of} is of type {type(value).__name__}: pass an array of NumPy, a DeviceArray, a number or bytes ({declared})"
        )
    if len(data) != size:
        raise Error(f"{of} has {len(data)} bytes, but {declared}" + (f" of {size} bytes" if kind else ""))
    return data


def _suits(of: str, declared: str, dtype: np.dtype[Any], kind: str | None) -> None:
    """Refuses a floating-point number for a whole one, and the other way around."""
    if kind is None or kind.startswith("b"):
        return
    if (dtype.kind == "f") != kind.startswith("f"):
        raise Error(f"{of} is of type {dtype}, but {declared}")


def _whole(of: str, declared: str, value: int, size: int, kind: str | None) -> bytes:
    """The bytes of a whole number."""
    if kind in FLOATS:
        return struct.pack("<" + FLOATS[kind], value)
    if kind is None and size not in (1, 2, 4, 8):
        raise Error(f"{of} is {value}, but {declared}: pass bytes, or a structured number of NumPy")
    bits = 8 * size
    least = 0 if kind and kind.startswith("u") else -(1 << (bits - 1))
    most = (1 << (bits - 1)) if kind and kind.startswith("s") else 1 << bits
    if not least <= value < most:
        raise Error(f"{of} is {value}, which is out of range: {declared}")
    return (value % (1 << bits)).to_bytes(size, "little")
