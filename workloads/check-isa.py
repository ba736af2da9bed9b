#!/usr/bin/env python3
"""Asks ptxas about the forms of the instruction table.

For every form, some spellings (every word of every group at least once) become one-instruction
kernels with registers of fitting types; ptxas must accept them, and must reject the same with an
older target. Disagreements are printed. Usage:

    workloads/check-isa.py WARPSIM PTXAS [ROOT ...]

ptxas comes with the CUDA toolkit or the package nvidia-cuda-nvcc-cu12.
"""

import concurrent.futures
import json
import os
import random
import re
import subprocess
import sys
import tempfile

BITS = {
    "b8": 16, "u8": 16, "s8": 16, "e4m3": 8, "e5m2": 8, "e4m3x2": 16, "e5m2x2": 16, "pred": 1, "e2m1x2": 8, "e2m3x2": 16, "e3m2x2": 16,
    "ue8m0x2": 16, "e4m3x4": 32, "e5m2x4": 32, "e2m1x4": 16, "e2m3x4": 32, "e3m2x4": 32,
}
TARGETS = [50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 103, 120]
ARCHITECTURES = {90: "sm_90a", 100: "sm_100a", 103: "sm_103a", 120: "sm_120a"}


def bits(word):
    if word in BITS:
        return BITS[word]
    found = re.fullmatch(r"(?:b|u|s|f|bf|tf)(\d+)(?:x(\d))?", word)
    if not found:
        return None
    return 32 if word == "tf32" else int(found[1]) * int(found[2] or 1)


def register(kind, number):
    size = {1: "%p", 8: "%b", 16: "%h", 32: "%r", 64: "%l", 128: "%q"}.get(kind, "%r")
    if isinstance(kind, str):
        size = {"f32": "%f", "f64": "%d"}.get(kind) or register(bits(kind) or 32, number)[:2]
    return f"{size}{number}"


def spellings(groups, rng):
    """Every word of every group at least once, optional groups with and without."""
    def pick(kind, words, word=None):
        if kind == "any":
            return []
        if word is not None:
            return [word]
        return [rng.choice(words)] if kind == "one" else rng.choice([[], [rng.choice(words)]])

    out = set()
    for index, (kind, words) in enumerate(groups):
        if kind == "any":
            continue
        for word in words:
            parts = [pick(k, w, word if i == index else None) for i, (k, w) in enumerate(groups)]
            out.add(tuple(word for part in parts for word in part))
    out.add(tuple(word for kind, words in groups for word in ([words[0]] if kind == "one" else [])))
    return sorted(out)


IMAGES = {"tex", "tld4", "txq", "istypep", "suld", "sust", "sured", "suq"}


def image_instruction(root, words, operands):
    """Texture and surface instructions, without what may be left out."""
    types = [word for word in words if bits(word) is not None]
    ty, result = (types[-1], types[0]) if types else ("b32", "b32")
    vector = 4 if "v4" in words else 2 if "v2" in words else 1

    def listed(kind, count, first):
        kind = "u16" if kind == "b8" else kind
        return "{" + ", ".join(register(kind, first + i) for i in range(count)) + "}"

    geometries = ("1d", "2d", "3d", "a1d", "a2d", "cube", "acube", "2dms", "a2dms")
    geometry = next((word for word in words if word in geometries), "1d")
    size = {"1d": 1, "2d": 2, "a1d": 2}.get(geometry, 4)
    of_texture = root in ("tex", "tld4")
    coordinate = ty if of_texture else "s32"
    # A sample, and a layer.
    first = ["%r29"] * geometry.endswith("ms") + ["%r30"] * geometry.startswith("a")
    place = first + [register(coordinate, 31 + i) for i in range(size - len(first))]
    out = []
    for i, operand in enumerate(operands):
        name, _, named = operand.removesuffix("|q").partition(":")
        if operand.startswith("("):
            continue
        if name == "t":
            out.append("[%l9, {" + ", ".join(place) + "}]")
        elif name == "m":
            out.append("[%l9]")
        elif name == "v" and named:
            out.append(listed(named, {"1d": 1, "2d": 2, "a1d": 1, "a2d": 2}.get(geometry, 4), 4 * i))
        elif name == "v":
            out.append(listed(result if of_texture else ty, vector, 4 * i))
        elif name == "q":
            out.append("%p1")
        else:
            out.append(register(named or ty, 20 + i))
    return f"{'.'.join([root, *words])} {', '.join(out)};"


