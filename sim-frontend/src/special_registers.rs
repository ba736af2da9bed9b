//! Special registers (PTX ISA "Special Registers"), as programs hold them.

/// The special registers that change while a thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClockRegister {
    /// `%clock`: low 32 bits of the SM's cycle counter.
    Clock,
    /// `%clock_hi`.
    ClockHi,
    /// `%clock64`.
    Clock64,
    /// `%globaltimer` in nanoseconds.
    GlobalTimer,
    /// `%globaltimer_lo`.
    GlobalTimerLo,
    /// `%globaltimer_hi`.
    GlobalTimerHi,
}

/// A special register that is constant for a thread: one 32-bit row of the warp's block,
/// initialised when the warp is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are the PTX special registers")]
pub enum SpecialRegister {
    TidX,
    TidY,
    TidZ,
    NtidX,
    NtidY,
    NtidZ,
    CtaidX,
    CtaidY,
    CtaidZ,
    NctaidX,
    NctaidY,
    NctaidZ,
    LaneId,
    WarpId,
    NwarpId,
    SmId,
    NsmId,
    GridId,
    LanemaskEq,
    LanemaskLe,
    LanemaskLt,
    LanemaskGe,
    LanemaskGt,
    DynamicSmemSize,
    TotalSmemSize,
    /// The size of the thread's local memory in bytes; no special register of PTX.
    LocalBytes,
    /// `%envreg1`: the upper half of the address of a cooperative launch's workspace; 0 in other launches.
    WorkspaceHigh,
    /// `%envreg2`: the lower half.
    WorkspaceLow,
    ClusterIdX,
    ClusterIdY,
    ClusterIdZ,
    NclusterIdX,
    NclusterIdY,
    NclusterIdZ,
    ClusterCtaidX,
    ClusterCtaidY,
    ClusterCtaidZ,
    ClusterNctaidX,
    ClusterNctaidY,
    ClusterNctaidZ,
    ClusterCtarank,
    ClusterNctarank,
    /// 1 where the launch or the kernel gives the size of clusters.
    IsExplicitCluster,
}

impl SpecialRegister {
    /// The lanes of a warp may have different values.
    pub fn differs_by_lane(self) -> bool {
        matches!(
            self,
            Self::TidX
                | Self::TidY
                | Self::TidZ
                | Self::LaneId
                | Self::LanemaskEq
                | Self::LanemaskLe
                | Self::LanemaskLt
                | Self::LanemaskGe
                | Self::LanemaskGt
        )
    }
}
