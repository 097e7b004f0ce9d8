//! The schema of files, as others' editors apply it.

use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::Value;

/// To make it takes longer than to apply it.
static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| jsonschema::draft7::new(&fabric::schema()).expect("a schema"));

/// What the schema finds wrong with a file.
pub fn violations(text: &str) -> Vec<String> {
    let value: Value = serde_saphyr::from_str(text).expect("YAML");
    VALIDATOR.iter_errors(&value).map(|error| error.to_string()).collect()
}
