#!/usr/bin/env python3
"""Reference outputs of the GANs, computed with PyTorch's own layers.

No weights are stored. Every tensor is filled by one formula from its name (see fill), so that any implementation
that knows the names can rebuild the very same network. DCGAN is PyTorch's example (examples/dcgan/main.py) under its
names, without the discriminator's sigmoid, and once more with resize and 3x3 convolution in place of transposed
convolution. FastGAN is written from the paper (https://arxiv.org/abs/2101.04775) and the authors' implementation
under its names: without spectral normalisation, without the discriminator and the generator's output for 128x128, with
tanh at every size. Noise injection has strength 0 here, for its noise is Kindling's own.

  fill(name, shape), element i in row-major order, all arithmetic modulo 2**64:
      seed = FNV-1a-64(name as UTF-8)
      z    = seed + (i + 1) * 0x9E3779B97F4A7C15
      z    = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
      z    = (z ^ (z >> 27)) * 0x94D049BB133111EB
      z    =  z ^ (z >> 31)
      u    = (z >> 40) / 2**24              in [0, 1), exact in float32
      v    = 2u - 1
  by kind of tensor:
      name ends with running_var            0.5 + u
      name ends with running_mean           0.2 v
      of one element (strength of noise)    0
      one dimension, name ends with weight  0.75 + 0.5 u
      one dimension, name ends with bias    0.1 v
      otherwise (convolution)               v * sqrt(GAIN / fan_in), fan_in = prod(shape[1:])
  Latent vectors are 1.7 v of fill("latent", ...), real images v of fill("images", ...), maps v of fill("small", ...) and
  fill("large", ...).

A tensor is summarised by its shape, its largest magnitude, the norm of each sample and 64 elements: number k is element
(7919 k) mod count. Losses are hinge losses; gradients are given by their norms.

usage: OMP_NUM_THREADS=1 gan.py [--out gan.json]   (needs torch)
"""
import argparse, json, math
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

GAIN = 4.5
MASK = (1 << 64) - 1


def fill01(name, count):
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = ((seed ^ byte) * 0x100000001B3) & MASK
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + (np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(40)).astype(np.float64) / float(1 << 24)


def signed(name, shape):
    return torch.from_numpy((2 * fill01(name, math.prod(shape)) - 1).reshape(shape))


def fill(name, shape):
    v = signed(name, shape)
    if name.endswith("running_var"):
        return 1 + 0.5 * v
    if name.endswith("running_mean"):
        return 0.2 * v
    if math.prod(shape) == 1:
        return 0 * v
    if len(shape) == 1 and name.endswith("weight"):
        return 1 + 0.25 * v
    if len(shape) == 1 and name.endswith("bias"):
        return 0.1 * v
    return v * math.sqrt(GAIN / math.prod(shape[1:]))


def filled(module, dtype):
    module = module.to(dtype)
    state = {k: fill(k, list(v.shape)).to(dtype) for k, v in module.state_dict().items()
             if not k.endswith("num_batches_tracked")}
    assert not module.load_state_dict(state, strict=False).unexpected_keys
    return module


# DCGAN -------------------------------------------------------------------------------------------------------------


class Numbered(nn.Module):
    """Layers under given numbers of `main`; a function has no number."""

    def __init__(self, *layers):
        super().__init__()
        self.main = nn.ModuleDict({str(number): layer for number, layer in layers if number is not None})
        self.order = [layer for _, layer in layers]

    def forward(self, x):
        for layer in self.order:
            x = layer(x)
        return x


def double(x):
    return F.interpolate(x, scale_factor=2, mode="nearest")


