#include "../common/prelude.cuh"
// Accelerations of all bodies by all others, positions and masses through shared memory.
__device__ inline float rsqrt_approx(float a) { float r; asm("rsqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }
struct __attribute__((aligned(16))) Body { float x, y, z, mass; };
KERNEL nbody(const Body *bodies, Body *accelerations, int n) {
  __shared__ Body tile[128];
  int i = BX * 128 + TX;
  Body me = bodies[i];
  float ax = 0, ay = 0, az = 0;
  for (int first = 0; first < n; first += 128) {
    tile[TX] = bodies[first + TX];
    SYNC();
    for (int j = 0; j < 128; j++) {
      float dx = tile[j].x - me.x, dy = tile[j].y - me.y, dz = tile[j].z - me.z;
      float r2 = FMA(dz, dz, FMA(dy, dy, FMA(dx, dx, 0.01f)));
      float inverse = rsqrt_approx(r2);
      float s = mul(mul(tile[j].mass, inverse), mul(inverse, inverse));
      ax = FMA(dx, s, ax);
      ay = FMA(dy, s, ay);
      az = FMA(dz, s, az);
    }
    SYNC();
  }
  Body out = {ax, ay, az, 0};
  accelerations[i] = out;
}
