// Tensor cores through PTX: mma.sync, ldmatrix and stmatrix. Which lane holds which numbers is as the PTX manual says
// ("Matrix fragments for mma.m16n8k16" and its neighbours). Sums are float32 in the order of k.
#pragma once

namespace cudasim {

static inline float tf32(float f) {
    unsigned u;
    __builtin_memcpy(&u, &f, 4);
    u &= 0xffffe000;
    __builtin_memcpy(&f, &u, 4);
    return f;
}

// How the numbers of a factor lie in registers. PER of them share one register.
template <class Format> struct Halves {
    static const int PER = 2;
    static float get(unsigned bits, int which) { return Format::wide(bits >> (16 * which)); }
};
struct Tf32 {
    static const int PER = 1;
    static float get(unsigned bits, int) { float f; __builtin_memcpy(&f, &bits, 4); return tf32(f); }
};

// m16n8kK: lane l is at row l / 4 and register column l % 4; a lane gives A and B registers and four sums.
template <class Numbers, int K> struct Mma : WarpOp {
    static const int WIDE = Numbers::PER * 4;         // columns that one register of each lane covers
    static const int B = K / WIDE, A = 2 * B;
    unsigned a[A], b[B];
    float c[4], d[4];
};
template <class Numbers, int K> static void resolve_mma(WarpOp** lanes, unsigned) {
    typedef Mma<Numbers, K> Op;
    float a[16][K], b[K][8];
    for (int lane = 0; lane < 32; lane++) {
        auto& op = *static_cast<Op*>(lanes[lane]);
        int row = lane >> 2, column = lane & 3;
        for (int e = 0; e < Numbers::PER; e++) {
            int k = column * Numbers::PER + e;
            for (int r = 0; r < Op::A; r++) a[row + (r & 1) * 8][k + (r >> 1) * Op::WIDE] = Numbers::get(op.a[r], e);
            for (int r = 0; r < Op::B; r++) b[k + r * Op::WIDE][row] = Numbers::get(op.b[r], e);
        }
    }
    for (int lane = 0; lane < 32; lane++) {
        auto& op = *static_cast<Op*>(lanes[lane]);
        int row = lane >> 2, column = lane & 3;
        for (int r = 0; r < 4; r++) {
            float sum = op.c[r];
            for (int k = 0; k < K; k++) sum += a[row + (r >> 1) * 8][k] * b[k][column * 2 + (r & 1)];
            op.d[r] = sum;
        }
    }
}
static inline unsigned register_of(unsigned x) { return x; }
static inline unsigned register_of(int x) { return x; }
static inline unsigned register_of(float x) { unsigned u; __builtin_memcpy(&u, &x, 4); return u; }

// The operands as PTX has them: four results, then the registers of A, of B, and four sums.
template <class Numbers, int K, class... R>
static inline void mma(unsigned site, float& d0, float& d1, float& d2, float& d3, R... registers) {
    typedef Mma<Numbers, K> Op;
    Op op;
    op.resolve = resolve_mma<Numbers, K>; op.site = site; op.needs = Needs::All;
    const unsigned all[] = {register_of(registers)...};
    static_assert(sizeof...(registers) == Op::A + Op::B + 4, "operands of this shape");
    for (int i = 0; i < Op::A; i++) op.a[i] = all[i];
    for (int i = 0; i < Op::B; i++) op.b[i] = all[Op::A + i];
    __builtin_memcpy(op.c, all + Op::A + Op::B, sizeof op.c);
    cudasim_self->collective(cudasim_self, &op);
    d0 = op.d[0]; d1 = op.d[1]; d2 = op.d[2]; d3 = op.d[3];
}

// ldmatrix and stmatrix: 8 x 8 matrices of 16-bit numbers. Lane 8 * m + r points at row r of matrix m.
struct MoveMatrix : WarpOp { unsigned at, bits[4]; int count; bool transposed; };
static inline unsigned short* row_of_matrix(WarpOp** lanes, int matrix, int row) {
    return (unsigned short*)from_shared(static_cast<MoveMatrix*>(lanes[matrix * 8 + row])->at);
}
// The two numbers that a lane holds of a matrix.
static inline void places_of(WarpOp** lanes, int lane, int matrix, bool transposed, unsigned short** low, unsigned short** high) {
    int row = lane >> 2, column = (lane & 3) * 2;
    *low = transposed ? row_of_matrix(lanes, matrix, column) + row : row_of_matrix(lanes, matrix, row) + column;
    *high = transposed ? row_of_matrix(lanes, matrix, column + 1) + row : *low + 1;
}
static void resolve_ldmatrix(WarpOp** lanes, unsigned) {
    for (int lane = 0; lane < 32; lane++) {
        auto& op = *static_cast<MoveMatrix*>(lanes[lane]);
        for (int m = 0; m < op.count; m++) {
            unsigned short *low, *high;
            places_of(lanes, lane, m, op.transposed, &low, &high);
            op.bits[m] = *low | unsigned(*high) << 16;
        }
    }
}
static void resolve_stmatrix(WarpOp** lanes, unsigned) {
    for (int lane = 0; lane < 32; lane++) {
        auto& op = *static_cast<MoveMatrix*>(lanes[lane]);
        for (int m = 0; m < op.count; m++) {
            unsigned short *low, *high;
            places_of(lanes, lane, m, op.transposed, &low, &high);
            *low = op.bits[m];
            *high = op.bits[m] >> 16;
        }
    }
}
static inline void ldmatrix(unsigned site, bool transposed, unsigned at, unsigned** to, int count) {
    MoveMatrix op;
    op.resolve = resolve_ldmatrix; op.site = site; op.needs = Needs::All;
    op.at = at; op.count = count; op.transposed = transposed;
    cudasim_self->collective(cudasim_self, &op);
    for (int m = 0; m < count; m++) *to[m] = op.bits[m];
}
template <class... R> static inline void stmatrix(unsigned site, bool transposed, unsigned at, R... values) {
    MoveMatrix op = {};
    op.resolve = resolve_stmatrix; op.site = site; op.needs = Needs::All;
    op.at = at; op.count = sizeof...(values); op.transposed = transposed;
    const unsigned all[] = {values...};
    __builtin_memcpy(op.bits, all, sizeof all);
    cudasim_self->collective(cudasim_self, &op);
}
// PTX has the address last.
static inline void ldmatrix1(unsigned site, bool t, unsigned& a, unsigned at) { unsigned* to[] = {&a}; ldmatrix(site, t, at, to, 1); }
static inline void ldmatrix2(unsigned site, bool t, unsigned& a, unsigned& b, unsigned at) {
    unsigned* to[] = {&a, &b};
    ldmatrix(site, t, at, to, 2);
}
static inline void ldmatrix4(unsigned site, bool t, unsigned& a, unsigned& b, unsigned& c, unsigned& d, unsigned at) {
    unsigned* to[] = {&a, &b, &c, &d};
    ldmatrix(site, t, at, to, 4);
}

}

