"""Constants of the prediction of log kappa for Gaussian entries, as plain numbers: `theory.gaussian` computes with
them, and a report's page, which is written without numpy, hands them to its script."""

from __future__ import annotations

# Tracy-Widom distribution of real matrices: mean and variance.
TW_MEAN, TW_VARIANCE = -1.2065335745820, 1.6077810345810

# Near-square shapes have a hard edge: sigma_min^2 (n + p)/2 tends to a law of nu alone. Mean and standard deviation of
# half its log; nu = 0 (Edelman 1988: E log kappa = log n + 1.537) and the mean at nu = 1 (an exponential law) are
# exact, the others are from 110,000 samples of the bidiagonal model each, +-0.002. HARD_SHIFT / p is what small p adds.
# fmt: off
HARD_MEAN = (-0.8439, 0.0580, 0.505, 0.8015, 1.027, 1.208, 1.359, 1.491, 1.605, 1.708, 1.801, 1.886, 1.964, 2.035, 2.102,
             2.166, 2.2245)
HARD_SPREAD = (1.118, 0.640, 0.474, 0.387, 0.332, 0.294, 0.264, 0.2415, 0.2225, 0.2085, 0.195, 0.185, 0.174, 0.166, 0.159,
               0.153, 0.147)
# fmt: on
HARD_SHIFT = 0.3
