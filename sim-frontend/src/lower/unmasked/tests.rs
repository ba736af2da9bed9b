use crate::chip::AssemblerSpec;
use crate::lower::assembled::assembled;

/// By conversion of a body: nothing but products reads its low bits.
fn unmasked(body: &str) -> Vec<bool> {
    let text = format!(
        ".version 7.8\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n.reg .u64 %rd<3>;\n\
         .reg .b32 %a<9>;\n.reg .f32 %f<9>;\nld.param.u64 %rd1, [p];\nld.global.f32 %f1, [%rd1];\nld.global.f32 %f2, [%rd1+4];\n\
         cvt.rna.tf32.f32 %a1, %f1;\ncvt.rna.tf32.f32 %a2, %f2;\n{body}\n\
         st.global.v4.f32 [%rd1], {{%f3, %f4, %f5, %f6}};\nret;\n}}\n"
    );
    let program = assembled(&text, AssemblerSpec { clean_up: true, ..AssemblerSpec::default() });
    let forms = program.ops.iter().map(|op| program.forms[usize::from(op.form)]);
    forms
        .filter(|form| form.dst == sim_memory::vocabulary::ScalarType::Tf32)
        .map(|form| form.mods.unmasked)
        .collect()
}

#[test]
fn low_bits_are_cleared_for_other_readers_than_products() {
    let product = |c: &str| {
        format!(
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {{%f3, %f4, %f5, %f6}}, {{%a1, %a1, %a1, %a1}}, {{%a1, %a2}}, {{{c}, %f1, %f1, %f1}};"
        )
    };
    assert_eq!(unmasked(&product("%f1")), [true, true]);
    assert_eq!(unmasked(&format!("{}\nst.global.u32 [%rd1+16], %a2;", product("%f1"))), [true, false]);
    // C has 32 bits.
    assert_eq!(unmasked(&format!("mov.b32 %f7, %a1;\n{}", product("%f7"))), [false, true]);
}
