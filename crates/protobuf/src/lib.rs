//! The wire format of protocol buffers (<https://protobuf.dev/programming-guides/encoding/>), as far as Kindling needs it: there are
//! no descriptions of messages and no generated code. Who writes a message names its fields by their numbers, and who reads one
//! picks the fields that it knows.
//!
//! ```
//! use kindling_protobuf::{Output, Value, encode, fields};
//!
//! let point = |out: &mut Output| {
//!     out.int(1, 150);
//!     out.bytes(2, "here");
//! };
//! let bytes = encode(&point);
//! assert_eq!(bytes, b"\x08\x96\x01\x12\x04here");
//! let read: Vec<_> = fields(&bytes).collect();
//! assert_eq!(read, [(1, Value::Varint(150)), (2, Value::Bytes(b"here"))]);
//! ```

mod input;
mod output;

pub use input::{Fields, Value, fields};
pub use output::{Message, Output, bytes, encode, length};