#define CUDASIM_MMA(numbers, k, ...) cudasim::mma<numbers, k>(__COUNTER__, __VA_ARGS__)
#define cudasim_ptx_mma_sync_aligned_m16n8k8_row_col_f32_f16_f16_f32(...) CUDASIM_MMA(cudasim::Halves<cudasim::F16>, 8, __VA_ARGS__)
#define cudasim_ptx_mma_sync_aligned_m16n8k16_row_col_f32_f16_f16_f32(...) CUDASIM_MMA(cudasim::Halves<cudasim::F16>, 16, __VA_ARGS__)
#define cudasim_ptx_mma_sync_aligned_m16n8k16_row_col_f32_bf16_bf16_f32(...) CUDASIM_MMA(cudasim::Halves<cudasim::BF16>, 16, __VA_ARGS__)
#define cudasim_ptx_mma_sync_aligned_m16n8k8_row_col_f32_tf32_tf32_f32(...) CUDASIM_MMA(cudasim::Tf32, 8, __VA_ARGS__)

#define cudasim_ptx_ldmatrix_sync_aligned_m8n8_x1_shared__cta_b16(...) cudasim::ldmatrix1(__COUNTER__, false, __VA_ARGS__)
#define cudasim_ptx_ldmatrix_sync_aligned_m8n8_x2_shared__cta_b16(...) cudasim::ldmatrix2(__COUNTER__, false, __VA_ARGS__)
#define cudasim_ptx_ldmatrix_sync_aligned_m8n8_x4_shared__cta_b16(...) cudasim::ldmatrix4(__COUNTER__, false, __VA_ARGS__)
#define cudasim_ptx_ldmatrix_sync_aligned_m8n8_x1_trans_shared__cta_b16(...) cudasim::ldmatrix1(__COUNTER__, true, __VA_ARGS__)
#define cudasim_ptx_ldmatrix_sync_aligned_m8n8_x2_trans_shared__cta_b16(...) cudasim::ldmatrix2(__COUNTER__, true, __VA_ARGS__)
#define cudasim_ptx_ldmatrix_sync_aligned_m8n8_x4_trans_shared__cta_b16(...) cudasim::ldmatrix4(__COUNTER__, true, __VA_ARGS__)
#define cudasim_ptx_stmatrix_sync_aligned_m8n8_x1_shared__cta_b16(...) cudasim::stmatrix(__COUNTER__, false, __VA_ARGS__)
#define cudasim_ptx_stmatrix_sync_aligned_m8n8_x2_shared__cta_b16(...) cudasim::stmatrix(__COUNTER__, false, __VA_ARGS__)
#define cudasim_ptx_stmatrix_sync_aligned_m8n8_x4_shared__cta_b16(...) cudasim::stmatrix(__COUNTER__, false, __VA_ARGS__)
#define cudasim_ptx_stmatrix_sync_aligned_m8n8_x1_trans_shared__cta_b16(...) cudasim::stmatrix(__COUNTER__, true, __VA_ARGS__)
#define cudasim_ptx_stmatrix_sync_aligned_m8n8_x2_trans_shared__cta_b16(...) cudasim::stmatrix(__COUNTER__, true, __VA_ARGS__)
#define cudasim_ptx_stmatrix_sync_aligned_m8n8_x4_trans_shared__cta_b16(...) cudasim::stmatrix(__COUNTER__, true, __VA_ARGS__)
