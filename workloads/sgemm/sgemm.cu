extern "C" __global__ void sgemm(const float *a, const float *b, float *c, int n) {
  __shared__ float sa[16][16], sb[16][16];
  int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
  float acc = 0;
  for (int t = 0; t < n; t += 16) {
    sa[ty][tx] = a[row * n + t + tx];
    sb[ty][tx] = b[(t + ty) * n + col];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; k++) acc = __fmaf_rn(sa[ty][k], sb[k][tx], acc);
    __syncthreads();
  }
  c[row * n + col] = acc;
}
