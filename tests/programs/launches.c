// A program of CUDA's driver API that needs no CUDA to be built: cc -o launches launches.c -ldl
// launches COUNT [fault|other]: COUNT times, `add` adds 1 to 4096 words and `scale` doubles them; the host reads after each.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *PTX =
    ".version 6.3\n.target sm_75\n.address_size 64\n"
    ".visible .entry add(.param .u64 p) {\n"
    "  .reg .b64 %a<4>; .reg .b32 %r<6>;\n"
    "  ld.param.u64 %a0, [p]; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x;\n"
    "  mad.lo.u32 %r3, %r0, %r1, %r2; mul.wide.u32 %a1, %r3, 4; add.s64 %a2, %a0, %a1;\n"
    "  ld.global.u32 %r4, [%a2]; add.u32 %r5, %r4, 1; st.global.u32 [%a2], %r5; ret; }\n"
    ".visible .entry scale(.param .u64 p) {\n"
    "  .reg .b64 %a<4>; .reg .b32 %r<6>;\n"
    "  ld.param.u64 %a0, [p]; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x;\n"
    "  mad.lo.u32 %r3, %r0, %r1, %r2; mul.wide.u32 %a1, %r3, 4; add.s64 %a2, %a0, %a1;\n"
    "  ld.global.u32 %r4, [%a2]; shl.b32 %r5, %r4, 1; st.global.u32 [%a2], %r5; ret; }\n";

enum { WORDS = 4096, BLOCK = 256 };

typedef int (*call)();

static void *driver;

static call find(const char *name) {
    call found = (call)dlsym(driver, name);
    if (!found) {
        fprintf(stderr, "the driver has no %s\n", name);
        exit(2);
    }
    return found;
}

static void ok(const char *what, int status) {
    if (status) {
        fprintf(stderr, "%s gives %d\n", what, status);
        exit(3);
    }
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 2;
    int fault = argc > 2 && !strcmp(argv[2], "fault");
    int other = argc > 2 && !strcmp(argv[2], "other");
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    void *context, *module, *add, *scale;
    uint64_t words;
    static uint32_t host[WORDS];
    host[0] = other;
    ok("cuInit", find("cuInit")(0));
    ok("cuCtxCreate", find("cuCtxCreate_v2")(&context, 0, 0));
    ok("cuModuleLoadData", find("cuModuleLoadData")(&module, PTX));
    ok("cuModuleGetFunction", find("cuModuleGetFunction")(&add, module, "add"));
    ok("cuModuleGetFunction", find("cuModuleGetFunction")(&scale, module, "scale"));
    ok("cuMemAlloc", find("cuMemAlloc_v2")(&words, (size_t)sizeof host));
    ok("cuMemcpyHtoD", find("cuMemcpyHtoD_v2")(words, host, (size_t)sizeof host));
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
    *(call *)&launch = find("cuLaunchKernel");
    for (int i = 0; i < count; i++) {
        uint64_t at = fault && i == count - 1 ? 64 : words;
        void *arguments[] = {&at};
        ok("add", launch(add, WORDS / BLOCK, 1, 1, BLOCK, 1, 1, 0, NULL, arguments, NULL));
        ok("scale", launch(scale, WORDS / BLOCK, 1, 1, BLOCK, 1, 1, 0, NULL, arguments, NULL));
        ok("cuMemcpyDtoH", find("cuMemcpyDtoH_v2")(host, words, (size_t)sizeof host));
        // What the device gave decides what the host gives it next.
        host[i % WORDS] += 1000;
        ok("cuMemcpyHtoD", find("cuMemcpyHtoD_v2")(words, host, (size_t)sizeof host));
    }
    unsigned long long sum = 0;
    for (int i = 0; i < WORDS; i++) sum += host[i];
    printf("PASS: %d times, the sum is %llu\n", count, sum);
    return 0;
}
