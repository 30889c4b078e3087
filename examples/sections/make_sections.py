#!/usr/bin/env python3
"""Makes synthetic seismic sections and their facies, for examples of semantic segmentation.

    make_sections.py FOLDER [--samples=1200] [--test=200] [--size=96] [--seed=1]

writes train-images, train-labels, test-images and test-labels to FOLDER: IDX files of bytes, [samples, size, size]. Each
image is a vertical section through layers that dip, are folded, and are cut by up to two faults, which shift one side. A
layer has one of five facies, the label of its pixels:

    0  almost no reflections            3  weak reflections, 4 pixels apart
    1  strong reflections, 4 apart      4  reflections in no order
    2  strong reflections, 9 apart

All facies have the same mean brightness, so a pixel by itself says little: its surroundings do. Every section follows
from the seed and its number alone. Takes about a minute; needs Python's standard library only.
"""
import argparse
import math
import os
import random
import struct

FACIES = [(4, 6), (4, 50), (9, 50), (4, 20), (None, 40)]  # Distance of reflections in pixels, amplitude.
NOISE = 10  # Standard deviation of the noise that is added to every pixel.


def layers(rng, depth):
    """[(lower end, facies, phase)] of each layer, from above the section to below it; neighbours differ in facies."""
    found, end, facies = [], -depth, None
    while end < 2 * depth:
        end += rng.uniform(depth / 7, depth / 3)
        facies = rng.choice([f for f in range(len(FACIES)) if f != facies])
        found.append((end, facies, rng.uniform(0, 2 * math.pi)))
    return found


def section(size, rng):
    """The bytes of an image and of its labels, row by row."""
    stack = layers(rng, size)
    dip, fold, length, phase = rng.uniform(-0.35, 0.35), rng.uniform(0, size / 12), rng.uniform(size / 2, 2 * size), \
        rng.uniform(0, 2 * math.pi)
    faults = [(rng.uniform(0, size), rng.uniform(-0.4, 0.4), rng.choice([-1, 1]) * rng.uniform(size / 16, size / 6))
              for _ in range(rng.randint(0, 2))]
    image, labels = bytearray(size * size), bytearray(size * size)
    for x in range(size):
        shift = dip * x + fold * math.sin(2 * math.pi * x / length + phase)
        last, layer = None, 0
        for y in range(size):
            throw = sum(shift_by for at, slope, shift_by in faults if x > at + slope * (y - size / 2))
            depth = y - shift - throw
            if last is not None and depth < last:
                layer = 0  # This pixel is beyond a fault that shifts the layers down.
            last = depth
            while depth >= stack[layer][0]:
                layer += 1
            _, facies, start = stack[layer]
            distance, amplitude = FACIES[facies]
            angle = rng.uniform(0, 2 * math.pi) if distance is None else 2 * math.pi * depth / distance + start
            value = 128 + amplitude * math.sin(angle) + rng.gauss(0, NOISE)
            image[y * size + x] = min(255, max(0, round(value)))
            labels[y * size + x] = facies
    return image, labels


def write(folder, split, numbers, size, seed):
    header = b"\0\0\x08\x03" + struct.pack(">3I", len(numbers), size, size)
    with open(os.path.join(folder, f"{split}-images"), "wb") as images, \
            open(os.path.join(folder, f"{split}-labels"), "wb") as labels:
        images.write(header)
        labels.write(header)
        for number in numbers:
            image, facies = section(size, random.Random(seed * 1_000_003 + number))
            images.write(image)
            labels.write(facies)


def main():
    parser = argparse.ArgumentParser(description="Makes synthetic seismic sections and their facies.")
    parser.add_argument("folder")
    parser.add_argument("--samples", type=int, default=1200)
    parser.add_argument("--test", type=int, default=200)
    parser.add_argument("--size", type=int, default=96, help="pixels of each side, a multiple of 32 for fcn")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if min(options.samples, options.test, options.size) < 1:
        parser.error("--samples, --test and --size must be at least 1")
    os.makedirs(options.folder, exist_ok=True)
    write(options.folder, "train", range(options.samples), options.size, options.seed)
    write(options.folder, "test", range(options.samples, options.samples + options.test), options.size, options.seed)
    print(f"{options.samples} sections for training and {options.test} for the test are in {options.folder}")


if __name__ == "__main__":
    main()
