//! Pictures that trackers show.

/// Width and height of a PNG in pixels; none of anything else.
pub(crate) fn size(png: &[u8]) -> Option<(u32, u32)> {
    let reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().ok()?;
    Some(reader.info().size())
}
