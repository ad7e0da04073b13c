#![doc = include_str!("../README.md")]

pub mod chaos;
pub mod flows;
pub mod stores;
