"""TFRecord files and arrays of NumPy, by the rules of the formats, for tests."""
import struct


def masked_crc32c(content):
    """The checksum in the form in which TFRecord files contain it."""
    crc = 0xffffffff
    for byte in content:
        crc = CRC_TABLE[(crc ^ byte) & 0xff] ^ (crc >> 8)
    crc ^= 0xffffffff
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff)


def crc_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82f63b78 if value & 1 else 0)
        table.append(value)
    return table


CRC_TABLE = crc_table()


def field(number, content):
    """A length-delimited field of a Protobuf message."""
    size, varint = len(content), b""
    while size >= 0x80:
        varint, size = varint + bytes([size & 0x7f | 0x80]), size >> 7
    return bytes([number << 3 | 2]) + varint + bytes([size]) + content


def record(image, label):
    """A record of a TFRecord file: a tf.Example with the features "image" and "label"."""
    features = b""
    for name, feature in ((b"image", field(1, field(1, image))), (b"label", field(3, field(1, bytes([label]))))):
        features += field(1, field(1, name) + field(2, feature))
    payload = field(1, features)
    length = struct.pack("<Q", len(payload))
    return length + masked_crc32c(length) + payload + masked_crc32c(payload)


def npy(kind, shape, values):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + values
