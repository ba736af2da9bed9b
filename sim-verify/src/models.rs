//! The models that come with warpsim.

use sim_frontend::diagnostic::Diagnostic;

use crate::cat::Model;

/// Names and texts.
pub const MODELS: [(&str, &str); 3] = [
    ("ptx-6.0", include_str!("../../data/models/ptx-6.0.cat")),
    ("ptx-7.5", include_str!("../../data/models/ptx-7.5.cat")),
    ("rc11-scoped", include_str!("../../data/models/rc11-scoped.cat")),
];

/// A model by its name; none if there is none of that name.
///
/// # Errors
/// Its text has an error.
pub fn named(name: &str) -> Option<Result<Model, Diagnostic>> {
    let (name, text) = MODELS.iter().find(|(known, _)| *known == name)?;
    Some(Model::parse(&format!("{name}.cat"), text))
}

#[cfg(test)]
mod tests {
    #[test]
    fn shipped_models_parse() {
        for (name, _) in super::MODELS {
            let model = super::named(name).expect("it is there");
            assert!(
                model.unwrap_or_else(|error| panic!("{}", error.render())).axioms().count() > 2,
                "{name}"
            );
        }
    }
}
