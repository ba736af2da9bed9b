// The kernels of `benches/peer.sh`: `peer NAME` launches one of four workloads once, with their default sizes and inputs, and
// prints a checksum of what it has computed.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../../workloads/fmaloop/fmaloop.cu"
#include "../../workloads/reduce/reduce.cu"
#include "../../workloads/sgemm/sgemm.cu"
#include "../../workloads/vecadd/vecadd.cu"

#define CHECK(call)                                                                     \
    do {                                                                                \
        cudaError_t status = (call);                                                    \
        if (status != cudaSuccess) {                                                    \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status));             \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)

int main(int count, char **arguments) {
    if (count != 2) return 2;
    const char *name = arguments[1];
    const bool add = !strcmp(name, "vecadd"), loop = !strcmp(name, "fmaloop");
    const bool product = !strcmp(name, "sgemm"), sum = !strcmp(name, "reduce");
    if (!add && !loop && !product && !sum) return 2;
    const int n = add ? 131072 : sum ? 32768 : 128;
    const int length = loop ? 60 * 256 : product ? n * n : n;
    std::vector<float> a(length), b(length), c(length, 0.0f);
    for (int i = 0; i < length; i++) {
        a[i] = (i % 13) * 0.125f;
        b[i] = (i % 7) * 0.25f;
    }
    const size_t bytes = length * sizeof(float);
    float *da, *db, *dc;
    CHECK(cudaMalloc((void **)&da, bytes));
    CHECK(cudaMalloc((void **)&db, bytes));
    CHECK(cudaMalloc((void **)&dc, bytes));
    CHECK(cudaMemcpy(da, a.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(db, b.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(dc, c.data(), bytes, cudaMemcpyHostToDevice));
    if (add) vecadd<<<n / 256, 256>>>(da, db, dc, n);
    if (loop) fmaloop<<<60, 256>>>(da, db, dc, n);
    if (product) sgemm<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(da, db, dc, n);
    if (sum) reduce<<<n / 256, 256>>>(da, db, dc, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(c.data(), dc, bytes, cudaMemcpyDeviceToHost));
    unsigned hash = 2166136261u;
    for (float value : c) {
        unsigned word;
        memcpy(&word, &value, sizeof word);
        hash = (hash ^ word) * 16777619u;
    }
    printf("checksum = %08x\n", hash);
    return 0;
}
