//! Masks of images, of which several processes draw some each.

use std::collections::VecDeque;

use anyhow::{Error, Result};
use kindling_data::{DataError, Format, Image, Mask, Part};
use kindling_trainer::Ranks;

use crate::mask_runs::MaskRuns;
use crate::ranks;
use crate::segmenter::Segmenter;

/// Images that each of several processes draws before all learn the masks.
const IMAGES_AT_ONCE: usize = 8;

/// What a mask is drawn of.
pub(super) trait Subject {
    /// What it is called, alike in all processes.
    fn name(&self) -> String;

    fn read(&self) -> Result<Image>;
}

impl Subject for (&dyn Format, &Part) {
    fn name(&self) -> String {
        self.1.name()
    }

    fn read(&self) -> Result<Image> {
        Ok(self.0.read(self.1)?)
    }
}

/// The masks of images, in their order. Several processes all learn every mask, so that they come to the same ends; nobody but the first
/// needs a file system that others see.
pub(super) struct Masks<'m, 'a, I: Iterator> {
    segmenter: &'m mut Segmenter<'a>,
    ranks: &'m Ranks,
    /// Those that are still to be drawn.
    images: I,
    /// What several processes have drawn and nobody has taken: as runs, for these may be many large images.
    drawn: VecDeque<(I::Item, Result<MaskRuns, String>)>,
}

impl<'m, 'a, I: Iterator<Item: Subject>> Masks<'m, 'a, I> {
    pub(super) fn of(images: I, segmenter: &'m mut Segmenter<'a>, ranks: &'m Ranks) -> Self {
        Self { segmenter, ranks, images, drawn: VecDeque::new() }
    }

    /// The next image, with its mask or why it has none; nothing after the last.
    ///
    /// # Errors
    /// If the processes cannot go on.
    pub(super) fn next_mask(&mut self) -> Result<Option<(I::Item, Result<Mask>)>> {
        if self.ranks.is_alone() {
            let Some(image) = self.images.next() else { return Ok(None) };
            let mask = draw(self.segmenter, &image);
            return Ok(Some((image, mask)));
        }
        if self.drawn.is_empty() {
            self.draw_some()?;
        }
        let understood = |told: Result<MaskRuns, String>| told.map(|runs| runs.mask()).map_err(Error::msg);
        Ok(self.drawn.pop_front().map(|(image, told)| (image, understood(told))))
    }

    /// Gives `set` the masks of the next `count` images, which are one case, with their numbers in it. The inner error says why not all are
    /// there; what is left of the case is not drawn then.
    ///
    /// # Errors
    /// As [`Self::next_mask`].
    pub(super) fn next_case(
        &mut self,
        count: usize,
        mut set: impl FnMut(usize, &Mask) -> Result<(), DataError>,
    ) -> Result<Result<()>> {
        for number in 0..count {
            let Some((_, mask)) = self.next_mask()? else { break };
            if let Err(error) = mask.and_then(|mask| Ok(set(number, &mask)?)) {
                self.leave_out(count - number - 1);
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }

    fn leave_out(&mut self, count: usize) {
        for _ in 0..count {
            if self.drawn.pop_front().is_none() {
                self.images.next();
            }
        }
    }

    /// Draws this process's part of the next images, and learns the masks of all of them.
    fn draw_some(&mut self) -> Result<()> {
        let images: Vec<I::Item> = self.images.by_ref().take(IMAGES_AT_ONCE * self.ranks.group().size()).collect();
        if images.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = images.iter().map(Subject::name).collect();
        ranks::check_same("list of images", &names, self.ranks)?;
        let mut mine: Vec<Result<MaskRuns, String>> = Vec::new();
        for image in &images[self.ranks.share(images.len())] {
            let mask = draw(self.segmenter, image);
            mine.push(mask.map(|mask| MaskRuns::of(&mask)).map_err(|error| format!("{error:#}")));
            self.ranks.lives();
        }
        let told = self.ranks.agree("masks", mine)?.into_iter().flatten();
        // The first writes them, and all look for the next images.
        self.ranks.take_time();
        self.drawn.extend(images.into_iter().zip(told));
        Ok(())
    }
}

fn draw(segmenter: &mut Segmenter<'_>, image: &impl Subject) -> Result<Mask> {
    segmenter.of(image.read()?)
}
