// A graph of kernels over managed memory, captured from a stream and launched several times.
#include <cstdio>

__global__ void add(float *x, float value, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] += value;
}

__global__ void scale(float *x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] *= factor;
}

int main() {
    const int n = 1000;
    float *x;
    cudaMallocManaged(&x, n * sizeof(float));
    for (int i = 0; i < n; i++)
        x[i] = i;
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    add<<<(n + 255) / 256, 256, 0, stream>>>(x, 1, n);
    scale<<<(n + 255) / 256, 256, 0, stream>>>(x, 2, n);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&ready, graph, 0);
    bool untouched = x[7] == 7;
    for (int pass = 0; pass < 3; pass++)
        cudaGraphLaunch(ready, stream);
    cudaError_t error = cudaStreamSynchronize(stream);
    int wrong = 0;
    for (int i = 0; i < n; i++)
        wrong += x[i] != ((i + 1) * 2 + 1) * 2 * 2 + 2;
    // Memory of the host, which the device gets another address for.
    static float own[64];
    float *mapped;
    cudaHostRegister(own, sizeof own, cudaHostRegisterMapped);
    cudaHostGetDevicePointer(&mapped, own, 0);
    add<<<1, 64>>>(mapped, 3, 64);
    cudaDeviceSynchronize();
    cudaHostUnregister(own);
    bool right = error == cudaSuccess && untouched && wrong == 0 && own[0] == 3 && own[63] == 3;
    std::printf("%s: %d of %d are wrong\n", right ? "PASS" : "FAIL", wrong, n);
    return right ? 0 : 1;
}
