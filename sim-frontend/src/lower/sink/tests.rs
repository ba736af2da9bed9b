use crate::chip::AssemblerSpec;
use crate::diagnostic::Source;
use crate::load::{Assembler, Module};
use crate::program::{ControlFlow, OpClass, Program};

fn program(body: &str, registers: u32, clean_up: bool) -> std::sync::Arc<Program> {
    let text = format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n.reg .b32 %r<99>;\n\
         .reg .f32 %f<99>;\n.reg .u64 %rd<3>;\n.reg .pred %p;\n.shared .align 16 .b8 s[4096];\n\
         ld.param.u64 %rd1, [p];\nmov.u32 %r0, %tid.x;\nshl.b32 %r1, %r0, 4;\nmov.u32 %r2, s;\nadd.u32 %r3, %r1, %r2;\n\
         {body}\nret;\n}}\n"
    );
    let module = Module::build(&Source::new("s.ptx", &text), false);
    let module = module.unwrap_or_else(|e| panic!("{}", e[0].render()));
    let assembler = Assembler {
        stack_bytes: 1024,
        registers,
        passes: AssemblerSpec { clean_up, ..AssemblerSpec::default() },
    };
    let program = module.program_for("k", &|_| Some(0), ControlFlow::Injected, assembler);
    program.unwrap_or_else(|e| panic!("{}", e[0].render()))
}

/// `loads` of fragments, what comes behind them, and the products that use them.
fn products(loads: u32, between: &str) -> String {
    let mut text = String::new();
    (0..4).for_each(|i| text += &format!("mov.f32 %f{i}, 0f00000000;\n"));
    for i in 0..loads {
        let r = 10 + 4 * i;
        text += &format!(
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r{r}, %r{}, %r{}, %r{}}}, [%r3+{}];\n",
            r + 1,
            r + 2,
            r + 3,
            16 * i
        );
    }
    text += between;
    for i in 0..loads {
        let r = 10 + 4 * i;
        text += &format!(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%f0, %f1, %f2, %f3}}, {{%r{r}, %r{}, %r{}, %r{}}}, \
             {{%r{r}, %r{}}}, {{%f0, %f1, %f2, %f3}};\n",
            r + 1,
            r + 2,
            r + 3,
            r + 1
        );
    }
    text + "st.global.v4.f32 [%rd1], {%f0, %f1, %f2, %f3};"
}

fn classes(program: &Program) -> Vec<OpClass> {
    let kept = [OpClass::LoadMatrix, OpClass::Mma, OpClass::Barrier, OpClass::Load, OpClass::Store];
    program.ops.iter().map(|op| op.class).filter(|class| kept.contains(class)).collect()
}

fn spilled(program: &Program) -> u32 {
    program.local_bytes
}

#[test]
fn loads_move_to_the_products_that_use_them() {
    let text = products(16, "");
    let whole = program(&text, u32::MAX, true);
    assert!(whole.registers_per_thread >= 64, "{}", whole.registers_per_thread);
    assert!(whole.notes.is_empty(), "{:?}", whole.notes);
    let tight = program(&text, 24, true);
    assert!(tight.registers_per_thread <= 24, "{}", tight.registers_per_thread);
    assert_eq!(spilled(&tight), 0);
    assert!(tight.notes.iter().any(|note| note.contains("moved")), "{:?}", tight.notes);
    // Each once, a load before its product; the first products come before the last loads.
    let order = classes(&tight);
    assert_eq!(order.iter().filter(|c| **c == OpClass::LoadMatrix).count(), 16);
    assert_eq!(order.iter().filter(|c| **c == OpClass::Mma).count(), 16);
    let last_load = order.iter().rposition(|c| *c == OpClass::LoadMatrix);
    let first_product = order.iter().position(|c| *c == OpClass::Mma);
    assert!(first_product < last_load);
    // With more room they go less far.
    let first = |registers: u32| {
        let program = program(&text, registers, true);
        assert_eq!(spilled(&program), 0, "{registers}");
        classes(&program).iter().position(|c| *c == OpClass::Mma)
    };
    assert!(first(60) > first(24), "{:?} {:?}", first(60), first(24));
    // Where a chip runs PTX as it is written, values are spilled.
    assert!(spilled(&program(&text, 24, false)) > 0);
}

#[test]
fn loads_do_not_pass_what_orders_them() {
    for between in [
        "bar.sync 0;\n",
        "st.shared.u32 [%r3], %r0;\n",
        "cp.async.cg.shared.global [%r3], [%rd1], 16;\n",
        "fence.proxy.async;\n",
        "ld.acquire.gpu.global.u32 %r4, [%rd1];\n",
        "wgmma.fence.sync.aligned;\n",
    ] {
        let tight = program(&products(16, between), 24, true);
        // All results of loads are live at once there.
        assert!(spilled(&tight) > 0, "{between}");
    }
}

/// Products of 64 bits, what comes behind them, and their uses.
fn wide_products(between: &str) -> String {
    let mut text = String::from(".reg .u64 %w<20>;\n");
    (0..16).for_each(|i| text += &format!("mul.wide.u32 %w{i}, %r1, {};\n", i + 3));
    text += between;
    (1..16).for_each(|i| text += &format!("xor.b64 %w0, %w0, %w{i};\n"));
    text + "st.global.v2.u64 [%rd1], {%w0, %w0};\nst.global.u32 [%rd1+16], %r1;"
}

#[test]
fn sums_do_not_pass_what_writes_their_operands() {
    let tight = program(&wide_products("add.u32 %r0, %r0, 1;\n"), 16, true);
    assert_eq!(spilled(&tight), 0, "{:?}", tight.notes);
    // The first writes their operand, the other asks that registers are written before it.
    for (between, class) in [
        ("shfl.sync.idx.b32 %r1, %r1, 0, 31, -1;\n", OpClass::Shuffle),
        ("wgmma.fence.sync.aligned;\n", OpClass::Wgmma),
    ] {
        let tight = program(&wide_products(between), 16, true);
        assert!(spilled(&tight) > 0, "{between}");
        let wide = tight
            .ops
            .iter()
            .enumerate()
            .filter(|(_, op)| matches!(tight.forms[op.form as usize].root, crate::isa::Root::Mul));
        let at = tight.ops.iter().position(|op| op.class == class).expect("it is there");
        let places: Vec<usize> = wide.map(|(place, _)| place).collect();
        assert_eq!(places.len(), 16, "{between}");
        assert!(places.iter().all(|place| *place < at), "{between}: {places:?} {at}");
    }
}
