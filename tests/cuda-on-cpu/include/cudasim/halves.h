// 16-bit numbers: each operation is done in float32 and rounded once, as CUDA's intrinsics do for one operation.
#pragma once

namespace cudasim {
struct F16 {
    static float wide(unsigned short bits) { _Float16 h; __builtin_memcpy(&h, &bits, 2); return h; }
    static unsigned short narrow(float f) { _Float16 h = f; unsigned short bits; __builtin_memcpy(&bits, &h, 2); return bits; }
};
struct BF16 {
    static float wide(unsigned short bits) { unsigned u = unsigned(bits) << 16; float f; __builtin_memcpy(&f, &u, 4); return f; }
    static unsigned short narrow(float f) {
        unsigned u; __builtin_memcpy(&u, &f, 4);
        if (f != f) return 0x7fff;
        return (u + 0x7fff + (u >> 16 & 1)) >> 16;
    }
};
template <class Format> struct alignas(2) Half {
    unsigned short bits;
    Half() = default;
    template <class T, class = decltype(float(T()))> Half(T x) : bits(Format::narrow(float(x))) {}
    operator float() const { return Format::wide(bits); }
};
template <class Format> struct alignas(4) Half2 {
    Half<Format> x, y;
    Half2() = default;
    Half2(Half<Format> both) : x(both), y(both) {}
    Half2(Half<Format> a, Half<Format> b) : x(a), y(b) {}
};
#define CUDASIM_HALF_OPERATOR(op) \
    template <class F> static inline Half<F> operator op(Half<F> a, Half<F> b) { return Half<F>(float(a) op float(b)); } \
    template <class F> static inline Half2<F> operator op(Half2<F> a, Half2<F> b) { return {a.x op b.x, a.y op b.y}; }
CUDASIM_HALF_OPERATOR(+) CUDASIM_HALF_OPERATOR(-) CUDASIM_HALF_OPERATOR(*) CUDASIM_HALF_OPERATOR(/)
#define CUDASIM_HALF_COMPARE(op) \
    template <class F> static inline bool operator op(Half<F> a, Half<F> b) { return float(a) op float(b); }
CUDASIM_HALF_COMPARE(<) CUDASIM_HALF_COMPARE(<=) CUDASIM_HALF_COMPARE(>) CUDASIM_HALF_COMPARE(>=) CUDASIM_HALF_COMPARE(==) CUDASIM_HALF_COMPARE(!=)
template <class F> static inline Half<F> operator-(Half<F> a) { a.bits ^= 0x8000; return a; }
template <class F> static inline Half2<F> operator-(Half2<F> a) { return {-a.x, -a.y}; }
}
typedef cudasim::Half<cudasim::F16> __half;
typedef cudasim::Half<cudasim::BF16> __nv_bfloat16;
typedef cudasim::Half2<cudasim::F16> __half2;
typedef cudasim::Half2<cudasim::BF16> __nv_bfloat162;
#define CUDASIM_HALF_UNARY(one, two, expression) \
    template <class F> static inline cudasim::Half<F> one(cudasim::Half<F> h) { float x = h; return cudasim::Half<F>(float(expression)); } \
    template <class F> static inline cudasim::Half2<F> two(cudasim::Half2<F> h) { return {one(h.x), one(h.y)}; }
CUDASIM_HALF_UNARY(hexp, h2exp, __builtin_expf(x)) CUDASIM_HALF_UNARY(hlog, h2log, __builtin_logf(x)) CUDASIM_HALF_UNARY(hsqrt, h2sqrt, __builtin_sqrtf(x))
CUDASIM_HALF_UNARY(hrsqrt, h2rsqrt, 1.0f / __builtin_sqrtf(x)) CUDASIM_HALF_UNARY(hrcp, h2rcp, 1.0f / x) CUDASIM_HALF_UNARY(htanh, h2tanh, __builtin_tanhf(x))
CUDASIM_HALF_UNARY(hsin, h2sin, __builtin_sinf(x)) CUDASIM_HALF_UNARY(hcos, h2cos, __builtin_cosf(x)) CUDASIM_HALF_UNARY(hfloor, h2floor, __builtin_floorf(x))
CUDASIM_HALF_UNARY(hceil, h2ceil, __builtin_ceilf(x)) CUDASIM_HALF_UNARY(htrunc, h2trunc, __builtin_truncf(x)) CUDASIM_HALF_UNARY(hrint, h2rint, __builtin_rintf(x))
CUDASIM_HALF_UNARY(hexp2, h2exp2, __builtin_exp2f(x)) CUDASIM_HALF_UNARY(hlog2, h2log2, __builtin_log2f(x)) CUDASIM_HALF_UNARY(hexp10, h2exp10, __builtin_exp10f(x)) CUDASIM_HALF_UNARY(hlog10, h2log10, __builtin_log10f(x))
CUDASIM_HALF_UNARY(__habs, __habs2, __builtin_fabsf(x)) CUDASIM_HALF_UNARY(__hneg, __hneg2, -x)
#define CUDASIM_HALF_BINARY(one, two, expression) \
    template <class F> static inline cudasim::Half<F> one(cudasim::Half<F> g, cudasim::Half<F> h) { float x = g, y = h; return cudasim::Half<F>(float(expression)); } \
    template <class F> static inline cudasim::Half2<F> two(cudasim::Half2<F> g, cudasim::Half2<F> h) { return {one(g.x, h.x), one(g.y, h.y)}; }
CUDASIM_HALF_BINARY(__hmin, __hmin2, __builtin_fminf(x, y)) CUDASIM_HALF_BINARY(__hmax, __hmax2, __builtin_fmaxf(x, y))
CUDASIM_HALF_BINARY(__hmin_nan, __hmin2_nan, x != x ? x : y != y ? y : __builtin_fminf(x, y)) CUDASIM_HALF_BINARY(__hmax_nan, __hmax2_nan, x != x ? x : y != y ? y : __builtin_fmaxf(x, y))
CUDASIM_HALF_BINARY(__hadd, __hadd2, x + y) CUDASIM_HALF_BINARY(__hsub, __hsub2, x - y) CUDASIM_HALF_BINARY(__hmul, __hmul2, x * y) CUDASIM_HALF_BINARY(__hdiv, __h2div, x / y)
template <class F> static inline cudasim::Half<F> __hfma(cudasim::Half<F> a, cudasim::Half<F> b, cudasim::Half<F> c) { return cudasim::Half<F>(__builtin_fmaf(a, b, c)); }
template <class F> static inline cudasim::Half2<F> __hfma2(cudasim::Half2<F> a, cudasim::Half2<F> b, cudasim::Half2<F> c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
template <class F> static inline bool __hisnan(cudasim::Half<F> h) { return __builtin_isnan(float(h)); }
template <class F> static inline int __hisinf(cudasim::Half<F> h) { return __builtin_isinf(float(h)); }
static inline __half __float2half(float x) { return __half(x); }
static inline float __half2float(__half x) { return x; }
static inline __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
static inline float __bfloat162float(__nv_bfloat16 x) { return x; }
