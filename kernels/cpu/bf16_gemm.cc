#include "kernels/cpu/bf16_gemm.h"

#include <dnnl.hpp>
#include <new>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/gemm.h"

namespace castor::kernels::cpu {
namespace {

using dnnl::memory;

memory::dims Strides(bool transpose, int64_t ld) {
  return transpose ? memory::dims{1, ld} : memory::dims{ld, 1};
}

memory::desc Matrix(memory::data_type type, int64_t rows, int64_t columns,
                    bool transpose, int64_t ld) {
  return memory::desc({rows, columns}, type, Strides(transpose, ld));
}

const dnnl::engine& CpuEngine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// A product whose sizes are given when it runs: making one takes longer than
// most products do.
class Product {
 public:
  Product(bool transpose_a, bool transpose_b, bool accumulate) {
    constexpr int64_t kAny = DNNL_RUNTIME_DIM_VAL;
    const memory::desc a =
        Matrix(memory::data_type::bf16, kAny, kAny, transpose_a, kAny);
    const memory::desc b =
        Matrix(memory::data_type::bf16, kAny, kAny, transpose_b, kAny);
    const memory::desc c =
        Matrix(memory::data_type::f32, kAny, kAny, false, kAny);
    dnnl::primitive_attr attributes;
    if (accumulate) {
      dnnl::post_ops add_to_c;
      add_to_c.append_sum(1.0f);
      attributes.set_post_ops(add_to_c);
    }
    // Threads share the product, so each brings scratch of its own.
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc description(CpuEngine(), a, b, c,
                                                   attributes);
#else
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, b, c),
                                                   attributes, CpuEngine());
#endif
    scratchpad_ = description.scratchpad_desc();
    product_ = dnnl::matmul(description);
  }

  const dnnl::matmul& product() const { return product_; }
  const memory::desc& scratchpad() const { return scratchpad_; }

 private:
  dnnl::matmul product_;
  memory::desc scratchpad_;
};

const Product& ProductOf(bool transpose_a, bool transpose_b, bool accumulate) {
  static const Product products[2][2][2] = {
      {{Product(false, false, false), Product(false, false, true)},
       {Product(false, true, false), Product(false, true, true)}},
      {{Product(true, false, false), Product(true, false, true)},
       {Product(true, true, false), Product(true, true, true)}}};
  return products[transpose_a][transpose_b][accumulate];
}

}  // namespace

bool HasBf16Gemm() {
  static const bool has = [] {
    // An instruction set's number has the bits of all that it includes; an
    // unknown one is 0.
    constexpr int kBf16 = static_cast<int>(dnnl::cpu_isa::avx512_core_bf16);
    const int isa = static_cast<int>(dnnl::get_effective_cpu_isa());
    return (isa & kBf16) == kBf16;
  }();
  return has;
}

absl::Status Bf16Gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n,
                      int64_t k, const void* a, int64_t lda, const void* b,
                      int64_t ldb, bool accumulate, float* c, int64_t ldc) {
  if (m == 0 || n == 0) return absl::OkStatus();
  if (k == 0) {
    if (!accumulate) ClearRows(m, n, c, ldc);
    return absl::OkStatus();
  }
  LimitOpenMpToThisThread();
  // oneDNN takes pointers to memory that may be written for all operands.
  const auto bound = [](const memory::desc& matrix, const void* data) {
    return memory(matrix, CpuEngine(), const_cast<void*>(data));
  };
  try {
    const Product& product = ProductOf(transpose_a, transpose_b, accumulate);
    static thread_local dnnl::stream stream(CpuEngine());
    const memory::desc& scratchpad = product.scratchpad();
    product.product().execute(
        stream,
        {{DNNL_ARG_SRC,
          bound(Matrix(memory::data_type::bf16, m, k, transpose_a, lda), a)},
         {DNNL_ARG_WEIGHTS,
          bound(Matrix(memory::data_type::bf16, k, n, transpose_b, ldb), b)},
         {DNNL_ARG_DST,
          bound(Matrix(memory::data_type::f32, m, n, false, ldc), c)},
         {DNNL_ARG_SCRATCHPAD, memory(scratchpad, CpuEngine())}});
    stream.wait();
    return absl::OkStatus();
  } catch (const dnnl::error& error) {
    return absl::InternalError(
        absl::StrCat("oneDNN's bf16 matmul of [", m, ", ", k, "] x [", k, ", ",
                     n, "] failed with status ", static_cast<int>(error.status),
                     error.status == dnnl_out_of_memory
                         ? ": the host has too little free memory"
                         : ""));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat("oneDNN's bf16 matmul of [", m, ", ", k, "] x [", k, ", ",
                     n, "] failed: the host has too little free memory"));
  }
}

}  // namespace castor::kernels::cpu
