//! The file's JSON Schema, for editors.

use schemars::transform::{RecursiveTransform, Transform};
use schemars::{Schema, generate::SchemaSettings};
use serde_json::Value;

use crate::document::File;

/// A JSON Schema (draft 7) of the fabric file, made from the types that read it.
pub fn schema() -> Value {
    let generator = SchemaSettings::draft07().into_generator();
    let mut schema = generator.into_root_schema_for::<File>();
    RecursiveTransform(without_null).transform(&mut schema);
    schema.insert("title".to_owned(), "Heddle fabric file".into());
    schema.into()
}

/// schemars lets an optional key be null; here a key without a value is an error.
fn without_null(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type").is_none_or(|name| name != "null"));
        // In draft 7 whatever stands beside a `$ref` is ignored, so a description needs the list of one to stay.
    }
}
