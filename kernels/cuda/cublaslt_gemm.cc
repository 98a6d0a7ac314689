// Gemm by cuBLASLt. Row-major matrices are column-major ones transposed, so
// c = op(a) op(b) is asked for as c^T = op(b)^T op(a)^T: b comes first, and the
// bias, one value per column of c, is one per row, as the epilogue wants it.
//
// Bits. The algorithm is the first that the library's heuristic names for the
// sizes, types, distances and the alignment that Gemm promises; addresses are
// never shown to it (the bias's place is, so it is asked with a stand-in).
// Where it cuts k into parts, these are stored in fp32 and added in a separate
// step, in order: the schemes that add in place are not allowed. fp32 operands
// are multiplied in fp32 (CUBLAS_COMPUTE_32F), not in TF32, whose 10 bits of
// mantissa would make a run in fp32 one of about bf16's precision. The same
// library on the same model of GPU gives the same bits in every run (cuBLAS's
// guide, "Results reproducibility").
//
// The library's handle and the chosen algorithms belong to a stream
// (GpuContext::library_state). The library is opened at the first product.
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "device/gpu_context.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/gemm_checks.h"

namespace castor::kernels::cuda {
namespace {

// The library's file is named after the version of its headers.
#define CASTOR_TEXT(x) #x
#define CASTOR_TEXT_OF(x) CASTOR_TEXT(x)
constexpr const char* kLibrary =
    "libcublasLt.so." CASTOR_TEXT_OF(CUBLAS_VER_MAJOR);

// The library's functions.
struct Api {
#define CASTOR_CUBLASLT_FUNCTIONS(F)      \
  F(cublasLtCreate)                       \
  F(cublasLtDestroy)                      \
  F(cublasLtGetStatusString)              \
  F(cublasLtMatmul)                       \
  F(cublasLtMatmulAlgoGetHeuristic)       \
  F(cublasLtMatmulDescCreate)             \
  F(cublasLtMatmulDescDestroy)            \
  F(cublasLtMatmulDescSetAttribute)       \
  F(cublasLtMatmulPreferenceCreate)       \
  F(cublasLtMatmulPreferenceDestroy)      \
  F(cublasLtMatmulPreferenceSetAttribute) \
  F(cublasLtMatrixLayoutCreate)           \
  F(cublasLtMatrixLayoutDestroy)
#define CASTOR_DECLARE(name) decltype(&::name) name = nullptr;
  CASTOR_CUBLASLT_FUNCTIONS(CASTOR_DECLARE)
#undef CASTOR_DECLARE
};

absl::StatusOr<Api> Open() {
  // Never closed: its code may be running on the device until the end.
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "matrix products on the GPU need cuBLASLt, and ", kLibrary,
        " cannot be opened (", dlerror(),
        "): install CUDA's cuBLAS, or add its folder to LD_LIBRARY_PATH"));
  }
  Api api;
