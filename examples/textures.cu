// An image goes into an array, a kernel turns it through a texture, between whose texels it interpolates, and writes
// the result through a surface; a second one shrinks it through a mipmapped array.
//
//     nvcc -std=c++17 -gencode arch=compute_75,code=compute_75 -o textures examples/textures.cu
//     warpsim cuda --chip rtx2080ti -- ./textures
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                              \
    do {                                                                         \
        cudaError_t status = (call);                                             \
        if (status != cudaSuccess) {                                             \
            std::printf("%s: %s\n", #call, cudaGetErrorString(status));          \
            std::exit(1);                                                        \
        }                                                                        \
    } while (0)

__global__ void turn(cudaTextureObject_t image, cudaSurfaceObject_t out, int size)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    // A quarter turn: (u, v) from (y, 1 - x), in normalized coordinates that wrap.
    float u = (y + 0.5f) / size, v = 1.0f - (x + 0.5f) / size;
    surf2Dwrite(tex2D<float>(image, u, v + 1.0f), out, x * 4, y);
}

__global__ void shrink(cudaTextureObject_t levels, float *out, int size, float level)
{
    int x = threadIdx.x, y = threadIdx.y;
    out[y * size + x] = tex2DLod<float>(levels, (x + 0.5f) / size, (y + 0.5f) / size, level);
}

int main()
{
    const int size = 64;
    std::vector<float> image(size * size), turned(size * size);
    for (int i = 0; i < size * size; i++) image[i] = static_cast<float>((i * 37) % 256);

    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaArray_t source, target;
    CHECK(cudaMallocArray(&source, &format, size, size));
    CHECK(cudaMallocArray(&target, &format, size, size, cudaArraySurfaceLoadStore));
    CHECK(cudaMemcpy2DToArray(source, 0, 0, image.data(), size * 4, size * 4, size, cudaMemcpyHostToDevice));

    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = source;
    cudaTextureDesc how = {};
    how.addressMode[0] = how.addressMode[1] = cudaAddressModeWrap;
    how.filterMode = cudaFilterModeLinear;
    how.normalizedCoords = 1;
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &resource, &how, nullptr));
    cudaSurfaceObject_t surface;
    resource.res.array.array = target;
    CHECK(cudaCreateSurfaceObject(&surface, &resource));
    turn<<<dim3(size / 16, size / 16), dim3(16, 16)>>>(texture, surface, size);
    CHECK(cudaMemcpy2DFromArray(turned.data(), size * 4, target, 0, 0, size * 4, size, cudaMemcpyDeviceToHost));
    int wrong = 0;
    for (int y = 0; y < size; y++)
        for (int x = 0; x < size; x++) wrong += turned[y * size + x] != image[(size - 1 - x) * size + y];
    std::printf("turned: %d of %d texels differ\n", wrong, size * size);

    // Levels of 8, 4, 2 and 1 texels, all of one number.
    const int side = 8;
    cudaMipmappedArray_t levels;
    CHECK(cudaMallocMipmappedArray(&levels, &format, make_cudaExtent(side, side, 0), 4));
    for (int level = 0; level < 4; level++) {
        int n = side >> level;
        std::vector<float> texels(n * n, 10.0f * level);
        cudaArray_t own;
        CHECK(cudaGetMipmappedArrayLevel(&own, levels, level));
        cudaMemcpy3DParms copy = {};
        copy.srcPtr = make_cudaPitchedPtr(texels.data(), n * 4, n, n);
        copy.dstArray = own;
        copy.extent = make_cudaExtent(n, n, 1);
        copy.kind = cudaMemcpyHostToDevice;
        CHECK(cudaMemcpy3D(&copy));
    }
    resource = {};
    resource.resType = cudaResourceTypeMipmappedArray;
    resource.res.mipmap.mipmap = levels;
    how.mipmapFilterMode = cudaFilterModeLinear;
    how.maxMipmapLevelClamp = 3;
    cudaTextureObject_t chain;
    CHECK(cudaCreateTextureObject(&chain, &resource, &how, nullptr));
    float *small;
    CHECK(cudaMallocManaged(&small, 16 * 4));
    shrink<<<1, dim3(4, 4)>>>(chain, small, 4, 1.25f);
    CHECK(cudaDeviceSynchronize());
    std::printf("between levels: %.2f\n", small[5]);

    CHECK(cudaDestroyTextureObject(texture));
    CHECK(cudaDestroyTextureObject(chain));
    CHECK(cudaDestroySurfaceObject(surface));
    CHECK(cudaFreeArray(source));
    CHECK(cudaFreeArray(target));
    CHECK(cudaFreeMipmappedArray(levels));
    return wrong != 0;
}
