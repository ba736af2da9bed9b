// The driver API: two PTX texts are linked, and a kernel is launched with pointers to its arguments, with a buffer of
// them, and with attributes. Errors come as CUDA has them. Run it by
//   nvcc -cudart none -o driver examples/driver.cpp -lcuda
//   warpsim cuda -- ./driver
#include <cstdio>
#include <cstring>
#include <vector>

#include <cuda.h>

#define CHECK(call)                                                                                  \
    do {                                                                                             \
        CUresult status = (call);                                                                    \
        if (status != CUDA_SUCCESS) {                                                                \
            const char *text = "";                                                                   \
            cuGetErrorString(status, &text);                                                         \
            std::printf("%s:%d: %s\n", __FILE__, __LINE__, text);                                    \
            return 1;                                                                                \
        }                                                                                            \
    } while (0)

static const char *kernel = R"(
.version 7.0
.target sm_70
.address_size 64
.extern .func (.param .b32 result) scaled (.param .b32 value);
.visible .entry apply(.param .u64 data, .param .u32 count) {
    .reg .b64 %a, %o;
    .reg .b32 %i, %n, %t, %x;
    .reg .pred %p;
    ld.param.u64 %a, [data];
    ld.param.u32 %n, [count];
    mov.u32 %i, %ctaid.x;
    mov.u32 %t, %ntid.x;
    mov.u32 %x, %tid.x;
    mad.lo.u32 %i, %i, %t, %x;
    setp.ge.u32 %p, %i, %n;
    @%p ret;
    mul.wide.u32 %o, %i, 4;
    add.u64 %a, %a, %o;
    ld.global.u32 %x, [%a];
    {
        .param .b32 in;
        .param .b32 out;
        st.param.b32 [in], %x;
        call (out), scaled, (in);
        ld.param.b32 %x, [out];
    }
    st.global.u32 [%a], %x;
    ret;
}
)";

static const char *function = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 factor = 1;
.visible .func (.param .b32 result) scaled (.param .b32 value) {
    .reg .b32 %v, %f;
    ld.param.b32 %v, [value];
    ld.global.u32 %f, [factor];
    mul.lo.u32 %v, %v, %f;
    st.param.b32 [result], %v;
    ret;
}
)";

int main() {
    CUdevice device;
    CUcontext context, popped;
    CUdeviceptr data, factor;
    bool before = cuDeviceGet(&device, 0) == CUDA_ERROR_NOT_INITIALIZED;
    CHECK(cuInit(0));
    bool without = cuMemAlloc(&data, 4) == CUDA_ERROR_INVALID_CONTEXT;
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxPushCurrent(context));

    CUlinkState link;
    void *image;
    size_t bytes;
    CHECK(cuLinkCreate(0, nullptr, nullptr, &link));
    CHECK(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)kernel, std::strlen(kernel) + 1, "kernel", 0, nullptr, nullptr));
    CHECK(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)function, std::strlen(function) + 1, "function", 0, nullptr, nullptr));
    CHECK(cuLinkComplete(link, &image, &bytes));
    CUmodule module;
    CUfunction apply, none;
    CHECK(cuModuleLoadData(&module, image));
    CHECK(cuLinkDestroy(link));
    CHECK(cuModuleGetFunction(&apply, module, "apply"));
    bool unnamed = cuModuleGetFunction(&none, module, "none") == CUDA_ERROR_NOT_FOUND;
    CHECK(cuModuleGetGlobal(&factor, &bytes, module, "factor"));
    const unsigned three = 3;
    CHECK(cuMemcpyHtoD(factor, &three, bytes));

    unsigned count = 1000;
    std::vector<unsigned> host(count, 1);
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&data, count * sizeof(unsigned)));
    CHECK(cuMemcpyHtoD(data, host.data(), count * sizeof(unsigned)));
    void *pointers[] = {&data, &count};
    CHECK(cuLaunchKernel(apply, 8, 1, 1, 128, 1, 1, 0, stream, pointers, nullptr));
    struct {
        CUdeviceptr data;
        unsigned count;
    } buffer = {data, count};
    size_t size = sizeof buffer;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    CHECK(cuLaunchKernel(apply, 8, 1, 1, 128, 1, 1, 0, stream, nullptr, extra));
    CUlaunchAttribute attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attribute.value.cooperative = 1;
    CUlaunchConfig config = {8, 1, 1, 128, 1, 1, 0, stream, &attribute, 1};
    CHECK(cuLaunchKernelEx(&config, apply, pointers, nullptr));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(host.data(), data, count * sizeof(unsigned)));
    for (unsigned i = 0; i < count; i++)
        if (host[i] != 27) {
            std::printf("FAIL: word %u is %u\n", i, host[i]);
            return 1;
        }
    bool large = cuLaunchKernel(apply, 1, 1, 1, 4096, 1, 1, 0, stream, pointers, nullptr) == CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr reserved;
    bool refused = cuMemExportToShareableHandle(&reserved, 0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) == CUDA_ERROR_NOT_SUPPORTED;
    CHECK(cuMemFree(data));
    bool twice = cuMemFree(data) == CUDA_ERROR_INVALID_VALUE;
    CHECK(cuModuleUnload(module));
    bool unloaded = cuModuleGetFunction(&none, module, "apply") == CUDA_ERROR_INVALID_HANDLE;
    CHECK(cuStreamDestroy(stream));
    CHECK(cuCtxPopCurrent(&popped));
    CHECK(cuDevicePrimaryCtxRelease(device));
    bool right = before && without && unnamed && large && refused && twice && unloaded && popped == context;
    std::printf("%s: three launches, errors %d%d%d%d%d%d%d\n", right ? "PASS" : "FAIL", before, without, unnamed, large,
                refused, twice, unloaded);
    return right ? 0 : 1;
}
