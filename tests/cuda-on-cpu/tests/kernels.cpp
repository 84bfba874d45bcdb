// Kernels with everything that threads of a block and lanes of a warp do together.
#include "harness.h"

#include <functional>

// A sum of a block: within warps by exchange, then through shared memory.
static void barriers_and_shared_memory_and_exchanges() {
    CUfunction sum = kernel(R"(
extern "C" __global__ void __launch_bounds__(96) sum(const float* const __restrict__ in, float* const __restrict__ out) {
    extern __shared__ __align__(16) char memory[];
    float v = in[blockIdx.x * 96 + threadIdx.x];
    for (int d = 16; d > 0; d /= 2) v = v + __shfl_xor_sync(__activemask(), v, d);
    float* warps = reinterpret_cast<float*>(memory);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = warps[0] + warps[1] + warps[2];
})", "sum");
    std::vector<float> in(96 * 5);
    for (size_t i = 0; i < in.size(); i++) in[i] = float(i % 17) - 3;
    Buffer<float> from(in), to(std::vector<float>(5));
    launch(sum, 5, 96, 64, {&from.at, &to.at});
    auto sums = to.read();
    for (int b = 0; b < 5; b++) {
        float expected = 0;
        for (int i = 0; i < 96; i++) expected += in[b * 96 + i];
        CHECK(sums[b] == expected);
    }
}

static void votes_and_other_exchanges() {
    CUfunction votes = kernel(R"(
extern "C" __global__ void __launch_bounds__(32) votes(unsigned* const out) {
    unsigned lane = threadIdx.x;
    unsigned ballot = __ballot_sync(__activemask(), lane % 3 == 0);
    unsigned all = __all_sync(__activemask(), lane < 32), some = __any_sync(__activemask(), lane == 40);
    unsigned up = __shfl_up_sync(__activemask(), lane, 1), down = __shfl_down_sync(__activemask(), lane, 2);
    unsigned one = __shfl_sync(__activemask(), lane * lane, 5), half = 0;
    if (lane < 16) half = __ballot_sync(__activemask(), true);
    unsigned* mine = out + lane * 7;
    mine[0] = ballot; mine[1] = all; mine[2] = some; mine[3] = up; mine[4] = down; mine[5] = one; mine[6] = half;
})", "votes");
    Buffer<unsigned> to(std::vector<unsigned>(32 * 7));
    launch(votes, 1, 32, 0, {&to.at});
    auto out = to.read();
    unsigned thirds = 0;
    for (unsigned i = 0; i < 32; i += 3) thirds |= 1u << i;
    for (unsigned lane = 0; lane < 32; lane++) {
        const unsigned* mine = &out[lane * 7];
        CHECK(mine[0] == thirds && mine[1] == 1 && mine[2] == 0);
        CHECK(mine[3] == (lane ? lane - 1 : 0) && mine[4] == (lane < 30 ? lane + 2 : lane) && mine[5] == 25);
        CHECK(mine[6] == (lane < 16 ? 0xffffu : 0u));
    }
}

static void atomics() {
    CUfunction count = kernel(R"(
extern "C" __global__ void __launch_bounds__(64) count(unsigned* const n, float* const sum, int* const least) {
    atomicAdd(n, 1u);
    float before;
    asm volatile("atom.relaxed.add.f32 %0, [%1], %2;" : "=f"(before) : "l"(sum), "f"(0.5f) : "memory");
    atomicMin(least, int(threadIdx.x) - 20);
    atomicCAS(n + 1, 0u, threadIdx.x + 1);
})", "count");
    Buffer<unsigned> n({0, 0});
    Buffer<float> sum({1});
    Buffer<int> least({0});
    launch(count, 3, 64, 0, {&n.at, &sum.at, &least.at});
    CHECK(n.read()[0] == 192 && n.read()[1] == 1);
    CHECK(sum.read()[0] == 97 && least.read()[0] == -20);
}

