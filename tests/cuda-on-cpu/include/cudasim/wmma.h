// Tensor cores through nvcuda::wmma.
#pragma once

// The C++ interface of tensor cores. Every lane holds all of a factor, and of the sums each 32nd.
namespace nvcuda { namespace wmma {
struct matrix_a; struct matrix_b; struct accumulator; struct row_major; struct col_major;
namespace precision { struct tf32 {}; }
enum layout_t { mem_row_major, mem_col_major };
static inline float __float_to_tf32(float f) { return cudasim::tf32(f); }

template <class T> struct stored { typedef T type; };
template <> struct stored<precision::tf32> { typedef float type; };
template <class Use, int M, int N, int K, class T, class Layout = void> struct fragment;
template <int M, int N, int K, class T, class Layout> struct fragment<matrix_a, M, N, K, T, Layout> {
    typedef typename stored<T>::type Number;
    static const int rows = M, columns = K, num_elements = M * K;
    Number x[num_elements];
};
template <int M, int N, int K, class T, class Layout> struct fragment<matrix_b, M, N, K, T, Layout> {
    typedef typename stored<T>::type Number;
    static const int rows = K, columns = N, num_elements = K * N;
    Number x[num_elements];
};
template <int M, int N, int K, class T> struct fragment<accumulator, M, N, K, T, void> {
    typedef T Number;
    static const int rows = M, columns = N, num_elements = M * N / 32;
    Number x[num_elements];
};
template <class Layout> struct is_column { static const bool value = false; };
template <> struct is_column<col_major> { static const bool value = true; };

// The lanes of a warp stand together at each of these, for the memory that one reads another has written.
template <class Use, int M, int N, int K, class T, class Layout, class P>
static inline void load(fragment<Use, M, N, K, T, Layout>& f, const P* from, unsigned stride, unsigned site) {
    cudasim::meet(site, cudasim::Needs::All);
    for (int r = 0; r < f.rows; r++)
        for (int c = 0; c < f.columns; c++) f.x[r * f.columns + c] = is_column<Layout>::value ? from[c * stride + r] : from[r * stride + c];
}
template <int M, int N, int K, class T, class P>
static inline void load(fragment<accumulator, M, N, K, T>& f, const P* from, unsigned stride, layout_t layout, unsigned site) {
    cudasim::meet(site, cudasim::Needs::All);
    for (int e = 0; e < f.num_elements; e++) {
        int at = e * 32 + cudasim_self->lane, r = at / N, c = at % N;
        f.x[e] = layout == mem_col_major ? from[c * stride + r] : from[r * stride + c];
    }
}
template <int M, int N, int K, class T, class P>
static inline void store(P* to, const fragment<accumulator, M, N, K, T>& f, unsigned stride, layout_t layout, unsigned site) {
    for (int e = 0; e < f.num_elements; e++) {
        int at = e * 32 + cudasim_self->lane, r = at / N, c = at % N;
        to[layout == mem_col_major ? c * stride + r : r * stride + c] = f.x[e];
    }
    cudasim::meet(site, cudasim::Needs::All);
}
template <class F, class V> static inline void fill_fragment(F& f, V value) { for (int i = 0; i < f.num_elements; i++) f.x[i] = typename F::Number(value); }
template <int M, int N, int K, class T, class A, class LA, class B, class LB>
static inline void mma_sync(fragment<accumulator, M, N, K, T>& d, const fragment<matrix_a, M, N, K, A, LA>& a,
                            const fragment<matrix_b, M, N, K, B, LB>& b, const fragment<accumulator, M, N, K, T>& c) {
    for (int e = 0; e < d.num_elements; e++) {
        int at = e * 32 + cudasim_self->lane, r = at / N, n = at % N;
        float sum = float(c.x[e]);
        for (int k = 0; k < K; k++) sum += float(a.x[r * K + k]) * float(b.x[k * N + n]);
        d.x[e] = T(sum);
    }
}
} }
#define load_matrix_sync(...) load(__VA_ARGS__, __COUNTER__)
#define store_matrix_sync(...) store(__VA_ARGS__, __COUNTER__)
