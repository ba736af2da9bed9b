#include "../common/prelude.cuh"
__device__ inline float normal(float d) {
  float k = quotient(1.0f, FMA(0.2316419f, d < 0 ? -d : d, 1.0f));
  float p = FMA(k, FMA(k, FMA(k, FMA(k, 1.330274429f, -1.821255978f), 1.781477937f), -0.356563782f), 0.31938153f);
  float tail = mul(mul(0.39894228f, ex2(mul(mul(d, d), -0.72134752f))), mul(k, p));
  return d > 0 ? add(1.0f, -tail) : tail;
}
KERNEL blackscholes(const float *price, const float *strike, const float *years, float *call, float *put, float rate, float volatility, int n) {
  int i = BX * BDX + TX;
  if (i >= n) return;
  float s = price[i], x = strike[i], t = years[i], r = root(t);
  float d1 = quotient(FMA(add(rate, mul(0.5f, mul(volatility, volatility))), t, mul(0.69314718f, lg2(quotient(s, x)))), mul(volatility, r));
  float d2 = FMA(-volatility, r, d1);
  float discounted = mul(x, ex2(mul(mul(-1.442695041f, rate), t)));
  float n1 = normal(d1), n2 = normal(d2);
  call[i] = FMA(s, n1, -mul(discounted, n2));
  put[i] = FMA(discounted, add(1.0f, -n2), -mul(s, add(1.0f, -n1)));
}
