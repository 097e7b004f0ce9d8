//! What the parts of the page share: how a table is written, and how drivers are called and coloured.

use fabric::DriverKind;

/// A table that scrolls where it is wider than the page.
pub(super) fn table(class: &str, head: &str, rows: &str) -> String {
    format!(
        "<div class=\"scroll\"><table class=\"{class}\">\n<thead>{head}</thead>\n<tbody>\n{rows}</tbody>\n</table></div>"
    )
}

/// Which colour is which driver; nothing where there is one driver only.
pub(super) fn driver_key(drivers: &[DriverKind]) -> String {
    if drivers.len() < 2 {
        return String::new();
    }
    let entry = |&driver: &DriverKind| {
        format!("<span><i class=\"{}\"></i>{}</span>", driver_class(driver), driver_word(driver))
    };
    format!("<div class=\"key\">{}</div>", drivers.iter().map(entry).collect::<String>())
}

/// The CSS class of what a driver measured.
pub(super) fn driver_class(driver: DriverKind) -> &'static str {
    driver.word()
}

/// What the page calls a driver.
pub(super) const fn driver_word(driver: DriverKind) -> &'static str {
    match driver {
        DriverKind::Live => "live",
        DriverKind::Sim => "simulated",
    }
}
