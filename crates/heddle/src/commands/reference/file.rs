//! The page of the file: a section for each of its mappings, from the JSON Schema.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::escaped;

/// Writes the page of a schema.
pub fn page(schema: &Value) -> String {
    let mut book = Book { schema, sections: Vec::new(), text: String::new() };
    let _ = writeln!(
        book.text,
        "# The file\n\n{} It is YAML; keys that are not listed here are refused with the line that has them. `heddle schema` prints the same as a JSON Schema (draft 7), by which \
         editors complete and check; `heddle check FILE` finds every mistake.\n",
        escaped(text_of(schema))
    );
    book.section("The whole file", schema);
    // A section may name further ones.
    let mut next = 0;
    while next < book.sections.len() {
        let (name, path) = book.sections[next].clone();
        book.section(&path, &schema["definitions"][&name]);
        next += 1;
    }
    book.text
}

struct Book<'a> {
    schema: &'a Value,
    /// Definitions that have a section, in their order, and the path of keys by which each was found first.
    sections: Vec<(String, String)>,
    text: String,
}

impl Book<'_> {
    fn section(&mut self, path: &str, schema: &Value) {
        let _ = writeln!(self.text, "## {path}\n");
        let root = std::ptr::eq(schema, self.schema);
        if !root && !text_of(schema).is_empty() {
            let _ = writeln!(self.text, "{}\n", escaped(text_of(schema)));
        }
        let prefix = if root { String::new() } else { format!("{path}.") };
        let _ = writeln!(self.text, "| key | value | |\n|---|---|---|");
        for (key, value) in properties(schema) {
            let is_required = variants(schema)
                .any(|one| one["required"].as_array().is_some_and(|keys| keys.contains(&key.as_str().into())));
            let (what, meaning) = (self.value(&format!("{prefix}{key}"), value), escaped(text_of(value)));
            let needed = if is_required && schema.get("oneOf").is_none() { " **Needed.**" } else { "" };
            let _ = writeln!(self.text, "| `{key}` | {what} | {meaning}{needed} |");
        }
        self.text.push('\n');
    }

    /// What may stand behind a key, in words.
    fn value(&mut self, path: &str, schema: &Value) -> String {
        if let Some(name) = schema["$ref"].as_str().and_then(|to| to.strip_prefix("#/definitions/")) {
            return self.definition(path, name);
        }
        let words = |values: &[Value]| {
            values
                .iter()
                .filter(|value| !value.is_null())
                .map(|value| format!("`{}`", plain(value)))
                .collect::<Vec<_>>()
                .join(", ")
        };
        if let Some(values) = schema["enum"].as_array() {
            return words(values);
        }
        if let Some(value) = schema.get("const") {
            return format!("`{}`", plain(value));
        }
        for key in ["anyOf", "oneOf", "allOf"] {
            if let Some(choices) = schema[key].as_array() {
                let mut choices: Vec<_> =
                    choices.iter().map(|choice| self.value(path, choice)).filter(|text| !text.is_empty()).collect();
                choices.dedup();
                return choices.join(" or ");
            }
        }
        if let Some(values) = schema["examples"].as_array() {
            return format!("such as {}", words(values));
        }
        let kinds: Vec<&str> = match &schema["type"] {
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
            kind => kind.as_str().into_iter().collect(),
        };
        match kinds.first() {
            Some(&"boolean") => "`true` or `false`".to_owned(),
            Some(&("integer" | "number")) => range(schema),
            Some(&"array") => {
                let items = &schema["items"];
                let item = items.as_array().map_or(items, |items| &items[0]);
                format!("a list: {}", self.value(&format!("{path} (an entry)"), item))
            }
            Some(&"object") => match schema.get("additionalProperties").filter(|value| value.is_object()) {
                Some(value) => format!("by name: {}", self.value(&format!("{path}.NAME"), value)),
                None => "a mapping".to_owned(),
            },
            _ => schema["format"].as_str().map_or_else(|| "text".to_owned(), |format| format!("an address ({format})")),
        }
    }

    /// A definition with keys has a section of its own; of others it is said here what they are.
    fn definition(&mut self, path: &str, name: &str) -> String {
        let schema = &self.schema["definitions"][name];
        if properties(schema).is_empty() {
            return self.value(path, schema);
        }
        let known = self.sections.iter().find(|(known, _)| known == name).map(|(_, path)| path.clone());
        let title = known.unwrap_or_else(|| {
            self.sections.push((name.to_owned(), path.to_owned()));
            path.to_owned()
        });
        let others: Vec<&Value> = variants(schema)
            .filter(|one| properties_of(one).is_none() && one.get("oneOf").is_none() && one.get("anyOf").is_none())
            .collect();
        let others: Vec<String> = others
            .into_iter()
            .map(|one| self.value(path, one))
            .filter(|text| !["a mapping", "text", ""].contains(&text.as_str()))
            .collect();
        let link = format!("[{title}](#{})", anchor(&title));
        others.into_iter().chain([link]).collect::<Vec<_>>().join(" or ")
    }
}

fn text_of(schema: &Value) -> &str {
    schema["description"].as_str().unwrap_or_default()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The schema itself, and all that it offers as alternatives.
fn variants(schema: &Value) -> impl Iterator<Item = &Value> {
    let below = |key| schema[key].as_array().into_iter().flatten();
    std::iter::once(schema).chain(below("oneOf")).chain(below("anyOf"))
}

fn properties_of(schema: &Value) -> Option<&Map<String, Value>> {
    schema["properties"].as_object()
}

/// Keys of a mapping, whichever alternative has them.
fn properties(schema: &Value) -> Vec<(&String, &Value)> {
    variants(schema).filter_map(properties_of).flatten().collect()
}

/// `1 to 64`.
fn range(schema: &Value) -> String {
    match (schema.get("minimum"), schema.get("maximum")) {
        (Some(least), Some(most)) => format!("{least} to {most}"),
        (Some(least), None) => format!("{least} or more"),
        (None, Some(most)) => format!("{most} or less"),
        (None, None) => "a number".to_owned(),
    }
}

/// What mdBook and others call a heading: its letters, digits, `-` and `_`, in lower case.
fn anchor(title: &str) -> String {
    let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_key_of_the_schema_is_on_the_page() {
        let schema = fabric::schema();
        let page = page(&schema);
        let definitions = schema["definitions"].as_object().expect("definitions").values();
        for key in definitions.chain([&schema]).flat_map(properties).map(|(key, _)| key) {
            assert!(page.contains(&format!("| `{key}` |")), "{key}");
        }
        let row = page.lines().find(|line| line.starts_with("| `spread` |")).expect("a row");
        assert!(row.contains("`single`, `ecmp`, `packet-scatter`"), "{row}");
    }

    #[test]
    fn links_lead_to_headings_that_are_there_once() {
        let page = page(&fabric::schema());
        let headings: Vec<String> = page.lines().filter_map(|line| line.strip_prefix("## ")).map(anchor).collect();
        assert_eq!(headings.iter().collect::<BTreeSet<_>>().len(), headings.len(), "{headings:?}");
        let links: Vec<&str> = page.split("](#").skip(1).filter_map(|rest| rest.split(')').next()).collect();
        assert!(links.len() > 20);
        for link in links {
            assert!(headings.iter().any(|heading| heading == link), "{link}");
        }
    }
}
