// Writes an image through a surface, then reads it through a texture and turns it.
extern "C" __global__ void draw(cudaSurfaceObject_t canvas, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int dx = x - width / 2, dy = y - height / 2;
    uchar4 color = make_uchar4(x ^ y, (dx * dx + dy * dy) >> 4, 3 * x + 5 * y, 255);
    surf2Dwrite(color, canvas, 4 * x, y);
}

extern "C" __global__ void turn(cudaTextureObject_t image, cudaSurfaceObject_t canvas, unsigned *out, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    uchar4 seen = tex2D<uchar4>(image, x + 0.5f, y + 0.5f);
    uchar4 next;
    surf2Dread(&next, canvas, 4 * (x + 1), y, cudaBoundaryModeZero);
    out[x * height + y] = (seen.x | seen.y << 8 | seen.z << 16 | seen.w << 24) + next.y;
}
