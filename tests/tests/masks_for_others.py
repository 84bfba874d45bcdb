"""The scans of masks_for_others.rs, written by nibabel and pydicom; and what nibabel, pydicom and highdicom read of the masks.

    python masks_for_others.py make FOLDER
    python masks_for_others.py check FOLDER

`make` writes volumes, a DICOM series and a file of several images. `check` compares the masks that were drawn of them with the PNG
masks of the same images.
"""

import pathlib
import sys
import warnings

import highdicom
import nibabel
import numpy
import pydicom
from PIL import Image
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, MultiFrameGrayscaleByteSecondaryCaptureImageStorage

ROWS, COLUMNS, SLICES = 40, 48, 6
ROOT = "1.2.826.0.1.3680043.8.498.2"


def discs(seed):
    """Slices with a bright disc each, as rows from the top."""
    noise = numpy.random.default_rng(seed)
    rows, columns = numpy.mgrid[:ROWS, :COLUMNS]
    slices = []
    for number in range(SLICES):
        inside = (rows - 14 - 2 * number) ** 2 + (columns - 34 + 4 * number) ** 2 < (6 + number % 3) ** 2
        slices.append(numpy.where(inside, 150, 40) + noise.integers(0, 60, (ROWS, COLUMNS)))
    return slices


def volume(path, axes, big_endian, only_qform):
    """The slices as a volume whose array axes run in these directions; the affine is oblique."""
    # Rows from the front, columns from the right: x and y fall.
    voxels = numpy.stack([slice[::-1, ::-1].T for slice in discs(1)], axis=2).astype("int16")
    angle = 0.15
    turn = numpy.array([[numpy.cos(angle), -numpy.sin(angle), 0], [numpy.sin(angle), numpy.cos(angle), 0], [0, 0, 1]])
    affine = numpy.eye(4)
    affine[:3, :3] = turn @ numpy.diag([0.9, 0.9, 2.5])
    affine[:3, 3] = [-30.5, 12.25, 7.0]
    wanted = nibabel.orientations.axcodes2ornt(axes)
    image = nibabel.Nifti1Image(voxels, affine).as_reoriented(
        nibabel.orientations.ornt_transform(nibabel.orientations.io_orientation(affine), wanted)
    )
    header = nibabel.Nifti1Header(endianness=">" if big_endian else "<")
    header.set_data_dtype("int16")
    image = nibabel.Nifti1Image(numpy.asarray(image.dataobj), image.affine, header=header)
    image.set_qform(image.affine, code=1)
    image.set_sform(None if only_qform else image.affine, code=0 if only_qform else 2)
    image.header.set_xyzt_units("mm", "sec")
    nibabel.save(image, path)


def scan(class_uid, number, values):
    """A DICOM object of grey images; those of a CT lie in space."""
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = class_uid, f"{ROOT}.2.{number}"
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    scan = FileDataset(None, {}, file_meta=meta, preamble=b"\0" * 128)
    scan.SOPClassUID, scan.SOPInstanceUID = class_uid, meta.MediaStorageSOPInstanceUID
    scan.StudyInstanceUID, scan.SeriesInstanceUID = f"{ROOT}.3", f"{ROOT}.4.{values.ndim}"
    scan.PatientName, scan.PatientID, scan.PatientBirthDate, scan.PatientSex = "Doe^Jo", "P1", "", "O"
    scan.StudyDate, scan.StudyTime, scan.StudyID, scan.AccessionNumber = "20240102", "030405", "1", ""
    scan.ReferringPhysicianName, scan.Manufacturer = "", "None"
    scan.Modality, scan.SeriesNumber, scan.InstanceNumber = "CT" if values.ndim == 2 else "OT", 1, number
    scan.ImageType = ["ORIGINAL", "PRIMARY", "AXIAL"]
    if values.ndim == 2:
        scan.FrameOfReferenceUID, scan.PositionReferenceIndicator = f"{ROOT}.5", ""
        scan.ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
        # The slices are numbered from the top down.
        scan.ImagePositionPatient = [-20, -15.5, 100 - 2.5 * number]
        scan.PixelSpacing, scan.SliceThickness = [0.9, 0.9], 2.5
    else:
        scan.NumberOfFrames = len(values)
    scan.WindowCenter, scan.WindowWidth = 128, 256
    scan.SamplesPerPixel, scan.PhotometricInterpretation = 1, "MONOCHROME2"
    scan.Rows, scan.Columns = ROWS, COLUMNS
    scan.BitsAllocated, scan.BitsStored, scan.HighBit, scan.PixelRepresentation = 8, 8, 7, 0
    scan.PixelData = values.astype("uint8").tobytes()
    return scan


