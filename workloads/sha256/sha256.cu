#include "../common/prelude.cuh"
// FIPS 180-4: each thread hashes a message of 64 bytes, which with its padding fills two blocks.
__constant__ u32 K[64] = {
    0x428a2f98u, 0x71374491u, 0xb5c0fbcfu, 0xe9b5dba5u, 0x3956c25bu, 0x59f111f1u, 0x923f82a4u, 0xab1c5ed5u,
    0xd807aa98u, 0x12835b01u, 0x243185beu, 0x550c7dc3u, 0x72be5d74u, 0x80deb1feu, 0x9bdc06a7u, 0xc19bf174u,
    0xe49b69c1u, 0xefbe4786u, 0x0fc19dc6u, 0x240ca1ccu, 0x2de92c6fu, 0x4a7484aau, 0x5cb0a9dcu, 0x76f988dau,
    0x983e5152u, 0xa831c66du, 0xb00327c8u, 0xbf597fc7u, 0xc6e00bf3u, 0xd5a79147u, 0x06ca6351u, 0x14292967u,
    0x27b70a85u, 0x2e1b2138u, 0x4d2c6dfcu, 0x53380d13u, 0x650a7354u, 0x766a0abbu, 0x81c2c92eu, 0x92722c85u,
    0xa2bfe8a1u, 0xa81a664bu, 0xc24b8b70u, 0xc76c51a3u, 0xd192e819u, 0xd6990624u, 0xf40e3585u, 0x106aa070u,
    0x19a4c116u, 0x1e376c08u, 0x2748774cu, 0x34b0bcb5u, 0x391c0cb3u, 0x4ed8aa4au, 0x5b9cca4fu, 0x682e6ff3u,
    0x748f82eeu, 0x78a5636fu, 0x84c87814u, 0x8cc70208u, 0x90befffau, 0xa4506cebu, 0xbef9a3f7u, 0xc67178f2u};
__device__ inline u32 rotate(u32 x, int n) { return x >> n | x << (32 - n); }
__device__ void compress(u32 *state, u32 *w) {
  u32 a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6], h = state[7];
  for (int t = 0; t < 64; t++) {
    u32 word;
    if (t < 16) {
      word = w[t];
    } else {
      u32 x = w[(t - 15) & 15], y = w[(t - 2) & 15];
      u32 s0 = rotate(x, 7) ^ rotate(x, 18) ^ x >> 3, s1 = rotate(y, 17) ^ rotate(y, 19) ^ y >> 10;
      word = w[t & 15] + s0 + w[(t - 7) & 15] + s1;
      w[t & 15] = word;
    }
    u32 big1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25), choose = e & f ^ ~e & g;
    u32 t1 = h + big1 + choose + K[t] + word;
    u32 big0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22), majority = a & b ^ a & c ^ b & c;
    h = g; g = f; f = e; e = d + t1; d = c; c = b; b = a; a = t1 + big0 + majority;
  }
  state[0] += a; state[1] += b; state[2] += c; state[3] += d; state[4] += e; state[5] += f; state[6] += g; state[7] += h;
}
KERNEL sha256(const u32 *messages, u32 *digests, int n) {
  int i = BX * BDX + TX;
  if (i >= n) return;
  u32 state[8] = {0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au, 0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u};
  u32 w[16];
  for (int t = 0; t < 16; t++) w[t] = messages[i * 16 + t];
  compress(state, w);
  for (int t = 0; t < 16; t++) w[t] = 0;
  w[0] = 0x80000000u;
  w[15] = 512;
  compress(state, w);
  for (int t = 0; t < 8; t++) digests[i * 8 + t] = state[t];
}
