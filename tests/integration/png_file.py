"""PNG files, by the format's rules, for tests."""
import struct
import zlib

GREY, COLOURED = 0, 2


def png(width, rows, kind=GREY):
    """The bytes of a PNG file with 8 bits a channel. A row is the bytes of its pixels."""
    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
    header = struct.pack(">2I5B", width, len(rows), 8, kind, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + bytes(row) for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
