#include "../common/attention.cuh"
// Attention of depth 64.
ATTENTION(flash_attention, 64)