// Threads copy to shared memory and others wait for it at an mbarrier. Two barriers lie side by side: each has 8 bytes.
static void copies_and_mbarriers() {
    CUfunction relay = kernel(R"(
#include <cuda/barrier>
extern "C" __global__ void __launch_bounds__(64) relay(const float* const in, float* const out) {
    extern __shared__ __align__(16) char memory[];
    typedef cuda::barrier<cuda::thread_scope_block> Barrier;
    Barrier* full = reinterpret_cast<Barrier*>(memory);
    Barrier* empty = reinterpret_cast<Barrier*>(memory + 8);
    float* tile = reinterpret_cast<float*>(memory + 16);
    if (threadIdx.x == 0) { init(full, 32); init(empty, 32); }
    __syncthreads();
    for (int round = 0; round < 4; round++) {
        if (threadIdx.x < 32) {
            empty->wait_parity((round & 1) ^ 1);
            unsigned to = __cvta_generic_to_shared(tile + threadIdx.x * 4);
            const float* from = in + round * 128 + threadIdx.x * 4;
            unsigned there = threadIdx.x == 31 ? 8 : 16;
            asm volatile("cp.async.cg.shared::cta.global [%0], [%1], 16, %2;" : : "r"(to), "l"(from), "r"(there) : "memory");
            unsigned bar = __cvta_generic_to_shared(cuda::device::barrier_native_handle(*full));
            asm volatile("cp.async.mbarrier.arrive.shared::cta.b64 [%0];" : : "r"(bar) : "memory");
            full->arrive();
        } else {
            full->wait_parity(round & 1);
            for (int i = 0; i < 4; i++) out[round * 128 + (threadIdx.x - 32) * 4 + i] = tile[(threadIdx.x - 32) * 4 + i] * 2;
            empty->arrive();
        }
    }
})", "relay");
    std::vector<float> in(512);
    for (int i = 0; i < 512; i++) in[i] = i;
    Buffer<float> from(in), to(std::vector<float>(512));
    launch(relay, 1, 64, 1024, {&from.at, &to.at});
    auto out = to.read();
    for (int i = 0; i < 512; i++) CHECK(out[i] == (i % 128 < 126 ? 2 * i : 0));  // the last two were not there
}

// m16n8k16 in bf16, with factors loaded by ldmatrix, and the sums stored by stmatrix.
static void products_of_matrices_through_ptx() {
    CUfunction product = kernel(R"(
#include <cuda_bf16.h>
extern "C" __global__ void __launch_bounds__(32) product(const __nv_bfloat16* const a, const __nv_bfloat16* const b, float* const d,
        unsigned short* const moved) {
    extern __shared__ __align__(16) char memory[];
    __nv_bfloat16* sa = reinterpret_cast<__nv_bfloat16*>(memory);
    __nv_bfloat16* sb = sa + 256;
    unsigned short* back = reinterpret_cast<unsigned short*>(memory + 768);
    int lane = threadIdx.x;
    for (int i = lane; i < 256; i += 32) sa[i] = a[i];
    for (int i = lane; i < 128; i += 32) sb[i] = b[i];
    __syncwarp();
    unsigned ra0, ra1, ra2, ra3, rb0, rb1;
    unsigned pa = __cvta_generic_to_shared(sa + (lane % 16) * 16 + lane / 16 * 8), pb = __cvta_generic_to_shared(sb + (lane % 16) * 8);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared::cta.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(ra0), "=r"(ra1), "=r"(ra2), "=r"(ra3) : "r"(pa) : "memory");
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared::cta.b16 {%0, %1}, [%2];" : "=r"(rb0), "=r"(rb1) : "r"(pb) : "memory");
    float c = 1, d0, d1, d2, d3;
    asm ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=f"(d0), "=f"(d1), "=f"(d2), "=f"(d3)
        : "r"(ra0), "r"(ra1), "r"(ra2), "r"(ra3), "r"(rb0), "r"(rb1), "f"(c), "f"(c), "f"(c), "f"(c));
    int g = lane >> 2, t = lane & 3;
    d[g * 8 + t * 2] = d0; d[g * 8 + t * 2 + 1] = d1; d[(g + 8) * 8 + t * 2] = d2; d[(g + 8) * 8 + t * 2 + 1] = d3;
    unsigned to = __cvta_generic_to_shared(back + (lane % 16) * 8);
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared::cta.b16 [%0], {%1, %2};" : : "r"(to), "r"(rb0), "r"(rb1) : "memory");
    __syncwarp();
    for (int i = lane; i < 128; i += 32) moved[i] = back[i];
})", "product");
    auto bits = [](float f) { unsigned u; memcpy(&u, &f, 4); return static_cast<unsigned short>(u >> 16); };
    std::vector<float> a(256), b(128);
    std::vector<unsigned short> ha, hb;
    for (int i = 0; i < 256; i++) ha.push_back(bits(a[i] = i % 7 - 3));
    for (int i = 0; i < 128; i++) hb.push_back(bits(b[i] = i % 5 - 2));
    Buffer<unsigned short> da(ha), db(hb), moved(std::vector<unsigned short>(128));
    Buffer<float> d(std::vector<float>(128));
    launch(product, 1, 32, 1024, {&da.at, &db.at, &d.at, &moved.at});
    auto out = d.read();
    for (int r = 0; r < 16; r++)
        for (int n = 0; n < 8; n++) {
            float expected = 1;
            for (int k = 0; k < 16; k++) expected += a[r * 16 + k] * b[k * 8 + n];
            CHECK(out[r * 8 + n] == expected);
        }
    CHECK(moved.read() == hb);
}

