#!/usr/bin/env python3
"""Executes on a GPU what `warpsim run WORKLOAD --functional --export DIR` wrote, and compares the memory bit by bit.

usage: on-gpu.py [--launches N] [--repeat N] [--json FILE] [--save DIR] DIR…

Needs NVIDIA's driver (libcuda.so.1) and Python alone. Prints a line for each folder: buffers that are the same, elements
that differ and, of floating-point elements, by how many units in the last place at most. Buffers with times differ: see
`schedule` in the workload's file. With `--json` a file has besides the contents of buffers of up to 4 KiB and the
microseconds of each launch by events. For cycles and counters run it under the profiler: `ncu python3 on-gpu.py DIR…`.

--launches N   only the first N launches of each folder, without comparing
--repeat N     executes each folder N times, the last time counts
--save DIR     writes buffers that differ to DIR/FOLDER.BUFFER
"""
import argparse, ctypes, json, os, pathlib, struct, subprocess, sys

cuda = ctypes.CDLL("libcuda.so.1")
u64, u32 = ctypes.c_uint64, ctypes.c_uint32


class Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", u32 * 16)]


class Config(ctypes.Structure):
    _fields_ = [("grid", u32 * 3), ("block", u32 * 3), ("shared", u32), ("stream", ctypes.c_void_p),
                ("attributes", ctypes.POINTER(Attribute)), ("count", u32)]


class Failed(Exception):
    pass


