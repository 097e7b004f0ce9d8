//! What distinguishes the cases of an experiment.

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Axis and value of a case as written in the file. A JSON object that keeps its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(pub Vec<(String, String)>);

impl Labels {
    /// The value on the axis `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    /// Whether all of `only` are among them.
    pub fn contain(&self, only: &[(String, String)]) -> bool {
        only.iter().all(|(key, value)| self.get(key) == Some(value))
    }
}

impl std::fmt::Display for Labels {
    /// The values, which speak for themselves most of the time; bare numbers, truths and maps get their axis.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return f.write_str("all");
        }
        for (i, (key, value)) in self.0.iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            let is_number = value.starts_with(|c: char| c.is_ascii_digit());
            if value.contains(": ") && !value.starts_with('[') {
                // Commas stand between labels.
                write!(f, "{comma}{key} {}", value.replace(": ", " ").replace(", ", " "))?;
            } else if is_number || matches!(value.as_str(), "true" | "false") {
                write!(f, "{comma}{key} {value}")?;
            } else {
                write!(f, "{comma}{value}")?;
            }
        }
        Ok(())
    }
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Labels;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of labels")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Labels(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_do_not_speak_for_themselves_get_their_axis() {
        let shown = |labels: &[(&str, &str)]| {
            Labels(labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()).to_string()
        };
        assert_eq!(shown(&[]), "all");
        assert_eq!(
            shown(&[("nodes", "3"), ("at", "leader"), ("pre-vote", "false")]),
            "nodes 3, leader, pre-vote false"
        );
        let delay = ("delay", "min: 70ms, mean: 80ms");
        assert_eq!(shown(&[("election-timeout", "measured"), delay]), "measured, delay min 70ms mean 80ms");
        assert_eq!(shown(&[("shards", "[name: car, modules: [car]]")]), "[name: car, modules: [car]]");
    }
}
