#include "../common/prelude.cuh"
// Programs whose threads part by their data: recursion, an interpreter, random walks, rays.

__noinline__ __device__ void sort(u32 *a, int low, int high) {
  while (low < high) {
    u32 pivot = a[(low + high) >> 1];
    int i = low, j = high;
    while (i <= j) {
      while (a[i] < pivot) i++;
      while (a[j] > pivot) j--;
      if (i <= j) {
        u32 other = a[i];
        a[i] = a[j];
        a[j] = other;
        i++;
        j--;
      }
    }
    // The shorter part by recursion, so that few frames are open.
    if (j - low < high - i) {
      sort(a, low, j);
      low = i;
    } else {
      sort(a, i, high);
      high = j;
    }
  }
}
// Each thread sorts a piece of its own, of its own length.
KERNEL quicksort(u32 *data, int piece) {
  int t = BX * BDX + TX;
  sort(data + t * piece, 0, piece - 1 - t % 4);
}

// Each thread runs the program from another place; 64 instructions or a halt end it.
KERNEL interpreter(const u32 *code, u32 *out, int length) {
  u32 t = BX * BDX + TX;
  u32 pc = t * 5 % length, x = t, y = 1;
  for (int steps = 0; steps < 64; steps++) {
    u32 word = code[pc];
    u32 argument = word >> 8;
    pc++;
    switch (word & 15) {
      case 0: x += argument; break;
      case 1: x ^= y << 3; break;
      case 2: y = y * 3 + x; break;
      case 3: { u32 other = x; x = y; y = other; break; }
      case 4: if (x & 1) pc += argument & 7; break;
      case 5: if ((x ^ y) & 2) pc = argument % length; break;
      case 6: x = (x >> 1) + argument; break;
      case 7: for (u32 i = 0; i < (y & 7); i++) x = x * 5 + i; break;
      case 8: if ((x & 63) == 0) { out[t] = x ^ y; return; } break;
      case 9: y -= argument; break;
      default: x++;
    }
    if (pc >= (u32)length) pc -= length;
  }
  out[t] = x + y;
}

// Random walks between two walls: the steps each takes.
KERNEL montecarlo(u32 *out, int wall, int most) {
  u32 t = BX * BDX + TX;
  u32 x = t * 747796405u + 2891336453u;
  int at = 0, steps = 0;
  while (at > -wall && at < wall && steps < most) {
    x = x * 1664525u + 1013904223u;
    if (x >> 31) {
      at++;
      if (x >> 30 & 1) x ^= x >> 7;
    } else {
      at--;
    }
    steps++;
  }
  out[t] = (u32)steps * 64 + (u32)(at + wall);
}

// Rays that bounce between four spheres: how often each, and where it ended.
KERNEL ray_sphere(float *out, int bounces) {
  int t = BX * BDX + TX;
  float ox = 0, oy = 0, oz = -4;
  float dx = add(mul((float)(t % 32), 0.0625f), -1.0f), dy = add(mul((float)(t / 32 % 32), 0.0625f), -1.0f), dz = 2.0f;
  float n = root(add(add(mul(dx, dx), mul(dy, dy)), mul(dz, dz)));
  dx = quotient(dx, n); dy = quotient(dy, n); dz = quotient(dz, n);
  int hits = 0;
  for (int b = 0; b < bounces; b++) {
    float nearest = 1e30f, nx = 0, ny = 0, nz = 0;
    for (int s = 0; s < 4; s++) {
      float cx = s & 1 ? 1.0f : -1.0f, cy = s & 2 ? 1.0f : -1.0f, cz = s == 3 ? 1.0f : 0.0f;
      float lx = add(cx, -ox), ly = add(cy, -oy), lz = add(cz, -oz);
      float along = add(add(mul(lx, dx), mul(ly, dy)), mul(lz, dz));
      if (along <= 0.0f) continue;
      float off = add(add(add(mul(lx, lx), mul(ly, ly)), mul(lz, lz)), -mul(along, along));
      if (off >= 0.81f) continue;
      float at = add(along, -root(add(0.81f, -off)));
      if (at > 0.001f && at < nearest) {
        nearest = at;
        nx = cx; ny = cy; nz = cz;
      }
    }
    if (nearest >= 1e30f) break;
    hits++;
    ox = add(ox, mul(dx, nearest)); oy = add(oy, mul(dy, nearest)); oz = add(oz, mul(dz, nearest));
    nx = quotient(add(ox, -nx), 0.9f); ny = quotient(add(oy, -ny), 0.9f); nz = quotient(add(oz, -nz), 0.9f);
    float d = mul(2.0f, add(add(mul(dx, nx), mul(dy, ny)), mul(dz, nz)));
    dx = add(dx, -mul(d, nx)); dy = add(dy, -mul(d, ny)); dz = add(dz, -mul(d, nz));
  }
  out[t] = add((float)hits, mul(dx, 0.25f));
}