def dcgan_generator(nz, ngf, nc, resize):
    def up(number, cin, cout):
        if resize:
            return [(None, double), (number, nn.Conv2d(cin, cout, 3, 1, 1, bias=False))]
        return [(number, nn.ConvTranspose2d(cin, cout, 4, 2, 1, bias=False))]

    layers = [(0, nn.ConvTranspose2d(nz, ngf * 8, 4, 1, 0, bias=False)), (1, nn.BatchNorm2d(ngf * 8)), (2, nn.ReLU())]
    for i, (cin, cout) in enumerate([(8, 4), (4, 2), (2, 1)], 1):
        layers += up(3 * i, ngf * cin, ngf * cout) + [(3 * i + 1, nn.BatchNorm2d(ngf * cout)), (3 * i + 2, nn.ReLU())]
    return Numbered(*layers, *up(12, ngf, nc), (13, nn.Tanh()))


def dcgan_discriminator(ndf, nc):
    layers = [(0, nn.Conv2d(nc, ndf, 4, 2, 1, bias=False)), (1, nn.LeakyReLU(0.2))]
    for i, (cin, cout) in enumerate([(1, 2), (2, 4), (4, 8)]):
        layers += [(3 * i + 2, nn.Conv2d(ndf * cin, ndf * cout, 4, 2, 1, bias=False)),
                   (3 * i + 3, nn.BatchNorm2d(ndf * cout)), (3 * i + 4, nn.LeakyReLU(0.2))]
    return Numbered(*layers, (11, nn.Conv2d(ndf * 8, 1, 4, 1, 0, bias=False)))


# FastGAN -----------------------------------------------------------------------------------------------------------


class GLU(nn.Module):
    def forward(self, x):
        return F.glu(x, dim=1)


class Noise(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return x + self.weight * torch.zeros_like(x[:, :1])


class SLE(nn.Module):
    def __init__(self, small, large):
        super().__init__()
        self.main = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Conv2d(small, large, 4, bias=False), nn.SiLU(),
                                  nn.Conv2d(large, large, 1, bias=False), nn.Sigmoid())

    def forward(self, small, large):
        return large * self.main(small)


def up_block(cin, cout, noisy=False):
    layers = [nn.Upsample(scale_factor=2, mode="nearest")]
    for fan in [cin, cout] if noisy else [cin]:
        layers += [nn.Conv2d(fan, 2 * cout, 3, 1, 1, bias=False)] + ([Noise()] if noisy else [])
        layers += [nn.BatchNorm2d(2 * cout), GLU()]
    return nn.Sequential(*layers)


class Init(nn.Module):
    def __init__(self, nz, channels):
        super().__init__()
        self.init = nn.Sequential(nn.ConvTranspose2d(nz, 2 * channels, 4, 1, 0, bias=False),
                                  nn.BatchNorm2d(2 * channels), GLU())

    def forward(self, x):
        return self.init(x)


