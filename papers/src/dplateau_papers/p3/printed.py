"""What Wu, Wang, Cristali, Gu and Willett 2021 (P3) print about accuracy. Data, not results of this library.

CIFAR-10, a convolutional network that was trained on CIFAR-100 before, batches of 256, five trainings of each, delta 1e-5. Their
epsilon-bar is a sixteenth of the epsilon that they prove.
"""

from __future__ import annotations

from typing import Final, TypeAlias

EPOCHS: Final = (60, 120, 200)
Gaps: TypeAlias = dict[tuple[float, float], tuple[float | None, ...]]
"""For an epsilon-bar and a clip norm: "Gap", accuracy of ADP-SGD less that of DP-SGD in points, after each of ``EPOCHS``."""


def _gaps(clips: tuple[float, ...], rows: dict[float, tuple[float | None, ...]]) -> Gaps:
    return {(budget, clip): row[3 * k : 3 * k + 3] for k, clip in enumerate(clips) for budget, row in rows.items()}


TABLE_1: Final = _gaps(
    (0.5, 1.0, 2.5),
    {
        0.8: (0.93, 7.98, 13.14, 7.54, 13.14, 15.4, 11.61, 12.73, 7.01),
        1.2: (0.13, 2.08, 9.26, 1.69, 11.26, 14.49, 13.36, 14.31, 13.48),
        1.6: (0.5, 0.66, 3.98, 0.63, 5.0, 12.02, 8.14, 13.03, 13.78),
        3.2: (0.12, 0.23, 0.22, 0.22, 0.23, 2.62, 1.45, 6.54, 9.27),
        6.4: (0.25, 0.01, 0.1, -0.32, 0.34, 0.63, 0.12, 0.72, 3.04),
    },
)
"""Best iterates, steps 0.1 - r sqrt(t)."""
TABLE_4: Final = _gaps(
    (0.5, 1.0, 2.5),
    {
        0.8: (0.45, 3.41, 3.69, 3.35, 11.3, None, None, None, None),
        1.2: (-0.12, 1.36, 3.18, 0.8, 2.48, 5.86, 1.83, None, None),
        1.6: (0.35, 0.19, 2.23, 0.35, 1.71, 0.7, 2.95, 2.66, None),
        3.2: (0.09, 0.21, 0.14, 0.06, -0.11, 1.21, 0.98, 2.12, 5.71),
        6.4: (0.21, -0.05, 0.06, -0.32, 0.22, 0.45, 0.01, 0.23, 1.01),
    },
)
"""Last iterates of the same; "N/A" where an accuracy is less than 15 per cent."""
TABLE_2: Final = _gaps(
    (0.5, 1.0, 2.5, 5.0),
    {
        0.8: (-0.2, 0.64, 0.96, 0.25, 1.48, 7.03, 10.55, 20.47, 22.17, 17.27, 16.66, 13.29),
        1.2: (0.69, -0.05, -0.24, 0.17, 0.22, 1.12, 0.92, 9.1, 18.7, 15.72, 22.37, 24.05),
        1.6: (1.17, 0.69, -1.32, 0.12, 0.09, 0.42, -0.24, 2.92, 9.33, 7.86, 19.56, 25.02),
        3.2: (-0.58, -0.42, -0.15, -0.26, 0.39, 0.43, -0.44, 0.68, 0.57, 0.27, 1.79, 6.16),
        6.4: (1.33, 0.19, -0.17, 0.14, -0.04, -0.1, 0.29, 0.26, 0.23, 0.28, 0.0, 0.69),
    },
)
"""Best iterates, steps 1 / sqrt(20 + t). Half of the table has its first row at 0.9; the text and the other half say 0.8."""
TABLE_5: Final = _gaps(
    (0.5, 1.0, 2.5, 5.0),
    {
        0.8: (-0.15, 0.01, 0.82, -0.28, 0.09, 3.53, -1.35, 3.89, None, None, None, None),
        1.2: (0.67, 0.09, -0.33, 0.15, -0.06, 0.39, -0.7, 0.73, 1.61, -1.89, None, None),
        1.6: (1.36, 0.54, -1.62, -0.03, 0.18, 0.2, -0.7, 0.45, 2.35, 0.64, -0.71, 4.37),
        3.2: (-0.55, -0.39, -0.11, -0.31, 0.32, 0.38, -0.63, 0.54, 0.35, 0.12, -0.09, 1.41),
        6.4: (1.31, 0.19, -0.16, 0.17, -0.07, -0.25, 0.36, 0.28, 0.2, 0.19, 0.1, 0.49),
    },
)
"""Last iterates of the same."""
TABLE_3: Final = {
    (0.8, 1.0): (56.68, 56.24),
    (1.6, 1.0): (62.09, 62.02),
    (3.2, 1.0): (64.51, 64.33),
    (6.4, 1.0): (67.75, 67.42),
    (0.8, 2.5): (56.27, 55.65),
    (1.6, 2.5): (62.38, 62.23),
    (3.2, 2.5): (64.29, 64.26),
    (6.4, 2.5): (67.55, 66.23),
}
"""For an epsilon-bar and a clip norm: accuracy of ADP-SGD, the best of 36 pairs (beta, C), and of DP-SGD, the best of 6 beta."""
