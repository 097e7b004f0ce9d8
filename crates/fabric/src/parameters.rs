//! One row a parameter: what experiments can vary is declared together with the key of the file that it varies.
//!
//! [`parameters!`] makes of one list the sections of the file (through [`section!`](crate::read::section): reader and schema), the axes of `vary`
//! (reader and schema as well), the public enum of what their values set, and how each of these changes what it is set in. A row that lacks one of
//! them does not compile, and neither does a parameter that nobody uses.

use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::error::Problems;
use crate::experiment::Context;
use crate::read::Written;
use crate::source::{At, Place};

/// What the values of an axis are to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Ways to do the same: reports compare each of them with the first.
    Policy,
    /// Circumstances under which that is done.
    Condition,
}

/// The values of an axis as written, and what each of them sets.
pub(crate) struct Values<S> {
    pub place: Place,
    pub settings: Vec<(String, S)>,
}

/// A text whose value is known without looking at the rest of the file.
pub(crate) trait Plain {
    type Value;
    fn plain(&self) -> Self::Value;
}

/// The value of a text that is true of every network.
#[allow(clippy::unnecessary_wraps, reason = "others can fail")]
pub(crate) fn plain<T: Plain>(text: &Written<T>, _: &Context<'_>, _: &mut Problems<'_>) -> Option<T::Value> {
    Some(text.value.plain())
}

/// What the values of an axis set; `None`: one of them can't be used, which has been noted.
pub(crate) fn resolved<T, S>(
    values: &At<Vec<Written<T>>>,
    set: impl FnMut(&Written<T>) -> Option<S>,
) -> Option<Values<S>> {
    if !values.sound {
        return None;
    }
    let settings: Option<Vec<S>> = values.value.iter().map(set).collect();
    let texts = values.value.iter().map(|value| value.text.clone());
    Some(Values { place: values.place, settings: texts.zip(settings?).collect() })
}

/// The schema of an axis.
pub(crate) fn axis_schema<T: JsonSchema>(description: &str, generator: &mut SchemaGenerator) -> Schema {
    let mut schema = generator.subschema_for::<Vec<T>>();
    schema.insert("description".to_owned(), description.trim().into());
    schema
}

/// Sections of the file, and what experiments can vary in them:
///
/// ```text
/// parameters! {
///     /// What a case sets there.
///     #[derive(Eq)]
///     TheSettings, TheAxes of What;
///
///     /// The section.
///     ItsSection {
///         /// The key, and its default.
///         "key" => field: Option<Text>, vary {
///             /// The axis.
///             "axis": Text => Kind Variant(Value), from the text (and the network) to the value, from the value into a `What`
///         };
///         /// A key that nothing varies.
///         "other" => other: Option<Text>;
///     }
/// }
/// ```
macro_rules! parameters {
    (
        $(#[$attribute:meta])*
        $setting:ident, $axis:ident of $target:ty;
        $(
            $(#[doc = $doc:literal])*
            $section:ident {
                $(
                    $(#[doc = $field_doc:literal])*
                    $key:literal => $field:ident: $type:ty $(, vary {
                        #[doc = $axis_doc:literal]
                        $axis_key:literal: $text:ty =>
                            $kind:ident $(#[$variant_attribute:meta])* $variant:ident($value:ty),
                        $resolve:expr,
                        $apply:expr $(,)?
                    })?;
                )*
            }
        )+
    ) => {
        $(
            crate::read::section! {
                $(#[doc = $doc])*
                $section {
                    $($(#[doc = $field_doc])* $key => $field: $type,)*
                }
            }
        )+

        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum $setting {
            $($($(#[doc = $axis_doc] $(#[$variant_attribute])* $variant($value),)?)*)+
        }

        impl $setting {
            /// Changes what it is set in.
            pub(crate) fn apply(&self, target: &mut $target) {
                match self {
                    $($($(Self::$variant(value) => {
                        let apply: fn(&mut $target, &$value) = $apply;
                        apply(target, value);
                    })?)*)+
                }
            }

            pub(crate) const fn kind(&self) -> crate::parameters::Kind {
                match self {
                    $($($(Self::$variant(_) => crate::parameters::Kind::$kind,)?)*)+
                }
            }
        }

        /// The values of an axis as written.
        #[derive(Clone, Debug)]
        pub(crate) enum $axis {
            $($($($variant(crate::source::At<Vec<crate::read::Written<$text>>>),)?)*)+
        }

        impl $axis {
            pub const KEYS: &[&str] = &[$($($($axis_key,)?)*)+];

            /// Reads the axis `key`; `None` if there is no such axis here, `Some(None)` if its values can't be read.
            pub fn read(key: &str, node: &Node, problems: &mut Problems<'_>) -> Option<Option<Self>> {
                match key {
                    $($($($axis_key => Some(Read::read(node, problems).map(Self::$variant)),)?)*)+
                    _ => None,
                }
            }

            pub const fn key(&self) -> &'static str {
                match self {
                    $($($(Self::$variant(_) => $axis_key,)?)*)+
                }
            }

            /// What the values set in this network.
            pub fn resolve(
                &self,
                context: &crate::experiment::Context<'_>,
                problems: &mut Problems<'_>,
            ) -> Option<crate::parameters::Values<$setting>> {
                match self {
                    $($($(Self::$variant(values) => {
                        type Resolve = fn(
                            &crate::read::Written<$text>,
                            &crate::experiment::Context<'_>,
                            &mut Problems<'_>,
                        ) -> Option<$value>;
                        let resolve: Resolve = $resolve;
                        crate::parameters::resolved(values, |text| {
                            resolve(text, context, problems).map($setting::$variant)
                        })
                    })?)*)+
                }
            }

            /// The schema of each axis, by its key.
            pub fn schemas(generator: &mut SchemaGenerator) -> Vec<(&'static str, schemars::Schema)> {
                vec![$($($(
                    ($axis_key, crate::parameters::axis_schema::<$text>($axis_doc, generator)),
                )?)*)+]
            }
        }
    };
}
pub(crate) use parameters;
