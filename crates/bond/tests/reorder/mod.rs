//! The resequencer from outside: rule by rule with exact times, against a model, under hostile input, and what it is worth.

mod links;
mod properties;
mod sequence;
mod tcp;
mod value;
