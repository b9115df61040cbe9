//! An archive in an S3-compatible store (moto), with a small proxy in front of it that makes faults.
//!
//! - [`moto`]: the store, installed by pip into a folder of the build
//! - [`proxy`]: what goes wrong between the client and the store
//! - [`cases`]: what must hold

#![cfg(feature = "object-store")]

#[path = "../repository/bed.rs"]
#[allow(dead_code)]
mod bed;
mod cases;
mod moto;
mod proxy;
