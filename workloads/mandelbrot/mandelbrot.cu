#include "../common/prelude.cuh"
KERNEL mandelbrot(int *out, int width, int limit) {
  int px = BX * 16 + TX, py = BY * 16 + TY;
  float cx = FMA((float)px, 0.03125f, -2.0f), cy = FMA((float)py, 0.03125f, -1.0f);
  float x = 0, y = 0;
  int i = 0;
  while (i < limit) {
    float xx = mul(x, x), yy = mul(y, y);
    if (add(xx, yy) > 4.0f) break;
    y = FMA(mul(2.0f, x), y, cy);
    x = add(add(xx, -yy), cx);
    i++;
  }
  out[py * width + px] = i;
}