def call(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    if status:
        text = ctypes.c_char_p()
        cuda.cuGetErrorName(status, ctypes.byref(text))
        raise Failed(f"{name}: {(text.value or b'?').decode()}")


def load(text):
    """A module of PTX."""
    module, log = ctypes.c_void_p(), ctypes.create_string_buffer(8192)
    # CU_JIT_ERROR_LOG_BUFFER and its size.
    names, values = (ctypes.c_int * 2)(5, 6), (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
    status = cuda.cuModuleLoadDataEx(ctypes.byref(module), text + b"\0", 2, names, values)
    if status:
        raise Failed(f"cuModuleLoadDataEx: {status}: {log.value.decode(errors='replace')[:300]}")
    return module


def tensor_map(spec, address):
    """The 128 bytes of a tensor map."""
    store = ctypes.create_string_buffer(256)
    at = (ctypes.addressof(store) + 63) & ~63
    rank = len(spec["sizes"])
    swizzles = {0: 0, 32: 1, 64: 2, 128: 3}
    swizzle = swizzles[spec["swizzle"]] if spec["atom"] == 0 else {1: 4, 2: 5, 3: 6}[spec["atom"]]
    promotion = {0: 0, 64: 1, 128: 2, 256: 3}[spec["promotion"]]
    interleave = {0: 0, 16: 1, 32: 2}[spec["interleave"]]
    sizes, strides = (u64 * rank)(*spec["sizes"]), (u64 * max(rank - 1, 1))(*spec["strides"])
    steps = (u32 * rank)(*spec["element_strides"])
    common = (ctypes.c_void_p(at), spec["data_type"], rank, u64(address), sizes, strides)
    last = (steps, interleave, swizzle, promotion, int(spec["nan"]))
    if spec["im2col"]:
        im2col = spec["im2col"]
        lower, upper = (ctypes.c_int * 3)(*im2col["lower"]), (ctypes.c_int * 3)(*im2col["upper"])
        call("cuTensorMapEncodeIm2col", *common, lower, upper, im2col["channels"], im2col["pixels"], *last)
    else:
        call("cuTensorMapEncodeTiled", *common, (u32 * rank)(*spec["box"]), *last)
    return ctypes.string_at(at, 128)


def ordered(bits, width):
    """Places of floating-point numbers among each other."""
    return -(bits & (1 << width - 1) - 1) if bits >> width - 1 else bits


def difference(kind, was, now):
    """How many elements differ, and by how many units in the last place at most where they are numbers."""
    width = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}.get(kind)
    size = width or int("".join(c for c in kind if c.isdigit())) // 8
    code = {1: "B", 2: "H", 4: "I", 8: "Q"}[size]
    pairs = [(a, b) for a, b in zip(memoryview(was).cast(code), memoryview(now).cast(code)) if a != b]
    worst = None
    if width and pairs:
        worst = max(abs(ordered(a, 8 * width) - ordered(b, 8 * width)) for a, b in pairs)
    return {"differ": len(pairs), "of": len(was) // size, "ulp": worst, "first": [f"{a:x} {b:x}" for a, b in pairs[:3]]}


class Run:
    """What a folder has, on the GPU."""

    def __init__(self, folder):
        self.folder = folder
        self.what = json.loads((folder / "run.json").read_text())
        self.module = load((folder / "program.ptx").read_bytes())
        self.buffers, self.maps, self.functions = {}, {}, {}
        self.events = [ctypes.c_void_p(), ctypes.c_void_p()]
        for event in self.events:
            call("cuEventCreate", ctypes.byref(event), 0)
        for name, buffer in self.what["buffers"].items():
            address = u64()
            call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(buffer["bytes"], 256)))
            self.buffers[name] = address.value

    def free(self):
        """What a fault left cannot be freed, and needs not to be."""
        for address in [*self.buffers.values(), *(address for _, address in self.maps.values())]:
            cuda.cuMemFree_v2(u64(address))
        for event in self.events:
            cuda.cuEventDestroy_v2(event)
        cuda.cuModuleUnload(self.module)

    def fill(self):
        """Gives buffers, variables and maps their first contents."""
        for name, buffer in self.what["buffers"].items():
            address = u64(self.buffers[name])
            if "initial" in buffer:
                data = (self.folder / buffer["initial"]).read_bytes()
                call("cuMemcpyHtoD_v2", address, data, ctypes.c_size_t(len(data)))
            else:
                call("cuMemsetD8_v2", address, ctypes.c_ubyte(0), ctypes.c_size_t(buffer["bytes"]))
        for name, digits in self.what["variables"].items():
            address, size, data = u64(), ctypes.c_size_t(), bytes.fromhex(digits)
            call("cuModuleGetGlobal_v2", ctypes.byref(address), ctypes.byref(size), self.module, name.encode())
            call("cuMemcpyHtoD_v2", address, data, ctypes.c_size_t(len(data)))
        for name, spec in self.what["maps"].items():
            data = tensor_map(spec, self.buffers[spec["buffer"]] + spec["add"])
            if name not in self.maps:
                address = u64()
                call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(256))
                self.maps[name] = (data, address.value)
            call("cuMemcpyHtoD_v2", u64(self.maps[name][1]), data, ctypes.c_size_t(128))
        call("cuCtxSynchronize")

    def function(self, name):
        if name not in self.functions:
            function = ctypes.c_void_p()
            call("cuModuleGetFunction", ctypes.byref(function), self.module, name.encode())
            self.functions[name] = function
        return self.functions[name]

    def launch(self, spec):
        function = self.function(spec["entry"])
        if spec["dynamic_shared"] > 48 << 10:
            call("cuFuncSetAttribute", function, 8, spec["dynamic_shared"])
        params = bytearray.fromhex(spec["params"])
        for named in spec["named"]:
            at = named["at"]
            if "map" in named:
                params[at:at + 128] = self.maps[named["map"]][0]
            elif "map_address" in named:
                params[at:at + 8] = struct.pack("<Q", self.maps[named["map_address"]][1])
            else:
                params[at:at + 8] = struct.pack("<Q", self.buffers[named["buffer"]] + named["add"])
        block = ctypes.create_string_buffer(bytes(params), max(len(params), 1))
        pointers = (ctypes.c_void_p * max(len(spec["offsets"]), 1))(
            *(ctypes.addressof(block) + offset for offset in spec["offsets"]))
        config = Config((u32 * 3)(*spec["grid"]), (u32 * 3)(*spec["block"]), spec["dynamic_shared"])
        attribute = Attribute(4)
        if spec["cluster"]:
            call("cuFuncSetAttribute", function, 14, 1)
            for axis, blocks in enumerate(spec["cluster"]):
                attribute.value[axis] = blocks
            config.attributes, config.count = ctypes.pointer(attribute), 1
        call("cuLaunchKernelEx", ctypes.byref(config), function, pointers, None)

    def steps(self, most):
        """Microseconds of the launches."""
        times, events = [], self.events
        for step in self.what["steps"]:
            if "fill" in step:
                fill = step["fill"]
                element, size = bytes.fromhex(fill["element"]), self.what["buffers"][fill["buffer"]]["bytes"]
                data = element * (size // len(element))
                call("cuMemcpyHtoD_v2", u64(self.buffers[fill["buffer"]]), data, ctypes.c_size_t(size))
                continue
            if len(times) == most:
                break
            call("cuEventRecord", events[0], None)
            self.launch(step["launch"])
            call("cuEventRecord", events[1], None)
            call("cuCtxSynchronize")
            time = ctypes.c_float()
            call("cuEventElapsedTime", ctypes.byref(time), *events)
            times.append([step["launch"]["entry"], round(time.value * 1e3, 3)])
        return times

    def compare(self, save):
        found, small = {}, {}
        for name, buffer in self.what["buffers"].items():
            now = bytearray(buffer["bytes"])
            place = (ctypes.c_char * len(now)).from_buffer(now)
            call("cuMemcpyDtoH_v2", place, u64(self.buffers[name]), ctypes.c_size_t(len(now)))
            file = buffer.get("final", buffer.get("initial"))
            was = (self.folder / file).read_bytes() if file else bytes(len(now))
            if bytes(now) != was:
                found[name] = difference(buffer["type"], was, now)
                if save:
                    (save / f"{self.folder.name}.{name}").write_bytes(now)
            if len(now) <= 4096:
                small[name] = now.hex()
        return found, small


def execute(folder, options):
    run = Run(folder)
    try:
        for _ in range(options.repeat):
            run.fill()
            entry = {"microseconds": run.steps(options.launches)}
        if options.launches is None:
            entry["differences"], entry["small"] = run.compare(options.save)
    finally:
        run.free()
    return entry


def child(options):
    """Executes the folders, with a line of JSON for each. A fault is the end of a process's context."""
    # What kernels print goes elsewhere.
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    call("cuInit", 0)
    device, context, version = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int()
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDriverGetVersion", ctypes.byref(version))
    name = ctypes.create_string_buffer(100)
    call("cuDeviceGetName", name, 100, device)
    call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
    print(json.dumps({"device": name.value.decode(), "driver": version.value}), file=lines, flush=True)
    for folder in options.folders:
        try:
            print(json.dumps(execute(folder, options)), file=lines, flush=True)
        except (Failed, KeyError, OSError) as error:
            print(json.dumps({"failed": str(error)}), file=lines, flush=True)
            if cuda.cuCtxSynchronize():
                return


def main(options):
    result, left = {"runs": {}}, list(options.folders)
    words = [word for word in sys.argv[1:] if pathlib.Path(word) not in options.folders]
    while left:
        command = [sys.executable, __file__, "--child", *words, *map(str, left)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        device = process.stdout.readline()
        if not device:
            sys.exit("there is no GPU that can be used")
        result.update(json.loads(device))
        before = len(left)
        for line in process.stdout:
            folder, entry = left.pop(0), json.loads(line)
            result["runs"][folder.name] = entry
            if "failed" in entry:
                print(folder.name, "failed:", entry["failed"], flush=True)
            elif "differences" in entry:
                print(folder.name, entry["differences"] or "the same", flush=True)
        if process.wait() and left:
            result["runs"][left.pop(0).name] = {"failed": f"status {process.returncode}"}
        elif len(left) == before:
            sys.exit("no folder was executed")
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(result, indent=1))


options = argparse.ArgumentParser(usage=__doc__)
options.add_argument("--launches", type=int)
options.add_argument("--repeat", type=int, default=1)
options.add_argument("--json")
options.add_argument("--save", type=pathlib.Path)
options.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
options.add_argument("folders", nargs="+", type=pathlib.Path)
options = options.parse_args()
child(options) if options.child else main(options)