#define CASTOR_LOAD(name)                                                 \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(library, #name)); \
  if (api.name == nullptr) {                                              \
    return absl::FailedPreconditionError(                                 \
        absl::StrCat(kLibrary, " has no function ", #name));              \
  }
  CASTOR_CUBLASLT_FUNCTIONS(CASTOR_LOAD)
#undef CASTOR_LOAD
  return api;
}

// The process's one. Its functions have no state; handles have.
const absl::StatusOr<Api>& Library() {
  static const auto* const api = new absl::StatusOr<Api>(Open());
  return *api;
}

absl::Status Error(const Api& api, const char* what, cublasStatus_t status) {
  return absl::InternalError(absl::StrCat("cuBLASLt: ", what, ": ",
                                          api.cublasLtGetStatusString(status)));
}

#define CASTOR_CUBLASLT(api, call)                             \
  do {                                                         \
    const cublasStatus_t castor_cublas = (api).call;           \
    if (castor_cublas != CUBLAS_STATUS_SUCCESS) [[unlikely]] { \
      return Error(api, #call, castor_cublas);                 \
    }                                                          \
  } while (false)

// All that a product's algorithm may depend on.
struct Key {
  int64_t m, n, k, lda, ldb, ldc;
  bool transpose_a, transpose_b, bias, accumulate;
  DType operands, result;

  friend auto operator<=>(const Key&, const Key&) = default;
};

// A product ready to run. Owns the library's descriptions.
struct Plan {
  Plan() = default;
  ~Plan() {
    for (cublasLtMatrixLayout_t layout : {first, second, result}) {
      if (layout != nullptr) api->cublasLtMatrixLayoutDestroy(layout);
    }
    if (product != nullptr) api->cublasLtMatmulDescDestroy(product);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  const Api* api = nullptr;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t first = nullptr, second = nullptr, result = nullptr;
  cublasLtMatmulAlgo_t algorithm = {};
};

cudaDataType TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return CUDA_R_32F;
    case DType::kBFloat16:
      return CUDA_R_16BF;
    case DType::kFloat16:
      return CUDA_R_16F;
  }
  CASTOR_CHECK(false);
}

template <class Attribute, class Value>
absl::Status SetProduct(const Api& api, cublasLtMatmulDesc_t product,
                        Attribute attribute, const Value& value) {
  CASTOR_CUBLASLT(api, cublasLtMatmulDescSetAttribute(product, attribute,
                                                      &value, sizeof(value)));
  return absl::OkStatus();
}

absl::Status Describe(const Api& api, const Key& key, Plan& plan) {
  plan.api = &api;
  CASTOR_CUBLASLT(api, cublasLtMatmulDescCreate(
                           &plan.product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  // op of b and of a, as they lie in memory.
  const cublasOperation_t first = key.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = key.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  CASTOR_RETURN_IF_ERROR(
      SetProduct(api, plan.product, CUBLASLT_MATMUL_DESC_TRANSA, first));
  CASTOR_RETURN_IF_ERROR(
      SetProduct(api, plan.product, CUBLASLT_MATMUL_DESC_TRANSB, second));
  if (key.bias) {
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    const int32_t type = TypeOf(key.result);
    // A stand-in with the alignment that Gemm promises.
    const void* bias = reinterpret_cast<const void*>(kGemmAlignment);
    CASTOR_RETURN_IF_ERROR(
        SetProduct(api, plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue));
    CASTOR_RETURN_IF_ERROR(SetProduct(
        api, plan.product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type));
    CASTOR_RETURN_IF_ERROR(
        SetProduct(api, plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias));
  }
  // Column-major: rows and columns change places.
  const auto layout = [&](DType dtype, int64_t rows, int64_t columns,
                          int64_t distance,
                          cublasLtMatrixLayout_t* made) -> absl::Status {
    CASTOR_CUBLASLT(
        api, cublasLtMatrixLayoutCreate(made, TypeOf(dtype),
                                        static_cast<uint64_t>(columns),
                                        static_cast<uint64_t>(rows), distance));
    return absl::OkStatus();
  };
  CASTOR_RETURN_IF_ERROR(layout(key.operands, key.transpose_b ? key.n : key.k,
                                key.transpose_b ? key.k : key.n, key.ldb,
                                &plan.first));
  CASTOR_RETURN_IF_ERROR(layout(key.operands, key.transpose_a ? key.k : key.m,
                                key.transpose_a ? key.m : key.k, key.lda,
                                &plan.second));
  return layout(key.result, key.m, key.n, key.ldc, &plan.result);
}

// Returns whether several blocks may each form a part of one sum (split-K),
// which the library then adds in fp32. They may not where there is a bias in 16
// bits: the library was seen to add it after rounding, so that the result was
// rounded twice (github.com/pytorch/pytorch, issue 180875). They may not
// either where the terms do not fill the last tile: versions 12 and 13 were
// seen to leave terms out then (github.com/facebookexperimental/triton, issue
// 2767).
bool MayDivideSums(const Key& key) {
  // No tile of the library's kernels is known to be deeper; 32 and 64 terms are
  // usual in 16 bits, 8 to 32 in fp32.
  constexpr int64_t kDeepestTile = 128;
  return key.k % kDeepestTile == 0 &&
         !(key.bias && key.result != DType::kFloat32);
}

absl::Status Choose(const Api& api, cublasLtHandle_t handle, const Key& key,
                    Plan& plan) {
  cublasLtMatmulPreference_t preference = nullptr;
  CASTOR_CUBLASLT(api, cublasLtMatmulPreferenceCreate(&preference));
  const auto destroy = [&api](cublasLtMatmulPreference_t p) {
    api.cublasLtMatmulPreferenceDestroy(p);
  };
  const std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>,
                        decltype(destroy)>
      owner(preference, destroy);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute,
                       const auto& value) -> absl::Status {
    CASTOR_CUBLASLT(api, cublasLtMatmulPreferenceSetAttribute(
                             preference, attribute, &value, sizeof(value)));
    return absl::OkStatus();
  };
  const uint64_t workspace =
      static_cast<uint64_t>(GemmWorkspaceBytes(key.m, key.n));
  const uint32_t schemes = MayDivideSums(key)
                               ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                               : CUBLASLT_REDUCTION_SCHEME_NONE;
  const uint32_t alignment = static_cast<uint32_t>(kGemmAlignment);
  CASTOR_RETURN_IF_ERROR(
      set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace));
  CASTOR_RETURN_IF_ERROR(
      set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes));
  for (const auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    CASTOR_RETURN_IF_ERROR(set(attribute, alignment));
  }
  cublasLtMatmulHeuristicResult_t found = {};
  int count = 0;
  const cublasStatus_t status = api.cublasLtMatmulAlgoGetHeuristic(
      handle, plan.product, plan.first, plan.second, plan.result, plan.result,
      preference, 1, &found, &count);
  if (status != CUBLAS_STATUS_SUCCESS || count == 0 ||
      found.state != CUBLAS_STATUS_SUCCESS) {
    return absl::InternalError(absl::StrCat(
        "cuBLASLt has no algorithm for [", key.m, ", ", key.k, "] x [", key.k,
        ", ", key.n, "] in ", DTypeName(key.operands), ", rows ", key.lda, ", ",
        key.ldb, " and ", key.ldc, " apart", key.bias ? ", with a bias" : "",
        status == CUBLAS_STATUS_SUCCESS
            ? ""
            : absl::StrCat(": ", api.cublasLtGetStatusString(status))));
  }
  plan.algorithm = found.algo;
  return absl::OkStatus();
}

