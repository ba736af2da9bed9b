// Magnifies an image by cubic B-splines: 16 texels by four lookups between texels (Sigg and Hadwiger, GPU Gems 2,
// chapter 20). What a lookup weighs its texels with has 8 bits.
__device__ float w0(float a) { return (1.0f / 6.0f) * (a * (a * (-a + 3.0f) - 3.0f) + 1.0f); }
__device__ float w1(float a) { return (1.0f / 6.0f) * (a * a * (3.0f * a - 6.0f) + 4.0f); }
__device__ float w2(float a) { return (1.0f / 6.0f) * (a * (a * (-3.0f * a + 3.0f) + 3.0f) + 1.0f); }
__device__ float w3(float a) { return (1.0f / 6.0f) * (a * a * a); }

extern "C" __global__ void bicubic_filter(cudaTextureObject_t image, float *out, int size, float step)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= size || j >= size) return;
    float x = (i + 0.5f) * step - 0.5f, y = (j + 0.5f) * step - 0.5f;
    float px = floorf(x), py = floorf(y);
    float fx = x - px, fy = y - py;
    float gx0 = w0(fx) + w1(fx), gx1 = w2(fx) + w3(fx);
    float gy0 = w0(fy) + w1(fy), gy1 = w2(fy) + w3(fy);
    float x0 = px + (w1(fx) / gx0 - 0.5f), x1 = px + (w3(fx) / gx1 + 1.5f);
    float y0 = py + (w1(fy) / gy0 - 0.5f), y1 = py + (w3(fy) / gy1 + 1.5f);
    float upper = gx0 * tex2D<float>(image, x0, y0) + gx1 * tex2D<float>(image, x1, y0);
    float lower = gx0 * tex2D<float>(image, x0, y1) + gx1 * tex2D<float>(image, x1, y1);
    out[j * size + i] = gy0 * upper + gy1 * lower;
}
