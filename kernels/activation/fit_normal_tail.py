"""The polynomial of cpu.cc's exact GELU: prints its ten coefficients, q^0 first.

Phi(-t) = e^(-t^2 / 2) R(t), with R(t) = erfcx(t / sqrt(2)) / 2. R is fitted as a
polynomial in q = (t - 3) / (t + 3) for t in [0, 14.5], with the least largest
relative error (Lawson's iteration of weighted least squares), 9e-9.

  python3 kernels/activation/fit_normal_tail.py     (needs numpy and torch)
"""

import numpy as np
import torch

CENTER, LAST, DEGREE, POINTS = 3.0, 14.5, 9, 600

low, high = -1.0, (LAST - CENTER) / (LAST + CENTER)
x = np.cos(np.pi * (np.arange(POINTS) + 0.5) / POINTS)
q = low + (high - low) * (x + 1) / 2
t = CENTER * (1 + q) / (1 - q)
r = 0.5 * torch.special.erfcx(torch.tensor(t / np.sqrt(2))).numpy()

weights = np.ones(POINTS)
basis = np.polynomial.chebyshev.chebvander(x, DEGREE) / r[:, None]
for _ in range(60):
    root = np.sqrt(weights)
    fit = np.linalg.lstsq(basis * root[:, None], root, rcond=None)[0]
    error = np.abs(basis @ fit - 1)
    weights *= error
    weights /= weights.sum()
polynomial = np.polynomial.Chebyshev(fit, domain=[low, high]).convert(
    kind=np.polynomial.Polynomial)
print("relative error", error.max())
for coefficient in polynomial.coef:
    print(repr(float(coefficient)))
