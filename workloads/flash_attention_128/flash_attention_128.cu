#include "../common/attention.cuh"
// Attention of depth 128.
ATTENTION(flash_attention_128, 128)