// A stream's handle and plans.
class Products {
 public:
  static absl::StatusOr<std::shared_ptr<Products>> Create() {
    CASTOR_RETURN_IF_ERROR(Library().status());
    const Api& api = *Library();
    cublasLtHandle_t handle = nullptr;
    CASTOR_CUBLASLT(api, cublasLtCreate(&handle));
    return std::make_shared<Products>(api, handle);
  }

  Products(const Api& api, cublasLtHandle_t handle)
      : api_(api), handle_(handle) {}
  ~Products() {
    plans_.clear();
    api_.cublasLtDestroy(handle_);
  }
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  absl::Status Run(const ExecContext& context, const GemmArgs& args) {
    CASTOR_ASSIGN_OR_RETURN(const Plan* plan, Find(args));
    if (args.bias != nullptr) {
      CASTOR_RETURN_IF_ERROR(SetProduct(
          api_, plan->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, args.bias));
    }
    context.gpu->BeforeLaunches(kMostLaunchesOfGemm);
    const float alpha = 1;
    const float beta = args.accumulate ? 1 : 0;
    CASTOR_CUBLASLT(
        api_,
        cublasLtMatmul(handle_, plan->product, &alpha, args.b, plan->first,
                       args.a, plan->second, &beta, args.c, plan->result,
                       args.c, plan->result, &plan->algorithm, args.workspace,
                       static_cast<size_t>(GemmWorkspaceBytes(args.m, args.n)),
                       static_cast<cudaStream_t>(context.gpu->stream)));
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<const Plan*> Find(const GemmArgs& args) {
    const Key key = {args.m,           args.n,           args.k,
                     args.lda,         args.ldb,         args.ldc,
                     args.transpose_a, args.transpose_b, args.bias != nullptr,
                     args.accumulate,  args.operands,    args.result};
    const auto it = plans_.find(key);
    if (it != plans_.end()) return it->second.get();
    auto plan = std::make_unique<Plan>();
    CASTOR_RETURN_IF_ERROR(Describe(api_, key, *plan));
    CASTOR_RETURN_IF_ERROR(Choose(api_, handle_, key, *plan));
    return plans_.emplace(key, std::move(plan)).first->second.get();
  }

  const Api& api_;
  const cublasLtHandle_t handle_;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace

absl::Status Gemm(const ExecContext& context, const GemmArgs& args) {
  CASTOR_RETURN_IF_ERROR(CheckGemm(args));
  std::shared_ptr<void>& state = *context.gpu->library_state;
  if (state == nullptr) {
    CASTOR_ASSIGN_OR_RETURN(state, Products::Create());
  }
  return static_cast<Products*>(state.get())->Run(context, args);
}

}  // namespace castor::kernels::cuda
