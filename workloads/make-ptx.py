#!/usr/bin/env python3
"""Makes the PTX of the workloads from their CUDA sources, and checks it.

sm_20 by Debian's clang-14, sm_52 by NVRTC 11.8, sm_90 and sm_90a by NVRTC 12.9, the latter two from PyPI
(nvidia-cuda-nvrtc-cu11, -cu12; ptxas for --check from nvidia-cuda-nvcc-cu11, -cu12) in a virtual
environment that this script runs in. The sm_20 PTX of vecadd, fmaloop, sgemm and reduce is what
LLVM 14 made of the same kernels when other simulators were measured on them; it is kept.

usage: make-ptx.py [--check] [WORKLOAD…]
"""
import ctypes, glob, os, pathlib, subprocess, sys, sysconfig

here = pathlib.Path(__file__).resolve().parent
site = pathlib.Path(sysconfig.get_paths()["purelib"])
kept = {"vecadd", "fmaloop", "sgemm", "reduce"}
# Those made with addresses of 32 bits too.
narrow = {"linked_lists"}
# Those that need more than sm_20, and for which architecture NVRTC 11.8 makes them.
newer = {"warp_sum": 52, "divergent_shuffle": 52, "nbody_half2": 75, "string_search": 61,
         "virtual_calls": 52, "shuffle_scan": 52, "tile_reduction": 70, "copy_pipeline": 80,
         "mbarrier_pipeline": 80, "barriers": 52, "pipelines": 80,
         "hgemm_wmma": 70, "hgemm_mma": 80, "igemm": 80, "mma_rate": 80,
         "flash_attention": 80, "flash_attention_128": 80, "tf32gemm": 80, "sparse_gemm": 80, "implicit_gemm_conv": 80,
         "texture_stencil": 52, "bicubic_filter": 52, "surface_writer": 52, "straight_code": 70}
# Those that only sm_90 has, and of these those that only sm_90a has.
hopper = {"hgemm_wgmma", "hgemm_tma", "flash_tma", "wgmma_rate", "dsmem_histogram", "dsmem_chase", "splitk_cluster", "fp8gemm", "tma_copies"}
accelerated = {"hgemm_wgmma", "hgemm_tma", "flash_tma", "wgmma_rate", "fp8gemm"}
# Those that the same compiler makes for sm_89 too: their instructions are newer than NVRTC 11.8.
ada = {"fp8gemm"}
# Those with the lines of their source.
lined = {"collatz", "barriers", "pipelines"}
# Those that need no PTX for sm_90.
older = {"collatz"}


def library(package, pattern):
    found = sorted(glob.glob(str(site / "nvidia" / package / "lib" / pattern)))
    if not found:
        sys.exit(f"{pattern} is not installed: pip install nvidia-cuda-nvrtc-cu11 nvidia-cuda-nvrtc-cu12")
    return ctypes.CDLL(found[0])


def nvrtc(lib, source, name, arch):
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    headers = [f"../common/{header.name}".encode() for header in sorted((here / "common").glob("*.cuh"))]
    names = (ctypes.c_char_p * len(headers))(*headers)
    texts = (ctypes.c_char_p * len(headers))(*[(here / "x" / h.decode()).resolve().read_bytes() for h in headers])
    lib.nvrtcCreateProgram(ctypes.byref(program), source.encode(), name.encode(), len(headers), texts, names)
    words = [f"--gpu-architecture=compute_{arch}", "--fmad=false"]
    if pathlib.Path(name).stem in lined:
        words.append("--generate-line-info")
    options = (ctypes.c_char_p * len(words))(*(word.encode() for word in words))
    status = lib.nvrtcCompileProgram(program, len(words), options)
    lib.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    lib.nvrtcGetProgramLog(program, log)
    if status:
        sys.exit(f"{name}: {log.value.decode()}")
    lib.nvrtcGetPTXSize(program, ctypes.byref(size))
    out = ctypes.create_string_buffer(size.value)
    lib.nvrtcGetPTX(program, out)
    return out.value.decode()


def ptxas(package, arch, file):
    tools = sorted(glob.glob(str(site / "nvidia" / package / "bin" / "ptxas")))
    if not tools:
        sys.exit("ptxas is not installed: pip install nvidia-cuda-nvcc-cu12")
    # Wheels do not keep the permission to execute.
    os.chmod(tools[0], 0o755)
    subprocess.run([tools[0], f"-arch={arch}", "-o", os.devnull, str(file)], check=True)


arguments = [a for a in sys.argv[1:] if not a.startswith("-")]
check = "--check" in sys.argv
for source in sorted([*here.glob("*/*.cu"), *(here.parent / "docs" / "tutorial").glob("*/*.cu")]):
    name = source.stem
    if arguments and name not in arguments:
        continue
    folder = source.parent
    if name not in kept and name not in newer and name not in hopper:
        out = folder / f"{name}.sm_20.ptx"
        command = ["clang-14", "-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_20", "-nocudainc",
                   "-nocudalib", "-O2", "-ffp-contract=off", "-S", "-o", str(out), source.name]
        if name in lined:
            builtins = "__clang_cuda_builtin_vars.h"
            include = next(iter(glob.glob(f"/usr/lib/llvm-14/lib/clang/14*/include/{builtins}")), builtins)
            command += ["-gline-tables-only", "-fdebug-compilation-dir=.", "-include", builtins,
                        f"-fdebug-prefix-map={os.path.dirname(include)}=clang"]
            # Plain CUDA, without the prelude of the others.
            command += [f"-D__{word}__=__attribute__(({word}))" for word in ("global", "device", "shared")]
        subprocess.run(command, check=True, cwd=folder, stderr=subprocess.DEVNULL)
        if name in narrow:
            command[command.index(str(out))] = str(folder / f"{name}.sm_20_32.ptx")
            subprocess.run([*command, "-m32"], check=True, cwd=folder, stderr=subprocess.DEVNULL)
    made = []
    if name not in hopper:
        made.append(("libnvrtc.so.11*", newer.get(name, 52)))
    if name in ada:
        made.append(("libnvrtc.so.12", 89))
    if name not in older:
        made.append(("libnvrtc.so.12", "90a" if name in accelerated else 90))
    for pattern, arch in made:
        text = nvrtc(library("cuda_nvrtc", pattern), source.read_text(), source.name, arch)
        # No file of the machine that this ran on.
        (folder / f"{name}.sm_{arch}.ptx").write_text(text.replace(f'"{os.getcwd()}/', '"./'))
    if check:
        for file in sorted(folder.glob(f"{name}.*.ptx")):
            target = file.suffixes[0][1:]
            if target == "sm_20_32":
                continue  # ptxas has forgotten these addresses.
            ptxas("cuda_nvcc", "sm_50" if target == "sm_20" else target, file)
    print(name)
