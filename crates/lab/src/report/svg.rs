//! A small writer of SVG whose colours are CSS classes of the page, so that one drawing suits light and dark.

use std::fmt::{Display, Write as _};

/// Replaces what HTML and SVG give a meaning to. Whatever comes from a file goes through here.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // Characters that XML cannot hold.
            c if c.is_control() && c != '\n' && c != '\t' => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// Characters of a label that fit the width of a drawing.
const LABEL_CHARS: usize = 66;

/// A drawing under way. Coordinates are in units of its view box, y downwards.
pub(crate) struct Svg {
    body: String,
    width: f64,
    height: f64,
}

/// Where a text is held.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    /// An empty drawing.
    pub fn new(width: f64, height: f64) -> Self {
        Self { body: String::new(), width, height }
    }

    /// A rectangle; `tip` is what a pointer shows over it.
    pub fn rect(&mut self, class: &str, [x, y, width, height]: [f64; 4], tip: &str) -> &mut Self {
        let (x, y, width, height) = (Short(x), Short(y), Short(width.max(0.0)), Short(height.max(0.0)));
        self.element(&format!(r#"rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}""#), tip)
    }

    /// A rectangle whose colour says how full something is, 0 to 1.
    pub fn heat_rect(&mut self, share: f64, [x, y, width, height]: [f64; 4], tip: &str) -> &mut Self {
        let (x, y, width, height) = (Short(x), Short(y), Short(width), Short(height));
        let heat = Heat(share);
        self.element(&format!(r#"rect class="heat" {heat} x="{x}" y="{y}" width="{width}" height="{height}""#), tip)
    }

    /// Rectangles beside each other, in which `runs` of so many have the same colour, which says how full they are, 0 to 1. Each run is one line with gaps. The first
    /// rectangle has this place and size, and `gap` is between two of them.
    pub fn heat_row(&mut self, [x, y, width, height]: [f64; 4], gap: f64, runs: &[(f64, usize)]) -> &mut Self {
        // Dashes add up: they need more decimals than places.
        let _ = write!(self.body, r#"<g class="heats" stroke-width="{}" "#, Short(height));
        let _ = write!(self.body, r#"stroke-dasharray="{width:.3} {gap:.3}">"#);
        let mut x = x;
        for (share, count) in runs {
            let step = (width + gap) * *count as f64;
            let (from, middle, length) = (Short(x), Short(y + height / 2.0), Short(step - gap));
            self.element(&format!(r#"path {} d="M{from} {middle}h{length}""#, Heat(*share)), "");
            x += step;
        }
        self.body.push_str("</g>");
        self
    }

    /// What `draw` draws, which other drawings of the page can have as well by its name.
    pub fn named(&mut self, name: &str, draw: impl FnOnce(&mut Self)) -> &mut Self {
        let _ = write!(self.body, r#"<g id="{}">"#, escape(name));
        draw(self);
        self.body.push_str("</g>");
        self
    }

    /// What another drawing of the page has by this name.
    pub fn reuse(&mut self, name: &str) -> &mut Self {
        self.element(&format!(r##"use href="#{}""##, escape(name)), "")
    }

    /// Straight lines, from end to end each, as one shape.
    pub fn lines(&mut self, class: &str, lines: &[[(f64, f64); 2]]) -> &mut Self {
        let mut outline = String::new();
        for [from, to] in lines {
            let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(Short);
            let _ = write!(outline, "M{x1} {y1}L{x2} {y2}");
        }
        self.element(&format!(r#"path class="{class}" d="{outline}""#), "")
    }

    /// A straight line.
    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) -> &mut Self {
        self.element(&format!(r#"line class="{class}" {}"#, LineEnds(from, to)), "")
    }

    /// A straight line; `tip` is what a pointer shows over it.
    pub fn named_line(&mut self, class: &str, from: (f64, f64), to: (f64, f64), tip: &str) -> &mut Self {
        self.element(&format!(r#"line class="{class}" {}"#, LineEnds(from, to)), tip)
    }

    /// An ellipse around a point, turned by so many degrees.
    pub fn ring(&mut self, class: &str, (x, y): (f64, f64), radii: (f64, f64), degrees: f64, tip: &str) -> &mut Self {
        let [x, y, across, along, degrees] = [x, y, radii.0, radii.1, degrees].map(Short);
        let place = format!(r#"cx="{x}" cy="{y}" rx="{across}" ry="{along}" transform="rotate({degrees} {x} {y})""#);
        self.element(&format!(r#"ellipse class="{class}" {place}"#), tip)
    }

    /// A line through points.
    pub fn polyline(&mut self, class: &str, points: impl Iterator<Item = (f64, f64)>, tip: &str) -> &mut Self {
        let mut text = String::new();
        for (x, y) in points {
            let space = if text.is_empty() { "" } else { " " };
            let _ = write!(text, "{space}{},{}", Short(x), Short(y));
        }
        self.element(&format!(r#"polyline class="{class}" points="{text}""#), tip)
    }

    /// A filled shape.
    pub fn polygon(&mut self, class: &str, corners: &[(f64, f64)], tip: &str) -> &mut Self {
        let corner = |(x, y): &(f64, f64)| format!("{},{}", Short(*x), Short(*y));
        let corners = corners.iter().map(corner).collect::<Vec<_>>().join(" ");
        self.element(&format!(r#"polygon class="{class}" points="{corners}""#), tip)
    }

    /// A line whose colour and width say how full something is, 0 to 1; an empty one is `thin` wide.
    pub fn heat_line(&mut self, (share, thin): (f64, f64), from: (f64, f64), to: (f64, f64), tip: &str) -> &mut Self {
        let width = Short(thin * (1.0 + 2.6 * share.clamp(0.0, 1.0))).to_string();
        // A line is that wide anyway.
        let width = if width == "1" { String::new() } else { format!(r#"stroke-width="{width}" "#) };
        self.element(&format!(r#"line class="wire" {} {width}{}"#, Heat(share), LineEnds(from, to)), tip)
    }

    /// A circle.
    pub fn circle(&mut self, class: &str, (x, y): (f64, f64), radius: f64, tip: &str) -> &mut Self {
        self.element(
            &format!(r#"circle class="{class}" cx="{}" cy="{}" r="{}""#, Short(x), Short(y), Short(radius)),
            tip,
        )
    }

    /// A text on one line; `(x, y)` lies on its baseline.
    pub fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) -> &mut Self {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y, text) = (Short(x), Short(y), escape(text));
        let _ = write!(self.body, r#"<text class="{class}" x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>"#);
        self
    }

    /// What a part of the drawing is about, from its left edge on. One that is too long is shortened in its middle, and shown whole by a pointer.
    pub fn label(&mut self, (x, y): (f64, f64), text: &str) -> &mut Self {
        let chars = text.chars().count();
        if chars <= LABEL_CHARS {
            return self.text("label", (x, y), Anchor::Start, text);
        }
        let half = LABEL_CHARS / 2;
        let shown: String = text.chars().take(half).chain(['…']).chain(text.chars().skip(chars + 1 - half)).collect();
        let (x, y, shown, whole) = (Short(x), Short(y), escape(&shown), escape(text));
        let _ = write!(self.body, r#"<text class="label" x="{x}" y="{y}"><title>{whole}</title>{shown}</text>"#);
        self
    }

    /// The finished drawing; `label` says what it shows to those who cannot see it.
    pub fn finish(&self, label: &str) -> String {
        format!(
            r#"<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>"#,
            Short(self.width),
            Short(self.height),
            escape(label),
            self.body
        )
    }

    /// The finished drawing as a file of its own, which looks as `style` says.
    pub fn standalone(&self, label: &str, style: &str) -> String {
        let (width, height, label) = (Short(self.width), Short(self.height), escape(label));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\">\n\
             <title>{label}</title>\n<style>{style}</style>\n<rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n{}\n</svg>\n",
            self.body
        )
    }

    fn element(&mut self, start: &str, tip: &str) -> &mut Self {
        if tip.is_empty() {
            let _ = write!(self.body, "<{start}/>");
        } else {
            let name = start.split(' ').next().unwrap_or_default();
            let _ = write!(self.body, "<{start}><title>{}</title></{name}>", escape(tip));
        }
        self
    }
}

/// A coordinate with one decimal at most: a tenth of a pixel is enough, and reports stay small.
struct Short(f64);

impl Display for Short {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A drawing with a broken number is worth more than none.
        let value = if self.0.is_finite() { (self.0 * 10.0).round() / 10.0 } else { 0.0 };
        write!(f, "{}", if value == 0.0 { 0.0 } else { value })
    }
}

struct LineEnds((f64, f64), (f64, f64));

impl Display for LineEnds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [x1, y1, x2, y2] = [self.0.0, self.0.1, self.1.0, self.1.1].map(Short);
        write!(f, r#"x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}""#)
    }
}

/// The share of a colour ramp as a CSS variable: the page mixes the colour, for light and dark.
struct Heat(f64);

impl Display for Heat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, r#"style="--u:{}%""#, (self.0.clamp(0.0, 1.0) * 100.0).round())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_break_out() {
        let mut svg = Svg::new(10.0, 10.0);
        svg.text("t", (0.0, 1.0), Anchor::Start, "</text><script>\u{1}").rect("r", [0.0; 4], "\"'&");
        let drawing = svg.finish("\"><b>");
        assert!(!drawing.contains("<script>") && !drawing.contains("<b>") && !drawing.contains('\u{1}'), "{drawing}");
        assert!(drawing.contains("&quot;&#39;&amp;"));
    }

    #[test]
    fn long_labels_keep_their_ends() {
        let drawn = |text: &str| Svg::new(1.0, 1.0).label((0.0, 0.0), text).finish("");
        assert!(!drawn(&"a".repeat(LABEL_CHARS)).contains('…'));
        let long = format!("begin {} end", "ä".repeat(80));
        let drawing = drawn(&long);
        let shown = drawing.split("</title>").nth(1).and_then(|rest| rest.strip_suffix("</text></svg>")).unwrap();
        assert_eq!(shown.chars().count(), LABEL_CHARS);
        assert!(shown.starts_with("begin ä") && shown.ends_with("ä end") && drawing.contains(&long), "{drawing}");
    }

    #[test]
    fn what_is_alike_is_written_once() {
        let mut svg = Svg::new(10.0, 10.0);
        svg.named("nodes", |svg| {
            svg.circle("host", (1.0, 2.0), 3.0, "h1");
        });
        let other = Svg::new(10.0, 10.0).reuse("nodes").finish("");
        assert!(svg.finish("").contains(r#"<g id="nodes"><circle class="host" "#), "{}", svg.finish(""));
        assert!(other.contains(r##"<use href="#nodes"/>"##), "{other}");
        let drawing = Svg::new(10.0, 10.0).heat_row([0.0, 1.0, 2.0, 4.0], 0.5, &[(0.5, 2), (0.0, 1)]).finish("");
        let row = "<g class=\"heats\" stroke-width=\"4\" stroke-dasharray=\"2.000 0.500\"><path style=\"--u:50%\" d=\"M0 3h4.5\"/><path style=\"--u:0%\" d=\"M5 3h2\"/></g>";
        assert!(drawing.contains(row), "{drawing}");
        let drawing = Svg::new(10.0, 10.0).lines("whisker", &[[(0.0, 1.0), (2.0, 1.0)]; 2]).finish("");
        assert!(drawing.contains("<path class=\"whisker\" d=\"M0 1L2 1M0 1L2 1\"/>"), "{drawing}");
    }

    #[test]
    fn numbers_are_short_and_never_broken() {
        let text = [1.0, 2.345_6, -0.001, f64::NAN, f64::INFINITY].map(|x| Short(x).to_string());
        assert_eq!(text, ["1", "2.3", "0", "0", "0"]);
        assert_eq!(Heat(7.0).to_string(), r#"style="--u:100%""#);
    }
}
