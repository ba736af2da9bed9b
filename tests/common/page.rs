//! Pages of `warpsim report` in a browser, and what a reader finds on them.

use std::process::Command;

use serde_json::Value;

use super::{Folder, parse, text};

/// A browser, where there is one.
pub fn browser() -> Option<String> {
    let runs =
        |name: &str| Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success());
    match std::env::var("WARPSIM_BROWSER") {
        Ok(name) => {
            assert!(runs(&name), "WARPSIM_BROWSER={name} does not run");
            Some(name)
        }
        Err(_) => ["chromium", "chromium-browser", "google-chrome"]
            .into_iter()
            .find(|name| runs(name))
            .map(str::to_string)
            .or_else(|| {
                eprintln!("there is no browser: the page was not looked at");
                None
            }),
    }
}

/// A screen.
#[derive(Clone, Copy)]
pub struct Screen {
    /// Width and height of its window.
    pub size: &'static str,
    /// It is dark.
    pub dark: bool,
}

/// A wide one.
pub const DESK: Screen = Screen { size: "1280,900", dark: false };
/// As narrow as a browser's window can be.
pub const PHONE: Screen = Screen { size: "500,900", dark: true };

/// What a reader finds on a page.
pub fn look(browser: &str, folder: &Folder, page: &str, screen: Screen) -> Value {
    let html = std::fs::read_to_string(page).expect("the page");
    let catch = format!("<head><script>{}</script>", include_str!("../browser/catch.js"));
    let probe = format!(
        "<script>addEventListener('load', () => setTimeout(() => {{ {} }}, 300));</script></body>",
        include_str!("../browser/probe.js")
    );
    assert_eq!((html.matches("<head>").count(), html.matches("</body>").count()), (1, 1));
    let probed = folder.write("probed.html", &html.replace("<head>", &catch).replace("</body>", &probe));
    let scheme = format!("--blink-settings=preferredColorScheme={}", u8::from(!screen.dark));
    let out = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--virtual-time-budget=9000",
            "--dump-dom",
            &scheme,
        ])
        .arg(format!("--window-size={}", screen.size))
        .arg(format!("--user-data-dir={}", folder.join("profile")))
        .arg(format!("file://{probed}"))
        .output()
        .expect("the browser starts");
    let dom = text(&out.stdout);
    let found = dom.split_once("<pre id=\"probe\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let (found, _) = found.unwrap_or_else(|| panic!("no probe: {} {dom}", text(&out.stderr)));
    let found =
        found.replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", "\u{a0}").replace("&amp;", "&");
    parse(found.as_bytes())
}

/// A list of what was found.
pub fn list<'a>(value: &'a Value, key: &str) -> &'a Vec<Value> {
    value[key].as_array().unwrap_or_else(|| panic!("no list {key} in {value}"))
}

/// What holds of every page.
pub fn check(found: &Value, screen: Screen) {
    assert_eq!(found["ready"], "true", "the script came to its end");
    assert_eq!(found["wrong"], serde_json::json!([]));
    assert_eq!(found["dark"], screen.dark);
    assert_eq!(found["outside"], serde_json::json!([]), "wider than the screen");
    assert!(found["contrast"].as_f64().expect("a number") >= 4.5, "contrast {}", found["contrast"]);
    assert_eq!(found["unreachable"], serde_json::json!([]), "by keyboard");
    assert_eq!(found["folded"], 0, "on paper");
    assert!(!list(found, "contents").is_empty());
    for link in list(found, "contents") {
        assert_eq!(link[1], true, "{link}");
    }
    for section in list(found, "sections") {
        assert!(section["height"].as_f64().expect("a number") > 20.0, "{} is empty", section["id"]);
        for picture in list(section, "pictures") {
            assert!(picture["marks"].as_u64() > Some(0), "{picture}");
            assert_eq!(picture["broken"], 0, "{picture}");
            assert_eq!(picture["faults"], serde_json::json!([]), "{picture}");
        }
    }
    for choice in list(found, "choices") {
        assert_eq!(choice["broken"], 0, "{} {}", choice["control"], choice["value"]);
        assert_eq!(choice["faults"], serde_json::json!([]), "{} {}", choice["control"], choice["value"]);
        assert_eq!(choice["outside"], serde_json::json!([]), "{} {}", choice["control"], choice["value"]);
    }
}

/// Every plot can be saved as it is drawn, with the page's colours, and as numbers.
pub fn saved(found: &Value) {
    let figures = list(found, "figures").len();
    assert!(figures > 0);
    let of = |ending: &str| {
        let all = list(found, "saved").iter();
        all.filter(|file| file["name"].as_str().is_some_and(|name| name.ends_with(ending)))
            .collect::<Vec<_>>()
    };
    for (ending, start) in [(".svg", "<svg "), (".png", "PNG"), (".csv", "")] {
        let files = of(ending);
        assert_eq!(files.len(), figures, "{ending}");
        for file in files {
            assert!(file["start"].as_str().is_some_and(|own| own.starts_with(start)), "{file}");
            assert!(file["size"].as_u64() > Some(20), "{file}");
            assert_eq!(file["variables"], false, "it names colours of the page: {file}");
        }
    }
}

/// The rows of a saved file of numbers.
pub fn numbers_of(found: &Value, file: &str) -> Vec<Vec<String>> {
    let own = list(found, "saved").iter().find(|own| own["name"] == file);
    let text = own.unwrap_or_else(|| panic!("no file {file}"))["text"].as_str().expect("numbers");
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    reader.records().map(|row| row.expect("a row").iter().map(str::to_string).collect()).collect()
}

/// A table of a section or choice by the start of its caption.
pub fn table<'a>(within: &'a Value, caption: &str) -> &'a Value {
    let all = list(within, "tables");
    all.iter()
        .find(|table| table["caption"].as_str().is_some_and(|own| own.starts_with(caption)))
        .unwrap_or_else(|| panic!("no table `{caption}`"))
}

/// A section by its id.
pub fn section<'a>(found: &'a Value, id: &str) -> &'a Value {
    list(found, "sections").iter().find(|s| s["id"] == id).unwrap_or_else(|| panic!("no section {id}"))
}

/// The number that a table shows, as it was before it was rounded.
pub fn number(table: &Value, row: &str, column: &str) -> f64 {
    let columns = list(table, "columns");
    let at =
        columns.iter().position(|c| c == column).unwrap_or_else(|| panic!("no column {column}: {columns:?}"));
    let found = list(table, "rows").iter().find(|cells| cells[0]["text"] == row);
    let cell = &found.unwrap_or_else(|| panic!("no row {row}"))[at];
    let value: f64 =
        cell["value"].as_str().unwrap_or_else(|| panic!("{row} {column}: {cell}")).parse().expect("a number");
    // What is read is the same, to its last digit or to the fourth.
    let shown: String = cell["text"].as_str().unwrap_or("").chars().filter(|c| *c != '\u{202f}').collect();
    let shown: f64 =
        shown.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{cell}"));
    let near = if value.fract() == 0.0 { 0.0 } else { 6e-4 * value.abs() };
    assert!((shown - value).abs() <= near, "{row} {column}: {cell}");
    value
}