// TF32 through wmma, the first factor by rows and the second by columns.
static void products_of_matrices_through_wmma() {
    CUfunction product = kernel(R"(
#include <mma.h>
extern "C" __global__ void __launch_bounds__(32) product(const float* const a, const float* const b, float* const d) {
    nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 8, nvcuda::wmma::precision::tf32, nvcuda::wmma::row_major> fa;
    nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 8, nvcuda::wmma::precision::tf32, nvcuda::wmma::col_major> fb;
    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 8, float> sum;
    nvcuda::wmma::fill_fragment(sum, 2.0f);
    nvcuda::wmma::load_matrix_sync(fa, a, 8);
    nvcuda::wmma::load_matrix_sync(fb, b, 8);
    nvcuda::wmma::mma_sync(sum, fa, fb, sum);
    nvcuda::wmma::store_matrix_sync(d, sum, 16, nvcuda::wmma::mem_row_major);
})", "product");
    std::vector<float> a(128), b(128);
    for (int i = 0; i < 128; i++) a[i] = i % 9 - 4, b[i] = i % 4 - 1;
    Buffer<float> da(a), db(b), d(std::vector<float>(256));
    launch(product, 1, 32, 0, {&da.at, &db.at, &d.at});
    auto out = d.read();
    for (int r = 0; r < 16; r++)
        for (int n = 0; n < 16; n++) {
            float expected = 2;
            for (int k = 0; k < 8; k++) expected += a[r * 8 + k] * b[n * 8 + k];
            CHECK(out[r * 16 + n] == expected);
        }
}

