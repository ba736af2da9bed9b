// Time as a thread sees it.
#pragma once
__device__ inline u64 cycles_now() { u64 t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t) :: "memory"); return t; }