def make(folder):
    for sub in ["volumes", "scans"]:
        (folder / sub).mkdir()
    volume(folder / "volumes/upright.nii.gz", "LPI", big_endian=False, only_qform=False)
    volume(folder / "volumes/lying.nii", "SLA", big_endian=True, only_qform=True)
    for number, values in enumerate(discs(2), 1):
        scan(CTImageStorage, number, values).save_as(folder / f"scans/s{number}.dcm", enforce_file_format=True)
    several = scan(MultiFrameGrayscaleByteSecondaryCaptureImageStorage, 99, numpy.stack(discs(3)))
    several.save_as(folder / "scans/several.dcm", enforce_file_format=True)


def png(path):
    return numpy.asarray(Image.open(path))


def check_volumes(folder):
    for name in ["upright.nii.gz", "lying.nii"]:
        stem = name.split(".")[0]
        image, mask = nibabel.load(folder / "volumes" / name), nibabel.load(folder / f"masks/{stem}.nii.gz")
        assert mask.shape == image.shape and mask.get_data_dtype() == numpy.uint8
        for field in ["qform_code", "sform_code", "srow_x", "srow_y", "srow_z", "quatern_b", "quatern_c", "quatern_d"]:
            assert numpy.array_equal(mask.header[field], image.header[field]), field
        assert numpy.array_equal(mask.affine, image.affine)
        assert numpy.array_equal(mask.header.get_qform(), image.header.get_qform())
        assert mask.header.get_xyzt_units() == image.header.get_xyzt_units()
        # From right, front and top, whatever the file has.
        upright = numpy.asarray(nibabel.as_closest_canonical(mask).dataobj)
        for number in range(SLICES):
            drawn = png(folder / f"pictures/{stem}_{number:04}.png")
            assert numpy.array_equal(upright[::-1, ::-1, number].T, drawn), (name, number)
        assert set(numpy.unique(upright)) == {0, 1}


def check_scans(folder):
    images = {f"{ROOT}.2.{number}": png(folder / f"pictures/s{number}.png") for number in range(1, SLICES + 1)}
    plain = pydicom.dcmread(folder / f"masks/{ROOT}.4.2.dcm")
    assert plain.SOPClassUID == "1.2.840.10008.5.1.4.1.1.66.4" and plain.SegmentationType == "BINARY"
    assert plain.StudyInstanceUID == f"{ROOT}.3" and plain.PatientName == "Doe^Jo" and plain.PatientID == "P1"
    assert plain.SeriesInstanceUID.startswith("2.25.") and plain.SeriesInstanceUID != plain.SOPInstanceUID
    assert plain.pixel_array.sum() == sum((mask == 1).sum() for mask in images.values()) > 0
    segments = plain.SegmentSequence
    assert [(one.SegmentNumber, one.SegmentLabel, one.SegmentAlgorithmType) for one in segments] == [
        (1, "foreground", "AUTOMATIC")
    ]
    read = highdicom.seg.segread(folder / f"masks/{ROOT}.4.2.dcm")
    pixels = read.get_pixels_by_source_instance(list(images), combine_segments=True)
    assert all(numpy.array_equal(found, mask) for found, mask in zip(pixels, images.values(), strict=True))
    found = read.get_volume(combine_segments=True)
    assert numpy.allclose(found.spacing, [2.5, 0.9, 0.9])
    several = highdicom.seg.segread(folder / "masks/several.dcm")
    pixels = several.get_pixels_by_source_frame(f"{ROOT}.2.99", list(range(1, SLICES + 1)), combine_segments=True)
    for number, found in enumerate(pixels):
        assert numpy.array_equal(found, png(folder / f"pictures/several_{number:04}.png")), number


def main():
    folder = pathlib.Path(sys.argv[2])
    if sys.argv[1] == "make":
        make(folder)
    else:
        warnings.simplefilter("error")
        check_volumes(folder)
        check_scans(folder)


main()
