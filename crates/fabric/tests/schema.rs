//! The schema of files, as others' editors apply it.

use std::sync::LazyLock;

use boon::{Compiler, Draft, SchemaIndex, Schemas};
use serde_json::Value;

/// To compile it takes longer than to apply it.
static SCHEMA: LazyLock<(Schemas, SchemaIndex)> = LazyLock::new(|| {
    const PLACE: &str = "fabric.schema.json";
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.set_default_draft(Draft::V7);
    compiler.add_resource(PLACE, fabric::schema()).expect("a place for the schema");
    let index = compiler.compile(PLACE, &mut schemas).unwrap_or_else(|error| panic!("{error:#}"));
    (schemas, index)
});

/// What the schema finds wrong with a file: a line for each thing, most general first.
pub fn violations(text: &str) -> Vec<String> {
    let value: Value = serde_saphyr::from_str(text).expect("YAML");
    let (schemas, index) = &*SCHEMA;
    let found = schemas.validate(&value, *index).err();
    found.map(|error| error.to_string().lines().map(str::to_owned).collect()).unwrap_or_default()
}
