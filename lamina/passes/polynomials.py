"""Constants of the formulas for functions of f32: every number is a float32 value.

A polynomial is its coefficients, the lowest power first. Each was fitted to the least largest
relative error of the function that it serves (Lawson's weighted least squares), and rounded to
f32 one coefficient after another, the later ones fitted anew.
"""

from __future__ import annotations

from typing import Final

Polynomial = tuple[float, ...]

ROUND: Final = 12582912.0
"""1.5 * 2^23: added to |x| < 2^22 it leaves x rounded to even in the low bits of the sum."""

INVERSE_LN2: Final = 1.4426950216293335
INVERSE_LN2_REST: Final = 1.925963033500011e-08
"""1 / ln 2, less `INVERSE_LN2`."""

LN2: Final = 0.6931471824645996
LN2_HIGH: Final = 0.693145751953125
"""The first 16 bits of ln 2: a product by an integer of 8 bits is exact."""
LN2_LOW: Final = 1.428606765330187e-06
"""ln 2, less `LN2_HIGH`."""

TWO_OVER_PI: Final = 0.6366197466850281
HALF_PI: Final[Polynomial] = (1.570796251296997, 7.549789415861596e-08, 5.390302953474238e-15)
"""pi / 2 as a sum (Cody and Waite 1980), all of one sign, so that -0 stays -0."""

EXP: Final[Polynomial] = (
    1.0, 1.0, 0.5000003576278687, 0.166666179895401,
    0.041661228984594345, 0.008335934951901436, 0.0014104777947068214, 0.00019629749294836074,
)  # fmt: skip
"""e^x where |x| <= ln 2, to 2^-26."""

EXP_SHORT: Final[Polynomial] = (
    1.0, 0.9999997019767761, 0.49999141693115234,
    0.16667650640010834, 0.041898950934410095, 0.00828961469233036,
)  # fmt: skip
"""e^x where |x| <= ln 2 / 2, to 2^-23."""

EXP2: Final[Polynomial] = (
    1.0, 0.6931471824645996, 0.24022647738456726, 0.05550359562039375,
    0.009618503041565418, 0.0013390997191891074, 0.00015327802975662053,
)  # fmt: skip
"""2^x where |x| <= 1/2, to 2^-28."""

EXP2_SHORT: Final[Polynomial] = (
    1.0, 0.6931470036506653, 0.24022245407104492,
    0.0555071085691452, 0.009671391919255257, 0.001326970523223281,
)  # fmt: skip
"""2^x where |x| <= 1/2, to 2^-23."""

EXPM1: Final[Polynomial] = (
    0.4999999701976776, 0.1666654646396637,
    0.04166743531823158, 0.00836627185344696, 0.0013870695838704705,
)  # fmt: skip
"""((e^x - 1) / x - 1) / x where |x| <= ln 2 / 2, to 2^-26."""

LOG1P: Final[Polynomial] = (
    -0.5, 0.333339124917984, -0.2500133514404297, 0.19962985813617706,
    -0.16577604413032532, 0.14915691316127777, -0.14267677068710327, 0.086978480219841,
)  # fmt: skip
"""(ln(1 + x) - x) / x^2 where 1 + x is in [sqrt 1/2, sqrt 2], to 2^-24."""

LOG2_RATIO: Final[Polynomial] = (
    0.9617967009544373, 0.5770788788795471, 0.4119214713573456, 0.3366246819496155,
)  # fmt: skip
"""(log2((1 + u) / (1 - u)) - u * 2 / ln 2) / u^3 in u^2, where |u| <= 0.1716; log2 to 2^-36."""

TANH: Final[Polynomial] = (
    1.0, -0.3333328068256378, 0.13331405818462372,
    -0.05373651534318924, 0.02062816731631756, -0.005692296661436558,
)  # fmt: skip
"""tanh(x) / x in x^2, where |x| <= `TANH_SMALL`, to 2^-27."""
TANH_SMALL: Final = 0.625
TANH_LARGE: Final = 10.0
"""From here on tanh is 1 in f32."""

ERF: Final[Polynomial] = (
    0.12837913632392883, -0.3761241137981415, 0.11281008273363113,
    -0.026739193126559258, 0.00495535135269165, -0.0005808630376122892,
)  # fmt: skip
"""erf(x) / x - 1 in x^2, where |x| <= `ERF_SMALL`, to 2^-25."""
ERFC_LOG2: Final[Polynomial] = (
    -1.6280874013900757, -0.9171967506408691, -0.15179668366909027,
    0.03298252820968628, -0.004625606816262007, 0.000307198497466743,
)  # fmt: skip
"""log2(1 - erf x) / x, where x is in [`ERF_SMALL`, `ERF_LARGE`]; it gives erf to 2^-28."""
ERF_SMALL: Final = 0.95
ERF_LARGE: Final = 4.0
"""From here on erf is 1 in f32."""

NORMAL_TAIL_LOG2: Final[Polynomial] = (
    -1.0, -1.1511268615722656, -0.4590255320072174, -0.05301257222890854,
    0.007749335840344429, -0.0006195285823196173, -1.5523824004048947e-06, 3.198063723175437e-06,
)  # fmt: skip
"""log2((1 - erf(x / sqrt 2)) / 2), where x is in [0, `GELU_LARGE`]; to 2^-20 of the tail."""
GELU_LARGE: Final = 6.0
"""From here on gelu is x or 0 to 2^-26."""

SIN: Final[Polynomial] = (-0.16666655242443085, 0.008332187309861183, -0.00019517906184773892)
"""(sin(x) / x - 1) / x^2 in x^2, where |x| <= pi / 4; sin to 2^-27."""
COS: Final[Polynomial] = (
    1.0, -0.5, 0.04166664555668831, -0.0013887309469282627, 2.4432327336398885e-05,
)  # fmt: skip
"""cos x in x^2, where |x| <= pi / 4, to 2^-32."""

ASIN: Final[Polynomial] = (
    0.16666752099990845, 0.07495306432247162, 0.045469772070646286,
    0.02418077550828457, 0.04216640442609787,
)  # fmt: skip
"""(asin(x) / x - 1) / x^2 in x^2, where |x| <= 1/2; asin to 2^-27."""
ATAN: Final[Polynomial] = (
    -0.33333298563957214, 0.1999852955341339, -0.1426401436328888, 0.10950861126184464,
    -0.08399207890033722, 0.05787887051701546, -0.0310935340821743, 0.010866271331906319,
    -0.0017821441870182753,
)  # fmt: skip
"""(atan(x) / x - 1) / x^2 in x^2, where |x| <= 1; atan to 2^-28."""
QUARTER_TURN: Final = 1.5707963705062866
QUARTER_TURN_REST: Final = -4.371139000186241e-08
"""pi / 2, less `QUARTER_TURN`, the nearest float to it."""

SINH: Final[Polynomial] = (
    0.1666666716337204, 0.00833331048488617, 0.00019842895562760532, 2.7822131869470468e-06,
)  # fmt: skip
"""(sinh(x) / x - 1) / x^2 in x^2, where |x| <= 1; sinh to 2^-31."""