// A tile through a tensor map, half of it outside of the tensor, announced at an mbarrier; one elected lane asks for it.
static void tiles_through_tensor_maps() {
    CUfunction tile = kernel(R"(
#include <cuda/barrier>
typedef struct CUtensorMap_st { alignas(64) unsigned long long opaque[16]; } CUtensorMap;
extern "C" __global__ void __launch_bounds__(32) tile(const __grid_constant__ CUtensorMap map, float* const out) {
    extern __shared__ __align__(128) char memory[];
    typedef cuda::barrier<cuda::thread_scope_block> Barrier;
    Barrier* bar = reinterpret_cast<Barrier*>(memory);
    float* tile = reinterpret_cast<float*>(memory + 256);
    unsigned first;
    asm volatile("{\n\t.reg .pred %%px;\n\t.reg .b32 %mask;\n\tactivemask.b32 %mask;\n\telect.sync _|%%px, %mask;\n\tselp.b32 %0, 1, 0, %%px;\n\t}"
        : "=r"(first) : );
    if (first) {
        init(bar, 1);
        cuda::device::experimental::cp_async_bulk_tensor_2d_global_to_shared(tile, &map, 4, 2, *bar);
        cuda::device::barrier_arrive_tx(*bar, 1, 4 * 8 * 4);
    }
    __syncwarp();
    bar->wait_parity(0);
    out[threadIdx.x] = tile[threadIdx.x];
})", "tile");
    std::vector<float> in(8 * 4);
    for (int i = 0; i < 32; i++) in[i] = i + 1;
    Buffer<float> from(in), to(std::vector<float>(32));
    CUtensorMap map;
    cuuint64_t shape[] = {8, 4}, strides[] = {32};
    cuuint32_t box[] = {8, 4}, steps[] = {1, 1};
    OK(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, reinterpret_cast<void*>(from.at), shape, strides, box, steps,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_32B, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    launch(tile, 1, 32, 512, {&map, &to.at});
    auto out = to.read();
    for (int row = 0; row < 4; row++)
        for (int column = 0; column < 8; column++) {
            float expected = row + 2 < 4 && column + 4 < 8 ? in[(row + 2) * 8 + column + 4] : 0;
            // Rows of 32 bytes are swizzled: the halves of every other pair of 128 bytes change places.
            int at = row * 8 + column, place = at ^ ((at * 4 >> 7 & 1) * 4);
            CHECK(out[place] == expected);
        }
    box[0] = 3;  // 12 bytes are no whole piece
    CHECK(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, reinterpret_cast<void*>(from.at), shape, strides, box, steps,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != 0);
}

// The patches of a 3 x 3 filter's left upper place: a column of pixels, shifted over the edge.
static void columns_of_pixels_through_tensor_maps() {
    CUfunction columns = kernel(R"(
#include <cuda/barrier>
typedef struct CUtensorMap_st { alignas(64) unsigned long long opaque[16]; } CUtensorMap;
extern "C" __global__ void __launch_bounds__(32) columns(const __grid_constant__ CUtensorMap map, float* const out) {
    extern __shared__ __align__(128) char memory[];
    typedef cuda::barrier<cuda::thread_scope_block> Barrier;
    Barrier* bar = reinterpret_cast<Barrier*>(memory);
    float* tile = reinterpret_cast<float*>(memory + 128);
    if (threadIdx.x == 0) {
        init(bar, 1);
        cuda::device::barrier_arrive_tx(*bar, 1, 8 * 4 * 4);
        unsigned to = __cvta_generic_to_shared(tile), handle = __cvta_generic_to_shared(cuda::device::barrier_native_handle(*bar));
        unsigned long long at = reinterpret_cast<unsigned long long>(&map);
        int c = 0, w = -1, h = 0, n = 0;
        unsigned short ow = 0, oh = 1;
        asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%8], {%6, %7};"
            : : "r"(to), "l"(at), "r"(c), "r"(w), "r"(h), "r"(n), "h"(ow), "h"(oh), "r"(handle) : "memory");
    }
    __syncwarp();
    bar->wait_parity(0);
    out[threadIdx.x] = tile[threadIdx.x];
})", "columns");
    // 2 images of 3 x 4 pixels with 4 channels. Pixels start from one left of the image to two left of its right edge.
    std::vector<float> in(2 * 3 * 4 * 4);
    for (size_t i = 0; i < in.size(); i++) in[i] = i + 1;
    Buffer<float> from(in), to(std::vector<float>(32));
    CUtensorMap map;
    cuuint64_t shape[] = {4, 4, 3, 2}, strides[] = {16, 64, 192};
    cuuint32_t steps[] = {1, 1, 1, 1};
    int lower[] = {-1, -1}, upper[] = {-1, -1};
    OK(cuTensorMapEncodeIm2col(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, reinterpret_cast<void*>(from.at), shape, strides, lower, upper, 4, 8,
        steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    launch(columns, 1, 32, 512, {&map, &to.at});
    auto out = to.read();
    int w = -1, h = 0, n = 0;
    for (int pixel = 0; pixel < 8; pixel++) {
        for (int c = 0; c < 4; c++) {
            int x = w, y = h + 1;
            bool inside = x >= 0 && x < 4 && y >= 0 && y < 3;
            CHECK(out[pixel * 4 + c] == (inside ? in[((n * 3 + y) * 4 + x) * 4 + c] : 0));
        }
        if (++w > 2) { w = -1; if (++h > 1) { h = -1; n++; } }
    }
}

static void places_in_clusters() {
    CUfunction places = kernel(R"(
#include <cooperative_groups.h>
extern "C" __global__ void __launch_bounds__(1) __cluster_dims__(2, 1, 1) places(unsigned* const out) {
    out[blockIdx.x] = cooperative_groups::this_cluster().block_rank() * 10 + cooperative_groups::this_cluster().block_index().x;
})", "places");
    Buffer<unsigned> to(std::vector<unsigned>(4));
    launch(places, 4, 1, 0, {&to.at});
    CHECK((to.read() == std::vector<unsigned>{0, 11, 0, 11}));
    CHECK(try_launch(places, 3, 1, 0, {&to.at}) == CUDA_ERROR_INVALID_VALUE);
}

// Work of a stream that is captured is done when the graph is launched, with the arguments it was captured with.
static void captured_graphs() {
    CUfunction add = kernel(R"(
extern "C" __global__ void __launch_bounds__(1) add(unsigned* const out, unsigned const by) { *out += by; })", "add");
    Buffer<unsigned> sum({0});
    CUstream stream;
    CUgraph graph;
    CUgraphExec ready;
    OK(cuStreamCreate(&stream, 0));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (unsigned by = 1; by <= 2; by++) {
        void* arguments[] = {&sum.at, &by};
        OK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
    }
    OK(cuStreamEndCapture(stream, &graph));
    CHECK(sum.read()[0] == 0);
    OK(cuGraphInstantiateWithFlags(&ready, graph, 0));
    OK(cuGraphDestroy(graph));
    for (int i = 0; i < 3; i++) OK(cuGraphLaunch(ready, stream));
    CHECK(sum.read()[0] == 9);
    OK(cuGraphExecDestroy(ready));
    OK(cuStreamDestroy(stream));
}

static void what_the_compiler_does_not_know_is_named() {
    std::string ptx, log;
    CHECK(try_compile(R"(
extern "C" __global__ void __launch_bounds__(1) odd(unsigned* const out) { asm volatile("frobnicate.b32 %0;" : "=r"(out[0])); })",
        "--gpu-architecture=sm_90", ptx, log) == NVRTC_ERROR_COMPILATION);
    CHECK(log.find("frobnicate") != std::string::npos);
}

