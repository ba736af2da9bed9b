//! The page: a frame, a style, a script, and the results as JSON in its midst.

use serde::Serialize;

use super::input::Results;
use crate::metrics::{METRICS, Metric};

const FRAME: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
/// The parts of the script, which share one scope, in their order.
const SCRIPT: &[&str] = &[
    include_str!("script/elements.js"),
    include_str!("script/exports.js"),
    include_str!("script/plots.js"),
    include_str!("script/answer.js"),
    include_str!("script/samples.js"),
    include_str!("script/roofline.js"),
    include_str!("script/tensor.js"),
    include_str!("script/memory.js"),
    include_str!("script/listing.js"),
    include_str!("script/runs.js"),
    include_str!("script/sweep.js"),
    include_str!("script/study.js"),
    include_str!("script/last.js"),
];

#[derive(Serialize)]
struct Data {
    metrics: &'static [Metric],
    #[serde(flatten)]
    results: Results,
}

/// The page as HTML.
///
/// # Errors
/// Results that are no JSON.
pub fn render(title: &str, results: Results) -> serde_json::Result<String> {
    // No text among the data can end the element that holds it.
    let data = serde_json::to_string(&Data { metrics: METRICS, results })?.replace('<', "\\u003c");
    let parts = [
        ("title", escape(title)),
        ("style", STYLE.to_string()),
        ("version", escape(crate::VERSION)),
        ("data", data),
        ("script", format!("'use strict';\n(() => {{\n{}}})();\n", SCRIPT.concat())),
    ];
    Ok(fill(FRAME, &parts))
}

/// A frame with its `{{names}}` filled in; what is put in is not looked at again.
fn fill(frame: &str, parts: &[(&str, String)]) -> String {
    let mut out = String::new();
    let mut rest = frame;
    while let Some((before, behind)) = rest.split_once("{{") {
        let (name, after) = behind.split_once("}}").unwrap_or((behind, ""));
        out.push_str(before);
        out.push_str(parts.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text));
        rest = after;
    }
    out + rest
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_stays_what_it_is() {
        let parts = [("a", "{{b}}".to_string()), ("b", "2".to_string())];
        assert_eq!(fill("x{{a}}y{{b}}z{{a}}", &parts), "x{{b}}y2z{{b}}");
        assert_eq!(escape("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
    }

    #[test]
    fn a_name_cannot_break_out_of_the_data() {
        let mut results = Results::default();
        let evil = "</script><script>alert(1)</script>";
        let report = serde_json::json!({"cycles": 1, "workload": evil});
        results.add_run(evil.to_string(), report);
        let page = render(evil, results).expect("a page");
        assert_eq!(page.matches("<script").count(), 2, "the data and the script");
        assert_eq!(page.matches("</script").count(), 2);
        assert!(!page.contains("{{"), "every part of the frame is filled");
        // Nothing is fetched: the one address is a namespace.
        assert_eq!(page.matches("http").count() - page.matches("http-equiv").count(), 1);
    }
}
