//! To come.
fn main() { println!("{:?}", burn::tensor::Device::default()); }
