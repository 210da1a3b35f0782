"""What attention costs: for each way of mixing tokens its parameters, operations and saved activations.

Every function counts the whole attention, projections included, since the mixings differ in what they project.
"""

from __future__ import annotations

from manyheads.spec.arch import side
from manyheads.spec.parts import Attention, Channel, ClassAttention, CrossCovariance, Nystrom, Outlook, Softmax, Window

from .quantities import Formulas, Num, Params, Saved, linear, matmul, norm_params


def attention_params(op: Attention, width: Num) -> Params:
    """Projections, what the mixing adds, and the norms of queries and keys."""
    norm: Num = 0
    if op.qk_norm is not None:
        whole = op.qk_norm_over == "inner"
        norm = norm_params(op.qk_norm, op.inner if whole else op.head_dim)
        norm = norm + norm_params(op.qk_norm, op.kv_inner if whole else op.head_dim)
    return MIXES[type(op.mix)].params(op, op.mix, width) + Params(norm=norm)


def attention_flops(op: Attention, width: Num, tokens: Num, rows: Num) -> Num:
    """Projections in and out, and the mixing between them."""
    return MIXES[type(op.mix)].flops(op, op.mix, width, tokens)


def attention_saved(op: Attention, width: Num, tokens: Num, rows: Num, fused: bool) -> Saved:
    """What is kept between the two projections. With `fused` attention no tokens x tokens map is."""
    return MIXES[type(op.mix)].saved(op, op.mix, width, tokens, fused)


# ------------------------------------------------------------------------- softmax over all tokens, and what mixings share
def projected_params(op: Attention, mix: object, width: Num) -> Params:
    """Queries, keys and values in one matrix, and the output's matrix."""
    return Params(attention=linear(width, op.inner + 2 * op.kv_inner, op.qkv_bias) + _out(op, width))


def _out(op: Attention | ClassAttention, width: Num) -> Num:
    return linear(op.inner, width, op.out_bias)


def _projections(op: Attention, width: Num, rows: Num) -> Num:
    """Operations of both projections over `rows` tokens."""
    return matmul(rows, width, op.inner + 2 * op.kv_inner) + matmul(rows, op.inner, width)


def _in_and_out(op: Attention) -> Num:
    """Numbers a token of queries, keys, values and concatenated heads."""
    return 2 * op.inner + 2 * op.kv_inner


def softmax_flops(op: Attention, mix: Softmax, width: Num, tokens: Num) -> Num:
    """Two tokens x tokens products a head."""
    return _projections(op, width, tokens) + 2 * matmul(tokens, op.inner, tokens)


def softmax_saved(op: Attention, mix: Softmax, width: Num, tokens: Num, fused: bool) -> Saved:
    """Queries, keys, values, heads, and one map a head; with a cap, which no fused kernel computes, the capped scores as
    well."""
    maps = op.heads * tokens * tokens
    capped = 0 if mix.cap is None else maps
    return Saved(compute=tokens * _in_and_out(op) + capped, maps=0 if fused and mix.cap is None else maps)


# --------------------------------------------------------------------------------------------------- over channels
def cross_covariance_params(op: Attention, mix: CrossCovariance, width: Num) -> Params:
    """A temperature a head beside the projections."""
    return projected_params(op, mix, width) + Params(attention=op.heads)


def channel_flops(op: Attention, mix: CrossCovariance | Channel, width: Num, tokens: Num) -> Num:
    """Two products with a head_dim x head_dim map."""
    return _projections(op, width, tokens) + 2 * matmul(tokens, op.inner, op.head_dim)


def cross_covariance_saved(op: Attention, mix: CrossCovariance, width: Num, tokens: Num, fused: bool) -> Saved:
    """Queries and keys also as normalised, and the maps before and after their temperature."""
    return Saved(compute=7 * tokens * op.inner, maps=2 * op.inner * op.head_dim)


def channel_saved(op: Attention, mix: Channel, width: Num, tokens: Num, fused: bool) -> Saved:
    """Queries, keys, values, heads, and one head_dim x head_dim map a head."""
    return Saved(compute=tokens * _in_and_out(op), maps=op.inner * op.head_dim)


