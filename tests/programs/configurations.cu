// Launches that cannot be: what each is called.
#include <cstdio>

__global__ void kernel(int *at) {
    if (at) *at = 1;
}

static void say(const char *what) { printf("%s: %s\n", what, cudaGetErrorName(cudaGetLastError())); }

int main() {
    kernel<<<1, 4096>>>(nullptr);
    say("threads");
    kernel<<<1, dim3(1, 1, 100)>>>(nullptr);
    say("threads in z");
    kernel<<<dim3(1, 70000), 1>>>(nullptr);
    say("blocks in y");
    kernel<<<0, 32>>>(nullptr);
    say("no blocks");
    kernel<<<1, 32, 60000>>>(nullptr);
    say("shared memory");
    kernel<<<1, 32>>>(nullptr);
    say("a kernel");
    return 0;
}
