//! placeholder
/// x
#[derive(Debug)]
pub struct Calendar;
