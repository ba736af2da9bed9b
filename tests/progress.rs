//! Threads that wait for one another all end, whatever keeps their lines meanwhile.

#![allow(missing_docs, reason = "tests")]

use sim_frontend::diagnostic::Source;
use warpsim::device::{Device, DeviceRequest, Kernel};

/// Blocks that hand a number on, each by the word that the next one spins on: eight words lie in a sector, and 32 in a line, so that
/// loads of other sectors are under way in every line all the time.
const CHAIN: &str = ".version 8.0
.target sm_70
.address_size 64
.visible .entry chain(.param .u64 words) {
.reg .pred %p<3>;
.reg .b32 %r<6>;
.reg .b64 %rd<6>;
ld.param.u64 %rd2, [words];
mov.u32 %r2, %tid.x;
setp.ne.s32 %p1, %r2, 0;
@%p1 bra DONE;
mov.u32 %r3, %ctaid.x;
mul.wide.u32 %rd3, %r3, 4;
add.s64 %rd1, %rd2, %rd3;
SPIN:
ld.acquire.gpu.global.u32 %r4, [%rd1];
setp.eq.s32 %p2, %r4, 0;
@%p2 bra SPIN;
add.s32 %r5, %r4, 1;
st.release.gpu.global.u32 [%rd1+4], %r5;
DONE:
ret;
}
";

#[test]
fn nobody_who_waits_for_a_line_is_passed_for_ever() {
    const BLOCKS: u32 = 700;
    for sms in [2, 4, 16] {
        let request = DeviceRequest {
            chip: "v100".into(),
            set: vec![format!("limits.NumProcessors={sms}")],
            max_cycles: Some(4_000_000),
            ..DeviceRequest::default()
        };
        let mut device = Device::new(&request).unwrap_or_else(|errors| panic!("{}", errors[0]));
        let module = device.load(&Source::new("chain.ptx", CHAIN)).unwrap_or_else(|error| panic!("{error}"));
        let words = device.malloc("words", 4 * u64::from(BLOCKS + 1), 4).expect("fits");
        device.write(words, &1u32.to_le_bytes()).expect("a word");
        device
            .launch(&Kernel::new(module, "chain", [BLOCKS, 1, 1], [32, 1, 1], &words.to_le_bytes()))
            .expect("a launch");
        device.synchronize(&|_, _, _| {}).unwrap_or_else(|stop| panic!("{sms} SMs: {stop}"));
        let mut last = [0; 4];
        device.read(words + 4 * u64::from(BLOCKS), &mut last).expect("a word");
        assert_eq!(u32::from_le_bytes(last), BLOCKS + 1, "{sms} SMs");
    }
}
