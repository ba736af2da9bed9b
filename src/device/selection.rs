//! Which launches of a program are timed.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use regex::Regex;
use sim_frontend::diagnostic::Diagnostic;

/// Kernels by a regular expression, and of each of them the launches by their numbers from 0; all where none is named.
#[derive(Debug)]
struct Rule {
    kernels: Regex,
    launches: Vec<RangeInclusive<u64>>,
}

/// The launches that are chosen, as they come.
#[derive(Debug, Default)]
pub struct Selection {
    rules: Vec<Rule>,
    /// Launches so far, by kernel.
    launched: BTreeMap<String, u64>,
}

impl Selection {
    /// Parses rules, each `REGEX` or `REGEX:LAUNCHES`, where LAUNCHES are numbers and ranges such as `0,5-7`.
    ///
    /// # Errors
    /// What is none, with the way out.
    pub fn parse(texts: &[String]) -> Result<Self, Diagnostic> {
        let rules = texts.iter().map(|text| rule(text)).collect::<Result<_, _>>()?;
        Ok(Self { rules, launched: BTreeMap::new() })
    }

    /// No rule chooses anything.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether the next launch of a kernel is chosen.
    pub fn next(&mut self, kernel: &str) -> bool {
        let number = match self.launched.get_mut(kernel) {
            Some(launched) => {
                *launched += 1;
                *launched
            }
            None => *self.launched.entry(kernel.to_string()).or_default(),
        };
        let chosen = |rule: &Rule| {
            let own = rule.launches.is_empty() || rule.launches.iter().any(|range| range.contains(&number));
            own && rule.kernels.is_match(kernel)
        };
        self.rules.iter().any(chosen)
    }
}

fn rule(text: &str) -> Result<Rule, Diagnostic> {
    let wrong = |message: String| {
        let help = "expected KERNEL-REGEX or KERNEL-REGEX:LAUNCHES, where LAUNCHES are launch numbers and ranges, counted from 0 \
                    for each kernel, such as `stencil:0,5-7`";
        Diagnostic::error("time", format!("--time {text}: {message}")).help(help)
    };
    let numbers =
        |list: &str| !list.is_empty() && list.chars().all(|c| c.is_ascii_digit() || c == ',' || c == '-');
    let (kernels, list) = match text.rsplit_once(':') {
        Some((kernels, list)) if numbers(list) => (kernels, Some(list)),
        _ => (text, None),
    };
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| {
            text.parse::<u64>()
                .map_err(|_| wrong(format!("`{range}` is not a launch number or a range of launch numbers")))
        };
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(wrong(format!("`{range}`: {first} is greater than {last}")));
        }
        Ok(first..=last)
    };
    let launches = list.map_or(Ok(Vec::new()), |list| list.split(',').map(range).collect())?;
    let kernels = Regex::new(kernels).map_err(|error| wrong(error.to_string()))?;
    Ok(Rule { kernels, launches })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(rules: &[&str], launches: &[&str]) -> Vec<bool> {
        let rules: Vec<String> = rules.iter().map(ToString::to_string).collect();
        let mut selection = Selection::parse(&rules).unwrap_or_else(|error| panic!("{error}"));
        launches.iter().map(|kernel| selection.next(kernel)).collect()
    }

    #[test]
    fn launches_are_counted_by_kernel() {
        let launches = ["a1", "b", "a1", "a2", "a1", "b"];
        assert_eq!(chosen(&["^a"], &launches), [true, false, true, true, true, false]);
        assert_eq!(chosen(&["^a:1-2"], &launches), [false, false, true, false, true, false]);
        assert_eq!(chosen(&["a1:0", "b:1"], &launches), [true, false, false, false, false, true]);
        assert_eq!(chosen(&["x::y"], &["x::y", "y"]), [true, false], "no list behind the colon");
        assert_eq!(chosen(&[], &launches), [false; 6]);
    }

    #[test]
    fn what_is_no_rule_is_said() {
        for (text, wanted) in [
            ("a:3-1", "3 is greater than 1"),
            ("a:1--2", "not a launch number"),
            ("(", "regex"),
            ("a:,", "not a launch number"),
        ] {
            let error = Selection::parse(&[text.to_string()]).expect_err(text).to_string();
            assert!(error.contains(wanted) && error.contains(text), "{error}");
        }
    }
}