# ------------------------------------------------------------------------------------------------- inside windows
def _padded(tokens: int, size: int) -> int:
    """Tokens of a grid padded up to whole windows."""
    return (-(-side(tokens) // size) * size) ** 2


def window_flops(op: Attention, mix: Window, width: Num, tokens: int) -> Num:
    """Softmax attention over size x size tokens, those of the padding included."""
    rows = _padded(tokens, mix.size)
    return _projections(op, width, rows) + 2 * matmul(rows, op.inner, mix.size**2)


def window_saved(op: Attention, mix: Window, width: Num, tokens: int, fused: bool) -> Saved:
    """As softmax attention, and the tokens of the padding."""
    rows = _padded(tokens, mix.size)
    return Saved(
        compute=rows * _in_and_out(op) + (rows - tokens) * width, maps=0 if fused else op.heads * rows * mix.size**2
    )


# ------------------------------------------------------------------------------------------------------- outlook
def outlook_params(op: Attention, mix: Outlook, width: Num) -> Params:
    """Values, output, and the map that predicts a head's kernel^2 x kernel^2 weights."""
    weights = linear(width, op.heads * mix.kernel**4, True)
    return Params(attention=linear(width, op.inner, op.qkv_bias) + weights + _out(op, width))


def _locations(mix: Outlook, tokens: int) -> int:
    """Locations that weights are predicted for."""
    return (-(-side(tokens) // mix.stride)) ** 2


def outlook_flops(op: Attention, mix: Outlook, width: Num, tokens: int) -> Num:
    """Values and output for every token; weights and their products for every location."""
    spots = _locations(mix, tokens)
    weights = matmul(spots, width, op.heads * mix.kernel**4)
    values = matmul(tokens, width, op.inner) + matmul(tokens, op.inner, width)
    return values + weights + matmul(spots, op.inner, mix.kernel**4)


def outlook_saved(op: Attention, mix: Outlook, width: Num, tokens: int, fused: bool) -> Saved:
    """Values, unfolded to a neighbourhood a location, and the weights, which no fused kernel spares."""
    spots = _locations(mix, tokens)
    values = spots * op.inner * mix.kernel**2 + tokens * op.inner
    return Saved(compute=values + spots * width, maps=spots * op.heads * mix.kernel**4)


# ------------------------------------------------------------------------------------------------------- Nyström
def nystrom_params(op: Attention, mix: Nystrom, width: Num) -> Params:
    """A convolution's taps a head beside the projections."""
    return projected_params(op, mix, width) + Params(attention=op.heads * mix.conv)


def nystrom_flops(op: Attention, mix: Nystrom, width: Num, tokens: Num) -> Num:
    """Projections and `nystrom_mixing`."""
    return _projections(op, width, tokens) + nystrom_mixing(op, mix, tokens)


def nystrom_mixing(op: Attention, mix: Nystrom, tokens: Num) -> Num:
    """Operations between the projections: kernels to and between landmarks, the iterated pseudo-inverse, and
    right-associated products."""
    conv = 2 * tokens * op.inner * mix.conv
    if isinstance(tokens, int) and tokens == mix.landmarks:
        return 2 * matmul(tokens, op.inner, tokens) + conv
    landmarks = mix.landmarks
    kernels = 2 * matmul(tokens, op.inner, landmarks) + matmul(landmarks, op.inner, landmarks)
    inverse = mix.iterations * 4 * op.heads * matmul(landmarks, landmarks, landmarks)
    products = 2 * matmul(tokens, op.inner, landmarks) + matmul(landmarks, op.inner, landmarks)
    return kernels + inverse + products + conv


def nystrom_saved(op: Attention, mix: Nystrom, width: Num, tokens: Num, fused: bool) -> Saved:
    """All of it counts as stream: it is computed in float32 whatever autocast says."""
    squares = op.heads * (2 + 4 * mix.iterations) * mix.landmarks**2
    maps = squares if fused else squares + 2 * op.heads * tokens * mix.landmarks
    taps = 2 * tokens * op.inner if mix.conv else 0
    return Saved(stream=tokens * _in_and_out(op) + 5 * mix.landmarks * op.inner + maps, compute=taps)


# ------------------------------------------------------------------------------------- the class token alone asks
def class_attention_params(op: ClassAttention, width: Num) -> Params:
    """Queries, keys, values and output."""
    return Params(attention=linear(width, 3 * op.inner, op.qkv_bias) + _out(op, width))


def class_attention_flops(op: ClassAttention, width: Num, tokens: Num, rows: Num) -> Num:
    """One query, and keys and values of all tokens."""
    projections = matmul(1, width, op.inner) + matmul(tokens, width, 2 * op.inner)
    return projections + 2 * matmul(1, op.inner, tokens) + matmul(1, op.inner, width)


def class_attention_saved(op: ClassAttention, width: Num, tokens: Num, rows: Num, fused: bool) -> Saved:
    """Keys, values, one query and its answer, and a row of weights a head."""
    return Saved(compute=(2 * tokens + 2) * op.inner, maps=op.heads * tokens)


# params(op, mix, width), flops(op, mix, width, tokens), saved(op, mix, width, tokens, fused)
MIXES: dict[type, Formulas] = {
    Softmax: Formulas(projected_params, softmax_flops, softmax_saved),
    CrossCovariance: Formulas(cross_covariance_params, channel_flops, cross_covariance_saved),
    Channel: Formulas(projected_params, channel_flops, channel_saved),
    Window: Formulas(projected_params, window_flops, window_saved),
    Outlook: Formulas(outlook_params, outlook_flops, outlook_saved),
    Nystrom: Formulas(nystrom_params, nystrom_flops, nystrom_saved),
}
