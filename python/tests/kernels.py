"""PTX of the tests."""

HEAD = ".version 7.0\n.target sm_70\n.address_size 64\n"

VECADD = HEAD + """
.visible .entry vecadd(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n) {
    .reg .pred %p; .reg .b32 %r<6>; .reg .b64 %d<8>; .reg .f32 %f<4>;
    ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; ld.param.u64 %d3, [c]; ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p, %r5, %r1;
    @%p bra done;
    mul.wide.u32 %d4, %r5, 4;
    add.u64 %d5, %d1, %d4; add.u64 %d6, %d2, %d4; add.u64 %d7, %d3, %d4;
    ld.global.f32 %f1, [%d5]; ld.global.f32 %f2, [%d6];
    add.f32 %f3, %f1, %f2;
    st.global.f32 [%d7], %f3;
done:
    ret;
}
"""

# Every thread stores its number plus a value; of a type of each sort.
TYPES = HEAD + """
.visible .entry store(.param .u64 at, .param .u8 a, .param .s16 b, .param .u32 c, .param .s64 d, .param .f32 e,
                      .param .f64 f, .param .b16 h, .param .align 4 .b8 s[8]) {
    .reg .b64 %at; .reg .b16 %h<3>; .reg .b32 %r<3>; .reg .b64 %d<3>; .reg .f32 %f; .reg .f64 %g;
    ld.param.u64 %at, [at];
    ld.param.u8 %h1, [a]; st.global.u8 [%at], %h1;
    ld.param.s16 %h1, [b]; st.global.s16 [%at+2], %h1;
    ld.param.u32 %r1, [c]; st.global.u32 [%at+4], %r1;
    ld.param.s64 %d1, [d]; st.global.s64 [%at+8], %d1;
    ld.param.f32 %f, [e]; st.global.f32 [%at+16], %f;
    ld.param.f64 %g, [f]; st.global.f64 [%at+24], %g;
    ld.param.b16 %h1, [h]; st.global.b16 [%at+32], %h1;
    ld.param.b32 %r1, [s]; st.global.b32 [%at+36], %r1;
    ld.param.b32 %r1, [s+4]; st.global.b32 [%at+40], %r1;
    ret;
}
"""

# Never ends, but that limits and signals stop it: it counts in memory.
FOREVER = HEAD + """
.visible .entry forever(.param .u64 at) {
    .reg .b64 %at; .reg .b32 %r;
    ld.param.u64 %at, [at];
again:
    ld.global.u32 %r, [%at]; add.u32 %r, %r, 1; st.global.u32 [%at], %r;
    bra again;
}
"""

# Loops as often as it is told, then stores.
SPIN = HEAD + """
.visible .entry spin(.param .u64 at, .param .u32 n) {
    .reg .b64 %at; .reg .b32 %r<3>; .reg .pred %p;
    ld.param.u64 %at, [at]; ld.param.u32 %r1, [n]; mov.u32 %r2, 0;
again:
    add.u32 %r2, %r2, 1; setp.lt.u32 %p, %r2, %r1;
    @%p bra again;
    st.global.u32 [%at], %r2;
    ret;
}
"""

# Stores beyond what it was given.
BEYOND = HEAD + """
.visible .entry beyond(.param .u64 at) {
    .reg .b64 %at;
    ld.param.u64 %at, [at];
    st.global.u32 [%at+1073741824], 1;
    ret;
}
"""
