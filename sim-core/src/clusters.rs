//! Sizes of clusters: what a chip and a kernel allow of a launch (CUDA C++ Programming Guide, "Thread Block Clusters").

use sim_frontend::chip::ChipSpec;
use sim_frontend::program::LaunchBounds;
use sim_memory::address_space::CLUSTER_SHIFT;

/// What a launch says that counts for its clusters.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Blocks of the grid by axis.
    pub grid: [u32; 3],
    /// Blocks of a cluster by axis; where none are given, as the kernel says, or each block is a cluster.
    pub cluster: Option<[u32; 3]>,
    /// Clusters may have more blocks than every chip allows.
    pub non_portable: bool,
    /// Blocks that fit an SM.
    pub resident: u32,
    /// Bytes of shared memory of a block.
    pub shared: u32,
}

/// Why a launch is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The limit.
    pub limit: &'static str,
    /// What exceeds it.
    pub message: String,
}

/// The most blocks of a cluster that a chip allows; 1 where it has no clusters.
pub fn most_blocks(chip: &ChipSpec, non_portable: bool) -> u32 {
    let allowed = |spec: &sim_frontend::chip::ClusterSpec| match non_portable {
        true => spec.max_blocks_non_portable,
        false => spec.max_blocks,
    };
    chip.cluster.as_ref().map_or(1, allowed)
}

/// How many blocks the SMs of each GPC hold at a time, `resident` an SM; an SM is a GPC of its own where the chip has no
/// clusters.
pub fn blocks_of_gpcs(chip: &ChipSpec, resident: u32) -> Vec<u64> {
    let sms = chip.limits.num_processors;
    let Some(spec) = &chip.cluster else { return vec![u64::from(resident); sms as usize] };
    spec.bounds(sms).windows(2).map(|gpc| u64::from(gpc[1] - gpc[0]) * u64::from(resident)).collect()
}

/// Blocks of a cluster by axis, where the kernel or the launch gives them.
///
/// # Errors
/// The kernel or the chip does not allow them.
pub fn cluster_of(
    chip: &ChipSpec,
    bounds: &LaunchBounds,
    wanted: &Wanted,
) -> Result<Option<[u32; 3]>, Refused> {
    let refuse = |limit, message| Err(Refused { limit, message });
    if let (Some(required), Some(given)) = (bounds.cluster, wanted.cluster)
        && required != given
    {
        return refuse(
            ".reqnctapercluster",
            format!("the kernel requires clusters of {required:?} blocks, not {given:?}"),
        );
    }
    let Some(cluster) = wanted.cluster.or(bounds.cluster) else {
        if bounds.explicit_cluster {
            return refuse(
                ".explicitcluster",
                "the launch gives no size of clusters, which this kernel requires".into(),
            );
        }
        return Ok(None);
    };
    let size = cluster.iter().fold(1u64, |size, n| size.saturating_mul((*n).into()));
    if size == 0 {
        return refuse("cluster size", format!("a cluster of {cluster:?} blocks has none"));
    }
    for (axis, name) in ["x", "y", "z"].iter().enumerate() {
        if !wanted.grid[axis].is_multiple_of(cluster[axis]) {
            return refuse(
                "cluster size",
                format!(
                    "the grid has {} blocks in {name}, which is no multiple of the cluster's {}",
                    wanted.grid[axis], cluster[axis]
                ),
            );
        }
    }
    if let Some(most) = bounds.max_cluster.filter(|most| size > u64::from(*most)) {
        return refuse(
            ".maxclusterrank",
            format!("a cluster has {size} blocks; the kernel allows at most {most}"),
        );
    }
    if size == 1 {
        return Ok(Some(cluster));
    }
    if chip.cluster.is_none() {
        return refuse("cluster size", format!("{} has no clusters of several blocks", chip.name));
    }
    let most = most_blocks(chip, wanted.non_portable);
    if size > most.into() {
        return refuse("cluster size", format!("a cluster has {size} blocks; at most {most} are allowed"));
    }
    let fits = blocks_of_gpcs(chip, wanted.resident).into_iter().max().unwrap_or(0);
    if size > fits {
        return refuse(
            "cluster size",
            format!("a cluster has {size} blocks; the SMs of a GPC hold {fits} of them at a time"),
        );
    }
    if wanted.shared > 1 << CLUSTER_SHIFT {
        let most = 1 << CLUSTER_SHIFT;
        return refuse(
            "SharedMemSize",
            format!(
                "a block of a cluster has {} bytes of shared memory; at most {most} are supported",
                wanted.shared
            ),
        );
    }
    Ok(Some(cluster))
}
