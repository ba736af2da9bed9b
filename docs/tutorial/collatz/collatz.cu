// How many steps it takes a number to reach 1: an even one is halved, an odd one becomes 3n + 1.
// The numbers of a warp need different numbers of steps, and different kinds of them: both loops
// diverge.
extern "C" __global__ void collatz(unsigned *steps, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long value = i + 1ull;
    unsigned count = 0;
    while (value != 1) {
        if (value & 1) {
            value = 3 * value + 1;
            ++count;
        }
        while ((value & 1) == 0) {
            value >>= 1;
            ++count;
        }
    }
    steps[i] = count;
}