def instruction(root, words, operands):
    if root in IMAGES:
        return image_instruction(root, words, operands)
    types = [word for word in words if bits(word) is not None]
    video = root.startswith("v") and root not in ("vote",)
    ty = types[-1] if types else "b32"
    result = types[0] if types else "b32"
    if root == "cvt" and "pack" in words:
        ty = types[1]
    if "wide" in words:
        result = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}[ty]
    vector = 8 if "v8" in words else 4 if "v4" in words else 2 if "v2" in words else 1
    rank = next((int(word[0]) for word in words if re.fullmatch(r"[1-5]d", word)), 0)
    out, sources = [], 0
    for i, operand in enumerate(operands):
        name, _, named = operand.strip("()").removesuffix("|q").partition(":")
        named = named.removesuffix("|q").rstrip(")")
        if operand.startswith("("):
            if name == "e" and "L2::cache_hint" not in words:
                continue
            if root.startswith("v") and named in ("dst", "u32"):
                continue
            # From sm_100 on.
            if root in ("min", "max"):
                continue
            # From sm_90 on, where the form by itself is older.
            if root == "mbarrier" and name == "a" and "relaxed" not in words and "shared::cluster" not in words:
                continue
        if root == "cvt" and named == "b8":
            text = f"%b{i}"
        elif name in ("d", "y"):
            text = register(named or (result if not (video and named) else named), i)
            if "shared::cluster" in words and root == "mbarrier":
                text = "_"
            if "|q" in operand and root in ("shfl", "lop3", "match", "elect"):
                text += f"|%p{i}"
        elif name == "q":
            text = f"%p{i}" + (f"|%p{i + 8}" if "|q" in operand else "")
        elif name == "p":
            text = f"%p{i}"
        elif name == "t" and root == "cp":
            # A column and four rows.
            coordinates = 5 if {"tile::gather4", "tile::scatter4"} & set(words) else rank
            text = "[%l9, {" + ", ".join(f"%r{10 + j}" for j in range(coordinates)) + "}]"
        elif name == "v" and root == "cp":
            # A halo and an offset.
            numbers = 2 if {"im2col::w", "im2col::w::128"} & set(words) else rank - 2
            text = "{" + ", ".join(f"%h{10 + j}" for j in range(numbers)) + "}"
        elif name == "m" and root == "tensormap" and "cp_fenceproxy" in words:
            text = ["[%l9]", "[sh]"][i]
        elif name == "m" and (root == "cp" or root == "multimem" and "cp" in words):
            text = "[%l9]" if i == 1 or "shared::cluster" in words else "[sh]"
            if not {"shared", "shared::cta", "shared::cluster"} & set(words):
                text = "[%l9]"
            # From shared to global memory.
            if "bulk_group" in words and i < 2:
                text = ["[%l9]", "[sh]"][i]
        elif name == "m":
            space = {"shared", "shared::cta", "local", "param", "param::entry", "param::func"} & set(words)
            text = {"": "[%l9]", "shared": "[sh]", "local": "[lo]", "param": "[pa]"}[
                (sorted(space) or [""])[0].split("::")[0]
            ]
            if "const" in words:
                text = "[co]"
        elif name == "v":
            one = ty if ty != "b8" else "u8"
            if root == "clusterlaunchcontrol":
                one = result
            text = register(one, i)
            if vector > 1:
                text = "{" + ", ".join(register(one, i * max(vector, 4) + j) for j in range(vector)) + "}"
        elif name == "i":
            maps = "128" if "cp_fenceproxy" in words else "0"
            text = {"pmevent": "3", "cp": "16", "alloca": "16", "fence": "128", "tensormap": maps}.get(root, "0xe8")
        else:
            kind = named or ty
            if kind == "dst":
                kind = result
            if video and len(types) == 3 and sources == 0:
                kind = types[1]
            elif video and root.startswith("vset") and sources == 0:
                kind = types[0]
            if root in ("bar", "barrier") and named == "u32":
                text = {0: "0", 1: "64"}[sources]
            elif root in ("discard", "applypriority"):
                text = "128"
            elif kind == "f32" and named:
                text = "0f3F000000"
            else:
                text = register(kind, i)
            sources += 1
        out.append(text)
    return f"{'.'.join([root, *words])} {', '.join(out)};".replace(" ;", ";")


