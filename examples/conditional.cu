// Graphs that decide by themselves: Newton's method for square roots as a while node whose condition a kernel sets, an if
// node with an else within its body, and a switch node behind it. Needs CUDA 12.8.
#include <cmath>
#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                     \
    do {                                                                                \
        cudaError_t status = (call);                                                    \
        if (status != cudaSuccess) {                                                    \
            printf("%s: %s\n", #call, cudaGetErrorString(status));                      \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)

struct State {
    double square, root;
    int rounds, large, small, chosen;
};

// A round, and whether another one is needed; the condition of the if node says whether the step was large.
__global__ void newton(State *state, cudaGraphConditionalHandle again, cudaGraphConditionalHandle was_large) {
    double next = 0.5 * (state->root + state->square / state->root), step = fabs(next - state->root);
    state->root = next;
    state->rounds++;
    cudaGraphSetConditional(was_large, step > 1.0);
    cudaGraphSetConditional(again, step > 1e-12);
}

__global__ void count(int *at, int value) { *at += value; }

__global__ void choose(const State *state, cudaGraphConditionalHandle handle) {
    cudaGraphSetConditional(handle, state->rounds % 4);
}

static cudaGraphNode_t add(cudaGraph_t graph, cudaGraphNode_t after, cudaGraphNodeParams &params) {
    cudaGraphNode_t node;
#if CUDART_VERSION >= 13000
    CHECK(cudaGraphAddNode(&node, graph, after ? &after : nullptr, nullptr, after ? 1 : 0, &params));
#else
    CHECK(cudaGraphAddNode(&node, graph, after ? &after : nullptr, after ? 1 : 0, &params));
#endif
    return node;
}

static cudaGraphNode_t launch(cudaGraph_t graph, cudaGraphNode_t after, void *kernel, void **arguments) {
    cudaGraphNodeParams params = {};
    params.type = cudaGraphNodeTypeKernel;
    params.kernel.func = kernel;
    params.kernel.gridDim = params.kernel.blockDim = dim3(1);
    params.kernel.kernelParams = arguments;
    return add(graph, after, params);
}

// A conditional node; its bodies are in `params.conditional.phGraph_out`.
static cudaGraphNode_t decide(cudaGraph_t graph, cudaGraphNode_t after, cudaGraphConditionalHandle handle,
                              cudaGraphConditionalNodeType type, unsigned bodies, cudaGraphNodeParams &params) {
    params = {};
    params.type = cudaGraphNodeTypeConditional;
    params.conditional.handle = handle;
    params.conditional.type = type;
    params.conditional.size = bodies;
    return add(graph, after, params);
}

int main() {
    State *state, host = {};
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphConditionalHandle again, was_large, chosen;
    CHECK(cudaMalloc(&state, sizeof *state));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphConditionalHandleCreate(&again, graph, 1, cudaGraphCondAssignDefault));
    CHECK(cudaGraphConditionalHandleCreate(&chosen, graph));

    cudaGraphNodeParams loop = {}, either = {}, one_of = {};
    cudaGraphNode_t rounds = decide(graph, nullptr, again, cudaGraphCondTypeWhile, 1, loop);
    cudaGraph_t body = loop.conditional.phGraph_out[0];
    CHECK(cudaGraphConditionalHandleCreate(&was_large, body));
    void *round_arguments[] = {&state, &again, &was_large};
    cudaGraphNode_t round = launch(body, nullptr, (void *)newton, round_arguments);
    decide(body, round, was_large, cudaGraphCondTypeIf, 2, either);
    int one = 1, *large = &state->large, *small = &state->small, *which = &state->chosen;
    void *large_arguments[] = {&large, &one}, *small_arguments[] = {&small, &one};
    launch(either.conditional.phGraph_out[0], nullptr, (void *)count, large_arguments);
    launch(either.conditional.phGraph_out[1], nullptr, (void *)count, small_arguments);

    void *choose_arguments[] = {&state, &chosen};
    cudaGraphNode_t chooses = launch(graph, rounds, (void *)choose, choose_arguments);
    decide(graph, chooses, chosen, cudaGraphCondTypeSwitch, 4, one_of);
    for (int i = 0; i < 4; i++) {
        int value = 10 * (i + 1);
        void *arguments[] = {&which, &value};
        launch(one_of.conditional.phGraph_out[i], nullptr, (void *)count, arguments);
    }
    cudaGraphExec_t ready;
    CHECK(cudaGraphInstantiate(&ready, graph, 0));

    bool right = true;
    for (double square : {2.0, 1e6}) {
        State begin = {square, square};
        CHECK(cudaMemcpy(state, &begin, sizeof begin, cudaMemcpyHostToDevice));
        CHECK(cudaGraphLaunch(ready, stream));
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaMemcpy(&host, state, sizeof host, cudaMemcpyDeviceToHost));
        printf("%.6f after %d rounds, %d of them large, body %d\n", host.root, host.rounds, host.large, host.chosen);
        right &= fabs(host.root * host.root - square) < 1e-6 * square && host.large + host.small == host.rounds;
        right &= host.chosen == 10 * (host.rounds % 4 + 1);
    }
    CHECK(cudaGraphExecDestroy(ready));
    CHECK(cudaGraphDestroy(graph));
    printf("%s\n", right ? "PASS" : "FAIL");
    return right ? 0 : 1;
}
