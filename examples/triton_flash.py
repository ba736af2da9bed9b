"""Causal flash attention in Triton, with tensor descriptors that the host makes, as a workload of warpsim: compiles it to
PTX, without a GPU, and writes it beside a workload.yaml with operands and expected results by NumPy.

usage: python triton_flash.py FOLDER

Needs triton 3.9 and numpy. The tensor maps of the workload are those that Triton's launcher encodes: box and swizzle are in
the metadata of the compiled kernel. Then: warpsim run FOLDER/workload.yaml --chip h100
"""
import pathlib
import sys

import numpy
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

HEADS, LENGTH, DEPTH, QUERIES, KEYS, WARPS, STAGES = 2, 512, 64, 128, 64, 4, 3


@triton.jit
def step(q, k, v, at, rows, factor, most, total, sums, KEYS: tl.constexpr, head, MASKED: tl.constexpr):
    scores = tl.dot(q, k.load([head + at, 0]).T) * factor
    if MASKED:
        scores = tl.where(rows[:, None] >= at + tl.arange(0, KEYS), scores, -1e30)
    now = tl.maximum(most, tl.max(scores, 1))
    weights = tl.exp2(scores - now[:, None])
    shrink = tl.exp2(most - now)
    sums = tl.dot(weights.to(tl.float16), v.load([head + at, 0]), sums * shrink[:, None])
    return now, total * shrink + tl.sum(weights, 1), sums


@triton.jit
def flash(q, k, v, out, length, scale, DEPTH: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr):
    first, head = tl.program_id(0) * QUERIES, tl.program_id(1) * length
    rows = first + tl.arange(0, QUERIES)
    queries = q.load([head + first, 0])
    most = tl.full([QUERIES], -1e30, tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    sums = tl.zeros([QUERIES, DEPTH], tl.float32)
    # exp(x) is exp2(x * log2(e)). Keys before the first query need no mask.
    factor = scale * 1.44269504
    for at in range(0, first, KEYS):
        most, total, sums = step(queries, k, v, at, rows, factor, most, total, sums, KEYS, head, False)
    for at in range(first, first + QUERIES, KEYS):
        most, total, sums = step(queries, k, v, at, rows, factor, most, total, sums, KEYS, head, True)
    out.store([head + first, 0], (sums / total[:, None]).to(tl.float16))


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    boxes = {"q": QUERIES, "k": KEYS, "v": KEYS, "out": QUERIES}
    constants = {"DEPTH": DEPTH, "QUERIES": QUERIES, "KEYS": KEYS}
    types = {name: f"tensordesc<fp16[{rows}, {DEPTH}]>" for name, rows in boxes.items()} | {"length": "i32", "scale": "fp32"}
    signature = {name: types.get(name, "constexpr") for name in flash.arg_names}
    values = {(flash.arg_names.index(name),): value for name, value in constants.items()}
    source = ASTSource(fn=flash, signature=signature, constexprs=values)
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": WARPS, "num_stages": STAGES})
    (folder / "flash.ptx").write_text(made.asm["ptx"])

    random = numpy.random.default_rng(1)
    q, k, v = (random.uniform(-1, 1, (HEADS, LENGTH, DEPTH)).astype(numpy.float16) for _ in range(3))
    wide = [x.astype(numpy.float64) for x in (q, k, v)]
    scores = wide[0] @ wide[1].transpose(0, 2, 1) / DEPTH ** 0.5
    weights = numpy.exp(numpy.where(numpy.tri(LENGTH) > 0, scores, -numpy.inf))
    arrays = {"q": q, "k": k, "v": v, "out": (weights @ wide[2] / weights.sum(-1, keepdims=True)).astype(numpy.float16)}
    for name, array in arrays.items():
        numpy.save(folder / f"{name}.npy", array)

    rows = HEADS * LENGTH
    maps, arguments = [], []
    for name, meta in zip(boxes, made.metadata.tensordesc_meta):
        box, swizzle = meta["block_size"][::-1], [0, 32, 64, 128][meta["swizzle"]]
        maps.append(f"  {name}_map: {{buffer: {name}, dims: [{DEPTH}, {rows}], box: {box}, swizzle: {swizzle}, l2_promotion: 128}}")
        # A descriptor is five parameters: the map, the sizes of the tensor and its strides in elements.
        arguments += [f"{name}_map", f"{{s32: {rows}}}", f"{{s32: {DEPTH}}}", f"{{s64: {DEPTH}}}", "{s64: 1}"]
    # The last two are scratch memory of the grid, which this kernel does not need, and of a profiler.
    arguments += [f"{{s32: {LENGTH}}}", f"{{f32: {DEPTH ** -0.5}}}", "{u64: 0}", "{u64: 0}"]
    (folder / "workload.yaml").write_text("\n".join([
        "schema: 1",
        "name: triton_flash",
        "description: Causal flash attention written in Triton.",
        # Which of the threads that wait at an mbarrier object try again, and how often, depends on the schedule.
        "schedule: values",
        "variants:",
        f"- {{name: triton, file: flash.ptx, compiler: Triton {triton.__version__}, target: sm_90a}}",
        "buffers:",
        *[f"  {name}: {{type: f16, length: {rows * DEPTH}, init: {{file: {name}.npy}}}}" for name in "qkv"],
        f"  out: {{type: f16, length: {rows * DEPTH}, init: zeros}}",
        "tensor_maps:",
        *maps,
        "launches:",
        f"- {{entry: {made.metadata.name}, grid: [{LENGTH // QUERIES}, {HEADS}], block: [{32 * made.metadata.num_warps}], "
        f"dynamic_shared: {made.metadata.shared}, args: [{', '.join(arguments)}]}}",
        "expect:",
        "- {buffer: out, file: out.npy, tolerance: {near: {abs: 0.002, rel: 0.001}}}",
        "",
    ]))


main()
