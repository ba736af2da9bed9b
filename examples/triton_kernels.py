"""Kernels written in Triton as workloads of warpsim: compiles products of matrices and an attention to PTX, without a
GPU, and writes each beside a workload.yaml with operands and expected results by NumPy.

usage: python triton_kernels.py FOLDER [COMPUTE_CAPABILITY]

Needs triton and numpy. Then: warpsim run FOLDER/matmul/workload.yaml --chip h100
"""
import math
import pathlib
import sys

import numpy
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def matmul(a, b, c, m, n, depth, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    steps = tl.arange(0, STEP)
    sums = tl.zeros([ROWS, COLUMNS], tl.float32)
    for k in range(0, depth, STEP):
        within = k + steps < depth
        left = tl.load(a + rows[:, None] * depth + k + steps, mask=(rows < m)[:, None] & within, other=0.0)
        right = tl.load(b + (k + steps)[:, None] * n + columns, mask=within[:, None] & (columns < n), other=0.0)
        sums = tl.dot(left, right, sums)
    tl.store(c + rows[:, None] * n + columns, sums.to(tl.float16), mask=(rows < m)[:, None] & (columns < n))


@triton.jit
def matmul_descriptors(a, b, c, m, n, depth, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr):
    # From 9.0 on each block makes tensor maps, in scratch memory of the grid, and copies boxes of the tensors.
    left = tl.make_tensor_descriptor(a, [m, depth], [depth, 1], [ROWS, STEP])
    right = tl.make_tensor_descriptor(b, [depth, n], [n, 1], [STEP, COLUMNS])
    product = tl.make_tensor_descriptor(c, [m, n], [n, 1], [ROWS, COLUMNS])
    row, column = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS
    sums = tl.zeros([ROWS, COLUMNS], tl.float32)
    for k in range(0, depth, STEP):
        sums = tl.dot(left.load([row, k]), right.load([k, column]), sums)
    product.store([row, column], sums.to(tl.float16))


@triton.jit
def matmul_persistent(a, b, c, m, n, depth, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr):
    # Each block multiplies several tiles, of tensors whose last rows and columns fill no tile.
    left = tl.make_tensor_descriptor(a, [m, depth], [depth, 1], [ROWS, STEP])
    right = tl.make_tensor_descriptor(b, [depth, n], [n, 1], [STEP, COLUMNS])
    product = tl.make_tensor_descriptor(c, [m, n], [n, 1], [ROWS, COLUMNS])
    across = tl.cdiv(n, COLUMNS)
    for tile in tl.range(tl.program_id(0), tl.cdiv(m, ROWS) * across, tl.num_programs(0), flatten=True):
        row, column = tile // across * ROWS, tile % across * COLUMNS
        sums = tl.zeros([ROWS, COLUMNS], tl.float32)
        for k in range(0, depth, STEP):
            sums = tl.dot(left.load([row, k]), right.load([k, column]), sums)
        product.store([row, column], sums.to(tl.float16))


@triton.jit
def attention(q, k, v, out, length, scale, DEPTH: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
              CAUSAL: tl.constexpr):
    first = tl.program_id(0) * QUERIES
    head = tl.program_id(1) * length * DEPTH
    rows = first + tl.arange(0, QUERIES)
    columns = tl.arange(0, KEYS)
    depths = tl.arange(0, DEPTH)
    queries = tl.load(q + head + rows[:, None] * DEPTH + depths)
    most = tl.full([QUERIES], -1e30, tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    sums = tl.zeros([QUERIES, DEPTH], tl.float32)
    # exp(x) is exp2(x * log2(e)).
    factor = scale * 1.44269504
    end = first + QUERIES if CAUSAL else length
    for at in range(0, end, KEYS):
        keys = tl.load(k + head + (at + columns) * DEPTH + depths[:, None])
        scores = tl.dot(queries, keys) * factor
        if CAUSAL:
            scores = tl.where(rows[:, None] >= at + columns, scores, -1e30)
        now = tl.maximum(most, tl.max(scores, 1))
        weights = tl.exp2(scores - now[:, None])
        shrink = tl.exp2(most - now)
        total = total * shrink + tl.sum(weights, 1)
        values = tl.load(v + head + (at + columns)[:, None] * DEPTH + depths)
        sums = tl.dot(weights.to(tl.float16), values, sums * shrink[:, None])
        most = now
    tl.store(out + head + rows[:, None] * DEPTH + depths, (sums / total[:, None]).to(tl.float16))


def workload(folder, capability, kernel, types, constants, warps, stages, inputs, expected, grid, numbers):
    """Compiles a kernel and writes its workload: `inputs` are arrays by name, `expected` the result, `numbers` the
    arguments behind the buffers."""
    names = kernel.arg_names
    signature = {name: types.get(name, "constexpr") for name in names}
    # Triton makes a version of a kernel for arguments that are multiples of 16: with it, copies are 16 bytes wide.
    aligned = {(names.index(name),): [["tt.divisibility", 16]] for name in types if types[name] != "fp32"}
    values = {(names.index(name),): value for name, value in constants.items()}
    source = ASTSource(fn=kernel, signature=signature, constexprs=values, attrs=aligned)
    options = {"num_warps": warps, "num_stages": stages}
    made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    name = kernel.fn.__name__
    folder = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.ptx").write_text(made.asm["ptx"])
    target = next(line.split()[1] for line in made.asm["ptx"].splitlines() if line.startswith(".target"))
    result = names[len(inputs)]
    for of, array in (*inputs.items(), (result, expected)):
        numpy.save(folder / f"{of}.npy", array.astype(numpy.float16))
    buffers = [f"  {of}: {{type: f16, length: {array.size}, init: {{file: {of}.npy}}}}" for of, array in inputs.items()]
    buffers.append(f"  {result}: {{type: f16, length: {expected.size}, init: zeros}}")
    # The last two are scratch memory of the grid, where kernels make tensor maps, and of a profiler.
    scratch = made.metadata.global_scratch_size * math.prod(grid)
    if scratch:
        buffers.append(f"  scratch: {{type: u8, length: {scratch}, init: {{random: {{seed: 1, min: 0, max: 255}}}}}}")
    arguments = [*inputs, result, *numbers, "scratch" if scratch else "{u64: 0}", "{u64: 0}"]
    (folder / "workload.yaml").write_text("\n".join([
        "schema: 1",
        f"name: triton_{name}",
        "description: A kernel written in Triton.",
        "schedule: independent",
        "variants:",
        f"- {{name: triton, file: {name}.ptx, compiler: Triton {triton.__version__}, target: {target}}}",
        "buffers:",
        *buffers,
        "launches:",
        f"- {{entry: {made.metadata.name}, grid: {grid}, block: [{32 * made.metadata.num_warps}], "
        f"dynamic_shared: {made.metadata.shared}, args: [{', '.join(arguments)}]}}",
        "expect:",
        f"- {{buffer: {result}, file: {result}.npy, tolerance: {{near: {{abs: 0.002, rel: 0.001}}}}}}",
        "",
    ]))


def main():
    folder = pathlib.Path(sys.argv[1])
    capability = int(sys.argv[2]) if len(sys.argv) > 2 else 90
    random = numpy.random.default_rng(1)

    def halves(*shape):
        return random.uniform(-1, 1, shape).astype(numpy.float16).astype(numpy.float64)

    m, n, depth = 256, 384, 320
    a, b = halves(m, depth), halves(depth, n)
    types = {name: "*fp16" for name in ("a", "b", "c")} | {name: "i32" for name in ("m", "n", "depth")}
    workload(folder, capability, matmul, types, {"ROWS": 128, "COLUMNS": 128, "STEP": 64}, 4, 3, {"a": a, "b": b},
             a @ b, [triton.cdiv(m, 128), triton.cdiv(n, 128)], [f"{{s32: {x}}}" for x in (m, n, depth)])

    tiles = {"ROWS": 128, "COLUMNS": 128, "STEP": 64}
    workload(folder, capability, matmul_descriptors, types, tiles, 4, 3, {"a": a, "b": b}, a @ b,
             [triton.cdiv(m, 128), triton.cdiv(n, 128)], [f"{{s32: {x}}}" for x in (m, n, depth)])
    m, n, depth = 200, 328, 136
    a, b = halves(m, depth), halves(depth, n)
    workload(folder, capability, matmul_persistent, types, {"ROWS": 64, "COLUMNS": 64, "STEP": 64}, 4, 3,
             {"a": a, "b": b}, a @ b, [5], [f"{{s32: {x}}}" for x in (m, n, depth)])

    heads, length, depth = 2, 512, 64
    q, k, v = (halves(heads, length, depth) for _ in range(3))
    scores = q @ k.transpose(0, 2, 1) / depth ** 0.5
    weights = numpy.exp(numpy.where(numpy.tri(length) > 0, scores, -numpy.inf))
    expected = weights @ v / weights.sum(-1, keepdims=True)
    types = {name: "*fp16" for name in ("q", "k", "v", "out")} | {"length": "i32", "scale": "fp32"}
    constants = {"DEPTH": depth, "QUERIES": 128, "KEYS": 64, "CAUSAL": True}
    workload(folder, capability, attention, types, constants, 4, 2, {"q": q, "k": k, "v": v}, expected,
             [length // 128, heads], [f"{{s32: {length}}}", f"{{f32: {depth ** -0.5}}}"])


main()
