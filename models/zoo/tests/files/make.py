#!/usr/bin/env python3
"""Small weights files as PyTorch writes them, with the values in them, and files that mean harm.

expected.json holds, for each file that can be read, the type, the shape and the values of every tensor, and for each
other file the words that its refusal must contain. Only the older format has addresses of memory in it and differs
from run to run.

usage: OMP_NUM_THREADS=1 make.py [FOLDER]   (needs torch and safetensors; without FOLDER next to the script)
"""
import io, json, os, pathlib, pickle, sys, zipfile
import torch
from safetensors.torch import save_file
from torch import nn

folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
os.chdir(folder if folder.is_dir() else folder.parent)
expected, refused = {}, {}

# What the reader calls PyTorch's types.
TYPES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
         torch.int64: "I64", torch.int32: "I32", torch.bool: "Bool(Native)"}


def describe(tensors):
    return {name: {"dtype": TYPES[t.dtype], "shape": list(t.shape), "values": t.double().flatten().tolist()}
            for name, t in tensors.items()}


def numbers(*shape, dtype=torch.float32):
    count = torch.Size(shape).numel()
    return ((torch.arange(count, dtype=torch.float64) * 0.7310585 + 0.1234567).sin() * 3).to(dtype).reshape(shape)


def tensors():
    """Every type, and every way in which a tensor can lie in its storage."""
    grid = numbers(6, 8)
    return {
        "conv.weight": numbers(2, 3, 2, 2),
        "channels_last": numbers(2, 3, 2, 2).to(memory_format=torch.channels_last),
        "transposed": numbers(3, 4).t(),
        "every_second": grid[1::2, 3:7],
        "one_row": grid[4],
        "expanded": numbers(1, 3).expand(4, 3),
        "double": numbers(5, dtype=torch.float64),
        "half": numbers(2, 3, dtype=torch.float16),
        "half_transposed": numbers(2, 3, dtype=torch.float16).t(),
        "bfloat": numbers(7, dtype=torch.bfloat16),
        "num_batches_tracked": torch.tensor(1234567890123),
        "int32": torch.tensor([-3, 0, 2**31 - 1], dtype=torch.int32),
        "bool": torch.tensor([True, False, True]),
        "scalar": torch.tensor(-1.5),
        "extremes": torch.tensor([1e-45, -3.4028234663852886e38, 1.17549435e-38, 0.0]),
        "empty": torch.zeros(0, 3),
        "parameter": nn.Parameter(numbers(3)),
    }


def save(name, content, held=None, **options):
    torch.save(content, name, **options)
    expected[name] = describe(content if held is None else held)


def archive(name, pickled, compression=zipfile.ZIP_DEFLATED, **entries):
    """An archive as torch.save writes it, with a pickle of our own."""
    files = {"data.pkl": pickled, "version": b"3\n", "byteorder": b"little"}
    files |= {f"data/{key.strip('_')}": data for key, data in entries.items()}
    with zipfile.ZipFile(name, "w", compression) as made:
        for path, data in files.items():
            made.writestr(zipfile.ZipInfo(f"archive/{path}"), data, compress_type=compression)


# The formats.
save("zip.pth", tensors())
save("zip_protocol_4.pth", tensors(), pickle_protocol=4)
save("legacy.pth", tensors(), _use_new_zipfile_serialization=False)
save("legacy_protocol_4.pth", tensors(), _use_new_zipfile_serialization=False, pickle_protocol=4)
with zipfile.ZipFile("zip.pth") as stored, zipfile.ZipFile("deflated.pth", "w") as packed:
    for entry in stored.namelist():
        packed.writestr(zipfile.ZipInfo(entry), stored.read(entry), compress_type=zipfile.ZIP_DEFLATED)
expected["deflated.pth"] = expected["zip.pth"]
floats = {name: t.detach().contiguous() for name, t in tensors().items() if t.dtype != torch.bool}
save_file(floats, "torch.safetensors", metadata={"format": "pt"})
expected["torch.safetensors"] = describe(floats)


# What training scripts save.
def state(prefix=""):
    return {f"{prefix}conv.weight": numbers(2, 1, 3, 3), f"{prefix}norm.running_mean": numbers(2)}


def flat(content, prefix=""):
    found = {}
    for key, value in content.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{key}.")
        elif isinstance(value, torch.Tensor):
            found[f"{prefix}{key}"] = value
    return found


