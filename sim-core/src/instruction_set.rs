//! Instruction sets of the host that the lanes and the issue loop are compiled for.

/// Instruction sets of the host that lane functions are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum InstructionSet {
    /// What every host of the target has.
    Baseline,
    /// AVX2, FMA and conversions of halves, which hosts with AVX2 have.
    Avx2Fma,
    /// AVX-512 F, BW, DQ, VL.
    Avx512,
}

impl InstructionSet {
    /// Those this host has, best last.
    pub fn available() -> Vec<Self> {
        let mut list = vec![Self::Baseline];
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt")
                && is_x86_feature_detected!("popcnt");
            if avx2 {
                list.push(Self::Avx2Fma);
            }
            if avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
            {
                list.push(Self::Avx512);
            }
        }
        list
    }

    /// The one used where none is asked for. AVX-512 brings nothing over AVX2 here and lowers
    /// the clock of some hosts, so AVX2 is preferred.
    pub fn detect() -> Self {
        let available = Self::available();
        if available.contains(&Self::Avx2Fma) { Self::Avx2Fma } else { Self::Baseline }
    }

    /// Name, as `--instruction-set` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Avx2Fma => "avx2+fma",
            Self::Avx512 => "avx512",
        }
    }
}