class FastGanGenerator(nn.Module):
    def __init__(self, nz, ngf, nc, size):
        super().__init__()
        width = {4: 16 * ngf, 8: 8 * ngf, 16: 4 * ngf, 32: 2 * ngf, 64: 2 * ngf, 128: ngf, 256: ngf // 2, 512: ngf // 4}
        self.sides = [side for side in width if 4 < side <= size]
        self.init = Init(nz, width[4])
        for side in self.sides:
            self.add_module(f"feat_{side}", up_block(width[side // 2], width[side], noisy=side in (8, 32, 128, 512)))
            if side >= 64:
                self.add_module(f"se_{side}", SLE(width[side // 16], width[side]))
        self.to_big = nn.Conv2d(width[size], nc, 3, 1, 1, bias=False)

    def forward(self, latent):
        maps = {4: self.init(latent)}
        for side in self.sides:
            maps[side] = getattr(self, f"feat_{side}")(maps[side // 2])
            if side >= 64:
                maps[side] = getattr(self, f"se_{side}")(maps[side // 16], maps[side])
        return torch.tanh(self.to_big(maps[self.sides[-1]]))


class Down(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.main = nn.Sequential(nn.Conv2d(cin, cout, 4, 2, 1, bias=False), nn.BatchNorm2d(cout), nn.LeakyReLU(0.2),
                                  nn.Conv2d(cout, cout, 3, 1, 1, bias=False), nn.BatchNorm2d(cout), nn.LeakyReLU(0.2))
        self.direct = nn.Sequential(nn.AvgPool2d(2, 2), nn.Conv2d(cin, cout, 1, bias=False), nn.BatchNorm2d(cout),
                                    nn.LeakyReLU(0.2))

    def forward(self, x):
        return (self.main(x) + self.direct(x)) / 2


class Decoder(nn.Module):
    def __init__(self, cin, nc):
        super().__init__()
        blocks = [up_block(a, b) for a, b in zip([cin, 128, 64, 64], [128, 64, 64, 32])]
        self.main = nn.Sequential(nn.AdaptiveAvgPool2d(8), *blocks, nn.Conv2d(32, nc, 3, 1, 1, bias=False), nn.Tanh())

    def forward(self, x):
        return self.main(x)


class FastGanDiscriminator(nn.Module):
    def __init__(self, ndf, nc, size):
        super().__init__()
        # The maps of 256, 128, 64, 32, 16 and 8 pixels a side.
        width = [ndf // 4, ndf // 2, ndf, 2 * ndf, 4 * ndf, 8 * ndf]
        stem = nn.Conv2d(nc, width[0], 4, 2, 1, bias=False) if size == 512 else nn.Conv2d(nc, width[0], 3, 1, 1, bias=False)
        self.down_from_big = nn.Sequential(stem, nn.LeakyReLU(0.2))
        self.down_4, self.down_8 = Down(*width[0:2]), Down(*width[1:3])
        self.down_16, self.down_32, self.down_64 = Down(*width[2:4]), Down(*width[3:5]), Down(*width[4:6])
        self.se_2_16, self.se_4_32, self.se_8_64 = (SLE(width[i], width[i + 3]) for i in range(3))
        self.rf_big = nn.Sequential(nn.Conv2d(8 * ndf, 16 * ndf, 1, bias=False), nn.BatchNorm2d(16 * ndf),
                                    nn.LeakyReLU(0.2), nn.Conv2d(16 * ndf, 1, 4, bias=False))

    def features(self, x):
        feat_2 = self.down_from_big(x)
        feat_4 = self.down_4(feat_2)
        feat_8 = self.down_8(feat_4)
        feat_16 = self.se_2_16(feat_2, self.down_16(feat_8))
        feat_32 = self.se_4_32(feat_4, self.down_32(feat_16))
        feat_64 = self.se_8_64(feat_8, self.down_64(feat_32))
        return feat_32, feat_64

    def forward(self, x):
        return self.rf_big(self.features(x)[1])


class Decoders(nn.Module):
    def __init__(self, ndf, nc):
        super().__init__()
        self.decoder_big, self.decoder_part = Decoder(8 * ndf, nc), Decoder(4 * ndf, nc)

    def forward(self, features, quarter):
        row, column = 8 * (quarter // 2), 8 * (quarter % 2)
        part = features[0][:, :, row:row + 8, column:column + 8]
        return self.decoder_big(features[1]), self.decoder_part(part)


# What is written ---------------------------------------------------------------------------------------------------


def summary(x):
    x = x.detach().double()
    flat = x.reshape(-1)
    index = [7919 * k % flat.numel() for k in range(min(64, flat.numel()))]
    return {"shape": list(x.shape), "largest": float(flat.abs().max()),
            "norms": [float(n) for n in x.reshape(x.shape[0], -1).norm(dim=1)], "some": [float(flat[i]) for i in index]}


def count(module):
    return sum(p.numel() for p in module.parameters())


def keys(module):
    return [[k, list(v.shape)] for k, v in module.state_dict().items() if not k.endswith("num_batches_tracked")]


def norms(module):
    out = {k: float(p.grad.double().norm()) for k, p in module.named_parameters() if p.numel() > 1}
    module.zero_grad()
    return out


def case(config, make_generator, make_discriminator, make_decoders=None):
    batch, latent, channels, size = (config[k] for k in ("batch", "latent", "channels", "image_size"))
    out = dict(config)
    for tag, dtype in (("f32", torch.float32), ("f64", torch.float64)):
        generator, discriminator = filled(make_generator(), dtype), filled(make_discriminator(), dtype)
        z = (1.7 * signed("latent", [batch, latent, 1, 1])).to(dtype)
        real = signed("images", [batch, channels, size, size]).to(dtype)
        scores = lambda x: discriminator(x).flatten(1)
        generator.eval(), discriminator.eval()
        with torch.no_grad():
            part = {"eval_images": summary(generator(z)), "eval_scores": summary(scores(real))}
            if make_decoders:
                decoders = filled(make_decoders(), dtype).eval()
                decoded = decoders(discriminator.features(real), 1)
                part["decoded_whole"], part["decoded_part"] = (summary(x) for x in decoded)
        generator.train(), discriminator.train()
        fake = generator(z)
        of_real, of_fake = scores(real), scores(fake.detach())
        part["train_images"], part["train_scores"] = summary(fake), summary(of_real)
        loss = F.relu(1 - of_real).mean() + F.relu(1 + of_fake).mean()
        loss.backward()
        part["discriminator_loss"], part["discriminator_gradients"] = loss.item(), norms(discriminator)
        loss = -scores(fake).mean()
        loss.backward()
        part["generator_loss"], part["generator_gradients"] = loss.item(), norms(generator)
        out[tag] = part
        if tag == "f32":
            modules = {"generator": generator, "discriminator": discriminator}
            if make_decoders:
                modules["decoders"] = decoders
            out["keys"] = {name: keys(module) for name, module in modules.items()}
            out["params"] = {name: count(module) for name, module in modules.items()}
    return out


def dcgan(name, batch, latent, features, channels, resize):
    config = {"name": name, "batch": batch, "latent": latent, "features": features, "channels": channels,
              "image_size": 64}
    return case(config, lambda: dcgan_generator(latent, features, channels, resize),
                lambda: dcgan_discriminator(features, channels))


def fastgan(name, batch, latent, features, channels, size):
    config = {"name": name, "batch": batch, "latent": latent, "features": features, "channels": channels,
              "image_size": size}
    return case(config, lambda: FastGanGenerator(latent, features, channels, size),
                lambda: FastGanDiscriminator(features, channels, size), lambda: Decoders(features, channels))


def blocks():
    sle = filled(SLE(6, 5), torch.float64)
    small, large = signed("small", [2, 6, 8, 8]), signed("large", [2, 5, 16, 16])
    with torch.no_grad():
        return {"skip_layer_excitation": summary(sle(small, large)), "glu": summary(GLU()(small)),
                "keys": keys(sle)}


def full_size():
    gan = {"generator": FastGanGenerator(256, 64, 3, 512), "discriminator": FastGanDiscriminator(64, 3, 512),
           "decoders": Decoders(64, 3)}
    return {name: count(module) for name, module in gan.items()}


def rounded(x):
    if isinstance(x, dict):
        return {k: rounded(v) for k, v in x.items()}
    if isinstance(x, list):
        return [rounded(v) for v in x]
    return float(f"{x:.10g}") if isinstance(x, float) else x


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", default="gan.json")
    args = ap.parse_args()
    doc = {"torch": torch.__version__, "gain": GAIN, "blocks": blocks(), "fastgan_params": full_size(), "cases": [
        dcgan("dcgan", 4, 100, 64, 3, resize=False),
        dcgan("dcgan_resize", 3, 20, 16, 1, resize=True),
        fastgan("fastgan_256", 3, 32, 16, 3, 256),
        fastgan("fastgan_512", 2, 24, 8, 1, 512),
    ]}
    with open(args.out, "w") as file:
        json.dump(rounded(doc), file, separators=(",", ":"))
        file.write("\n")