checkpoint = {
    "epoch": 3, "arch": "tiny", "best": 0.75, "lr": [0.1, 0.01], "nothing": None, "size": torch.Size([1, 2]),
    "device": torch.device("cpu"), "dtype": torch.float32,
    "state_dict": state("module."),
    "optimizer": {"state": {0: {"step": torch.tensor(7.0), "exp_avg": numbers(2)}},
                  "param_groups": [{"lr": 0.1, "params": [0]}]},
}
save("checkpoint.pth", checkpoint, flat(checkpoint))
save("checkpoint_legacy.pth", checkpoint, flat(checkpoint), _use_new_zipfile_serialization=False)

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(1, 2, 3, bias=False), nn.BatchNorm2d(2), nn.Linear(2, 3)).eval()
save("whole_model.pth", model, model.state_dict())

base = numbers(4, 4)
save("shared_storage.pth", {"all": base, "row": base[1], "column": base[:, 2], "same": base})


# Code. Whoever runs it leaves a file behind.
class RunsCode:
    def __reduce__(self):
        return os.system, ("echo harm > kindling-was-here",)


save("runs_code.pth", {"weight": numbers(3), "extra": RunsCode()}, {"weight": numbers(3)})
save("runs_code_legacy.pth", {"weight": numbers(3), "extra": RunsCode()}, {"weight": numbers(3)},
     _use_new_zipfile_serialization=False)
pickle.dump({"weight": RunsCode()}, open("runs_code.pkl", "wb"), protocol=2)
refused["runs_code.pkl"] = "no tensor"


# Small files that claim much.
def claims(name, word, content, **options):
    torch.save(content, name, **options)
    refused[name] = word


claims("view_of_4_gb.pth", "claims 4 GiB", {"weight": torch.zeros(1).expand(1 << 20, 1 << 10)})
claims("view_of_4_gb_legacy.pth", "claims 4 GiB", {"weight": torch.zeros(1).expand(1 << 20, 1 << 10)},
       _use_new_zipfile_serialization=False)
claims("view_of_4_tb.pth", "limit", {"weight": torch.zeros(1).expand(1 << 40)})
claims("views_of_16_mb.pth", "claims", {f"weight{i}": torch.zeros(1).expand(1 << 22) for i in range(20)})


class Storage:
    """A storage that claims as many elements as it likes."""

    def __init__(self, elements):
        self.elements = elements


class Claims(pickle.Pickler):
    def persistent_id(self, held):
        return ("storage", torch.FloatStorage, "0", "cpu", held.elements) if isinstance(held, Storage) else None


class Rebuilt:
    def __init__(self, elements, offset, shape, stride):
        self.arguments = Storage(elements), offset, shape, stride, False, None

    def __reduce__(self):
        return torch._utils._rebuild_tensor_v2, self.arguments


def claimed(name, word, *tensor):
    pickled = io.BytesIO()
    Claims(pickled, protocol=2).dump({"weight": Rebuilt(*tensor)})
    archive(name, pickled.getvalue(), zipfile.ZIP_STORED, _0=b"\0" * 64)
    refused[name] = word


claimed("storage_of_4_tb.pth", "claims", 1 << 40, 0, (1 << 20, 1 << 10), (1 << 10, 1))
claimed("beyond_its_storage.pth", "only 16 are available", 1 << 40, 1 << 39, (2, 2), (2, 1))
claimed("shape_that_overflows.pth", "overflows", 16, 0, (1 << 40, 1 << 40), (1, 1))
claimed("stride_that_overflows.pth", "overflows", 16, 0, (3, 3), (1 << 62, 1 << 62))
claimed("larger_than_its_storage.pth", "declares 16", 16, 0, (17,), (1,))

# Archives that unpack to much: each byte of this pickle is an object.
archive("packed_pickle.pth", b"\x80\x02" + b"N" * (8 << 20) + b".")
refused["packed_pickle.pth"] = "8.00 MiB is packed"
pickled = io.BytesIO()
Claims(pickled, protocol=2).dump({"weight": Rebuilt(2, 0, (2,), (1,))})
archive("packed_storage.pth", pickled.getvalue(), _0=bytes(8 << 20))
refused["packed_storage.pth"] = "8 MiB is packed"
# Ten lists of ten times the one before.
laughs = b"\x80\x02](NNNNNNNNNNeq\x00" + b"".join(
    b"0](" + (b"h" + bytes([i])) * 10 + b"eq" + bytes([i + 1]) for i in range(9)) + b"."
archive("laughs.pth", laughs)
refused["laughs.pth"] = "memo bomb"
archive("deep.pth", b"\x80\x02N" + b"\x85" * 100_000 + b".")
refused["deep.pth"] = "nesting"
archive("a_list.pth", pickle.dumps([1, 2, 3], protocol=2))
refused["a_list.pth"] = "found list"
archive("no_tensors.pth", pickle.dumps({"epoch": 3}, protocol=2))
refused["no_tensors.pth"] = "no tensor"

content = json.dumps({"tensors": expected, "refused": refused}, indent=None, separators=(",", ":"))
pathlib.Path("expected.json").write_text(content.replace('},"', '},\n"') + "\n")
