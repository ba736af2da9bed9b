//! The device.
