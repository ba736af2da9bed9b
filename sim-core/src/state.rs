//! How the state of an engine is written where it names what is there before it is read: kernels, by their number among those of
//! the run, with their code and its plan; and names of counters, which are constants of the program.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{Read, Result, Write};
use std::sync::Arc;

use borsh::{BorshDeserialize, BorshSerialize};
use parking_lot::Mutex;
use sim_memory::links;

use crate::code::Code;
use crate::grid::Kernel;
use crate::reconvergence::plan::Plan;

/// The kernels of the run whose state is written or read.
#[derive(Clone, Debug)]
pub(crate) struct Kernels(pub(crate) Vec<Arc<Kernel>>);

/// No kernel's: the plan of a warp slot that has had no warp.
const NOBODY: u32 = u32::MAX;

impl Kernels {
    /// The place of the first kernel that `has` holds for.
    fn place(has: impl Fn(&Kernel) -> bool) -> Result<u32> {
        links::of(|kernels: &Self| kernels.0.iter().position(|kernel| has(kernel)).map(|i| i as u32))
    }

    fn at<R>(place: u32, take: impl FnOnce(&Arc<Kernel>) -> R) -> Result<R> {
        links::of(|kernels: &Self| kernels.0.get(place as usize).map(take))
    }
}

pub(crate) fn write_kernel<W: Write>(kernel: &Arc<Kernel>, writer: &mut W) -> Result<()> {
    Kernels::place(|own| std::ptr::eq(own, &raw const **kernel))?.serialize(writer)
}

pub(crate) fn read_kernel<R: Read>(reader: &mut R) -> Result<Arc<Kernel>> {
    Kernels::at(u32::deserialize_reader(reader)?, Arc::clone)
}

pub(crate) fn write_code<W: Write>(code: &Arc<Code>, writer: &mut W) -> Result<()> {
    Kernels::place(|own| Arc::ptr_eq(&own.code, code))?.serialize(writer)
}

pub(crate) fn read_code<R: Read>(reader: &mut R) -> Result<Arc<Code>> {
    Kernels::at(u32::deserialize_reader(reader)?, |kernel| Arc::clone(&kernel.code))
}

pub(crate) fn write_plan<W: Write>(plan: &Arc<Plan>, writer: &mut W) -> Result<()> {
    let place = match plan.is_empty() {
        true => NOBODY,
        false => Kernels::place(|own| Arc::ptr_eq(&own.code.plan, plan))?,
    };
    place.serialize(writer)
}

pub(crate) fn read_plan<R: Read>(reader: &mut R) -> Result<Arc<Plan>> {
    match u32::deserialize_reader(reader)? {
        NOBODY => Ok(Arc::default()),
        place => Kernels::at(place, |kernel| Arc::clone(&kernel.code.plan)),
    }
}

pub(crate) fn write_kernels<W: Write>(kernels: &[Arc<Kernel>], writer: &mut W) -> Result<()> {
    (kernels.len() as u32).serialize(writer)?;
    kernels.iter().try_for_each(|kernel| write_kernel(kernel, writer))
}

pub(crate) fn read_kernels<R: Read, C: FromIterator<Arc<Kernel>>>(reader: &mut R) -> Result<C> {
    let count = u32::deserialize_reader(reader)?;
    (0..count).map(|_| read_kernel(reader)).collect()
}

/// Queued kernels by stream.
type Streams = Vec<(u32, VecDeque<Arc<Kernel>>)>;

pub(crate) fn write_streams<W: Write>(streams: &Streams, writer: &mut W) -> Result<()> {
    (streams.len() as u32).serialize(writer)?;
    for (stream, queue) in streams {
        stream.serialize(writer)?;
        let queue: Vec<_> = queue.iter().cloned().collect();
        write_kernels(&queue, writer)?;
    }
    Ok(())
}

pub(crate) fn read_streams<R: Read>(reader: &mut R) -> Result<Streams> {
    let count = u32::deserialize_reader(reader)?;
    (0..count).map(|_| Ok((u32::deserialize_reader(reader)?, read_kernels(reader)?))).collect()
}

pub(crate) fn read_names<V: BorshDeserialize, R: Read>(reader: &mut R) -> Result<BTreeMap<&'static str, V>> {
    let counts = BTreeMap::<String, V>::deserialize_reader(reader)?;
    Ok(counts.into_iter().map(|(name, count)| (lasting(name), count)).collect())
}

/// The name as one that lasts as long as the process. There is one of each, however often it is read.
fn lasting(name: String) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock();
    if let Some(there) = names.get(name.as_str()) {
        return there;
    }
    let own: &'static str = name.leak();
    names.insert(own);
    own
}
