#!/usr/bin/env python3
"""Writes a small CT series with pydicom and a segmentation of it with highdicom: the reference of crates/scans/tests/segmentations.rs.

    python3 -m venv .venv
    .venv/bin/pip install numpy pydicom==3.0.2 highdicom==0.28.2
    .venv/bin/python scripts/dicom-seg-files.py crates/scans/tests/segmentation

The folder gets four slices of 7 x 5 pixels (an odd number, so that frames do not begin on bytes), a segmentation of two
segments in which the third slice has none, the same as a label map of 8 bits, one of 16 bits whose second segment has the
number 300, a fractional segmentation whose segments overlap, and expected.json: the segment of each pixel of each slice, as
drawn here. Of the fractional one a pixel is in the segment with the largest value, if that is at least half of the most,
and in the first of equal ones.
"""

import json
import pathlib
import sys

import highdicom
import numpy
import pydicom
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.sr.codedict import codes
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian

ROOT = "1.2.826.0.1.3680043.8.498.1"
ROWS, COLUMNS = 5, 7


def slice_of(number):
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = CTImageStorage
    meta.MediaStorageSOPInstanceUID = f"{ROOT}.2.{number}"
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    image = FileDataset(None, {}, file_meta=meta, preamble=b"\0" * 128)
    image.SOPClassUID = CTImageStorage
    image.SOPInstanceUID = meta.MediaStorageSOPInstanceUID
    image.StudyInstanceUID, image.SeriesInstanceUID = f"{ROOT}.3", f"{ROOT}.4"
    image.FrameOfReferenceUID, image.PositionReferenceIndicator = f"{ROOT}.5", ""
    image.SpecificCharacterSet = "ISO_IR 100"
    image.PatientName, image.PatientID = "Müller^Åsa", "P 1"
    image.PatientBirthDate, image.PatientSex = "19700101", "F"
    image.StudyDate, image.StudyTime, image.StudyID = "20240102", "030405", "S1"
    image.AccessionNumber, image.ReferringPhysicianName = "A1", ""
    image.ImageType = ["ORIGINAL", "PRIMARY", "AXIAL"]
    image.Modality, image.SeriesNumber, image.InstanceNumber = "CT", 2, number
    image.Manufacturer = "None"
    image.ImageOrientationPatient = [0.8, 0.6, 0.0, -0.6, 0.8, 0.0]
    # The slices are numbered from the top down.
    image.ImagePositionPatient = [-10.0, 20.5, 30.0 - 2.5 * number]
    image.PixelSpacing, image.SliceThickness = [0.75, 0.5], 2.5
    image.SamplesPerPixel, image.PhotometricInterpretation = 1, "MONOCHROME2"
    image.Rows, image.Columns = ROWS, COLUMNS
    image.BitsAllocated, image.BitsStored, image.HighBit, image.PixelRepresentation = 16, 16, 15, 1
    image.RescaleIntercept, image.RescaleSlope = 0, 1
    values = numpy.arange(ROWS * COLUMNS, dtype="<i2").reshape(ROWS, COLUMNS) * 10 * number
    image.PixelData = values.tobytes()
    return image


def main():
    folder = pathlib.Path(sys.argv[1])
    images = [slice_of(number) for number in range(1, 5)]
    for number, image in enumerate(images, 1):
        image.save_as(folder / f"slice{number}.dcm", enforce_file_format=True)
    rows, columns = numpy.mgrid[:ROWS, :COLUMNS]
    masks = numpy.zeros((4, ROWS, COLUMNS), dtype=numpy.uint8)
    masks[0][(rows + columns) % 3 == 0] = 1
    masks[1][rows > columns] = 2
    masks[1][0, 5:] = 1
    masks[3][4, 6] = 2
    shares = numpy.zeros((4, ROWS, COLUMNS, 2))
    shares[0, ..., 0] = columns / (COLUMNS - 1)
    shares[0, ..., 1] = 1 - rows / (ROWS - 1)
    shares[1, ..., 1] = 0.495
    shares[1, 2, 3:, 1] = 0.5
    shares[3, 4, 6] = 1.0, 0.9
    most = shares.max(axis=-1)
    fractional = numpy.where(most >= 0.5, shares.argmax(axis=-1) + 1, 0)
    numbers = numpy.array([0, 1, 300], dtype=numpy.uint16)[masks]
    segment = lambda number, label: highdicom.seg.SegmentDescription(
        segment_number=number,
        segment_label=label,
        segmented_property_category=codes.SCT.Organ,
        segmented_property_type=codes.SCT.Liver,
        algorithm_type=highdicom.seg.SegmentAlgorithmTypeValues.MANUAL,
    )
    kinds = highdicom.seg.SegmentationTypeValues
    for name, instance, kind, pixels, second, more in (
        ("segmentation", 7, kinds.BINARY, masks, 2, {}),
        ("fractional", 8, kinds.FRACTIONAL, shares, 2, {"max_fractional_value": 200}),
        ("labelmap", 9, kinds.LABELMAP, masks, 2, {}),
        ("labelmap16", 10, kinds.LABELMAP, numbers, 300, {}),
    ):
        segmentation = highdicom.seg.Segmentation(
            source_images=images,
            pixel_array=pixels,
            segmentation_type=kind,
            segment_descriptions=[segment(1, "Liver"), segment(second, "Tumour")],
            series_instance_uid=f"{ROOT}.6",
            series_number=3,
            sop_instance_uid=f"{ROOT}.{instance}",
            instance_number=1,
            manufacturer="None",
            manufacturer_model_name="None",
            software_versions="1",
            device_serial_number="1",
            omit_empty_frames=True,
            **more,
        )
        segmentation.save_as(folder / f"{name}.dcm")
    by_slice = lambda masks: {f"slice{number}.dcm": mask.ravel().tolist() for number, mask in enumerate(masks, 1)}
    expected = {"segments": by_slice(masks), "numbers": by_slice(numbers), "fractional": by_slice(fractional)}
    versions = {"pydicom": pydicom.__version__, "highdicom": highdicom.__version__}
    (folder / "expected.json").write_text(json.dumps({**versions, **expected}) + "\n")


main()
