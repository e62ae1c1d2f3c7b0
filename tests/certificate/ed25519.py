"""Ed25519 as RFC 8032, section 5.1, writes it: slow, and independent of the library that dplateau uses."""

import hashlib

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT = pow(2, (P - 1) // 4, P)
VECTORS = (  # section 7.1: secret key, public key, message, signature
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
)
Point = tuple[int, int]


def root(y: int, sign: int) -> int | None:
    """x of a point of the curve, if there is one with this y."""
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT % P
    if (x * x - square) % P:
        return None
    return P - x if x & 1 != sign else x


Y = 4 * pow(5, P - 2, P) % P
BASE: Point = (root(Y, 0) or 0, Y)


def plus(a: Point, b: Point) -> Point:
    product = D * a[0] * b[0] * a[1] * b[1] % P
    x = (a[0] * b[1] + b[0] * a[1]) * pow(1 + product, P - 2, P) % P
    return x, (a[1] * b[1] + a[0] * b[0]) * pow(1 - product, P - 2, P) % P


def times(number: int, point: Point) -> Point:
    found = 0, 1
    while number:
        if number & 1:
            found = plus(found, point)
        point, number = plus(point, point), number >> 1
    return found


def encoded(point: Point) -> bytes:
    return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")


def hashed(*parts: bytes) -> int:
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little")


def signed(secret: bytes, message: bytes) -> bytes:
    digest = hashlib.sha512(secret).digest()
    scalar = int.from_bytes(digest[:32], "little") & (2**254 - 8) | 2**254
    nonce = hashed(digest[32:], message) % ORDER
    public, commitment = encoded(times(scalar, BASE)), encoded(times(nonce, BASE))
    response = (nonce + hashed(commitment, public, message) * scalar) % ORDER
    return commitment + response.to_bytes(32, "little")


def small_orders() -> set[str]:
    """All encodings, sound and unsound, of points whose order divides 8; the sign is left out."""
    points, y = set(), 2
    while len(points) < 8:  # whatever point is taken, the large prime factor of its order falls away
        if (x := root(y, 0)) is not None:
            one = times(ORDER, (x, y))
            points |= {times(i, one) for i in range(8)}
        y += 1
    return {value.to_bytes(32, "little").hex() for _, y in points for value in (y, y + P) if value < 2**255}
