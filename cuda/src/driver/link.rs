//! A link of the driver API: the texts that are to be linked, and the result.

use sim_frontend::diagnostic::Source;
use sim_frontend::link::link;
use warpsim::console::complain;

use crate::error::{Error, INVALID_PTX};

/// Texts that are to be linked, and the result.
#[derive(Debug, Default)]
pub struct Link {
    /// The texts.
    pub texts: Vec<Source>,
    /// The result, zero-terminated; it lives as long as the link.
    pub image: Vec<u8>,
}

impl Link {
    /// Makes the image of the texts. One text stays as it is.
    ///
    /// # Errors
    /// There is no text, or the texts do not fit together.
    pub fn complete(&mut self) -> Result<(), Error> {
        let linked = match self.texts.as_slice() {
            [] => {
                eprintln!("warpsim: nothing is linked");
                return Err(INVALID_PTX);
            }
            [one] => one.clone(),
            several => link("linked.ptx", several).map_err(|errors| {
                complain(&errors);
                INVALID_PTX
            })?,
        };
        self.image = linked.text.as_bytes().to_vec();
        self.image.push(0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = ".version 7.0\n.target sm_70\n.address_size 64\n";

    fn linked(texts: &[&str]) -> Result<String, Error> {
        let source = |(i, body): (usize, &&str)| Source::new(&format!("{i}.ptx"), &format!("{HEAD}{body}"));
        let mut link = Link { texts: texts.iter().enumerate().map(source).collect(), image: Vec::new() };
        link.complete()?;
        assert_eq!(link.image.pop(), Some(0));
        Ok(String::from_utf8(link.image).expect("a text"))
    }

    #[test]
    fn one_text_stays_as_it_is_and_definitions_of_others_are_found() {
        let one = ".visible .entry k() { ret; }\n";
        assert_eq!(linked(&[one]), Ok(format!("{HEAD}{one}")));
        let uses = ".extern .func f();\n.visible .entry k() { call.uni f, (); ret; }\n";
        let text = linked(&[uses, ".visible .func f() { ret; }\n"]).expect("it links");
        assert_eq!(text.matches(".version").count(), 1, "{text}");
        assert!(text.contains("call.uni f") && text.contains(".visible .func f() { ret; }"), "{text}");
    }

    #[test]
    fn nothing_and_two_definitions_of_a_name_are_refused() {
        assert_eq!(linked(&[]), Err(INVALID_PTX));
        let one = ".visible .func f() { ret; }\n";
        assert_eq!(linked(&[one, one]), Err(INVALID_PTX));
    }
}
