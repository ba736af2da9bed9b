#include "../common/prelude.cuh"
// Blocks that end at once. The last one writes its number.
KERNEL empty_blocks(u32 *last) {
    if (BX == GDX - 1 && TX == 0) *last = BX;
}
