"""CRC-32C (Castagnoli), one byte at a time.

Source: RFC 3720 appendix B.4; polynomial 0x1EDC6F41, reflected 0x82F63B78.
"""

POLYNOMIAL_REFLECTED = 0x82F63B78


def _table_entry(index: int) -> int:
    for _ in range(8):
        index = (index >> 1) ^ POLYNOMIAL_REFLECTED if index & 1 else index >> 1
    return index


TABLE = [_table_entry(index) for index in range(256)]


def crc32c(payload: bytes) -> int:
    """Return the checksum of `payload`, 0 to 2³²−1."""
    crc = 0xFFFFFFFF
    for byte in payload:
        crc = (crc >> 8) ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF
