#include "../common/prelude.cuh"
__constant__ float coefficient[3] = {0.5f, 0.109375f, 0.0625f};
KERNEL hotspot(const float *in, const float *power, float *out, int n) {
  int x = BX * 16 + TX, y = BY * 16 + TY, i = y * n + x;
  float c = in[i];
  float w = x > 0 ? in[i - 1] : c, e = x < n - 1 ? in[i + 1] : c;
  float s = y > 0 ? in[i - n] : c, t = y < n - 1 ? in[i + n] : c;
  float sum = add(add(w, e), add(s, t));
  out[i] = FMA(c, coefficient[0], FMA(sum, coefficient[1], mul(power[i], coefficient[2])));
}