// Lanes that wait for what nobody does: a GPU would hang. It is told, and the context is lost.
static void a_kernel_that_cannot_end_is_stopped() {
    CUfunction stuck = kernel(R"(
#include <cuda/barrier>
extern "C" __global__ void __launch_bounds__(64) stuck(unsigned* const out) {
    extern __shared__ __align__(16) char memory[];
    auto bar = reinterpret_cast<cuda::barrier<cuda::thread_scope_block>*>(memory);
    if (threadIdx.x == 0) init(bar, 65);
    __syncthreads();
    bar->arrive_and_wait();
    out[0] = 1;
})", "stuck");
    Buffer<unsigned> to({7});
    OK(try_launch(stuck, 1, 64, 64, {&to.at}));
    CHECK(cuCtxSynchronize() == CUDA_ERROR_LAUNCH_TIMEOUT);
}

int main() {
    start();
    const struct { const char* name; std::function<void()> run; } tests[] = {
#define TEST(name) {#name, name}
        TEST(barriers_and_shared_memory_and_exchanges), TEST(votes_and_other_exchanges), TEST(atomics), TEST(copies_and_mbarriers),
        TEST(products_of_matrices_through_ptx), TEST(products_of_matrices_through_wmma), TEST(tiles_through_tensor_maps),
        TEST(columns_of_pixels_through_tensor_maps), TEST(places_in_clusters), TEST(captured_graphs),
        TEST(what_the_compiler_does_not_know_is_named),
        TEST(a_kernel_that_cannot_end_is_stopped),  // last: it loses the context
    };
    for (auto& test : tests) {
        test.run();
        printf("ok %s\n", test.name);
    }
}
