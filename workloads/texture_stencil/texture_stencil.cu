// Two steps of a five-point stencil: the first reads an array through a texture, whose address mode is the border
// condition; the second reads pitched memory by another.
extern "C" __global__ void texture_stencil(cudaTextureObject_t in, float *out, int n, int pitch)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= n || y >= n) return;
    float u = x + 0.5f, v = y + 0.5f;
    float c = tex2D<float>(in, u, v);
    float sum = tex2D<float>(in, u - 1.0f, v) + tex2D<float>(in, u + 1.0f, v);
    sum = sum + tex2D<float>(in, u, v - 1.0f) + tex2D<float>(in, u, v + 1.0f);
    out[y * pitch + x] = c + 0.125f * (sum - 4.0f * c);
}