def refused(root, words):
    """What `tf1_validate::modifiers` refuses, and what has no place in these kernels."""
    types = [word for word in words if bits(word) is not None]
    floats = [ty.startswith(("f", "b")) and not ty.startswith("b1") for ty in types]
    if root in ("set", "setp"):
        unsigned = {"lo", "ls", "hi", "hs"} & set(words) and not types[-1].startswith("u")
        ordered = re.fullmatch(r"b\d+", types[-1]) and not {"eq", "ne"} & set(words)
        return unsigned or ordered
    if root in ("suld", "sust"):
        return (("v4" in words) * 4 + ("v2" in words) * 2) * bits(types[-1]) > 128
    if root in ("ld", "st", "ldu", "atom", "red"):
        spaces = {"shared", "shared::cta", "shared::cluster", "local", "param", "param::entry", "param::func", "const"}
        local = spaces & set(words)
        hint = any(word.startswith(("L1::", "L2::")) for word in words)
        wide = ("v4" in words) * 4 + ("v2" in words) * 2
        ordered = root in ("ld", "st") and {"relaxed", "acquire", "release"} & set(words)
        unscoped = ordered and "mmio" not in words and not {"cta", "cluster", "gpu", "sys"} & set(words)
        # Local memory has volatile accesses from PTX ISA 9.1 on, which these modules are older than.
        if {"volatile", "local"} <= set(words):
            return True
        return unscoped or local and hint or wide * max(8, bits(types[-1])) > 128 or "param::func" in words or (
            root == "st" and "param" in words
        )
    if root == "mov":
        return (("v4" in words) * 4 + ("v2" in words) * 2) * bits(types[-1]) > 128
    if root == "cvta":
        return "u32" in words
    if root == "cvt" and not {"relu", "satfinite", "pack", "rna"} & set(words) and "x2" not in " ".join(types):
        if "ftz" in words and "f32" not in types or "sat" in words and types[0] == types[1] and not floats[0]:
            return True
        whole, some = {"rni", "rzi", "rmi", "rpi"} & set(words), {"rn", "rz", "rm", "rp"} & set(words)
        precision = {"bf16": 8, "f16": 11, "f32": 24, "f64": 53}
        to, source = (precision.get(ty) for ty in types)
        if to is None or source is None:
            needs_whole, needs_some = to is None and source is not None, to is not None and source is None
            return needs_whole != bool(whole) or needs_some != bool(some)
        narrows = to < source
        return (bool(some) != narrows) or (whole and types[0] != types[1])
    return False


def module(target, text, version):
    registers = "".join(
        f".reg .{ty} {name}<40>; "
        for ty, name in [("pred", "%p"), ("b16", "%h"), ("b32", "%r"), ("b64", "%l"), ("f32", "%f"), ("f64", "%d"), ("b128", "%q"), ("b8", "%b")]
    )
    space = ".const .align 16 .b8 co[64];\n.global .align 16 .b8 gl[64];\n"
    return (
        f".version {version}\n.target {target}\n.address_size 64\n{space}.visible .entry k(.param .align 16 .b8 pa[64])\n"
        f"{{\n{registers}\n.shared .align 16 .b8 sh[64];\n.local .align 16 .b8 lo[64];\n{text}\nL:\nret;\n}}\n"
    )


def verdict(ptxas, folder, job):
    key, target, text, version = job
    architecture = ARCHITECTURES.get(target, f"sm_{target}")
    path = os.path.join(folder, f"{key}.ptx")
    with open(path, "w", encoding="utf-8") as file:
        file.write(module(architecture, text, version))
    done = subprocess.run(
        [ptxas, f"-arch={architecture}", "-o", os.devnull, path], capture_output=True, text=True, check=False
    )
    message = (done.stderr.strip() or done.stdout.strip()).split("\n")[0]
    # Each ptxas knows the targets of its time.
    if "is not defined for option" in message:
        return None, message
    if re.search(r"9\.[1-9] or later|Unsupported .version", message):
        return None, message
    return done.returncode == 0, re.sub(r"^ptxas \S+, line \d+; ", "", message)


def main():
    warpsim, ptxas, *roots = sys.argv[1:]
    table = json.loads(subprocess.run([warpsim, "isa", "--json"], capture_output=True, check=True).stdout)
    rng = random.Random(1)
    jobs = []
    for row in table:
        if roots and row["root"] not in roots:
            continue
        for form in row["forms"]:
            if not form["executed"] or form["legacy"] or "*" in form["operands"] or "L" in form["operands"]:
                continue
            for words in spellings(form["groups"], rng):
                if refused(row["root"], words):
                    continue
                least = max([form["min_sm"], *(sm for word, sm in form["word_targets"] if word in words)])
                target = min(t for t in TARGETS if t >= max(least, 50))
                older = [t for t in TARGETS if t < least]
                text = instruction(row["root"], words, form["operands"])
                version = "{}.{}".format(*max((9, 0), tuple(form["min_version"] or (0, 0))))
                jobs.append((True, (len(jobs), target, text, version)))
                if older:
                    jobs.append((False, (len(jobs), older[-1], text, version)))
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor() as pool:
        answers = pool.map(lambda job: verdict(ptxas, folder, job[1]), jobs)
        wrong = 0
        unknown = 0
        for (expected, (_, target, text, _)), (accepted, message) in zip(jobs, answers):
            unknown += accepted is None
            if accepted is not None and accepted != expected:
                wrong += 1
                print(f"sm_{target}: {text} {'rejected: ' + message if expected else 'accepted'}")
    print(f"{len(jobs)} questions, {unknown} beyond this ptxas, {wrong} disagreements")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
