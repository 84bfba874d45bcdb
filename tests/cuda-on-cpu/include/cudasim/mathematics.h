// CUDA's mathematical functions, from those of the compiler. Fast forms (`__expf`) are as exact as the others here.
#pragma once

#define CUDASIM_UNARY(name) \
    static inline float name(float x) { return __builtin_##name##f(x); } \
    static inline double name(double x) { return __builtin_##name(x); }
#define CUDASIM_NAMED_F(name) static inline float name##f(float x) { return __builtin_##name##f(x); }
#define CUDASIM_BOTH(name) CUDASIM_UNARY(name) CUDASIM_NAMED_F(name)
CUDASIM_BOTH(exp) CUDASIM_BOTH(log) CUDASIM_BOTH(log1p) CUDASIM_BOTH(expm1) CUDASIM_BOTH(exp2) CUDASIM_BOTH(log2) CUDASIM_BOTH(log10)
CUDASIM_BOTH(sqrt) CUDASIM_BOTH(cbrt) CUDASIM_BOTH(sin) CUDASIM_BOTH(cos) CUDASIM_BOTH(tan) CUDASIM_BOTH(asin) CUDASIM_BOTH(acos) CUDASIM_BOTH(atan)
CUDASIM_BOTH(sinh) CUDASIM_BOTH(cosh) CUDASIM_BOTH(tanh) CUDASIM_BOTH(asinh) CUDASIM_BOTH(acosh) CUDASIM_BOTH(atanh)
CUDASIM_BOTH(floor) CUDASIM_BOTH(ceil) CUDASIM_BOTH(round) CUDASIM_BOTH(trunc) CUDASIM_BOTH(rint) CUDASIM_BOTH(nearbyint) CUDASIM_BOTH(erf) CUDASIM_BOTH(erfc) CUDASIM_BOTH(fabs)
#define CUDASIM_BINARY(name) \
    static inline float name(float x, float y) { return __builtin_##name##f(x, y); } \
    static inline double name(double x, double y) { return __builtin_##name(x, y); } \
    static inline float name##f(float x, float y) { return __builtin_##name##f(x, y); }
CUDASIM_BINARY(fmod) CUDASIM_BINARY(pow) CUDASIM_BINARY(atan2) CUDASIM_BINARY(hypot) CUDASIM_BINARY(fmin) CUDASIM_BINARY(fmax) CUDASIM_BINARY(copysign)
static inline float pow(float x, int y) { return __builtin_powf(x, y); }
static inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
static inline float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
static inline float rsqrtf(float x) { return rsqrt(x); }
static inline float rhypotf(float x, float y) { return 1.0f / __builtin_hypotf(x, y); }
static inline double rhypot(double x, double y) { return 1.0 / __builtin_hypot(x, y); }
static inline bool isnan(float x) { return __builtin_isnan(x); }
static inline bool isnan(double x) { return __builtin_isnan(x); }
static inline bool isinf(float x) { return __builtin_isinf(x); }
static inline bool isinf(double x) { return __builtin_isinf(x); }
#define CUDASIM_FAST(name) static inline float __##name##f(float x) { return __builtin_##name##f(x); }
CUDASIM_FAST(exp) CUDASIM_FAST(log) CUDASIM_FAST(log2) CUDASIM_FAST(log10) CUDASIM_FAST(sin) CUDASIM_FAST(cos) CUDASIM_FAST(tan) CUDASIM_FAST(tanh)
static inline float __exp10f(float x) { return __builtin_exp10f(x); }
static inline float __powf(float x, float y) { return __builtin_powf(x, y); }
static inline float __fdividef(float x, float y) { return x / y; }
static inline float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
static inline float __frsqrt_rn(float x) { return 1.0f / __builtin_sqrtf(x); }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline float __saturatef(float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }

template <class A, class B> struct cudasim_common { typedef decltype(true ? A() : B()) type; };
template <class A, class B> static inline typename cudasim_common<A, B>::type min(A a, B b) { typedef typename cudasim_common<A, B>::type T; return T(b) < T(a) ? T(b) : T(a); }
template <class A, class B> static inline typename cudasim_common<A, B>::type max(A a, B b) { typedef typename cudasim_common<A, B>::type T; return T(a) < T(b) ? T(b) : T(a); }
static inline float min(float a, float b) { return __builtin_fminf(a, b); }
static inline float max(float a, float b) { return __builtin_fmaxf(a, b); }
static inline double min(double a, double b) { return __builtin_fmin(a, b); }
static inline double max(double a, double b) { return __builtin_fmax(a, b); }
static inline int abs(int x) { return x < 0 ? -x : x; }
static inline long long abs(long long x) { return x < 0 ? -x : x; }
static inline float abs(float x) { return __builtin_fabsf(x); }
static inline double abs(double x) { return __builtin_fabs(x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned __brev(unsigned x) { unsigned r = 0; for (int i = 0; i < 32; i++) r |= (x >> i & 1) << (31 - i); return r; }
static inline unsigned long long __brevll(unsigned long long x) { unsigned long long r = 0; for (int i = 0; i < 64; i++) r |= (x >> i & 1) << (63 - i); return r; }
static inline int __mulhi(int a, int b) { return (long long)a * b >> 32; }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned long long)a * b >> 32; }
static inline long long __mul64hi(long long a, long long b) { return (__int128)a * b >> 64; }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) { return (unsigned __int128)a * b >> 64; }
static inline float __int_as_float(int x) { float f; __builtin_memcpy(&f, &x, 4); return f; }
static inline int __float_as_int(float x) { int i; __builtin_memcpy(&i, &x, 4); return i; }
static inline float __uint_as_float(unsigned x) { float f; __builtin_memcpy(&f, &x, 4); return f; }
static inline unsigned __float_as_uint(float x) { unsigned i; __builtin_memcpy(&i, &x, 4); return i; }
