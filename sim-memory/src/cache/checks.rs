//! What holds of a cache between runs.

use super::{Cache, Class, Line, UNUSED, short};

impl Cache {
    /// Checks what is counted of the lines of each set.
    pub(super) fn check_counts(&self) -> Result<(), String> {
        let counted = self.dirty_lines.iter().zip(&self.held);
        for (lines, (&dirty, &held)) in self.lines.chunks(self.ways.max(1)).zip(counted) {
            let count =
                |which: &dyn Fn(&Line) -> bool| lines.iter().filter(|line| which(line)).count() as u32;
            for (what, found, counted) in [
                ("dirty", count(&|line| line.dirty != 0), dirty),
                ("not to be evicted", count(&|line| !line.can_evict()), held),
            ] {
                if found != counted {
                    return Err(format!("{found} lines of a set are {what}, {counted} were counted"));
                }
            }
        }
        Ok(())
    }

    /// Checks the invariants of all lines, and that the cache is idle: no line is pinned or filling.
    ///
    /// # Errors
    /// A description of the first line that violates them.
    pub fn check_idle(&self) -> Result<(), String> {
        if let Some((line, _)) =
            self.lines.iter().zip(&self.tags).find(|(line, tag)| short(line.tag) != **tag)
        {
            return Err(format!("line {:#x} has the shortened tag of another one", line.tag));
        }
        for (i, line) in self.lines.iter().enumerate().filter(|(_, line)| line.tag != UNUSED) {
            let set = (i / self.ways) as u64;
            let wrong = |why: &str| Err(format!("line {:#x} {why}", line.tag));
            if self.find(set, line.tag) != Some(i) {
                return wrong("is not the one that a lookup of its address finds");
            }
            if line.dirty & !line.valid != 0 {
                return wrong("has dirty bytes that are not valid");
            }
            if line.filling & !line.valid != 0 {
                return wrong("waits for bytes that no request fetches");
            }
            if line.pins != 0 || line.flushed {
                return wrong("is pinned by no operation");
            }
        }
        self.check_counts()?;
        let classed = self.lines.iter().filter(|line| line.class != Class::Normal).count();
        if classed != self.classed.iter().sum::<u32>() as usize {
            return Err(format!("{classed} lines are of other classes than normal, others were counted"));
        }
        Ok(())
    }
}
