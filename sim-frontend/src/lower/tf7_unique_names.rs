//! Transformation 7: unique names (CS §5.1.3 step 7) [tf-7]. Scopes of registers, variables and
//! labels with the oddities of listing 5.4: a declaration holds from its place to the end of its
//! block whether or not control flow passes it, an inner label hides an outer one, and jumps go
//! out of blocks but not into them.

use rustc_hash::FxHashMap;

/// A stack of scopes that maps names to ids of a kind.
#[derive(Clone, Debug)]
pub struct Scopes<'a, T> {
    scopes: Vec<FxHashMap<&'a str, T>>,
}

impl<T> Default for Scopes<'_, T> {
    fn default() -> Self {
        Self { scopes: vec![FxHashMap::default()] }
    }
}

impl<'a, T> Scopes<'a, T> {
    /// Opens a block.
    pub fn open(&mut self) {
        self.scopes.push(FxHashMap::default());
    }

    /// Closes the innermost block.
    pub fn close(&mut self) {
        self.scopes.pop();
    }

    /// What a name means, if the innermost block declares it.
    pub fn find_innermost(&self, name: &str) -> Option<&T> {
        self.scopes.last()?.get(name)
    }

    /// Declares a name in the innermost block; gives back the value if the name is taken there.
    pub fn declare(&mut self, name: &'a str, value: T) -> Result<(), T> {
        let Some(scope) = self.scopes.last_mut() else { return Err(value) };
        if scope.contains_key(name) {
            return Err(value);
        }
        scope.insert(name, value);
        Ok(())
    }

    /// What a name means here.
    pub fn find(&self, name: &str) -> Option<&T> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name))
    }

    /// All names that can be seen here.
    pub fn names(&self) -> impl Iterator<Item = &'a str> {
        self.scopes.iter().flat_map(|scope| scope.keys().copied())
    }
}
